"""Whatever model is planned, the plan is right: the checker finds nothing, and running it computes what it should.

The checker reads the model for itself; the execution oracle runs random kernels in the arenas and in private memory.
Neither shares code with the planner, nor the one with the other.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.support.execution import difference
from tests.support.objections import objections
from tests.support.text_models import text_model
from tmmu.core.dtypes import BITS
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import ArenaConfiguration, Model, Shares
from tmmu.ir.validate import validate_model
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans.columns import SHARES
from tmmu.plans.sections import Plan
from tmmu.testing.strategies.models import arenas, models

modes = st.sampled_from(("inference", "forward"))
seeds = st.integers(0, 1 << 16)


@given(models())
def test_every_random_model_is_valid(model: Model) -> None:
    """spec: I1.4, I1.9"""
    validate_model(model)


@given(models(), arenas(), modes)
def test_nothing_can_be_said_against_a_planned_plan_of_its_model(
    model: Model, where: tuple[ArenaConfiguration, ...], mode: str
) -> None:
    """spec: V1.1 to V1.7, V3.1, V3.2, V5.1, T2.10"""
    plan = plan_memory(model, where, PlanOptions(mode=mode)).plan
    assert list(objections(plan, model, model.bindings.donated)) == []


@given(models(), arenas(), modes)
def test_nothing_can_be_said_against_the_steps_that_a_planned_plan_states(
    model: Model, where: tuple[ArenaConfiguration, ...], mode: str
) -> None:
    """spec: V2.1, V2.2, V2.3"""
    plan = plan_memory(model, where, PlanOptions(mode=mode)).plan
    # Without the model's shapes nobody can tell whether packed elements lie alike in result and operand.
    assume(not _packed_in_place(plan))
    assert list(objections(plan, None, model.bindings.donated)) == []


def _packed_in_place(plan: Plan) -> bool:
    t = plan.allocation.tensors
    pairs = zip(t.shares.tolist(), t.dtype.tolist(), strict=True)
    return any(SHARES[shares] is Shares.IN_PLACE and BITS[plan.allocation.dtypes[dtype]] < 8 for shares, dtype in pairs)


@given(models(), arenas(), modes, seeds)
def test_running_a_plan_in_its_arenas_computes_what_private_memory_computes(
    model: Model, where: tuple[ArenaConfiguration, ...], mode: str, seed: int
) -> None:
    """spec: T1.2, T2.1, T3.1, T3.4, T3.7, T8.3, T8.5, T8.7, T8.8, V1.5, V1.10, M1.1"""
    plan = plan_memory(model, where, PlanOptions(mode=mode)).plan
    assert difference(plan, seed, model.bindings.donated) is None


@given(models(truthful=False), modes, seeds)
def test_a_model_that_declares_what_is_not_true_is_refused_or_its_plan_is(model: Model, mode: str, seed: int) -> None:
    """Alias groups needed at one time, MatMul in place, changes to what the caller keeps. spec: V1.9, V1.10, V2.1"""
    try:
        plan = plan_memory(model, options=PlanOptions(mode=mode)).plan
    except TmmuError:
        return
    if difference(plan, seed, model.bindings.donated) is not None:
        assert list(objections(plan, None, model.bindings.donated)) != []


@given(models(), arenas())
def test_a_plan_fits_into_its_footprint_and_into_no_byte_less(
    model: Model, where: tuple[ArenaConfiguration, ...]
) -> None:
    """spec: A3.1, A3.2"""
    plan = plan_memory(model, where).plan
    needed = [max(1, usage.footprint) for usage in plan.usage]
    exact = tuple(replace(arena, capacity=size) for arena, size in zip(where, needed, strict=True))
    assert plan_memory(model, exact).plan.usage == plan.usage
    for k, usage in enumerate(plan.usage):
        if usage.footprint > 1:
            short = (*exact[:k], replace(exact[k], capacity=usage.footprint - 1), *exact[k + 1 :])
            with pytest.raises(TmmuError, match="ARENA_TOO_SMALL"):
                plan_memory(model, short)


# What the properties above have found, each as the smallest model that shows it.


def halves(size: int, offset: int) -> Model:
    """`left` and `right` show `size` bytes each of `a`; their sum may take the bytes of `left`."""
    return text_model(
        "node matmul Matmul x -> a",
        "node window test::Window a -> left right",
        "node add Add left right -> sum inplace sum left",
        "node relu Relu sum -> y",
        f"tensor left u8 {size} view a 0",
        f"tensor right u8 {size} view a {offset}",
        sizes={"sum": size, "y": size},
    )


def test_windows_of_one_base_that_share_no_byte_do_not_forbid_in_place() -> None:
    """spec: T3.7"""
    model = halves(32, 32)
    planned = plan_memory(model)
    assert planned.refused == []
    assert difference(planned.plan, 0) is None
    assert list(objections(planned.plan, model)) == []
    assert list(objections(planned.plan, None)) == []


def test_windows_of_one_base_that_share_a_byte_forbid_in_place() -> None:
    """spec: T3.7, T3.9"""
    model = halves(33, 31)
    planned = plan_memory(model)
    assert [refused.reason for refused in planned.refused] == ["another operand shares bytes with it"]
    assert list(objections(planned.plan, model)) == []
