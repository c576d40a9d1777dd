"""What makes a list of steps a program: each thing that does not hang together is found, and named.

spec: T5.1, T8.1, T8.2, T8.9, T8.10, T8.11, T8.12, I1.9, A1.2, V1.2, V2.3
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from proofs.definition.checker import structure
from proofs.definition.checker.program import program
from proofs.definition.violations import Violation
from proofs.readers.sharing import Permissions, permitted
from tests.support.text_models import text_model
from tmmu.core.columns import NONE, Names
from tmmu.core.vocabulary import ArenaConfiguration, NodePart, Role, Shares
from tmmu.examples.broken import editing
from tmmu.examples.broken.editing import changed, listed
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans.columns import PARTS, ROLES, SHARES
from tmmu.plans.sections import Plan, amended

WHOLE, ENTER, LEAVE = (PARTS.index(part) for part in (NodePart.WHOLE, NodePart.ENTER, NodePart.LEAVE))
Change = Callable[[Plan], Plan]


def problems(plan: Plan) -> list[Violation]:
    return list(structure.violations(plan, program(plan, permitted(plan, None, frozenset()))))


def chain() -> Plan:
    """Steps: 0 relu, 1 change, 2 relu2."""
    return plan_memory(
        text_model(
            "node relu Relu x -> a", "node change Change a -> a changes a", "node relu2 Relu a -> b",
            "node relu3 Relu b -> y", parameters="w",
        )
    ).plan  # fmt: skip


def nested() -> Plan:
    """Steps: 0 enter if, 1 enter loop, 2 relu, 3 leave loop, 4 relu2, 5 leave if, 6 relu3.

    Bodies: 1 if/then, 2 loop1/body, 3 if/else.
    """
    model = text_model(
        "begin if If c x -> y", "arm then -> r", "  begin loop1 Loop x -> r", "  arm body i -> o loop",
        "    node relu Relu i -> o", "  end loop1", "arm else -> s", "  node relu2 Relu x -> s", "end if",
        "node relu3 Relu y -> z", inputs="c x", outputs="z",
    )  # fmt: skip
    return plan_memory(model).plan


def test_plans_that_hang_together_have_no_problem() -> None:
    models = [
        text_model(outputs="x"),
        text_model("node change Change x -> x changes x", "tensor x u8 64 donated", outputs="x"),
        text_model("node relu Relu x -> y", "tensor y u8 64 align 256"),
        text_model(
            "node relu Relu x -> a",
            "begin loop1 Loop x -> y scratch 8",
            "arm body i -> o loop",
            "  node add Add i a -> o",
            "end loop1",
        ),
        text_model(
            "begin if If x -> y", "arm then -> a", "  node relu Relu x -> a", "end if", "begin if2 If y -> z",
            "arm then -> y", "end if2", outputs="z",
        ),
        text_model("begin if If -> y", "arm then ->", "end if", inputs=""),
    ]  # fmt: skip
    for plan in (chain(), nested(), *(plan_memory(model).plan for model in models)):
        assert problems(plan) == []
    whole = chain()
    assert whole.claims is not None
    assert problems(replace(whole, claims=replace(whole.claims, configuration=None))) == []
    unaligned = (ArenaConfiguration("all", tuple(Role), alignment=1),)
    assert problems(plan_memory(text_model("node relu Relu x -> y"), unaligned).plan) == []


def edit(table: str, row: int | str, **entries: int) -> Change:
    return lambda plan: changed(plan, table, row, **entries)


def relist(which: str, step: int, *names: str) -> Change:
    return lambda plan: listed(plan, which, step, *names)


def renamed(table: str, row: int, name: str) -> Change:
    """The plan with another name of a node or a body."""

    def change(plan: Plan) -> Plan:
        rows = getattr(plan.allocation, table)
        key = "node" if table == "steps" else "name"
        names = list(getattr(rows, key))
        names[row] = name
        return amended(plan, **{table: replace(rows, **{key: Names.of(names)})})

    return change


WRITTEN: list[tuple[str, Change, tuple[str, ...], str]] = [
    ("a mutation that is not read", relist("reads", 1), ("a",), "mutates a without reading and writing it"),
    ("a mutation that is not written", relist("writes", 1), ("a",), "mutates a without reading and writing it"),
    ("a write of what no step writes", edit("tensors", "w", writer=NONE), (), ""),
    ("a result without a writer", edit("tensors", "y", writer=NONE), ("y",), "which no step writes by the plan"),
    ("a later writer than the first", edit("tensors", "a", writer=1), ("a",), "written by step 1; step 0 writes it"),
    ("a writer of what is not written", relist("writes", 3), ("y",), "to be written by step 3; no step writes it"),
    (
        "a parameter that a step writes",
        edit("tensors", "y", role=1),
        ("y",),
        "has the role parameter, which the caller writes, but step",
    ),
    (
        "an activation of the caller's",
        edit("tensors", "x", role=3),
        ("x",),
        "no step writes x, which has the role activation",
    ),
    (
        "a graph input that a step writes",
        edit("tensors", "b", flags=1),
        ("b",),
        "has the role input, which the caller writes, but step",
    ),
    ("a caller's tensor that is born later", edit("tensors", "x", birth=1), ("x",), "but born at step 1"),
]


@pytest.mark.parametrize(("change", "tensors", "text"), [row[1:] for row in WRITTEN], ids=[row[0] for row in WRITTEN])
def test_writers_and_roles_agree_with_the_steps(change: Change, tensors: tuple[str, ...], text: str) -> None:
    plan = change(chain())
    found = list(structure.written(plan, program(plan, Permissions())))
    if not text:
        assert found == []
        return
    assert {problem.obligation for problem in found} == {"lifetimes_cover_accesses"}
    assert any(problem.tensors == tensors and text in problem.text for problem in found)
    assert sum(problem.tensors == ("x",) for problem in found) == (tensors == ("x",))


def test_what_the_caller_writes_is_wrong_before_the_first_step() -> None:
    plan = changed(chain(), "tensors", "x", birth=1)
    [problem] = structure.written(plan, program(plan, Permissions()))
    assert (problem.tensors, problem.step) == (("x",), 0)


def inside_itself(plan: Plan) -> Plan:
    """The first body as its own parent, with its node's steps in it: going outwards would never end."""
    plan = changed(plan, "bodies", 1, parent=1)
    for step in (0, 5):
        plan = changed(plan, "steps", step, body=1)
    return plan


