"""Arenas that divide a memory: laid out in sequence, each aligned as its strictest slot (M3).

An empty arena takes no byte. spec: M3.10
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tmmu.core.alignment import align_up
from tmmu.core.vocabulary import ArenaConfiguration, ArenaPolicy
from tmmu.plans.sections import ArenaUse


class Division(NamedTuple):
    """A memory, `device/name`, with the rows of its arenas, the byte at which each begins, and the end of the last."""

    name: str
    capacity: int
    arenas: list[int]
    bases: list[int]
    end: int


def divide_memories(
    arenas: Sequence[ArenaConfiguration | ArenaUse],
    policy: ArenaPolicy,
    footprint: Sequence[int],
    strictest: Sequence[int],
) -> list[Division]:
    """Lay out every memory that has arenas, in the order of the configuration.

    `strictest` are alignments. O(arenas).
    """
    members: dict[tuple[str, str], list[int]] = {}
    for a, arena in enumerate(arenas):
        members.setdefault((arena.device, arena.memory), []).append(a)
    found = []
    for device in policy.devices:
        for memory in device.memories:
            rows, bases, end = members.get((device.name, memory.name), []), list[int](), 0
            for a in rows:
                bases.append(align_up(end, strictest[a]) if footprint[a] else end)
                end = bases[-1] + footprint[a]
            if rows:
                found.append(Division(f"{device.name}/{memory.name}", memory.capacity, rows, bases, end))
    return found


def strictest_alignments(arenas: Sequence[ArenaConfiguration], slots: Iterable[tuple[int, int]]) -> list[int]:
    """Return the strictest alignment in each arena, at least the arena's own. `slots` are pairs (arena, alignment)."""
    found = [arena.alignment for arena in arenas]
    for a, alignment in slots:
        found[a] = max(found[a], alignment)
    return found
