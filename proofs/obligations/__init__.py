"""Every obligation of a plan, discharged by a solver: rows for each, lemmas that carry them, and what came of it.

A plan is PROVED in the sense of one obligation if the solver discharged all of its rows and the lemmas that it rests
on are proved. A row that the solver evaluates to false is VIOLATED; whatever else happens is UNKNOWN.
spec: V4.1, V4.3, V4.6, V4.7
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from proofs import promises
from proofs.lemmas import at_use
from proofs.lemmas.plan.chains import DEFINITIONS
from proofs.obligations import (
    alignment,
    capacity,
    lifetimes_cover_accesses,
    must_not_alias,
    no_live_overlap,
    peak,
    sharing_is_sound,
    sizes_over_envelope,
    slot_count,
    tensors_within_storages,
)
from proofs.obligations.context import Context, StorageContext, storages_of, view_of
from proofs.obligations.discharge import Result, discharge
from proofs.obligations.rows import Batch, Place
from proofs.readers.sharing import Permissions
from proofs.solvers.process import SOLVERS, SolverProcess, command_of
from tmmu.plan.allocation import Allocation, Placement
from tmmu.plan.sections import BufferPlan, Claims, Plan

Item = TypeVar("Item")

PROVED, VIOLATED, UNKNOWN = "PROVED", "VIOLATED", "UNKNOWN"


class Obligation(Protocol):
    """A module of this package: its name, what it says in English, the lemmas and macros of its rows, and the rows."""

    NAME: str
    SENTENCE: str
    LEMMAS: tuple[str, ...]
    DEFINITIONS: str

    def rows(self, context: Context) -> Iterator[Batch]:
        """What is asked of a plan, in batches."""


class StorageObligation(Protocol):
    """An obligation about storages, which needs no steps."""

    NAME: str
    SENTENCE: str
    LEMMAS: tuple[str, ...]
    DEFINITIONS: str

    def rows(self, context: StorageContext) -> Iterator[Batch]:
        """What is asked of storages, in batches."""


OBLIGATIONS: tuple[Obligation, ...] = (
    no_live_overlap,
    alignment,
    capacity,
    tensors_within_storages,
    lifetimes_cover_accesses,
    sharing_is_sound,
    must_not_alias,
    slot_count,
    peak,
)
OF_STORAGES: tuple[StorageObligation, ...] = (
    no_live_overlap, alignment, capacity, must_not_alias, slot_count, peak,
)  # fmt: skip
"""Those that speak of storages alone: all that is asked of a plan that states lifetimes without accesses."""
PRELUDE = DEFINITIONS + "".join(obligation.DEFINITIONS for obligation in OBLIGATIONS)
"""All that rows call; its first part is the text that the lemmas are about."""
MANY = 10_000
"""Storages and accesses from which a second solver pays for its start."""


@dataclass(frozen=True)
class Outcome:
    """What came of one obligation: `note` says why it is open, `hint` which row is false, and of what it speaks.

    `solvers` is what each solver that was asked said.
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
    plan: Plan | BufferPlan,
    permissions: Permissions | None,
    *,
    timeout_s: float = 600.0,
    workers: int = 2,
    definition_limit: int = 500,
    donated: frozenset[str] = frozenset(),
) -> list[Outcome]:
    """What several solvers say of each obligation together: PROVED where each of them proves it.

    `solvers` are names of `proofs.solvers.process.SOLVERS`; the rest is as for `prove`. Where they do not agree, the
    obligation is UNKNOWN and its note says who said what. spec: V4.6, V4.10
    """  # fmt: skip
    found = {
        name: prove(
            plan, permissions, solver=name, timeout_s=timeout_s, workers=workers,
            definition_limit=definition_limit, donated=donated,
        )
        for name in solvers
    }  # fmt: skip
    return [_agreed(dict(zip(found, outcomes, strict=True))) for outcomes in zip(*found.values(), strict=True)]


def _agreed(outcomes: dict[str, Outcome]) -> Outcome:
    """One outcome for one obligation, of what each solver said."""
    first = next(iter(outcomes.values()))
    said = {name: outcome.verdict for name, outcome in outcomes.items()}
    seconds = sum(outcome.seconds for outcome in outcomes.values())
    if len(set(said.values())) == 1:
        return replace(first, seconds=seconds, solvers=said)
    notes = "; ".join(
        f"{name} says {outcome.verdict}{f': {outcome.note or outcome.hint}' if outcome.verdict != PROVED else ''}"
        for name, outcome in outcomes.items()
    )
    # One that is gone, or late, has said nothing to disagree with.
    what = "the solvers disagree" if {PROVED, VIOLATED} <= set(said.values()) else "not every solver proves it"
    return Outcome(first.name, UNKNOWN, first.rows, seconds, note=f"{what}: {notes}", solvers=said)


