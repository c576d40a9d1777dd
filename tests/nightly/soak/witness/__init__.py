"""Does a witness show what it says? Looked up in the plan's columns, step by step and byte by byte.

A witness is what a verdict prints, and nothing else is known of it. The naive checker has found it; here nothing of the
verifier is used, and a sentence that is not understood here shows nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.nightly.soak.witness.claims import at_shape, claimed, of_hashes
from tests.nightly.soak.witness.contents import outlived, shared
from tests.nightly.soak.witness.models import shows_difference
from tests.nightly.soak.witness.nesting import badly_nested
from tests.nightly.soak.witness.places import (
    aliased,
    beyond,
    misaligned,
    misfit,
    outgrown,
    overlap,
    role_not_held,
    weak_base,
)
from tests.nightly.soak.witness.ranks import shows_part, shows_ranks
from tmmu.plans.gate import StatedPlan
from tmmu.testing.catalogue import Case

__all__ = ["confirmed", "shows_ranks"]

Witness = Mapping[str, Any]

SHOWN = {
    "no_live_overlap": overlap, "alignment": misaligned, "capacity": beyond, "tensors_within_storages": outgrown,
    "must_not_alias": aliased, "slot_count": misfit, "roles_have_arenas": role_not_held,
}  # fmt: skip
"""Obligations whose witnesses name tensors and bytes."""

OF_STEPS = {"lifetimes_cover_accesses": outlived, "sharing_is_sound": shared}
"""Obligations whose witnesses are about steps, and of what the caller gives up."""

FIELDS = {"alignment": weak_base, "capacity": claimed, "peak": claimed, "slot_count": claimed, "shards": shows_part}
"""Obligations whose witnesses are a field with what is stated and what holds."""


def confirmed(case: Case, stated: StatedPlan, donated: frozenset[str], witness: Witness) -> bool:
    """Whether what a verdict prints of a plan is so."""
    name, plan = witness["obligation"], stated.plan
    if name == "hashes":
        return of_hashes(stated, witness)
    if "shape" in witness:
        return at_shape(plan, witness)
    if name == "steps_are_the_model":
        return shows_difference(case, plan, witness)
    if "field" in witness:
        return FIELDS[name](plan, witness) if name in FIELDS else False
    known = {*plan.allocation.tensors.name, "nothing", *(f"storage {k}" for k in range(len(plan.allocation.storages)))}
    if not known.issuperset(witness["tensors"]) or not witness["text"]:
        return False
    if name == "bodies_nest":
        return badly_nested(plan)
    return OF_STEPS[name](plan, donated, witness) if name in OF_STEPS else SHOWN[name](plan, witness)
