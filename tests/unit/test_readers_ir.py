"""Models of our own form read by the checker: steps, scopes and declared sharing, and every model that is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest

from proofs.readers.models.ir import read_ir, size_of
from proofs.readers.models.reference import ReferenceBody, ReferenceProgram
from tests.support.onnx_files import model_of
from tests.support.reader_plans import lines
from tests.support.small import small
from tmmu.core.dims.expressions import symbol
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Bindings, Body, Model, NodePart, Phase, Role, Scratch, Tensor, View


def refused(model: Model) -> str:
    with pytest.raises(TmmuError, match="INVALID_IR") as error:
        read_ir(model)
    return str(error.value)


def test_a_graph_is_read_in_the_order_of_its_nodes() -> None:
    """spec: V3.1, V3.2"""
    model = small("mul: x w -> a", "add: a x -> y", parameters="w", must_not_alias=[("a", "x")],
                  like={"a": {"saved_for_backward": True, "alignment": 16}, "y": {"dtype": "float16"}})  # fmt: skip
    model = replace(model, unproduced=("mask",), bindings=Bindings(dims={"n": 1}), source_digest=b"s" * 32)
    expected = read_ir(model)
    assert lines(expected) == ["mul Mul [] x w -> a", "add Add [] a x -> y"]
    assert expected.sizes == {"x": (64, 8), "w": (64, 8), "a": (64, 8), "y": (128, 16)}
    assert (expected.alignments["a"], expected.shapes["y"]) == (16, (64,))
    assert (expected.inputs, expected.outputs, expected.saved) == (("x",), ("y",), frozenset({"a"}))
    assert (expected.roles["w"], expected.roles["a"]) == (Role.PARAMETER, Role.ACTIVATION)
    assert expected.must_not_alias == {frozenset({"a", "x"})}
    assert (expected.unproduced, expected.source_digest) == (frozenset({"mask"}), b"s" * 32)
    assert expected.bindings == Bindings(dims={"n": 1})


def test_a_step_writes_and_reads_the_scratch_of_its_node() -> None:
    """spec: I1.10"""
    model = small("mul: x -> y", nodes={"mul": {"scratch": (Scratch(5, 8), Scratch(0, 1))}})
    expected = read_ir(model)
    assert lines(expected) == ["mul Mul [] x mul.scratch0 mul.scratch1 -> y mul.scratch0 mul.scratch1"]
    assert (expected.sizes["mul.scratch0"], expected.alignments["mul.scratch0"]) == ((5, 8), 8)
    assert expected.roles["mul.scratch1"] is Role.SCRATCH


def test_what_is_mutated_keeps_its_writer() -> None:
    model = small("mul: x -> a", "set: a -> !a", "add: a p -> y !p", parameters="p")
    expected = read_ir(model)
    assert [(s.writes, s.mutates) for s in expected.steps] == [(("a",), ()), (("a",), ("a",)), (("y", "p"), ("p",))]


LOOPING = (
    "mul: x -> a",
    "loop: a x -> b c",
    "loop/body*: l r => r l n",
    "  add: l a -> m",
    "  relu: m -> n(m)",
    "last: b c -> y",
)


def test_a_loop_is_entered_and_left_with_copies_of_what_it_did_not_make() -> None:
    """spec: T8.1, T8.2, T8.8, T8.9, T8.12"""
    expected = read_ir(small(*LOOPING, nodes={"loop": {"scratch": (Scratch(4, 1),)}}))
    assert lines(expected) == [
        "mul Mul [] x -> a",
        "loop Loop enter [] a x loop.scratch0 -> l r loop.scratch0",
        "add Add [loop/body] l a -> m",
        "relu Relu [loop/body] m -> n",
        "loop Loop leave [] r loop/body/r.copy0 l loop/body/l.copy1 n loop.scratch0"
        " -> loop/body/r.copy0 loop/body/l.copy1 b c",
        "last Last [] b c -> y",
    ]
    assert expected.bodies == {"loop/body": ReferenceBody("loop", "", True)}
    assert expected.roles["loop/body/r.copy0"] is Role.SCRATCH
    assert (expected.in_place, expected.assumed) == ({("n", "m")}, [])


def test_bodies_nest_and_end_where_the_next_node_stands_elsewhere() -> None:
    model = small(
        "pick: x -> a",
        "pick/then: => s",
        "  in: x -> s",
        "  in/then: f => t",
        "    neg: f -> t",
        "  in/else: => x",
        "pick/else: => u",
        "  abs: x -> u",
        "relu: a -> y",
    )
    expected = read_ir(model)
    assert lines(expected) == [
        "pick Pick enter [] x -> ",
        "in In enter [pick/then] x -> f",
        "neg Neg [in/then] f -> t",
        "in In leave [pick/then] t x in/else/x.copy0 -> in/else/x.copy0 s",
        "abs Abs [pick/else] x -> u",
        "pick Pick leave [] s u -> a",
        "relu Relu [] a -> y",
    ]
    assert expected.bodies["in/else"] == ReferenceBody("in", "pick/then", False)


def test_an_empty_body_at_the_end_of_the_model_is_left() -> None:
    expected = read_ir(small("if: x -> y", "if/then: => x"))
    assert [s.part for s in expected.steps] == [NodePart.ENTER, NodePart.LEAVE]


def test_declared_views_and_in_place_pairs_count_and_are_listed_where_only_the_model_says_so() -> None:
    """spec: V2.2"""
    by_table = read_ir(small("reshape: x -> a", "relu: a -> y(a)", views={"a": ("x", 0)}))
    assert (by_table.views, by_table.in_place, by_table.assumed) == ({"a": ("x", 0)}, {("y", "a")}, [])
    model = small("slice: x -> a b", "transpose: a -> y(a)", views={"a": ("x", 0), "b": ("x", 16)}, sizes={"b": 48})
    expected = read_ir(model)
    assert (expected.views, expected.in_place) == ({"a": ("x", 0), "b": ("x", 16)}, {("y", "a")})
    assert expected.assumed == ["::Slice", "::Transpose"]


@pytest.mark.parametrize(
    ("model", "believed"),
    [
        (small("reshape: x -> y", views={"y": ("x", 0)}), []),
        (small("reshape: x -> y", views={"y": ("x", 0)}, sizes={"y": 32}), ["::Reshape"]),
        (small("reshape: x w -> y", views={"y": ("w", 0)}, parameters="w"), ["::Reshape"]),
        (small("reshape: x -> y z", views={"z": ("x", 0)}), ["::Reshape"]),
        (small("reshape: x -> y", views={"y": ("x", 0)}, like={"y": {"dtype": "int8"}}), ["::Reshape"]),
        (small("reshape: x -> y", views={"y": ("x", 0)}, nodes={"reshape": {"domain": "my"}}), ["my::Reshape"]),
        (small("reshape: x -> y", views={"y": ("x", 0)}, nodes={"reshape": {"domain": "ai.onnx"}}), []),
        (small("relu: x -> z y(x)"), ["::Relu"]),
        (small("clip: x w -> y(w)", parameters="w"), ["::Clip"]),
        (small("relu1: x -> a(x)", "relu2: a -> y(a)"), []),
        (small("cos: x -> a(x)", "fuse1: a -> b(a)", "fuse2: b -> y(b)"), ["::Fuse"]),
    ],
)
def test_what_the_tables_do_not_say_is_believed(model: Model, believed: list[str]) -> None:
    """spec: V2.2, V5.3"""
    expected = read_ir(model)
    assert len(expected.views) + len(expected.in_place) >= 1
    assert expected.assumed == believed


@pytest.mark.parametrize(
    "model",
    [
        small("relu: x -> y(x)", sizes={"y": 32}),
        small("relu: x -> y(x)", like={"y": {"shape": (32,), "dtype": "int16"}}),
        small("relu: x -> y(x)", like={"y": {"shape": (8, 8)}}),
        small("neg: x -> a", "relu: x -> y(a)"),
        small("relu: x -> y(x)", nodes={"relu": {"in_place": ((0, 1),)}}),
        small("relu: x w -> y", nodes={"relu": {"in_place": ((0, 1),)}}, parameters="w"),
        small("neg: x -> y", "relu: x -> !y(x)"),
        small("neg: x -> a", "relu: x -> y", views={"y": ("a", 0)}),
        small("neg: x -> y", "relu: x y -> !y", views={"y": ("x", 0)}, nodes={"neg": {"reads": ()}}),
    ],
)
def test_a_declaration_that_fits_no_pair_of_its_node_is_ignored(model: Model) -> None:
    """Another size, width or shape, an operand that is not read, a result that is mutated. spec: T3.3"""
    expected = read_ir(model)
    assert (expected.views, expected.in_place, expected.assumed) == ({}, set(), [])


def test_no_declaration_crosses_the_boundary_of_a_body() -> None:
    """spec: T8.6, T8.7"""

    def inside(line: str, **more: Any) -> ReferenceProgram:
        return read_ir(
            small(
                "mul: x -> a",
                "loop: x -> y",
                "loop/body*: f => n",
                "  neg: f -> m",
                f"  {line}",
                parameters="p loop/body/w",
                **more,
            )
        )

    assert inside("relu: m -> n(m)").in_place == {("n", "m")}
    assert inside("relu: m -> n", views={"n": ("m", 0)}).views == {"n": ("m", 0)}
    assert inside("relu: loop/body/w -> n", views={"n": ("loop/body/w", 0)}).views == {"n": ("loop/body/w", 0)}
    for name in ("f", "a", "x", "p", "loop/body/w"):
        assert inside(f"relu: {name} -> n({name})").in_place == set()
    for name in ("f", "a", "x", "p"):
        assert inside(f"relu: {name} -> n", views={"n": (name, 0)}).views == {}
    handed = read_ir(small("if: x -> y(a)", "if/then: => a", "  neg: x -> a", views={"y": ("x", 0)}))
    assert (handed.views, handed.in_place) == ({}, set())


def test_a_formal_input_is_no_view_whatever_the_model_declares() -> None:
    """Its enter writes it, once for each iteration; nor is it the base of what the caller writes. spec: T8.6"""
    body = ("loop: x -> y", "loop/body*: i => o", "  relu: i -> o")
    assert read_ir(small(*body, views={"i": ("x", 0)})).views == {}
    assert "u: " in refused(small(*body, inputs="x u", outputs="y u", views={"u": ("i", 0)}))


def test_phases_and_alias_groups_are_the_models() -> None:
    like = {"a": {"alias_group": "g"}}
    model = small("relu: x -> a", "relu2: a -> y", like=like, nodes={"relu2": {"phase": Phase.BACKWARD}})
    assert read_ir(model).phases == {"relu2": Phase.BACKWARD}
    assert read_ir(model).grouped == {"a"}


def test_an_operator_with_fewer_operands_than_the_tables_list_is_read() -> None:
    assert read_ir(small("add: x -> y(x)")).in_place == {("y", "x")}


def test_each_result_of_a_gradient_of_a_sum_needs_no_belief() -> None:
    grads = {"addgrad": {"domain": "tmmu.grad", "op": "AddGrad"}}
    views = {"a": ("x", 0), "b": ("x", 0)}
    model = small("addgrad: x -> a b", "concat: a b -> y", nodes=grads, views=views)
    assert (read_ir(model).views, read_ir(model).assumed) == (views, [])
    other = small("addgrad: x -> a b", "concat: a b -> y", views=views)
    assert read_ir(other).assumed == ["::Addgrad"]


def test_a_shape_with_one_open_dimension_has_an_open_size() -> None:
    m = symbol("m", 1, 64)
    assert size_of(Tensor("t", (m, 4), "float32", Role.ACTIVATION, 1024)) == 16 * m
    assert size_of(Tensor("t", (8, 4), "float32", Role.ACTIVATION, 128)) == 128


def test_views_in_what_the_caller_writes_are_the_models() -> None:
    model = small("mul: p q -> y", inputs="flat", parameters="p q", sizes={"p": 16, "q": 8},
                  views={"p": ("flat", 48), "q": ("p", 8)})  # fmt: skip
    assert read_ir(model).views == {"p": ("flat", 48), "q": ("p", 8)}


def edit(**changes: Callable[[Model], Any]) -> Callable[[], Model]:
    """The model of one loop with fields replaced."""
    model = small(*LOOPING)
    return lambda: replace(model, **{name: change(model) for name, change in changes.items()})


def tensors(row: int, **entries: Any) -> Callable[[], Model]:
    return edit(tensors=lambda m: (*m.tensors[:row], replace(m.tensors[row], **entries), *m.tensors[row + 1 :]))


def nodes(row: int, **entries: Any) -> Callable[[], Model]:
    return edit(nodes=lambda m: (*m.nodes[:row], replace(m.nodes[row], **entries), *m.nodes[row + 1 :]))


def bodies(row: int, **entries: Any) -> Callable[[], Model]:
    return edit(bodies=lambda m: (*m.bodies[:row], replace(m.bodies[row], **entries), *m.bodies[row + 1 :]))


@pytest.mark.parametrize(
    ("model", "what"),
    [
        (edit(bodies=lambda m: ()), "body 0 is not the main graph"),
        (bodies(0, owner=0), "body 0 is not the main graph"),
        (nodes(0, reads=(99,)), "mul: the node names a tensor or body that does not exist"),
        (nodes(0, writes=(-1,)), "mul: the node names"),
        (nodes(0, mutates=(99,)), "mul: the node names"),
        (nodes(0, in_place=((0, 99),)), "mul: the node names"),
        (nodes(0, body=2), "mul: the node names"),
        (bodies(1, inputs=(99,)), "body 1: the body names a tensor"),
        (bodies(0, outputs=(-1,)), "body 0: the body names a tensor"),
        (bodies(1, owner=9), "body 1: the owner of the body does not exist"),
        (bodies(1, owner=-1), "body 1: the owner of the body does not exist"),
        (tensors(1, view=View(99, 0, 64)), "the base of the view does not exist"),
        (edit(must_not_alias=lambda m: ((0, 99),)), "must_not_alias names a tensor that does not exist"),
        (nodes(0, name="last"), "last: the name of a node is empty or used twice"),
        (nodes(0, name=""), "the name of a node is empty or used twice"),
        (edit(bodies=lambda m: (*m.bodies, m.bodies[1])), "loop/body: the name of a body is empty or used twice"),
        (tensors(1, name="x"), "x: two tensors would have this name"),
        (tensors(1, name="loop/body/r.copy0"), "loop/body/r.copy0: two tensors would have this name"),
        (tensors(1, dtype="string"), "the element type 'string' is unknown"),
        (tensors(1, bytes=-1), "must be positive"),
        (tensors(1, alignment=0), "must be positive"),
        (tensors(1, view=View(0, 0, 32)), "the view does not lie in its base 'x'"),
        (tensors(1, view=View(0, 1, 64)), "the view does not lie in its base 'x'"),
        (tensors(1, view=View(0, -1, 64)), "the view does not lie in its base 'x'"),
        (tensors(0, view=View(1, 0, 64)), "x: the caller cannot write it as a view of 'a'"),
    ],
)
def test_tables_that_do_not_fit_together_are_refused(model: Callable[[], Model], what: str) -> None:
    assert what in refused(model())


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (("relu: a -> y", "neg: x -> a"), "relu: tensor 'a' is read before it is written"),
        (("relu: y -> y",), "relu: tensor 'y' is read before it is written"),
        (("relu: z -> y",), "relu: tensor 'z' is read but nothing writes it"),
        (("relu: x -> z",), "the model's outputs: tensor 'y' is read but nothing writes it"),
        (("relu: x -> y", "neg: x -> y"), "neg: tensor 'y' is written twice"),
        (("neg: p -> y", "relu: p -> x"), "relu: tensor 'x' is written twice"),
        (("relu: x -> y !z",), "relu: tensor 'z' is read but nothing writes it"),
        (("relu: x -> !a", "neg: x -> a y"), "relu: tensor 'a' is read before it is written"),
        (("if: x -> y", "if/then: f => f", "  neg: x -> f"), "neg: tensor 'f' is written twice"),
        (("if: x -> y", "if/then: => z", "  neg: x -> a"), "if: tensor 'z' is read but nothing writes it"),
        (("if: x -> y", "if/then: => a", "  neg: x -> a", "abs: a -> z"), "abs: tensor 'a' is read outside its body"),
        (("if: x -> a", "if/then: => a", "  neg: x -> b", "abs: a -> y"), "if: tensor 'a' is read before"),
        (
            ("if: x -> y", "if/then: => a", "  neg: x -> a", "if/else: => b", "  abs: a -> b"),
            "abs: tensor 'a' is read outside its body",
        ),
        (
            ("if: x -> y", "if/then: => a", "  neg: x -> a", "if/else: => a", "  abs: x -> b"),
            "if: tensor 'a' is read outside its body",
        ),
    ],
)
def test_reads_and_writes_that_do_not_fit_are_refused(text: tuple[str, ...], what: str) -> None:
    """spec: I1.4, I1.9"""
    assert what in refused(small(*text, parameters="p"))


def test_a_tensor_that_nobody_writes_is_refused() -> None:
    """spec: I1.4"""
    model = small("relu: x -> y")
    lost = Tensor("lost", (1,), "int8", Role.ACTIVATION, 1)
    assert "lost: nothing writes the tensor" in refused(replace(model, tensors=(*model.tensors, lost)))


def test_a_node_that_mutates_what_it_does_not_write_is_refused() -> None:
    model = small("relu: x -> y", nodes={"relu": {"mutates": (0,)}})
    assert "relu: " in refused(model)


def test_an_output_that_is_listed_twice_is_refused() -> None:
    assert "y: the output is listed 2 times" in refused(small("relu: x -> y", outputs="y y"))


def test_views_in_a_circle_are_refused() -> None:
    model = small("mul: p q r -> y", parameters="p q r", views={"p": ("q", 0), "q": ("r", 0), "r": ("q", 0)})
    assert "the view shows itself" in refused(model)


def test_scratch_with_the_name_of_a_tensor_is_refused() -> None:
    model = small("mul: x -> mul.scratch0 y", nodes={"mul": {"scratch": (Scratch(1, 1),)}})
    assert "mul.scratch0: " in refused(model)


def test_the_bodies_of_a_node_run_in_turn_however_the_nodes_are_listed() -> None:
    """spec: T8.10"""
    two = small("if: x -> y", "if/then: => a", "  neg: x -> a", "if/else: => b", "  abs: x -> b", "last: x -> z")
    owner, then, other, last = two.nodes
    turned = (other, last, owner, then)
    inner = tuple(replace(body, owner=2) for body in two.bodies[1:])
    expected = read_ir(replace(two, nodes=turned, bodies=(two.bodies[0], *inner)))
    assert [step.node for step in expected.steps] == ["last", "if", "neg", "abs", "if"]
    assert [step.node for step in read_ir(two).steps] == ["if", "neg", "abs", "if", "last"]


def test_a_body_that_no_step_enters_is_refused() -> None:
    """A node in a body of its own, and two that own each other's."""
    model = small("if: x -> a", "if/then: => a", "  neg: x -> b", "relu: x -> y")
    owner, inner, last = model.nodes
    assert "if: " in refused(replace(model, nodes=(replace(owner, body=1), inner, last)))
    bodies = (*model.bodies, Body(1, "more", (), ()))
    circle = replace(model, nodes=(replace(owner, body=2), inner, last), bodies=bodies)
    assert "if: " in refused(circle)


def written(text: str, tmp_path: Path) -> Path:
    onnx.save(model_of(text), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"
