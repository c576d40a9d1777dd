"""Weights of examples: from the seed alone, exact in every type, and read by onnx. spec: MC7.1 to MC7.6"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.support.seeded import element, philox
from tmmu import examples
from tmmu.cli.entry import run
from tmmu.examples import draws, weights
from tmmu.examples.graph import DTYPES, OnnxGraph


def network(dtype: str) -> OnnxGraph:
    """Every use of a weight that has a width of its own."""
    graph = OnnxGraph("uses")
    graph.input("x", (1, 6), dtype)
    value = graph.node("MatMul", "x", graph.weight("by_columns", (6, 4), dtype))
    value = graph.node(
        "Gemm", value, graph.weight("by_rows", (5, 4), dtype), graph.weight("bias", (5,), dtype), transB=1
    )
    value = graph.node("Gemm", value, graph.weight("plain", (5, 8), dtype))
    value = graph.node("Mul", graph.weight("factor", (8,), dtype), value)
    value = graph.node("Reshape", value, graph.constant([1, 2, 2, 2]))
    value = graph.node("ConvTranspose", value, graph.weight("up", (2, 4, 2, 2), dtype))
    graph.node("Conv", value, graph.weight("grouped", (6, 2, 3, 3), dtype), result="y", group=2, pads=[1] * 4)
    graph.output("y", (1, 6, 3, 3), dtype)
    return graph


WIDTHS = {
    "by_columns": (Fraction(6, 6), 0), "by_rows": (Fraction(6, 4), 0), "bias": (Fraction(1, 64), 0),
    "plain": (Fraction(6, 5), 0), "factor": (Fraction(1, 16), 1), "up": (Fraction(6, 2), 0),
    "grouped": (Fraction(6, 18), 0),
}  # fmt: skip


@pytest.mark.parametrize(("dtype", "bits"), [("float32", 16), ("float16", 11), ("bfloat16", 8)])
def test_each_element_is_what_the_sentences_say(dtype: str, bits: int) -> None:
    """spec: MC7.1, MC7.2, MC7.3"""
    filled, data = weights.with_weights(network(dtype).model(), 2**64 - 1, "unused")
    assert data is None
    stored = [tensor for tensor in filled.graph.initializer if tensor.name in WIDTHS]
    assert len(stored) == len(WIDTHS)
    for k, tensor in enumerate(stored):
        found = numpy_helper.to_array(tensor).astype(np.float64).ravel()[:32]
        square, middle = WIDTHS[tensor.name]
        expected = [float(element(u, square, bits, middle)) for u in philox(2**64 - 1, k)]
        assert found.tolist() == expected[: len(found)], tensor.name


def test_long_weights_go_on_where_a_block_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def whole() -> list[bytes]:
        return [
            tensor.raw_data for tensor in weights.with_weights(network("float32").model(), 3, "")[0].graph.initializer
        ]

    before = whole()
    monkeypatch.setattr(draws, "BLOCK", 8)
    assert whole() == before


def test_a_weight_of_bools_is_a_causal_mask() -> None:
    """spec: MC7.3"""
    graph = OnnxGraph("mask")
    graph.node("Not", graph.weight("mask", (1, 4, 4), "bool"), result="y")
    filled, _ = weights.with_weights(graph.model(), 0, "")
    assert numpy_helper.to_array(filled.graph.initializer[0]).astype(int).sum(axis=2).tolist() == [[1, 2, 3, 4]]


def test_every_type_of_a_weight_has_its_bits() -> None:
    assert {DTYPES[name] for name in ("float32", "float16", "bfloat16")} == weights.BITS.keys()


@pytest.mark.parametrize("name", ["mico-lenet", "transformer-block", "loop"])
def test_an_example_with_weights_runs(name: str, tmp_path: Path) -> None:
    """Results are numbers that neither vanish nor grow; another seed gives others. spec: MC7.4"""
    found = []
    for seed in (1, 2, 1):
        written = examples.write(name, tmp_path / f"{seed}.onnx", seed)
        assert (tmp_path / f"{seed}.onnx.data").exists() == (name == "transformer-block") == (len(written) == 2)
        model = onnx.load(tmp_path / f"{seed}.onnx")
        onnx.checker.check_model(model)
        rng = np.random.default_rng(0)
        given = {
            value.name: rng.normal(size=[d.dim_value for d in value.type.tensor_type.shape.dim]).astype(np.float32)
            for value in model.graph.input
        }
        found.append(ReferenceEvaluator(model).run(None, given)[0])
    one, other, again = found
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)
    for result in (one, other):
        assert 0.05 < float(np.abs(result).max()) < 50


def test_an_example_of_a_block_is_all_float32() -> None:
    """ONNX Runtime has no MatMul of bfloat16. spec: MC7.6"""
    found = examples.model("transformer-block")
    assert {tensor.data_type for tensor in found.graph.initializer} == {TensorProto.FLOAT, TensorProto.INT64}
    assert {value.type.tensor_type.elem_type for value in found.graph.input} == {TensorProto.FLOAT}
    assert not [d for v in found.graph.input for d in v.type.tensor_type.shape.dim if not d.HasField("dim_value")]


@pytest.mark.parametrize(
    ("name", "seed"), [("text-plan", "1"), ("broken/peak-understated", "1"), ("loop", "-1"), ("loop", str(2**64))]
)
def test_a_seed_that_means_nothing_is_refused(
    name: str, seed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """spec: MC7.5"""
    assert run(["example", name, "-o", str(tmp_path / "m.onnx"), "--weights", seed]) == 2
    assert "seed" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
