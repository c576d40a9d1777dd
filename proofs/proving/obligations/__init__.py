"""Discharge every obligation of a plan by solvers: rows for each, the lemmas that carry them, and the outcome.

An obligation of a plan is PROVED if the solver discharged all of its rows and the lemmas that it rests on are proved. A
row that the solver evaluates to false is VIOLATED. Any other result is UNKNOWN.
spec: V4.1, V4.3, V4.6, V4.7
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol, TypeVar

from proofs.definition import promises
from proofs.definition.violations import Discharge, Obligation, obligations_discharged
from proofs.proving.lemmas import at_use
from proofs.proving.lemmas.plan.chains import DEFINITIONS
from proofs.proving.obligations import (
    alignment,
    capacity,
    inputs_kept,
    lifetimes_cover_accesses,
    must_not_alias,
    no_live_overlap,
    peak,
    races,
    sharing_is_sound,
    sizes_over_envelope,
    slot_count,
    tensors_within_storages,
)
from proofs.proving.obligations.context import Context, StorageContext
from proofs.proving.obligations.discharge import Result, discharge
from proofs.proving.obligations.rows import Batch, Place
from proofs.proving.promises import ask
from proofs.proving.solvers.kept import command_of
from proofs.proving.solvers.process import SOLVERS, SolverProcess
from proofs.readers.sharing import Permissions
from tmmu.core.progress import Doing, report_nothing
from tmmu.plans.allocation import Allocation, Placement
from tmmu.plans.sections import Claims, Plan

Item = TypeVar("Item")

PROVED, VIOLATED, UNKNOWN = "PROVED", "VIOLATED", "UNKNOWN"


class PlanRows(Protocol):
    """A module of this package: its obligation in English, the lemmas and macros of its rows, and the rows."""

    SENTENCE: str
    LEMMAS: tuple[str, ...]
    DEFINITIONS: str

    def rows(self, context: Context) -> Iterator[Batch]:
        """Yield the rows that a plan must satisfy, in batches."""


class StorageRows(Protocol):
    """A module of this package whose obligation is about storages and needs no steps."""

    SENTENCE: str
    LEMMAS: tuple[str, ...]
    DEFINITIONS: str

    def rows(self, context: StorageContext) -> Iterator[Batch]:
        """Yield the rows that the storages must satisfy, in batches."""


OF_STORAGES: dict[Obligation, StorageRows] = {
    Obligation.NO_LIVE_OVERLAP: no_live_overlap,
    Obligation.ALIGNMENT: alignment,
    Obligation.CAPACITY: capacity,
    Obligation.MUST_NOT_ALIAS: must_not_alias,
    Obligation.SLOT_COUNT: slot_count,
    Obligation.PEAK: peak,
}
"""The obligations about storages only: all that a plan of lifetimes without accesses must satisfy."""
_ALL: dict[Obligation, PlanRows] = {
    **OF_STORAGES,
    Obligation.TENSORS_WITHIN_STORAGES: tensors_within_storages,
    Obligation.LIFETIMES_COVER_ACCESSES: lifetimes_cover_accesses,
    Obligation.SHARING_IS_SOUND: sharing_is_sound,
    Obligation.INPUTS_KEPT: inputs_kept,
}
MODULES = {name: _ALL[name] for name in obligations_discharged(Discharge.BY_ROWS)}
"""The rows of each obligation of every plan that solvers discharge, in the order of verdicts."""
OF_STREAMS: dict[Obligation, PlanRows] = {Obligation.RACES: races}
"""The rows of the obligations that only a plan with streams has."""
PRELUDE = DEFINITIONS + "".join(module.DEFINITIONS for module in (*MODULES.values(), *OF_STREAMS.values()))
"""All functions that rows call. Its first part is the text that the lemmas are about."""
PATIENCE_S, PATIENCE = 10.0, 20
"""The time limit for the definition query, in seconds, and as a multiple of another solver's time to prove it.

The larger of the two counts.
"""
LATE_S, LATE = 60.0, 100
"""The time limit for a query about rows or for a lemma, in seconds, and as a multiple of another solver's time.

