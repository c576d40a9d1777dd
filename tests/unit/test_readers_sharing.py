"""Which of a plan's words on sharing count: by the tables, by the model, or as believed; and which do not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from proofs.readers.models.reference import ReferenceBody, ReferenceProgram, ReferenceStep
from proofs.readers.sharing import DROPOUT_ASSUMED, Permissions, decide_permissions
from tests.support.reader_plans import plan_of, stated, step
from tests.support.text_models import text_model
from tmmu.core.vocabulary import NodePart, Role, Shares
from tmmu.examples.broken.editing import changed
from tmmu.planner import plan_memory
from tmmu.plans import text
from tmmu.plans.columns import SHARES
from tmmu.plans.sections import Plan, amend_plan

VIEW, IN_PLACE, ALIAS = Shares.VIEW, Shares.IN_PLACE, Shares.ALIAS
NOBODY: frozenset[str] = frozenset()


def named(plan: Plan, permissions: Permissions) -> tuple[dict[str, tuple[str, int]], dict[str, str]]:
    """Permissions by the tensors' names."""
    name = plan.allocation.tensors.name
    return (
        {name[row]: (name[base], offset) for row, (base, offset) in permissions.views.items()},
        {name[row]: name[operand] for row, operand in permissions.in_place.items()},
    )


def through(*steps: str | ReferenceStep, **fields: object) -> ReferenceProgram:
    """A model that makes `a` of the input before the given steps, so that `a` is a step's to overwrite."""
    rest = (step(s) if isinstance(s, str) else s for s in steps)
    return stated(step("first MatMul x -> a"), *rest, **fields)  # type: ignore[arg-type]


def judged(
    model: ReferenceProgram,
    word: Shares = IN_PLACE,
    of: str = "a",
    *,
    against: ReferenceProgram | None = None,
    donated: frozenset[str] = NOBODY,
    inside: dict[str, tuple[str, int]] | None = None,
    dtypes: dict[str, str] | None = None,
    mode: str = "inference",
) -> tuple[dict[str, tuple[str, int]], dict[str, str], list[str]]:
    """What is permitted where the plan says that `y` shares bytes with `of`."""
    plan = plan_of(model, shares={"y": (word, of)}, inside=inside, dtypes=dtypes, mode=mode)
    permissions = decide_permissions(plan, against, donated)
    return *named(plan, permissions), permissions.assumed


@pytest.mark.parametrize("op", ["Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout"])
def test_a_view_by_the_tables_shows_its_whole_base(op: str) -> None:
    """spec: V1.6, V2.1"""
    assert judged(through(f"n {op} a -> y"), VIEW) == ({"y": ("a", 0)}, {}, [])


@pytest.mark.parametrize("op", ["Transpose", "Slice", "Relu", "MatMul", "UnheardOf"])
def test_an_operator_that_is_no_view_by_the_tables_is_none_by_a_plan(op: str) -> None:
    """spec: V2.1"""
    assert judged(through(f"n {op} a -> y"), VIEW) == ({}, {}, [])


def test_a_view_is_of_the_first_operand_alone() -> None:
    assert judged(through("n Reshape x a -> y"), VIEW) == ({}, {}, [])


def test_only_the_first_result_is_a_view() -> None:
    assert judged(through("n Dropout a -> mask y"), VIEW) == ({}, {}, [])


def test_a_view_by_the_tables_has_the_bytes_and_the_type_of_its_base() -> None:
    """spec: V1.6"""
    model = through("n Reshape a -> y")
    assert judged(replace(model, sizes=model.sizes | {"y": (32, "float32")}), VIEW) == ({}, {}, [])
    assert judged(model, VIEW, dtypes={"y": "int32"}) == ({}, {}, [])


def test_a_base_that_its_step_does_not_read_is_none() -> None:
    assert judged(through("b Relu a -> b", "n Reshape b -> y"), VIEW) == ({}, {}, [])


def test_what_its_own_step_makes_is_no_base() -> None:
    """Nor can two results of one step be views of each other, whatever the operator."""
    model = through("n my::Fuse p y -> p y")
    plan = plan_of(model, shares={"p": (VIEW, "y"), "y": (VIEW, "p")}, inside={"y": ("p", 0)})
    assert named(plan, decide_permissions(plan, None, NOBODY)) == ({}, {})


