"""Philox4x32-10, the documents' generator: a pattern of bytes from a seed, the same on every machine.

The first two words of the seed's 16 bytes (little-endian) are the key, and the next two the low words of the counter,
which increases by one with each draw of four words. spec: U3.4
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10

SEED_END = 1 << 128
"""A seed is an integer from 0 and below this."""

BLOCK = 1 << 16
"""The number of draws of 16 bytes that are made at once."""

_LOW = np.uint64(0xFFFFFFFF)
_WORD = np.uint64(32)


def draws(counter: NDArray[np.uint64], key: tuple[int, int]) -> NDArray[np.uint32]:
    """Return the four words drawn at each counter.

    Parameters
    ----------
    counter
        Words of 32 bits, lowest first, of shape (draws, 4).
    key
        Two words of 32 bits.

    Returns
    -------
    numpy.ndarray
        Little-endian words of shape (draws, 4).

    >>> [f"{int(word):08x}" for word in draws(np.zeros((1, 4), np.uint64), (0, 0))[0]]
    ['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']
    """
    c0, c1, c2, c3 = (counter[:, word].astype(np.uint64) for word in range(4))
    k0, k1 = key
    for _ in range(ROUNDS):
        one, other = c0 * np.uint64(MULTIPLIERS[0]), c2 * np.uint64(MULTIPLIERS[1])
        c0, c1, c2, c3 = (
            (other >> _WORD) ^ c1 ^ np.uint64(k0),
            other & _LOW,
            (one >> _WORD) ^ c3 ^ np.uint64(k1),
            one & _LOW,
        )
        k0, k1 = (k0 + WEYL[0]) & 0xFFFFFFFF, (k1 + WEYL[1]) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3], axis=1).astype("<u4")


def pattern(seed: int, size: int) -> Iterator[NDArray[np.uint8]]:
    """Yield the first `size` bytes of the pattern of `seed`, in pieces of at most 16 × `BLOCK` bytes.

    Raises ValueError for a seed that is not in [0, 2^128). O(size) time, bounded memory.
    """
    if not 0 <= seed < SEED_END:
        raise ValueError(f"the seed {seed} is not in [0, 2**128)")
    key = (seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF)
    base = seed >> 64
    for first in range(0, -(-size // 16), BLOCK):
        count = min(BLOCK, -(-size // 16) - first)
        start = base + first
        low = np.uint64(start & 0xFFFFFFFFFFFFFFFF) + np.arange(count, dtype=np.uint64)
        high = np.full(count, start >> 64, np.uint64) + (low < np.uint64(start & 0xFFFFFFFFFFFFFFFF))
        words = draws(np.stack([low & _LOW, low >> _WORD, high & _LOW, high >> _WORD], axis=1), key)
        yield words.view(np.uint8).ravel()[: size - 16 * first]
