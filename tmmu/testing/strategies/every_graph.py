"""Every small graph with every execution order, view and in-place choice: no random draw, nothing left out.

A graph whose nodes are numbered by the order in which they run has edges from lower numbers to higher ones alone. So
the choices of operands, for each node any of the results before it, give every graph with every execution order, each
exactly once up to renaming: two that differ in names alone have the same choices. On top of that, each result may ask
to take the bytes of any one of its operands, or be a view of one. spec: T6.4
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

from tmmu.core.vocabulary import Body, Model, Node, Role, Tensor, View
from tmmu.testing.strategies.recipes import DECLARED


class GraphChoice(NamedTuple):
    """What one node reads, by the numbers of nodes; how its result is to share; with which operand (-1: none)."""

    reads: tuple[int, ...]
    how: str
    of: int


ALONE, IN_PLACE, A_VIEW = "alone", "in place", "view"


def choices(node: int, ways: Sequence[str]) -> list[GraphChoice]:
    """Everything that the node of this number may do."""
    found = []
    for bits in range(1 << node):
        reads = tuple(k for k in range(node) if bits >> k & 1)
        found.append(GraphChoice(reads, ALONE, -1))
        found += [GraphChoice(reads, how, of) for how in ways for of in reads]
    return found


def graphs(nodes: int, ways: Sequence[str] = (IN_PLACE, A_VIEW)) -> Iterator[tuple[GraphChoice, ...]]:
    """Every graph of so many nodes, in its order, with every choice of `ways` to share."""
    return product(*(choices(node, ways) for node in range(nodes)))


def model_of(graph: Sequence[GraphChoice], *, outputs: str = "sinks") -> Model:
    """The graph as a model. Nodes without operands read nothing; `outputs` are the sinks, the last node, or none.

    Results are of one size, so that each could take the bytes of any other; the operation is a declared one, for
    which views and in-place results count where the model declares them.
    """
    tensors = [
        Tensor(f"t{k}", (4,), "uint8", Role.ACTIVATION, 4, view=View(c.of, 0, 4) if c.how == A_VIEW else None)
        for k, c in enumerate(graph)
    ]
    nodes = [
        Node(f"n{k}", "F", c.reads, (k,), DECLARED, in_place=((k, c.of),) if c.how == IN_PLACE else ())
        for k, c in enumerate(graph)
    ]
    read = {r for c in graph for r in c.reads}
    chosen = {
        "sinks": tuple(k for k in range(len(graph)) if k not in read),
        "last": tuple(range(len(graph)))[-1:],
        "none": (),
    }[outputs]
    return Model("graph", tuple(tensors), tuple(nodes), (Body(-1, "", (), chosen),))


def lifetimes(graph: Sequence[GraphChoice], outputs: Sequence[int]) -> list[tuple[int, int]]:
    """When each result is written, and when it is read last: straight from the choices."""
    last = len(graph) - 1
    ends = [max((n for n, c in enumerate(graph) if k in c.reads), default=k) for k in range(len(graph))]
    return [(k, last if k in outputs else end) for k, end in enumerate(ends)]


def fewest_colours(lives: Sequence[tuple[int, int]]) -> int:
    """The fewest slots in which no two that meet are together, by trying all assignments with ever more slots."""

    def fits(slots: list[list[tuple[int, int]]], rest: Sequence[tuple[int, int]]) -> bool:
        if not rest:
            return True
        birth, death = rest[0]
        for slot in slots:
            if all(d < birth or death < b for b, d in slot):
                slot.append((birth, death))
                if fits(slots, rest[1:]):
                    return True
                slot.pop()
        return False

    return next(k for k in range(len(lives) + 1) if fits([[] for _ in range(k)], lives))
