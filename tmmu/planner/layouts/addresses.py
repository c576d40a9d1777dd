"""The result of a layout, an offset for each storage; and the error for an end beyond 64 bits. spec: A1.3, A3.1"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tmmu.core.errors import TmmuError


class Addresses(NamedTuple):
    """The offset of each storage (or slot) in its arena, and the footprint of each arena."""

    offset: Sequence[int]
    footprint: list[int]


def overflow_error(what: str, arena: str, offset: int, size: int) -> TmmuError:
    """Return ALLOCATION_OVERFLOW for an object of `size` bytes that would end beyond 64 bits."""
    return TmmuError(
        "ALLOCATION_OVERFLOW",
        f"{what} would end at {offset + size}, beyond 64 bits",
        place=f"arena {arena!r}",
        fix="plan smaller shapes",
        arena=arena,
        offset=offset,
        size=size,
    )
