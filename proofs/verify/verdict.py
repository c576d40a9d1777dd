"""The verdict on one plan, with its obligations and, if it is refuted, its witness.

The first violation that is found without a solver is the witness, in the user's own names. A verdict keeps apart what
was proved (by solver and theorems), what was compared (value by value), and what was not checked.
spec: V4.4, C1.4, C1.5
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from proofs.definition.checker.inputs import InputFate, find_lost_inputs
from proofs.definition.violations import OF_STEPS, Discharge, Obligation, Violation, obligations_discharged
from proofs.proving.obligations import Outcome
from proofs.readers.arrivals import state_arrivals
from proofs.verify.boxes import boxes
from proofs.verify.options import Options
from tmmu.core.errors import TmmuError
from tmmu.plans.sections import BufferPlan, Plan

PROVED, REFUTED, UNKNOWN = "PROVED", "REFUTED", "UNKNOWN"
EXITS = {PROVED: 0, REFUTED: 1, UNKNOWN: 3}
NO_PLAN = 4
TYPES = "types"
"""The element types of tensors; without a model only their widths are used."""
UNUSED = ("model", "layout", "order", "replay_token", "ir_hash")
"""What every provenance states and its hashes cover, and is compared with nothing."""
OF_MODELS = ("mode", "source_digest")
"""The statements of provenance on a model, which are used if there is one."""
EXECUTION = "steps run one after another"
"""How the steps of a plan without streams are taken to run. spec: V5.9"""
OVERLAPPING = "steps of different streams overlap, and the hardware honours the order of each stream and its events"
"""How the steps of a plan with streams are taken to run. spec: X5.7"""
BARRIERS = ", and lets a node with bodies overlap no step outside of it"
"""What is assumed beside this if such a plan has several streams and nodes with bodies. spec: X5.14"""
COMPUTED = "lifetimes and storages were computed from the steps and from what shares with what"
"""The note on a plan that states neither; text output has it with `-v`."""
NO_PAIRS, NO_SLOTS, NO_PEAK, NO_CONFIGURATION = (
    "no pairs are stated", "no slots are claimed", "no peak is claimed", "no configuration is claimed",
)  # fmt: skip
NOTHING_SHARED, NO_ROWS = "no two tensors share bytes", "no rows"
NO_INPUTS, REUSED = "no inputs that are not donated", "bytes of inputs are written again"
NOT_CLAIMED = frozenset({NO_SLOTS, NO_PEAK, NO_CONFIGURATION})
"""The reasons of obligations about claims that a plan does not make."""
NOTHING_TO_CHECK = frozenset({NO_PAIRS, NOTHING_SHARED, NO_ROWS, NO_INPUTS, REUSED})
"""The reasons of obligations that a plan gives no occasion for, and of one that the assumptions state."""


NOTHING_KNOWN = InputFate()


def state_execution(plan: Plan | BufferPlan) -> str:
    """Return how the steps of a plan are taken to run, and when inputs arrive late. spec: V1.19, V5.9, X5.7, X5.14"""
    if isinstance(plan, BufferPlan):
        return EXECUTION
    arrivals = state_arrivals(plan.allocation)
    if not plan.allocation.streams:
        return EXECUTION + arrivals
    has_barriers = len(plan.allocation.streams) > 1 and len(plan.allocation.bodies) > 1
    return OVERLAPPING + BARRIERS * has_barriers + arrivals


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
    """The obligations that were checked by comparing values and walking steps."""
    not_looked_at: dict[str, str] = field(default_factory=dict)
    """Obligations and fields that were not checked, each with its reason."""
    claims: dict[str, Any] = field(default_factory=dict)
    assumptions: dict[str, Any] = field(default_factory=dict)
    witness: dict[str, Any] | None = None
    notes: list[str] = field(default_factory=list)
    model: str | None = None
    reading: dict[str, Any] | None = None
    """Of a plan of another producer: format, extent, assumptions, what is outside, approximations (FP1.4)."""
    taken_from: str | None = None
    """The folder of `--resume` that the verdict of an earlier run was taken from."""
    constructs: list[str] = field(default_factory=list)
    """The kinds of constructs that the reader of the file does not know, or cannot decide (FP1.18)."""
    kernel: dict[str, Any] = field(default_factory=dict)
    """The result of the checker that Coq has proved, as `proofs.proving.kernel.answer` gives it."""

    @classmethod
    def of_error(cls, file: str, error: TmmuError) -> Verdict:
        """Return the verdict on a file that is refused with an error."""
        constructs = [error.construct] if error.construct else []
        return cls(file, "ERROR", NO_PLAN, "", notes=[str(error)], constructs=constructs)

    @property
    def line(self) -> str:
        """The one line that text output begins a file with."""
        if self.verdict == "ERROR":
            return f"{self.verdict} {self.file}"
        against = f"against {self.model}" if self.model is not None else self.scope
        rank, ranks = self.assumptions.get("rank"), self.assumptions.get("world_size")
        part = f" (rank {rank} of {ranks})" if rank is not None else ""
        taken = f" (taken from {self.taken_from})" if self.taken_from is not None else ""
        return f"{self.verdict} {self.file}{part} {against}{taken}"


def absent(plan: Plan | BufferPlan, options: Options, fate: InputFate = NOTHING_KNOWN) -> dict[str, str]:
    """The obligations that a plan gives no occasion for, and what else is not looked at, each with the reason.

    `fate` is what becomes of the inputs of a plan with steps. spec: P2.5, V3.10, Z1.1
    """
    found: dict[str, str] = {}
    if options.arenas is None:
        found[Obligation.ARENAS_ARE_CONFIGURED] = "no configuration is given"
    if isinstance(plan, BufferPlan):
        found |= dict.fromkeys(OF_STEPS, "no accesses are stated")
    elif options.model is None:
        found |= dict.fromkeys((Obligation.STEPS_ARE_THE_MODEL, TYPES), "no model is given")
    if isinstance(plan, Plan) and (plan.claims is None or plan.claims.configuration is None):
        found[Obligation.ROLES_HAVE_ARENAS] = NO_CONFIGURATION
    usage = () if plan.claims is None else plan.claims.usage
    if all(used.slots is None and used.max_live is None for used in usage):
        found[Obligation.SLOT_COUNT] = NO_SLOTS
    if all(used.peak_live_bytes is None for used in usage):
        found[Obligation.PEAK] = NO_PEAK
    if isinstance(plan, Plan):
        found |= _unused(plan, options.model is not None)
        if not fate.inputs or (fate.overwritten and not any(find_lost_inputs(plan, fate))):
            found[Obligation.INPUTS_KEPT] = REUSED if fate.inputs else NO_INPUTS
    if not plan.placement.must_not_alias:
        found[Obligation.MUST_NOT_ALIAS] = NO_PAIRS
    if isinstance(plan, Plan) and plan.membership is not None and not options.in_set:
        found["set"] = f"{plan.membership.program} is a program of a set: give its folder"
    return found


def _unused(plan: Plan, against_model: bool) -> dict[str, str]:
    """The fields of a plan that do not affect any check. spec: V3.12"""
    found: dict[str, str] = {}
    if plan.allocation.unproduced and not against_model:
        found["unproduced"] = "no model is given"
    if plan.envelope is not None:
        found["envelope.policy"] = "it is about runs"
    if plan.provenance is not None:
        origin, bindings = plan.provenance, plan.provenance.bindings
        also: dict[str, object] = {
            "bindings.donated": bindings.donated, "bindings.trust_shapes": bindings.trust_shapes,
            "bindings.stated": bindings.stated, "address_token_digest": origin.address_token_digest,
            "effort": origin.effort is not None, "bounds": origin.bounds,
        }  # fmt: skip
        names = (*UNUSED, *(name for name, stated in also.items() if stated))
        found |= dict.fromkeys((f"provenance.{name}" for name in names), "nothing to compare it with")
        if origin.shard_spec:
            found["provenance.shard_spec"] = "a rank shows only its parts"
        if not against_model:
            found |= dict.fromkeys((f"provenance.{name}" for name in OF_MODELS), "no model is given")
    return found


def obligations_of(plan: Plan | BufferPlan, options: Options, fate: InputFate = NOTHING_KNOWN) -> list[Obligation]:
    """Every obligation that a verdict on this plan lists."""
    kinds = [Discharge.BY_COMPARISON, Discharge.BY_ROWS]
    if isinstance(plan, Plan):
        kinds += [Discharge.OF_STREAMS] if plan.allocation.streams else []
        kinds += [Discharge.OVER_ENVELOPE] if plan.envelope is not None else []
        kinds += [Discharge.OF_SHARDED] if plan.provenance is not None and plan.provenance.shard_spec else []
    origin = plan.provenance if isinstance(plan, Plan) else None
    kinds += [Discharge.OF_FIXED] if options.fixed or (origin is not None and origin.fixed) else []
    missing = absent(plan, options, fate)
    return [name for name in obligations_discharged(*kinds) if name not in missing]


def refute(
    result: Verdict, found: Sequence[Violation], listed: Sequence[Obligation], plan: Plan | BufferPlan | None = None
) -> None:
    """The first violation is the witness, with the boxes that its tensors have in `plan`; of the obligations, each that
    something violates is REFUTED. A violation that a reader gives a reason for comes first (FP1.16).
    """
    denied = {} if result.reading is None else result.reading["denied"]
    sharing = Obligation.SHARING_IS_SOUND
    found = sorted(found, key=lambda each: each.obligation is not sharing or denied.keys().isdisjoint(each.tensors))
    broken: dict[str, str] = {}
    for violation in found:
        broken.setdefault(violation.obligation, violation.text)
    result.verdict, result.exit = REFUTED, EXITS[REFUTED]
    result.obligations = [
        {"name": name, "verdict": REFUTED if name in broken else UNKNOWN, "detail": broken.get(name, "not reached")}
        for name in dict.fromkeys((*listed, *broken))
    ]
    result.witness = found[0].witness()
    if plan is not None:
        of_storages = found[0].obligation is Obligation.NO_LIVE_OVERLAP
        shown = boxes(plan, found[0].tensors, of_storages=of_storages)
        if shown:
            result.witness["boxes"] = [box._asdict() for box in shown]
    result.notes = [violation.text for violation in found[1:6]]


def entry_of(outcome: Outcome) -> dict[str, Any]:
    """The entry for an obligation that solvers were asked about."""
    verdict = PROVED if outcome.verdict == PROVED else UNKNOWN
    entry = {"name": outcome.name, "verdict": verdict, "rows": outcome.rows, "detail": outcome.note}
    return {**entry, "solvers": outcome.solvers}
