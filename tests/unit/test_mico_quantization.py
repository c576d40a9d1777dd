"""Layers of 8 bits: what a scheme may say, and the integers that stand for a layer. spec: MC8.6, MC8.7"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

from tmmu import examples
from tmmu.core.errors import TmmuError
from tmmu.examples import weights
from tmmu.examples.graph import OnnxGraph
from tmmu.mico.quantization import Ranges, bits_of, layers_of, observe_ranges, quantize_model


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
    result: NDArray[np.float32] = ReferenceEvaluator(made).run(None, {"x": x})[0]
    return result


def ranges_of(made: onnx.ModelProto, *inputs: NDArray[np.float32]) -> Ranges:
    found: Ranges = {}
    for x in inputs or (X,):
        observe_ranges(made, layers_of(made.graph), {"x": x}, found)
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
    """spec: MC8.7"""
    made = opset19(network())
    result = quantize_model(made, [8] * 5, ranges_of(made))
    onnx.checker.check_model(result, full_check=True)
    operators = [node.op_type for node in result.graph.node]
    assert operators.count("QLinearConv") == 2
    assert operators.count("QLinearMatMul") == 3
    assert operators.count("QuantizeLinear") == 4, "the operand of both convolutions is quantized once"
    assert [op for op in operators if op in ("Conv", "Gemm")] == ["Gemm"], "the product by a half is no layer"
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in result.graph.initializer}
    assert "rows" not in stored
    for node in result.graph.node:
        if node.op_type.startswith("QLinear"):
            weight = stored[node.input[3]]
            assert (weight.dtype, int(np.abs(weight.astype(int)).max())) == (np.int8, 127)
            assert {int(stored[node.input[k]]) for k in (2, 5, 7)} == {0}
    exact, rounded = run(made), run(result)
    assert 0 < float(np.abs(exact - rounded).max()) < 0.15 * float(np.abs(exact).max())


def test_each_integer_is_the_nearest_of_its_scale() -> None:
    """One layer by hand: scales are 127ths, rounding is half to even, the bias comes after. spec: MC8.7"""
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
    assert stored["w.q8"].tolist() == [[127, 2], [-64, 1]]
    assert float(stored["w.scale"]) == float(stored["x.scale"]) == 1.0
    largest = 127 * 127 - 63.5 * 2
    assert float(stored["y.product.scale"]) == np.float32(largest / 127)
    step = float(stored["y.product.scale"])
    expected = [
        round(v / step) * step + bias for v, bias in zip((127 * 127 - 64 * 2, 127 * 2 + 2), b.tolist(), strict=True)
    ]
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
