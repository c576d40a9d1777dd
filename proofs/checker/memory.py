"""What each byte of an arena holds: runs of bytes that one tensor was last written to."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

UNCHANGED = -2
"""The owner of bytes that are what they were beneath."""


class Bytes:
    """An unbounded arena: every byte belongs to one owner, or is as in the arena beneath, until a tensor is written.

    `start` and `owner` are the runs in order of address. A write or read costs O(log runs + runs touched), a read so
    much in each arena beneath.

    >>> arena = Bytes(-1)
    >>> arena.write(0, 8, 5); arena.write(4, 6, 7)
    >>> list(arena.read(2, 10))
    [(2, 4, 5), (4, 6, 7), (6, 8, 5), (8, 10, -1)]
    >>> above = Bytes(arena)
    >>> above.write(0, 4, 9)
    >>> list(above.read(0, 6)), list(arena.read(0, 6))
    ([(0, 4, 9), (4, 6, 7)], [(0, 4, 5), (4, 6, 7)])
    """

    def __init__(self, beneath: Bytes | int) -> None:
        self.beneath = beneath
        self.start, self.owner = [0], [beneath if isinstance(beneath, int) else UNCHANGED]

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
            if self.owner[i] == UNCHANGED and isinstance(self.beneath, Bytes):
                yield from self.beneath.read(first, stop)
            else:
                yield first, stop, self.owner[i]
            first, i = stop, i + 1

    def written(self) -> Iterator[tuple[int, int]]:
        """The runs of bytes that are not what they were beneath: (first byte, end), in order."""
        for first, end, owner in zip(self.start, self.start[1:], self.owner, strict=False):
            if owner != UNCHANGED:
                yield first, end
