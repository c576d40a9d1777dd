"""Where tensors may lie, and how arenas divide a memory: each problem with its arena and its bytes.

spec: M3.7, M3.8, M3.10
"""

from __future__ import annotations

import pytest

from proofs.definition.checker import arenas as homes
from proofs.definition.checker.arenas import ArenaPlace
from proofs.definition.checker.program import build_program
from proofs.definition.violations import Violation
from proofs.readers.sharing import Permissions
from tests.support.text_models import text_model
from tmmu.core.vocabulary import ArenaConfiguration, ArenaPolicy, DeviceConfiguration, Memory, Model, Role, Rule
from tmmu.examples.broken.editing import changed
from tmmu.planner import plan_memory
from tmmu.plans.sections import Plan, amend_plan

OTHERS = tuple(role for role in Role if role not in (Role.INPUT, Role.PARAMETER))


def arenas(memory: str = "dram") -> tuple[ArenaConfiguration, ...]:
    """Inputs, nothing, parameters that never share, and all else; the first three in one memory."""
    there = {"alignment": 16, "device": "npu", "memory": memory}
    return (
        ArenaConfiguration("given", (Role.INPUT,), **there),  # type: ignore[arg-type]  # the fields have their types
        ArenaConfiguration("empty", (), **there),  # type: ignore[arg-type]
        ArenaConfiguration("kept", (Role.PARAMETER,), reuse=False, **there),  # type: ignore[arg-type]
        ArenaConfiguration("rest", OTHERS, alignment=16),
    )


def planned(capacity: int = 1 << 20, *rules: Rule, model: Model | None = None) -> Plan:
    """100 bytes of input, and two parameters of 64 and 32 bytes, the second aligned to 256."""
    made = model or text_model(
        "node matmul Matmul x w v -> y", "tensor v u8 32 align 256", parameters="w v", sizes={"x": 100}
    )
    device = DeviceConfiguration("npu", (Memory("sram", 8), Memory("dram", capacity)), ops=("Matmul",))
    plan = plan_memory(made, arenas(), policy=ArenaPolicy((device._replace(memories=(Memory("dram", 1 << 20),)),))).plan
    return amend_plan(plan, policy=ArenaPolicy((device,), rules))


def found(plan: Plan) -> list[Violation]:
    run = build_program(plan, Permissions())
    return [
        *homes.check_arena_assignment(plan, plan.configuration, run),
        *homes.check_memory_capacity(plan.configuration, run),
    ]


def test_arenas_of_a_memory_lie_one_behind_the_other_as_their_strictest_slot_asks() -> None:
    """One that needs nothing takes no place, and one of no memory counts nowhere."""
    plan = planned()
    assert [usage.footprint for usage in plan.usage] == [100, 0, 288, 64]
    assert homes.places(plan.configuration, [100, 0, 288, 64], [16, 16, 256, 16]) == [
        ArenaPlace("npu/dram", 1 << 20, 0, 0, 0, 0, 16),
        ArenaPlace("npu/dram", 1 << 20, 2, 0, 100, 256, 256),
    ]


@pytest.mark.parametrize(("capacity", "first"), [(544, None), (543, 287), (257, 1), (256, 0), (99, 0)])
def test_a_memory_is_overfull_where_its_last_arena_ends_beyond_it(capacity: int, first: int | None) -> None:
    """The arena `kept` begins at 256 and needs 288; its highest storage is named, and the bytes that are too many."""
    problems = [problem for problem in found(planned(capacity)) if problem.arena == "kept"]
    text = f"kept begins at byte 256 of the memory npu/dram and ends at 544; it has {capacity}"
    assert problems == ([] if first is None else [Violation("capacity", text, ("v",), None, "kept", first, 287)])


def test_the_storage_that_ends_highest_is_named_wherever_it_begins() -> None:
    plan = planned(543)
    w = int(plan.allocation.tensors.storage[plan.allocation.tensors.name.list().index("w")])
    assert [problem.tensors for problem in found(changed(plan, "storages", w, bytes=400))] == [("w",)]


@pytest.mark.parametrize(("size", "last"), [(64, 127), (1, 64), (0, 64)])
def test_a_tensor_in_a_wrong_arena_is_shown_with_its_bytes(size: int, last: int) -> None:
    """By its role, and by a rule. Of nothing, first and last are where it would be."""
    model = text_model("node relu Relu x -> a", "node relu2 Relu a -> b", "node relu3 Relu b -> y", sizes={"a": size})
    plan = planned(model=model)
    a = plan.allocation.tensors.name.list().index("a")
    plan = changed(plan, "storages", int(plan.allocation.tensors.storage[a]), offset=64)
    forbidden = amend_plan(
        plan,
        policy=plan.configuration.policy._replace(rules=(Rule(("kept",), ops=("y",)), Rule(("kept",), names=("a",)))),
    )
    assert found(plan) == []
    text = "a is in rest; rule 2 allows kept"
    assert found(forbidden) == [Violation("roles_have_arenas", text, ("a",), None, "rest", 64, last)]
    role = changed(plan, "tensors", "a", role=list(Role).index(Role.PARAMETER))
    text = "a has the role parameter, which rest does not hold"
    assert found(role) == [Violation("roles_have_arenas", text, ("a",), None, "rest", 64, last)]


def test_a_rule_for_operators_speaks_of_the_node_that_writes_or_else_reads_first() -> None:
    """`u` is touched by no node, so no rule for operators or devices means it."""
    model = text_model(
        "node relu Relu x -> a", "node matmul Matmul a w -> y", inputs="x u", parameters="w", outputs="y u"
    )
    for rule in (Rule(("empty",), ops=("*",)), Rule(("empty",), devices=("npu",)), Rule(("empty",), ops=("Matmul",))):
        plan = planned(1 << 20, rule, model=model)
        rules = dict(
            zip(
                plan.allocation.tensors.name.list(),
                homes.rule_of(plan, plan.configuration.policy).tolist(),
                strict=True,
            )
        )
        meant = {"x", "a", "w", "y"} if rule.ops == ("*",) else {"w", "y"}
        assert {name for name, row in rules.items() if row == 0} == meant
        assert set(rules.values()) == {0, homes.BY_ROLE}
