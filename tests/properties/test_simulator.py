"""The simulator and the verifier agree: what is proved never corrupts, and what corrupts is refuted.

The simulator shares no code with the verifier, nor with the execution oracle of these tests; it runs the same plans
with kernels of its own, compares every read, and keeps account of every byte.
"""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.strategies.corruption import PLACES, Change, changed, changes
from tests.strategies.models import arenas, models
from tests.strategies.objections import objections
from tests.strategies.recipes import HOLDERS, KINDS
from tmmu.errors import TmmuError
from tmmu.plan.columns import Plan
from tmmu.planner import plan_memory
from tmmu.runtime.simulator import Corrupted, HashKernels, Program, Report, simulate
from tmmu.vocabulary import Arena, Model

modes = st.sampled_from(("inference", "forward"))
layouts = st.sampled_from(("packed", "slots", "pools"))
orders = st.sampled_from(("given", "memory"))
seeds = st.integers(0, 1 << 16)


def ran(plan: Plan, model: Model, seed: int, *, sanitize: bool = True) -> Report:
    program = Program(plan, frozenset(model.bindings.donated))
    return simulate(program, HashKernels(program, seed), sanitize=sanitize)


def corrupts(plan: Plan, model: Model, seed: int) -> bool:
    """Does a run show something wrong, be it that it cannot be run?"""
    try:
        return not ran(plan, model, seed).identical
    except Corrupted:
        return True
    except TmmuError:
        return False  # arenas that cannot be mapped at all


@given(models(), arenas(), modes, layouts, orders, seeds)
def test_a_plan_that_is_proved_never_corrupts(
    model: Model, config: tuple[Arena, ...], mode: str, layout: str, order: str, seed: int
) -> None:
    """spec: SIM1.1, SIM1.7, SIM3.1, SIM7.1"""
    try:
        plan = plan_memory(model, config, mode=mode, layout=layout, order=order).plan
    except TmmuError:
        assume(False)
    report = ran(plan, model, seed)
    assert report.corruption is None
    assert all(used <= footprint for used, footprint in zip(report.touched, report.footprints, strict=True))


@given(models(kinds=(*KINDS, *HOLDERS)), modes, changes(), seeds)
def test_a_changed_plan_that_corrupts_is_refuted(model: Model, mode: str, wanted: list[Change], seed: int) -> None:
    """spec: SIM7.1"""
    plan = changed(plan_memory(model, mode=mode).plan, wanted)
    assume(plan is not None)
    assert plan is not None
    if corrupts(plan, model, seed):
        assert any(objections(plan, None, model.bindings.donated))


@given(models(kinds=(*KINDS, *HOLDERS)), layouts, changes(PLACES), seeds)
def test_moved_bytes_that_corrupt_are_refuted(model: Model, layout: str, wanted: list[Change], seed: int) -> None:
    """spec: SIM7.1"""
    plan = changed(plan_memory(model, layout=layout).plan, wanted)
    assume(plan is not None)
    assert plan is not None
    if corrupts(plan, model, seed):
        assert any(objections(plan, None, model.bindings.donated))


@given(models(), changes(PLACES), seeds)
def test_the_sanitizer_finds_all_that_comparing_bytes_finds(model: Model, wanted: list[Change], seed: int) -> None:
    """spec: SIM3.1, SIM3.2"""
    plan = changed(plan_memory(model).plan, wanted)
    assume(plan is not None)
    assert plan is not None
    try:
        seen, owned = (ran(plan, model, seed, sanitize=each).corruption for each in (False, True))
    except (Corrupted, TmmuError):
        return
    if seen is not None:
        assert owned is not None
