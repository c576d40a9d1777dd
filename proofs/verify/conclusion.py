"""Conclusions from the answers of solvers and kernel: PROVED, or UNKNOWN with the reason.

spec: FP1.16, P2.5, V4.6, V5.2, V5.3, V5.4, V5.6, V5.7, V6.1, X1.6, Z1.5, Z1.6
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from proofs.definition import promises
from proofs.definition.checker.inputs import InputFate
from proofs.definition.checker.layouts import SCATTERED
from proofs.definition.violations import Obligation
from proofs.proving.kernel.answer import NOT_ASKED, NOT_INSTALLED
from proofs.proving.obligations import MODULES, VIOLATED, Outcome
from proofs.readers.donation import caller_tensors
from proofs.verify import constructs, export
from proofs.verify.options import Options
from proofs.verify.verdict import (
    EXITS,
    NO_ROWS,
    NOTHING_KNOWN,
    NOTHING_SHARED,
    PROVED,
    UNKNOWN,
    Verdict,
    absent,
    entry_of,
    obligations_of,
)
from tmmu.core.output import list_names
from tmmu.plans.sections import BufferPlan, Plan, Usage

NOTHING: dict[str, str] = {Obligation.SHARING_IS_SOUND: NOTHING_SHARED}
"""Why an obligation has no rows."""
SHIFTED = "a view shows a part of its base, and without a model its first byte may depend on the shape"
OVERLAPPED = "the theorem about every shape is about steps that run one after another"
"""Why the kernel's theorem is about the planned sizes only. spec: V6.14"""
STATES_NOTHING = "the plan states no tensor and no step, so that nothing was checked: was all of it written?"
"""Why a plan is not proved that breaks no rule. spec: V5.12"""


def conclude(
    result: Verdict, plan: Plan | BufferPlan, outcomes: Sequence[Outcome], options: Options,
    fate: InputFate = NOTHING_KNOWN,
) -> None:  # fmt: skip
    """PROVED if the solver discharged everything and nothing required is missing; else UNKNOWN with the reason."""
    by_name = {outcome.name: outcome for outcome in outcomes}
    names = obligations_of(plan, options, fate)
    unasked = [name for name in names if name not in by_name and not name.is_compared]
    for name in names:
        outcome = by_name.pop(name, None)
        if name in unasked:
            result.obligations.append({"name": name, "verdict": UNKNOWN, "detail": "the solver was not asked"})
        elif outcome is None:
            result.obligations.append({"name": name, "verdict": PROVED, "detail": "by comparison"})
        else:
            result.obligations.append(entry_of(outcome))
    # The lemmas, and the query straight from the definition; what has no occasion has no row.
    result.obligations += [entry_of(o) for o in by_name.values() if o.verdict != PROVED or o.name not in MODULES]
    agrees = record_kernel_result(result)
    unproved = [o for o in outcomes if o.verdict != PROVED]
    proved = {outcome.name for outcome in outcomes if outcome.verdict == PROVED}
    _optimal(result, plan, proved, options.folders.optimum, options.solving.timeout)
    missing = [name for name in options.require if not _holds(name, plan, options, result)]
    for outcome in unproved:
        rejects = outcome.verdict == VIOLATED
        answer = "rejects a row where the naive checker finds nothing" if rejects else "gave no answer"
        result.notes.append(f"{outcome.name}: the solver {answer} ({outcome.note or outcome.hint})")
    result.notes += [f"{o.name}: {o.note}" for o in outcomes if o.verdict == PROVED and o.note]
    result.notes += [f"{name}: the solver was not asked" for name in unasked]
    result.notes += [f"required but missing: {name}{_how(name, result, options.folders.optimum)}" for name in missing]
    if "inputs-kept" in options.require and "inputs-kept" not in missing and (given := result.assumptions["donated"]):
        result.notes.append(f"inputs-kept: donated, and so not kept: {list_names(given)}")
    undecided = [] if result.reading is None else result.reading["undecided"]
    result.notes += [f"not decided: {each['text']}" for each in undecided]
    result.constructs = constructs.of_reading(result.reading)
    if is_empty := options.model is None and not plan.placement.storages and not _steps_of(plan):
        result.notes.append(STATES_NOTHING)
    if agrees and not (unproved or unasked or missing or undecided or is_empty):
        result.verdict, result.exit = PROVED, EXITS[PROVED]
    _sort(result, plan, options, fate)
    result.notes += _remarks(plan)


