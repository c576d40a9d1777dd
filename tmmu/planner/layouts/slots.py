"""Layout `slots`: 001's normative address rule, aligned prefix sums over the slots of each arena.

Slot k starts at the end of slot k - 1, rounded up to the alignment of slot k. All storages of a slot start at the
slot's offset. spec: A1.1, A1.2, A3.1, A3.2
"""

from __future__ import annotations

from tmmu.errors import TmmuError
from tmmu.planner.slots import Assignment
from tmmu.vocabulary import UINT64_END, Arena

IN_PLACE = True
"""Does the layout know in-place results?"""


def align_up(offset: int, alignment: int) -> int:
    """The least multiple of `alignment`, a power of two, that is not below `offset`.

    >>> align_up(0, 128), align_up(1, 128), align_up(256, 128)
    (0, 128, 256)
    """
    return (offset + alignment - 1) & -alignment


def addresses(slots: Assignment, arenas: tuple[Arena, ...]) -> tuple[list[int], list[int]]:
    """The offset of each slot in its arena, and the footprint of each arena (the end of its last slot). O(slots).

    Raises ALLOCATION_OVERFLOW where an offset or an end does not fit 64 bits.
    """
    offsets = []
    footprint = [0] * len(arenas)
    for k, (a, size, alignment) in enumerate(zip(slots.arena, slots.bytes, slots.alignment, strict=True)):
        offset = align_up(footprint[a], alignment)
        if offset + size >= UINT64_END:
            raise TmmuError(
                "ALLOCATION_OVERFLOW",
                f"slot {k} would end at {offset + size}, beyond 64 bits",
                place=f"arena {arenas[a].name!r}",
                fix="plan smaller shapes",
                arena=arenas[a].name,
                offset=offset,
                size=size,
            )
        offsets.append(offset)
        footprint[a] = offset + size
    return offsets, footprint
