"""Which inputs a plan preserves: by its definition (the lemmas of `hulls`), byte by byte, and of plans that keep all.

spec: Z1.1, Z1.2, Z1.3, T1.8, A11.1, V1.17
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from proofs.definition.checker.inputs import find_overwritten_inputs
from proofs.proving.obligations import inputs_kept
from proofs.proving.obligations.rows import Unprovable
from proofs.readers.sharing import decide_permissions
from tests.support.execution import difference
from tests.support.kept_inputs import answers
from tests.support.objections import objections
from tmmu.core.columns import NONE
from tmmu.core.vocabulary import ArenaConfiguration, Model, Role
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans.columns import IS_RETURNED, ROLES
from tmmu.plans.sections import Plan
from tmmu.testing.strategies.models import arenas, models

layouts = st.sampled_from(("packed", "slots", "pools"))


def overwritten(plan: Plan, donated: frozenset[str]) -> dict[int, set[int]]:
    """For each undonated tensor of the caller the tensors that steps write to its bytes, pair by pair."""
    t, views = plan.allocation.tensors, decide_permissions(plan, None, donated).views
    arena = plan.allocation.storages.arena[t.storage].tolist()
    spans = [
        range(first, first + size)
        for first, size in zip(plan.allocation.addresses().tolist(), t.bytes.tolist(), strict=True)
    ]
    callers = (Role.INPUT, Role.PARAMETER, Role.OPTIMIZER)
    found: dict[int, set[int]] = {}
    for row, name in enumerate(t.name):
        if t.writer[row] == NONE and ROLES[t.role[row]] in callers and name not in donated and spans[row]:
            found[row] = {
                w for w in set(plan.allocation.steps.writes.tolist()) - views.keys()
                if spans[w] and arena[w] == arena[row]
                and max(spans[w].start, spans[row].start) < min(spans[w].stop, spans[row].stop)
            }  # fmt: skip
    return found


@given(models(), arenas(), layouts)
def test_the_inputs_that_are_overwritten_are_those_of_the_definition(
    model: Model, where: tuple[ArenaConfiguration, ...], layout: str
) -> None:
    plan = plan_memory(model, where, PlanOptions(layout=layout)).plan
    donated = frozenset(model.bindings.donated)
    expected = overwritten(plan, donated)
    fate = find_overwritten_inputs(plan, decide_permissions(plan, None, donated).views, donated)
    assert set(fate.inputs) == expected.keys()
    assert fate.overwritten.keys() == {row for row, by in expected.items() if by}
    assert all(by in expected[row] for row, by in fate.overwritten.items())
    assert answers(plan, donated) <= {True}
    if expected and not fate.overwritten:
        assert answers(plan, donated) == {True}


@given(models(), arenas(), layouts, st.integers(0, 1 << 16))
def test_a_plan_that_keeps_its_inputs_leaves_them_as_they_were(
    model: Model, where: tuple[ArenaConfiguration, ...], layout: str, seed: int
) -> None:
    assume(all(tensor.alias_group is None for tensor in model.tensors))
    keeping = replace(model, bindings=replace(model.bindings, keep_inputs=True))
    plan = plan_memory(keeping, where, PlanOptions(layout=layout)).plan
    donated = frozenset(model.bindings.donated)
    assert list(objections(plan, keeping, donated)) == []
    assert not any(overwritten(plan, donated).values())
    t = plan.allocation.tensors
    for row in keeping.inputs:
        if t.name[row] not in donated:
            assert (t.death[row], bool(t.flags[row] & IS_RETURNED)) == (plan.allocation.last_step, True)
    assert difference(plan, seed, donated) is None


@given(models(), arenas(), layouts)
def test_a_planned_base_is_as_aligned_as_what_it_holds(
    model: Model, where: tuple[ArenaConfiguration, ...], layout: str
) -> None:
    plan = plan_memory(model, where, PlanOptions(layout=layout)).plan
    for a, arena in enumerate(plan.allocation.arenas):
        held = plan.allocation.storages.alignment[plan.allocation.storages.arena == a].tolist()
        strictest = max([arena.alignment, *held])
        assert arena.base_alignment == (strictest if strictest > arena.alignment else 0)
        assert plan.allocation.needed_base_alignments()[arena.name] == strictest


def test_inputs_in_too_many_places_are_not_shown_to_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two inputs with a write between them each is a hull, and each write is asked of both."""
    from tests.support.wrong_plans.row import of_text

    between = (
        "tensor x 8 m 8 input; tensor z 8 m 24 input; tensor a 8 m 0; tensor b 8 m 16; tensor y 8 m 32 output;"
        "step s MatMul x z -> a; step t MatMul a -> b; step u MatMul b -> y"
    )
    plan = of_text(between)
    assert isinstance(plan, Plan)
    assert answers(plan, frozenset()) == {True}
    monkeypatch.setattr(inputs_kept, "MANY", 5)
    with pytest.raises(Unprovable, match="--keep-inputs"):
        answers(plan, frozenset())
    assert np.flatnonzero(plan.allocation.tensors.flags & IS_RETURNED).tolist() == [4]
