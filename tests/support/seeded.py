"""Seeded weights from their definition: Philox4x64-10 by hand, and the grid of numbers. spec: MC7.1, MC7.2"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import count

MASK = (1 << 64) - 1


def philox(seed: int, k: int) -> list[int]:
    """The first 32 numbers of the k-th stream, from the definition of Philox4x64-10, lower halves first."""
    found: list[int] = []
    for first in range(1, 5):
        a, b, c, d, low, high = first, 0, 0, k, seed, 0
        for _ in range(10):
            left, right = 0xD2E7470EE14C6C93 * a, 0xCA5A826395121157 * c
            a, b, c, d = (right >> 64) ^ b ^ low, right & MASK, (left >> 64) ^ d ^ high, left & MASK
            low, high = (low + 0x9E3779B97F4A7C15) & MASK, (high + 0xBB67AE8584CAA73B) & MASK
        found += [half for word in (a, b, c, d) for half in (word & 0xFFFFFFFF, word >> 32)]
    return found


def element(u: int, square: Fraction, bits: int, middle: int) -> Fraction:
    """What 32 bits become, from the sentence: the finest grid is looked for from below."""
    r = e = 0
    for power in count():
        wide = math.isqrt(square.numerator * 4**power // square.denominator)
        if middle * 2**power + wide >= 2**bits:
            break
        r, e = wide, power
    return Fraction((u * (2 * r + 1) >> 32) - r, 2**e) + middle