def _steps_of(plan: Plan | BufferPlan) -> int:
    """Return the number of steps. Lifetimes without accesses have none."""
    return len(plan.allocation.steps) if isinstance(plan, Plan) else 0


def _sort(result: Verdict, plan: Plan | BufferPlan, options: Options, fate: InputFate) -> None:
    """Sort the obligations into proved, compared and not checked. spec: P2.5"""
    holding = [entry for entry in result.obligations if entry["verdict"] == PROVED]
    compared = {name for name in Obligation if name.is_compared}
    result.compared = [entry["name"] for entry in holding if entry["name"] in compared]
    result.proved = [entry["name"] for entry in holding if entry["name"] not in compared and entry.get("rows") != 0]
    result.not_looked_at = absent(plan, options, fate)
    result.not_looked_at |= {e["name"]: NOTHING.get(e["name"], NO_ROWS) for e in holding if e.get("rows") == 0}
    if len(plan.placement.storages) > (most := options.solving.definition_limit):
        limit = f"{len(plan.placement.storages)} storages, --definition-limit {most}"
        result.not_looked_at[promises.NAME] = limit
    if isinstance(plan, BufferPlan) or plan.provenance is None:
        result.not_looked_at["provenance"] = "the plan states none"
    if plan.claims is None:
        result.not_looked_at["claims"] = "the plan states none"
    if result.kernel["answer"] in (NOT_INSTALLED, NOT_ASKED):
        result.not_looked_at["kernel"] = result.kernel.get("reason", result.kernel["answer"])
    if result.kernel.get("every_shape") is False:
        has_streams = isinstance(plan, Plan) and bool(plan.allocation.streams)
        result.not_looked_at["kernel.every_shape"] = OVERLAPPED if has_streams else SHIFTED


def _remarks(plan: Plan | BufferPlan) -> Iterator[str]:
    """Yield the notes on a plan for the reader of its verdict."""
    if isinstance(plan, Plan) and plan.provenance is not None:
        origin = plan.provenance
        if origin.world_size > 1:
            yield "of one rank alone: verify all rank plans together to show that they fit"
        if origin.layout in SCATTERED:
            yield f"layout {origin.layout}: addresses are not offsets, so the plan does not conform to 001 II.F"
    for name, usage in _usage(plan):
        if not usage.minimal:
            yield f"slot count == max live is not claimed for arena {name}"


def record_kernel_result(result: Verdict) -> bool:
    """Put the kernel's answer and reason into a verdict. Return whether it accepts, is not asked or not installed."""
    answer, reason = result.kernel["answer"], result.kernel.get("reason", "")
    if answer in (NOT_INSTALLED, NOT_ASKED):
        return True
    accepted = bool(answer == "accepted")
    result.obligations.append({"name": "kernel", "verdict": PROVED if accepted else UNKNOWN, "detail": reason})
    if answer == "rejected":
        result.notes.append(
            f"CHECKERS DISAGREE: the kernel rejects it ({reason}) where the naive checker finds nothing"
        )
    elif not accepted:
        result.notes.append(f"the kernel gave no answer: {reason}")
    return accepted


