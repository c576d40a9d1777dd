"""A plan as the checker sees it: what the caller reads, what scratch is, and what a loop touches again.

spec: V1.4, V2.3, T8.3, T8.4, M1.1
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from proofs.definition.checker import execute as checker
from proofs.definition.checker.program import Program, build_program, exact, loops
from proofs.readers.sharing import Permissions, decide_permissions
from tests.support.synthetic import training_plan
from tests.support.text_models import text_model
from tmmu.core.columns import NONE, build_column
from tmmu.core.vocabulary import Model
from tmmu.examples.broken.editing import changed, listed
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans.sections import Claims, Plan, Usage, amend_plan


def seen(model: Model, mode: str = "inference", donated: str = "") -> Program:
    plan = plan_memory(model, options=PlanOptions(mode=mode)).plan
    return build_program(plan, decide_permissions(plan, None, frozenset(donated.split())), frozenset(donated.split()))


def named(run: Program, rows: tuple[int, ...] | list[int]) -> str:
    return " ".join(run.tensors[row].name for row in rows)


def test_columns_hold_sums_of_two_exactly() -> None:
    large = 1 << 62
    kinds = {
        tuple(v): exact(v).dtype.kind for v in ([large - 1], [large], [-large], [-large - 1], [large, 0], [1 << 64])
    }
    assert "".join(kinds.values()) == "iOiOOO"
    assert all(exact(values).tolist() == list(values) for values in kinds)
    assert (exact([large - 1]) + exact([large - 1])).tolist() == [2 * large - 2]
    assert (exact([-large]) + exact([-large])).tolist() == [-2 * large]


def test_rows_become_plain_tuples() -> None:
    run = seen(
        text_model(
            "node view1 View x -> v", "node relu Relu v -> y", "tensor v u8 32 view x 32", parameters="w",
            sizes={"y": 32},
        )
    )  # fmt: skip
    x, w, v, y = run.tensors
    assert (x.writer, w.writer, v.writer, y.writer) == (None, None, 0, 1)
    assert (v.storage, v.window, v.address, v.arena) == (x.storage, 32, x.address + 32, x.arena)
    assert (x.bytes, v.bytes) == (64, 32)
    assert run.arenas[w.arena].name == "parameters"
    assert (run.views, run.in_place, run.storage_names) == ({}, {}, ["x", "w", "y"])
    assert [(named(run, s.reads), named(run, s.writes)) for s in run.steps] == [("x", "v"), ("v", "y")]
    assert (run.at(1), run.at(2)) == ("step 1 (relu)", "after the last step the caller")


def test_an_arena_needs_what_is_claimed_or_else_what_its_storages_say() -> None:
    """Where addresses are scattered, the bytes of the largest storage at each. spec: A3.1, A2.4"""
    plan = training_plan(9, seed=3)
    most = int((plan.allocation.storages.offset + plan.allocation.storages.bytes).max())
    at: dict[int, int] = {}
    for offset, size in zip(
        plan.allocation.storages.offset.tolist(), plan.allocation.storages.bytes.tolist(), strict=True
    ):
        at[offset] = max(size, at.get(offset, 0))
    assert len(at) > 1
    claimed = replace(plan, claims=Claims((Usage(footprint=7),)))
    silent = replace(plan, claims=Claims((Usage(),)))
    scattered = amend_plan(silent, arenas=(replace(plan.allocation.arenas[0], scattered=True),))
    for each, needed in (
        (claimed, 7),
        (silent, most),
        (replace(plan, claims=None), most),
        (scattered, sum(at.values())),
    ):
        [arena] = build_program(each, Permissions()).arenas
        assert arena.footprint == needed


def test_one_tensor_without_a_step_is_the_callers() -> None:
    [x] = seen(text_model(outputs="x")).tensors
    assert (x.writer, x.birth, x.death) == (None, 0, 0)


def test_a_storage_without_tensors_has_a_name_too() -> None:
    plan = plan_memory(text_model("node relu Relu x -> y")).plan
    plan = changed(plan, "tensors", "y", storage=0)
    assert build_program(plan, Permissions()).storage_names == ["x", "storage 1"]


def test_the_caller_reads_outputs_parameters_and_optimizer_state() -> None:
    model = text_model("tensor s u8 64 optimizer", "node relu Relu x -> a", "node add Add a w s -> y", parameters="w")
    assert named(seen(model), seen(model).returned) == "w s y"


def test_the_caller_reads_what_is_saved_in_mode_forward_alone() -> None:
    model = text_model("node relu Relu x -> a", "node relu2 Relu a -> y", "tensor a u8 64 saved")
    assert named(seen(model), seen(model).returned) == "y"
    assert named(seen(model, "forward"), seen(model, "forward").returned) == "a y"


def test_what_is_donated_is_not_read_again_unless_it_is_an_output() -> None:
    """spec: V5.5, V1.10"""
    model = text_model(
        "node add Add x w -> y", "tensor x u8 64 donated", "tensor w u8 64 donated", parameters="w", outputs="y x"
    )
    run = seen(model, donated="x w")
    assert named(run, run.returned) == "x y"
    assert named(run, sorted(run.donated)) == "x w"
    assert named(seen(model), seen(model).returned) == "x w y"


def test_scratch_is_not_read_from_what_was_there_before() -> None:
    """spec: I1.10"""
    run = seen(text_model("node relu Relu x -> y scratch 8"))
    assert (named(run, run.steps[0].reads), named(run, run.steps[0].writes)) == ("x", "y relu.scratch0")
    assert list(checker.violations(run)) == []


def test_scratch_that_is_read_before_it_is_written_is_a_read() -> None:
    plan = plan_memory(text_model("node relu Relu x -> a", "node relu2 Relu a -> y scratch 8")).plan
    assert [plan.allocation.tensors.name[row] for row in plan.allocation.steps.reads] == ["x", "a", "relu2.scratch0"]
    early = amend_plan(plan, steps=replace(plan.allocation.steps, reads=plan.allocation.steps.reads[[2, 1, 2]]))
    found = [(p.obligation, p.tensors, p.step) for p in checker.violations(build_program(early, Permissions()))]
    assert ("lifetimes_cover_accesses", ("relu2.scratch0",), 0) in found


def test_scratch_that_its_step_does_not_write_is_read_as_it_was() -> None:
    plan = plan_memory(text_model("node relu Relu x -> y scratch 8")).plan
    steps = replace(plan.allocation.steps, writes=plan.allocation.steps.writes[[0, 0]])
    found = [
        (p.obligation, p.tensors[0])
        for p in checker.violations(build_program(amend_plan(plan, steps=steps), Permissions()))
    ]
    assert ("lifetimes_cover_accesses", "relu.scratch0") in found


def test_only_scratch_is_exempt_from_being_read_in_the_step_that_writes_it() -> None:
    plan = plan_memory(text_model("node relu Relu x -> y scratch 8")).plan
    activation = changed(plan, "tensors", "relu.scratch0", role=3)
    found = [(p.obligation, p.tensors[0]) for p in checker.violations(build_program(activation, Permissions()))]
    assert ("lifetimes_cover_accesses", "relu.scratch0") in found


def test_scratch_that_its_step_changes_is_read_as_it_was() -> None:
    plan = plan_memory(text_model("node relu Relu x -> y scratch 8")).plan
    steps = replace(
        plan.allocation.steps, mutates=plan.allocation.steps.writes[[1]], mutates_at=build_column([0, 1], np.uint32)
    )
    found = [
        (p.obligation, p.tensors[0])
        for p in checker.violations(build_program(amend_plan(plan, steps=steps), Permissions()))
    ]
    assert ("lifetimes_cover_accesses", "relu.scratch0") in found


LOOP = (
    "node relu Relu u -> a", "begin loop1 Loop x -> y z", "arm body i -> o a loop", "  node add Add i a w -> o",
    "end loop1", "node relu2 Relu y -> q",
)  # fmt: skip


def loop() -> Plan:
    return plan_memory(text_model(*LOOP, inputs="x u", outputs="q", parameters="w")).plan


def test_a_leave_reads_again_what_the_loop_is_given_captures_or_returns() -> None:
    run = build_program(loop(), Permissions())
    enter, leave = run.steps[1], run.steps[3]
    assert set(named(run, leave.again).split()) == {"x", "i", "w", "a", "y", "z"}
    assert (named(run, enter.writes), enter.completes) == ("i y z", False)
    assert (named(run, leave.writes), leave.completes) == ("loop1/body/a.copy1 y z", True)
    assert list(checker.violations(run)) == []


def test_an_if_of_the_known_domain_reads_nothing_again() -> None:
    plan = plan_memory(
        text_model("begin if If x -> y", "arm then -> o", "  node relu Relu x -> o", "arm else -> x", "end if")
    ).plan
    assert loops(plan.allocation) == []
    assert all(not step.again and not step.completes for step in build_program(plan, Permissions()).steps)


@pytest.mark.parametrize("domain", ["", "com.example"])
def test_whether_a_node_iterates_is_the_checkers_own_word(domain: str) -> None:
    """A plan that says that a Loop does not iterate is not believed. spec: V2.1"""
    plan = changed(loop(), "bodies", 1, iterates=0)
    plan = amend_plan(plan, ops=tuple((domain, op) for _, op in plan.allocation.ops))
    assert loops(plan.allocation) == [(1, 3)]
    elsewhere = amend_plan(plan, ops=tuple(("com.example", "If") for _ in plan.allocation.ops))
    assert loops(elsewhere.allocation) == [(1, 3)]


def test_two_bodies_of_one_node_are_one_loop() -> None:
    plan = plan_memory(
        text_model(
            "begin scan Scan x -> y", "arm a i -> o loop", "  node relu Relu i -> o", "arm b j -> p loop",
            "  node relu2 Relu j -> p", "end scan",
        )
    ).plan  # fmt: skip
    assert loops(plan.allocation) == [(0, 3)]


def test_bodies_that_lie_nowhere_are_no_loops() -> None:
    """What is wrong with them is said elsewhere; here they are passed over."""
    for entries in (
        {"enter": NONE}, {"leave": NONE}, {"enter": 3, "leave": 1}, {"enter": 0}, {"leave": 1}, {"leave": 5},
    ):  # fmt: skip
        assert loops(changed(loop(), "bodies", 1, **entries).allocation) == []


def test_the_main_graph_is_no_loop_whatever_its_row_says() -> None:
    nowhere = changed(loop(), "bodies", 1, enter=NONE)
    assert loops(changed(nowhere, "bodies", 0, enter=1, leave=3).allocation) == []


def test_what_the_body_writes_is_no_result_that_the_enter_writes() -> None:
    """Where the leave writes `d` too, it is the leave that is wrong, and not the step of the body."""
    lines = (*LOOP[:3], "  node relu3 Relu i -> d", "  node add Add d a w -> o", *LOOP[4:])
    plan = plan_memory(text_model(*lines, inputs="x u", outputs="q", parameters="w")).plan
    again = listed(plan, "writes", 4, "loop1/body/a.copy1", "y", "z", "d")
    found = [(p.tensors[0], p.step) for p in checker.check_execution(build_program(again, Permissions()))]
    assert found
    assert set(found) == {("d", 4)}


@pytest.mark.parametrize("name", ["i", "o"])
def test_a_leave_does_not_write_again_what_was_written_inside(name: str) -> None:
    """It completes the node's results alone: a formal input or a value of the body has been written. spec: V1.7"""
    plan = loop()
    again = listed(plan, "writes", 3, "loop1/body/a.copy1", "y", "z", name)
    found = [(p.obligation, p.tensors, p.step) for p in checker.check_execution(build_program(again, Permissions()))]
    assert found == [("sharing_is_sound", (name,), 3)]


def test_a_captured_value_overwritten_in_the_body_is_found_at_the_leave() -> None:
    """The first iteration reads it in time; the second would not. spec: T8.3"""
    plan = loop()
    o, a = (plan.allocation.tensors.name.list().index(name) for name in ("o", "a"))
    plan = changed(plan, "tensors", o, storage=int(plan.allocation.tensors.storage[a]))
    found = [(p.obligation, p.tensors, p.step) for p in checker.check_execution(build_program(plan, Permissions()))]
    assert ("sharing_is_sound", ("a", "o"), 3) in found


def test_a_swap_without_copies_is_found() -> None:
    """spec: T8.8"""
    plan = plan_memory(
        text_model("begin loop1 Loop x x -> y z", "arm body i j -> j i loop", "end loop1", outputs="y z")
    ).plan
    assert list(checker.violations(build_program(plan, Permissions()))) == []
    y, i = (plan.allocation.tensors.name.list().index(name) for name in ("y", "i"))
    wrong = changed(plan, "tensors", y, storage=int(plan.allocation.tensors.storage[i]))
    assert list(checker.check_execution(build_program(wrong, Permissions())))
