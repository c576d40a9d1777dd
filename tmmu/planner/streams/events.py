"""Say what single events do to a plan with streams: which one would repair its races, and what each one saves.

An event is a direct wait of a step for another. Without it more steps may overlap, so that fewer storages can share
bytes; or two steps race. spec: X5.2, X5.3, RP3.7
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np

from tmmu.core.columns import build_column
from tmmu.core.vocabulary import Shares
from tmmu.planner.streams.antichain import find_antichain
from tmmu.planner.streams.program import StreamColumns, list_lengths, order_of_plan, streams_of_plan
from tmmu.planner.streams.steps import StepOrder
from tmmu.planner.streams.storages import StoragePrecedence
from tmmu.plans.allocation import Allocation
from tmmu.plans.columns import SHARES

VIEW = SHARES.index(Shares.VIEW)
MOST_RACES = 1000
"""The most races that are collected."""


class PlanRace(NamedTuple):
    """Two steps that may run at the same time and access a common byte, at least one of them writing.

    Or one makes a view, or a tensor without bytes, and the other reads it. `earlier` is the step that the list has
    first; `tensors` are what it and the other one access there.
    """

    earlier: int
    later: int
    tensors: tuple[int, int]


class DirectWait(NamedTuple):
    """Step `step` waits for step `after`."""

    step: int
    after: int


class EventValue(NamedTuple):
    """What the arenas would need without an event: slots, and the bytes of their heaviest antichains.

    `races` is whether two steps would then race whatever the placement.
    """

    event: DirectWait
    slots: tuple[int, ...]
    bytes: tuple[int, ...]
    races: bool


def find_races(allocation: Allocation, order: StepOrder, most: int = MOST_RACES) -> list[PlanRace]:
    """Return races of a plan, by pairs of tensors that share bytes. O(tensors log tensors + accesses of such pairs)."""
    accesses: dict[int, list[tuple[int, bool]]] = {}
    steps, t = allocation.steps, allocation.tensors
    for which in ("reads", "writes"):
        for s, listed in enumerate(steps.listed(which)):
            for tensor in listed:
                # A view writes nothing: its step reads the bytes of its base.
                is_write = which == "writes" and int(t.shares[tensor]) != VIEW
                accesses.setdefault(tensor, []).append((s, is_write))
    arena = allocation.storages.arena[t.storage].tolist()
    start, size = allocation.addresses().tolist(), t.bytes.tolist()
    found: dict[tuple[int, int], PlanRace] = {}
    maker = t.writer.tolist()
    for k, listed_accesses in accesses.items():
        for s, _ in listed_accesses:
            is_unseen = not size[k] or int(t.shares[k]) == VIEW
            if is_unseen and maker[k] < s and not order.is_before(maker[k], s):  # the caller's is NONE
                found.setdefault((maker[k], s), PlanRace(maker[k], s, (k, k)))
    by_address = sorted((k for k in accesses if size[k]), key=lambda k: (arena[k], start[k]))
    live: list[int] = []
    for k in by_address:
        live = [j for j in live if arena[j] == arena[k] and start[j] + size[j] > start[k]]
        live.append(k)
        for j in live:
            for (a, a_writes), (b, b_writes) in product(accesses[j], accesses[k]):
                race = PlanRace(a, b, (j, k)) if a < b else PlanRace(b, a, (k, j))
                if a != b and (a_writes or b_writes) and not order.is_before(race.earlier, race.later):
                    found.setdefault((race.earlier, race.later), race)
                    if len(found) == most:
                        return list(found.values())
    return [found[key] for key in sorted(found)]


def find_repair(order: StepOrder, races: Sequence[PlanRace]) -> DirectWait | None:
    """Return a single event that orders the steps of all races, or None if there is none. O(races² + candidates)."""
    firsts, seconds = sorted({race.earlier for race in races}), sorted({race.later for race in races})

    def is_until(first: int, second: int) -> bool:
        return first == second or order.is_before(first, second)

    latest = [n for n in firsts if all(is_until(other, n) for other in firsts)]
    earliest = [n for n in seconds if all(is_until(n, other) for other in seconds)]
    return next((DirectWait(step, after) for after in latest for step in earliest if after < step), None)


def without_event(streams: StreamColumns, event: DirectWait) -> StreamColumns:
    """Return the streams without one of the direct waits."""
    step = np.repeat(np.arange(len(streams.stream)), list_lengths(streams.after_at))
    kept = (step != event.step) | (streams.after != event.after)
    counts = np.bincount(step[kept], minlength=len(streams.stream))
    u32 = np.uint32
    after_at = build_column(np.concatenate([[0], np.cumsum(counts)]), u32)
    return replace(streams, after_at=after_at, after=build_column(streams.after[kept], u32))


def measure_arenas(allocation: Allocation, order: StoragePrecedence) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return for each arena the fewest slots, and the bytes of its heaviest antichain, as far as it reuses bytes."""
    slots, weights = [], []
    s = allocation.storages
    for a, arena in enumerate(allocation.arenas):
        rows = np.flatnonzero((s.arena == a) & (s.bytes > 0))
        sizes = s.bytes[rows].tolist()
        part = order.part(rows)
        slots.append(len(find_antichain(part).storages) if arena.reuse else len(rows))
        weights.append(find_antichain(part, sizes).weight if arena.reuse else sum(sizes))
    return tuple(slots), tuple(weights)


def measure_events(allocation: Allocation, most: int) -> list[EventValue]:
    """Return what the arenas of a plan would need without each of its events, up to `most` of them.

    Storages are those of the plan: what shares bytes in place still does. O(events x antichains).
    """
    streams = streams_of_plan(allocation)
    if streams is None:
        return []
    waits = allocation.waits
    found = []
    for event in map(DirectWait, waits.step[:most].tolist(), waits.after[:most].tolist()):
        fewer = without_event(streams, event)
        order = order_of_plan(allocation, fewer)
        assert order is not None
        races = bool(find_storage_races(allocation, fewer.order()))
        found.append(EventValue(event, *measure_arenas(allocation, order), races))
    return found


def find_storage_races(allocation: Allocation, order: StepOrder) -> list[PlanRace]:
    """Return races within one storage: those that no other placement of the storages would avoid."""
    return [race for race in find_races(allocation, order) if _in_one_storage(allocation, race)]


def _in_one_storage(allocation: Allocation, race: PlanRace) -> bool:
    storage = allocation.tensors.storage
    return bool(storage[race.tensors[0]] == storage[race.tensors[1]])
