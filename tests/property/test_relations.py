"""What must hold between the plans of two models that differ in one thing."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tmmu.core.dtypes import nbytes
from tmmu.core.vocabulary import MAIN, ArenaConfiguration, Model, Node, Role, Tensor
from tmmu.planner import DEFAULT, PlanOptions, plan_memory
from tmmu.plans.sections import Plan
from tmmu.testing.strategies.models import arenas, models


def needs(plan: Plan) -> dict[str, tuple[int, int]]:
    """The most storages and the most bytes that are live at one step, of each arena."""
    return {a.name: (u.max_live, u.peak_live_bytes) for a, u in zip(plan.allocation.arenas, plan.usage, strict=True)}


def at_most(one: dict[str, tuple[int, int]], other: dict[str, tuple[int, int]]) -> bool:
    return all(mine <= theirs for name in one for mine, theirs in zip(one[name], other[name], strict=True))


@given(models())
def test_in_place_results_never_make_more_storages_live(model: Model) -> None:
    """(They may keep more bytes live: a small result in a window of a large tensor keeps all of it.) spec: T3.9"""
    without = replace(model, nodes=tuple(replace(node, in_place=()) for node in model.nodes))
    for one, other in zip(plan_memory(model).plan.usage, plan_memory(without).plan.usage, strict=True):
        assert one.max_live <= other.max_live


@given(models(), st.lists(st.integers(0, 15), max_size=3))
def test_another_node_at_the_end_never_makes_less_live(model: Model, places: list[int]) -> None:
    """spec: T1.2, T2.1"""
    t = len(model.tensors)
    owned = {r for node in model.nodes if node.body != MAIN for r in node.writes}
    owned |= {r for body in model.bodies[1:] for r in body.inputs}
    stale = {k for k, x in enumerate(model.tensors) if x.view and any(changed(model, x.view.base))}
    free = [r for r in range(t) if r not in owned | stale]
    reads = tuple(free[place % len(free)] for place in places) if free else ()
    made = Tensor("one more", (4,), "uint8", Role.ACTIVATION, nbytes((4,), "uint8"))
    longer = replace(model, tensors=(*model.tensors, made), nodes=(*model.nodes, Node("last", "MatMul", reads, (t,))))
    assert at_most(needs(plan_memory(model).plan), needs(plan_memory(longer).plan))


def changed(model: Model, base: int) -> list[str]:
    """The nodes that change a tensor, or what it shows."""
    view = model.tensors[base].view
    return [node.name for node in model.nodes if base in node.mutates] + (changed(model, view.base) if view else [])


@given(models())
def test_what_is_kept_for_backward_never_makes_less_live(model: Model) -> None:
    """spec: M1.1, M1.2"""
    assert at_most(needs(plan_memory(model).plan), needs(plan_memory(model, options=PlanOptions(mode="forward")).plan))


@given(models(), arenas())
def test_the_order_and_alignment_of_arenas_move_no_tensor_to_another_slot(
    model: Model, where: tuple[ArenaConfiguration, ...]
) -> None:
    """spec: T6.2, A1.1"""
    turned = tuple(replace(arena, alignment=1, page_size=1) for arena in reversed(where))
    one, other = plan_memory(model, where).plan, plan_memory(model, turned).plan
    assert needs(one) == needs(other)
    assert slots_by_name(one) == slots_by_name(other)


def slots_by_name(plan: Plan) -> dict[str, tuple[str, int]]:
    """The arena of each tensor and its slot's number in it."""
    arena = plan.slots.arena.tolist()
    slot = plan.slots.of[plan.allocation.tensors.storage].tolist()
    return {
        name: (plan.allocation.arenas[arena[k]].name, k - arena.index(arena[k]))
        for name, k in zip(plan.allocation.tensors.name, slot, strict=True)
    }


@given(models())
def test_slots_follow_each_other_with_no_more_than_alignment_between(model: Model) -> None:
    """spec: A1.1, A1.2, A3.1, T6.3, T7.1"""
    plan = plan_memory(model).plan
    end = [0] * len(DEFAULT)
    first = []
    for a, size, alignment in zip(
        plan.slots.arena.tolist(), plan.slots.bytes.tolist(), plan.slots.alignment.tolist(), strict=True
    ):
        first.append(-(-end[a] // alignment) * alignment)
        end[a] = first[-1] + size
    assert [usage.footprint for usage in plan.usage] == end
    assert plan.allocation.storages.offset.tolist() == [first[k] for k in plan.slots.of.tolist()]
    for k, slot in enumerate(plan.slots.of.tolist()):
        assert plan.slots.bytes[slot] >= max(1, int(plan.allocation.storages.bytes[k]))
        assert plan.slots.alignment[slot] % plan.allocation.storages.alignment[k] == 0
