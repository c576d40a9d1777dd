"""Five ways to judge one plan, right or changed, in one test: naive checker, sweep, Z3, execution oracle, sanitizer.

The naive checker keeps intervals; the sweep keeps every single byte; Z3 is asked rows; the oracle runs the steps with
random kernels and compares what is read; the sanitizer of the simulator runs them with other kernels and keeps account
of whose each byte is. They share no code but the plan's columns, and the two that run decide for themselves what a
step means. Of a stale read all five must know; and where the naive checker finds nothing, so must all others.
spec: V1.5, V4.2, V4.5, SIM3.1, SIM7.1
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st

from proofs.definition.checker import execute as checker
from proofs.definition.checker.program import build_program
from proofs.proving.obligations import MODULES, PRELUDE
from proofs.proving.obligations.context import context_of
from proofs.proving.obligations.discharge import discharge
from proofs.proving.solvers.process import Z3
from proofs.readers.sharing import decide_permissions
from tests.support.objections import is_narrow, objections
from tests.support.simulated import ran
from tests.support.stale_bytes import shown, small_enough, stale
from tests.support.text_models import text_model
from tests.support.three_checks import by_running
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Model
from tmmu.examples.broken.editing import changed as with_entries
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans.sections import Plan
from tmmu.simulator import Corrupted
from tmmu.testing.catalogue.entries import COLUMNS, PLACES, Change, corrupted
from tmmu.testing.strategies.models import changes, models
from tmmu.testing.strategies.recipes import LEAVES

SOLVER = Z3(PRELUDE)
STRAIGHT = [kind for kind in LEAVES if kind != "update"]
"""Steps one after the other, none of which changes a tensor: what the sweep over single bytes is for."""


@pytest.fixture(scope="module", autouse=True)
def _closing() -> Iterator[None]:
    yield
    SOLVER.close()


class Opinions(NamedTuple):
    """Who says no: of a stale read the first two, of anything that they look at the others."""

    naive: bool
    sweep: bool
    rows: bool
    running: bool
    sanitizer: bool | None
    """None where the arenas cannot be had, so that there is nothing to run."""
    anything: bool
    """Whether the naive side has any objection at all."""


def opinions(plan: Plan, model: Model, seed: int) -> Opinions:
    """What each of them says of a plan for the steps that it states."""
    donated = frozenset(model.bindings.donated)
    permissions = decide_permissions(plan, None, donated)
    problems = checker.check_execution(build_program(plan, permissions, donated))
    results = discharge([each.rows(context_of(plan, permissions, donated)) for each in MODULES.values()], [SOLVER], 60)
    return Opinions(
        any(" hold " in problem.text for problem in problems),
        next(stale(plan, permissions.views, donated), None) is not None,
        not all(result.proved for result in results),
        by_running(plan, model, seed),
        by_the_sanitizer(plan, model, seed),
        any(objections(plan, None, donated)),
    )


def by_the_sanitizer(plan: Plan, model: Model, seed: int) -> bool | None:
    """Does a run under the sanitizer show something wrong?"""
    try:
        return not ran(plan, model, seed).identical
    except Corrupted:
        return True
    except TmmuError:
        return None


def in_order(plan: Plan, model: Model) -> bool:
    """Do views lie where they should, and can each byte be looked at? (If not, that is said before any read.)"""
    views = decide_permissions(plan, None, frozenset(model.bindings.donated)).views
    return small_enough(plan) and all(shown(plan, view, window) for view, window in views.items())


@given(models(kinds=STRAIGHT), st.sampled_from(("slots", "packed", "pools")), st.integers(0, 1 << 16))
def test_of_a_right_plan_none_of_the_five_has_anything_to_say(model: Model, layout: str, seed: int) -> None:
    plan = plan_memory(model, options=PlanOptions(layout=layout)).plan
    assume(not is_narrow(plan))
    assert opinions(plan, model, seed) == (False, False, False, False, False, False)


@given(models(kinds=STRAIGHT), st.sampled_from(("slots", "packed", "pools")), changes(PLACES), st.integers(0, 1 << 16))
def test_a_stale_read_is_one_for_all_five(model: Model, layout: str, wanted: list[Change], seed: int) -> None:
    """Of moved bytes."""
    plan = corrupted(plan_memory(model, options=PlanOptions(layout=layout)).plan, wanted)
    assume(plan is not None)
    assert plan is not None
    assume(in_order(plan, model))
    said = opinions(plan, model, seed)
    event(f"stale: {said.naive}, anything: {said.anything}")
    assert said.naive == said.sweep
    if said.naive:
        assert said.rows
        assert said.sanitizer in (True, None)
    if said.running or said.sanitizer or said.rows:
        assert said.anything


@given(models(), st.sampled_from(("slots", "packed", "pools")), changes(COLUMNS), st.integers(0, 1 << 16))
def test_where_the_naive_checker_is_silent_all_others_are(
    model: Model, layout: str, wanted: list[Change], seed: int
) -> None:
    """Of plans with bodies too, and any column changed."""
    plan = corrupted(plan_memory(model, options=PlanOptions(layout=layout)).plan, wanted)
    assume(plan is not None)
    assert plan is not None
    donated = frozenset(model.bindings.donated)
    if any(objections(plan, None, donated)):
        return
    permissions = decide_permissions(plan, None, donated)
    results = discharge([each.rows(context_of(plan, permissions, donated)) for each in MODULES.values()], [SOLVER], 60)
    assert all(result.proved for result in results)
    assert not by_running(plan, model, seed)
    assert not by_the_sanitizer(plan, model, seed)


def test_each_of_the_five_can_say_no() -> None:
    """The result of a layer takes the bytes of an input that a later layer reads."""
    model = text_model("node matmul Matmul x -> a", "node matmul2 Matmul x a -> y")
    right = plan_memory(model).plan
    assert opinions(right, model, 0) == (False, False, False, False, False, False)
    home = dict(zip(right.allocation.tensors.name, right.allocation.tensors.storage.tolist(), strict=True))
    wrong = with_entries(right, "storages", home["a"], offset=int(right.allocation.storages.offset[home["x"]]))
    assert opinions(wrong, model, 0) == (True, True, True, True, True, True)
