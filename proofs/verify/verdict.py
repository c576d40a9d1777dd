"""What a verification says of one plan: a verdict with its obligations and, where it is refuted, its witness.

The first thing that the naive side finds wrong is the witness, in the user's own names. spec: V4.4, C1.4, C1.5
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
from tmmu.plan.columns import Plan

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
    claims: dict[str, Any] = field(default_factory=dict)
    assumptions: dict[str, Any] = field(default_factory=dict)
    witness: dict[str, Any] | None = None
    notes: list[str] = field(default_factory=list)
    model: str | None = None
    kernel: dict[str, Any] = field(default_factory=dict)
    """What the checker that Coq has proved says: `said` is yes, no, nothing or not installed."""

    @property
    def line(self) -> str:
        """The one line that text output begins a file with."""
        against = f" against {self.model}" if self.model is not None else f" {self.scope}"
        return f"{self.verdict} {self.file}{against if self.verdict != 'ERROR' else ''}"


def listed(plan: Plan) -> tuple[str, ...]:
    """Every obligation that a verdict on this plan lists."""
    of_envelope = (envelope.NAME,) if plan.envelope is not None else ()
    return (*OBLIGATIONS, *of_envelope, *(OF_SHARDED if plan.shard_spec else ()))


def refute(result: Verdict, plan: Plan, found: Sequence[Wrong]) -> None:
    """The first problem is the witness; each obligation that something breaks is REFUTED."""
    broken: dict[str, str] = {}
    for item in found:
        name, text = _broken(item)
        broken.setdefault(name, text)
    result.verdict, result.exit = REFUTED, EXITS[REFUTED]
    result.obligations = [
        {"name": name, "verdict": REFUTED if name in broken else UNKNOWN, "detail": broken.get(name, "not reached")}
        for name in listed(plan)
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