def test_a_believed_operator_shares_only_what_its_step_reads_and_writes() -> None:
    for word in (VIEW, IN_PLACE):
        unread = through("b Relu a -> b", "n my::Fuse b -> y")
        assert judged(unread, word, inside={"y": ("a", 0)}) == ({}, {}, [])
        elsewhere = through("n my::Fuse a -> b", "m MatMul b -> y")
        unwritten = plan_of(elsewhere, shares={"y": (word, "a")}, inside={"y": ("a", 0)})
        unwritten = changed(unwritten, "tensors", "y", writer=1)
        assert named(unwritten, decide_permissions(unwritten, None, NOBODY)) == ({}, {})


def test_a_base_that_is_written_later_is_none() -> None:
    """Two tensors cannot be views of each other, so that chains of views end. spec: V1.14"""
    assert judged(through("n Identity a -> y a"), VIEW) == ({}, {}, [])
    plan = plan_of(
        stated(step("m Reshape y -> a"), step("n Reshape a -> y")), shares={"a": (VIEW, "y"), "y": (VIEW, "a")}
    )
    assert named(plan, decide_permissions(plan, None, NOBODY)) == ({"y": ("a", 0)}, {})


def test_what_a_step_mutates_is_no_view_and_no_result_in_place() -> None:
    for word in (VIEW, IN_PLACE):
        model = through("n Relu x -> y", step("again Identity a y -> y changes y"))
        plan = plan_of(model, shares={"y": (word, "a")})
        plan = changed(plan, "tensors", "y", writer=2)
        assert named(plan, decide_permissions(plan, None, NOBODY)) == ({}, {})


def test_a_writer_that_does_not_write_makes_no_view_and_no_result_in_place() -> None:
    for word in (VIEW, IN_PLACE):
        model = through("n Identity a -> b", "m MatMul b -> y")
        plan = changed(plan_of(model, shares={"y": (word, "a")}), "tensors", "y", writer=1)
        assert named(plan, decide_permissions(plan, None, NOBODY)) == ({}, {})


def test_a_word_without_a_tensor_that_it_speaks_of_is_none() -> None:
    for word in (VIEW, IN_PLACE):
        plan = plan_of(through("n Identity a -> y"), shares={"y": (word, "")})
        assert named(plan, decide_permissions(plan, None, NOBODY)) == ({}, {})


def test_an_alias_group_gives_no_permission() -> None:
    assert judged(through("n Identity a -> y"), ALIAS) == ({}, {}, [])


def test_a_dropout_with_training_mode_is_a_view_only_as_believed_and_at_inference() -> None:
    """spec: V2.2, V5.3"""
    model, bools = through("n Dropout a ratio on -> y", parameters="ratio on"), {"on": "bool"}
    model.sizes["on"] = (1, "bool")
    assert judged(model, VIEW, dtypes=bools) == ({"y": ("a", 0)}, {}, [DROPOUT_ASSUMED])
    assert judged(model, VIEW, dtypes=bools, mode="backward") == ({}, {}, [])
    assert judged(through("n Dropout a ratio -> y", parameters="ratio"), VIEW) == ({"y": ("a", 0)}, {}, [])
    short = through("n Dropout a on -> y", parameters="on")  # the ratio is left out
    assert judged(short, VIEW, dtypes=bools, mode="backward") == ({}, {}, [])
    other = through("n Reshape a on -> y", parameters="on")
    assert judged(other, VIEW, dtypes=bools, mode="backward") == ({"y": ("a", 0)}, {}, [])


@pytest.mark.parametrize(
    ("line", "of"),
    [
        ("n Relu a -> y", "a"),
        ("n Add x a -> y", "a"),
        ("n Where x x a -> y", "a"),
        ("n Sum a x -> y", "a"),
        ("n Add a -> y", "a"),
        ("n ScatterND a x x -> y", "a"),
        ("n ScatterElements a x x -> y", "a"),
        ("n TensorScatter a x x -> y", "a"),
    ],
)
def test_an_elementwise_result_may_take_an_operand_that_is_read_at_its_own_index(line: str, of: str) -> None:
    """spec: T3.2"""
    assert judged(through(line), of=of) == ({}, {"y": of}, [])


