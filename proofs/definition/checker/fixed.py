"""Tensors that must begin at certain bytes of their arenas: because the user says so, or the plan's own provenance.

What a model states is compared with the model (`proofs.definition.model.compare_tensors`). spec: A10.6, A10.7
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from proofs.definition.violations import Obligation, Violation
from tmmu.plans.sections import BufferPlan, Plan

PROVENANCE, USER = "provenance.fixed", "--fix"
"""Who states the offsets of a mapping."""


def misplaced(plan: Plan | BufferPlan, asked: Mapping[str, int], by: str) -> Iterator[Violation]:
    """Every tensor, or buffer, that does not begin where it is asked for, or is not there. O(tensors)."""
    if not asked:
        return
    if isinstance(plan, Plan):
        names, offsets = plan.allocation.tensors.name, plan.allocation.addresses().tolist()
        arenas = plan.allocation.storages.arena[plan.allocation.tensors.storage].tolist()
    else:
        names, offsets = plan.buffers.name, plan.buffers.storages.offset.tolist()
        arenas = plan.buffers.storages.arena.tolist()
    row = {name: k for k, name in enumerate(names) if name in asked}
    for name, wanted in asked.items():
        found = "no such tensor" if name not in row else str(offsets[row[name]])
        if found != str(wanted):
            where = f" of arena {plan.placement.arenas[arenas[row[name]]].name!r}" if name in row else ""
            text = f"{by} asks for {name!r} at byte {wanted}; it is at {found}{where}"
            yield Violation(Obligation.OFFSETS_ARE_FIXED, text, (name,), field=by, stated=found, recomputed=str(wanted))
