"""Structure-aware mutation: each module knows one notation, takes it apart, changes it, and writes it again.

A mutator is a function of the bytes and of a source of random numbers. It never raises for bytes that are not of its
notation: it changes those as bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

Mutator = Callable[[bytes, Random], bytes]
EDGES = (
    0, 1, 2, 3, 7, 8, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF,
    1 << 32, (1 << 53) + 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1,
)  # fmt: skip
"""Numbers at which a width, a sign or a limit ends."""


def mutate_bytes(data: bytes, random: Random) -> bytes:
    """Flip, overwrite, insert, remove, repeat or move bytes, a few times."""
    found = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        at, kind = random.randrange(len(found) + 1), random.randrange(7)
        if kind == 0 and at < len(found):
            found[at] ^= 1 << random.randrange(8)
        elif kind == 1:
            width = random.choice((1, 2, 4, 8))
            number = random.choice(EDGES) & ((1 << 8 * width) - 1)
            found[at : at + width] = number.to_bytes(width, random.choice(("little", "big")))
        elif kind == 2:
            found[at:at] = random.randbytes(random.choice((1, 2, 4, 8)))
        elif kind == 3:
            del found[at : at + random.choice((1, 2, 4, 8, 32))]
        elif kind == 4:
            start, length = random.randrange(len(found) + 1), random.randrange(1, 64)
            found[at : at + random.choice((0, length))] = found[start : start + length]
        elif kind == 5 and random.random() < 0.2:
            del found[at:]
        elif kind == 6 and random.random() < 0.1:
            found[at:at] = bytes(found[at : at + 64]) * random.choice((10, 100))
    return bytes(found)
