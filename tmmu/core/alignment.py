"""Rounding up to an alignment, the arithmetic that every layout rests on."""

from __future__ import annotations


def align_up(offset: int, alignment: int) -> int:
    """Return the least multiple of `alignment`, a power of two, that is at least `offset`.

    >>> align_up(0, 128), align_up(1, 128), align_up(256, 128)
    (0, 128, 256)
    """
    return (offset + alignment - 1) & -alignment
