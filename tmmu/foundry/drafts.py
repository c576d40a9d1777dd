"""Drafts for speculative decoding: the tokens that followed the last n-gram at its previous place in the text.

The tables have a fixed size, so neither the time nor the memory of a draft grows with the text. spec: FD6.8
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

LENGTHS = (3, 2)
"""The lengths of the n-grams that are looked up, the longest first."""


class Drafts:
    """The last place of each n-gram of a text of at most `context` tokens; another n-gram may overwrite a place."""

    def __init__(self, context: int) -> None:
        self.mask = (1 << max(8, (2 * context).bit_length())) - 1
        self.tables = {n: array("q", bytes(8 * (self.mask + 1))) for n in LENGTHS}

    @staticmethod
    def size(context: int) -> int:
        """Return the bytes of the tables, in the memory of the host."""
        return 8 * len(LENGTHS) * (1 << max(8, (2 * context).bit_length()))

    def _place(self, text: Sequence[int], end: int, n: int) -> int:
        key = 0
        for at in range(end - n, end):
            key = (key * 0x9E3779B1 + text[at] + 1) & 0xFFFFFFFF
        return (key ^ key >> 15) & self.mask

    def record(self, text: Sequence[int], end: int) -> None:
        """Remember `end` for the n-grams before it: the token `text[end]` is about to follow them. O(1)."""
        for n in LENGTHS:
            if end >= n:
                self.tables[n][self._place(text, end, n)] = end

    def propose(self, text: Sequence[int], end: int, most: int) -> range:
        """Return the places in `text` of a draft of at most `most` tokens that may follow `text[:end]`. O(1)."""
        for n in LENGTHS:
            if end >= n:
                at = self.tables[n][self._place(text, end, n)]
                if n <= at < end and all(text[at - k] == text[end - k] for k in range(1, n + 1)):
                    return range(at, min(at + most, end))
        return range(0)

    def clear(self) -> None:
        """Forget all n-grams."""
        for n in LENGTHS:
            self.tables[n] = array("q", bytes(8 * (self.mask + 1)))
