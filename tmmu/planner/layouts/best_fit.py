"""An allocator run along the steps: each box goes into the smallest free block that holds it.

Free blocks are kept in order of (bytes, start), in pieces of bounded length, so that a million of them cost little more
than a few; they are also indexed by both ends. The space above the highest box is a free block as well, too large to be
used up. `fit` is one function for lists of Python integers and, compiled, for int64 arrays.
"""

from __future__ import annotations

from tmmu.core.alignment import align_up

TRIES = 8
"""How many blocks, smallest first, may fail because of alignment before the box goes on top."""

PIECE = 512
"""The most blocks in a piece; a longer piece is split."""

Block = tuple[int, int]
"""The bytes of a free block, and its start."""

BoxColumns = tuple[list[int], list[int], list[int], list[int]]
"""Birth, death, size and alignment of each box."""


def fit(
    boxes: BoxColumns, order: list[int], by_death: list[int], endless: int, longest: int, offset: list[int]
) -> int:  # fmt: skip
    """Write the offset of each box, and return the end of the highest. O(n log n).

    `order` has the boxes by birth, `by_death` by death. `endless` is at least twice what the boxes would take in
    sequence. A piece has at most `longest` blocks, which affects only time.
    """
    birth, death, size, alignment = boxes
    free = [[(endless, 0), (endless + 1, 0)]]  # the second ends the list
    end_of, start_of = {0: endless}, {endless: 0}
    dead = height = 0
    for i in order:
        while death[by_death[dead]] < birth[i]:  # it was born before: births are in order
            j = by_death[dead]
            dead += 1
            start, end = offset[j], offset[j] + size[j]
            if start in start_of:
                before = start_of[start]
                _remove(free, end_of, start_of, before, start)
                start = before
            if end in end_of:
                after = end_of[end]
                _remove(free, end_of, start_of, end, after)
                end = after
            _add(free, end_of, start_of, longest, start, end)
        need = size[i]
        piece, place = _find(free, (need, -1))
        taken = start_of[endless]
        for _ in range(TRIES):
            block, start = free[piece][place]
            if align_up(start, alignment[i]) + need <= start + block:
                taken = start
                break
            place += 1
            if place == len(free[piece]):
                piece, place = piece + 1, 0
        at, end = align_up(taken, alignment[i]), end_of[taken]
        _remove(free, end_of, start_of, taken, end)
        if taken < at:
            _add(free, end_of, start_of, longest, taken, at)
        if at + need < end:
            _add(free, end_of, start_of, longest, at + need, end)
        offset[i] = at
        height = max(height, at + need)
    return height


def _find(free: list[list[Block]], key: Block) -> tuple[int, int]:
    """Return the piece, and the place in it, of the first block that is not below `key`."""
    low, high = 0, len(free) - 1
    while low < high:
        middle = (low + high) // 2
        if free[middle][-1] < key:
            low = middle + 1
        else:
            high = middle
    piece = free[low]
    first, last = 0, len(piece) - 1
    while first < last:
        middle = (first + last) // 2
        if piece[middle] < key:
            first = middle + 1
        else:
            last = middle
    return low, first


def _add(
    free: list[list[Block]], end_of: dict[int, int], start_of: dict[int, int], longest: int, start: int, end: int
) -> None:
    """Add the free block [start, end)."""
    at, place = _find(free, (end - start, start))
    piece = free[at]
    piece.insert(place, (end - start, start))
    if len(piece) > longest:
        free.insert(at + 1, piece[longest // 2 :])
        del piece[longest // 2 :]
    end_of[start], start_of[end] = end, start


def _remove(free: list[list[Block]], end_of: dict[int, int], start_of: dict[int, int], start: int, end: int) -> None:
    """Remove the free block [start, end)."""
    at, place = _find(free, (end - start, start))
    free[at].pop(place)
    if not len(free[at]):
        free.pop(at)
    end_of.pop(start)
    start_of.pop(end)
