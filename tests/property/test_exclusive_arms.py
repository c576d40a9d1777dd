"""Random programs with exclusive arms under random plans: what is proved runs right, whichever arms are taken.

spec: X4.3, X4.4, X4.5, X4.6, X4.7, X4.8
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofs.proving.obligations import MODULES, PRELUDE
from proofs.proving.obligations.context import context_of
from proofs.proving.obligations.discharge import discharge
from proofs.proving.solvers.process import Z3
from proofs.readers.sharing import decide_permissions
from tests.support import branching
from tests.support.effort import share
from tests.support.objections import objections
from tmmu.plans.sections import Plan

SOLVER = Z3(PRELUDE)
NAMES = set(MODULES)


@pytest.fixture(scope="module", autouse=True)
def _closing() -> Iterator[None]:
    yield
    SOLVER.close()


def refuted(plan: Plan) -> set[str]:
    """The obligations that the solver does not discharge."""
    view = context_of(plan, decide_permissions(plan, None, frozenset()))
    results = discharge([obligation.rows(view) for obligation in MODULES.values()], [SOLVER], 60)
    return {o for o, result in zip(MODULES, results, strict=True) if not result.proved}


def judged(chance: random.Random) -> str:
    """Checker and rows agree about one random plan, and are right where they accept it."""
    made = branching.program(chance)
    plan = branching.plan(made, chance)
    naive = {getattr(problem, "obligation", "claims") for problem in objections(plan, None)}
    solver = refuted(plan)
    if "bodies_nest" not in naive:
        assert bool(naive & NAMES) == bool(solver), (naive, solver)
    else:
        assert bool(naive & NAMES) <= bool(solver), (naive, solver)
    if naive or solver:
        return "refuted"
    for _ in branching.ways(made, plan):
        pass
    return "proved"


@given(st.integers(0, 2**32))
def test_what_is_proved_runs_right_on_every_way(number: int) -> None:
    judged(random.Random(number))


PROGRAMS = share(375)


def test_many_of_the_random_plans_are_proved_and_many_are_refuted() -> None:
    """And of those that are refuted, many do run wrong on some way."""
    found = Counter(judged(random.Random(number)) for number in range(PROGRAMS))
    assert min(found["proved"], found["refuted"]) > PROGRAMS // 5
    wrong = 0
    for number in range(PROGRAMS):
        chance = random.Random(number)
        made = branching.program(chance)
        try:
            for _ in branching.ways(made, branching.plan(made, chance)):
                pass
        except branching.Wrong:
            wrong += 1
    assert wrong > PROGRAMS // 8
