"""Metrics of a plan for people: its size, its reuse, and the live storages at the peak (R3, `spec/tmmu.md`).

Counts are integers from the plan. Ratios are computed here, for people, and are not part of a plan.
spec: R3.1, R3.2, R3.3, C2.3
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tmmu.core.columns import NONE
from tmmu.core.dims.expressions import format_dim
from tmmu.plans.allocation import Placement
from tmmu.plans.columns import PARTS, ROLES, SHARES, Slots
from tmmu.plans.sections import Claims, Plan, Usage, require_section


def ratio(part: int, whole: int) -> float:
    """Return `part` / `whole`, and 1 if both are 0."""
    return part / whole if whole else float(part == 0)


def memory_reuse_ratio(slots: int, things: int) -> float:
    """Return 1 - slots / things, and 0 without things.

    >>> memory_reuse_ratio(2, 8), memory_reuse_ratio(0, 0)
    (0.75, 0.0)
    """
    return 1 - slots / things if things else 0.0


def compute_footprints(placement: Placement) -> list[int]:
    """Return the bytes that each arena needs: the end of its highest storage. O(storages). spec: A3.1, A2.4

    If addresses are scattered, it is the sum of the largest storage at each address. A storage of zero bytes counts as
    one byte (T7).
    """
    s = placement.storages
    ends: list[dict[int, int]] = [{} for _ in placement.arenas]
    for a, offset, size in zip(s.arena.tolist(), s.offset.tolist(), s.bytes.tolist(), strict=True):
        start = offset if placement.arenas[a].scattered else 0
        ends[a][start] = max(ends[a].get(start, 0), offset - start + max(1, size))
    return [sum(found.values()) for found in ends]


def needed_bytes(plan: Plan) -> list[int]:
    """Return the bytes that each arena needs: as claimed or, without a claim, as its storages take."""
    needed = compute_footprints(plan.allocation)
    usage = [Usage()] * len(needed) if plan.claims is None else plan.claims.usage
    return [least if used.footprint is None else used.footprint for least, used in zip(needed, usage, strict=True)]


def compute_occupancy(plan: Plan) -> tuple[list[int], list[int]]:
    """Return for each arena bytes × steps of its storages, and of their slots if slots are claimed. O(storages)."""
    s = plan.allocation.storages
    span = (s.death.astype(np.int64) - s.birth.astype(np.int64) + 1).tolist()
    claimed = None if plan.claims is None else plan.claims.slots
    size = s.bytes.tolist()
    taken = size if claimed is None else claimed.bytes[claimed.of].tolist()
    used, held = [0] * len(plan.allocation.arenas), [0] * len(plan.allocation.arenas)
    for k, a in enumerate(s.arena.tolist()):
        used[a] += size[k] * span[k]
        held[a] += taken[k] * span[k]
    return used, held


def arena_records(plan: Plan) -> list[dict[str, Any]]:
    """Return one record an arena: what the plan states and claims about it, and the ratios; None is not claimed.

    O(plan).
    """
    storage_arena = plan.allocation.storages.arena
    tensor_arena = storage_arena[plan.allocation.tensors.storage]
    used, held = compute_occupancy(plan)
    count = len(plan.allocation.arenas)
    claims = plan.claims or Claims((Usage(),) * count)
    backing: list[int | None] = [None] * count
    if claims.slots is not None:
        rows = [claims.slots.bytes[claims.slots.arena == a].tolist() for a in range(count)]
        backing = [sum(sizes) for sizes in rows]
    uses = [None] * count if claims.configuration is None else claims.configuration.uses
    least = compute_footprints(plan.allocation)
    counts = (
        np.bincount(column, minlength=len(plan.allocation.arenas)).tolist() for column in (tensor_arena, storage_arena)
    )
    names = plan.allocation.storage_names() if plan.allocation.streams else []
    result = []
    for a, (arena, usage, tensors, storages) in enumerate(
        zip(plan.allocation.arenas, claims.usage, *counts, strict=True)
    ):
        use, footprint = uses[a], least[a] if usage.footprint is None else usage.footprint
        result.append(
            {
                "name": arena.name,
                "device": use and use.device,
                "memory": use and use.memory,
                "roles": use and [str(role) for role in use.roles],
                "reuse": arena.reuse,
                "capacity": arena.capacity,
                "alignment": arena.alignment,
                "page_size": use and use.page_size,
                "footprint_bytes": footprint,
                "peak_live_bytes": usage.peak_live_bytes,
                "peak_step": usage.peak_step,
                "footprint_per_peak": None
                if usage.peak_live_bytes is None
                else ratio(footprint, usage.peak_live_bytes),
                "tensors": tensors,
                "storages": storages,
                "slots": usage.slots,
                "max_live": usage.max_live,
                "max_live_step": usage.max_live_step,
                "slot_count_is_minimal": usage.minimal,
                **({} if usage.antichain is None else {"antichain": [names[k] for k in usage.antichain]}),
                "slot_bytes": backing[a],
                "memory_reuse_ratio": None if usage.slots is None else memory_reuse_ratio(usage.slots, tensors),
                "storage_reuse_ratio": None if usage.slots is None else memory_reuse_ratio(usage.slots, storages),
                "internal_fragmentation_ratio": 1 - used[a] / held[a] if held[a] else 0.0,
            }
        )
    return result


def tensor_records(plan: Plan) -> list[dict[str, Any]]:
    """Return one record a tensor, in row order; inside an envelope with its size as an expression. O(tensors)."""
    t, s = plan.allocation.tensors, plan.allocation.storages
    names, arena_names = t.name.list(), [a.name for a in plan.allocation.arenas]
    storage = t.storage
    slots = None if plan.claims is None else plan.claims.slots
    first = first_slot(slots) if slots is not None else {}
    columns: dict[str, NDArray[Any]] = {
        "storage": storage, "arena": s.arena[storage], "slot": storage if slots is None else slots.of[storage],
        "offset": plan.allocation.addresses(),
        "bytes": t.bytes, "alignment": t.alignment, "birth": t.birth, "death": t.death, "writer": t.writer,
        "shares": t.shares, "of": t.of, "dtype": t.dtype, "role": t.role,
    }  # fmt: skip
    open_sizes = None if plan.envelope is None else plan.sizes()
    rows: list[dict[str, Any]] = []
    for name, row in zip(names, zip(*(c.tolist() for c in columns.values()), strict=True), strict=True):
        record = {"name": name, **dict(zip(columns, row, strict=True))}
        arena = record["arena"]
        record["slot"] = None if slots is None else record["slot"] - first[arena]
        record["arena"] = arena_names[arena]
        record["writer"] = None if record["writer"] == NONE else record["writer"]
        record["shares"] = str(SHARES[record["shares"]])
        record["of"] = None if record["of"] == NONE else names[record["of"]]
        record["dtype"] = plan.allocation.dtypes[record["dtype"]]
        record["role"] = str(ROLES[record["role"]])
        if open_sizes is not None:
            record["size"] = format_dim(open_sizes[len(rows)])
        rows.append(record)
    return rows


def first_slot(slots: Slots) -> dict[int, int]:
    """Return the row of each arena's slot 0: slots are numbered in their arena, rows in the plan."""
    first: dict[int, int] = {}
    for row, arena in enumerate(slots.arena.tolist()):
        first.setdefault(arena, row)
    return first


