"""Inputs that arrive late: planned, proved and run on random models, and refuted where their bytes are still others'.

spec: T1.3, T1.8, T1.9, V1.18, Z1.1, Z1.2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from proofs.definition.checker.inputs import find_overwritten_inputs
from proofs.readers.arrivals import find_late_inputs
from proofs.readers.sharing import decide_permissions
from tests.support.execution import difference
from tests.support.kept_inputs import answers
from tests.support.objections import objections
from tmmu.core.vocabulary import ArenaConfiguration, Model, Phase, Role
from tmmu.ir.arrivals import delay_inputs
from tmmu.ir.order import sort_topologically
from tmmu.ir.validate import validate_model
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans.sections import Plan
from tmmu.testing.strategies.models import arenas, models

layouts = st.sampled_from(("packed", "slots", "pools"))


def delayed(model: Model, chosen: Sequence[bool]) -> Model:
    """The model in which the chosen inputs arrive late, if its steps change none of them."""
    changed = {t for node in model.nodes for t in node.mutates}
    free = [t for t in model.inputs if model.tensors[t].role is Role.INPUT and t not in changed]
    late = [t for t, is_late in zip(free, chosen, strict=False) if is_late]
    assume(late)
    found = sort_topologically(delay_inputs(model, late, Phase.FORWARD))
    validate_model(found)
    return found


def written_after(plan: Plan, row: int, views: frozenset[int]) -> set[int]:
    """The tensors that are written to bytes of a late input by steps after its arrival, access by access."""
    t, first = plan.allocation.tensors, plan.allocation.addresses().tolist()
    arena, size = plan.allocation.storages.arena[t.storage].tolist(), t.bytes.tolist()
    return {
        w
        for n, writes in enumerate(plan.allocation.steps.listed("writes"))
        for w in writes
        if n > int(t.writer[row]) and w not in views and arena[w] == arena[row] and size[w] and size[row]
        and first[w] < first[row] + size[row] and first[row] < first[w] + size[w]
    }  # fmt: skip


@given(models(), st.lists(st.booleans(), min_size=4, max_size=4), arenas(), layouts, st.integers(0, 1 << 16))
def test_late_inputs_are_planned_proved_and_run(
    model: Model, chosen: list[bool], where: tuple[ArenaConfiguration, ...], layout: str, seed: int
) -> None:
    late = delayed(model, chosen)
    plan = plan_memory(late, where, PlanOptions(layout=layout)).plan
    donated = frozenset(late.bindings.donated)
    t, steps = plan.allocation.tensors, plan.allocation.steps.listed("reads")
    assert list(objections(plan, late, donated)) == []
    assert difference(plan, seed, donated) is None
    rows = find_late_inputs(plan.allocation).nonzero()[0].tolist()
    assert {t.name[row] for row in rows} == {
        late.tensors[w].name for node in late.nodes if node.op == "Arrive" for w in node.writes
    }
    views = frozenset(decide_permissions(plan, None, donated).views)
    fate = find_overwritten_inputs(plan, views, donated)
    for row in rows:
        assert t.birth[row] == t.writer[row]
        readers = [n for n, reads in enumerate(steps) if row in reads]
        assert all(n > t.writer[row] for n in readers)
        if t.name[row] not in donated and t.bytes[row]:
            assert (row in fate.overwritten) == bool(written_after(plan, row, views))
    if not fate.overwritten:
        assert answers(plan, donated) <= {True}


@given(models(), st.lists(st.booleans(), min_size=4, max_size=4), arenas())
def test_inputs_that_arrive_late_are_kept_from_then_on(
    model: Model, chosen: list[bool], where: tuple[ArenaConfiguration, ...]
) -> None:
    late = delayed(model, chosen)
    assume(all(tensor.alias_group is None for tensor in late.tensors))
    keeping = replace(late, bindings=replace(late.bindings, keep_inputs=True))
    plan = plan_memory(keeping, where, PlanOptions()).plan
    donated = frozenset(keeping.bindings.donated)
    assert list(objections(plan, keeping, donated)) == []
    t = plan.allocation.tensors
    for row in find_late_inputs(plan.allocation).nonzero()[0].tolist():
        if t.name[row] not in donated:
            assert t.death[row] == plan.allocation.last_step
            assert not written_after(plan, row, frozenset(decide_permissions(plan, None, donated).views))
