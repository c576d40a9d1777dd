"""A plan of another producer as a whole: all of its allocations at one time, and what another packing would need.

XLA and Inductor give each input, result and pool an allocation of its own. One of them says little about what a program
needs; here they are added up, step by step. spec: RP3.8, RP3.9
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tmmu.planner.buffers import LiveBuffer, pack_buffers, peak_bytes
from tmmu.plans.sections import BufferPlan, Plan
from tmmu.report.arena_map import ArenaMap, find_released

SPACE = re.compile(r" in (memory space \d+)$")
"""Where the name of an allocation states the memory that it is in."""


@dataclass(frozen=True)
class PeakStorage:
    """A storage that is live at the peak: its bytes, its tensors, one a line, its arena and its lifetime."""

    bytes: int
    names: str
    arena: str
    birth: int
    death: int


@dataclass(frozen=True)
class Overview:
    """All arenas of a plan together: their footprints, the most live bytes, the first step with them, what is live."""

    arenas: int
    footprint: int
    peak: int
    peak_step: int
    live: list[PeakStorage]


def sum_up(maps: Sequence[ArenaMap]) -> Overview:
    """Return all arenas at one time. The largest storages come first. O(storages + steps x arenas)."""
    total = np.sum([one.live for one in maps], axis=0) if maps else np.zeros(1)
    step = int(total.argmax())
    live = [
        PeakStorage(int(one.bytes[k]), one.names[k], one.name, int(one.birth[k]), int(one.death[k]))
        for one in maps
        for k in np.flatnonzero((one.birth <= step) & (one.death >= step)).tolist()
    ]
    live.sort(key=lambda storage: -storage.bytes)
    return Overview(len(maps), sum(one.footprint for one in maps), int(total.max()), step, live)


@dataclass(frozen=True)
class Repacking:
    """Storages in another packing: how many arenas they are in, their footprint now and then, and the lower bound."""

    what: str
    arenas: int
    storages: int
    now: int
    then: int
    bound: int


def find_obstacle(plan: Plan | BufferPlan) -> str | None:
    """Return why the lifetimes of a plan do not say which storages may share bytes, None if they do."""
    if plan.placement.must_not_alias:
        return "the plan states storages that must not alias"
    if isinstance(plan, Plan) and plan.allocation.streams:
        return "steps of several streams overlap"
    return None


def repack(plan: Plan | BufferPlan) -> list[Repacking]:
    """Pack each arena anew that can need less, then all arenas of each memory into one. O(n log n + looks).

    Lifetimes, sizes and alignments are the plan's, so that a result is a placement that the verifier accepts.
    """
    placement = plan.placement
    storages, found = placement.storages, list[Repacking]()
    released = find_released(plan).tolist()
    columns = (storages.birth, storages.death, storages.bytes, storages.alignment)
    buffers = [LiveBuffer(*each) for each in zip(*(column.tolist() for column in columns), strict=True)]
    of_arena: list[list[LiveBuffer]] = [[] for _ in placement.arenas]
    footprint = [0] * len(placement.arenas)
    memories: dict[str, list[int]] = {}
    for k, (a, at, buffer) in enumerate(zip(storages.arena.tolist(), storages.offset.tolist(), buffers, strict=True)):
        if not released[k]:
            of_arena[a].append(buffer)
        footprint[a] = max(footprint[a], at + max(1, buffer.bytes))
    for a, (arena, own) in enumerate(zip(placement.arenas, of_arena, strict=True)):
        space = SPACE.search(arena.name)
        memories.setdefault(space.group(1) if space else "", []).append(a)
        if len(own) > 1 and footprint[a] > peak_bytes(own):
            found.append(_pack(arena.name, 1, own, footprint[a]))
    for memory, members in memories.items():
        every = [buffer for a in members for buffer in of_arena[a]]
        if len(members) > 1:
            name = f"all of {memory} in one arena" if memory else "all in one arena"
            found.append(_pack(name, len(members), every, sum(footprint[a] for a in members)))
    return found


def _pack(what: str, arenas: int, buffers: Iterable[LiveBuffer], now: int) -> Repacking:
    own = list(buffers)
    return Repacking(what, arenas, len(own), now, min(now, pack_buffers(own).height), peak_bytes(own))
