"""A plan in which entries were changed never passes if running it goes wrong: the checker is sound.

Where the execution oracle shows that a changed plan computes something else, the checker must object, with the model
and without. (It may object to more: a changed plan can be wrong in ways that no run shows.)
"""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.support.execution import NotRunnable, difference, mean, observe, unlike
from tests.support.objections import objections
from tests.support.text_models import text_model
from tmmu.core.vocabulary import Model
from tmmu.examples.broken.editing import changed as with_entries
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans.sections import Plan
from tmmu.testing.catalogue.entries import COLUMNS, PLACES, Change, corrupted
from tmmu.testing.strategies.models import changes, models, numbered
from tmmu.testing.strategies.recipes import HOLDERS, KINDS

modes = st.sampled_from(("inference", "forward"))
seeds = st.integers(0, 1 << 16)


def goes_wrong(plan: Plan, seed: int, model: Model) -> bool:
    """Does running the steps that a plan states go wrong?"""
    try:
        return difference(plan, seed, model.bindings.donated) is not None
    except NotRunnable:
        return False


def computes_another(plan: Plan, right: Plan, seed: int, model: Model) -> bool:
    """Does running a plan in its arenas give anything else than the right plan's steps in private memory?"""
    meaning = mean(right, model.bindings.donated)
    try:
        return (
            unlike(observe(right, meaning, seed, private=True), observe(plan, meaning, seed, private=False)) is not None
        )
    except NotRunnable:
        return False


@given(models(), modes, changes(), seeds)
def test_a_changed_plan_that_goes_wrong_is_refused(model: Model, mode: str, wanted: list[Change], seed: int) -> None:
    """spec: V1.5, V2.1, V2.2"""
    plan = corrupted(plan_memory(model, options=PlanOptions(mode=mode)).plan, wanted)
    assume(plan is not None)
    assert plan is not None
    if goes_wrong(plan, seed, model):
        assert any(objections(plan, None, model.bindings.donated))


@given(models(), modes, changes(), seeds)
def test_a_changed_plan_that_computes_something_else_is_not_its_models(
    model: Model, mode: str, wanted: list[Change], seed: int
) -> None:
    """spec: V3.1, V3.2"""
    right = plan_memory(model, options=PlanOptions(mode=mode)).plan
    plan = corrupted(right, wanted)
    assume(plan is not None)
    assert plan is not None
    if computes_another(plan, right, seed, model):
        assert any(objections(plan, model, model.bindings.donated))


@given(models(kinds=(*KINDS, *HOLDERS)), changes(PLACES), seeds)
def test_moved_bytes_that_go_wrong_are_noticed(model: Model, wanted: list[Change], seed: int) -> None:
    """Addresses, windows and lifetimes alone, and more bodies. spec: V1.1, V1.4, V1.5, T8.3, T8.8"""
    plan = corrupted(plan_memory(model).plan, wanted)
    assume(plan is not None)
    assert plan is not None
    if goes_wrong(plan, seed, model):
        assert any(objections(plan, None, model.bindings.donated))


@pytest.mark.parametrize("how", ["other", "more", "less", "nothing"])
def test_whatever_passes_the_gate_is_judged_and_not_stumbled_over(how: str) -> None:
    """Every column, in models with bodies, views and changes. spec: P1.2"""
    judged = set()
    for number in range(5):
        model = numbered(number)
        right = plan_memory(model).plan
        for table, column in COLUMNS:
            plan = corrupted(right, [Change(table, column, 7 * number, how, 1)])
            if plan is not None and any(objections(plan, model, model.bindings.donated)):
                judged.add((table, column))
    assert len(judged) > len(COLUMNS) // 2


# What the properties above, or thinking about why they hold, have found.


def test_a_copy_on_leaving_a_loop_may_not_lie_over_what_the_next_iteration_reads() -> None:
    """`f` is returned and thus copied; the copy lies on `c`, which the body reads again. spec: T8.3, T8.8, V1.5"""
    model = text_model(
        "node mul Mul x -> c", "begin loop1 Loop x -> y", "  arm body f -> f g loop", "  node matmul Matmul c f -> g",
        "end loop1",
    )  # fmt: skip
    right = plan_memory(model).plan
    captured = right.allocation.tensors.name.list().index("c")
    wrong = with_entries(
        right, "tensors", "loop1/body/f.copy0", storage=int(right.allocation.tensors.storage[captured])
    )
    assert any(goes_wrong(wrong, seed, model) for seed in range(8))
    assert any(objections(wrong, model))
    assert any(objections(wrong, None))


def test_a_donated_input_that_is_an_output_is_read_by_the_caller() -> None:
    """`z` lies on `x`, which is said to be dead. spec: T1.4, V1.4"""
    model = text_model(
        "node matmul Matmul x -> y", "node matmul2 Matmul y -> z", "tensor x u8 64 donated", outputs="z x"
    )
    right = plan_memory(model).plan
    home = dict(zip(right.allocation.tensors.name, right.allocation.tensors.storage.tolist(), strict=True))
    wrong = with_entries(with_entries(right, "tensors", "x", death=0), "storages", home["x"], death=0)
    wrong = with_entries(wrong, "storages", home["z"], offset=int(right.allocation.storages.offset[home["x"]]))
    assert any(goes_wrong(wrong, seed, model) for seed in range(4))
    assert any(objections(wrong, None, ["x"]))


def test_what_the_caller_keeps_is_not_changed_through_a_view() -> None:
    """The step that changes `p`, which is donated, is made to change `v`, and nothing is donated. spec: V1.10"""
    lines = ("node reshape Reshape p -> v", "node update test::Update p -> p changes p", "node matmul Matmul p -> y")
    shared = ("tensor v u8 64 view p 0", "tensor p u8 64 donated")
    model = text_model(*lines, *shared, inputs="", parameters="p")
    right = plan_memory(model).plan
    assert not any(objections(right, model, ["p"]))
    v = right.allocation.tensors.name.list().index("v")
    wrong = with_entries(with_entries(right, "steps", 1, reads=v, writes=v), "steps", 0, mutates=v)
    assert goes_wrong(wrong, 0, text_model(*lines, inputs="", parameters="p"))
    assert any(objections(wrong, None))
