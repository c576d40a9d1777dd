"""Ratios in records: two integers, because no record contains a float (R1.2). spec: U5.3"""

from __future__ import annotations

from math import gcd

from tmmu.core.vocabulary import UINT64_END

Ratio = list[int]
"""[part, whole] in lowest terms."""


def ratio(part: int, whole: int, nothing: int = 0) -> Ratio:
    """Return `part` ÷ `whole` in lowest terms; `nothing` ÷ 1 if the whole is 0.

    The result is exact if both fit 64 bits; else both are halved until they do.

    >>> ratio(6, 8), ratio(0, 5), ratio(0, 0)
    ([3, 4], [0, 1], [0, 1])
    """
    if not whole:
        return [nothing, 1]
    common = gcd(part, whole)
    part, whole = part // common, whole // common
    excess = max(0, max(part, whole).bit_length() - (UINT64_END - 1).bit_length())
    return [part >> excess, max(1, whole >> excess)]


def percent(value: Ratio) -> str:
    """Format a ratio for people.

    >>> percent([1, 3])
    '33.3%'
    """
    return f"{value[0] / value[1]:.1%}"
