"""A plan that runs the model differs in nothing; every single change is named, with what is stated and what is so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from proofs.definition.model import compare_tensors
from proofs.definition.model.compare import differences
from proofs.definition.model.difference import WHAT, difference
from proofs.definition.violations import Violation
from proofs.readers.models.ir import read_ir
from proofs.readers.models.reference import ReferenceBody, ReferenceProgram
from tests.support.reader_plans import plan_of, stated, step
from tests.support.text_models import text_model
from tmmu.core.columns import NONE, Names, build_column
from tmmu.core.dims.expressions import Dim, symbol
from tmmu.core.vocabulary import Bindings, NodePart, Role, Shares
from tmmu.examples.broken.editing import changed
from tmmu.planner import plan_memory
from tmmu.plans.columns import IS_INPUT, IS_OUTPUT, IS_RETURNED, IS_SAVED, ROLES
from tmmu.plans.sections import Plan, amend_plan

NOBODY: frozenset[str] = frozenset()


def branches() -> ReferenceProgram:
    """A skip connection around an If of two branches, the first of which has two steps."""
    model = stated(
        step("first MatMul x w -> a"),
        step("pick If x -> f", part=NodePart.ENTER),
        step("pick/then_branch/m Relu a -> pick/then_branch/b", body="pick/then_branch"),
        step("pick/then_branch/n Relu pick/then_branch/b -> pick/then_branch/c", body="pick/then_branch"),
        step("pick/else_branch/m Relu a -> pick/else_branch/b", body="pick/else_branch"),
        step("pick If pick/then_branch/c pick/else_branch/b -> d", part=NodePart.LEAVE),
        step("other Relu a -> e"),
        step("last Add d e -> y"),
        parameters="w",
        bodies={
            "pick/then_branch": ReferenceBody("pick", "", False),
            "pick/else_branch": ReferenceBody("pick", "", False),
        },
    )
    return replace(model, saved=frozenset({"a"}), must_not_alias=frozenset({frozenset({"a", "e"})}))


def kinds(plan: Plan, model: ReferenceProgram, donated: frozenset[str] = NOBODY) -> list[str]:
    found = list(differences(plan, model, donated))
    assert all(difference.field in WHAT for difference in found)
    assert all(difference.stated != difference.recomputed for difference in found)
    return [difference.field for difference in found]


def in_order(plan: Plan, order: Sequence[int]) -> Plan:
    """The same steps in another order: `order[k]` is the old number of the k-th."""
    s = plan.allocation.steps
    new = {old: at for at, old in enumerate(order)} | {NONE: NONE}
    lists = {}
    for which in s.LISTS:
        listed = s.listed(which)
        chosen = [listed[old] for old in order]
        bounds = [sum(map(len, chosen[:k])) for k in range(len(chosen) + 1)]
        lists[f"{which}_at"] = build_column(bounds, s.reads_at.dtype.type)
        lists[which] = build_column([row for rows in chosen for row in rows], s.reads.dtype.type)
    rows = {name: build_column([getattr(s, name).tolist()[old] for old in order], getattr(s, name).dtype.type)
            for name in ("op", "part", "body")}  # fmt: skip
    steps = replace(s, node=Names.of([s.node[old] for old in order]), **rows, **lists)
    writer = build_column(
        [new.get(old, 0) for old in plan.allocation.tensors.writer.tolist()], plan.allocation.tensors.writer.dtype.type
    )
    enter, leave = (
        build_column([new.get(old, 0) for old in old_steps.tolist()], writer.dtype.type)
        for old_steps in (plan.allocation.bodies.enter, plan.allocation.bodies.leave)
    )
    return amend_plan(
        plan,
        steps=steps,
        tensors=replace(plan.allocation.tensors, writer=writer),
        bodies=replace(plan.allocation.bodies, enter=enter, leave=leave),
    )


def test_a_plan_of_the_model_differs_in_nothing() -> None:
    """spec: V3.1, V3.2"""
    assert kinds(plan_of(branches()), branches()) == []
    assert kinds(plan_of(ReferenceProgram()), ReferenceProgram()) == []


@pytest.mark.parametrize("order", [(0, 6, 1, 2, 3, 4, 5, 7), (0, 1, 2, 3, 4, 5, 6, 7)])
def test_another_order_of_independent_nodes_is_no_difference(order: tuple[int, ...]) -> None:
    """spec: V3.1"""
    assert kinds(in_order(plan_of(branches()), order), branches()) == []


@pytest.mark.parametrize(
    ("order", "what", "node"),
    [
        ((0, 1, 2, 3, 4, 5, 7, 6), "order", "last"),
        ((6, 0, 1, 2, 3, 4, 5, 7), "order", "other"),
        ((0, 1, 3, 2, 4, 5, 6, 7), "order", "pick/then_branch/n"),
        ((0, 1, 2, 6, 3, 4, 5, 7), "nesting", "other"),
        ((0, 2, 1, 3, 4, 5, 6, 7), "nesting", "pick/then_branch/m"),
        ((0, 1, 2, 4, 3, 5, 6, 7), "nesting", "pick/then_branch/n"),
        ((0, 1, 4, 2, 3, 5, 6, 7), "nesting", "pick/then_branch/m"),
        ((0, 5, 2, 3, 4, 1, 6, 7), "nesting", "pick"),
    ],
)
def test_an_order_that_the_model_forbids_is_named(order: tuple[int, ...], what: str, node: str) -> None:
    """Reads before writes, nodes in another's body, steps before their enter, bodies mixed. spec: V3.1, T8.10"""
    found = list(differences(in_order(plan_of(branches()), order), branches(), NOBODY))
    assert (what, node) in [(difference.field, difference.node) for difference in found]
    first = next(difference for difference in found if difference.field == what)
    assert first.step is not None


