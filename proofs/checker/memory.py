"""What each byte of an arena holds: runs of bytes that one tensor was last written to."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator


class Bytes:
    """An unbounded arena, every byte owned by `unwritten` until a tensor is written over it.

    `start` and `owner` are the runs in order of address. A write or read costs O(log runs + runs touched).

    >>> arena = Bytes(-1)
    >>> arena.write(0, 8, 5); arena.write(4, 6, 7)
    >>> list(arena.read(2, 10))
    [(2, 4, 5), (4, 6, 7), (6, 8, 5), (8, 10, -1)]
    """

    def __init__(self, unwritten: int) -> None:
        self.start, self.owner = [0], [unwritten]

    def write(self, first: int, end: int, tensor: int) -> None:
        """Bytes [first, end) now hold `tensor`."""
        if first == end:
            return
        i, j = bisect_left(self.start, first), bisect_left(self.start, end)
        resumes = j == len(self.start) or self.start[j] != end
        self.owner[i:j] = [tensor, self.owner[j - 1]] if resumes else [tensor]
        self.start[i:j] = [first, end] if resumes else [first]

    def read(self, first: int, end: int) -> Iterator[tuple[int, int, int]]:
        """What bytes [first, end) hold: (first byte, end, tensor), in order."""
        i = bisect_right(self.start, first) - 1
        while first < end:
            stop = min(self.start[i + 1], end) if i + 1 < len(self.start) else end
            yield first, stop, self.owner[i]
            first, i = stop, i + 1
