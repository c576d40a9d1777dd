"""Random graphs of steps: as networkx graphs and as `tmmu.Graph`. spec: TP1.1, TP1.4"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import networkx
from hypothesis import strategies as st

from tmmu.ir.graph import Graph
from tmmu.testing.strategies.buffers import ALIGNMENTS, SMALL

FIRST = 0
REACH = (1, 2, 3, FIRST)
"""How far back operands are: near ones make chains and diamonds; the first tensor has a fan-out and a long life."""
SIZES = (*SMALL, 64, 100, 256, 1000)


class NodeRow(NamedTuple):
    """A node to be: how many operands and how far back, a size, an alignment, and marks."""

    reach: tuple[int, ...]
    size: int
    alignment: int
    marks: int

    @property
    def is_output(self) -> bool:
        """Whether the caller reads the result although a node does too."""
        return self.marks & 3 == 3

    @property
    def is_dead(self) -> bool:
        """Whether the result is no output even if no node reads it."""
        return self.marks & 12 == 12


def _row(packed: int, rest: int, alignment: int) -> NodeRow:
    count = packed & 3
    reach = dict.fromkeys(REACH[packed >> (2 + 2 * k) & 3] for k in range(count))
    return NodeRow(tuple(reach), SIZES[rest % len(SIZES)], ALIGNMENTS[alignment], rest // len(SIZES))


def rows(most: int, alignments: bool) -> st.SearchStrategy[list[NodeRow]]:
    """Return a strategy for the nodes of a graph, of which there is at least one."""
    aligned = st.integers(0, len(ALIGNMENTS) - 1) if alignments else st.just(0)
    row = st.builds(_row, st.integers(0, 255), st.integers(0, 255), aligned)
    few, many = (
        st.lists(row, min_size=1, max_size=min(most, 4)),
        st.lists(row, min_size=min(most, 5), max_size=max(1, most)),
    )
    return st.one_of(few, many)


def _operands(row: NodeRow, k: int) -> list[int]:
    """Return the nodes before the k-th that it reads."""
    return list(dict.fromkeys(k - back if back else 0 for back in row.reach if max(back, 1) <= k))


def _outputs(listed: Sequence[NodeRow], reads: Sequence[Sequence[int]]) -> list[bool]:
    """Decide which results the caller reads: those that no node reads, but for the dead ones, and some others."""
    read = {operand for each in reads for operand in each}
    return [row.is_output or (k not in read and not row.is_dead) for k, row in enumerate(listed)]


@st.composite
def dags(draw: st.DrawFn, *, most: int = 12, alignments: bool = False) -> networkx.DiGraph:
    """Return a strategy for graphs of up to `most` nodes, each a step that makes a tensor.

    The nodes are in execution order, and an edge is a read. A node has the attributes `bytes` (often 0),
    `alignment` (1 unless `alignments`) and `output`: whether the caller reads the tensor after the last step. Chains,
    diamonds, fan-out, dead results, ties in size and parts without an edge between them all occur.
    """
    listed = draw(rows(most, alignments))
    is_reversed = draw(st.booleans())
    reads = [_operands(row, k) for k, row in enumerate(listed)]
    names = [f"t{len(listed) - 1 - k if is_reversed else k}" for k in range(len(listed))]
    dag = networkx.DiGraph()
    for name, row, is_output in zip(names, listed, _outputs(listed, reads), strict=True):
        dag.add_node(name, bytes=row.size, alignment=row.alignment, output=is_output)
    dag.add_edges_from((names[operand], names[k]) for k, each in enumerate(reads) for operand in each)
    return dag


@st.composite
def graphs(
    draw: st.DrawFn, *, most: int = 12, alignments: bool = False, views: bool = False, in_place: bool = False
) -> Graph:
    """Return a strategy for `tmmu.Graph` of up to `most` nodes, with inputs and parameters that the caller writes.

    With `views` some results are a Reshape of their first operand, or a window of it. With `in_place` some may take the
    bytes of an operand, which is right only if nothing reads it later.
    """
    listed = draw(rows(most, alignments))
    given = draw(st.lists(st.tuples(st.integers(0, len(SIZES) - 1), st.booleans()), max_size=3))
    graph = Graph("random")
    names = [
        (graph.parameter if is_parameter else graph.input)(f"in{k}", (SIZES[size],), "uint8")
        for k, (size, is_parameter) in enumerate(given)
    ]
    sizes = [SIZES[size] for size, _ in given]
    reads = [_operands(row, k + len(given)) for k, row in enumerate(listed)]
    for k, (row, operands) in enumerate(zip(listed, reads, strict=True)):
        size, name = row.size, f"t{k}"
        alignment = row.alignment
        of = [names[operand] for operand in operands]
        if views and operands and row.marks & 6 in (2, 4):
            size = sizes[operands[0]]
            graph.node("Reshape", of[0], graph.tensor(name, (size,), "uint8", view_of=of[0]))
        elif in_place and operands and row.marks & 2:
            size = sizes[operands[0]]
            made = graph.tensor(name, (size,), "uint8", alignment=alignment)
            graph.node("Step", of, made, domain="test", in_place={made: of[0]})
        else:
            graph.node("Step", of, graph.tensor(name, (size,), "uint8", alignment=alignment), domain="test")
        names.append(name)
        sizes.append(size)
    returned = _outputs(listed, [[operand - len(given) for operand in each] for each in reads])
    graph.output(*(name for name, is_output in zip(names[len(given) :], returned, strict=True) if is_output))
    return graph
