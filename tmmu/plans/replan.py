"""Replacing one plan by another: the key by which a cache keeps plans, and the record in a trace.

spec: R6.9, R6.10
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tmmu.core import canonical
from tmmu.core.bindings import bindings_object, format_ranges
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Bindings
from tmmu.plans import file
from tmmu.plans.gate import SPEC_VERSION
from tmmu.plans.sections import Plan

NO_SHAPE: Mapping[str, int] = {}
"""The shape of a replacement that has another reason than a shape."""


def shape_envelope_hash(bindings: Bindings) -> bytes:
    """Return the digest of all that fixes or bounds a shape: sizes, ranges, shapes, values, stated sizes. spec: R6.9"""
    known = bindings_object(bindings)
    stated = [known[name] for name in ("stated", "steps") if name in known]
    return canonical.digest(
        [known["dims"], known.get("ranges", {}), known["shapes"], known["values"], known["defaults"], *stated]
    )


def replan_key(plan: Plan) -> bytes:
    """Return the key under which a cache keeps a plan: equal keys, equal layouts. spec: R6.9

    It consists of 001's three parts (shape envelope, mode, arena configuration), and everything else that determines
    the layout of a plan.
    """
    hashes = file.compute_hashes(plan)
    donated = list(plan.bindings.donated)
    return canonical.commitment(
        "tmmu_replan_key_v1",
        [
            shape_envelope_hash(plan.bindings), plan.origin.mode, hashes["arena_config_hash"], plan.origin.ir_hash,
            hashes["shard_spec_hash"], plan.origin.layout, plan.origin.order, donated,
            plan.origin.address_token_digest, SPEC_VERSION,
            *(["symbolic"] if plan.envelope is not None and plan.envelope.symbolic else []),
        ],
    )  # fmt: skip


def dimension_ranges(bindings: Bindings) -> dict[str, tuple[int, int]]:
    """Return every named dimension with its range; a bound dimension has a range of one size."""
    return {**{name: (size, size) for name, size in bindings.dims.items()}, **bindings.ranges}


def convert_to_units(plan: Plan, shape: Mapping[str, int]) -> dict[str, int]:
    """Convert each dimension of a shape that has a step to its units, which the plan's envelope has.

    Raises CONTRACT_VIOLATION for a size between steps, under every policy. spec: R6.14
    """
    steps, found = plan.bindings.steps, dict[str, int]()
    for name, size in shape.items():
        if name not in steps:
            found[name] = size
            continue
        unit, first, step = steps[name]
        if size < first or (size - first) % step:
            held = format_ranges(plan.bindings).get(name, f"multiples of {step}")
            raise TmmuError(
                "CONTRACT_VIOLATION", f"{name} is {size}, the envelope holds {held}",
                place="the shape", fix=f"pad it to {first + max(0, -(-(size - first) // step)) * step}",
                operator="UML_OS.TMMU.PrepareMemory_v2", failure_operator="UML_OS.TMMU.PrepareMemory_v2",
            )  # fmt: skip
        found[unit] = (size - first) // step
    return found


@dataclass(frozen=True)
class ReplanRecord:
    """The trace record of one replan: when, why, and which plan replaced which.

    `t` is the iteration that the safepoint opens. The new plan is in force from it on, and checkpoints from then on
    store its hash. `shape` is the requested one; it is empty if the caller replaced plans for another reason.
    """

    t: int
    reason: str
    shape: dict[str, int]
    old_envelope: dict[str, tuple[int, int]]
    new_envelope: dict[str, tuple[int, int]]
    old_replan_key: bytes
    new_replan_key: bytes
    old_tmmu_plan_hash: bytes
    new_tmmu_plan_hash: bytes

    @classmethod
    def between(cls, old: Plan, new: Plan, t: int, reason: str, shape: Mapping[str, int] = NO_SHAPE) -> ReplanRecord:
        """Build the record of `new` replacing `old`. Raises INVALID_PLAN for a plan without provenance. O(plan)."""
        return cls(
            t, reason, dict(sorted(shape.items())), dimension_ranges(old.bindings), dimension_ranges(new.bindings),
            replan_key(old), replan_key(new), file.plan_identity(old), file.plan_identity(new),
        )  # fmt: skip

    def to_object(self) -> dict[str, Any]:
        """Return the record as a trace stores it (`spec/records.cddl`): text keys, integers, bytes."""
        envelopes = {
            name: {dim: list(ends) for dim, ends in getattr(self, name).items()}
            for name in ("old_envelope", "new_envelope")
        }
        return {"kind": "replan", **self.__dict__, **envelopes}
