"""The maps of a plan set: each program's arenas on the address axis of the set, with the state that it does not have.

spec: RP1.8
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tmmu.plans.sections import Plan
from tmmu.plans.sets import PlanSet, SharedTensor
from tmmu.report.arena_map import ArenaMap, arena_maps

STATE, WEIGHT, ABSENT = "shared state", "shared weight", "state of other programs"
"""The roles of storages that are shared."""


def set_maps(plan_set: PlanSet, plans: Mapping[str, Plan]) -> dict[str, list[ArenaMap]]:
    """Return the maps of each program, all of an arena as high as the set needs. O(storages)."""
    footprints = {arena.name: arena.bytes for arena in plan_set.agreement.arenas}
    found = {}
    for name, plan in plans.items():
        shared = plan_set.agreement.shared
        maps = [replace(one, footprint=max(one.footprint, footprints.get(one.name, 0))) for one in arena_maps(plan)]
        found[name] = [_add_absent(_mark(one, name, shared), name, shared) for one in maps]
    return found


def _mark(one: ArenaMap, program: str, shared: tuple[SharedTensor, ...]) -> ArenaMap:
    """Give the storages that hold shared tensors a role of their own."""
    roles = {
        tensor: WEIGHT if each.is_weight else STATE
        for each in shared
        if program in each.uses
        for tensor in each.uses[program].names
    }
    role = [
        next((roles[tensor] for tensor in names.split("\n") if tensor in roles), role)
        for names, role in zip(one.names, one.role, strict=True)
    ]
    return replace(one, role=role)


def _add_absent(one: ArenaMap, program: str, shared: tuple[SharedTensor, ...]) -> ArenaMap:
    """Add the shared tensors of the arena that the program does not have: they keep their bytes throughout."""
    absent = [each for each in shared if each.arena == one.name and program not in each.uses]
    count = len(absent)
    if not count:
        return one
    none, sizes = np.full(count, -1, np.int64), np.array([each.bytes for each in absent], np.float64)
    return replace(
        one,
        offset=np.append(one.offset, np.array([each.offset for each in absent], np.float64)),
        bytes=np.append(one.bytes, sizes),
        birth=np.append(one.birth, np.zeros(count, np.int64)),
        death=np.append(one.death, np.full(count, one.last_step, np.int64)),
        slot=np.append(one.slot, none),
        role=[*one.role, *[ABSENT] * count],
        operator=[*one.operator, *[""] * count],
        producer=np.append(one.producer, none),
        reader=np.append(one.reader, none),
        names=[*one.names, *(each.name for each in absent)],
        live=one.live + sizes.sum(),
    )