NO_RANGE = "is not between the enter and the leave of one node"
NESTED: list[tuple[str, Change, str]] = [
    ("a body without enter", edit("bodies", 2, enter=NONE), f"body 'loop1/body' {NO_RANGE}"),
    ("a body without leave", edit("bodies", 2, leave=NONE), f"body 'loop1/body' {NO_RANGE}"),
    ("a body that ends before it begins", edit("bodies", 2, enter=3, leave=1), NO_RANGE),
    (
        "a leave before its enter",
        lambda plan: changed(
            changed(changed(plan, "steps", 1, part=LEAVE), "steps", 3, part=ENTER), "bodies", 2, enter=3, leave=1
        ),
        f"body 'loop1/body' {NO_RANGE}",
    ),
    ("a body that begins at a whole step", edit("bodies", 2, enter=2), NO_RANGE),
    ("a body that ends at a whole step", edit("bodies", 2, leave=4), NO_RANGE),
    ("a body between two nodes", edit("bodies", 2, leave=5), NO_RANGE),
    ("an enter that is a whole step", edit("steps", 1, part=WHOLE), NO_RANGE),
    ("a leave of another operation", edit("steps", 3, op=0), NO_RANGE),
    ("a body without parent", edit("bodies", 2, parent=NONE), "body 'loop1/body' is in another body than its node"),
    ("a body in another body", edit("bodies", 2, parent=0), "is in another body than its node"),
    ("an enter in another body", edit("steps", 1, body=0), "body 'loop1/body' is in another body than its node"),
    ("a body inside itself", inside_itself, "body 'if/then' is in another body than its node"),
    ("a leave in another body", edit("steps", 3, body=0), "is in another body than its node"),
    (
        "a body of another name",
        renamed("bodies", 2, "other/body"),
        "body 'other/body' is not named after its node 'loop1'",
    ),
    (
        "a step in a body that is not open",
        edit("steps", 6, body=1),
        "is in body 'if/then', which is not open there",
    ),
    ("a step of the main graph inside a body", edit("steps", 2, body=0), "is in body '', which is not open there"),
    (
        "an enter without bodies",
        lambda plan: changed(changed(plan, "steps", 2, part=ENTER), "steps", 2),
        "step 2 (relu) enters a node without bodies",
    ),
    ("a leave without an enter", edit("steps", 6, part=LEAVE), "step 6 (relu3) leaves a node that it did not enter"),
    ("a leave of another node", edit("steps", 2, part=LEAVE), "step 2 (relu) leaves a node that it did not enter"),
    (
        "a loop that runs once",
        edit("bodies", 2, iterates=0),
        "body 'loop1/body' is declared to run once, but Loop can run it again",
    ),
    (
        "a branch that runs again",
        edit("bodies", 3, iterates=1),
        "body 'if/else' is declared to run again, but If cannot run it again",
    ),
]


