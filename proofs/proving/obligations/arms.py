"""What exclusive arms change for the rows: which step wrote what is read, what leaves take, which writes are further.

The arms form a forest; a write stands in an arm, or in none. A read finds a tensor written if a write came before it
that stands in one of the arms around the read, or in none; a node all of whose arms write a tensor counts as a write at
its leave. Loops and other bodies are in sequence, as everywhere. spec: X4.3, X4.4, X4.5
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from proofs.readers.arms import Branches
from tmmu.plans.allocation import Allocation

Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]
OUTSIDE = -1
"""The arm of what stands in none."""


class Accesses(NamedTuple):
    """One entry for each access, by step: the step and the tensor."""

    step: Rows
    tensor: Rows

    def chosen(self, which: Mask | Rows) -> Accesses:
        """The entries that are marked or listed."""
        return Accesses(self.step[which], self.tensor[which])


class Ways(NamedTuple):
    """The accesses of a plan along the ways that control may take.

    `reads` are those that happen at their own step, `source` for each the step that has written the tensor, which is
    later than the read where a way leads there without a write. `taken` are the reads of leaves, each at the last step
    of an arm that may have written the tensor; `missing` those of them whose arm need not have. `further` marks the
    writes that no other write of the tensor precedes, though one stands before them. `joined` are the leaves of nodes
    each arm of which writes a tensor.
    """

    reads: Accesses
    source: Rows
    taken: Accesses
    missing: Accesses
    further: Mask
    joined: Accesses


def ways(
    allocation: Allocation,
    nodes: list[Branches],
    reads: Accesses,
    writes: Accesses,
    changes: Mask,
    writer: Rows,
    returned: Mask,
) -> Ways:
    """The accesses of a plan as its exclusive arms allow them. O(accesses × depth of arms)."""
    source, further = writer[reads.tensor], np.zeros(len(writes.step), np.bool_)
    if not nodes:
        return Ways(reads, source, _sorted([]), _sorted([]), further, _sorted([]))
    forest = _forest(nodes, len(allocation.steps))
    made = ~changes & (writer[writes.tensor] >= 0)
    concerned = np.unique(writes.tensor[made & (forest.inner[writes.step] != OUTSIDE)])
    steps: dict[int, list[int]] = {t: [] for t in concerned.tolist()}
    entries = np.flatnonzero(made & np.isin(writes.tensor, concerned)).tolist()
    for entry in entries:
        steps[int(writes.tensor[entry])].append(int(writes.step[entry]))
    written = {t: forest.written(at) for t, at in steps.items()}
    in_arm = allocation.bodies.exclusive[allocation.steps.body] == 1
    for entry in entries:
        t, step = int(writes.tensor[entry]), int(writes.step[entry])
        further[entry] = step != writer[t] and written[t].is_exclusive and all(in_arm[at] for at in steps[t])
    takes = {(node.leave, t): arms for node, arms in forest.nodes for t in node.taken}
    stays = np.ones(len(reads.step), np.bool_)
    taken: list[tuple[int, int]] = []
    missing = [(allocation.last_step, t) for t in np.flatnonzero(returned).tolist() if t in written]
    missing = [(step, t) for step, t in missing if OUTSIDE not in written[t].surely]
    for entry in np.flatnonzero(np.isin(reads.tensor, concerned)).tolist():
        t, step = int(reads.tensor[entry]), int(reads.step[entry])
        for arm in takes.get((step, t), ()):
            if arm in written[t].perhaps:
                stays[entry] = False
                (taken if arm in written[t].surely else missing).append((forest.ends[arm], t))
        source[entry] = forest.source(written[t], step)
    joined = _sorted([(leave, t) for t in steps for leave in written[t].joins])
    return Ways(reads.chosen(stays), source[stays], _sorted(taken), _sorted(missing), further, joined)


def _sorted(entries: list[tuple[int, int]]) -> Accesses:
    table = np.array(sorted(set(entries)), np.int64).reshape(-1, 2)
    return Accesses(table[:, 0], table[:, 1])


class _Written(NamedTuple):
    """The arms in which a tensor is surely written, each with the first step after which it is, and perhaps written.

    `is_exclusive`: no way leads from one of its writes to another. `joins` are the leaves of the nodes each arm of
    which writes it.
    """

    surely: dict[int, int]
    perhaps: frozenset[int]
    is_exclusive: bool
    joins: tuple[int, ...]


@dataclass(frozen=True)
class _Forest:
    """The arms of all nodes, numbered outer ones first: the innermost one of each step, and by arm the one around it.

    `ends` are the arms' last steps, `nodes` the nodes, outer ones first, each with the numbers of its arms.
    """

    inner: Rows
    above: list[int]
    ends: list[int]
    nodes: list[tuple[Branches, list[int]]]

    def around(self, step: int) -> Iterator[int]:
        """The arms around a step, the innermost first, and `OUTSIDE`."""
        arm = int(self.inner[step])
        while arm != OUTSIDE:
            yield arm
            arm = self.above[arm]
        yield OUTSIDE

    def written(self, steps: list[int]) -> _Written:
        """Where a tensor is written that these steps write. O(nodes around them)."""
        events: dict[int, set[int]] = {}
        surely: dict[int, int] = {}
        joins = []
        for step in steps:
            arm = int(self.inner[step])
            events.setdefault(arm, set()).add(step)
            surely[arm] = min(step, surely.get(arm, step))
        of = {arm for step in steps for arm in self.around(step) if arm != OUTSIDE}
        for number in sorted({self.node_of(arm) for arm in of}, reverse=True):  # inner nodes first
            node, arms = self.nodes[number]
            above = int(self.inner[node.enter])
            events.setdefault(above, set()).add(node.enter)
            if all(arm in surely for arm in arms):
                surely[above] = min(node.leave, surely.get(above, node.leave))
                joins.append(node.leave)
        is_exclusive = all(len(each) == 1 for each in events.values())
        return _Written(surely, frozenset(events), is_exclusive, tuple(joins))

    def node_of(self, arm: int) -> int:
        """The number of the node that has an arm."""
        return bisect_right(self.nodes, arm, key=lambda node: node[1][0]) - 1

    def source(self, written: _Written, step: int) -> int:
        """The step that has written a tensor on every way to a read of it; one after all steps where there is none."""
        found = (written.surely[arm] for arm in self.around(step) if written.surely.get(arm, step) < step)
        return next(found, len(self.inner))


def _forest(nodes: list[Branches], steps: int) -> _Forest:
    forest = _Forest(np.full(steps, OUTSIDE), [], [], [])
    for node in nodes:
        around, numbers = int(forest.inner[node.enter]), []
        for arm in node.arms:
            numbers.append(len(forest.ends))
            forest.inner[arm.first : arm.last + 1] = numbers[-1]
            forest.above.append(around)
            forest.ends.append(arm.last)
        forest.nodes.append((node, numbers))
    return forest