def test_a_step_left_out_is_named_with_all_that_comes_of_it() -> None:
    """spec: V3.1, V3.3"""
    plan = in_order(plan_of(branches()), (0, 1, 2, 3, 4, 5, 7))
    found = list(differences(plan, branches(), NOBODY))
    assert found[0] == difference("missing-step", "other", (), None, "no such step", "whole of Relu")
    # The tensor that it wrote is now said to be another step's.
    assert [difference.field for difference in found[1:]] == ["writer"]


def test_a_missing_leave_is_named_and_the_bodies_do_not_end() -> None:
    plan = in_order(plan_of(branches()), (0, 1, 2, 3, 4, 6, 7))
    assert kinds(plan, branches())[:2] == ["missing-step", "nesting"]


def test_a_step_too_many_is_named() -> None:
    model = branches()
    more = replace(model, steps=[*model.steps, step("more Relu y -> z")], sizes=model.sizes | {"z": (64, "float32")},
                   roles=model.roles | {"z": Role.ACTIVATION}, alignments=model.alignments | {"z": 4})  # fmt: skip
    found = list(differences(plan_of(more), model, NOBODY))
    assert found[0] == difference("extra-step", "more", (), 8, "whole of Relu", "no such step")
    assert found[1] == difference("extra-tensor", "more", ("z",), 8, "64 bytes", "no such tensor")
    assert len(found) == 2


def test_a_step_twice_is_named() -> None:
    found = list(differences(in_order(plan_of(branches()), (0, 1, 2, 3, 4, 5, 6, 6, 7)), branches(), NOBODY))
    assert (found[0].field, found[0].node, found[0].step, found[0].stated) == (
        "repeated-step",
        "other",
        7,
        "steps 6 and 7",
    )


def test_a_node_entered_twice_is_not_out_of_place_as_well() -> None:
    found = kinds(in_order(plan_of(branches()), (0, 1, 1, 2, 3, 4, 5, 6, 7)), branches())
    assert "repeated-step" in found
    assert "nesting" not in found


def test_a_step_that_is_repeated_is_not_looked_at_again() -> None:
    """Nor is what it does the second time."""
    twice = changed(in_order(plan_of(branches()), (0, 1, 2, 3, 4, 5, 6, 6, 7)), "steps", 7, op=0)
    found = [d for d in differences(twice, branches(), NOBODY) if d.node == "other" and d.field != "writer"]
    assert [d.field for d in found] == ["repeated-step"]


def test_a_body_stands_in_the_body_of_its_node() -> None:
    """After the inner node's leave the outer body goes on. spec: T8.10"""
    model = stated(
        step("out Loop x -> f", part=NodePart.ENTER),
        step("before Relu f -> a", body="out/b"),
        step("in Loop a -> g", part=NodePart.ENTER, body="out/b"),
        step("m Relu g -> c", body="in/b"),
        step("in Loop c -> h", part=NodePart.LEAVE, body="out/b"),
        step("behind Relu h -> d", body="out/b"),
        step("out Loop d -> y", part=NodePart.LEAVE),
        bodies={"out/b": ReferenceBody("out", "", True), "in/b": ReferenceBody("in", "out/b", True)},
    )
    assert kinds(plan_of(model), model) == []
    early = in_order(plan_of(model), (0, 1, 2, 3, 5, 4, 6))
    assert [d.node for d in differences(early, model, NOBODY) if d.field == "nesting"] == ["behind"]


