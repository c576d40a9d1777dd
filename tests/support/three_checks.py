"""Three checks of one plan, each as a function: by running it, by the naive checker, and by the solver's rows."""

from __future__ import annotations

from proofs.proving.obligations import MODULES, PRELUDE
from proofs.proving.obligations.context import context_of
from proofs.proving.obligations.discharge import discharge
from proofs.proving.solvers.process import Z3
from proofs.readers.models.ir import read_ir
from proofs.readers.sharing import decide_permissions
from tests.support.execution import NotRunnable, difference
from tests.support.objections import objections
from tmmu.core.vocabulary import Model
from tmmu.plans.sections import Plan

SOLVER = Z3(PRELUDE)
NAMES = set(MODULES)


def by_running(plan: Plan, model: Model, seed: int) -> bool:
    """Does it go wrong when it is run?"""
    try:
        return difference(plan, seed, model.bindings.donated) is not None
    except NotRunnable:
        return False


def by_the_checker(plan: Plan, model: Model | None, donated: frozenset[str]) -> set[str]:
    """The obligations that are also asked in rows, of those that the naive side finds broken."""
    found = {getattr(item, "obligation", "steps_are_the_model") for item in objections(plan, model, donated)}
    return found & NAMES


def by_rows(plan: Plan, model: Model | None, donated: frozenset[str]) -> set[str]:
    """The obligations that Z3 does not discharge."""
    expected = read_ir(model) if model is not None else None
    view = context_of(plan, decide_permissions(plan, expected, donated), donated)
    results = discharge([obligation.rows(view) for obligation in MODULES.values()], [SOLVER], 60)
    return {o for o, result in zip(MODULES, results, strict=True) if not result.proved}