@pytest.mark.parametrize(("change", "text"), [row[1:] for row in NESTED], ids=[row[0] for row in NESTED])
def test_bodies_nest(change: Change, text: str) -> None:
    """spec: T8.13"""
    found = problems(change(nested()))
    assert {problem.obligation for problem in found} == {"bodies_nest"}
    assert any(text in problem.text for problem in found)


def test_a_step_that_stands_wrong_is_known_by_what_it_writes_and_reads_first() -> None:
    plan = plan_memory(text_model("node concat Concat x w -> a b", parameters="w", outputs="a b")).plan
    [problem] = problems(changed(plan, "steps", 0, part=LEAVE))
    assert (problem.tensors, problem.step) == (("a", "x"), 0)


def test_a_value_that_bodies_of_one_node_are_given_is_read_in_either() -> None:
    """What an enter writes belongs to each body of its node, not to one that comes first or last."""
    model = text_model(
        "begin if If c x -> y", "arm then -> r", "  node relu Relu x -> r", "arm else -> s", "  node relu2 Relu x -> s",
        "end if", inputs="c x",
    )  # fmt: skip
    plan = plan_memory(model).plan
    assert plan.allocation.steps.part.tolist() == [ENTER, WHOLE, WHOLE, LEAVE]
    handed = listed(changed(plan, "tensors", "x", writer=0), "writes", 0, "x")
    assert list(structure.nested(handed, program(handed, Permissions()))) == []


def test_bodies_of_one_node_do_not_interleave() -> None:
    """Two steps of each arm, then the middle two exchanged."""
    model = text_model(
        "begin if If x -> y", "arm then -> b", "  node relu Relu x -> a", "  node relu2 Relu a -> b", "arm else -> d",
        "  node relu3 Relu x -> c", "  node relu4 Relu c -> d", "end if",
    )  # fmt: skip
    plan = plan_memory(model).plan
    assert plan.allocation.steps.body.tolist() == [0, 1, 1, 2, 2, 0]
    interleaved = changed(changed(plan, "steps", 2, body=2), "steps", 3, body=1)
    [problem] = problems(interleaved)
    assert (problem.obligation, problem.step) == ("bodies_nest", 3)
    assert "'if/then'" in problem.text


def test_a_body_lies_in_one_node_even_where_two_have_one_operation() -> None:
    model = text_model(
        "begin if If x -> y", "arm then -> x", "end if", "begin if2 If y -> z", "arm then -> y", "end if2", outputs="z"
    )
    plan = plan_memory(model).plan
    assert plan.allocation.steps.part.tolist() == [ENTER, LEAVE, ENTER, LEAVE]
    [problem] = problems(changed(plan, "bodies", 1, leave=3))
    assert (problem.obligation, "'if/then'" in problem.text) == ("bodies_nest", True)