The larger of the two counts. The other solver's time is that for the whole obligation.
"""
MANY = 10_000
"""Above this number of storages and accesses, a second solver process is worthwhile."""
ASIDE = 64
"""Above this number of storages, the definition is asked of another process meanwhile. Of fewer, the answer takes less
time than a process takes to start.
"""


@dataclass(frozen=True)
class Outcome:
    """The outcome of one obligation. `note` is the reason why it is open; `hint` names the false row and its subject.

    `solvers` has the verdict of each solver that was asked.
    """

    name: str
    verdict: str
    rows: int
    seconds: float
    note: str = ""
    hint: str = ""
    solvers: dict[str, str] = field(default_factory=dict)


def prove_with(
    solvers: Sequence[str],
    context: Context | StorageContext,
    *,
    timeout_s: float = 600.0,
    workers: int = 2,
    definition_limit: int = 500,
    progress: Doing = report_nothing,
) -> list[Outcome]:
    """Return the outcome of each obligation for several solvers together: PROVED if each of them proves it.

    `solvers` are names of `proofs.proving.solvers.process.SOLVERS`; the other parameters are those of `prove`. If the
    solvers disagree, the obligation is UNKNOWN and its note has the verdict of each. The definition query is an
    exception: it is proved if one solver proves it, because each solver proves the same statement from rows. If one
    solver has answered a question, the others get less time for it.
    spec: V4.6, V4.7, V4.10, V4.15
    """
    found: dict[str, list[Outcome]] = {}
    patience = rows_s = timeout_s
    for name in solvers:
        found[name] = prove(
            context, solver=name, timeout_s=rows_s, workers=workers, definition_limit=definition_limit,
            definition_timeout_s=patience, progress=progress,
        )  # fmt: skip
        others = [outcome for outcome in found[name] if outcome.name != promises.NAME]
        if all(outcome.verdict == PROVED for outcome in others):
            longest = max((outcome.seconds for outcome in others), default=0.0)
            rows_s = min(rows_s, max(LATE_S, LATE * longest))
        for outcome in found[name]:
            if outcome.name == promises.NAME and outcome.verdict == PROVED:
                patience = min(patience, max(PATIENCE_S, PATIENCE * outcome.seconds))
    return [_agreed(dict(zip(found, outcomes, strict=True))) for outcomes in zip(*found.values(), strict=True)]


def _agreed(outcomes: dict[str, Outcome]) -> Outcome:
    """Combine the outcomes of all solvers for one obligation."""
    first = next(iter(outcomes.values()))
    verdicts = {name: outcome.verdict for name, outcome in outcomes.items()}
    seconds = sum(outcome.seconds for outcome in outcomes.values())
    if len(set(verdicts.values())) == 1:
        return replace(first, seconds=seconds, solvers=verdicts)
    if first.name == promises.NAME and set(verdicts.values()) == {PROVED, UNKNOWN}:
        late = ", ".join(name for name, verdict in verdicts.items() if verdict != PROVED)
        return Outcome(first.name, PROVED, first.rows, seconds, note=f"no answer of {late}", solvers=verdicts)
    notes = "; ".join(
        f"{name} answers {outcome.verdict}{f': {outcome.note or outcome.hint}' if outcome.verdict != PROVED else ''}"
        for name, outcome in outcomes.items()
    )
    # A solver that died or was late has no answer that could disagree.
    what = "the solvers disagree" if {PROVED, VIOLATED} <= set(verdicts.values()) else "not every solver proves it"
    return Outcome(first.name, UNKNOWN, first.rows, seconds, note=f"{what}: {notes}", solvers=verdicts)


def prove(
    context: Context | StorageContext,
    *,
    solver: str = "z3",
    timeout_s: float = 600.0,
    workers: int = 2,
    definition_limit: int = 500,
    definition_timeout_s: float | None = None,
    progress: Doing = report_nothing,
) -> list[Outcome]:
    """Discharge every obligation of a plan that passed the gate.

    Parameters
    ----------
    context
        Any plan. Whether it is right is the question.
    solver
        The name of the solver.
    timeout_s
        Seconds for the queries of four thousand rows together, which take a few hundredths of a second.
    workers
        The maximum number of solver processes at once.
    definition_limit
        Up to this number of storages, the three promises are also asked directly from their definitions.
    definition_timeout_s
        Seconds for that question, by default `timeout_s`.
    progress
        Called with the solver and the number of each obligation that is begun.

    Returns
    -------
    list of Outcome
        One for each obligation in the order of `MODULES`, one for the lemmas, and one for the definition if asked.

    Notes
    -----
    O(n log n) for n storages and accesses; about 60 MiB for each solver process, apart from the plan itself.
    """
    asked = _tasks(context)
    placement, claims = context.placement, context.claims
    solvers = [
        SOLVERS[solver](PRELUDE, start_s=timeout_s) for _ in range(max(1, workers if is_large(placement) else 1))
    ]
    is_asked = len(placement.storages) <= definition_limit
    ask_definition = partial(_promised, placement, claims, definition_timeout_s or timeout_s, solver)
    with ThreadPoolExecutor(max_workers=1) as aside:
        meanwhile = aside.submit(ask_definition) if is_asked and len(placement.storages) > ASIDE else None
        try:
            unproved = at_use.prove_unrecorded(solvers[0].version, timeout_s, start=SOLVERS[solver])
            phase = f"proving with {solver}"
            results = discharge(
                [rows for _, rows in asked], solvers, timeout_s, lambda k: progress(phase, k, len(asked))
            )
        finally:
            for process in solvers:
                process.close()
        outcomes = [_outcome(o, r, unproved, placement) for (o, _), r in zip(asked, results, strict=True)]
        sizes = []
        if isinstance(context, Context) and context.plan.envelope is not None:
            sizes = [prove_over_envelope(context.plan, timeout_s, solver, context.permissions)]
        if is_asked and (meanwhile is None or not meanwhile.done()):
            progress(f"proving the definition with {solver}")
        definition = [ask_definition() if meanwhile is None else meanwhile.result()] if is_asked else []
        return [*outcomes, *sizes, _lemmas(unproved), *definition]


def is_large(placement: Placement) -> bool:
    """Whether a plan has so many rows that further solver processes are worth their start."""
    size = len(placement.storages)
    if isinstance(placement, Allocation):
        size += len(placement.steps.reads) + len(placement.steps.writes)
    return size > MANY


def _tasks(context: Context | StorageContext) -> list[tuple[Obligation, Iterator[Batch]]]:
    """Return every obligation of a plan with its rows."""
    if not isinstance(context, Context):
        return [(name, module.rows(context)) for name, module in OF_STORAGES.items()]
    return [(name, module.rows(context)) for name, module in modules_of(context.plan).items()]


def modules_of(plan: Plan) -> dict[Obligation, PlanRows]:
    """Return the rows of each obligation of a plan with steps, in the order of verdicts."""
    if not plan.allocation.streams:
        return MODULES
    found = MODULES | OF_STREAMS
    return {name: found[name] for name in obligations_discharged(Discharge.BY_ROWS, Discharge.OF_STREAMS)}


def _outcome(name: Obligation, result: Result, unproved: dict[str, str], placement: Placement) -> Outcome:
    missing = [lemma for lemma in (MODULES | OF_STREAMS)[name].LEMMAS if lemma in unproved]
    if result.refuted is not None:
        row, place = result.refuted
        hint = f"{name_places(placement)(place)}: {row[:200]}"
        return Outcome(name, VIOLATED, result.rows, result.seconds, hint=hint)
    if result.failure is not None:
        return Outcome(name, UNKNOWN, result.rows, result.seconds, note=result.failure)
    if missing:
        note = f"its lemma {missing[0]} is not proved: {unproved[missing[0]]}"
        return Outcome(name, UNKNOWN, result.rows, result.seconds, note=note)
    return Outcome(name, PROVED, result.rows, result.seconds)


def prove_over_envelope(
    plan: Plan, timeout_s: float, solver: str = "z3", sharing: Permissions = sizes_over_envelope.NOTHING_SHARED
) -> Outcome:
    """Ask a separate solver process about sizes over the envelope, and of tensors that share bytes.

    The note names the first tensor that is open.
    """
    with SolverProcess(command=command_of(solver)) as process:
        shown = sizes_over_envelope.ask(plan, process, timeout_s, sharing)
    name, count = Obligation.SIZES_OVER_ENVELOPE, shown.queries
    if not shown.failure:
        return Outcome(name, PROVED, count, shown.seconds)
    if shown.counterexample:
        return Outcome(name, VIOLATED, count, shown.seconds, hint=shown.tensor)
    note = f"{shown.tensor}: {shown.failure}" if shown.tensor else shown.failure
    return Outcome(name, UNKNOWN, count, shown.seconds, note=note)


def _lemmas(unproved: dict[str, str]) -> Outcome:
    reasons = [f"{name}: {reason}" for name, reason in list(unproved.items())[:3]]
    note = "; ".join(reasons) or at_use.find_distrust() or ""
    return Outcome("lemmas", UNKNOWN if unproved else PROVED, at_use.COUNT, 0.0, note=note)


def _promised(placement: Placement, claims: Claims | None, timeout_s: float, solver: str) -> Outcome:
    """Ask a separate solver process the three promises, directly from their definitions."""
    with SolverProcess(command=command_of(solver)) as process:
        answer, found = ask(placement, claims, process, timeout_s)
    count = sum(one.rows for one in promises.questions(placement, claims))
    if answer.proof:
        return Outcome(promises.NAME, PROVED, count, answer.seconds)
    if answer.counterexample:
        return Outcome(promises.NAME, VIOLATED, count, answer.seconds, hint="" if found is None else found.text)
    note = answer.failure or f"the solver answers {answer.text[:200]!r}"
    return Outcome(promises.NAME, UNKNOWN, count, answer.seconds, note=note)


def name_places(placement: Placement) -> Callable[[Place], str]:
    """Return a function that describes the subject of a row: its tensors and its step.

    A storage is named after its first tensor. O(tensors), and a few names for each row.
    """
    tensors = placement.tensors.name.list() if isinstance(placement, Allocation) else []
    storages = placement.storage_names()

    def named(place: Place) -> str:
        about = [tensors[tensor] for tensor in _few(place.tensors)] + [storages[k] for k in _few(place.storages)]
        step = "" if place.step is None else f" at step {place.step}"
        return f"{', '.join(_few(about)) or 'the plan'}{step}"

    return named


def _few(items: Sequence[Item]) -> Sequence[Item]:
    """Return only the first items, few enough to name."""
    return items[:8]
