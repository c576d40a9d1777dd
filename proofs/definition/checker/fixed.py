"""Check tensors whose offsets in their arenas are fixed, by the user or by the plan's own provenance.

The offsets that a model fixes are compared with the model (`proofs.definition.model.compare_tensors`).
spec: A10.6, A10.7
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from proofs.definition.violations import Obligation, Violation
from tmmu.plans.sections import BufferPlan, Plan

PROVENANCE, USER = "provenance.fixed", "--fix"
"""The sources of a mapping of offsets."""


def misplaced(plan: Plan | BufferPlan, asked: Mapping[str, int], by: str) -> Iterator[Violation]:
    """Yield every tensor or buffer that is missing or does not begin at its requested offset. O(tensors)."""
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