def test_a_single_body_keeps_its_values_to_itself() -> None:
    model = text_model(
        "begin loop1 Loop x -> y", "arm body i -> o loop", "  node relu Relu i -> o", "end loop1",
        "node relu2 Relu y -> z", outputs="z",
    )  # fmt: skip
    plan = plan_memory(model).plan
    assert problems(plan) == []
    for name in ("i", "o"):
        [problem] = problems(listed(plan, "reads", 3, name))
        assert (problem.obligation, problem.tensors, problem.step) == ("bodies_nest", (name,), 3)


def test_bodies_of_no_node_are_found_without_any_enter() -> None:
    """Of one body or several; a plan whose steps stand in the main graph alone has neither."""
    single = text_model(
        "begin loop1 Loop x -> y", "arm body i -> o loop", "  node relu Relu i -> o", "end loop1", outputs="y"
    )
    for plan, count in ((plan_memory(single).plan, 2), (nested(), 4)):
        assert len(plan.allocation.bodies) == count
        for step in range(len(plan.allocation.steps)):
            plan = changed(plan, "steps", step, part=WHOLE)
        assert {(problem.obligation, NO_RANGE in problem.text) for problem in problems(plan)} == {("bodies_nest", True)}


def test_a_layout_of_its_own_asks_nothing_of_where_slots_lie() -> None:
    """What its addresses must keep is for its own obligations; `slots` are logical there. spec: A7.1"""
    plan = plan_memory(text_model("node relu Relu x -> a", "node relu2 Relu a -> b", "node relu3 Relu b -> y")).plan
    apart = changed(changed(plan, "storages", 0, offset=256), "slots", 1, alignment=256)
    assert {problem.obligation for problem in problems(apart)} == {"alignment", "no_live_overlap"}
    assert problems(amended(apart, layout="packed")) == []
    odd = changed(plan, "slots", 1, alignment=256)
    assert [problem.obligation for problem in problems(odd)] == ["alignment", "alignment"]
    assert problems(amended(odd, layout="packed")) == []


def test_a_slot_that_needs_no_alignment_begins_at_any_byte() -> None:
    one = (ArenaConfiguration("m", tuple(Role), alignment=1),)
    model = text_model("node matmul Matmul x -> y", sizes={"x": 1, "y": 1})
    plan = plan_memory(model, one, PlanOptions(layout="slots")).plan
    assert sorted(plan.allocation.storages.offset.tolist()) == [0, 1]
    assert problems(plan) == []


SCOPED: list[tuple[str, Change, str | None]] = [
    ("a value of a body read after it", relist("reads", 6, "r"), "r"),
    ("a formal input read outside", relist("reads", 4, "i"), "i"),
    ("a value of one arm read in the other", relist("reads", 4, "r"), "r"),
    ("a value of an inner body read by the outer node's leave", relist("reads", 5, "o", "s"), "o"),
    ("a captured value", relist("reads", 2, "i", "x"), None),
    ("an outer formal or result read inside", relist("reads", 4, "c"), None),
]


@pytest.mark.parametrize(("change", "name"), [row[1:] for row in SCOPED], ids=[row[0] for row in SCOPED])
def test_a_value_leaves_a_body_through_its_leave_alone(change: Change, name: str | None) -> None:
    found = problems(change(nested()))
    assert [problem.tensors for problem in found] == ([] if name is None else [(name,)])
    assert all("from inside another body" in problem.text for problem in found)


def test_a_copy_that_a_leave_makes_is_read_by_it_alone() -> None:
    """A loop may run no round, and then has made none. spec: T8.14"""
    lines = ("begin loop1 Loop x -> y", "arm body i -> a loop", "end loop1", "node relu2 Relu y -> q")
    plan = plan_memory(text_model("node relu Relu u -> a", *lines, inputs="x u", outputs="q")).plan
    copy = "loop1/body/a.copy0"
    assert problems(plan) == []
    (found,) = problems(listed(plan, "reads", 3, "y", copy))
    assert (found.obligation, found.tensors, found.step) == ("bodies_nest", (copy,), 3)


