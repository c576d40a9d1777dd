"""Define happens-before, from streams, waits and barriers, and answer whether one step happens before another.

A step directly follows the last step before it on its stream, the steps that it waits for, and barriers: a node with
bodies follows every step before it in the list, and every step after it follows it. Happens-before is the transitive
closure. Small plans are answered by explicit reachability, larger ones by the number of steps of each stream that
happen before a step. Obligations that a solver discharges compute these numbers themselves
(`proofs.proving.certificate.clocks`).
spec: X5.1, X5.2, X5.5
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tmmu.core.vocabulary import NodePart
from tmmu.plans.allocation import Allocation
from tmmu.plans.columns import PARTS

FEW = 4096
"""Up to this number of steps, all pairs of steps are kept: 2 MiB."""


class HappensBefore(Protocol):
    """The order of the steps of a plan."""

    def __call__(self, first: int, second: int) -> bool:
        """Return whether a step has ended before another one begins, in every run."""


def list_direct_predecessors(allocation: Allocation) -> list[tuple[int, ...]]:
    """Return the steps that each step directly follows: their ends imply that of all that happens before it.

    O(steps + waits + nodes with bodies x streams).
    """
    steps = allocation.steps
    waits = steps.listed("after")
    last: dict[int, int] = {}  # the last step so far, by stream
    barrier, depth = -1, 0
    found: list[tuple[int, ...]] = []
    for s, (stream, part) in enumerate(zip(steps.stream.tolist(), steps.part.tolist(), strict=True)):
        follows = {*waits[s], *((last[stream],) if stream in last else ())}
        is_enter, is_leave = PARTS[part] is NodePart.ENTER, PARTS[part] is NodePart.LEAVE
        if is_enter and depth == 0:
            follows |= set(last.values())
        if last.get(stream, -1) < barrier:
            follows.add(barrier)
        found.append(tuple(sorted(follows)))
        last[stream] = s
        depth += is_enter - is_leave
        if is_leave and depth == 0:
            barrier = s
    return found


def find_order(allocation: Allocation) -> HappensBefore:
    """Return the order of the steps of a plan with streams that passed the gate."""
    predecessors = list_direct_predecessors(allocation)
    if len(predecessors) <= FEW:
        return Reachability(predecessors)
    return CountedOrder(predecessors, allocation.steps.stream.tolist(), len(allocation.streams))


class Reachability:
    """The transitive closure itself: bit `a` of a step's number is set if step `a` happens before it."""

    def __init__(self, predecessors: Sequence[Sequence[int]]) -> None:
        self._before: list[int] = []
        for direct in predecessors:
            reached = 0
            for p in direct:
                reached |= self._before[p] | 1 << p
            self._before.append(reached)

    def __call__(self, first: int, second: int) -> bool:
        """Return whether the first step happens before the second. O(1)."""
        return bool(self._before[second] >> first & 1)


class CountedOrder:
    """The same by counts: how many steps of each stream happen before a step. These are the first ones of the stream.

    Steps that follow only the step before them on their stream share its counts, apart from that stream's.
    """

    def __init__(self, predecessors: Sequence[Sequence[int]], stream: Sequence[int], streams: int) -> None:
        self._stream, self._position = stream, list[int]()
        self._counts: list[list[int]] = []
        length = [0] * streams
        before: dict[int, int] = {}
        for s, (direct, k) in enumerate(zip(predecessors, stream, strict=True)):
            others = [p for p in direct if stream[p] != k]
            counts = self._counts[before[k]] if k in before else [0] * streams
            if others:
                counts = list(counts)
            for p in others:
                for i, count in enumerate(self._counts[p]):
                    counts[i] = max(counts[i], count)
                counts[stream[p]] = max(counts[stream[p]], self._position[p] + 1)
            self._counts.append(counts)
            self._position.append(length[k])
            length[k] += 1
            before[k] = s

    def __call__(self, first: int, second: int) -> bool:
        """Return whether the first step happens before the second. O(1)."""
        own = self._stream[first]
        if own == self._stream[second]:
            return first < second
        return self._position[first] < self._counts[second][own]