def step_records(plan: Plan) -> list[dict[str, Any]]:
    """Return one record a step, in order. O(steps + accesses)."""
    listed = plan.allocation.steps
    names, bodies = plan.allocation.tensors.name.list(), plan.allocation.bodies.name.list()
    lists = [listed.listed(which) for which in listed.LISTS]
    streams, stream = plan.allocation.streams, listed.stream.tolist()
    after = listed.listed("after") if streams else []
    return [
        {
            "step": n,
            "node": node,
            "op": plan.allocation.ops[op][1],
            "domain": plan.allocation.ops[op][0],
            "part": str(PARTS[part]),
            "body": bodies[body],
            "reads": [names[t] for t in reads],
            "writes": [names[t] for t in writes],
            "mutates": [names[t] for t in mutates],
            **({"stream": streams[stream[n]], "after": [listed.node[k] for k in after[n]]} if streams else {}),
        }
        for n, (node, op, part, body, reads, writes, mutates) in enumerate(
            zip(
                listed.node, listed.op.tolist(), listed.part.tolist(), listed.body.tolist(), *lists,
                strict=True,
            )
        )
    ]  # fmt: skip


def storages_at_peak(plan: Plan, arena: int) -> list[tuple[str, int, int, int]]:
    """Return the storages live at the arena's peak, the largest first: (its first tensor, bytes, birth, death)."""
    s, peak = plan.allocation.storages, require_section(plan.usage[arena].peak_step, "claims.usage.peak_step")
    live = np.flatnonzero((s.arena == arena) & (s.birth <= peak) & (s.death >= peak))
    chosen = live[np.argsort(-s.bytes[live].astype(np.float64), kind="stable")]
    names = plan.allocation.storage_names()
    return [(names[k], int(s.bytes[k]), int(s.birth[k]), int(s.death[k])) for k in chosen.tolist()]
