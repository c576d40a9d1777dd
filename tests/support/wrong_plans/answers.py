"""The answers of naive checker and solver about a row of the table, as rows state them."""

from __future__ import annotations

from proofs.definition.violations import Obligation, Violation
from proofs.proving.obligations import OF_STORAGES, modules_of, name_places
from proofs.proving.obligations.context import Context, StorageContext
from proofs.proving.obligations.discharge import discharge
from proofs.proving.solvers.process import Z3
from proofs.verify.checks import BufferSubject, Subject, buffer_violations, violations
from tests.support.wrong_plans.row import Row, place_of
from tmmu.plans.gate import StatedBuffers, StatedPlan
from tmmu.plans.sections import BufferPlan


def stated(row: Row) -> StatedPlan | StatedBuffers:
    """Return the plan as it would be read from a file that states no hashes."""
    plan = row.plan()
    return StatedBuffers(plan, {}) if isinstance(plan, BufferPlan) else StatedPlan(plan, {})


def context(row: Row) -> Context | StorageContext:
    """Return what solver and kernel are asked about."""
    plan = stated(row)
    return BufferSubject(plan).context if isinstance(plan, StatedBuffers) else Subject(plan, None, row.donated).context


def found(row: Row) -> list[Violation]:
    """Return all that the naive checker finds."""
    plan = stated(row)
    if isinstance(plan, StatedBuffers):
        return list(buffer_violations(BufferSubject(plan)))
    return list(violations(Subject(plan, None, row.donated)))


def places_found(row: Row) -> list[str]:
    """Return the places that the naive checker names, with bytes if the row states them."""
    of_row = row.places.partition(" / ")[0].split("; ")
    places = [place_of(violation, row.obligation) for violation in found(row)]
    shown = [" bytes " in place for place in (*of_row, *[""] * len(places))]
    return [place if keep else place.partition(" bytes ")[0] for place, keep in zip(places, shown, strict=False)]


def places_refuted(row: Row, solver: Z3) -> dict[Obligation, str]:
    """Return the place of the first false row of each obligation, and check that the solver leaves none open."""
    about = context(row)
    if isinstance(about, Context):
        asked = {name: plan_rows.rows(about) for name, plan_rows in modules_of(about.plan).items()}
    else:
        asked = {name: storage_rows.rows(about) for name, storage_rows in OF_STORAGES.items()}
    results = discharge(list(asked.values()), [solver], 60)
    assert [result.failure for result in results if result.failure] == []
    refuted = {o: result.refuted for o, result in zip(asked, results, strict=True) if result.refuted is not None}
    named = name_places(about.placement)
    return {o: named(place).replace(",", "").replace("at step ", "@") for o, (_, place) in refuted.items()}
