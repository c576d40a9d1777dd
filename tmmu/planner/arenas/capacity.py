"""Find the arenas and memories that are too small for a layout. spec: A3.2, M3.10"""

from __future__ import annotations

from typing import NamedTuple

from tmmu.planner.problem import AllocationProblem
from tmmu.planner.slots import SlotAssignment
from tmmu.plans.memories import divide_memories, strictest_alignments


class Shortfall(NamedTuple):
    """An arena, or a memory with the rows of its arenas, that needs more bytes than its capacity."""

    place: str
    arenas: list[int]
    required: int
    capacity: int
    is_memory: bool


def find_shortfalls(problem: AllocationProblem, slots: SlotAssignment, footprint: list[int]) -> list[Shortfall]:
    """Return all arenas, then all memories, that are too small. O(arenas + slots)."""
    needs = [
        Shortfall(f"arena {arena.name!r}", [a], footprint[a], arena.capacity, is_memory=False)
        for a, arena in enumerate(problem.arenas)
    ]
    alignments = strictest_alignments(problem.arenas, zip(slots.arena, slots.alignment, strict=True))
    needs += [
        Shortfall(f"memory {memory.name!r}", memory.arenas, memory.end, memory.capacity, is_memory=True)
        for memory in divide_memories(problem.arenas, problem.policy, footprint, alignments)
    ]
    return [need for need in needs if need.required > need.capacity]