def prove(
    plan: Plan | BufferPlan,
    permissions: Permissions | None,
    *,
    solver: str = "z3",
    timeout_s: float = 600.0,
    workers: int = 2,
    definition_limit: int = 500,
    donated: frozenset[str] = frozenset(),
) -> list[Outcome]:
    """Discharge every obligation of a plan that passed the gate.

    Parameters
    ----------
    plan
        Any plan; whether it is right is what is asked.
    permissions
        The views and in-place results that count, by the checker's own tables; None for lifetimes without accesses.
    solver
        The name of the solver that is asked.
    timeout_s
        Seconds for each query of a thousand rows, which takes milliseconds.
    workers
        The most solver processes at once.
    definition_limit
        Up to how many storages the three promises are asked straight from their definitions, too.
    donated
        Names of caller-written tensors that the user gave up.

    Returns
    -------
    list of Outcome
        One for each obligation in the order of `OBLIGATIONS`, one for the lemmas, one for the definition if asked.

    Notes
    -----
    O(n log n) for n storages and accesses; about 60 MiB for each solver process, apart from the plan itself.
    """
    asked, size = _tasks(plan, permissions, donated)
    placement = plan.buffers if isinstance(plan, BufferPlan) else plan.allocation
    solvers = [SOLVERS[solver](PRELUDE) for _ in range(max(1, workers if size > MANY else 1))]
    with ThreadPoolExecutor(max_workers=1) as aside:
        # The questions of the definitions keep a solver of their own busy meanwhile.
        is_small = len(placement.storages) <= definition_limit
        small = aside.submit(_promised, placement, plan.claims, timeout_s, solver) if is_small else None
        try:
            unproved = at_use.unproved(solvers[0].version, timeout_s, start=SOLVERS[solver])
            results = discharge([rows for _, rows in asked], solvers, timeout_s)
        finally:
            for process in solvers:
                process.close()
        outcomes = [_outcome(o, r, unproved, placement) for (o, _), r in zip(asked, results, strict=True)]
        with_envelope = isinstance(plan, Plan) and plan.envelope is not None
        sizes = [over_envelope(plan, timeout_s, solver)] if isinstance(plan, Plan) and with_envelope else []
        return [*outcomes, *sizes, _lemmas(unproved), *([small.result()] if small else [])]


def _tasks(
    plan: Plan | BufferPlan, permissions: Permissions | None, donated: frozenset[str]
) -> tuple[list[tuple[Obligation | StorageObligation, Iterator[Batch]]], int]:
    """Every obligation of a plan with its rows, and how much there is to ask."""
    if isinstance(plan, BufferPlan):
        storages = storages_of(plan)
        return [(one, one.rows(storages)) for one in OF_STORAGES], len(plan.buffers.storages)
    assert permissions is not None  # a plan with steps has them
    view = view_of(plan, permissions, donated)
    size = len(plan.allocation.storages) + len(view.reads.step) + len(view.writes.step)
    return [(one, one.rows(view)) for one in OBLIGATIONS], size


def _outcome(
    obligation: Obligation | StorageObligation, result: Result, unproved: dict[str, str], placement: Placement
) -> Outcome:
    missing = [name for name in obligation.LEMMAS if name in unproved]
    if result.refuted is not None:
        row, place = result.refuted
        hint = f"{_speaks_of(place, placement)}: {row[:200]}"
        return Outcome(obligation.NAME, VIOLATED, result.rows, result.seconds, hint=hint)
    if result.failure is not None:
        return Outcome(obligation.NAME, UNKNOWN, result.rows, result.seconds, note=result.failure)
    if missing:
        note = f"it rests on the lemma {missing[0]}, which is not proved: {unproved[missing[0]]}"
        return Outcome(obligation.NAME, UNKNOWN, result.rows, result.seconds, note=note)
    return Outcome(obligation.NAME, PROVED, result.rows, result.seconds)


def over_envelope(plan: Plan, timeout_s: float, solver: str = "z3") -> Outcome:
    """What a solver process of its own says of the sizes over the envelope; its note names the first tensor open."""
    with SolverProcess(command=command_of(solver)) as process:
        shown = sizes_over_envelope.ask(plan, process, timeout_s)
    name, count = sizes_over_envelope.NAME, shown.queries
    if not shown.failure:
        return Outcome(name, PROVED, count, shown.seconds)
    if shown.counterexample:
        return Outcome(name, VIOLATED, count, shown.seconds, hint=shown.tensor)
    note = f"{shown.tensor}: {shown.failure}" if shown.tensor else shown.failure
    return Outcome(name, UNKNOWN, count, shown.seconds, note=note)


def _lemmas(unproved: dict[str, str]) -> Outcome:
    note = "; ".join(f"{name}: {reason}" for name, reason in list(unproved.items())[:3])
    return Outcome("lemmas", UNKNOWN if unproved else PROVED, at_use.COUNT, 0.0, note=note)


def _promised(placement: Placement, claims: Claims | None, timeout_s: float, solver: str) -> Outcome:
    """What a solver process of its own says of the three promises, asked straight from their definitions."""
    with SolverProcess(command=command_of(solver)) as process:
        answer, found = promises.ask(placement, claims, process, timeout_s)
    count = sum(one.rows for one in promises.questions(placement, claims))
    if answer.proof:
        return Outcome(promises.NAME, PROVED, count, answer.seconds)
    if answer.counterexample:
        return Outcome(promises.NAME, VIOLATED, count, answer.seconds, hint="" if found is None else found.text)
    note = answer.failure or f"the solver answers {answer.text[:200]!r}"
    return Outcome(promises.NAME, UNKNOWN, count, answer.seconds, note=note)


def _speaks_of(place: Place, placement: Placement) -> str:
    """The tensors, by name, and the step that a row is about; a storage goes by its first tensor's name."""
    return naming(placement)(place)


def naming(placement: Placement) -> Callable[[Place], str]:
    """A function that gives what a row is about, in the plan's names. O(tensors), and a few names for each row."""
    tensors = placement.tensors.name.list() if isinstance(placement, Allocation) else []
    storages = placement.storage_names()

    def named(place: Place) -> str:
        about = [tensors[tensor] for tensor in _few(place.tensors)] + [storages[k] for k in _few(place.storages)]
        step = "" if place.step is None else f" at step {place.step}"
        return f"{', '.join(_few(about)) or 'the plan'}{step}"

    return named


def _few(items: Sequence[Item]) -> Sequence[Item]:
    """As many as are worth naming."""
    return items[:8]