def test_a_leave_reads_no_scratch_but_that_of_its_own_enter() -> None:
    body = ("begin loop1 Loop v -> y scratch 8", "arm body i -> o loop", "  node relu Relu i -> o", "end loop1")
    plan = plan_memory(text_model("node matmul MatMul x -> v scratch 8", *body)).plan
    reads = [plan.allocation.tensors.name[t] for t in plan.allocation.steps.listed("reads")[3]]
    assert (problems(plan), reads) == ([], ["o", "loop1.scratch0"])
    (found,) = problems(listed(plan, "reads", 3, *reads, "matmul.scratch0"))
    assert (found.obligation, found.tensors, found.step) == ("bodies_nest", ("matmul.scratch0",), 3)


def swap() -> Plan:
    """A loop that swaps its two values. Steps: 0 relu, 1 enter, 2 leave, which copies both."""
    model = text_model(
        "node relu Relu x -> a", "begin loop1 Loop x x -> y z", "arm body i j -> j i loop", "end loop1", outputs="y z"
    )
    return plan_memory(model).plan


COPIED: list[tuple[str, tuple[str, ...], tuple[str, ...], str | None]] = [
    ("as it is", ("j", "loop1/body/j.copy0", "i", "loop1/body/i.copy1"), ("y", "z"), None),
    ("a formal input without a copy", ("j", "i", "loop1/body/i.copy1"), ("y", "z"), "j"),
    ("the last one without a copy", ("j", "loop1/body/j.copy0", "i"), ("y", "z"), "i"),
    ("a captured value without a copy", ("a", "i", "loop1/body/i.copy1"), ("y", "z"), "a"),
    ("what the caller gave without a copy", ("x", "i", "loop1/body/i.copy1"), ("y", "z"), "x"),
    ("a copy of something else", ("j", "i", "loop1/body/i.copy1"), ("loop1/body/j.copy0", "y", "z"), "j"),
]


@pytest.mark.parametrize(("reads", "results", "name"), [row[1:] for row in COPIED], ids=[row[0] for row in COPIED])
def test_what_a_body_did_not_make_is_copied_before_it_is_returned(
    reads: tuple[str, ...], results: tuple[str, ...], name: str | None
) -> None:
    """spec: T8.8"""
    copies = [tensor for tensor in reads if ".copy" in tensor]
    plan = listed(listed(swap(), "reads", 2, *reads), "writes", 2, *dict.fromkeys((*copies, *results)))
    found = list(structure.copied(plan, program(plan, Permissions())))
    assert [(p.obligation, p.tensors, p.step) for p in found] == ([] if name is None else [("bodies_nest", (name,), 2)])
    assert all("did not make, without a copy" in problem.text for problem in found)


def test_scratch_of_a_loop_is_handed_to_no_copy() -> None:
    """Its leave reads the scratch behind the last copy, of another size. spec: T8.8"""
    model = text_model(
        "node relu Relu x -> a", "begin loop1 Loop x x -> y z scratch 8", "arm body i j -> j i loop", "end loop1",
        outputs="y z",
    )  # fmt: skip
    plan = plan_memory(model).plan
    leave = plan.allocation.steps.listed("reads")[2]
    assert [str(plan.allocation.tensors.name[t]) for t in leave[-2:]] == ["loop1/body/i.copy1", "loop1.scratch0"]
    assert problems(plan) == []


def test_a_body_without_a_leave_copies_nothing() -> None:
    for entries in ({"enter": NONE}, {"leave": NONE}):
        plan = changed(swap(), "bodies", 1, **entries)
        assert list(structure.copied(plan, program(plan, Permissions()))) == []


