"""Place boxes around fixed ones: two placements that always exist, as starting points of searches.

A fixed box owns its bytes while it is live, and no other box may be there then. These placements are right for any
fixed boxes that do not overlap each other. The portfolio and the search then lower them. spec: A10.4, A10.5
"""

from __future__ import annotations

import bisect

from tmmu.core.alignment import align_up
from tmmu.planner.layouts.boxes import Boxes, Packing

LOOKS = 4_000_000
"""If boxes times fixed boxes exceed this, the bytes of a fixed box are kept free at all steps."""


def place_above_fixed(boxes: Boxes, first: Packing) -> Packing:
    """Return `first` if it keeps the fixed boxes; otherwise put its other boxes above all fixed ones. O(n)."""
    if all(first.offsets[i] == at for i, at in boxes.fixed.items()):
        return first
    up = align_up(boxes.fixed_end(), max(boxes.alignment))
    offsets = [boxes.fixed.get(i, up + at) for i, at in enumerate(first.offsets)]
    return Packing(offsets, max(at + size for at, size in zip(offsets, boxes.size, strict=True)))


def place_in_sequence(boxes: Boxes, first: Packing) -> Packing:
    """Place boxes that never share a byte in sequence, in the order of `first`, skipping fixed ones.

    O(n log n). spec: A7.2
    """
    offsets, end = [0] * len(boxes), 0
    taken = sorted((at, at + boxes.size[i]) for i, at in boxes.fixed.items())
    passed = 0
    for i in sorted(range(len(boxes)), key=first.offsets.__getitem__):
        if i in boxes.fixed:
            offsets[i] = boxes.fixed[i]
            continue
        at = align_up(end, boxes.alignment[i])
        while passed < len(taken) and taken[passed][0] < at + boxes.size[i]:
            at = max(at, align_up(taken[passed][1], boxes.alignment[i]))
            passed += 1
        offsets[i] = at
        end = at + boxes.size[i]
    return Packing(offsets, max(end, boxes.fixed_end()))


def place_best_fit(boxes: Boxes) -> Packing:
    """Allocate and free along the steps, each box in the smallest free block that holds it beside the fixed boxes.

    A box avoids the fixed boxes that are born during its life. O(n (fixed + log n)), and O(n log n) for many.
    """
    birth, death, size, fixed = boxes.birth, boxes.death, boxes.size, boxes.fixed
    offsets = [fixed.get(i, 0) for i in range(len(boxes))]
    coming = sorted(fixed, key=birth.__getitem__)
    births = [birth[i] for i in coming]
    free = _Blocks()
    is_kept = len(fixed) * len(boxes) > LOOKS or bool(boxes.gaps)  # in gaps, fixed boxes may share bytes
    if is_kept:
        for low, high in merge_intervals([(at, at + size[i]) for i, at in fixed.items()]):
            free.take_at(low, high)
    by_death, dead = sorted(range(len(boxes)), key=death.__getitem__), 0
    for i in sorted(range(len(boxes)), key=lambda i: (birth[i], i not in fixed, -size[i])):
        while death[j := by_death[dead]] < birth[i]:
            if not (is_kept and j in fixed):
                free.give(offsets[j], offsets[j] + size[j])
            dead += 1
        if i not in fixed:
            later = range(0) if is_kept else range(bisect.bisect(births, birth[i]), bisect.bisect(births, death[i]))
            closed = merge_intervals([(fixed[coming[k]], fixed[coming[k]] + size[coming[k]]) for k in later])
            offsets[i] = free.take(size[i], boxes.alignment[i], closed)
        elif not is_kept:
            free.take_at(offsets[i], offsets[i] + size[i])
    return Packing(offsets, max(map(int.__add__, offsets, size), default=0))


def merge_intervals(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge intervals into disjoint ones with the same bytes (or steps), in order."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(intervals):
        if found and low <= found[-1][1]:
            found[-1] = found[-1][0], max(high, found[-1][1])
        else:
            found.append((low, high))
    return found


class _Blocks:
    """Free blocks of an arena by size and by address; the last has no end."""

    END = 1 << 80
    TRIES = 8
    """How many blocks, smallest first, may fail because of closed bytes before the last block is taken."""

    def __init__(self) -> None:
        self.by_size = [(self.END, 0)]
        self.starts = [0]
        self.end_of = {0: self.END}

    def _add(self, start: int, end: int) -> None:
        if start < end:
            bisect.insort(self.by_size, (end - start, start))
            bisect.insort(self.starts, start)
            self.end_of[start] = end

    def _remove(self, start: int) -> int:
        end = self.end_of.pop(start)
        del self.by_size[bisect.bisect_left(self.by_size, (end - start, start))]
        del self.starts[bisect.bisect_left(self.starts, start)]
        return end

    def take_at(self, low: int, high: int) -> None:
        """Use the free range [low, high)."""
        start = self.starts[bisect.bisect(self.starts, low) - 1]
        end = self._remove(start)
        self._add(start, low)
        self._add(high, end)

    def give(self, low: int, high: int) -> None:
        """Free [low, high), joined with the free blocks on both sides."""
        at = bisect.bisect(self.starts, low)
        before = self.starts[at - 1] if at else None
        if high in self.end_of:
            high = self._remove(high)
        if before is not None and self.end_of[before] == low:
            self._remove(before)
            low = before
        self._add(low, high)

    def take(self, size: int, alignment: int, closed: list[tuple[int, int]]) -> int:
        """Use `size` free bytes outside of `closed`, and return their offset; the last block always has room."""
        first = bisect.bisect_left(self.by_size, (size, -1))
        for _, start in [*self.by_size[first : first + self.TRIES], self.by_size[-1]]:
            at = align_up(start, alignment)
            for low, high in closed[max(0, bisect.bisect(closed, (at, -1)) - 1) :]:
                if low >= at + size:
                    break
                if high > at:
                    at = align_up(high, alignment)
            if at + size <= self.end_of[start]:
                self.take_at(at, at + size)
                return at
        raise AssertionError("the last block has no end")
