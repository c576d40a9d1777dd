"""The simulator and the verifier agree: what is proved never corrupts, and what corrupts is refuted.

The simulator shares no code with the verifier, nor with the execution oracle of these tests; it runs the same plans
with kernels of its own, compares every read, and keeps account of every byte.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st

from tests.support.effort import share
from tests.support.execution import in_any_order, mean, stated
from tests.support.full_trace import untimed
from tests.support.objections import objections
from tests.support.onnx_models import build
from tests.support.simulated import is_no_corruption, ran, ran_beside
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import ArenaConfiguration, Model, Role
from tmmu.examples.broken.editing import changed, with_accesses
from tmmu.importers.onnx import import_onnx
from tmmu.ir import order as orders_of
from tmmu.onnx import resolve
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans.sections import Plan
from tmmu.runtime.apply import apply_plan
from tmmu.runtime.recording import RunRecords
from tmmu.runtime.records import trace as traces
from tmmu.runtime.records.trace import Trace
from tmmu.simulator import Batches, Corrupted, HashKernels, PlanProgram
from tmmu.simulator.onnx_model import OnnxModel
from tmmu.testing.catalogue.entries import COLUMNS, PLACES, Change, corrupted, some_change
from tmmu.testing.strategies.models import arenas, changes, models
from tmmu.testing.strategies.recipes import HOLDERS, KINDS, LEAVES

modes = st.sampled_from(("inference", "forward"))
layouts = st.sampled_from(("packed", "slots", "pools"))
orders = st.sampled_from(("given", "memory"))
seeds = st.integers(0, 1 << 16)


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
    model: Model, config: tuple[ArenaConfiguration, ...], mode: str, layout: str, order: str, seed: int
) -> None:
    """spec: SIM1.1, SIM1.7, SIM3.1, SIM7.1, SIM8.1, SIM8.3"""
    try:
        plan = plan_memory(model, config, PlanOptions(mode=mode, layout=layout, order=order)).plan
    except TmmuError:
        assume(False)
    for sanitize in (True, False):
        report = ran(plan, model, seed, sanitize=sanitize)
        assert report.corruption is None
        assert all(used <= footprint for used, footprint in zip(report.touched, report.footprints, strict=True))


@given(models(), arenas(), layouts, seeds)
def test_two_recorded_runs_of_a_plan_have_the_same_trace(
    model: Model, config: tuple[ArenaConfiguration, ...], layout: str, seed: int
) -> None:
    """In memory of their own, one of them with the sanitizer. spec: SIM8.5, SIM8.6, SIM8.8"""
    plan = plan_memory(model, config, PlanOptions(layout=layout)).plan
    program = PlanProgram(plan, frozenset(model.bindings.donated))
    left = []
    for sanitize in (False, True):
        trace = Trace()
        with apply_plan(plan, records=RunRecords(trace=trace)) as execution:
            batches = Batches(program, execution, sanitize=sanitize)
            assert all(batches.run(HashKernels(program, seed + k)).identical for k in range(2))
        left.append(trace.end())
    assert untimed(left[0]) == untimed(left[1])
    traces.check(left[0])
    given = [each for each in left[0] if each["kind"] == "value" and each["access"] == "given" and each["t"] == 1]
    assert len(given) == len([t for t in program.given if t not in program.views])


@given(models(kinds=(*KINDS, *HOLDERS)), modes, changes(), seeds)
def test_a_changed_plan_that_corrupts_is_refuted(model: Model, mode: str, wanted: list[Change], seed: int) -> None:
    """spec: SIM7.1"""
    plan = corrupted(plan_memory(model, options=PlanOptions(mode=mode)).plan, wanted)
    assume(plan is not None)
    assert plan is not None
    if corrupts(plan, model, seed):
        assert any(objections(plan, None, model.bindings.donated))


@given(models(kinds=(*KINDS, *HOLDERS)), st.integers(0, 999), seeds)
def test_a_step_that_reads_what_is_not_there_in_some_run_is_refuted(model: Model, which: int, seed: int) -> None:
    """One tensor is read by a step more, whichever, where no byte is ever used again: bodies alone forbid it.

    spec: SIM7.1, T8.14
    """
    once = (ArenaConfiguration("once", tuple(Role), alignment=1, reuse=False),)
    try:
        plan = replace(plan_memory(model, once).plan, provenance=None, claims=None)
    except TmmuError:  # a scratch request asks for another arena
        assume(False)
    steps, tensors = plan.allocation.steps, plan.allocation.tensors
    assume(len(tensors) and len(plan.allocation.bodies) > 1)
    t = which % len(tensors)
    for n, reads in enumerate(steps.listed("reads")):
        if t not in reads:
            longer = with_accesses(plan, reads={n: [*reads, t]})
            for table, row in (("tensors", t), ("storages", int(tensors.storage[t]))):
                longer = changed(longer, table, row, death=max(n, int(getattr(plan.allocation, table).death[row])))
            if corrupts(longer, model, seed):
                assert any(objections(longer, None, model.bindings.donated))


@given(models(kinds=(*KINDS, *HOLDERS)), layouts, changes(PLACES), seeds)
def test_moved_bytes_that_corrupt_are_refuted(model: Model, layout: str, wanted: list[Change], seed: int) -> None:
    """spec: SIM7.1"""
    plan = corrupted(plan_memory(model, options=PlanOptions(layout=layout)).plan, wanted)
    assume(plan is not None)
    assert plan is not None
    if corrupts(plan, model, seed):
        assert any(objections(plan, None, model.bindings.donated))


@given(models(), changes(PLACES), seeds)
def test_the_sanitizer_finds_all_that_comparing_bytes_finds(model: Model, wanted: list[Change], seed: int) -> None:
    """spec: SIM3.1, SIM3.2"""
    plan = corrupted(plan_memory(model).plan, wanted)
    assume(plan is not None)
    assert plan is not None
    try:
        seen, owned = (ran(plan, model, seed, sanitize=each).corruption for each in (False, True))
    except (Corrupted, TmmuError):
        return
    if seen is not None:
        assert owned is not None


@given(models(kinds=LEAVES), modes, layouts, st.integers(0, 1 << 32), seeds)
def test_what_a_byte_level_executor_calls_corrupt_a_run_does_not_call_identical(
    model: Model, mode: str, layout: str, number: int, seed: int
) -> None:
    """Any entry of a plan changed; the executor writes for the caller in several orders. spec: SIM1.9, SIM7.2"""
    right = plan_memory(model, options=PlanOptions(mode=mode, layout=layout)).plan
    change = some_change(random.Random(number), COLUMNS)
    plan = corrupted(right, [change])
    assume(plan is not None)
    assert plan is not None
    if in_any_order(plan, seed, mean(plan, model.bindings.donated)) is not None:
        event("corrupt")
        assert is_no_corruption(change, plan) or corrupts(plan, model, seed)


@pytest.mark.parametrize("bodies", [False, True])
def test_beside_a_model_its_plans_mean_what_the_model_means(bodies: bool, tmp_path: Path) -> None:
    """Whatever roles, flags and ties are changed. A run with ONNX kernels takes those branches and rounds that values
    choose, so that it is held against models without bodies. spec: SIM1.11, SIM5.6, SIM5.7, SIM7.2
    """
    path, corrupt = tmp_path / "m.onnx", 0
    for number in range(share(60)):
        chance = random.Random(f"{number} {bodies}")
        kinds = [chance.randrange(64 if bodies else 60) for _ in range(chance.randrange(2, 14))]
        path.write_bytes(build([kind + 64 * chance.randrange(1 << 10) for kind in kinds]).SerializeToString())
        graph = orders_of.sort_topologically(import_onnx(path))
        right = plan_memory(graph, options=PlanOptions(layout=("packed", "slots", "pools")[number % 3])).plan
        source, meaning = OnnxModel(resolve(path)), stated(right)
        assert in_any_order(right, number, meaning) is None
        for _ in range(8):
            plan = corrupted(right, [some_change(chance, COLUMNS)])
            if plan is None or in_any_order(plan, number, meaning) is None:
                continue
            corrupt += 1
            assert ran_beside(plan, source, "hash", number), (number, bodies)
            assert bodies or ran_beside(plan, source, "onnx", number), number
    assert corrupt
