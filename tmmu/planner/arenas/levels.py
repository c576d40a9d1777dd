"""The live bytes at each step of an arena: query the maximum over a range of steps, and add to a range of steps.

Steps are grouped into blocks of about √steps. A block stores its maximum, and the amount added to all of its steps. So
a query or an addition visits steps within at most two blocks, and one entry for each other block: O(√steps). Visiting
every step of a life would be O(steps), and quadratic over long-lived storages.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Levels:
    """Totals at steps 0 to n - 1. `looks` counts the entries visited: the cost, the same on every machine.

    >>> levels = Levels([1, 1, 1, 1], np.int64)
    >>> levels.add(1, 3, 5)
    >>> levels.most(0, 4), levels.most(0, 1), levels.most(3, 4)
    (6, 1, 1)
    """

    def __init__(self, totals: Sequence[int], dtype: Any) -> None:
        """`dtype` must hold every total that occurs: np.int64, or object for larger ones."""
        width = isqrt(len(totals)) + 1
        blocks = -(-len(totals) // width)
        inside = np.zeros(blocks * width, dtype)
        inside[: len(totals)] = totals
        self._width = width
        self._inside: NDArray[Any] = inside.reshape(blocks, width)  # without the amount added to the whole block
        self._added: NDArray[Any] = np.zeros(blocks, dtype)
        self._most: NDArray[Any] = self._inside.max(axis=1)
        self.looks = 0

    def most(self, first: int, end: int) -> int:
        """Return the largest total at steps `first` to `end - 1`; there is at least one step."""
        width = self._width
        a, low = divmod(first, width)
        b, high = divmod(end - 1, width)
        if a == b:
            self.looks += high + 1 - low
            return int(self._inside[a, low : high + 1].max() + self._added[a])
        self.looks += width - low + high + b - a
        found = max(self._inside[a, low:].max() + self._added[a], self._inside[b, : high + 1].max() + self._added[b])
        return int(found if b == a + 1 else max(found, self._most[a + 1 : b].max()))

    def add(self, first: int, end: int, size: int) -> None:
        """Add `size` at steps `first` to `end - 1`."""
        width = self._width
        a, low = divmod(first, width)
        b, high = divmod(end - 1, width)
        if a == b:
            self._within(a, low, high + 1, size)
            return
        self._within(a, low, width, size)
        self._within(b, 0, high + 1, size)
        self.looks += b - a - 1
        self._added[a + 1 : b] += size
        self._most[a + 1 : b] += size

    def _within(self, block: int, low: int, end: int, size: int) -> None:
        self.looks += self._width
        row = self._inside[block]
        row[low:end] += size
        self._most[block] = row.max() + self._added[block]