def test_a_tensor_lies_where_its_role_belongs() -> None:
    """spec: T2.9, M3.4"""
    plan = plan_memory(
        text_model("node reshape Reshape w -> v", "node add Add v x -> y", "tensor v u8 64 view w 0", parameters="w")
    ).plan
    assert problems(plan) == []  # a view of a parameter lies with it
    [problem] = problems(changed(plan, "tensors", "y", role=ROLES.index(Role.GRADIENT)))
    assert (problem.obligation, problem.tensors) == ("roles_have_arenas", ("y",))
    assert all(name in problem.text for name in ("gradient,", "activations"))
    scratch = plan_memory(text_model("node relu Relu x -> y scratch 8 arena gradients")).plan
    assert problems(scratch) == []


def test_an_arena_cannot_be_hidden_behind_a_word_for_sharing() -> None:
    """`d` is said to be an alias of `a`, a gradient, and lies in its arena. spec: M3.16"""
    model = text_model(
        "node matmul Matmul x -> a", "node matmul2 Matmul a -> b", "node matmul3 Matmul b -> d",
        "tensor a u8 64 gradient", outputs="d",
    )  # fmt: skip
    plan = plan_memory(model).plan
    entry = {
        "storage": editing.storage_of(plan, "a"),
        "shares": SHARES.index(Shares.ALIAS),
        "of": editing.row(plan, "a"),
    }
    [problem] = problems(editing.laid_out(editing.edit(plan, tensors={"d": entry})))
    assert (problem.obligation, problem.tensors) == ("roles_have_arenas", ("d",))
    assert all(name in problem.text for name in ("activation,", "gradients"))


def test_an_arena_that_does_not_reuse_has_no_slot_for_two() -> None:
    """spec: M3.1, P2.4"""
    kept = (ArenaConfiguration("all", tuple(Role), reuse=False),)
    plan = plan_memory(
        text_model("node relu Relu x -> a", "node relu2 Relu a -> b", "node relu3 Relu b -> y"), kept
    ).plan
    assert problems(plan) == []
    x, b = (plan.allocation.tensors.name.list().index(name) for name in "xb")
    place = {"slot": int(plan.slots.of[x]), "offset": int(plan.allocation.storages.offset[x])}
    problem, shared = problems(changed(plan, "storages", b, **place))
    assert (shared.obligation, shared.tensors) == ("no_live_overlap", ("x", "b"))
    assert (problem.obligation, problem.tensors) == ("slot_count", ("x", "b"))
    assert "of an arena that does not reuse" in problem.text
    third = changed(changed(plan, "storages", b, **place), "storages", "y", **place)
    [named] = [p for p in problems(third) if "one slot of an arena that does not reuse" in p.text]
    assert named.tensors == ("x", "b")  # the first two of three


def test_slots_share_no_byte_whoever_lives_there() -> None:
    """The second slot begins within the first, whose storages are small there and dead then. spec: A1.1"""
    plan = plan_memory(
        text_model("node relu Relu x -> a", "node relu2 Relu a -> b", "node relu3 Relu b -> y", sizes={"x": 256})
    ).plan
    assert problems(plan) == []
    assert plan.allocation.storages.offset.tolist() == [0, 256, 0, 256]
    closer = changed(changed(plan, "storages", "a", offset=128), "storages", "y", offset=128)
    [problem] = [p for p in problems(closer) if "the slots of" in p.text]
    assert problem == Violation("no_live_overlap", problem.text, ("x", "a"), None, "activations", 128, 255)
    assert not any("the slots of" in p.text for p in problems(amended(closer, layout="packed")))
    three = plan_memory(text_model("node add Add x w -> y", inputs="x w")).plan
    low, middle, high = sorted(three.allocation.storages.offset.tolist())
    k = three.allocation.storages.offset.tolist().index(high)
    [problem] = [p for p in problems(changed(three, "storages", k, offset=middle + 1)) if "the slots of" in p.text]
    assert (low, problem.first_byte) == (0, middle + 1)


def test_tensors_that_must_not_alias_share_no_byte_at_any_step() -> None:
    plan = plan_memory(text_model("node relu Relu x -> a", "node relu2 Relu a -> b", "node relu3 Relu b -> y")).plan
    assert problems(amended(plan, must_not_alias=((0, 1),))) == []
    [problem] = problems(amended(plan, must_not_alias=((0, 2),)))
    text = "x and b must not alias, but their storages share bytes"
    assert problem == Violation("must_not_alias", text, ("x", "b"), None, "activations", 128, 191)
    [itself] = problems(amended(plan, must_not_alias=((0, 0),)))
    assert itself.tensors == ("x", "x")


