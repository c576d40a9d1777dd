"""The texts of the C: literals that are the values, files, calls in lines, and functions that are needed alone.

spec: MC4.1, MC4.2, MC4.5, MC4.10, MC5.1, MC5.2, MC5.4
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tmmu.mico import weights
from tmmu.mico.kernels import calls_of
from tmmu.mico.kernels.functions import TEMPLATES, kernels, text_of
from tmmu.mico.kernels.node import KernelCall, NodeCall, NoKernel, Operand, StoredWeight
from tmmu.mico.kernels.products import pack_columns, pack_filters
from tmmu.mico.names import PLAIN
from tmmu.mico.source import kernels_header, kernels_source
from tmmu.mico.weights import Constant, Constants


def constant(array: np.ndarray) -> Constant:
    return Constant("weight_w", "data_of_weight_w", "w", array.shape, array.dtype.name, lambda: array)


def literals(array: np.ndarray) -> list[str]:
    """The numbers between the braces."""
    text = weights.source([constant(array)], as_file=False)
    return text[text.index("= {") + 3 : text.index("};")].replace("\n", "").replace(" ", "").rstrip(",").split(",")


def test_literals_of_floats_are_the_values() -> None:
    random = np.random.default_rng(0)
    drawn = random.integers(0, 1 << 32, 3000, np.uint32).view(np.float32)
    values = np.concatenate([drawn[np.isfinite(drawn)], np.float32([0, -0.0, 1e-45, 3.4028235e38])])
    read = np.array([np.float32(text.removesuffix("F")) for text in literals(values)])
    assert np.array_equal(read.view(np.uint32), values.view(np.uint32))
    assert literals(np.float32([np.nan, np.inf, -np.inf])) == ["NAN", "INFINITY", "-INFINITY"]
    assert literals(np.array([0.1, 1e300])) == ["0.1", "1e+300"]


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.array([-(1 << 63), (1 << 63) - 1]), ["-9223372036854775807LL-1", "9223372036854775807LL"]),
        (np.array([(1 << 64) - 1], np.uint64), ["18446744073709551615ULL"]),
        (np.array([-128, 127], np.int8), ["-128", "127"]),
        (np.array([True, False]), ["1", "0"]),
        (np.array([1.0], np.float16), ["15360"]),
        (np.array([1.0], ml_dtypes.bfloat16), ["16256"]),
        (np.zeros((0, 3), np.float32), ["0"]),
        (np.zeros((0,), np.int64), ["0LL"]),
    ],
)
def test_literals_of_other_types(array: np.ndarray, expected: list[str]) -> None:
    assert literals(array) == expected


def test_a_file_has_each_array_at_its_aligned_place() -> None:
    arrays = [constant(np.arange(5, dtype=np.int8)), constant(np.arange(3, dtype=">f4")), constant(np.ones(2))]
    data = b"".join(weights.content(arrays))
    places = weights.offsets(arrays)
    assert places == [0, 16, 32]
    assert data[16:28] == np.arange(3, dtype="<f4").tobytes()
    assert len(data) == 48


def test_equal_constants_are_stored_once() -> None:
    held = Constants()
    one = held.literal(np.array([1, 2]))
    assert held.literal(np.array([1, 2])) == one
    assert held.literal(np.array([1, 2], np.int32)) != one
    assert held.add("w", (2,), "float32", lambda: np.ones(2)) == held.add("w", (2,), "float32", lambda: np.ones(2))


@pytest.mark.parametrize("by_content", [False, True])
def test_a_weight_is_stored_once_for_each_order(by_content: bool) -> None:
    """spec: MC5.4"""
    held, array = Constants(by_content=by_content), np.arange(6, dtype=np.float32)
    weight = StoredWeight("w", lambda: array)
    backwards = held.pack(weight, "backwards", np.flip)
    assert held.pack(weight, "backwards", np.flip) == backwards
    rolled = held.pack(weight, "rolled", lambda given: np.roll(given, 1))
    assert len({backwards, rolled, held.add("w", (6,), "float32", lambda: array)}) == 3
    assert held.all[backwards].read().tolist() == [5, 4, 3, 2, 1, 0]
    assert (held.pack(StoredWeight("v", lambda: array), "backwards", np.flip) == backwards) == by_content
    other = held.pack(StoredWeight("w", lambda: array + 1), "backwards", np.flip)
    assert (other != backwards) == by_content, "a set may have two weights of one name"


@pytest.mark.parametrize("filters", [1, 15, 16, 17, 40])
def test_packed_weights_are_the_same_elements(filters: int) -> None:
    """spec: MC5.4"""
    weight = np.arange(2 * filters * 6).reshape(2 * filters, 3, 2)
    packed = pack_filters(weight, 2)
    assert sorted(packed.tolist()) == list(range(weight.size))
    block = packed[filters * 6 : filters * 6 + 6 * min(16, filters)].reshape(6, -1)
    np.testing.assert_array_equal(block, weight[filters : filters + 16].reshape(-1, 6).T, "the second group's first")
    matrix = np.arange(5 * filters).reshape(5, filters)
    packed = pack_columns(matrix, transposed=False)
    np.testing.assert_array_equal(packed, pack_columns(matrix.T, transposed=True))
    np.testing.assert_array_equal(packed[: 5 * min(16, filters)].reshape(5, -1), matrix[:, :16])
    assert sorted(packed.tolist()) == list(range(matrix.size))


FRAMES = {
    ("conv_packed", "float32"): 4096, ("gemm", "float32"): 4096, ("mat_mul", "float32"): 4096,
    ("qlinear_conv_gathered", "int8", "int8", "int8"): 4096, ("conv_packed", "float64"): 8192,
    ("gemm", "float64"): 8192, ("mat_mul", "float64"): 8192,
}  # fmt: skip


def test_kernels_have_small_frames(tmp_path: Path) -> None:
    """spec: MC4.10"""
    for most in (4096, 8192):
        calls = [KernelCall(name[0], name[1:], ()) for name, bytes_ in FRAMES.items() if bytes_ == most]
        declared, defined = kernels(calls)
        (tmp_path / "kernels.h").write_text(kernels_header(declared, PLAIN))
        (tmp_path / "kernels.c").write_text(kernels_source(defined, PLAIN))
        for limit, fits in ((most, True), (most // 8, False)):
            command = ["gcc", "-std=c99", "-O3", "-Werror", f"-Wframe-larger-than={limit}", "-c", "kernels.c"]
            done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
            assert (done.returncode == 0) == fits, done.stderr


def test_a_function_is_written_once_for_its_types_with_what_it_uses() -> None:
    calls = [KernelCall("relu", ("float32",), ()), KernelCall("relu", ("float32",), ()), KernelCall("memcpy", (), ())]
    declared, defined = kernels([*calls, KernelCall("relu", ("float16",), ())])
    assert declared.count("void relu_f32(") == declared.count("void relu_f16(") == 1
    assert [defined.count(f" {name}(") for name in ("load_f32", "store_f32", "load_f16", "of_half", "half_of")] == [
        2, 2, 2, 2, 2,
    ]  # fmt: skip
    assert "load_i64" not in defined
    assert "place(" not in defined


def test_every_template_is_plain_c_for_every_type() -> None:
    for name in TEMPLATES:
        text = text_of(KernelCall(name, ("float32", "int64", "int8"), ()))
        assert "$" not in text
        assert f"void {name}_f32_i64_i8(" in text


def node(op: str, *operands: Operand | None, results: int = 1, version: int = 18, **attributes: object) -> NodeCall:
    y = [Operand(f"y{k}", (2, 3), "float32") for k in range(results)]
    return NodeCall(op, version, attributes, operands, y, lambda array: f"literal{array.tolist()}")


X, B = Operand("x", (2, 3), "float32"), Operand("b", (2, 3), "bool")
PLACES, W, S = Operand("i", (2,), "int64"), Operand("w", (1, 1), "float32"), Operand("s", (1, 1, 1), "float32")


def test_a_view_is_not_written_where_it_lies_at_its_operand() -> None:
    """spec: MC3.5"""
    elsewhere, same = node("Identity", X), node("Identity", Operand("y0", (6,), "float32"))
    assert calls_of(elsewhere) == [KernelCall("memcpy", (), ("y0", "x", "24"))]
    assert calls_of(same) == []


def test_nothing_is_computed_for_results_without_elements() -> None:
    empty = Operand("y", (0, 3), "float32")
    assert calls_of(NodeCall("Relu", 18, {}, [X], [empty], lambda _: "")) == []
    assert calls_of(NodeCall("Relu", 18, {}, [X], [None], lambda _: "")) == []


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (node("Det", X), "its operator has no kernel"),
        (node("Sin", B), "no kernel for bool"),
        (node("Add", X), "operand 1 is absent"),
        (node("Add", X, Operand("z", (4,), "float32")), "not broadcast"),
        (node("Conv", Operand("x", (1, 2, 3, 3, 3), "float32"), Operand("w", (2, 2, 1, 1, 1), "float32")), "3 spatial"),
        (node("Dropout", X, None, Operand("t", (), "bool")), "it may drop elements"),
        (node("ReduceMean", X, Operand("axes", (1,), "int64")), "axes are computed"),
        (node("Gather", X, Operand("i", (1,), "int64"), axis=5), "no axis 5"),
        (node("BatchNormalization", X, X, X, X, X, training_mode=1), "training"),
        (node("LayerNormalization", X, Operand("s", (1,), "float32")), "broadcast to 3"),
        (node("MaxPool", Operand("x", (1, 1, 4, 4), "float32"), results=2, storage_order=1), "columns"),
        (node("DequantizeLinear", Operand("x", (2,), "int8"), Operand("s", (2,), "float32"), block_size=1), "blocks"),
        (node("ScatterND", X, PLACES, X, reduction="mean"), "reduction mean"),
        (node("TopK", Operand("x", (2, 0), "float32"), PLACES), "no elements"),
        (node("Resize", X, antialias=1), "antialias"),
        (node("Resize", X, keep_aspect_ratio_policy="not_larger"), "ratio"),
        (node("Resize", Operand("x", (0, 3), "float32")), "no elements"),
        (node("Resize", X, None, Operand("s", (2,), "float32")), "scales are computed"),
        (node("Resize", W, coordinate_transformation_mode="tf_crop_and_resize"), "coordinates"),
        (node("Resize", W, mode="area"), "mode area"),
        (node("Resize", Operand("w", (1, 1), "int8"), mode="linear"), "no kernel for int8"),
        (node("LSTM", S, W, W, results=2), "Y_c"),
        (node("GRU", S, W, W), "Y_h"),
        (node("GRU", S, W, W, layout=1), "layout"),
        (node("RNN", S, W, W, activations=[b"Relu"]), "activations Relu"),
        (node("RNN", S, W, W, None, PLACES), "several lengths"),
        (node("RNN", Operand("s", (0, 1, 1), "float32"), W, W), "no steps"),
    ],
)  # fmt: skip
def test_what_has_no_kernel_is_refused_with_a_reason(case: NodeCall, words: str) -> None:
    with pytest.raises(NoKernel, match=words):
        calls_of(case)


def test_attributes_of_old_operators_are_read() -> None:
    """Softmax before opset 13, Clip and Slice by attributes, a sum over all that is left out."""
    (softmax,) = calls_of(node("Softmax", Operand("x", (2, 3, 4), "float32"), version=11, axis=1))
    assert softmax.arguments[2:] == ("2", "12", "1")
    (clip,) = calls_of(node("Clip", X, version=6, min=0.0, max=6.0))
    assert clip.arguments[3:] == ("literal[0.0]", "literal[6.0]")
    (pixels,) = calls_of(node("Resize", W, Operand("s", (2,), "float32", lambda: np.float32([2, 3])), version=10))
    assert pixels.arguments[-1] == "literal[0, 0, 0, 0, 0]"
    (cut,) = calls_of(node("Slice", Operand("x", (4, 3), "float32"), version=9, starts=[1], ends=[3], axes=[0]))
    assert cut.arguments[2] == "3"
