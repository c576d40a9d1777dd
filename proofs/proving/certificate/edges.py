"""The evidence for plans that pack storages byte by byte: who lies next above whom, and from which step to which.

At each step an arena is a column: its floor, the storages that are live, its roof. An edge says that one of them is the
next above another over a stretch of steps. A sweep over births and deaths finds the edges, fewer than three for each
storage. They are *not trusted*: `proofs.proving.obligations.by_edges` checks that they tile every lifetime from both
sides and that each leads up, and the lemmas of `proofs.proving.lemmas.plan.tiling` and `column` say what follows. spec:
V1.12
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from proofs.proving.certificate.slots import Rows
from tmmu.plans.allocation import Placement


class Edges(NamedTuple):
    """Edges of one arena, as columns: nodes below and above, first and last step, both included.

    Nodes are numbered from 0 in the order of `storages`, the storages of the arena that have bytes; then come the
    floor and the roof.
    """

    storages: Rows
    below: Rows
    above: Rows
    first: Rows
    last: Rows

    @property
    def floor(self) -> int:
        """The node below everything."""
        return len(self.storages)

    @property
    def roof(self) -> int:
        """The node above everything."""
        return len(self.storages) + 1


def lives(placement: Placement, rows: Rows, always: bool) -> tuple[Rows, Rows]:
    """First and last step of some storages; where they `always` live, those of the plan."""
    if always:
        return np.zeros(len(rows), np.int64), np.full(len(rows), placement.last_step, np.int64)
    return placement.storages.birth[rows].astype(np.int64), placement.storages.death[rows].astype(np.int64)


def edges(placement: Placement, arena: int, always: bool = False) -> Edges:
    """The edges of an arena, in which storages may `always` live. O(n log n), but for the bits of buckets."""
    s = placement.storages
    rows = np.flatnonzero((s.arena == arena) & (s.bytes > 0)).astype(np.int64)
    birth, death = lives(placement, rows, always)
    return between(rows, s.offset[rows], birth, death, placement.last_step)


def between(rows: Rows, offset: NDArray[np.uint64], birth: Rows, death: Rows, last_step: int) -> Edges:
    """The edges between the storages `rows`, which have bytes and these offsets and lifetimes, up to a last step."""
    floor, roof = len(rows), len(rows) + 1
    by_offset = np.lexsort((np.arange(len(rows)), offset))
    rank = np.empty(len(rows), np.int64)
    rank[by_offset] = np.arange(len(rows))
    rank_of, node_at = rank.tolist(), by_offset.tolist()
    step = np.concatenate([birth, death + 1])
    dies = np.arange(len(step)) >= len(rows)
    order, steps = np.lexsort((~dies, step)), array("q", step.astype(np.int64).tobytes())
    column = _Column(len(rows))
    above, since = [0] * (len(rows) + 1), [0] * (len(rows) + 1)
    above[floor] = roof
    found = array("q")  # of each edge its four numbers

    def change(node: int, to: int, at: int) -> None:
        """From step `at` on, `to` is what lies above `node`."""
        if since[node] < at:
            found.extend((node, above[node], since[node], at - 1))
        above[node], since[node] = to, at

    for event in order.tolist():
        at, node = steps[event], event % len(rows)
        if event >= len(rows):
            below = column.remove(rank_of[node])
            change(floor if below < 0 else node_at[below], above[node], at)
            change(node, roof, at)
        else:
            below = column.insert(rank_of[node])
            under = floor if below < 0 else node_at[below]
            above[node], since[node] = above[under], at
            change(under, node, at)
    change(floor, roof, last_step + 1)
    table = np.frombuffer(found, np.int64).reshape(-1, 4)
    return Edges(rows, table[:, 0], table[:, 1], table[:, 2], table[:, 3])


class _Column:
    """Which of n ranks are live, in buckets, each a short sorted list; `filled` has a bit for each that has any."""

    WIDTH = 9
    """The number of bits of a rank within its bucket."""

    def __init__(self, count: int) -> None:
        self.buckets: list[list[int]] = [[] for _ in range((count >> self.WIDTH) + 1)]
        self.filled = 0

    def insert(self, rank: int) -> int:
        """Make `rank` live; the highest live rank below it, or -1."""
        number = rank >> self.WIDTH
        bucket = self.buckets[number]
        if not bucket:
            self.filled |= 1 << number
        place = bisect_left(bucket, rank)
        bucket.insert(place, rank)
        return bucket[place - 1] if place else self._below(number)

    def remove(self, rank: int) -> int:
        """Let `rank` die; the highest live rank below it, or -1."""
        number = rank >> self.WIDTH
        bucket = self.buckets[number]
        place = bisect_left(bucket, rank)
        if bucket[place : place + 1] == [rank]:  # what dies before its birth never lived: no edges fit such a plan
            del bucket[place]
            if not bucket:
                self.filled ^= 1 << number
        return bucket[place - 1] if place else self._below(number)

    def _below(self, number: int) -> int:
        """The highest live rank of the buckets before one, or -1. O(buckets / 64) by one operation on their bits."""
        before = (self.filled & ((1 << number) - 1)).bit_length()
        return self.buckets[before - 1][-1] if before else -1
