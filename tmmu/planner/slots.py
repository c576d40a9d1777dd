"""Logical slots: a linear scan over storages by birth, each taking the lowest free slot (001 AssignLogicalSlots_v1).

Lifetimes are intervals, so their conflict graph is an interval graph: the scan uses exactly the maximum number of
storages live at once, and no assignment can use fewer. If steps have several streams, slots are chains of the order of
storages instead. A slot is as large as its largest storage, and as strictly aligned as its strictest. `linear_scan` in
`proofs/proving/kernel/Scan.v` is the same rule, and is proved.
spec: T6.5, T6.1, T6.2, T6.3, T5.1, T5.2, T7.1, A7.1, V6.15
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tmmu.core.columns import build_column, pack_integers
from tmmu.planner.problem import AllocationProblem
from tmmu.planner.streams.chains import assign_chains, find_largest
from tmmu.planner.streams.storages import StoragePrecedence
from tmmu.plans.sections import Plan

MoveObserver = Callable[..., Any]
"""Called with each move that places a storage: the name of the event, and its facts by keyword."""


@dataclass(frozen=True)
class SlotAssignment:
    """The slot of each storage, numbered over all arenas, and each slot's arena, bytes and alignment.

    Slots of one arena are consecutive and in the order in which they were opened. `antichains` is empty unless steps
    have several streams: then it lists storages of each arena of which none is before another, as many as possible.
    """

    slot: Sequence[int]
    arena: list[int]
    bytes: list[int]
    alignment: list[int]
    antichains: tuple[list[int], ...] = ()

    def arena_of_storages(self) -> list[int]:
        """Return the arena of each storage: that of its slot."""
        return [self.arena[slot] for slot in self.slot]


def claimed_slots(plan: Plan) -> SlotAssignment:
    """Return the slots that a plan claims."""
    s = plan.slots
    return SlotAssignment(plan.slots.of.tolist(), s.arena.tolist(), s.bytes.tolist(), s.alignment.tolist())


def assign_slots(problem: AllocationProblem, arena: list[int], observer: MoveObserver | None = None) -> SlotAssignment:
    """Assign every storage a slot of its arena.

    `arena` is the arena of each storage. Ties are broken by name (code points order as UTF-8 bytes do). `observer` is
    called with each move in arenas that reuse bytes and have no conflicts. O(storages x log storages) without
    conflicts; memory O(storages). With an order of storages the cost is that of `assign_chains`.
    """
    slot = pack_integers([0], "i") * len(problem)
    slot_arena: list[int] = []
    antichains: list[list[int]] = []
    for a, members in enumerate(problem.members(arena)):
        if problem.order is not None:
            opened, antichain = _assign_ordered(
                problem, problem.order, members, problem.arenas[a].reuse, len(slot_arena), slot
            )
            antichains.append(antichain)
            slot_arena.extend([a] * opened)
            continue
        is_observed = problem.arenas[a].reuse and problem.conflicts.keys().isdisjoint(members)
        scanned = observer if is_observed else None
        if scanned is not None:
            listed = [[k, problem.name[k], problem.birth[k], problem.death[k], problem.bytes[k]] for k in members]
            scanned("scan", arena=problem.arenas[a].name, storages=listed)
        opened = _scan(
            _sort_storages(problem, members), problem, problem.arenas[a].reuse, len(slot_arena), slot, scanned
        )
        if scanned is not None:
            scanned("scanned", slots=opened)
        slot_arena.extend([a] * opened)
    rows = build_column(slot, np.uint32)
    sizes = np.ones(len(slot_arena), np.uint64)
    np.maximum.at(sizes, rows, build_column(problem.bytes, np.uint64))
    alignments = np.array([problem.arenas[a].alignment for a in slot_arena], np.uint64)
    np.maximum.at(alignments, rows, build_column(problem.alignment, np.uint64))
    return SlotAssignment(slot, slot_arena, sizes.tolist(), alignments.tolist(), tuple(antichains))


def _assign_ordered(
    problem: AllocationProblem,
    order: StoragePrecedence,
    members: Sequence[int],
    reuse: bool,
    first: int,
    slot: array[int],
) -> tuple[int, list[int]]:
    """Write the slot of each member, numbered from `first`, into `slot`; return how many there are, and an antichain.

    Storages without bytes have slots as all others, but show nothing: the antichain has only storages with bytes.
    spec: X5.10, X5.11, X6.9
    """
    sequence = _sort_storages(problem, members)
    if not reuse:
        for number, k in enumerate(sequence):
            slot[k] = first + number
        is_shown = all(problem.bytes[k] for k in members) and _live_together(problem, members)
        return len(members), [*members] if is_shown else []
    at = {k: i for i, k in enumerate(members)}
    conflicts = {at[k]: {at[o] for o in problem.conflicts[k] if o in at} for k in members if k in problem.conflicts}
    found = assign_chains(order.part(members), [at[k] for k in sequence], conflicts)
    for k in members:
        slot[k] = first + found.slot[at[k]]
    shown = [members[i] for i in found.antichain]
    if not all(problem.bytes[k] for k in shown):
        filled = [k for k in members if problem.bytes[k]]
        shown = [filled[i] for i in find_largest(order.part(filled))]
    return found.slots, shown


def _live_together(problem: AllocationProblem, members: Sequence[int]) -> bool:
    """Return whether all storages are live at one step. None of them is then before another. O(n)."""
    return max((problem.birth[k] for k in members), default=0) <= min((problem.death[k] for k in members), default=0)


def _sort_storages(problem: AllocationProblem, members: Sequence[int]) -> array[int]:
    """Sort storages by birth, larger ones first, ties by name. O(n log n)."""
    birth, size = (
        build_column(map(of.__getitem__, members), np.uint64, len(members)) for of in (problem.birth, problem.bytes)
    )
    order = np.lexsort((~size, birth))
    rows = pack_integers(np.asarray(members)[order], "i")
    birth, size = birth[order], size[order]
    # Names decide within a run of equal births and sizes.
    differs = np.flatnonzero((birth[1:] != birth[:-1]) | (size[1:] != size[:-1])) + 1
    bounds = np.concatenate([[0], differs, [len(rows)]])
    for first in np.flatnonzero(np.diff(bounds) > 1).tolist():
        lo, hi = bounds[first : first + 2].tolist()
        rows[lo:hi] = pack_integers(sorted(rows[lo:hi], key=lambda k: (problem.name[k], k)), "i")
    return rows


def _scan(
    members: array[int],
    problem: AllocationProblem,
    reuse: bool,
    first: int,
    slot: array[int],
    observer: MoveObserver | None,
) -> int:
    """Write the slot of each member, numbered from `first`, into `slot`; return how many were opened."""
    free: list[int] = []  # slots whose last storage has died
    opened = now = dead = 0
    births, deaths, conflicts = problem.birth, problem.death, problem.conflicts
    order = np.argsort(build_column(map(deaths.__getitem__, members), np.uint64, len(members)), kind="stable")
    by_death = pack_integers(np.asarray(members)[order], "i")
    tenants: dict[int, set[int]] = {}  # all storages a slot has held; kept only where there are conflicts
    for k in members:
        birth, gone = births[k], dead
        if observer is not None and birth > now:
            observer("advance", step=birth)
            now = birth
        while deaths[by_death[dead]] < birth:  # it was born before: births are in order
            heapq.heappush(free, slot[by_death[dead]])
            dead += 1
        if observer is not None:
            for death, freed in sorted((deaths[j], slot[j]) for j in by_death[gone:dead]):
                observer("expire", slot=freed - first, death=death)
        chosen = _take(free, conflicts.get(k), tenants) if reuse and free else None
        is_new = chosen is None
        if chosen is None:
            chosen = first + opened
            opened += 1
        if observer is not None:
            observer("open" if is_new else "reuse", storage=k, slot=chosen - first)
        if conflicts:
            tenants.setdefault(chosen, set()).add(k)
        slot[k] = chosen
    return opened


def _take(free: list[int], forbidden: set[int] | None, tenants: dict[int, set[int]]) -> int | None:
    """Remove and return the lowest free slot that never held a storage of `forbidden`; None if there is none."""
    if not forbidden:
        return heapq.heappop(free)
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
