"""Compute how exclusive branches affect the rows: the write before each read, the reads of leaves, the further writes.

The branches form a forest, and a write is in one of them or outside of all. A read finds a tensor written if an earlier
write of it is in a branch around the read, or outside of all branches. A node that writes a tensor in every branch
counts as a write at its leave. Loops and other bodies are in sequence, as everywhere. spec: X4.3, X4.4, X4.5
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from proofs.readers.arms import BranchingNode
from tmmu.core.columns import are_among, find_distinct
from tmmu.plans.allocation import Allocation

Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]
OUTSIDE = -1
"""The branch number of a step that is outside of all branches."""


class Accesses(NamedTuple):
    """The accesses of a plan, sorted by step: the step and the tensor of each."""

    step: Rows
    tensor: Rows

    def chosen(self, which: Mask | Rows) -> Accesses:
        """Return the entries that are marked or listed."""
        return Accesses(self.step[which], self.tensor[which])


class ControlPaths(NamedTuple):
    """The accesses of a plan along the possible paths of control.

    `reads` are those that happen at their own step. `source` is, for each, the step that has written the tensor; it is
    later than the read if some path leads there without a write. `taken` are the reads of leaves, each at the last step
    of a branch that may have written the tensor. `missing` are those of them whose branch has not written it on every
    path. `further` marks the writes that are not the stated writer's, but that no other write precedes on any path.
    `joined` are the leaves of nodes that write a tensor in every branch.
    """

    reads: Accesses
    source: Rows
    taken: Accesses
    missing: Accesses
    further: Mask
    joined: Accesses


def control_paths(
    allocation: Allocation,
    nodes: list[BranchingNode],
    reads: Accesses,
    writes: Accesses,
    changes: Mask,
    writer: Rows,
    returned: Mask,
) -> ControlPaths:
    """Return the accesses of a plan as its exclusive branches allow them. O(accesses × depth of branches)."""
    source, further = writer[reads.tensor], np.zeros(len(writes.step), np.bool_)
    if not nodes:
        return ControlPaths(reads, source, _sorted([]), _sorted([]), further, _sorted([]))
    forest = _forest(nodes, len(allocation.steps))
    made = ~changes & (writer[writes.tensor] >= 0)
    concerned, _ = find_distinct(writes.tensor[made & (forest.inner[writes.step] != OUTSIDE)])
    steps: dict[int, list[int]] = {t: [] for t in concerned.tolist()}
    entries = np.flatnonzero(made & are_among(writes.tensor, concerned)).tolist()
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
    for entry in np.flatnonzero(are_among(reads.tensor, concerned)).tolist():
        t, step = int(reads.tensor[entry]), int(reads.step[entry])
        for arm in takes.get((step, t), ()):
            if arm in written[t].perhaps:
                stays[entry] = False
                (taken if arm in written[t].surely else missing).append((forest.ends[arm], t))
        source[entry] = forest.source(written[t], step)
    joined = _sorted([(leave, t) for t in steps for leave in written[t].joins])
    return ControlPaths(reads.chosen(stays), source[stays], _sorted(taken), _sorted(missing), further, joined)


def _sorted(entries: list[tuple[int, int]]) -> Accesses:
    table = np.array(sorted(set(entries)), np.int64).reshape(-1, 2)
    return Accesses(table[:, 0], table[:, 1])


class _Written(NamedTuple):
    """The branches that surely write a tensor, each with the first step after which it is written, and those that may.

    `is_exclusive` is true if no path leads from one of its writes to another. `joins` are the leaves of the nodes that
    write it in every branch.
    """

    surely: dict[int, int]
    perhaps: frozenset[int]
    is_exclusive: bool
    joins: tuple[int, ...]


@dataclass(frozen=True)
class _Forest:
    """The branches of all nodes, numbered outer ones first.

    `inner` is the innermost branch of each step and `above` the branch around each branch. `ends` are the branches'
    last steps. `nodes` are the nodes, outer ones first, each with the numbers of its branches.
    """

    inner: Rows
    above: list[int]
    ends: list[int]
    nodes: list[tuple[BranchingNode, list[int]]]

    def around(self, step: int) -> Iterator[int]:
        """Yield the branches around a step, the innermost first, then `OUTSIDE`."""
        arm = int(self.inner[step])
        while arm != OUTSIDE:
            yield arm
            arm = self.above[arm]
        yield OUTSIDE

    def written(self, steps: list[int]) -> _Written:
        """Return where a tensor is written that these steps write. O(nodes around them)."""
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
        """Return the number of the node that has a branch."""
        return bisect_right(self.nodes, arm, key=lambda node: node[1][0]) - 1

    def source(self, written: _Written, step: int) -> int:
        """Return the step that has written a tensor on every path to a read of it.

        Without one, the number exceeds all steps.
        """
        found = (written.surely[arm] for arm in self.around(step) if written.surely.get(arm, step) < step)
        return next(found, len(self.inner))


def _forest(nodes: list[BranchingNode], steps: int) -> _Forest:
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
