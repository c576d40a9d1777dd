"""Find the evidence for packed plans: the next storage above each storage, and the steps during which it is the next.

At each step an arena is a column: its bottom, the storages that are live, its top. An edge states that one node is the
next above another during some steps. A sweep over births and deaths finds the edges, fewer than three for each storage.
They are *not trusted*: `proofs.proving.obligations.by_edges` checks that they tile every lifetime from both sides and
that each leads up. The lemmas of `proofs.proving.lemmas.plan.tiling` and `column` state the consequence. spec: V1.12
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
    """The edges of one arena, as columns: nodes below and above, first and last step, both included.

    Nodes are numbered from 0 in the order of `storages`, the storages of the arena that have bytes. The bottom of the
    arena (`floor`) and its top (`roof`) follow.
    """

    storages: Rows
    below: Rows
    above: Rows
    first: Rows
    last: Rows

    @property
    def floor(self) -> int:
        """The node below all storages."""
        return len(self.storages)

    @property
    def top(self) -> int:
        """The node above all storages."""
        return len(self.storages) + 1


def lifetimes(placement: Placement, rows: Rows, always: bool) -> tuple[Rows, Rows]:
    """Return the first and last step of some storages.

    If they `always` live, these are the plan's first and last step.
    """
    if always:
        return np.zeros(len(rows), np.int64), np.full(len(rows), placement.last_step, np.int64)
    return placement.storages.birth[rows].astype(np.int64), placement.storages.death[rows].astype(np.int64)


def edges(placement: Placement, arena: int, always: bool = False) -> Edges:
    """Return the edges of an arena. If `always`, its storages live at all steps.

    O(n log n), except for the bits of buckets.
    """
    s = placement.storages
    rows = np.flatnonzero((s.arena == arena) & (s.bytes > 0)).astype(np.int64)
    birth, death = lifetimes(placement, rows, always)
    return find_edges(rows, s.offset[rows], birth, death, placement.last_step)


def find_edges(rows: Rows, offset: NDArray[np.uint64], birth: Rows, death: Rows, last_step: int) -> Edges:
    """Return the edges between the storages `rows`, of these offsets and lifetimes, up to a last step.

    Each of the storages has bytes.
    """
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
    found = array("q")  # the four numbers of each edge

    def change(node: int, to: int, at: int) -> None:
        """Record that `to` is the next above `node` from step `at` on."""
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
    """The set of live ranks among n, in buckets, each a short sorted list.

    `filled` has a bit for each nonempty bucket.
    """

    WIDTH = 9
    """The number of bits of a rank within its bucket."""

    def __init__(self, count: int) -> None:
        self.buckets: list[list[int]] = [[] for _ in range((count >> self.WIDTH) + 1)]
        self.filled = 0

    def insert(self, rank: int) -> int:
        """Add `rank`. Return the highest live rank below it, or -1."""
        number = rank >> self.WIDTH
        bucket = self.buckets[number]
        if not bucket:
            self.filled |= 1 << number
        place = bisect_left(bucket, rank)
        bucket.insert(place, rank)
        return bucket[place - 1] if place else self._below(number)

    def remove(self, rank: int) -> int:
        """Remove `rank`. Return the highest live rank below it, or -1."""
        number = rank >> self.WIDTH
        bucket = self.buckets[number]
        place = bisect_left(bucket, rank)
        if bucket[place : place + 1] == [rank]:  # else it dies before its birth, and no edges fit
            del bucket[place]
            if not bucket:
                self.filled ^= 1 << number
        return bucket[place - 1] if place else self._below(number)

    def _below(self, number: int) -> int:
        """Return the highest live rank of the buckets before one, or -1.

        One operation on their bits: O(buckets / 64).
        """
        before = (self.filled & ((1 << number) - 1)).bit_length()
        return self.buckets[before - 1][-1] if before else -1
