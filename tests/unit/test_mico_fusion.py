"""Batch normalization folded into convolutions of an ONNX graph, and where it is left. spec: MC8.5"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import helper
from onnx.reference import ReferenceEvaluator

from tmmu import examples
from tmmu.core.errors import TmmuError
from tmmu.examples import weights
from tmmu.examples.graph import OnnxGraph
from tmmu.mico.fusion import fuse_batch_normalizations

X = np.random.default_rng(0).normal(size=(2, 3, 5, 5)).astype(np.float32)


def normalized(graph: OnnxGraph, value: str, name: str, result: str | None = None) -> str:
    parts = [graph.weight(f"{name}.{part}", (4,)) for part in ("scale", "shift", "mean", "variance")]
    return graph.node("BatchNormalization", value, *parts, result=result, epsilon=0.01)


def network(*, bias: bool = True, end: str = "") -> OnnxGraph:
    """A convolution, its normalization, and what else reads one of them."""
    graph = OnnxGraph("normalized")
    graph.input("x", X.shape)
    operands = ["x", graph.weight("weight", (4, 3, 3, 3)), *([graph.weight("bias", (4,))] * bias)]
    value = graph.node("Conv", *operands, result="conv")
    value = normalized(graph, value, "norm", "normal")
    if end == "both":
        value = graph.node("Add", value, "conv")
    elif end == "shared":
        graph.node("Conv", *operands, result="again")
        value = graph.node("Add", value, "again")
    elif end == "given":
        graph.output("conv", (2, 4, 3, 3))
    elif end == "computed":
        value = normalized(graph, graph.node("Neg", value), "second")
    if end == "last":
        graph.output(value, (2, 4, 3, 3))
    else:
        graph.output(graph.node("Relu", value, result="y"), (2, 4, 3, 3))
    return graph


def model(graph: OnnxGraph) -> onnx.ModelProto:
    return weights.with_weights(graph.model(), 5, "")[0]


def run(made: onnx.ModelProto) -> list[NDArray[np.float32]]:
    return list(ReferenceEvaluator(made).run(None, {"x": X}))


def operators(made: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in made.graph.node]


@pytest.mark.parametrize("end", ["", "last"])
@pytest.mark.parametrize("bias", [True, False])
def test_a_normalization_is_folded_and_the_results_stay(bias: bool, end: str) -> None:
    """spec: MC8.5"""
    made = model(network(bias=bias, end=end))
    before = made.SerializeToString()
    fused = fuse_batch_normalizations(made)
    onnx.checker.check_model(fused)
    assert operators(fused) == ["Conv"] + ["Relu"] * (end == "")
    assert len(fused.graph.initializer) == 2
    assert made.SerializeToString() == before
    for one, other in zip(run(made), run(fused), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    assert fused.graph.node[0].output[0] == ("normal" if end == "last" else "conv")


@pytest.mark.parametrize("end", ["both", "shared", "given"])
def test_a_normalization_stays_where_something_else_reads_the_convolution_or_its_weights(end: str) -> None:
    """spec: MC8.5"""
    made = model(network(end=end))
    fused = fuse_batch_normalizations(made)
    assert fused == made


def test_a_normalization_of_something_else_stays() -> None:
    fused = fuse_batch_normalizations(model(network(end="computed")))
    assert operators(fused) == ["Conv", "Neg", "BatchNormalization", "Relu"]


def test_a_normalization_of_a_training_stays() -> None:
    made = model(network())
    made.graph.node[1].attribute.append(helper.make_attribute("training_mode", 1))
    assert operators(fuse_batch_normalizations(made)) == ["Conv", "BatchNormalization", "Relu"]


def test_what_a_body_reads_keeps_its_name() -> None:
    """The body of a branch reads the convolution in one graph, and the normalization in another."""
    for read, expected in (("conv", ["Conv", "BatchNormalization", "If"]), ("normal", ["Conv", "If"])):
        made = model(network(end="last"))
        relu, given = helper.make_node("Relu", [read], ["r"]), helper.make_empty_tensor_value_info("r")
        body = helper.make_graph([relu], "b", [], [given])
        true = helper.make_tensor("true", onnx.TensorProto.BOOL, (), [True])
        made.graph.initializer.append(true)
        made.graph.node.append(helper.make_node("If", ["true"], ["y"], then_branch=body, else_branch=body))
        del made.graph.output[:]
        made.graph.output.append(helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2, 4, 3, 3]))
        fused = fuse_batch_normalizations(made)
        assert operators(fused) == expected
        np.testing.assert_allclose(run(made)[0], run(fused)[0], rtol=1e-5, atol=1e-6)


def test_values_that_are_not_there_are_refused() -> None:
    with pytest.raises(TmmuError) as refused:
        fuse_batch_normalizations(network().model())
    assert (refused.value.code_id, refused.value.place) == ("INVALID_IR", "initializer 'norm.scale'")


def test_a_graph_without_normalizations_is_as_it_was() -> None:
    made = examples.model("mico-lenet")
    assert fuse_batch_normalizations(made) == made
