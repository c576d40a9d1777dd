"""Layout `slots`: 001's normative address rule, aligned prefix sums over the slots of each arena.

Slot k starts at the end of slot k - 1, rounded up to the alignment of slot k. All storages of a slot start at the
slot's offset. spec: A1.1, A1.2, A3.1, A3.2
"""

from __future__ import annotations

from tmmu.core.vocabulary import UINT64_END, Arena
from tmmu.planner.layouts.request import Request
from tmmu.planner.placed import Placed, align_up, overflow
from tmmu.planner.slots import Assignment

__all__ = ["IN_PLACE", "addresses", "align_up", "place", "prefix_sums"]

IN_PLACE = True
"""Does the layout know in-place results?"""


def place(request: Request) -> Placed:
    """Each storage at the offset of its slot. O(storages). Raises as `addresses` does."""
    offsets, footprint = addresses(request.slots, request.arenas)
    return Placed([offsets[slot] for slot in request.slots.slot], footprint)


def addresses(slots: Assignment, arenas: tuple[Arena, ...]) -> tuple[list[int], list[int]]:
    """The offset of each slot in its arena, and the footprint of each arena (the end of its last slot). O(slots).

    Raises ALLOCATION_OVERFLOW where an offset or an end does not fit 64 bits.
    """
    found = prefix_sums(slots, len(arenas))
    for k, (a, size, offset) in enumerate(zip(slots.arena, slots.bytes, found.offset, strict=True)):
        if offset + size >= UINT64_END:
            raise overflow(f"slot {k}", arenas[a].name, offset, size)
    return found.offset, found.footprint


def prefix_sums(slots: Assignment, arenas: int) -> Placed:
    """The same in exact integers, which may leave 64 bits: for each slot its offset, for each arena its footprint."""
    offsets, footprint = [], [0] * arenas
    for a, size, alignment in zip(slots.arena, slots.bytes, slots.alignment, strict=True):
        offsets.append(align_up(footprint[a], alignment))
        footprint[a] = offsets[-1] + size
    return Placed(offsets, footprint)
