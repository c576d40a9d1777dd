"""Record which tensor each byte of an arena holds, as runs of bytes that were last written by one tensor."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise


class Bytes:
    """An unbounded arena. Every byte is owned by `unwritten` until a tensor is written over it.

    `start` and `owner` are the runs in order of address. A write or read costs O(log runs + runs touched).

    >>> arena = Bytes(-1)
    >>> arena.write(0, 8, 5); arena.write(4, 6, 7)
    >>> list(arena.read(2, 10))
    [(2, 4, 5), (4, 6, 7), (6, 8, 5), (8, 10, -1)]
    """

    def __init__(self, unwritten: int) -> None:
        self.start, self.owner = [0], [unwritten]

    def write(self, first: int, end: int, tensor: int) -> None:
        """Set bytes [first, end) to `tensor`."""
        if first == end:
            return
        i, j = bisect_left(self.start, first), bisect_left(self.start, end)
        resumes = j == len(self.start) or self.start[j] != end
        self.owner[i:j] = [tensor, self.owner[j - 1]] if resumes else [tensor]
        self.start[i:j] = [first, end] if resumes else [first]

    def is_run(self, first: int, end: int, tensor: int) -> bool:
        """Whether bytes [first, end) are in one run that holds `tensor`. O(log runs)."""
        i = bisect_right(self.start, first)
        return self.owner[i - 1] == tensor and (i == len(self.start) or end <= self.start[i])

    def read(self, first: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield what bytes [first, end) hold, as (first byte, end, tensor), in order."""
        i = bisect_right(self.start, first) - 1
        while first < end:
            stop = min(self.start[i + 1], end) if i + 1 < len(self.start) else end
            yield first, stop, self.owner[i]
            first, i = stop, i + 1


class Divided:
    """An arena cut at some addresses. Each part has its own runs, so that a write moves only the runs of its part.

    >>> arena = Divided(-1, [4])
    >>> arena.write(0, 8, 5)
    >>> arena.is_run(0, 8, 5), list(arena.read(2, 10))
    (True, [(2, 4, 5), (4, 8, 5), (8, 10, -1)])
    """

    def __init__(self, unwritten: int, cuts: Sequence[int]) -> None:
        self.begin = [0, *cuts]
        self.parts = [Bytes(unwritten) for _ in self.begin]

    def write(self, first: int, end: int, tensor: int) -> None:
        """Set bytes [first, end) to `tensor`."""
        i = bisect_right(self.begin, first)
        if i == len(self.begin) or end <= self.begin[i]:
            self.parts[i - 1].write(first, end, tensor)
            return
        for part, lower, upper in self._parts(first, end):
            part.write(lower, upper, tensor)

    def is_run(self, first: int, end: int, tensor: int) -> bool:
        """Whether bytes [first, end) are, in each part, in one run that holds `tensor`."""
        i = bisect_right(self.begin, first)
        if i == len(self.begin) or end <= self.begin[i]:
            return self.parts[i - 1].is_run(first, end, tensor)
        return all(part.is_run(lower, upper, tensor) for part, lower, upper in self._parts(first, end))

    def read(self, first: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield what bytes [first, end) hold, as (first byte, end, tensor), in order."""
        for part, lower, upper in self._parts(first, end):
            yield from part.read(lower, upper)

    def _parts(self, first: int, end: int) -> list[tuple[Bytes, int, int]]:
        i = bisect_right(self.begin, first) - 1
        j = max(i, bisect_left(self.begin, end) - 1)
        cuts = [first, *self.begin[i + 1 : j + 1], end]
        return [(part, *ends) for part, ends in zip(self.parts[i : j + 1], pairwise(cuts), strict=True)]