@pytest.mark.parametrize(
    "line",
    ["n MatMul a x -> y", "n Softmax a -> y", "n CumSum a x -> y", "n Transpose a -> y", "n Reshape a -> y",
     "n Clip x a -> y", "n Sum x a -> y", "n Sum a x a -> y", "n Mean a a -> y",
     "n ScatterND x x a -> y", "n ScatterND a x a -> y", "n TensorScatter a a -> y", "n BatchNormalization a x -> y",
     "n UnheardOf a -> y", "n Relu x -> y", "n Relu a -> z y"],
)  # fmt: skip
def test_no_other_result_may_take_an_operand(line: str) -> None:
    """spec: T3.2, T3.10, T3.12, V2.1"""
    assert judged(through(line)) == ({}, {}, [])


def test_a_result_in_place_has_the_bytes_and_the_element_width_of_its_operand() -> None:
    """spec: T3.3"""
    model = through("n Cast a -> y")
    assert judged(model, dtypes={"y": "int32"}) == ({}, {"y": "a"}, [])
    assert judged(replace(model, sizes=model.sizes | {"y": (64, "float16")})) == ({}, {}, [])
    assert judged(replace(model, sizes=model.sizes | {"y": (128, "float32")})) == ({}, {}, [])


def test_a_result_in_place_has_the_size_of_its_operand_at_every_shape() -> None:
    """spec: R6.6"""
    lines = ("dim m 1 64", "tensor a u8 m", "node matmul Matmul x -> a", "node relu Relu a -> y")
    for size, taken in (("m", True), ("64", False)):
        plan = plan_memory(text_model(*lines, f"tensor y u8 {size}")).plan
        entry = {"shares": SHARES.index(IN_PLACE), "of": plan.allocation.tensors.name.list().index("a")}
        plan = amend_plan(changed(plan, "tensors", "y", **entry), ops=tuple(("", op) for _, op in plan.allocation.ops))
        permissions = decide_permissions(plan, None, NOBODY)
        assert named(plan, permissions)[1] == ({"y": "a"} if taken else {})
        assert ["differ in size at some shape" in why for why in permissions.refused.values()] == [True] * (not taken)
        smaller = changed(plan, "tensors", "y", bytes=32)
        assert named(smaller, decide_permissions(smaller, None, NOBODY))[1] == {}


def test_packed_elements_do_not_show_equal_shapes_unless_there_is_one_operand() -> None:
    """Three and four elements of 4 bits take two bytes each: a broadcast would pass for an equal shape. spec: T3.3"""
    nibbles = {"a": (2, 4), "y": (2, 4), "x": (2, 4)}
    assert judged(through("n Cast a -> y", sizes=nibbles)) == ({}, {"y": "a"}, [])
    assert judged(through("n Add a x -> y", sizes=nibbles)) == ({}, {}, [])
    assert judged(through("n Add a x -> y", sizes=dict.fromkeys("ayx", (2, 8)))) == ({}, {"y": "a"}, [])


def test_scratch_is_no_operand_of_the_step_that_makes_it() -> None:
    """Of another step's it is one, and so is what a step makes that is no scratch. spec: T3.3"""
    nibbles = {"a": (2, 4), "y": (2, 4), "s": (2, 4)}
    own, others = (
        through("n Cast a s -> y s", sizes=nibbles),
        through("m MatMul x -> s", "n Cast a s -> y", sizes=nibbles),
    )
    scratch = {"s": Role.SCRATCH}
    assert judged(replace(own, roles=own.roles | scratch)) == ({}, {"y": "a"}, [])
    assert judged(replace(others, roles=others.roles | scratch)) == judged(own) == ({}, {}, [])