def test_tensors_of_two_arenas_or_of_no_bytes_share_nothing() -> None:
    apart = plan_memory(text_model("node add Add w x -> y", "apart w x", parameters="w")).plan
    assert problems(apart) == []
    empty = plan_memory(text_model("node relu Relu x -> a", "node relu2 Relu a -> y", sizes={"a": 0})).plan
    assert problems(amended(empty, must_not_alias=((0, 1), (1, 1)))) == []


SLOTS: list[tuple[str, Change, str, str]] = [
    ("a slot in another arena", edit("slots", 0, arena=0), "slot_count", "does not fit its slot in arena, bytes"),
    ("a slot that is too small", edit("slots", 0, bytes=63), "slot_count", "does not fit its slot"),
    ("a slot aligned less than its storage", edit("storages", 0, alignment=256), "slot_count", "does not fit its slot"),
    ("a slot aligned less than its arena", edit("slots", 1, alignment=64), "slot_count", "does not fit its slot"),
    (
        "an odd slot alignment",
        edit("slots", 0, alignment=192),
        "alignment",
        "slot of a has the alignment 192: not a power of two",
    ),
    (
        "a slot whose alignment is 0",
        edit("slots", 1, alignment=0),
        "alignment",
        "the slot of x has the alignment 0: no",
    ),
    ("a slot aligned more strictly than it lies", edit("slots", 1, alignment=256), "alignment", "as its slot, to 256"),
    (
        "a slot for two that live together",
        edit("storages", 1, slot=1),
        "no_live_overlap",
        "have one slot and are both live",
    ),
    ("a slot at two offsets", edit("storages", 0, offset=256), "no_live_overlap", "have one slot at two offsets"),
]


@pytest.mark.parametrize(("change", "obligation", "text"), [row[1:] for row in SLOTS], ids=[row[0] for row in SLOTS])
def test_storages_take_turns_in_slots_that_fit_them(change: Change, obligation: str, text: str) -> None:
    """Storages of x, a, b and y in turn: slots 1, 0, 1, 0."""
    plan = plan_memory(text_model("node relu Relu x -> a", "node relu2 Relu a -> b", "node relu3 Relu b -> y")).plan
    assert plan.slots.of.tolist() == [1, 0, 1, 0]
    found = problems(change(plan))
    assert any(problem.obligation == obligation and text in problem.text for problem in found)
    assert any(problem.obligation == "alignment" for problem in found) == (obligation == "alignment")


def test_two_tenants_of_one_slot_at_one_step_are_named_with_step_and_bytes() -> None:
    plan = plan_memory(text_model("node relu Relu x -> a", "node relu2 Relu a -> y")).plan
    found = problems(changed(plan, "storages", "a", slot=1, offset=128))
    text = "x and a have one slot and are both live at step 0"
    assert Violation("no_live_overlap", text, ("x", "a"), 0, "activations", 128, 191) in found
    apart = problems(changed(plan, "storages", "a", slot=1, offset=160))
    assert Violation("no_live_overlap", text, ("x", "a"), 0, "activations", 160, 191) in apart
    assert any(problem.text == "x and a have one slot at two offsets" for problem in apart)


def test_a_step_that_stands_wrong_is_known_by_what_it_writes_and_reads() -> None:
    """spec: C1.5"""
    [problem] = problems(changed(nested(), "steps", 6, body=1))
    assert (problem.tensors, problem.step) == (("z", "y"), 6)
    [two] = problems(changed(nested(), "steps", 5, body=1))
    assert (two.tensors, two.step) == (("c",), 0)  # an enter without formal inputs, of two that it reads
    [nowhere] = problems(changed(nested(), "bodies", 2, enter=NONE))
    assert (nowhere.tensors, nowhere.step) == ((), None)
