"""Layout `slots`: 001's normative address rule, aligned prefix sums over the slots of each arena.

Slot k starts at the end of slot k - 1, rounded up to the alignment of slot k. All storages of a slot start at the
slot's offset. spec: A1.1, A1.2, A3.1, A3.2
"""

from __future__ import annotations

from tmmu.core.vocabulary import UINT64_END, ArenaConfiguration
from tmmu.planner.layouts.addresses import Addresses, overflow_error
from tmmu.planner.problem import AllocationProblem
from tmmu.planner.slots import SlotAssignment
from tmmu.plans import shapes

IN_PLACE = True
"""Whether the layout puts results in place."""


def place(problem: AllocationProblem, slots: SlotAssignment) -> Addresses:
    """Place each storage at the offset of its slot. O(storages). Raises as `slot_addresses` does."""
    found = slot_addresses(slots, problem.arenas)
    return Addresses([found.offset[slot] for slot in slots.slot], found.footprint)


def slot_addresses(slots: SlotAssignment, arenas: tuple[ArenaConfiguration, ...]) -> Addresses:
    """Return the offset of each slot in its arena, and the footprint of each arena (the end of its last slot).

    O(slots).

    Raises ALLOCATION_OVERFLOW if an offset or an end does not fit into 64 bits.
    """
    found = prefix_sums(slots, len(arenas))
    for k, (a, size, offset) in enumerate(zip(slots.arena, slots.bytes, found.offset, strict=True)):
        if offset + size >= UINT64_END:
            raise overflow_error(f"slot {k}", arenas[a].name, offset, size)
    return found


def prefix_sums(slots: SlotAssignment, arenas: int) -> Addresses:
    """Compute `addresses` in exact integers: if they exceed 64 bits, another layout may still fit."""
    return Addresses(*shapes.prefix_sums(slots.arena, slots.bytes, slots.alignment, arenas))
