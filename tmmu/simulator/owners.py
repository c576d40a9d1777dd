"""The owner of each byte of an arena: the value last written there, and which of the value's bytes it is.

Neighbouring bytes of one value form one run, so that a tensor of a gigabyte costs the same as one of a byte.
spec: SIM3.1
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple

NO_OWNER = -1


class OwnedRun(NamedTuple):
    """A run of bytes [first, end) that hold a value; byte 0 of the value would be at `origin`."""

    first: int
    end: int
    value: int
    origin: int


class Owners:
    """The runs of one arena in order of address. A write or read costs O(log runs + runs touched).

    >>> arena = Owners()
    >>> arena.write(0, 8, 5); arena.write(4, 6, 7)
    >>> [(run.first, run.end, run.value, run.origin) for run in arena.read(2, 10)]
    [(2, 4, 5, 0), (4, 6, 7, 4), (6, 8, 5, 0), (8, 10, -1, 0)]
    """

    def __init__(self) -> None:
        self._start = [0]
        self._owner = [(NO_OWNER, 0)]

    def write(self, first: int, end: int, value: int) -> None:
        """Record that bytes [first, end) now hold `value`, beginning with its byte 0."""
        if first >= end:
            return
        i, j = bisect_left(self._start, first), bisect_left(self._start, end)
        resumes = j == len(self._start) or self._start[j] != end
        self._owner[i:j] = [(value, first), self._owner[j - 1]] if resumes else [(value, first)]
        self._start[i:j] = [first, end] if resumes else [first]

    def read(self, first: int, end: int) -> Iterator[OwnedRun]:
        """Yield the runs that bytes [first, end) hold, in order of address."""
        i = bisect_right(self._start, first) - 1
        while first < end:
            stop = min(self._start[i + 1], end) if i + 1 < len(self._start) else end
            yield OwnedRun(first, stop, *self._owner[i])
            first, i = stop, i + 1
