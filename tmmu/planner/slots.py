"""Logical slots: a linear scan over storages by birth, each taking the lowest free slot (001 AssignLogicalSlots_v1).

Lifetimes are intervals, so their conflict graph is an interval graph: the scan uses exactly as many slots as
storages are live at once, and no assignment can use fewer. A slot is as large and as strictly aligned as its
largest and strictest storage. spec: T6.5, T6.1, T6.2, T6.3, T5.1, T5.2, T7.1, A7.1
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tmmu.core.vocabulary import Arena
from tmmu.planner.storages import Sharing

Tell = Callable[..., Any]
"""Hears of each move of the scan: an event's name, and what it was about by keyword."""


@dataclass(frozen=True)
class Assignment:
    """The slot of each storage, numbered over all arenas; each slot's arena, bytes and alignment.

    Slots of one arena are consecutive and in the order in which they were opened.
    """

    slot: list[int]
    arena: list[int]
    bytes: list[int]
    alignment: list[int]


def assign(
    sharing: Sharing,
    names: list[str],
    arenas: tuple[Arena, ...],
    conflicts: dict[int, set[int]],
    tell: Tell | None = None,
) -> Assignment:
    """Give every storage a slot of its arena.

    `names` are the storages' names (the last tie-break: code points order as UTF-8 bytes do), `conflicts` the
    storages that must never share a slot with a given one. `tell` hears of every move in arenas that reuse, where
    no conflict forbids one. O(storages x log storages) without conflicts; memory O(storages).
    """
    by_arena: list[list[int]] = [[] for _ in arenas]
    for k, a in enumerate(sharing.arena):
        by_arena[a].append(k)
    slot = [0] * len(sharing.arena)
    slot_arena: list[int] = []
    for a, members in enumerate(by_arena):
        order = sorted((sharing.birth[k], -sharing.bytes[k], names[k], k) for k in members)
        scanned = tell if arenas[a].reuse and conflicts.keys().isdisjoint(members) else None
        if scanned is not None:
            listed = [[k, names[k], sharing.birth[k], sharing.death[k], sharing.bytes[k]] for k in members]
            scanned("scan", arena=arenas[a].name, storages=listed)
        opened = _scan([k for *_, k in order], sharing, arenas[a].reuse, conflicts, len(slot_arena), slot, scanned)
        if scanned is not None:
            scanned("scanned", slots=opened)
        slot_arena.extend([a] * opened)
    rows = np.array(slot, np.intp)
    sizes = np.ones(len(slot_arena), np.uint64)
    np.maximum.at(sizes, rows, np.array(sharing.bytes, np.uint64))
    alignments = np.array([arenas[a].alignment for a in slot_arena], np.uint64)
    np.maximum.at(alignments, rows, np.array(sharing.alignment, np.uint64))
    return Assignment(slot, slot_arena, sizes.tolist(), alignments.tolist())


def _scan(
    members: list[int],
    sharing: Sharing,
    reuse: bool,
    conflicts: dict[int, set[int]],
    first: int,
    slot: list[int],
    tell: Tell | None,
) -> int:
    """Write the slot of each member, numbered from `first`, into `slot`; return how many were opened."""
    active: list[tuple[int, int]] = []  # (death, slot) of the storages that are live
    free: list[int] = []  # slots whose last storage has died
    opened = now = 0
    births, deaths = sharing.birth, sharing.death
    tenants: dict[int, set[int]] = {}  # all storages a slot has held; kept only where conflicts ask
    for k in members:
        birth = births[k]
        if tell is not None and birth > now:
            tell("advance", step=birth)
            now = birth
        while active and active[0][0] < birth:
            death, freed = heapq.heappop(active)
            heapq.heappush(free, freed)
            if tell is not None:
                tell("expire", slot=freed - first, death=death)
        chosen = _take(free, conflicts.get(k), tenants) if reuse else None
        is_new = chosen is None
        if chosen is None:
            chosen = first + opened
            opened += 1
        if tell is not None:
            tell("open" if is_new else "reuse", storage=k, slot=chosen - first)
        if conflicts:
            tenants.setdefault(chosen, set()).add(k)
        slot[k] = chosen
        heapq.heappush(active, (deaths[k], chosen))
    return opened


def _take(free: list[int], forbidden: set[int] | None, tenants: dict[int, set[int]]) -> int | None:
    """The lowest free slot that never held a storage of `forbidden`, removed from `free`; None if there is none."""
    if not forbidden:
        return heapq.heappop(free) if free else None
    passed = []
    found = None
    while free and found is None:
        lowest = heapq.heappop(free)
        if forbidden.isdisjoint(tenants.get(lowest, ())):
            found = lowest
        else:
            passed.append(lowest)
    for other in passed:
        heapq.heappush(free, other)
    return found
