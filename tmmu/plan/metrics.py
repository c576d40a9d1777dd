"""What people ask of a plan: how large, how well reused, what is live at the peak (R3, `spec/tmmu.md`).

Counts are integers from the plan; ratios are computed here, for people, and stand in no plan.
spec: R3.1, R3.2, R3.3, C2.3
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tmmu.core.columns import NONE
from tmmu.core.dims.expressions import show
from tmmu.plan.columns import PARTS, ROLES, SHARES, Plan


def ratio(part: int, whole: int) -> float:
    """`part` / `whole`, and 1 where both are nothing."""
    return part / whole if whole else float(part == 0)


def memory_reuse_ratio(slots: int, things: int) -> float:
    """1 - slots / things, and 0 where there is nothing.

    >>> memory_reuse_ratio(2, 8), memory_reuse_ratio(0, 0)
    (0.75, 0.0)
    """
    return 1 - slots / things if things else 0.0


def occupancy(plan: Plan) -> tuple[list[int], list[int]]:
    """For each arena bytes × steps of its storages, and of the slots while they are occupied. O(storages)."""
    s = plan.storages
    span = (s.death.astype(np.int64) - s.birth.astype(np.int64) + 1).tolist()
    size, slot, slot_size = s.bytes.tolist(), s.slot.tolist(), plan.slots.bytes.tolist()
    used, held = [0] * len(plan.arenas), [0] * len(plan.arenas)
    for k, a in enumerate(s.arena.tolist()):
        used[a] += size[k] * span[k]
        held[a] += slot_size[slot[k]] * span[k]
    return used, held


def arenas(plan: Plan) -> list[dict[str, Any]]:
    """One record an arena: configuration, what the plan claims of it, and the ratios. O(plan)."""
    storage_arena = plan.storages.arena
    tensor_arena = storage_arena[plan.tensors.storage]
    used, held = occupancy(plan)
    slot_size, slot_arena = plan.slots.bytes.tolist(), plan.slots.arena.tolist()
    backing = [0] * len(plan.arenas)
    for a, bytes_ in zip(slot_arena, slot_size, strict=True):
        backing[a] += bytes_
    counts = (np.bincount(column, minlength=len(plan.arenas)).tolist() for column in (tensor_arena, storage_arena))
    result = []
    for a, (arena, usage, tensors, storages) in enumerate(zip(plan.arenas, plan.usage, *counts, strict=True)):
        result.append(
            {
                "name": arena.name,
                "device": arena.device,
                "memory": arena.memory,
                "roles": [str(role) for role in arena.roles],
                "reuse": arena.reuse,
                "capacity": arena.capacity,
                "alignment": arena.alignment,
                "page_size": arena.page_size,
                "footprint_bytes": usage.footprint,
                "peak_live_bytes": usage.peak_live_bytes,
                "peak_step": usage.peak_step,
                "footprint_per_peak": ratio(usage.footprint, usage.peak_live_bytes),
                "tensors": tensors,
                "storages": storages,
                "slots": usage.slots,
                "max_live": usage.max_live,
                "max_live_step": usage.max_live_step,
                "slot_count_is_minimal": usage.minimal,
                "slot_bytes": backing[a],
                "memory_reuse_ratio": memory_reuse_ratio(usage.slots, tensors),
                "storage_reuse_ratio": memory_reuse_ratio(usage.slots, storages),
                "internal_fragmentation_ratio": 1 - used[a] / held[a] if held[a] else 0.0,
            }
        )
    return result


def tensors(plan: Plan) -> list[dict[str, Any]]:
    """One record a tensor, in row order; inside an envelope with its size as an expression. O(tensors)."""
    t, s = plan.tensors, plan.storages
    names, arena_names = t.name.list(), [a.name for a in plan.arenas]
    storage = t.storage
    first = first_slot(plan)
    columns: dict[str, NDArray[Any]] = {
        "storage": storage, "arena": s.arena[storage], "slot": s.slot[storage], "offset": plan.addresses(),
        "bytes": t.bytes, "alignment": t.alignment, "birth": t.birth, "death": t.death, "writer": t.writer,
        "shares": t.shares, "of": t.of, "dtype": t.dtype, "role": t.role,
    }  # fmt: skip
    open_sizes = None if plan.envelope is None else plan.sizes()
    rows: list[dict[str, Any]] = []
    for name, row in zip(names, zip(*(c.tolist() for c in columns.values()), strict=True), strict=True):
        record = {"name": name, **dict(zip(columns, row, strict=True))}
        arena = record["arena"]
        record["slot"] -= first[arena]
        record["arena"] = arena_names[arena]
        record["writer"] = None if record["writer"] == NONE else record["writer"]
        record["shares"] = str(SHARES[record["shares"]])
        record["of"] = None if record["of"] == NONE else names[record["of"]]
        record["dtype"] = plan.dtypes[record["dtype"]]
        record["role"] = str(ROLES[record["role"]])
        if open_sizes is not None:
            record["size"] = show(open_sizes[len(rows)])
        rows.append(record)
    return rows


def first_slot(plan: Plan) -> list[int]:
    """The row of each arena's slot 0: slots are numbered in their arena, rows in the plan."""
    first: dict[int, int] = {}
    for row, arena in enumerate(plan.slots.arena.tolist()):
        first.setdefault(arena, row)
    return [first.get(a, 0) for a in range(len(plan.arenas))]


def steps(plan: Plan) -> list[dict[str, Any]]:
    """One record a step, in order. O(steps + accesses)."""
    names, bodies = plan.tensors.name.list(), plan.bodies.name.list()
    lists = [plan.steps.listed(which) for which in plan.steps.LISTS]
    return [
        {
            "step": n,
            "node": node,
            "op": plan.ops[op][1],
            "domain": plan.ops[op][0],
            "part": str(PARTS[part]),
            "body": bodies[body],
            "reads": [names[t] for t in reads],
            "writes": [names[t] for t in writes],
            "mutates": [names[t] for t in mutates],
        }
        for n, (node, op, part, body, reads, writes, mutates) in enumerate(
            zip(
                plan.steps.node, plan.steps.op.tolist(), plan.steps.part.tolist(), plan.steps.body.tolist(), *lists,
                strict=True,
            )
        )
    ]  # fmt: skip


def largest_at_peak(plan: Plan, arena: int, count: int = 10) -> list[tuple[str, int, int, int]]:
    """The largest storages that are live at the arena's peak: (name of the first tensor, bytes, birth, death)."""
    s, peak = plan.storages, plan.usage[arena].peak_step
    live = np.flatnonzero((s.arena == arena) & (s.birth <= peak) & (s.death >= peak))
    chosen = live[np.argsort(-s.bytes[live].astype(np.float64), kind="stable")][:count]
    first = {int(k): t for t, k in reversed(list(enumerate(plan.tensors.storage.tolist())))}
    names = plan.tensors.name.list()
    return [
        (names[first[k]] if k in first else f"storage {k}", int(s.bytes[k]), int(s.birth[k]), int(s.death[k]))
        for k in chosen.tolist()
    ]
