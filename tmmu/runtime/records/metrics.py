"""The metrics of a plan as a record, under the documents' names (R3; the table of names is in `spec/runtime.md`).

Every metric follows from the plan. A measured time is reported beside the record, never in it.
spec: U5.4, U5.5
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tmmu.core.vocabulary import Role, Shares
from tmmu.plans.columns import IS_SAVED, ROLES, SHARES
from tmmu.plans.metrics import compute_footprints, compute_occupancy
from tmmu.plans.sections import Plan, require_section
from tmmu.runtime.records.ratios import Ratio, ratio

SCHEMA = "tmmu_metrics_v1"


def of_plan(plan: Plan) -> dict[str, Any]:
    """Compute the metrics of a plan. O(plan)."""
    used, held = compute_occupancy(plan)
    per_arena = np.bincount(
        plan.allocation.storages.arena[plan.allocation.tensors.storage], minlength=len(plan.allocation.arenas)
    ).tolist()
    slots = [require_section(usage.slots, "claims.usage.slots") for usage in plan.usage]
    sizes = compute_footprints(plan.allocation)
    arenas = [
        {
            "arena": arena.name,
            "peak_logical_slots": slots[a],
            "max_live": usage.max_live,
            "peak_physical_bytes": sizes[a],
            "peak_tmmu_usage": usage.peak_live_bytes,
            "memory_reuse_ratio": reuse(slots[a], per_arena[a]),
            "internal_fragmentation_ratio": ratio(held[a] - used[a], held[a]),
        }
        for a, (arena, usage) in enumerate(zip(plan.allocation.arenas, plan.usage, strict=True))
    ]
    return {
        "metric_schema": SCHEMA,
        "arenas": arenas,
        "total_logical_slots": sum(slots),
        "memory_reuse_ratio": reuse(sum(slots), len(plan.allocation.tensors)),
        "internal_fragmentation_ratio": fragmentation(plan),
        "activation_retention_ratio": retention(plan),
    }


def reuse(slots: int, tensors: int) -> Ratio:
    """Compute 1 - slots / tensors; 0 if there are no tensors, or if a wrong plan has more slots than tensors."""
    return ratio(max(0, tensors - slots), tensors)


def fragmentation(plan: Plan) -> Ratio:
    """Compute 1 - (bytes x steps live) / (slot bytes x steps occupied), over all arenas."""
    used, held = compute_occupancy(plan)
    return ratio(max(0, sum(held) - sum(used)), sum(held))


def retention(plan: Plan) -> Ratio:
    """Compute the bytes of activations saved for backward, divided by the bytes of all activations, without views."""
    t = plan.allocation.tensors
    mine = (t.role == ROLES.index(Role.ACTIVATION)) & (t.shares != SHARES.index(Shares.VIEW))
    saved = mine & ((t.flags & IS_SAVED) != 0)
    return ratio(sum(t.bytes[saved].tolist()), sum(t.bytes[mine].tolist()))