def test_scratch_is_read_at_the_step_that_writes_it() -> None:
    model = stated(step("n MatMul x n.scratch0 -> y n.scratch0"))
    assert kinds(plan_of(model), model) == []


def test_a_node_run_whole_that_has_bodies_is_named() -> None:
    plan = changed(plan_of(branches()), "steps", 1, part=0)
    assert kinds(plan, branches())[:2] == ["missing-step", "extra-step"]


def test_another_operator_or_body_is_named() -> None:
    model = branches()
    plan = plan_of(model)
    found = list(differences(changed(plan, "steps", 6, op=0), model, NOBODY))
    assert found == [difference("operator", "other", (), 6, "MatMul", "Relu")]
    assert kinds(changed(plan, "steps", 2, body=2), model) == ["body"]
    assert kinds(amend_plan(plan, ops=tuple(("ai.onnx", op) for _, op in plan.allocation.ops)), model) == []
    assert "operator" in kinds(amend_plan(plan, ops=tuple(("other", op) for _, op in plan.allocation.ops)), model)


def test_other_accesses_are_named_with_the_tensors_that_differ() -> None:
    """spec: V3.1"""
    model = branches()

    def found(line: str) -> list[Violation]:
        steps = [*model.steps[:-1], step(line)]
        return list(differences(plan_of(replace(model, steps=steps)), model, NOBODY))

    assert found("last Add e d -> y") == [difference("reads", "last", ("e", "d"), 7, "e, d", "d, e")]
    assert found("last Add d -> y") == [difference("reads", "last", ("e",), 7, "d", "d, e")]
    assert found("last Add d d e -> y") == [difference("reads", "last", ("d", "e"), 7, "d, d, e", "d, e")]
    assert next((d.field, d.tensors) for d in found("last Add d e -> y a")) == ("writes", ("a",))
    assert [d.field for d in found("last Add d e -> y a changes a")] == ["writes", "mutates"]


def test_what_a_step_mutates_is_a_set() -> None:
    model = stated(step("n Both x p q -> y p q changes p q"), parameters="p q")
    turned = stated(step("n Both x p q -> y p q changes q p"), parameters="p q")
    assert kinds(plan_of(turned), model) == []


def test_accesses_to_what_is_overwritten_keep_their_order() -> None:
    """A reader before and one after the update, and two updates of one state. spec: I1.6"""
    model = stated(
        step("before Relu x p -> a"), step("update Set x p -> p changes p"),
        step("after Relu x p -> b"), step("again Set x p -> p changes p"),
        step("last Add a b -> y"), parameters="p",
    )  # fmt: skip
    plan = plan_of(model)
    assert kinds(plan, model) == []
    found = list(differences(in_order(plan, (1, 0, 2, 3, 4)), model, NOBODY))
    assert [(d.field, d.node, d.tensors) for d in found] == [("order", "before", ("p",)), ("order", "update", ("p",))][
        :1
    ]
    assert (found[0].stated, found[0].recomputed) == ("p as update leaves it", "p as the caller leaves it")
    assert kinds(in_order(plan, (0, 3, 1, 2, 4)), model) == ["order", "order"]
    assert kinds(in_order(plan, (0, 1, 3, 2, 4)), model) == ["order"]
    assert "missing-step" in kinds(in_order(plan, (0, 1, 2, 4)), model)


