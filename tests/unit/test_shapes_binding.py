"""What the user may bind, and what becomes of bindings that name nothing or contradict something."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from tests.support.onnx_files import model_of, refusal, resolved

OPEN = "main (float[batch, seq] x, float[batch, 4] z) => (y) { a = Relu (x) y = Relu (z) }"


def inputs(*values: onnx.ValueInfoProto) -> onnx.ModelProto:
    nodes = [helper.make_node("Identity", [value.name], [f"{value.name}.out"]) for value in values]
    outputs = [helper.make_value_info(f"{value.name}.out", onnx.TypeProto()) for value in values]
    graph = helper.make_graph(nodes, "g", list(values), outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def tensor(name: str, *dims: int | str | None, dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, list(dims))


def test_named_dimensions_are_bound_wherever_they_occur(tmp_path: Path) -> None:
    """spec: T10.6"""
    found = resolved(tmp_path, OPEN, dims={"batch": 2, "seq": 7})
    assert (found.sizes["a"][0], found.sizes["y"][0]) == ((2, 7), (2, 4))
    assert dict(found.bindings.dims) == {"batch": 2, "seq": 7}


def test_a_dimension_may_be_bound_to_nothing(tmp_path: Path) -> None:
    assert resolved(tmp_path, OPEN, dims={"batch": 0, "seq": 7}).sizes["a"] == ((0, 7), "float32")


def test_a_whole_shape_binds_the_dimensions_that_it_names(tmp_path: Path) -> None:
    """spec: T10.6"""
    found = resolved(tmp_path, OPEN, shapes={"x": (2, 7)})
    assert (found.sizes["a"][0], found.sizes["y"][0]) == ((2, 7), (2, 4))
    assert dict(found.bindings.shapes) == {"x": (2, 7)}


def test_dimensions_that_share_a_mark_that_is_no_name_are_bound_each_for_itself(tmp_path: Path) -> None:
    model = inputs(tensor("x", "?", 3, "?"), tensor("z", "?", -1, 0))
    found = resolved(tmp_path, model, shapes={"x": (1, 3, 640), "z": (5, 6, 7)})
    assert (found.sizes["x"][0], found.sizes["z"][0]) == ((1, 3, 640), (5, 6, 7))
    assert resolved(tmp_path, inputs(tensor("x", "?", "?")), dims={"?": 4}).sizes["x"][0] == (4, 4)


def test_an_input_of_unknown_rank_is_bound_by_its_shape(tmp_path: Path) -> None:
    model = inputs(helper.make_tensor_value_info("x", TensorProto.FLOAT, None))
    assert resolved(tmp_path, model, shapes={"x": ()}).sizes["x.out"] == ((), "float32")
    assert resolved(tmp_path, model, shapes={"x": (2, 3)}).sizes["x.out"] == ((2, 3), "float32")
    error = refusal(tmp_path, model)
    assert (error.code_id, error.fix) == ("INVALID_IR_SHAPES", "bind it with --shape x=...")


@pytest.mark.parametrize(
    ("bindings", "place", "words"),
    [
        ({"dims": {"bacht": 1}}, "--dim bacht", "did you mean batch? the names are 'batch', 'seq'"),
        ({"shapes": {"w": (1,)}}, "--shape w", "the inputs are 'x', 'z'"),
        ({"values": {"w": "1"}}, "--value w", "the inputs are 'x', 'z'"),
        ({"dims": {"batch": -1}}, "--dim batch", "expected a dimension from 0 to 9223372036854775807, got -1"),
        ({"dims": {"batch": 1 << 63}}, "--dim batch", "expected a dimension from 0 to"),
        ({"shapes": {"x": (2, -7)}}, "--shape x", "2x-7 has a dimension outside of 0 to 9223372036854775807"),
        ({"shapes": {"x": (2, 1 << 63)}}, "--shape x", "has a dimension outside of 0 to"),
        ({"shapes": {"x": (2, 7, 1)}}, "--shape x", "expected 2 dimensions, got 2x7x1"),
        ({"shapes": {"x": ()}}, "--shape x", "expected 2 dimensions, got scalar"),
        ({"shapes": {"z": (2, 5)}}, "--shape z", "2x5 has the dimension 5, but the model states 4"),
        ({"shapes": {"x": (2, 7), "z": (3, 4)}}, "--shape z", "'batch' is bound twice: 2 and 3"),
        ({"shapes": {"x": (2, 7)}, "dims": {"batch": 3}}, "--shape x", "'batch' is bound twice: 3 and 2"),
        (
            {"values": {"x": "1"}, "shapes": {"x": (1, 1)}},
            "--value x",
            "expected an input of at most one dimension, got one of 2",
        ),
    ],
)
def test_a_binding_names_something_and_contradicts_nothing(
    tmp_path: Path, bindings: dict[str, Any], place: str, words: str
) -> None:
    """spec: T10.7"""
    error = refusal(tmp_path, OPEN, **bindings)
    assert (error.code_id, error.place) == ("INVALID_BINDING", place)
    assert words in str(error)
    assert error.record().diagnostics["binding"] == place.split()[1]


def test_a_mark_that_is_bound_by_name_holds_for_shapes_too(tmp_path: Path) -> None:
    error = refusal(tmp_path, inputs(tensor("x", "?", "?")), dims={"?": 4}, shapes={"x": (4, 5)})
    assert "'?' is bound twice: 4 and 5" in str(error)


def test_a_model_without_names_says_so(tmp_path: Path) -> None:
    assert "the model has none" in str(refusal(tmp_path, inputs(tensor("x", 3)), dims={"batch": 1}))


def test_a_long_list_of_names_is_shortened(tmp_path: Path) -> None:
    error = refusal(tmp_path, inputs(*(tensor(f"x{k}", 1) for k in range(20))), values={"x": "1"})
    assert "'x11', ..." in str(error)
    assert "'x12'" not in str(error)


@pytest.mark.parametrize(
    ("dims", "fix"),
    [
        (("batch", "seq"), "bind it with --dim batch=N --dim seq=N"),
        (("batch", "?"), "bind it with --shape x=NxN"),
        ((2, None, "seq"), "bind it with --shape x=2xNxN"),
        ((-1, 5), "bind it with --shape x=Nx5"),
        ((0, 5), "bind it with --shape x=Nx5"),
    ],
)
def test_what_is_open_is_refused_with_the_flags_that_bind_it(tmp_path: Path, dims: tuple[Any, ...], fix: str) -> None:
    """spec: T10.6"""
    error = refusal(tmp_path, inputs(tensor("x", *dims)))
    assert (error.code_id, error.place, error.fix) == ("INVALID_IR_SHAPES", "input 'x'", fix)


def test_all_flags_that_are_missing_are_named_at_once(tmp_path: Path) -> None:
    error = refusal(tmp_path, OPEN)
    assert error.fix == "bind it with --dim batch=N --dim seq=N"
    assert refusal(tmp_path, OPEN, dims={"batch": 1}).fix == "bind it with --dim seq=N"


@pytest.mark.parametrize(
    ("dtype", "dims", "text", "shape"),
    [
        (TensorProto.INT64, (), "16000", ()),
        (TensorProto.INT64, (1,), "16000", (1,)),
        (TensorProto.INT32, ("n",), " 1, 2 ,3 ", (3,)),
        (TensorProto.INT32, ("n",), "[1,2,3]", (3,)),
        (TensorProto.INT32, None, "7", ()),
        (TensorProto.INT32, None, "[7]", (1,)),
        (TensorProto.UINT8, (), "255", ()),
        (TensorProto.INT8, (), "-128", ()),
        (TensorProto.FLOAT, (2,), "1e3,-0.5", (2,)),
        (TensorProto.FLOAT16, (), "65504", ()),
        (TensorProto.DOUBLE, (), "inf", ()),
        (TensorProto.BOOL, (3,), "true,False,1", (3,)),
    ],
)
def test_a_value_is_read_in_the_type_of_its_input(
    tmp_path: Path, dtype: int, dims: tuple[Any, ...] | None, text: str, shape: tuple[int, ...]
) -> None:
    """spec: T10.6"""
    model = inputs(helper.make_tensor_value_info("v", dtype, dims))
    found = resolved(tmp_path, model, values={"v": text})
    assert found.sizes["v"][0] == shape
    assert dict(found.bindings.values) == {"v": text}


@pytest.mark.parametrize(
    ("dtype", "dims", "text", "words"),
    [
        (TensorProto.INT64, (), "1.5", "expected a value of type int64, got '1.5'"),
        (TensorProto.INT64, (), "", "expected a value of type int64, got ''"),
        (TensorProto.INT64, (), str(1 << 63), "expected a value of type int64"),
        (TensorProto.UINT8, (), "-1", "expected a value of type uint8, got '-1'"),
        (TensorProto.UINT8, (), "256", "expected a value of type uint8, got '256'"),
        (TensorProto.FLOAT16, (), "1e6", "expected a value of type float16, got '1e6'"),
        (TensorProto.FLOAT, (), "fast", "expected a value of type float32, got 'fast'"),
        (TensorProto.BOOL, (), "yes", "expected a value of type bool, got 'yes'"),
        (TensorProto.BFLOAT16, (), "1", "a value of type bfloat16 cannot be given"),
        (TensorProto.INT64, (), "1,2", "expected 0 dimensions, got 2"),
        (TensorProto.INT64, (3,), "1,2", "2 has the dimension 2, but the model states 3"),
        (TensorProto.INT64, (1, 1), "1", "expected an input of at most one dimension, got one of 2"),
    ],
)
def test_a_value_that_the_input_cannot_have_is_refused(
    tmp_path: Path, dtype: int, dims: tuple[int, ...], text: str, words: str
) -> None:
    """spec: T10.7"""
    error = refusal(tmp_path, inputs(tensor("v", *dims, dtype=dtype)), values={"v": text})
    assert (error.code_id, error.place) == ("INVALID_BINDING", "--value v")
    assert words in str(error)


def test_a_value_agrees_with_a_named_dimension(tmp_path: Path) -> None:
    model = inputs(tensor("v", "n", dtype=TensorProto.INT64))
    assert resolved(tmp_path, model, values={"v": "1,2"}, dims={"n": 2}).sizes["v"][0] == (2,)
    assert "'n' is bound twice: 3 and 2" in str(refusal(tmp_path, model, values={"v": "1,2"}, dims={"n": 3}))


@pytest.mark.parametrize("stated", [("open",), (6,), (5, 1), None])
def test_an_input_whose_default_has_another_shape_than_is_stated_is_refused(
    stated: tuple[Any, ...] | None, tmp_path: Path
) -> None:
    """A caller may give any shape, unless the user binds it. spec: T10.11, M3.2"""
    value = helper.make_tensor_value_info("w", TensorProto.FLOAT, stated)
    model = inputs(tensor("x", 3), value)
    model.graph.initializer.append(helper.make_tensor("w", TensorProto.FLOAT, [5], [0.0] * 5))
    assert "its default has the shape [5], but a caller may give another shape; bind it with --shape w=5" in str(
        refusal(tmp_path, model)
    )
    assert resolved(tmp_path, model, shapes={"w": (5,)}).sizes["w"] == ((5,), "float32")
    assert "6 has the dimension 6, but the model states 5" in str(refusal(tmp_path, model, shapes={"w": (6,)}))
    if stated == ("open",):
        assert resolved(tmp_path, model, dims={"open": 5}).sizes["w"] == ((5,), "float32")
        assert "its default has the shape [5]" in str(refusal(tmp_path, model, dims={"open": 4}))
    value.CopyFrom(tensor("w", 5))
    model.graph.input[1].CopyFrom(value)
    assert resolved(tmp_path, model).sizes["w"] == ((5,), "float32")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (helper.make_tensor_value_info("x", TensorProto.STRING, [1]), "its element type is STRING"),
        (helper.make_tensor_value_info("x", TensorProto.FLOAT6E2M3, [1]), "its element type is FLOAT6E2M3"),
        (helper.make_tensor_value_info("x", 99, [1]), "its element type is 99"),
        (helper.make_tensor_value_info("x", TensorProto.UNDEFINED, [1]), "states no element type"),
        (helper.make_value_info("x", onnx.TypeProto()), "states no element type"),
        (helper.make_tensor_sequence_value_info("x", TensorProto.FLOAT, [1]), "it is a sequence, not a dense tensor"),
        (helper.make_sparse_tensor_value_info("x", TensorProto.FLOAT, [1]), "it is a sparse tensor"),
        (
            helper.make_value_info("x", helper.make_optional_type_proto(helper.make_tensor_type_proto(1, [1]))),
            "it is a optional",
        ),
        (
            helper.make_value_info("x", helper.make_map_type_proto(7, helper.make_tensor_type_proto(1, [1]))),
            "it is a map, not a dense tensor",
        ),
    ],
)
def test_what_is_no_dense_tensor_of_numbers_is_refused_by_name(
    tmp_path: Path, value: onnx.ValueInfoProto, words: str
) -> None:
    """spec: T9.2"""
    error = refusal(tmp_path, inputs(value))
    assert (error.code_id, error.place) == ("INVALID_IR_SHAPES", "input 'x'")
    assert words in str(error)


def test_a_size_beyond_64_bits_is_refused_by_name(tmp_path: Path) -> None:
    """spec: A1.3"""
    most = (1 << 62) - 1
    assert resolved(tmp_path, inputs(tensor("x", "n")), dims={"n": most}).sizes["x"] == ((most,), "float32")
    for dims in ({"n": 1 << 62}, {"n": (1 << 63) - 1}):
        error = refusal(tmp_path, inputs(tensor("x", "n")), dims=dims)
        assert (error.code_id, error.place) == ("ALLOCATION_OVERFLOW", "input 'x'")


def test_dimensions_beyond_64_bits_beside_a_zero_are_refused(tmp_path: Path) -> None:
    error = refusal(tmp_path, inputs(tensor("x", "a", "b", "c")), shapes={"x": (0, 1 << 40, 1 << 40)})
    assert error.code_id == "ALLOCATION_OVERFLOW"


def test_bindings_that_say_nothing_new_are_accepted(tmp_path: Path) -> None:
    assert resolved(tmp_path, model_of("main (float[3] x) => (y) { y = Relu (x) }"), shapes={"x": (3,)}).sizes["x"]