def test_what_the_caller_writes_is_taken_only_where_the_user_donates_it() -> None:
    """spec: T3.5, V5.5"""
    model = stated(step("n Relu x -> y"))
    assert judged(model, of="x") == ({}, {}, [])
    assert judged(model, of="x", donated=frozenset({"other"})) == ({}, {}, [])
    assert judged(model, of="x", donated=frozenset({"x"})) == ({}, {"y": "x"}, [])


def test_a_view_of_what_the_caller_writes_is_taken_only_where_its_root_is_donated() -> None:
    """spec: T3.5"""
    model = stated(step("m Reshape x -> v"), step("w Flatten v -> w"), step("n Relu w -> y"))
    plan = plan_of(model, shares={"v": (VIEW, "x"), "w": (VIEW, "v"), "y": (IN_PLACE, "w")})
    views = {"v": ("x", 0), "w": ("v", 0)}
    assert named(plan, decide_permissions(plan, None, NOBODY)) == (views, {})
    assert named(plan, decide_permissions(plan, None, frozenset({"w"}))) == (views, {})
    assert named(plan, decide_permissions(plan, None, frozenset({"x"}))) == (views, {"y": "w"})


def test_an_operand_whose_bytes_another_operand_shows_is_not_taken() -> None:
    """spec: T3.7"""
    model = through("m Reshape a -> v", "n Add a v -> y")
    shares = {"v": (VIEW, "a"), "y": (IN_PLACE, "a")}
    plan = plan_of(model, shares=shares)
    assert named(plan, decide_permissions(plan, None, NOBODY)) == ({"v": ("a", 0)}, {})
    assert judged(through("n Add a a -> y")) == ({}, {"y": "a"}, [])


@pytest.mark.parametrize(("at", "taken"), [(0, False), (15, False), (16, True), (48, True)])
def test_an_operand_is_taken_beside_another_window_of_its_root(at: int, taken: bool) -> None:
    """`v` shows bytes 0 to 15 of `a` and `w` sixteen others; who has a byte of it in common keeps it. spec: T3.7"""
    sizes = dict.fromkeys("vwy", (16, 4))
    for order in ("v w", "w v"):
        model = through("m own::Part a -> v", "k own::Part a -> w", f"n own::Fuse {order} -> y", sizes=sizes)
        shares = {"v": (VIEW, "a"), "w": (VIEW, "a"), "y": (IN_PLACE, "v")}
        plan = plan_of(model, shares=shares, inside={"v": ("a", 0), "w": ("a", at)})
        assert named(plan, decide_permissions(plan, None, NOBODY))[1] == ({"y": "v"} if taken else {})
        back = plan_of(model, shares=shares, inside={"v": ("a", at), "w": ("a", 0)})
        assert named(back, decide_permissions(back, None, NOBODY))[1] == ({"y": "v"} if taken else {})


def test_windows_of_windows_are_compared_where_they_lie_in_the_root() -> None:
    """`u` is bytes 8 to 15 of `v`, which is bytes 16 to 31 of `a`; `w` is bytes 24 to 31 of `a`, or those before."""
    sizes = {"v": (16, 4), "u": (8, 2), "w": (8, 2), "y": (8, 2)}
    model = through(
        "m own::Part a -> v", "k own::Part v -> u", "l own::Part a -> w", "n own::Fuse u w -> y", sizes=sizes
    )
    shares = {"v": (VIEW, "a"), "u": (VIEW, "v"), "w": (VIEW, "a"), "y": (IN_PLACE, "u")}
    for at, taken in ((24, False), (16, True), (8, True), (17, False)):
        plan = plan_of(model, shares=shares, inside={"v": ("a", 16), "u": ("a", 24), "w": ("a", at)})
        assert named(plan, decide_permissions(plan, None, NOBODY))[1] == ({"y": "u"} if taken else {})


def test_each_result_of_a_gradient_of_a_sum_is_a_view() -> None:
    model = through("n tmmu.grad::AddGrad a -> z y")
    assert judged(model, VIEW) == ({"y": ("a", 0)}, {}, [])
    assert judged(through("n tmmu.grad::MulGrad a -> z y"), VIEW) == ({}, {}, [])