def test_what_is_overwritten_is_found_through_views_of_views_as_the_model_says() -> None:
    """A view is no write: it may come before or after another access. `u` is a view that no step makes. spec: V3.4"""
    model = stated(
        step("view1 Reshape p -> v"), step("again Reshape v -> w"), step("before Relu w -> a"),
        step("other Relu u -> b"), step("update Set w x -> w changes w"), step("after Relu p -> c"),
        step("last Sum a b c -> y"), parameters="p u",
    )  # fmt: skip
    model = replace(model, views={"v": ("p", 0), "w": ("v", 0), "u": ("w", 0)})
    plan = plan_of(model)
    assert kinds(plan, model) == kinds(in_order(plan, (3, 0, 1, 2, 4, 5, 6)), model) == []
    for order, node, name, said, says in (
        ((0, 1, 3, 4, 2, 5, 6), "before", "w", "update", "the caller"),
        ((0, 1, 2, 4, 3, 5, 6), "other", "u", "update", "the caller"),
        ((0, 1, 2, 3, 5, 4, 6), "after", "p", "the caller", "update"),
    ):
        [found] = differences(in_order(plan, order), model, NOBODY)
        assert (found.field, found.node, found.tensors) == ("order", node, (name,))
        assert (found.stated, found.recomputed) == (f"{name} as {said} leaves it", f"{name} as {says} leaves it")
        assert found.step == order.index([s.node for s in model.steps].index(node))
    circle = replace(model, views={"v": ("w", 0), "w": ("v", 0)})
    assert kinds(plan_of(circle), circle) == []


def test_a_tensor_is_not_overwritten_before_it_is_written() -> None:
    model = stated(step("make MatMul x -> a"), step("update Set a -> a changes a"), step("last Relu a -> y"))
    plan = in_order(plan_of(model), (1, 0, 2))
    assert [d.node for d in differences(plan, model, NOBODY) if d.field == "order"][:1] == ["update"]


def test_a_tensor_left_out_or_made_up_is_named() -> None:
    """spec: V3.2"""
    model = branches()
    more = replace(model, sizes=model.sizes | {"z": (64, "float32")}, roles=model.roles | {"z": Role.PARAMETER},
                   alignments=model.alignments | {"z": 4})  # fmt: skip
    assert list(differences(plan_of(model), more, NOBODY)) == [
        difference("missing-tensor", "", ("z",), None, "no such tensor", "64 bytes")
    ]
    assert list(differences(plan_of(more), model, NOBODY)) == [
        difference("extra-tensor", "", ("z",), None, "64 bytes", "no such tensor")
    ]
    renamed = amend_plan(plan_of(model), tensors=replace(plan_of(model).allocation.tensors, name=Names.of(
        ["E" if name == "e" else name for name in plan_of(model).allocation.tensors.name])))  # fmt: skip
    missing = [d for d in differences(renamed, model, NOBODY) if d.field == "missing-tensor"]
    assert [(d.node, d.tensors) for d in missing] == [("other", ("e",))]


@pytest.mark.parametrize(
    ("tensor", "entries", "expected"),
    [
        ("e", {"bytes": 60}, ("bytes", "other", 6, "60", "64")),
        ("e", {"dtype": 1}, ("type", "other", 6, "float16", "float32")),
        ("e", {"role": ROLES.index(Role.GRADIENT)}, ("role", "other", 6, "gradient", "activation")),
        ("w", {"role": ROLES.index(Role.ACTIVATION)}, ("role", "", None, "activation", "parameter")),
        ("e", {"flags": IS_INPUT}, ("input", "other", 6, "True", "False")),
        ("x", {"flags": 0}, ("input", "", None, "False", "True")),
        ("y", {"flags": IS_RETURNED}, ("output", "last", 7, "False", "True")),
        ("e", {"flags": IS_OUTPUT}, ("output", "other", 6, "True", "False")),
        ("a", {"flags": 0}, ("saved", "first", 0, "False", "True")),
        ("e", {"flags": IS_SAVED}, ("saved", "other", 6, "True", "False")),
        ("e", {"writer": 7}, ("writer", "last", 7, "last (whole)", "other (whole)")),
        ("d", {"writer": 1}, ("writer", "pick", 1, "pick (enter)", "pick (leave)")),
        ("e", {"writer": NONE}, ("writer", "", None, "the caller", "other (whole)")),
        ("w", {"writer": 0}, ("writer", "first", 0, "first (whole)", "the caller")),
        ("e", {"alignment": 2}, ("alignment", "other", 6, "2", "a multiple of 4")),
        ("e", {"alignment": 6}, ("alignment", "other", 6, "6", "a multiple of 4")),
        ("e", {"alignment": 0}, ("alignment", "other", 6, "0", "a multiple of 4")),
    ],
)
def test_a_tensor_that_is_not_the_models_is_named(
    tensor: str, entries: dict[str, int], expected: tuple[str, str, int | None, str, str]
) -> None:
    """spec: V3.2"""
    plan = plan_of(branches())
    plan = changed(amend_plan(plan, dtypes=(*plan.allocation.dtypes, "float16")), "tensors", tensor, **entries)
    what, node, at, said, says = expected
    assert list(differences(plan, branches(), NOBODY)) == [difference(what, node, (tensor,), at, said, says)]


