"""What a layout returns, and the arithmetic that all layouts share: aligned offsets, and the refusal beyond 64 bits.

spec: A1.3, A3.1
"""

from __future__ import annotations

from typing import NamedTuple

from tmmu.core.errors import TmmuError


class Placed(NamedTuple):
    """The offset of each storage in its arena, and the footprint of each arena."""

    offset: list[int]
    footprint: list[int]


def align_up(offset: int, alignment: int) -> int:
    """The least multiple of `alignment`, a power of two, that is not below `offset`.

    >>> align_up(0, 128), align_up(1, 128), align_up(256, 128)
    (0, 128, 256)
    """
    return (offset + alignment - 1) & -alignment


def overflow(what: str, arena: str, offset: int, size: int) -> TmmuError:
    """ALLOCATION_OVERFLOW for something of `size` bytes that would end beyond 64 bits."""
    return TmmuError(
        "ALLOCATION_OVERFLOW",
        f"{what} would end at {offset + size}, beyond 64 bits",
        place=f"arena {arena!r}",
        fix="plan smaller shapes",
        arena=arena,
        offset=offset,
        size=size,
    )
