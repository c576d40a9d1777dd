"""Numbers that depend only on a seed, the same bits on every machine.

The k-th weight in the order of a file has a separate stream: Philox4x64-10 with the seed as its key and the counter (1,
0, 0, k), (2, 0, 0, k), …. This is NumPy's stream, whose numbers NumPy guarantees. Each element takes 32 bits u of it,
the lower half of a word first, and becomes an integer m = ⌊u · (2r + 1) / 2³²⌋ - r in [-r, r]; the element is m / 2^e,
or 1 more. Its type represents it exactly, so nothing is ever rounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

SEED_END = 1 << 64
"""A seed is an integer from 0 and below this."""

BLOCK = 1 << 22
"""The number of elements that are made at once."""


class Grid(NamedTuple):
    """The numbers that an element may be: middle + m / 2^e for the integers m from -r to r."""

    r: int
    e: int
    middle: int


def check_seed(seed: int) -> None:
    """Raise ValueError if the seed is out of range."""
    if not 0 <= seed < SEED_END:
        raise ValueError(f"the seed {seed} is not in [0, 2**64)")


def draw_weights(count: int, seed: int, k: int, grid: Grid) -> Iterator[NDArray[np.float32]]:
    """Yield the elements of the k-th weight, in pieces of at most `BLOCK`. spec: MC7.1, MC7.2"""
    r, e, middle = grid
    stream = np.random.Philox(key=seed, counter=k << 192)
    for start in range(0, count, BLOCK):
        here = min(BLOCK, count - start)
        words = stream.random_raw(-(-here // 2)).astype("<u8").view("<u4")[:here].astype(np.uint64)
        integers = (words * np.uint64(2 * r + 1) >> np.uint64(32)).astype(np.int64) - r
        yield np.ldexp((integers + (middle << e)).astype(np.float32), -e)


def grid(square: Fraction, bits: int, middle: bool | int) -> Grid:
    """Return the finest grid whose integers have at most `bits` bits: r = ⌊√(square · 4^e)⌋.

    >>> grid(Fraction(1, 64), 8, False), grid(Fraction(1, 16), 8, True)
    (Grid(r=128, e=10, middle=0), Grid(r=32, e=7, middle=1))
    """
    e = 0
    while True:
        following = math.isqrt(math.floor(square * 4 ** (e + 1)))
        if following + (middle << (e + 1)) >= 1 << bits:
            return Grid(math.isqrt(math.floor(square * 4**e)), e, int(middle))
        e += 1
