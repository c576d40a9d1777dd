"""Lowest-fit below a height that is known to be good, for arenas too large for lists of neighbours. Plain NumPy.

Two orders begin with the boxes that are live where most bytes are. Boxes are placed in turn at the lowest free offset;
a box too small to matter is put on the skyline, the end of the highest box at each moment of its life, as long as that
is low enough. A box that would end too high is moved halfway forward among those that it overlaps in time and that were
placed before it, and the boxes from there on are placed again. The order that has spent less, and placed more,
continues. The height is first the bound and a small part of it. If that is not reached, greater ones are tried: halfway
to the best. Work is counted, so that the result is the same on every machine. spec: A8.3
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tmmu.core.alignment import align_up
from tmmu.planner.layouts.boxes import Boxes, Packing, find_gap

NEAR = 7
"""A height is near the bound if it is above it by at most this power of two: by 0.8 %."""
WANTED = 8
"""The first height that is tried is above the bound by this power of two: by 0.4 %."""
TINY = 12
"""A box smaller than the bound by this power of two goes on the skyline."""
WORK, WORK_OF_BOX, MOST = 1_500_000, 100, 10_000_000
"""What may be spent on an arena: a part for any, a part for each box, and never more than that. A unit takes about half
a microsecond: a second for 10,000 boxes, and five for 100,000 and more.
"""
MOVES = 64
"""How many boxes may be moved forward without a placement below the height before a greater one is tried."""
SCAN = 30
"""The cost of searching for the lowest free offset, without the boxes that are looked at."""

I64 = NDArray[np.int64]


def is_near(height: int, bound: int) -> bool:
    """Return whether a height is so near the bound that large arenas are searched no further. spec: A8.13"""
    return height <= bound + (bound >> NEAR)


def place_below(boxes: Boxes, best: Packing, bound: int) -> Packing:
    """Return a placement that is lower than `best`, near `bound` if the work suffices; else `best`.

    Ignores gaps and conflicts. Sums must fit into 63 bits. O(n) memory, and time up to `MOST`.
    """
    left = work = min(MOST, WORK + WORK_OF_BOX * len(boxes))
    moments = _Moments(boxes)
    attempts = [_Attempt(moments, order, bound >> TINY) for order in moments.orders()]
    step = bound >> WANTED
    missed, below, moves = bound, bound + step + 1, 0
    while attempts and left > 0 and best.height > missed + 2 * step:
        attempt = min(attempts, key=_weigh_attempt)
        left += attempt.spent
        found = attempt.advance(below, left)
        left -= attempt.spent
        moves += 1
        if attempt.is_stuck:
            attempts.remove(attempt)
        if found is not None:
            best, moves = found, 0
            below = (missed + best.height + 1) // 2
        elif moves == MOVES or (missed == bound and left < work // 4):
            missed, moves = below, 0
            below = (missed + best.height + 1) // 2
    return best


def _weigh_attempt(attempt: _Attempt) -> int:
    """Return what an order has spent, times the boxes that it has not placed: the least continues."""
    return attempt.spent * (len(attempt.order) - attempt.placed)


class _Moments:
    """The boxes with their lives as ranges of moments: the steps at which some box is born."""

    def __init__(self, boxes: Boxes) -> None:
        self.boxes = boxes
        birth = np.asarray(boxes.birth, np.int64)
        born = np.unique(birth)
        self.count = len(born)
        self.first = np.searchsorted(born, birth)
        self.last = np.searchsorted(born, np.asarray(boxes.death, np.int64), "right")  # half-open
        self.size = np.asarray(boxes.size, np.int64)
        # a life is covered by the two ranges of 2^level moments at its ends
        self.level = np.searchsorted(1 << np.arange(63), self.last - self.first, "right") - 1
        self.tail = self.last - (1 << self.level)

    def orders(self) -> list[I64]:
        """Return the orders to begin with; fixed boxes come first.

        Boxes that are live where more bytes are come first, then the longer ones in one order, the larger in the other.
        """
        change = np.zeros(self.count + 1, np.int64)
        np.add.at(change, self.first, self.size)
        np.subtract.at(change, self.last, self.size)
        most, longest = self._find_most(np.cumsum(change[:-1])), self.last - self.first
        free = np.ones(len(self.boxes), np.int64)
        free[list(self.boxes.fixed)] = 0
        return [
            np.lexsort((self.first, *(-key for key in keys), -most, free))
            for keys in ((self.size, longest), (longest, self.size))
        ]

    def _find_most(self, live: I64) -> I64:
        """Return the most bytes live at a moment of each box. O((n + moments) log moments)."""
        most = np.zeros(len(self.boxes), np.int64)
        for level in range(int(self.level.max()) + 1):
            of = np.flatnonzero(self.level == level)
            most[of] = np.maximum(live[self.first[of]], live[self.tail[of]])
            half = 1 << level
            live = np.maximum(live[:-half], live[half:])
        return most

    def find_skyline(self, rows: I64, ends: I64) -> I64:
        """Return the skyline of some boxes: at each moment the highest end. O((n + moments) log moments)."""
        level, sky = self.level[rows], np.zeros(0, np.int64)
        for of in range(int(self.level.max()), -1, -1):
            below = np.zeros(self.count - (1 << of) + 1, np.int64)
            for part in (below[: len(sky)], below[len(below) - len(sky) :]):
                np.maximum(part, sky, out=part)
            here = np.flatnonzero(level == of)
            for starts in (self.first, self.tail):
                np.maximum.at(below, starts[rows[here]], ends[here])
            sky = below
        return sky


class _Attempt:
    """An order, and the boxes that were placed so far: columns in the order of placing, so that a prefix remains."""

    def __init__(self, moments: _Moments, order: I64, tiny: int) -> None:
        self.moments, self.order, self.tiny = moments, order, tiny
        self.placed = self.spent = 0
        self.is_stuck = False
        n = len(order)
        self.first, self.last = np.zeros(n, np.int32), np.zeros(n, np.int32)
        self.low, self.end = np.zeros(n, np.int64), np.zeros(n, np.int64)
        self.sky = np.zeros(moments.count, np.int64)

    def advance(self, below: int, work: int) -> Packing | None:
        """Place boxes until one would not end below `below`, and move that one forward; or until `work` is
        spent on this order.

        Returns the placement if all are placed.
        """
        high = np.flatnonzero(self.end[: self.placed] >= below)
        obstructed = int(high[0]) if len(high) else self._place(below, work)
        if obstructed is not None:
            self._move_forward(obstructed)
        elif self.placed == len(self.order):
            offsets = np.empty_like(self.low)
            offsets[self.order] = self.low
            return Packing(offsets.tolist(), int(self.end.max()))
        return None

    def _place(self, below: int, work: int) -> int | None:
        """Place the remaining boxes while less than `work` is spent. Returns the place of a box that is too high."""
        boxes, moments = self.moments.boxes, self.moments
        while self.placed < len(self.order) and self.spent < work:
            k = self.placed
            i = int(self.order[k])
            first, last = int(moments.first[i]), int(moments.last[i])
            need, alignment = boxes.size[i], boxes.alignment[i]
            sky = self.sky[first:last]
            at = boxes.fixed.get(i, -1)
            self.spent += 1 + (last - first) // 1000
            if at < 0 and need < self.tiny:
                at = align_up(int(sky.max()), alignment)
            if at < 0 or (at + need >= below and i not in boxes.fixed):
                met = np.flatnonzero((self.first[:k] < last) & (self.last[:k] > first))
                self.spent += SCAN + k // 100 + len(met) // 20
                at = find_gap(self.low[met], self.end[met], need, alignment)
                if at + need >= below:
                    return k
            self.first[k], self.last[k], self.low[k], self.end[k] = first, last, at, at + need
            np.maximum(sky, at + need, out=sky)
            self.placed += 1
        return None

    def _move_forward(self, place: int) -> None:
        """Move the box at that place of the order halfway forward among the placed boxes that overlap it in time."""
        moments, i = self.moments, self.order[place]
        met = np.flatnonzero((self.first[:place] < moments.last[i]) & (self.last[:place] > moments.first[i]))
        met = met[met >= len(moments.boxes.fixed)]
        if not len(met):
            self.is_stuck = True
            return
        to = int(met[len(met) // 2])
        self.order[to : place + 1] = np.roll(self.order[to : place + 1], 1)
        self.placed = to
        self.sky = moments.find_skyline(self.order[:to], self.end[:to])
        self.spent += (place + moments.count) // 50