def in_a_loop(*steps: str, op: str = "Loop", formal: str = "loop1/body/f", **fields: object) -> ReferenceProgram:
    """A node that captures `a`, whose body runs the given steps."""
    return through(
        step(f"loop1 {op} x -> {formal}", part=NodePart.ENTER),
        *(step(s, body="loop1/body") for s in steps),
        step(f"loop1 {op} loop1/body/z -> out", part=NodePart.LEAVE),
        bodies={"loop1/body": ReferenceBody("loop1", "", op != "If")},
        **fields,
    )


def in_body(model: ReferenceProgram, word: Shares, of: str, donated: frozenset[str] = NOBODY) -> bool:
    """Whether `loop/body/z` may share the bytes of `of`."""
    plan = plan_of(model, shares={"loop1/body/z": (word, of)})
    row = plan.allocation.tensors.name.list().index("loop1/body/z")
    permissions = decide_permissions(plan, None, donated)
    return row in permissions.views or row in permissions.in_place


@pytest.mark.parametrize("op", ["Loop", "Scan", "If"])
@pytest.mark.parametrize("word", [VIEW, IN_PLACE])
def test_no_sharing_crosses_the_boundary_of_a_body(word: Shares, op: str) -> None:
    """spec: T8.6, T8.7"""
    assert in_body(in_a_loop("m MatMul x -> b", "n Identity b -> loop1/body/z", op=op), word, "b")
    for outside in ("loop1/body/f", "a", "x", "w"):
        model = in_a_loop(f"n Identity {outside} -> loop1/body/z", op=op, parameters="w")
        assert not in_body(model, word, outside, frozenset({"x", "w"}))


def test_a_nested_body_does_not_take_what_the_body_around_it_made() -> None:
    """spec: T8.6, T8.7"""
    inner = {"loop1/body": ReferenceBody("loop1", "", True), "in/body": ReferenceBody("in", "loop1/body", True)}
    model = through(
        step("loop1 Loop x -> f", part=NodePart.ENTER),
        step("b MatMul f -> b", body="loop1/body"),
        step("in Loop f -> g", part=NodePart.ENTER, body="loop1/body"),
        step("n Relu b -> y", body="in/body"),
        step("in Loop y -> h", part=NodePart.LEAVE, body="loop1/body"),
        step("loop1 Loop h -> out", part=NodePart.LEAVE),
        bodies=inner,
    )
    assert judged(model, of="b") == ({}, {}, [])
    [why] = decide_permissions(plan_of(model, shares={"y": (IN_PLACE, "b")}), None, NOBODY).refused.values()
    assert why.endswith("b is not made by an earlier step of the same body")


def test_a_bodys_own_initializer_is_shown_but_never_taken() -> None:
    """It is written once, and the body may run again. spec: T8.6, T8.7"""
    model = in_a_loop("n Identity loop1/body/w -> loop1/body/z", parameters="loop1/body/w")
    assert in_body(model, VIEW, "loop1/body/w")
    assert not in_body(model, IN_PLACE, "loop1/body/w", frozenset({"loop1/body/w"}))


@pytest.mark.parametrize("word", [VIEW, IN_PLACE])
@pytest.mark.parametrize("op", ["If", "my::Call"])
def test_enter_and_leave_share_nothing(word: Shares, op: str) -> None:
    """spec: T8.6"""
    donated, body = frozenset({"x"}), {"n/b": ReferenceBody("n", "", True)}
    model = through(
        step(f"n {op} x -> f", part=NodePart.ENTER), step("m MatMul f -> b", body="n/b"),
        step(f"n {op} b a -> c", part=NodePart.LEAVE), bodies=body,
    )  # fmt: skip
    for result, operand in (("f", "x"), ("c", "b"), ("c", "a")):
        plan = plan_of(model, shares={result: (word, operand)}, inside={result: (operand, 0)})
        assert named(plan, decide_permissions(plan, None, donated)) == ({}, {})


def test_a_formal_input_is_shared_by_nobody_not_even_outside_its_body() -> None:
    """spec: T8.6, T8.7"""
    model = in_a_loop("m MatMul f -> loop1/body/z", formal="f")
    model.steps.append(step("n Identity f -> y"))
    late = stated(*model.steps, bodies=model.bodies)
    assert judged(late, VIEW, "f") == judged(late, IN_PLACE, "f") == ({}, {}, [])


