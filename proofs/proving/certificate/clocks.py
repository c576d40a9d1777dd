"""Compute vector clocks of the steps of a plan, as evidence that steps are ordered: one number for each stream.

The clock of a step has, for each stream, how many steps of that stream happen before it. Only a *join* needs its own
clock: a step that follows others than the step before it on its stream. Every later step has the clock of the last join
of its stream, apart from its own stream, where it has its position. Nothing here is trusted: rows compare the clock of
each join with those of the steps that it follows directly. spec: X5.2, V4.3
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tmmu.core.vocabulary import NodePart
from tmmu.plans.allocation import Allocation
from tmmu.plans.columns import PARTS

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Clocks:
    """The clocks of all joins, and the place of each step.

    `position` is the number of steps before a step on its stream. `join` is the row of the last join of the step's
    stream up to the step, or -1. Join `j` is step `steps[j]`, with the clock `clock[j]`. It follows the steps
    `follows[j]` directly; `through[j][k]` is the one of them that shows its clock for stream k, or -1 for 0.
    """

    stream: Numbers
    position: Numbers
    join: Numbers
    steps: list[int]
    clock: Numbers
    follows: list[tuple[int, ...]]
    through: Numbers

    def shown(self, step: Numbers, stream: Numbers) -> Numbers:
        """Return how many steps of each stream happen before each step."""
        of_join = np.where(self.join[step] >= 0, self.clock[self.join[step], stream], 0) if self.steps else 0 * step
        found: Numbers = np.where(self.stream[step] == stream, self.position[step], of_join)
        return found


def compute_clocks(allocation: Allocation) -> Clocks:
    """Compute the clocks of a plan with streams. O(steps + (waits + joins) x streams)."""
    stream = allocation.steps.stream.astype(np.int64)
    count, streams = len(stream), len(allocation.streams)
    follows = _find_joins(allocation)
    order = np.argsort(stream, kind="stable")
    starts = np.searchsorted(stream[order], np.arange(streams))
    position = np.empty(count, np.int64)
    position[order] = np.arange(count) - starts[stream[order]]
    join = np.full(count, -1, np.int64)
    join[list(follows)] = np.arange(len(follows))
    for k in range(streams):
        mine = order[stream[order] == k] if streams <= 64 else order[starts[k] : (*starts, count)[k + 1]]
        join[mine] = np.maximum.accumulate(join[mine])
    clock = np.zeros((len(follows), streams), np.int64)
    through = np.full((len(follows), streams), -1, np.int64)
    for j, (s, direct) in enumerate(follows.items()):
        for p in direct:
            known = clock[join[p]].copy() if join[p] >= 0 else np.zeros(streams, np.int64)
            known[stream[p]] = position[p] + 1
            better = known > clock[j]
            clock[j][better], through[j][better] = known[better], p
        through[j][stream[s]], clock[j][stream[s]] = -1, 0  # its position, which is no evidence
    return Clocks(stream, position, join, list(follows), clock, list(follows.values()), through)


def _find_joins(allocation: Allocation) -> dict[int, tuple[int, ...]]:
    """Return the steps that follow others than the step before them on their stream, with all that they follow.

    The waits of a step, and at a node with bodies a barrier: its enter follows the last step of each stream, and the
    first step of each stream after it follows its leave.
    """
    steps, found = allocation.steps, dict[int, list[int]]()
    step, after = allocation.waits
    for s, p in zip(step.tolist(), after.tolist(), strict=True):
        found.setdefault(s, []).append(p)
    enter, leave = (PARTS.index(part) for part in (NodePart.ENTER, NodePart.LEAVE))
    depth = np.cumsum((steps.part == enter).astype(np.int64) - (steps.part == leave))
    enters = np.flatnonzero((steps.part == enter) & (depth == 1)).tolist()
    leaves = np.flatnonzero((steps.part == leave) & (depth == 0)).tolist()
    of_stream = [np.flatnonzero(steps.stream == k) for k in range(len(allocation.streams))] if enters else []
    for rows in of_stream:
        for s in enters:
            if (at := int(np.searchsorted(rows, s))) > 0:
                found.setdefault(s, []).append(int(rows[at - 1]))
        for s in leaves:
            if (at := int(np.searchsorted(rows, s, "right"))) < len(rows):
                found.setdefault(int(rows[at]), []).append(s)
    previous = _find_previous(steps.stream.astype(np.int64))
    direct = {s: {*found[s], previous[s]} - {-1} for s in sorted(found)}
    return {s: tuple(sorted(p)) for s, p in direct.items()}


def _find_previous(stream: Numbers) -> list[int]:
    """Return the step before each step on its stream, or -1."""
    order = np.argsort(stream, kind="stable")
    before = np.full(len(stream), -1, np.int64)
    same = stream[order[1:]] == stream[order[:-1]]
    before[order[1:][same]] = order[:-1][same]
    found: list[int] = before.tolist()
    return found
