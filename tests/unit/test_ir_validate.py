"""What is no graph that can be planned is refused, each for its own reason, naming the node or tensor.

spec: I1.3, I1.4, I1.5, I1.9, I1.12, T2.5, T2.6, T8.6
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.text_models import text_model
from tmmu.core.dims.expressions import symbol
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import MAX_BODY_DEPTH, Body, Model, Role, Scratch, Tensor, View
from tmmu.ir.validate import validate

BODY = (
    "begin loop1 Loop x -> y", "arm body i -> o loop", "  node relu Relu i a -> o", "end loop1",
    "node relu2 Relu x -> a",
)  # fmt: skip


def with_bodies(model: Model, *bodies: Body) -> Model:
    return replace(model, bodies=bodies)


def bodies_of(**changes: Any) -> Model:
    """A model of one body, with changes to that body."""
    model = text_model(*BODY)
    return with_bodies(model, model.bodies[0], replace(model.bodies[1], **changes))


def nested(depth: int) -> Model:
    """A model with bodies nested `depth` deep."""
    lines = []
    for level in range(depth):
        lines += [f"begin if{level} If x -> y{level}", f"arm then -> y{level + 1}"]
    ends = [f"end if{level}" for level in reversed(range(depth))]
    return text_model(*lines, f"node relu Relu x -> y{depth}", *ends, outputs="y0")


def like(**fields: object) -> Model:
    """A model of one node whose result has the given fields, and which has a dimension."""
    return of_fields(text_model("dim m 1 64", "node relu Relu x -> y"), y=fields)


def of_fields(model: Model, **fields: dict[str, Any]) -> Model:
    """The model with other fields of the tensors, or of the nodes, that have these names."""
    tensors, nodes = (
        tuple(replace(row, **fields.get(row.name, {})) for row in rows) for rows in (model.tensors, model.nodes)
    )
    return replace(model, tensors=tensors, nodes=nodes)


def renamed(name: str) -> Model:
    """A model of one tensor of that name."""
    model = text_model(outputs="x")
    return replace(model, tensors=(replace(model.tensors[0], name=name),))


def shown(size: int) -> Model:
    """A model of a tensor of 64 bytes that is a view of another number of bytes."""
    x, y = text_model("node view1 View x -> y").tensors
    return replace(text_model("node view1 View x -> y"), tensors=(x, replace(y, view=View(0, 0, size))))


M = symbol("m", 1, 64)


def within(model: Model, ranges: dict[str, tuple[int, int]]) -> Model:
    """The model with other ranges of its dimensions."""
    return replace(model, bindings=replace(model.bindings, ranges=ranges))


def test_models_that_can_be_planned_are_accepted() -> None:
    validate(text_model(*BODY))
    validate(text_model(outputs="x"))
    validate(nested(MAX_BODY_DEPTH))
    validate(text_model("node change Change x -> x changes x", outputs="x"))
    validate(text_model("node relu Relu x -> y", "tensor x u8 64 donated", "tensor w u8 64 donated", parameters="w"))
    validate(text_model("node view1 View x -> y", "tensor y u8 32 align 32 view x 32"))
    validate(text_model("dim m 1 64", "node relu Relu x -> y", "tensor y u8 m"))
    validate(text_model("dim m 1 64", "node view1 View x -> y", "tensor y u8 m view x 0"))
    validate(text_model("node relu Relu x -> y scratch 0", sizes={"x": 0, "y": 0}))
    validate(text_model("node relu Relu x -> y", "alias g x y"))
    validate(
        text_model(
            "begin loop1 Loop x -> y", "arm body i -> o loop", "  node relu Relu i -> o", "  node relu2 Relu o -> p",
            "end loop1", "tensor p u8 64 view o 0",
        )
    )  # fmt: skip


TWO_OF_ONE_NAME = of_fields(text_model("node relu Relu x -> a", "node other Relu a -> y"), other={"name": "relu"})
REFUSED: list[tuple[str, Model, str, str]] = [
    # Names.
    (
        "two tensors of one name",
        replace(text_model("node relu Relu x -> y"), tensors=(text_model().tensors[0],) * 2),
        "INVALID_IR",
        "tensor 'x': the name is used twice",
    ),
    ("two nodes of one name", TWO_OF_ONE_NAME, "INVALID_IR", "node 'relu'"),
    ("an empty name", renamed(""), "INVALID_IR", "tensor: a name"),
    ("a NUL", renamed("a\0b"), "INVALID_IR", "NUL"),
    (
        "a donated name of nobody",
        text_model("node relu Relu x -> y", "tensor y u8 64 donated"),
        "INVALID_IR",
        "donated 'y'",
    ),
    # Sizes.
    ("a negative dimension", like(shape=(-1,)), "INVALID_IR_SHAPES", r"tensor 'y': shape \[-1\] has a negative"),
    ("an unknown element type", like(dtype="float31", bytes=8), "INVALID_IR_SHAPES", "unknown dtype 'float31'"),
    (
        "a size beyond 64 bits",
        like(shape=(1 << 32, 1 << 32)),
        "ALLOCATION_OVERFLOW",
        "tensor 'y': 18446744073709551616",
    ),
    (
        "a size that is not the shape's",
        like(bytes=63),
        "INVALID_IR_SHAPES",
        "expected 64 bytes by shape and dtype, got 63",
    ),
    (
        "expected an alignment that is a power of two, got 3",
        like(alignment=3),
        "ALIGNMENT_VIOLATION",
        "tensor 'y': alignment 3",
    ),
    ("an alignment of 0", like(alignment=0), "ALIGNMENT_VIOLATION", "alignment 0"),
    ("an alignment of 2**64", like(alignment=1 << 64), "ALIGNMENT_VIOLATION", "not a power of two"),
    ("a size below its maximum", like(shape=(M,), bytes=63), "INVALID_IR_SHAPES", "shape and dtype, got 63"),
    (
        "a size at the wrong end",
        like(shape=(65 - M,), bytes=1),
        "INVALID_IR_SHAPES",
        "expected 64 bytes by shape and dtype",
    ),
    ("a dimension below 0", like(shape=(M - 2,), bytes=62), "INVALID_IR_SHAPES", "negative dimension"),
    (
        "a dimension without a range",
        within(like(shape=(M,)), {}),
        "INVALID_IR_SHAPES",
        "'m' is not bound to the range 1 to 64",
    ),
    (
        "a window beyond its base at one shape",
        text_model("dim m 1 64", "node view1 View x -> y", "tensor x u8 m", "tensor y u8 (65-m) view x 0"),
        "INVALID_IR",
        "its view extends beyond 'x'",
    ),
    # Bodies.
    (
        "a main graph with an owner",
        with_bodies(text_model("node relu Relu x -> y"), Body(0, "", (0,), (1,))),
        "INVALID_IR",
        "body 0: the main graph has an owner",
    ),
    (
        "a main graph that iterates",
        with_bodies(text_model("node relu Relu x -> y"), Body(-1, "", (0,), (1,), iterates=True)),
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
    ("a body without a name", bodies_of(attribute=""), "INVALID_IR", "body '' of node 'loop1': its attribute name"),
    ("a body's name with a slash", bodies_of(attribute="a/b"), "INVALID_IR", "its attribute name"),
    ("a body's name with a NUL", bodies_of(attribute="a\0b"), "INVALID_IR", "its attribute name"),
    (
        "two bodies of one name",
        text_model("begin if If x -> y", "arm then -> a", "  node relu Relu x -> a", "arm then -> x", "end if"),
        "INVALID_IR",
        "node 'if': two bodies have the same attribute name",
    ),
    # Who writes.
    ("a formal input twice", bodies_of(inputs=(2, 2)), "INVALID_IR", "tensor 'i': it is an input of two bodies"),
    (
        "a formal input of two bodies",
        text_model("begin if If x -> y", "arm then i -> i", "arm else i -> i", "end if"),
        "INVALID_IR",
        "tensor 'i': it is an input of two bodies",
    ),
    (
        "a graph input that is formal too",
        text_model("begin loop1 Loop x -> y", "arm body x -> x", "end loop1"),
        "INVALID_IR",
        "tensor 'x'",
    ),
    (
        "a graph input twice",
        with_bodies(text_model("node relu Relu x -> y"), Body(-1, "", (0, 0), (1,))),
        "INVALID_IR",
        "'x'",
    ),
    (
        "a graph output twice",
        with_bodies(text_model("node relu Relu x -> y"), Body(-1, "", (0,), (1, 1))),
        "INVALID_IR",
        "tensor 'y': it is a graph output twice",
    ),
    (
        "a result listed twice",
        text_model("node relu Relu x -> y y"),
        "INVALID_IR",
        "node 'relu': it writes one tensor twice",
    ),
    (
        "a result of two nodes",
        text_model("node relu Relu x -> y", "node relu2 Relu x -> y"),
        "INVALID_IR",
        "node 'relu2': it writes 'y'",
    ),
    ("a result that is a graph input", text_model("node relu Relu x -> x"), "INVALID_IR", "it writes 'x'"),
    (
        "a result that is a parameter",
        text_model("node relu Relu x -> w", parameters="w", outputs="x"),
        "INVALID_IR",
        "'w'",
    ),
    (
        "a result that is a formal input",
        text_model("begin loop1 Loop x -> y", "arm body i -> i", "  node relu Relu x -> i", "end loop1"),
        "INVALID_IR",
        "it writes 'i', which is already written",
    ),
    (
        "a mutation that is not read",
        text_model("node change Change -> x changes x", outputs="x"),
        "INVALID_IR",
        "node 'change': it mutates",
    ),
    (
        "a mutation that is not written",
        text_model("node relu Relu x -> y changes x"),
        "INVALID_IR",
        "it mutates",
    ),
    ("a tensor that nobody writes", text_model("node add Add x a -> y"), "INVALID_IR", "tensor 'a': no node writes it"),
    (
        "an input that the caller does not write",
        of_fields(text_model("node relu Relu x -> y"), x={"role": Role.ACTIVATION}),
        "INVALID_IR",
        "tensor 'x': it is a graph input",
    ),
    (
        "a formal input that the caller writes",
        text_model("tensor i u8 64 parameter", *BODY),
        "INVALID_IR",
        "tensor 'i': it is a formal input that the caller writes",
    ),
    (
        "a mutation by a node with bodies",
        text_model("begin loop1 Loop x -> x changes x", "arm body i -> i", "end loop1", outputs="x"),
        "INVALID_IR",
        "node 'loop1': it has bodies and mutates a tensor",
    ),
    # Who sees what.
    ("a read into a body", text_model(*BODY[:4], "node relu2 Relu o -> a"), "INVALID_IR", "node 'relu2': it reads 'o'"),
    (
        "a body that returns another body's value",
        text_model("begin if If x -> y", "arm then -> a", "  node relu Relu x -> a", "arm else -> a", "end if"),
        "INVALID_IR",
        "body 2: it returns 'a'",
    ),
    ("a graph output from inside a body", text_model(*BODY, outputs="y o"), "INVALID_IR", "body 0: it returns 'o'"),
    # Sharing.
    (
        "a view beyond its base",
        text_model("node view1 View x -> y", "tensor y u8 64 view x 1"),
        "INVALID_IR",
        "extends beyond 'x'",
    ),
    ("a view of another size than its tensor", shown(16), "INVALID_IR", "extends beyond"),
    (
        "a view at an odd byte",
        text_model("node view1 View x -> y", "tensor y u8 32 align 4 view x 2"),
        "ALIGNMENT_VIOLATION",
        "tensor 'y': byte 2",
    ),
    (
        "a view of what is not read",
        text_model("node view1 View x -> y", "node relu Relu x -> a", "tensor y u8 64 view a 0"),
        "INVALID_IR",
        "does not read its base 'a'",
    ),
    (
        "a view that the caller makes",
        text_model("node relu Relu x -> y", "tensor x u8 64 view y 0"),
        "INVALID_IR",
        "its base 'y'",
    ),
    (
        "a view of a captured value",
        text_model(
            "begin if If x -> y", "arm then -> v", "  node view1 View x -> v", "end if", "tensor v u8 64 view x 0"
        ),
        "INVALID_IR",
        "a view of 'x' across a body's boundary",
    ),
    (
        "a view of a formal input",
        text_model(*BODY, "tensor o u8 64 view i 0"),
        "INVALID_IR",
        "across a body's boundary",
    ),
    (
        "a view in an alias group",
        text_model("node view1 View x -> y", "tensor y u8 64 view x 0", "alias g x y"),
        "INVALID_IR",
        "both a view",
    ),
    (
        "an alias group of one tensor",
        of_fields(text_model("node relu Relu x -> y"), y={"alias_group": "g"}),
        "INVALID_IR",
        "alias group 'g': it has only one tensor, 'y'",
    ),
    (
        "an alias group across a body",
        text_model(*BODY, "alias g o a"),
        "INVALID_IR",
        "alias group 'g': it crosses",
    ),
    (
        "an alias group with a formal input",
        text_model(*BODY, "alias g o i"),
        "INVALID_IR",
        "alias group 'g': it crosses",
    ),
    (
        "a hint for what is not written",
        text_model("node relu Relu x -> y inplace x x"),
        "INVALID_IR",
        "node 'relu': an in-place hint",
    ),
    (
        "a hint for what is not read",
        text_model("node relu Relu x -> y inplace y y"),
        "INVALID_IR",
        "an in-place hint",
    ),
    (
        "a scratch aligned to 3",
        of_fields(text_model("node relu Relu x -> y"), relu={"scratch": (Scratch(8, 3),)}),
        "INVALID_IR",
        "node 'relu': a scratch request",
    ),
    (
        "a scratch of no size",
        of_fields(text_model("node relu Relu x -> y"), relu={"scratch": (Scratch(-1, 1),)}),
        "INVALID_IR",
        "a scratch request",
    ),
    (
        "a scratch beyond 64 bits",
        of_fields(text_model("node relu Relu x -> y"), relu={"scratch": (Scratch(1 << 64, 1),)}),
        "INVALID_IR",
        "a scratch request",
    ),
    (
        "a tensor that must not alias itself",
        text_model("node relu Relu x -> y", "apart x x"),
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