def test_sizes_over_an_envelope_are_told_at_a_shape_at_which_they_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one is found, and where both have the same dimensions."""
    m = symbol("m", 1, 64)
    model = text_model("dim m 1 64", "tensor x u8 m", "node relu Relu x -> y")
    plan, right = plan_memory(model).plan, read_ir(model)

    def found(name: str, size: Dim, **bindings: Any) -> list[tuple[str, str]]:
        sizes = right.sizes | {name: (size, "uint8")}
        wrong = replace(right, sizes=sizes, bindings=replace(right.bindings, **bindings))
        return [(d.stated, d.recomputed) for d in differences(plan, wrong, NOBODY)]

    assert kinds(plan, right) == []
    assert found("x", m + 1) == [("m (1 at m=1)", "m + 1 (2 at m=1)")]
    assert found("x", 64) == [("m (1 at m=1)", "64 (64 at m=1)")]
    assert found("y", m) == [("64 (64 at m=1)", "m (1 at m=1)")]
    assert found("y", 63) == [("64", "63")]
    n, ranges = symbol("n", 1, 64), {"n": (1, 64)}
    assert found("x", n, ranges=ranges) == [
        ("m=(1, 64)", "m=nothing"), ("n=nothing", "n=(1, 64)"), ("m of the plan's dimensions", "n of the model's"),
    ]  # fmt: skip
    monkeypatch.setattr(compare_tensors, "find_shape_apart", lambda *_: None)
    assert found("x", m + 1) == [("m", "m + 1")]


def test_a_stricter_alignment_and_a_parameter_marked_as_input_are_no_difference() -> None:
    plan = changed(plan_of(branches()), "tensors", "e", alignment=128)
    assert kinds(changed(plan, "tensors", "w", flags=IS_INPUT), branches()) == []


def test_a_view_is_the_models_or_named() -> None:
    """spec: V3.2"""
    model = replace(branches(), views={"e": ("a", 0)})
    assert kinds(plan_of(model, shares={"e": (Shares.VIEW, "a")}), model) == []
    assert kinds(plan_of(model), model) == []
    found = list(differences(plan_of(model, shares={"e": (Shares.VIEW, "x")}), model, NOBODY))
    assert found == [difference("view", "other", ("e",), 6, "a view of x", "a view of a")]
    caller = plan_of(model, shares={"w": (Shares.VIEW, "x")})
    assert list(differences(caller, model, NOBODY)) == [difference("view", "", ("w",), None, "a view of x", "no view")]


def test_an_alias_is_in_the_models_group_or_named() -> None:
    """spec: V1.15"""
    model = replace(branches(), alias_groups={"e": "g", "d": "g", "a": "h"})
    assert kinds(plan_of(model, shares={"e": (Shares.ALIAS, "d")}), model) == []
    for of in ("a", "x"):
        found = list(differences(plan_of(model, shares={"e": (Shares.ALIAS, of)}), model, NOBODY))
        assert found == [difference("alias", "other", ("e",), 6, f"an alias of {of}", f"no alias of {of}")]
    assert kinds(plan_of(model, shares={"w": (Shares.ALIAS, "x")}), model) == ["alias"]


@pytest.mark.parametrize(
    ("entries", "what"),
    [({"enter": 0}, "body-steps"), ({"leave": 4}, "body-steps"), ({"iterates": 1}, "body-iterates"),
     ({"parent": 2}, "body-parent"), ({"parent": NONE}, "body-parent")],
)  # fmt: skip
def test_a_body_that_is_not_the_models_is_named(entries: dict[str, int], what: str) -> None:
    """spec: V3.1"""
    assert kinds(changed(plan_of(branches()), "bodies", 1, **entries), branches()) == [what]


def test_a_body_at_other_steps_is_shown_at_the_enter_that_is_stated() -> None:
    [found] = differences(changed(plan_of(branches()), "bodies", 1, enter=0, leave=4), branches(), NOBODY)
    assert found == difference(
        "body-steps", "pick", (), 0, "pick/then_branch at (0, 4)", "pick/then_branch at (1, 5)"
    )  # fmt: skip


def test_a_body_missing_extra_or_twice_is_named() -> None:
    model = branches()
    plan = plan_of(model)

    def with_names(*names: str) -> Plan:
        return amend_plan(plan, bodies=replace(plan.allocation.bodies, name=Names.of(["", *names])))

    assert "missing-body" in kinds(with_names("pick/then_branch", "pick/else"), model)
    assert "extra-body" in kinds(with_names("pick/then_branch", "pick/else"), model)
    assert "extra-body" in kinds(with_names("pick/then_branch", "pick/then_branch"), model)


def test_what_is_unproduced_is_the_models() -> None:
    """spec: V3.2, T9.1"""
    model = replace(branches(), unproduced=frozenset({"mask"}))
    assert kinds(plan_of(model), model) == []
    plan = amend_plan(plan_of(model), unproduced=("other",))
    assert [(d.field, d.tensors, d.stated) for d in differences(plan, model, NOBODY)] == [
        ("unproduced", ("mask",), "nothing of the kind"), ("unproduced", ("other",), "unproduced"),
    ]  # fmt: skip


def test_must_not_alias_is_the_models() -> None:
    model = branches()
    assert list(differences(amend_plan(plan_of(model), must_not_alias=()), model, NOBODY)) == [
        difference("must-not-alias", "", ("a", "e"), None, "nothing of the kind", "must not alias")
    ]
    more = amend_plan(plan_of(model), must_not_alias=(*plan_of(model).allocation.must_not_alias, (0, 1)))
    assert [(d.field, d.stated) for d in differences(more, model, NOBODY)] == [("must-not-alias", "must not alias")]
    first, second = plan_of(model).allocation.must_not_alias[0]
    assert kinds(amend_plan(plan_of(model), must_not_alias=((second, first),)), model) == []


@pytest.mark.parametrize(
    ("bindings", "said", "says"),
    [
        (Bindings(dims={"batch": 2}), "batch=2", "batch=1"),
        (Bindings(), "batch=nothing", "batch=1"),
        (Bindings(dims={"batch": 1}, values={"rate": "8"}), "rate=8", "rate=nothing"),
        (Bindings(dims={"batch": 1}, shapes={"x": (1, 2)}), "x=(1, 2)", "x=nothing"),
        (Bindings(dims={"batch": 1}, defaults={"on": "true"}), "on=true", "on=nothing"),
    ],
)
def test_bindings_are_the_models(bindings: Bindings, said: str, says: str) -> None:
    model = replace(branches(), bindings=Bindings(dims={"batch": 1}))
    plan = amend_plan(plan_of(model), bindings=bindings)
    assert list(differences(plan, model, NOBODY)) == [difference("binding", "", (), None, said, says)]


def test_without_provenance_bindings_and_digests_are_not_compared_and_all_else_is() -> None:
    """spec: P2.5"""
    model = replace(branches(), bindings=Bindings(dims={"batch": 1}), source_digest=bytes(32))
    assert kinds(plan_of(branches()), model) == ["binding", "source-digest"]
    assert kinds(replace(plan_of(branches()), provenance=None), model) == []
    alone = replace(plan_of(branches()), provenance=None)
    assert kinds(alone, replace(model, must_not_alias=frozenset(), unproduced=frozenset("a"))) == [
        "unproduced",
        "must-not-alias",
    ]


def test_trusted_shapes_are_the_users_word_and_no_difference() -> None:
    plan = amend_plan(plan_of(branches()), bindings=Bindings(trust_shapes=True))
    assert kinds(plan, branches()) == []


def test_only_what_the_caller_writes_is_donated() -> None:
    model = branches()
    assert kinds(plan_of(model), model, frozenset({"x", "w"})) == []
    for name in ("a", "nothing of this name"):
        assert kinds(plan_of(model), model, frozenset({name})) == ["donated"]
        assert kinds(amend_plan(plan_of(model), bindings=Bindings(donated=(name,))), model) == ["donated"]


def test_the_source_is_the_models() -> None:
    """spec: R2.5"""
    model = replace(branches(), source_digest=b"m" * 32)
    assert kinds(plan_of(model), model) == []
    assert kinds(amend_plan(plan_of(model), source_digest=b"p" * 32), model) == ["source-digest"]
    assert kinds(amend_plan(plan_of(model), source_digest=None), model) == ["source-digest"]
    unnamed = replace(model, source_digest=None)
    assert kinds(plan_of(model), unnamed) == ["source-digest"]
    assert kinds(plan_of(unnamed), unnamed) == []