def test_an_operator_of_an_unknown_domain_is_believed_and_listed() -> None:
    """spec: V2.2, V5.3"""
    model = through("n my.domain::Fuse x a -> y")
    assert judged(model) == ({}, {"y": "a"}, ["my.domain::Fuse"])
    assert judged(model, VIEW, inside={"y": ("a", 0)}) == ({"y": ("a", 0)}, {}, ["my.domain::Fuse"])
    assert judged(through("n ai.onnx::Fuse x a -> y")) == ({}, {}, [])


def test_an_operator_is_listed_once_and_in_order_of_name() -> None:
    model = through("p b::P a -> p", "q a::Q p -> q", "r b::P q -> y")
    plan = plan_of(model, shares={"p": (IN_PLACE, "a"), "q": (IN_PLACE, "p"), "y": (IN_PLACE, "q")})
    permissions = decide_permissions(plan, None, NOBODY)
    assert (len(permissions.in_place), permissions.assumed) == (3, ["a::Q", "b::P"])


def test_a_believed_view_lies_where_the_plan_puts_it_if_that_is_in_its_base() -> None:
    """spec: V1.6"""
    model = through("n my::Window a -> y", sizes={"y": (16, 32)})
    assert judged(model, VIEW, inside={"y": ("a", 48)})[0] == {"y": ("a", 48)}
    assert judged(model, VIEW, inside={"y": ("a", 49)}) == ({}, {}, [])
    assert judged(model, VIEW, inside={"y": ("a", 0), "a": ("a", 4)}) == ({}, {}, [])
    assert judged(model, VIEW) == ({}, {}, [])


def test_a_model_that_does_not_permit_overrules_the_tables() -> None:
    """spec: V2.2"""
    model = through("n Identity a -> y")
    for word in (VIEW, IN_PLACE):
        assert judged(model, word, against=model) == ({}, {}, [])
    assert judged(model, against=replace(model, in_place={("y", "a")})) == ({}, {"y": "a"}, [])
    assert judged(model, VIEW, against=replace(model, views={"y": ("a", 0)})) == ({"y": ("a", 0)}, {}, [])
    assert judged(model, VIEW, against=replace(model, views={"y": ("x", 0)})) == ({}, {}, [])


def test_a_model_is_believed_beyond_the_tables_only_for_the_operators_that_it_declares() -> None:
    """spec: V2.2, V5.3"""
    model = through("n MatMul a -> y")
    claims = replace(model, in_place={("y", "a")}, views={"y": ("a", 0)})
    declared = replace(claims, assumed=["MatMul"])
    assert judged(model, against=claims) == judged(model, VIEW, against=claims) == ({}, {}, [])
    assert judged(model, against=declared) == ({}, {"y": "a"}, ["MatMul"])
    assert judged(model, VIEW, against=declared) == ({"y": ("a", 0)}, {}, ["MatMul"])
    assert judged(model, VIEW, against=replace(declared, views={})) == ({}, {}, [])


def test_the_operand_that_a_fused_convolution_adds_is_the_last_of_its_step() -> None:
    """A step does not list an absent bias; a bias that is there is not taken for the operand behind it. spec: T3.13"""
    made = "u Relu a -> w", "r Relu a -> b", "s Relu a -> z"
    for operands, of, granted in (("w b z", "z", True), ("w z", "z", True), ("w b z", "b", False), ("w z", "w", False)):
        model = through(*made, f"n com.microsoft::FusedConv a {operands} -> y")
        believed = replace(model, in_place={("y", of)})
        assert judged(model, of=of, against=believed)[1] == ({"y": of} if granted else {})


def test_a_model_may_declare_a_window_in_what_the_caller_writes() -> None:
    model = stated(step("n MatMul p -> y"), parameters="flat p", sizes={"p": (16, 32)})
    window = replace(model, views={"p": ("flat", 48)})
    plan = plan_of(model, shares={"p": (VIEW, "flat")}, inside={"p": ("flat", 48)})
    assert named(plan, decide_permissions(plan, window, NOBODY)) == ({"p": ("flat", 48)}, {})
    assert (
        named(plan, decide_permissions(plan, model, NOBODY))
        == named(plan, decide_permissions(plan, None, NOBODY))
        == ({}, {})
    )
    made = plan_of(model, shares={"p": (VIEW, "y")})
    assert named(made, decide_permissions(made, replace(model, views={"p": ("y", 0)}), NOBODY)) == ({}, {})