def _optimal(
    result: Verdict, plan: Plan | BufferPlan, proved: set[str], into: str | None, timeout: float
) -> None:  # fmt: skip
    """Mark the footprints that are the least: those of just the bytes live at one step, and those that are proved so.

    A proof is looked for if there is a folder to write it `into`. spec: V5.6, V5.7
    """
    number = {arena.name: a for a, arena in enumerate(plan.placement.arenas)}
    for name, claimed in result.claims.items():
        footprint, arena = claimed["footprint"], plan.placement.arenas[number[name]]
        if "capacity" not in proved or not footprint:
            continue
        if "peak" in proved and footprint == claimed["peak_live_bytes"]:
            claimed["footprint_is_optimal"] = PROVED.lower()
            if into is not None:
                result.notes.append(f"footprint of {name}: optimal, as it is the peak of live bytes")
        elif into is not None and arena.reuse and not arena.scattered:
            from proofs.proving.optimum import veripb

            folder = export.folder_of(into, result.file)
            found = veripb.prove_no_lower_placement(plan.placement, number[name], footprint, folder, timeout)
            claimed["footprint_is_optimal"] = PROVED.lower() if found.proved else "not proved"
            result.notes.append(f"footprint of {name}: {found.reason}")


def _holds(requirement: str, plan: Plan | BufferPlan, options: Options, result: Verdict) -> bool:
    if requirement == "slot-count":
        return _minimal(plan)
    has_steps = isinstance(plan, Plan)
    origin = plan.provenance if isinstance(plan, Plan) else None
    return {
        "model": options.model is not None,
        "ranks": origin is not None and bool(origin.shard_spec),  # the verdict on them together says if all are there
        "kernel": bool(result.kernel["answer"] == "accepted"),
        "provenance": origin is not None,
        "claims": plan.claims is not None,
        "optimum": bool(result.claims)
        and all(one["footprint_is_optimal"] == PROVED.lower() for one in result.claims.values()),
        "accesses": has_steps,
        "inputs-kept": has_steps and not result.assumptions["overwritten_inputs"] and not _gives_all_up(plan, result),
        "arenas": options.arenas is not None,
        "sizes": options.model is not None and not result.assumptions["assumed_sizes"],
        "set": options.in_set,  # the verdict on the set says whether it is proved
    }[requirement]


def _how(requirement: str, result: Verdict, into: str | None) -> str:
    """Name the option without which a requirement cannot hold, if its own name does not, or what is against it."""
    if requirement == "inputs-kept" and (lost := result.assumptions["overwritten_inputs"]):
        name = next(iter(lost))
        return f"; {lost[name]} is written to the bytes of {name}: plan with --keep-inputs"
    if requirement == "inputs-kept" and result.assumptions["donated"]:
        return "; all inputs are donated, so that none is kept: donate fewer"
    return "; give --optimum DIR" if requirement == "optimum" and into is None else ""


def _gives_all_up(plan: Plan | BufferPlan, result: Verdict) -> bool:
    """Return whether every tensor of the caller is donated, so that none has to be kept. spec: Z1.6"""
    donated = frozenset(result.assumptions["donated"])
    return isinstance(plan, Plan) and bool(donated) and caller_tensors(plan) <= donated


def _minimal(plan: Plan | BufferPlan) -> bool:
    """Whether of every arena that holds a storage it is claimed that no fewer slots would do."""
    used = set(plan.placement.storages.arena.tolist())
    return plan.claims is not None and all(plan.claims.usage[a].minimal for a in used)


def claims_of(plan: Plan | BufferPlan) -> dict[str, Any]:
    """Return the claims on each arena that has any, except for those that claim to be empty."""
    return {
        name: {
            **{key: value for key, value in usage._asdict().items() if key != "antichain" or value is not None},
            "slot_count": "minimal" if usage.minimal else "not claimed",
            "footprint_is_optimal": "not proved",
        }
        for name, usage in _usage(plan)
    }


def _usage(plan: Plan | BufferPlan) -> list[tuple[str, Usage]]:
    """The claims of each arena that is not claimed to be empty, with its name."""
    usage = () if plan.claims is None else zip(plan.placement.arenas, plan.claims.usage, strict=True)
    return [(arena.name, used) for arena, used in usage if used.slots != 0 and used != Usage()]
