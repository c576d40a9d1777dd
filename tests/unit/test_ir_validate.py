"""What is no graph that can be planned is refused, each for its own reason, naming the node or tensor.

spec: I1.3, I1.4, I1.5, I1.9, T2.5, T2.6, T8.6
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.small import small
from tmmu.core.dims.expressions import symbol
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import MAX_BODY_DEPTH, Body, Model, Role, Scratch, Tensor, View
from tmmu.ir.validate import validate

BODY = ("loop: x -> y", "loop/body*: i => o", "  relu: i a -> o", "relu2: x -> a")


def with_bodies(model: Model, *bodies: Body) -> Model:
    return replace(model, bodies=bodies)


def bodies_of(**changes: Any) -> Model:
    """A model of one body, with changes to that body."""
    model = small(*BODY)
    return with_bodies(model, model.bodies[0], replace(model.bodies[1], **changes))


def nested(depth: int) -> Model:
    """A model with bodies nested `depth` deep."""
    lines = []
    for level in range(depth):
        lines += [f"{'  ' * level}if{level}: x -> y{level}", f"{'  ' * level}if{level}/then: => y{level + 1}"]
    return small(*lines, f"{'  ' * depth}relu: x -> y{depth}", outputs="y0")


def like(**fields: object) -> Model:
    """A model of one node whose result has the given fields."""
    return small("relu: x -> y", like={"y": fields})


def renamed(name: str) -> Model:
    """A model of one tensor of that name."""
    model = small(outputs="x")
    return replace(model, tensors=(replace(model.tensors[0], name=name),))


def shown(size: int) -> Model:
    """A model of a tensor of 64 bytes that is a view of another number of bytes."""
    x, y = small("view: x -> y").tensors
    return replace(small("view: x -> y"), tensors=(x, replace(y, view=View(0, 0, size))))


M = symbol("m", 1, 64)


def within(model: Model) -> Model:
    """The model with the range of its dimension."""
    return replace(model, bindings=replace(model.bindings, ranges={"m": (1, 64)}))


def test_models_that_can_be_planned_are_accepted() -> None:
    validate(small(*BODY))
    validate(small(outputs="x"))
    validate(nested(MAX_BODY_DEPTH))
    validate(small("change: x -> !x", outputs="x"))
    validate(small("relu: x -> y", donated=["x", "w"], parameters="w"))
    validate(small("view: x -> y", views={"y": ("x", 32)}, sizes={"y": 32}, like={"y": {"alignment": 32}}))
    validate(within(small("relu: x -> y", like={"y": {"shape": (M,), "bytes": 64}})))
    validate(within(small("view: x -> y", views={"y": ("x", 0)}, like={"y": {"shape": (M,), "bytes": 64}})))
    validate(small("relu: x -> y", sizes={"x": 0, "y": 0}, nodes={"relu": {"scratch": (Scratch(0, 1),)}}))
    validate(small("relu: x -> y", like={"x": {"alias_group": "g"}, "y": {"alias_group": "g"}}))
    validate(small("loop: x -> y", "loop/body*: i => o", "  relu: i -> o", "  relu2: o -> p", views={"p": ("o", 0)}))


REFUSED: list[tuple[str, Model, str, str]] = [
    # Names.
    (
        "two tensors of one name",
        replace(small("relu: x -> y"), tensors=(small().tensors[0],) * 2),
        "INVALID_IR",
        "tensor 'x': the name is used twice",
    ),
    ("two nodes of one name", small("relu: x -> a", "relu: a -> y"), "INVALID_IR", "node 'relu'"),
    ("an empty name", renamed(""), "INVALID_IR", "tensor: a name"),
    ("a NUL", renamed("a\0b"), "INVALID_IR", "NUL"),
    ("a donated name of nobody", small("relu: x -> y", donated=["y"]), "INVALID_IR", "donated 'y'"),
    # Sizes.
    ("a negative dimension", like(shape=(-1,)), "INVALID_IR_SHAPES", r"tensor 'y': shape \[-1\] has a negative"),
    ("an unknown element type", like(dtype="float31", bytes=8), "INVALID_IR_SHAPES", "unknown dtype 'float31'"),
    (
        "a size beyond 64 bits",
        like(shape=(1 << 32, 1 << 32)),
        "ALLOCATION_OVERFLOW",
        "tensor 'y': 18446744073709551616",
    ),
    ("a size that is not the shape's", like(bytes=63), "INVALID_IR_SHAPES", "63 bytes stated, shape and dtype give 64"),
    ("an alignment of 3", like(alignment=3), "ALIGNMENT_VIOLATION", "tensor 'y': alignment 3"),
    ("an alignment of 0", like(alignment=0), "ALIGNMENT_VIOLATION", "alignment 0"),
    ("an alignment of 2**64", like(alignment=1 << 64), "ALIGNMENT_VIOLATION", "not a power of two"),
    ("a size below its maximum", within(like(shape=(M,), bytes=63)), "INVALID_IR_SHAPES", "63 bytes stated"),
    ("a size at the wrong end", within(like(shape=(65 - M,), bytes=1)), "INVALID_IR_SHAPES", "shape and dtype give 64"),
    ("a dimension below 0", within(like(shape=(M - 2,), bytes=62)), "INVALID_IR_SHAPES", "negative dimension"),
    ("a dimension without a range", like(shape=(M,)), "INVALID_IR_SHAPES", "'m' has no range from 1 to 64"),
    (
        "a window beyond its base at one shape",
        within(small("view: x -> y", views={"y": ("x", 0)}, like={"x": {"shape": (M,)}, "y": {"shape": (65 - M,)}})),
        "INVALID_IR",
        "its view reaches beyond 'x'",
    ),
    # Bodies.
    (
        "a main graph with an owner",
        with_bodies(small("relu: x -> y"), Body(0, "", (0,), (1,))),
        "INVALID_IR",
        "body 0: the main graph has an owner",
    ),
    (
        "a main graph that iterates",
        with_bodies(small("relu: x -> y"), Body(-1, "", (0,), (1,), iterates=True)),
        "INVALID_IR",
        "body 0: the main graph iterates",
    ),
    (
        "a body before the one that holds it",
        with_bodies(nested(2), *(nested(2).bodies[k] for k in (0, 2, 1))),
        "INVALID_IR",
        "'then' of node 'if1'",
    ),
    ("bodies nested too deeply", nested(MAX_BODY_DEPTH + 1), "INVALID_IR", "deeper than 64"),
    ("a body without a name", bodies_of(attribute=""), "INVALID_IR", "body '' of node 'loop': its attribute name"),
    ("a body's name with a slash", bodies_of(attribute="a/b"), "INVALID_IR", "its attribute name"),
    ("a body's name with a NUL", bodies_of(attribute="a\0b"), "INVALID_IR", "its attribute name"),
    (
        "two bodies of one name",
        small("if: x -> y", "if/then: => a", "  relu: x -> a", "if/then: => x"),
        "INVALID_IR",
        "node 'if': two bodies have the same attribute name",
    ),
    # Who writes.
    ("a formal input twice", bodies_of(inputs=(2, 2)), "INVALID_IR", "tensor 'i': it is an input of two bodies"),
    (
        "a formal input of two bodies",
        small("if: x -> y", "if/then: i => i", "if/else: i => i"),
        "INVALID_IR",
        "tensor 'i': it is an input of two bodies",
    ),
    ("a graph input that is formal too", small("loop: x -> y", "loop/body: x => x"), "INVALID_IR", "tensor 'x'"),
    ("a graph input twice", with_bodies(small("relu: x -> y"), Body(-1, "", (0, 0), (1,))), "INVALID_IR", "'x'"),
    (
        "a graph output twice",
        with_bodies(small("relu: x -> y"), Body(-1, "", (0,), (1, 1))),
        "INVALID_IR",
        "tensor 'y': it is a graph output twice",
    ),
    ("a result listed twice", small("relu: x -> y y"), "INVALID_IR", "node 'relu': it writes one tensor twice"),
    ("a result of two nodes", small("relu: x -> y", "relu2: x -> y"), "INVALID_IR", "node 'relu2': it writes 'y'"),
    ("a result that is a graph input", small("relu: x -> x"), "INVALID_IR", "it writes 'x'"),
    ("a result that is a parameter", small("relu: x -> w", parameters="w", outputs="x"), "INVALID_IR", "'w'"),
    (
        "a result that is a formal input",
        small("loop: x -> y", "loop/body: i => i", "  relu: x -> i"),
        "INVALID_IR",
        "it writes 'i', which is written already",
    ),
    ("a mutation that is not read", small("change: -> !x", outputs="x"), "INVALID_IR", "node 'change': it mutates"),
    (
        "a mutation that is not written",
        replace(small("relu: x -> y"), nodes=(replace(small("relu: x -> y").nodes[0], mutates=(0,)),)),
        "INVALID_IR",
        "it mutates",
    ),
    ("a tensor that nobody writes", small("add: x a -> y"), "INVALID_IR", "tensor 'a': nothing writes it"),
    (
        "an input that the caller does not write",
        small("relu: x -> y", like={"x": {"role": Role.ACTIVATION}}),
        "INVALID_IR",
        "tensor 'x': a graph input",
    ),
    (
        "a formal input that the caller writes",
        small(*BODY, like={"i": {"role": Role.PARAMETER}}),
        "INVALID_IR",
        "tensor 'i': a formal input that the caller writes",
    ),
    (
        "a mutation by a node with bodies",
        small("loop: x -> !x", "loop/body: i => i", outputs="x"),
        "INVALID_IR",
        "node 'loop': it has bodies and changes a tensor",
    ),
    # Who sees what.
    ("a read into a body", small(*BODY[:3], "relu2: o -> a"), "INVALID_IR", "node 'relu2': it reads 'o'"),
    (
        "a body that returns another body's value",
        small("if: x -> y", "if/then: => a", "  relu: x -> a", "if/else: => a"),
        "INVALID_IR",
        "body 2: it returns 'a'",
    ),
    ("a graph output from inside a body", small(*BODY, outputs="y o"), "INVALID_IR", "body 0: it returns 'o'"),
    # Sharing.
    ("a view beyond its base", small("view: x -> y", views={"y": ("x", 1)}), "INVALID_IR", "reaches beyond 'x'"),
    ("a view of another size than its tensor", shown(16), "INVALID_IR", "reaches beyond"),
    (
        "a view at an odd byte",
        small("view: x -> y", views={"y": ("x", 2)}, sizes={"y": 32}, like={"y": {"alignment": 4}}),
        "ALIGNMENT_VIOLATION",
        "tensor 'y': byte 2",
    ),
    (
        "a view of what is not read",
        small("view: x -> y", "relu: x -> a", views={"y": ("a", 0)}),
        "INVALID_IR",
        "does not read its base 'a'",
    ),
    ("a view that the caller makes", small("relu: x -> y", views={"x": ("y", 0)}), "INVALID_IR", "its base 'y'"),
    (
        "a view of a captured value",
        small("if: x -> y", "if/then: => v", "  view: x -> v", views={"v": ("x", 0)}),
        "INVALID_IR",
        "a view of 'x' across a body's boundary",
    ),
    ("a view of a formal input", small(*BODY, views={"o": ("i", 0)}), "INVALID_IR", "across a body's boundary"),
    (
        "a view in an alias group",
        small("view: x -> y", views={"y": ("x", 0)}, like={"y": {"alias_group": "g"}}),
        "INVALID_IR",
        "both a view",
    ),
    (
        "an alias group across a body",
        small(*BODY, like={"o": {"alias_group": "g"}, "a": {"alias_group": "g"}}),
        "INVALID_IR",
        "alias group 'g': it crosses",
    ),
    (
        "an alias group with a formal input",
        small(*BODY, like={"i": {"alias_group": "g"}}),
        "INVALID_IR",
        "alias group 'g': it crosses",
    ),
    (
        "a hint for what is not written",
        small("relu: x -> y", nodes={"relu": {"in_place": ((0, 0),)}}),
        "INVALID_IR",
        "node 'relu': an in-place hint",
    ),
    (
        "a hint for what is not read",
        small("relu: x -> y", nodes={"relu": {"in_place": ((1, 1),)}}),
        "INVALID_IR",
        "an in-place hint",
    ),
    (
        "a scratch aligned to 3",
        small("relu: x -> y", nodes={"relu": {"scratch": (Scratch(8, 3),)}}),
        "INVALID_IR",
        "node 'relu': a scratch request",
    ),
    (
        "a scratch of no size",
        small("relu: x -> y", nodes={"relu": {"scratch": (Scratch(-1, 1),)}}),
        "INVALID_IR",
        "a scratch request",
    ),
    (
        "a scratch beyond 64 bits",
        small("relu: x -> y", nodes={"relu": {"scratch": (Scratch(1 << 64, 1),)}}),
        "INVALID_IR",
        "a scratch request",
    ),
    (
        "a tensor that must not alias itself",
        small("relu: x -> y", must_not_alias=[("x", "x")]),
        "INVALID_IR",
        "must_not_alias: a tensor",
    ),
]


@pytest.mark.parametrize(("model", "code", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_cannot_be_planned_is_refused(model: Model, code: str, message: str) -> None:
    with pytest.raises(TmmuError, match=message) as refused:
        validate(model)
    assert refused.value.code_id == code
    assert refused.value.place
    assert refused.value.fix
    assert refused.value.operator == "UML_OS.Model.AnalyzeLiveness_v1"


def test_the_largest_size_and_alignment_are_accepted() -> None:
    """spec: A1.3"""
    largest = Tensor("x", ((1 << 64) - 1,), "uint8", Role.INPUT, (1 << 64) - 1, 1 << 63)
    validate(Model("large", (largest,), (), (Body(-1, "", (0,), (0,)),)))
