"""Models of our own form read by the checker: steps, scopes and declared sharing. What it refuses is in
`test_wrong_models.py`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from proofs.readers.models.ir import read_ir, size_of
from proofs.readers.models.reference import ReferenceBody, ReferenceProgram
from tests.support.reader_plans import lines
from tests.support.text_models import text_model
from tmmu.core.dims.expressions import symbol
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Bindings, Body, Model, NodePart, Phase, Role, Tensor


def refused(model: Model) -> str:
    with pytest.raises(TmmuError, match="INVALID_IR") as error:
        read_ir(model)
    return str(error.value)


def test_a_graph_is_read_in_the_order_of_its_nodes() -> None:
    """spec: V3.1, V3.2"""
    model = text_model(
        "node mul Mul x w -> a", "node add Add a x -> y", "tensor a u8 64 saved align 16", "tensor y f16 64 align 1",
        "apart a x", parameters="w",
    )  # fmt: skip
    model = replace(model, unproduced=("mask",), bindings=Bindings(dims={"n": 1}), source_digest=b"s" * 32)
    expected = read_ir(model)
    assert lines(expected) == ["mul Mul [] x w -> a", "add Add [] a x -> y"]
    assert expected.sizes == {"x": (64, "uint8"), "w": (64, "uint8"), "a": (64, "uint8"), "y": (128, "float16")}
    assert (expected.alignments["a"], expected.shapes["y"]) == (16, (64,))
    assert (expected.inputs, expected.outputs, expected.saved) == (("x",), ("y",), frozenset({"a"}))
    assert (expected.roles["w"], expected.roles["a"]) == (Role.PARAMETER, Role.ACTIVATION)
    assert expected.must_not_alias == {frozenset({"a", "x"})}
    assert (expected.unproduced, expected.source_digest) == (frozenset({"mask"}), b"s" * 32)
    assert expected.bindings == Bindings(dims={"n": 1})


def test_a_step_writes_and_reads_the_scratch_of_its_node() -> None:
    """spec: I1.10"""
    model = text_model("node mul Mul x -> y scratch 5 align 8 scratch 0")
    expected = read_ir(model)
    assert lines(expected) == ["mul Mul [] x mul.scratch0 mul.scratch1 -> y mul.scratch0 mul.scratch1"]
    assert (expected.sizes["mul.scratch0"], expected.alignments["mul.scratch0"]) == ((5, "uint8"), 8)
    assert expected.roles["mul.scratch1"] is Role.SCRATCH


def test_what_is_mutated_keeps_its_writer() -> None:
    model = text_model(
        "node mul Mul x -> a", "node set Set a -> a changes a", "node add Add a p -> y p changes p", parameters="p"
    )
    expected = read_ir(model)
    assert [(s.writes, s.mutates) for s in expected.steps] == [(("a",), ()), (("a",), ("a",)), (("y", "p"), ("p",))]


LOOPING = (
    "node mul Mul x -> a",
    "begin loop1 Loop a x -> b c",
    "arm body l r -> r l n loop",
    "  node add Add l a -> m",
    "  node relu Relu m -> n inplace n m",
    "end loop1",
    "node last Last b c -> y",
)


def test_a_loop_is_entered_and_left_with_copies_of_what_it_did_not_make() -> None:
    """spec: T8.1, T8.2, T8.8, T8.9, T8.12"""
    expected = read_ir(text_model(LOOPING[0], f"{LOOPING[1]} scratch 4", *LOOPING[2:]))
    assert lines(expected) == [
        "mul Mul [] x -> a",
        "loop1 Loop enter [] a x loop1.scratch0 -> l r loop1.scratch0",
        "add Add [loop1/body] l a -> m",
        "relu Relu [loop1/body] m -> n",
        "loop1 Loop leave [] r loop1/body/r.copy0 l loop1/body/l.copy1 n loop1.scratch0"
        " -> loop1/body/r.copy0 loop1/body/l.copy1 b c",
        "last Last [] b c -> y",
    ]
    assert expected.bodies == {"loop1/body": ReferenceBody("loop1", "", True)}
    assert expected.roles["loop1/body/r.copy0"] is Role.SCRATCH
    assert (expected.in_place, expected.assumed) == ({("n", "m")}, [])


def test_bodies_nest_and_end_where_the_next_node_stands_elsewhere() -> None:
    model = text_model(
        "begin pick Pick x -> a", "arm then -> s", "  begin in In x -> s", "  arm then f -> t",
        "    node neg Neg f -> t", "  arm else -> x", "  end in", "arm else -> u", "  node abs Abs x -> u", "end pick",
        "node relu Relu a -> y",
    )  # fmt: skip
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
    expected = read_ir(text_model("begin if If x -> y", "arm then -> x", "end if"))
    assert [s.part for s in expected.steps] == [NodePart.ENTER, NodePart.LEAVE]


def test_declared_views_and_in_place_pairs_count_and_are_listed_where_only_the_model_says_so() -> None:
    """spec: V2.2"""
    by_table = read_ir(
        text_model("node reshape Reshape x -> a", "node relu Relu a -> y inplace y a", "tensor a u8 64 view x 0")
    )
    assert (by_table.views, by_table.in_place, by_table.assumed) == ({"a": ("x", 0)}, {("y", "a")}, [])
    model = text_model(
        "node slice Slice x -> a b", "node transpose Transpose a -> y inplace y a", "tensor a u8 64 view x 0",
        "tensor b u8 48 view x 16",
    )  # fmt: skip
    expected = read_ir(model)
    assert (expected.views, expected.in_place) == ({"a": ("x", 0), "b": ("x", 16)}, {("y", "a")})
    assert expected.assumed == ["Slice", "Transpose"]


@pytest.mark.parametrize(
    ("model", "believed"),
    [
        (text_model("node reshape Reshape x -> y", "tensor y u8 64 view x 0"), []),
        (text_model("node reshape Reshape x -> y", "tensor y u8 32 view x 0"), ["Reshape"]),
        (text_model("node reshape Reshape x w -> y", "tensor y u8 64 view w 0", parameters="w"), ["Reshape"]),
        (text_model("node reshape Reshape x -> y z", "tensor z u8 64 view x 0"), ["Reshape"]),
        (text_model("node reshape Reshape x -> y", "tensor y i8 64 view x 0"), ["Reshape"]),
        (text_model("node reshape my::Reshape x -> y", "tensor y u8 64 view x 0"), ["my::Reshape"]),
        (text_model("node reshape ai.onnx::Reshape x -> y", "tensor y u8 64 view x 0"), []),
        (text_model("node relu Relu x -> z y inplace y x"), ["Relu"]),
        (text_model("node clip Clip x w -> y inplace y w", parameters="w"), ["Clip"]),
        (text_model("node relu1 Relu x -> a inplace a x", "node relu2 Relu a -> y inplace y a"), []),
        (
            text_model(
                "node cos Cos x -> a inplace a x", "node fuse1 Fuse a -> b inplace b a",
                "node fuse2 Fuse b -> y inplace y b",
            ),
            ["Fuse"],
        ),
    ],
)  # fmt: skip
def test_what_the_tables_do_not_say_is_believed(model: Model, believed: list[str]) -> None:
    """spec: V2.2, V5.3"""
    expected = read_ir(model)
    assert len(expected.views) + len(expected.in_place) >= 1
    assert expected.assumed == believed


@pytest.mark.parametrize(
    "model",
    [
        text_model("node relu Relu x -> y inplace y x", sizes={"y": 32}),
        text_model("node relu Relu x -> y inplace y x", "tensor y i16 32 align 1"),
        text_model("node relu Relu x -> y inplace y x", "tensor y u8 8x8"),
        text_model("node neg Neg x -> a", "node relu Relu x -> y inplace y a"),
        text_model("node relu Relu x -> y inplace x y"),
        text_model("node relu Relu x w -> y inplace x w", parameters="w"),
        text_model("node neg Neg x -> y", "node relu Relu x -> y inplace y x changes y"),
        text_model("node neg Neg x -> a", "node relu Relu x -> y", "tensor y u8 64 view a 0"),
        text_model("node neg Neg -> y", "node relu Relu x y -> y changes y", "tensor y u8 64 view x 0"),
    ],
)
def test_a_declaration_that_fits_no_pair_of_its_node_is_ignored(model: Model) -> None:
    """Another size, width or shape, an operand that is not read, a result that is mutated. spec: T3.3"""
    expected = read_ir(model)
    assert (expected.views, expected.in_place, expected.assumed) == ({}, set(), [])


def test_no_declaration_crosses_the_boundary_of_a_body() -> None:
    """spec: T8.6, T8.7"""

    def inside(line: str, view: str = "n") -> ReferenceProgram:
        shown = "" if view == "n" else f" view {view} 0"
        return read_ir(
            text_model(
                "node mul Mul x -> a",
                "begin loop1 Loop x -> y",
                "arm body f -> n loop",
                "  node neg Neg f -> m",
                f"  {line}",
                "end loop1",
                f"tensor n u8 64{shown}",
                parameters="p loop1/body/w",
            )
        )

    assert inside("node relu Relu m -> n inplace n m").in_place == {("n", "m")}
    assert inside("node relu Relu m -> n", "m").views == {"n": ("m", 0)}
    assert inside("node relu Relu loop1/body/w -> n", "loop1/body/w").views == {"n": ("loop1/body/w", 0)}
    for name in ("f", "a", "x", "p", "loop1/body/w"):
        assert inside(f"node relu Relu {name} -> n inplace n {name}").in_place == set()
    for name in ("f", "a", "x", "p"):
        assert inside(f"node relu Relu {name} -> n", name).views == {}
    handed = read_ir(
        text_model(
            "begin if If x -> y inplace y a", "arm then -> a", "  node neg Neg x -> a", "end if",
            "tensor y u8 64 view x 0",
        )
    )  # fmt: skip
    assert (handed.views, handed.in_place) == ({}, set())


def test_a_formal_input_is_no_view_whatever_the_model_declares() -> None:
    """Its enter writes it, once for each iteration; nor is it the base of what the caller writes. spec: T8.6"""
    body = ("begin loop1 Loop x -> y", "arm body i -> o loop", "  node relu Relu i -> o", "end loop1")
    assert read_ir(text_model(*body, "tensor i u8 64 view x 0")).views == {}
    assert "u: " in refused(text_model(*body, "tensor u u8 64 view i 0", inputs="x u", outputs="y u"))


def test_phases_and_alias_groups_are_the_models() -> None:
    model = text_model("node relu Relu x -> a", "node relu2 Relu a -> y backward", "alias g a y")
    assert read_ir(model).phases == {"relu2": Phase.BACKWARD}
    assert read_ir(model).alias_groups == {"a": "g", "y": "g"}


def test_an_operator_with_fewer_operands_than_the_tables_list_is_read() -> None:
    assert read_ir(text_model("node add Add x -> y inplace y x")).in_place == {("y", "x")}


def test_each_result_of_a_gradient_of_a_sum_needs_no_belief() -> None:
    views = {"a": ("x", 0), "b": ("x", 0)}
    model = text_model(
        "node addgrad tmmu.grad::AddGrad x -> a b", "node concat Concat a b -> y", "tensor a u8 64 view x 0",
        "tensor b u8 64 view x 0",
    )  # fmt: skip
    assert (read_ir(model).views, read_ir(model).assumed) == (views, [])
    other = text_model(
        "node addgrad Addgrad x -> a b", "node concat Concat a b -> y", "tensor a u8 64 view x 0",
        "tensor b u8 64 view x 0",
    )  # fmt: skip
    assert read_ir(other).assumed == ["Addgrad"]


def test_a_shape_with_one_open_dimension_has_an_open_size() -> None:
    m = symbol("m", 1, 64)
    assert size_of(Tensor("t", (m, 4), "float32", Role.ACTIVATION, 1024)) == 16 * m
    assert size_of(Tensor("t", (8, 4), "float32", Role.ACTIVATION, 128)) == 128


def test_views_in_what_the_caller_writes_are_the_models() -> None:
    model = text_model(
        "node mul Mul p q -> y", "tensor p u8 16 view flat 48", "tensor q u8 8 view p 8", inputs="flat",
        parameters="p q",
    )  # fmt: skip
    assert read_ir(model).views == {"p": ("flat", 48), "q": ("p", 8)}


def test_the_bodies_of_a_node_run_in_turn_however_the_nodes_are_listed() -> None:
    """spec: T8.10"""
    two = text_model(
        "begin if If x -> y", "arm then -> a", "  node neg Neg x -> a", "arm else -> b", "  node abs Abs x -> b",
        "end if", "node last Last x -> z",
    )  # fmt: skip
    owner, then, other, last = two.nodes
    turned = (other, last, owner, then)
    inner = tuple(replace(body, owner=2) for body in two.bodies[1:])
    expected = read_ir(replace(two, nodes=turned, bodies=(two.bodies[0], *inner)))
    assert [step.node for step in expected.steps] == ["last", "if", "neg", "abs", "if"]
    assert [step.node for step in read_ir(two).steps] == ["if", "neg", "abs", "if", "last"]


def test_a_body_that_no_step_enters_is_refused() -> None:
    """A node in a body of its own, and two that own each other's."""
    model = text_model(
        "begin if If x -> a", "arm then -> a", "  node neg Neg x -> b", "end if", "node relu Relu x -> y"
    )
    owner, inner, last = model.nodes
    assert "if: " in refused(replace(model, nodes=(replace(owner, body=1), inner, last)))
    bodies = (*model.bodies, Body(1, "more", (), ()))
    circle = replace(model, nodes=(replace(owner, body=2), inner, last), bodies=bodies)
    assert "if: " in refused(circle)
