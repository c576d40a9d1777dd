"""Layers of 8 bits: what a scheme may say, and the integers that stand for a layer and stay until the next.

spec: MC8.6, MC8.7, MC8.10 to MC8.12
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import numpy_helper

from tests.support.integer_reference import reference
from tmmu import examples
from tmmu.cli.entry import run as tmmu
from tmmu.core.errors import TmmuError
from tmmu.examples import weights
from tmmu.examples.graph import OnnxGraph
from tmmu.mico.integers import quantize_model
from tmmu.mico.quantization import Ranges, bits_of, layers_of, observe_ranges


def opset19(graph: OnnxGraph) -> onnx.ModelProto:
    """With weights, for operators that onnx can evaluate; the graphs below mean the same there."""
    made = weights.with_weights(graph.model(), 3, "")[0]
    made.opset_import[0].version, made.ir_version = 19, 9
    return made


def network() -> OnnxGraph:
    """A layer of each kind, one operand that two of them read, and a product that is no layer."""
    graph = OnnxGraph("layers")
    graph.input("x", (1, 2, 4, 4))
    one, other = (
        graph.node("Conv", "x", graph.weight(f"{name}.weight", (3, 2, 3, 3)), *more, result=name, pads=[1] * 4)
        for name, more in (("first", [graph.weight("first.bias", (3,))]), ("second", []))
    )
    value = graph.node("Flatten", graph.node("Relu", graph.node("Add", one, other)))
    value = graph.node(
        "Gemm", value, graph.weight("rows", (5, 48)), graph.weight("rows.bias", (5,)), result="third", transB=1
    )
    value = graph.node("Gemm", value, graph.weight("columns", (5, 4)), result="fourth")
    value = graph.node("MatMul", value, graph.weight("matrix", (4, 4)), result="fifth")
    value = graph.node("Gemm", value, graph.weight("half", (4, 4)), result="sixth", alpha=0.5)
    graph.node("MatMul", graph.node("Transpose", value, perm=[1, 0]), value, result="y")
    graph.output("y", (4, 4))
    return graph


X = np.random.default_rng(1).normal(size=(1, 2, 4, 4)).astype(np.float32)


def run(made: onnx.ModelProto, x: NDArray[np.float32] = X) -> NDArray[np.float32]:
    result: NDArray[np.float32] = reference(made).run(None, {"x": x})[0]
    return result


def ranges_of(made: onnx.ModelProto, *inputs: NDArray[np.float32]) -> Ranges:
    found: Ranges = {}
    for x in inputs or (X,):
        observe_ranges(made, {"x": x}, found)
    return found


def test_layers_are_products_with_stored_weights() -> None:
    """spec: MC8.6"""
    found = layers_of(network().model().graph)
    assert [(layer.node.output[0], layer.weight, layer.bias) for layer in found] == [
        ("first", "first.weight", "first.bias"), ("second", "second.weight", ""), ("third", "rows", "rows.bias"),
        ("fourth", "columns", ""), ("fifth", "matrix", ""),
    ]  # fmt: skip
    counts = {name: len(layers_of(examples.model(f"mico-{name}").graph)) for name in ("mlp", "lenet", "vgg", "resnet8")}
    assert counts == {"mlp": 4, "lenet": 5, "vgg": 7, "resnet8": 13}


@pytest.mark.parametrize(
    ("scheme", "place"),
    [
        ([[8, 8]], "two lists"), ([[8], [8]], "of 2"), ([[8, 8], [8]], "of 2"), ([[8, 4], [8, 4]], "layer 1"),
        ([[8, 8], [32, 8]], "layer 0"), ([[0, 8], [0, 8]], "layer 0"),
    ],
)  # fmt: skip
def test_a_scheme_that_no_kernel_has_is_refused(scheme: list[list[int]], place: str) -> None:
    """spec: MC8.6"""
    with pytest.raises(TmmuError) as refused:
        bits_of(scheme, 2)
    assert refused.value.code_id == "INVALID_BINDING"
    assert place in f"{refused.value.what}; {refused.value.fix}"


def test_a_layer_of_32_bits_stays_as_it_is() -> None:
    made = opset19(network())
    assert quantize_model(made, [32] * 5, {}) == made


def test_operators_without_integers_are_refused() -> None:
    made = opset19(network())
    made.opset_import[0].version = 9
    assert quantize_model(made, [32] * 5, {}) == made
    with pytest.raises(TmmuError, match="version 9"):
        quantize_model(made, [8] * 5, {})


def test_what_is_not_float32_is_no_layer() -> None:
    graph = OnnxGraph("half")
    graph.node("MatMul", graph.input("x", (1, 2), "float16"), graph.weight("w", (2, 2), "float16"), result="y")
    assert layers_of(graph.model().graph) == []


def test_layers_of_8_bits_are_integer_products() -> None:
    """spec: MC8.7, MC8.10"""
    made = opset19(network())
    result = quantize_model(made, [8] * 5, ranges_of(made))
    onnx.checker.check_model(result, full_check=True)
    operators = [node.op_type for node in result.graph.node]
    assert operators.count("QLinearConv") == 4
    assert operators.count("QLinearMatMul") == 1
    assert operators.count("QuantizeLinear") == 1, "only the input is quantized, and once"
    assert operators.count("DequantizeLinear") == 1, "only the product that is no layer reads float32"
    assert [op for op in operators if op in ("Conv", "Gemm")] == ["Gemm"], "the product by a half is no layer"
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in result.graph.initializer}
    assert "rows" not in stored
    for node in result.graph.node:
        if node.op_type in ("QLinearConv", "QLinearMatMul"):
            weight = stored[node.input[3]]
            assert (weight.dtype, int(np.abs(weight.astype(int)).max())) == (np.dtype(np.int8), 127)
            assert {int(stored[node.input[k]]) for k in (2, 5, 7)} == {0}
    exact, rounded = run(made), run(result)
    assert 0 < float(np.abs(exact - rounded).max()) < 0.15 * float(np.abs(exact).max())


def between_layers() -> OnnxGraph:
    """Every operator that keeps integers, and beside it one that looks like it and does not."""
    graph = OnnxGraph("between")
    x = graph.input("x", (1, 2, 8, 8))
    one = graph.node(
        "Relu", graph.node("Conv", x, graph.weight("one.weight", (3, 2, 1, 1)), result="one"), result="relu"
    )
    two = graph.node("Conv", x, graph.weight("two.weight", (3, 2, 1, 1)), result="two")
    both = graph.node("Concat", one, graph.node("Transpose", two, perm=[0, 1, 2, 3]), axis=1, result="joined")
    both = graph.node("Add", both, graph.node("Identity", both), result="sum")
    both = graph.node("MaxPool", both, kernel_shape=[2, 2], strides=[2, 2], result="most")
    graph.node("Add", both, graph.constant([1.0], "float32"), result="more")
    kept = graph.node("AveragePool", both, kernel_shape=[2, 2], pads=[1] * 4, count_include_pad=1, result="kept")
    graph.node("AveragePool", both, kernel_shape=[2, 2], pads=[1] * 4, result="uncounted")
    whole = graph.node("Dropout", graph.node("GlobalAveragePool", kept, result="whole"), result="dropped")
    flat = graph.node("Unsqueeze", graph.node("Flatten", whole), graph.constant([0]))
    flat = graph.node("Squeeze", flat, graph.constant([0]), result="flat")
    graph.node("Gemm", flat, graph.weight("last", (6, 4)), graph.weight("bias", (1, 4)), result="y")
    for name, shape in (("y", (1, 4)), ("more", (1, 6, 4, 4)), ("uncounted", (1, 6, 5, 5)), ("relu", (1, 3, 8, 8))):
        graph.output(name, shape)
    return graph


def test_tensors_stay_int8_from_layer_to_layer() -> None:
    """What stays is at most one step of its scale away from float32, and what does not reads float32.

    spec: MC8.10, MC8.11
    """
    made = opset19(between_layers())
    x = np.random.default_rng(5).normal(size=(1, 2, 8, 8)).astype(np.float32)
    ranges = ranges_of(made, x)
    result = quantize_model(made, [8] * 3, ranges)
    onnx.checker.check_model(result)
    writers = {name: node.op_type for node in result.graph.node for name in node.output}
    stays = {name.removesuffix(".q8"): op for name, op in writers.items() if name.endswith(".q8")}
    expected = {"x": "QuantizeLinear", "relu": "Relu", "joined": "Concat", "sum": "QLinearAdd", "most": "MaxPool"}
    expected |= {"kept": "QLinearConv", "whole": "QLinearConv", "dropped": "Identity", "flat": "Squeeze"}
    assert expected.items() <= stays.items()
    assert (writers["more"], writers["uncounted"]) == ("Add", "AveragePool")
    floats = {name for name, op in writers.items() if op == "DequantizeLinear"}
    assert floats == {"most", "y", "relu"}, "each is converted once, and only if float32 is read"
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in result.graph.initializer}
    scales = {node.input[1] for node in result.graph.node if node.op_type == "DequantizeLinear"}
    assert all(float(stored[name]) > 0 for name in scales)
    joined = next(node for node in result.graph.node if node.output[0] == "joined.q8")
    of = {node.output[0]: node.input[6] for node in result.graph.node if node.op_type == "QLinearConv"}
    assert of["one.q8"] == of["two.q8"], f"what {list(joined.input)} are joined from has one scale"
    assert float(stored[of["one.q8"]]) == np.float32(max(ranges["relu"], ranges["two"]) / 127), "Relu clamps the rest"
    for exact, rounded in zip(reference(made).run(None, {"x": x}), reference(result).run(None, {"x": x}), strict=True):
        assert float(np.abs(exact - rounded).max()) < 0.06 * float(np.abs(exact).max())


def test_operators_older_than_int8_read_float32() -> None:
    """spec: MC8.10"""
    made = opset19(between_layers())
    made.opset_import[0].version = 13
    x = np.ones((1, 2, 8, 8), np.float32)
    ranges = ranges_of(opset19(between_layers()), x)
    result = quantize_model(made, [8] * 3, ranges)
    relu = next(node for node in result.graph.node if node.op_type == "Relu")
    assert list(relu.input) == ["one"], "Relu of version 13 takes floats only"


def test_a_bias_for_each_row_is_no_layer() -> None:
    graph = OnnxGraph("column")
    bias = graph.weight("bias", (2, 1))
    graph.node("Gemm", graph.input("x", (2, 2)), graph.weight("w", (2, 2)), bias, result="y")
    assert layers_of(graph.model().graph) == []


def test_an_example_is_quantized_by_one_run(tmp_path: Path) -> None:
    """spec: MC8.12"""
    for name in ("a.onnx", "b.onnx"):
        assert tmmu(["example", "mico-lenet", "--weights", "1", "--bits", "8", "-o", str(tmp_path / name)]) == 0
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    made = onnx.load(tmp_path / "a.onnx")
    assert [node.op_type for node in made.graph.node].count("DequantizeLinear") == 1
    for arguments in (["gpt2", "--weights", "1"], ["mico-lenet"]):
        assert tmmu(["example", *arguments, "--bits", "8", "-o", str(tmp_path / "c.onnx")]) == 2
    with pytest.raises(ValueError, match="no weights to convert"):
        examples.write("mico-lenet", tmp_path / "c.onnx", convert=lambda model: model)
    assert not (tmp_path / "c.onnx").exists()


def test_each_integer_is_the_nearest_of_its_scale() -> None:
    """One layer by hand: scales are 127ths, rounding is half to even, the bias is an integer. spec: MC8.7"""
    graph = OnnxGraph("one")
    graph.input("x", (1, 2))
    graph.node("Gemm", "x", graph.weight("w", (2, 2)), graph.weight("b", (2,)), result="y")
    graph.output("y", (1, 2))
    made = opset19(graph)
    w, b = np.array([[127, 2.5], [-63.5, 1]], np.float32), np.array([1000, -1000], np.float32)
    for tensor, value in zip(made.graph.initializer, (w, b), strict=True):
        tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))
    x = np.array([[127, 2]], np.float32)
    result = quantize_model(made, [8], ranges_of(made, x))
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in result.graph.initializer}
    assert stored["w.filters.q8"].reshape(2, 2).tolist() == [[127, -64], [2, 1]]
    assert stored["b.y.q32"].tolist() == [1000, -1000]
    assert float(stored["w.scale"]) == float(stored["x.scale"]) == 1.0
    largest = 127 * 127 - 63.5 * 2 + 1000
    step = float(stored["y.scale"])
    assert step == np.float32(largest / 127)
    expected = [round(v / step) * step for v in (127 * 127 - 64 * 2 + 1000, 127 * 2 + 2 - 1000)]
    np.testing.assert_allclose(run(result, x)[0], expected, rtol=1e-6)


def test_ranges_widen_with_every_run() -> None:
    """spec: MC8.7"""
    made = opset19(network())
    wide = ranges_of(made, X, 3 * X, X)
    assert wide["x"] == float(np.abs(3 * X).max())
    assert wide == ranges_of(made, 3 * X, X)
    assert all(wide[name] >= once for name, once in ranges_of(made).items())


def test_a_layer_of_zeros_has_a_scale() -> None:
    made = opset19(network())
    for tensor in made.graph.initializer:
        if tensor.name == "second.weight":
            tensor.CopyFrom(numpy_helper.from_array(np.zeros((3, 2, 3, 3), np.float32), tensor.name))
    zeros = np.zeros_like(X)
    result = quantize_model(made, [32, 8, 32, 32, 32], ranges_of(made, zeros))
    np.testing.assert_array_equal(run(made, zeros), run(result, zeros))


def test_names_that_are_taken_are_left_alone() -> None:
    graph = OnnxGraph("taken")
    graph.input("x", (1, 2))
    graph.node("MatMul", "x", graph.weight("zero", (2, 2)), result="x.q8")
    graph.output("x.q8", (1, 2))
    made = opset19(graph)
    x = np.array([[1, 2]], np.float32)
    result = quantize_model(made, [8], ranges_of(made, x))
    onnx.checker.check_model(result, full_check=True)
    np.testing.assert_allclose(run(result, x), run(made, x), rtol=0.05, atol=0.02)