@pytest.mark.parametrize(
    ("model", "of", "changes", "why"),
    [
        (through("n Softmax a -> y"), "a", {}, "Softmax is not known to compute y from a element by element"),
        (through("b Relu a -> b", "n Relu b -> y"), "a", {}, "a is not an operand of the step that writes y"),
        (through("n Relu a -> y", sizes={"y": (32, 32)}), "a", {}, "y has 32 bytes, a 64"),
        (through("n Relu a -> y"), "a", {"dtypes": {"y": "int16"}}, "elements of int16 and float32 differ in width"),
        (stated(step("n Relu x -> y")), "x", {}, "the caller has not donated x (--donate x states that it has)"),
        (
            through("n own::Split a -> y", "m own::Fuse a y -> z"),
            "y",
            {},
            "y is not an operand of the step that writes y",
        ),
    ],
)
def test_a_result_in_place_that_does_not_count_has_a_reason(
    model: ReferenceProgram, of: str, changes: dict[str, Any], why: str
) -> None:
    """spec: T3.3, T3.5, V2.1"""
    plan = plan_of(model, shares={"y": (IN_PLACE, of)}, **changes)
    permissions = decide_permissions(plan, None, NOBODY)
    assert permissions.in_place == {}
    assert list(permissions.refused.values()) == [f"y cannot take the bytes of {of}: {why}"]
    right = plan_of(through("n Relu a -> y"), shares={"y": (IN_PLACE, "a")})
    assert decide_permissions(right, None, NOBODY).refused == {}


def test_an_operand_that_another_shows_is_refused_with_that_reason() -> None:
    """spec: T3.7"""
    model = through("m Reshape a -> v", "n Add a v -> y")
    found = decide_permissions(plan_of(model, shares={"v": (VIEW, "a"), "y": (IN_PLACE, "a")}), None, NOBODY)
    assert ["needed by another operand" in why for why in found.refused.values()] == [True]


def test_what_the_caller_writes_is_no_result_in_place() -> None:
    model = stated(step("n MatMul p -> y"), parameters="q p")
    plan = plan_of(model, shares={"p": (IN_PLACE, "q")})
    assert named(plan, decide_permissions(plan, None, frozenset({"q"}))) == ({}, {})


@pytest.mark.parametrize(
    ("lines", "views", "in_place"),
    [
        ("step s A c -> a\nstep t Relu a -> y\nstep u A y -> y changes y\n", {}, {"y": "a"}),
        ("step s A c -> a\nstep t Relu a -> y\n", {}, {"y": "a"}),
        ("begin n If c -> exclusive\nstep s A c -> a\nstep t Relu a -> y\narm\nstep u A c -> y\nend n ->\n", {}, {}),
        ("begin n If c -> exclusive\nstep s A c -> a\nstep t Reshape a -> v\narm\nstep u A c -> v\nend n ->\n", {}, {}),
        ("step s A c -> a\nstep t Reshape a -> v\n", {"v": ("a", 0)}, {}),
    ],
)
def test_a_claim_is_about_the_one_step_that_writes_whatever_changes_it_later(
    lines: str, views: dict[str, tuple[str, int]], in_place: dict[str, str]
) -> None:
    """spec: X4.3"""
    rows = "".join(f"tensor {row}\n" for row in ("c 8 m 0 input", "a 8 m 8", "y 8 m 8 inplace a", "v 8 m 8 view a 0")
                   if f" {row[0]}" in lines)  # fmt: skip
    plan = text.read(f"tmmu-plan-text 1\narena m 64\n{rows}{lines}".encode(), "p.plan.txt")
    assert isinstance(plan, Plan)
    assert named(plan, decide_permissions(plan, None, NOBODY)) == (views, in_place)
