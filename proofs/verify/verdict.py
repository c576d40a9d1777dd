"""What a verification says of one plan: a verdict with its obligations and, where it is refuted, its witness.

The first thing that the naive side finds wrong is the witness, in the user's own names. A verdict keeps apart what was
proved (by solver and theorems), what was compared (value by value), and what was not looked at. spec: V4.4, C1.4, C1.5
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from proofs.checker import envelope
from proofs.checker.claims import FalseField
from proofs.checker.envelope import AtShape
from proofs.checker.execute import Problem
from proofs.obligations import Outcome
from proofs.readers.models import compare
from tmmu.plan.sections import BufferPlan, Plan

PROVED, REFUTED, UNKNOWN = "PROVED", "REFUTED", "UNKNOWN"
EXITS = {PROVED: 0, REFUTED: 1, UNKNOWN: 3}
NO_PLAN = 4

OBLIGATIONS = (
    "hashes", "steps_are_the_model", "bodies_nest", "roles_have_arenas", "no_live_overlap", "alignment", "capacity",
    "tensors_within_storages", "lifetimes_cover_accesses", "sharing_is_sound", "must_not_alias", "slot_count", "peak",
)  # fmt: skip
"""Every obligation that a verdict lists, in this order; of a plan for an envelope `sizes_over_envelope` as well."""

BY_COMPARISON = ("hashes", "steps_are_the_model", "bodies_nest", "roles_have_arenas")
"""Those of them that no solver is asked: values are compared, steps are walked."""

OF_SHARDED = ("shards",)
"""Those that the verdict on a plan with a shard spec lists besides; they are compared, too."""

OF_STEPS = (
    "steps_are_the_model", "bodies_nest", "roles_have_arenas", "tensors_within_storages", "lifetimes_cover_accesses",
    "sharing_is_sound",
)  # fmt: skip
"""Those that speak of steps and tensors."""

Wrong = Problem | FalseField | AtShape | compare.Difference
"""Whatever the naive side may find."""


@dataclass
class Verdict:
    """The answer for one file, in the fields of the JSON output (C1.4)."""

    file: str
    verdict: str
    exit: int
    scope: str
    obligations: list[dict[str, Any]] = field(default_factory=list)
    proved: list[str] = field(default_factory=list)
    """The obligations that solvers and theorems have proved, none without a row."""
    compared: list[str] = field(default_factory=list)
    """The obligations for which values were compared and steps walked."""
    not_looked_at: dict[str, str] = field(default_factory=dict)
    """What was not looked at, each with its reason."""
    claims: dict[str, Any] = field(default_factory=dict)
    assumptions: dict[str, Any] = field(default_factory=dict)
    witness: dict[str, Any] | None = None
    notes: list[str] = field(default_factory=list)
    model: str | None = None
    kernel: dict[str, Any] = field(default_factory=dict)
    """What the checker that Coq has proved says: `said` is yes, no, nothing, not asked or not installed."""

    @property
    def line(self) -> str:
        """The one line that text output begins a file with."""
        against = f" against {self.model}" if self.model is not None else f" {self.scope}"
        return f"{self.verdict} {self.file}{against if self.verdict != 'ERROR' else ''}"


def absent(plan: Plan | BufferPlan, against_model: bool) -> dict[str, str]:
    """The obligations that a plan gives no occasion for, each with the reason. spec: P2.5"""
    found: dict[str, str] = {}
    if isinstance(plan, BufferPlan):
        found |= dict.fromkeys(OF_STEPS, "no accesses are stated")
    elif not against_model:
        found["steps_are_the_model"] = "no model is given"
    if isinstance(plan, Plan) and (plan.claims is None or plan.claims.configuration is None):
        found["roles_have_arenas"] = "no configuration is claimed"
    usage = () if plan.claims is None else plan.claims.usage
    if all(used.slots is None and used.max_live is None for used in usage):
        found["slot_count"] = "no slots are claimed"
    if all(used.peak_live_bytes is None for used in usage):
        found["peak"] = "no peak is claimed"
    placement = plan.buffers if isinstance(plan, BufferPlan) else plan.allocation
    if not placement.must_not_alias:
        found["must_not_alias"] = "no pairs are stated"
    return found


def listed(plan: Plan | BufferPlan, against_model: bool = True) -> tuple[str, ...]:
    """Every obligation that a verdict on this plan lists."""
    missing = absent(plan, against_model)
    names = [name for name in OBLIGATIONS if name not in missing]
    if isinstance(plan, Plan):
        names += [envelope.NAME] if plan.envelope is not None else []
        names += OF_SHARDED if plan.provenance is not None and plan.provenance.shard_spec else ()
    return tuple(names)


def refute(result: Verdict, plan: Plan | BufferPlan, found: Sequence[Wrong]) -> None:
    """The first problem is the witness; each obligation that something breaks is REFUTED."""
    broken: dict[str, str] = {}
    for item in found:
        name, text = _broken(item)
        broken.setdefault(name, text)
    result.verdict, result.exit = REFUTED, EXITS[REFUTED]
    result.obligations = [
        {"name": name, "verdict": REFUTED if name in broken else UNKNOWN, "detail": broken.get(name, "not reached")}
        for name in dict.fromkeys((*listed(plan, result.model is not None), *broken))
    ]
    result.witness = _witness(found[0])
    result.notes = [_broken(item)[1] for item in found[1:6]]


def _broken(item: Wrong) -> tuple[str, str]:
    if isinstance(item, (Problem, AtShape)):
        return item.obligation, item.text
    if isinstance(item, FalseField):
        return item.obligation, f"{item.field} is stated as {item.stated}; it is {item.recomputed}"
    what = f"{item.what} of {item.node}" if item.node else item.what
    return (
        "shards" if item.what in ("shard", "sharding") else "steps_are_the_model",
        f"{what}: stated {item.stated or 'nothing'}; the model says {item.recomputed or 'nothing'}",
    )


def _witness(item: Wrong) -> dict[str, Any]:
    name, text = _broken(item)
    if isinstance(item, Problem):
        return {
            "obligation": name, "text": text, "tensors": list(item.tensors),
            "steps": [] if item.step is None else [item.step], "arena": item.arena,
            "first_byte": item.first_byte, "last_byte": item.last_byte,
        }  # fmt: skip
    if isinstance(item, AtShape):
        return {
            "obligation": name, "text": text, "tensors": list(item.tensors), "steps": [], "shape": item.shape,
            "sizes": list(item.sizes),
        }  # fmt: skip
    if isinstance(item, FalseField):
        return {
            "obligation": name,
            "text": text,
            "field": item.field,
            "stated": item.stated,
            "recomputed": item.recomputed,
        }
    return {
        "obligation": name, "text": text, "tensors": list(item.tensors), "node": item.node,
        "steps": [] if item.step is None else [item.step],
        "field": item.what, "stated": item.stated, "recomputed": item.recomputed,
    }  # fmt: skip


def entry_of(outcome: Outcome) -> dict[str, Any]:
    """What a verdict says of an obligation that solvers were asked about."""
    verdict = PROVED if outcome.verdict == PROVED else UNKNOWN
    entry = {"name": outcome.name, "verdict": verdict, "rows": outcome.rows, "detail": outcome.note}
    return {**entry, "solvers": outcome.solvers}
