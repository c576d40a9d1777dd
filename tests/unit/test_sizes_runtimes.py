"""Operators of ai.onnx.ml and onnxruntime: planner and verifier have each their own rule, and say the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from proofs.readers import operators as verifier
from proofs.readers.models.onnx import reference_of
from proofs.readers.models.sizes.table import RULES
from tests.support.onnx_files import refusal, resolved
from tmmu.core.dims.expressions import evaluate
from tmmu.onnx import table as reading

ML, MS, BLOCKS, LAST = "ai.onnx.ml", "com.microsoft", "com.microsoft.nchwc", "com.ms.internal.nhwc"
F, I8, I32, I64, U8 = TensorProto.FLOAT, TensorProto.INT8, TensorProto.INT32, TensorProto.INT64, TensorProto.UINT8
X = (F, ["n", 6])
TOKENS = (F, ["n", 5, 8])
IMAGE, IMAGE_LAST = (F, ["n", 8, 7, 9]), (F, ["n", 7, 9, 8])
SCALED = (F, []), (U8, [])
"""A scale and a zero point."""
HEADS = {"num_heads": 4, "kv_num_heads": 2}

CASES: list[tuple[str, str, list[Any], dict[str, Any], list[Any]]] = [
    (ML, "Binarizer", [X], {"threshold": 0.5}, [((3, 6), "float32")]),
    (ML, "Imputer", [X], {"imputed_value_floats": [1.0]}, [((3, 6), "float32")]),
    (ML, "Normalizer", [X], {"norm": "MAX"}, [((3, 6), "float32")]),
    (ML, "Scaler", [(I64, ["n", 6])], {"scale": [1.0]}, [((3, 6), "float32")]),
    (ML, "LinearRegressor", [X], {"targets": 2}, [((3, 2), "float32")]),
    (ML, "TreeEnsembleRegressor", [X], {"n_targets": 4}, [((3, 4), "float32")]),
    (ML, "TreeEnsembleClassifier", [X], {"classlabels_int64s": [0, 1]}, [((3,), "int64"), ((3, 2), "float32")]),
    (ML, "ArrayFeatureExtractor", [X, (I64, [2])], {}, [((3, 2), "float32")]),
    (ML, "ArrayFeatureExtractor", [(I32, [4]), (I64, ["n", 2])], {}, [((1, 6), "int32")]),
    (ML, "FeatureVectorizer", [X, (F, ["n", 2])], {"inputdimensions": [6, 2]}, [((3, 8), "float32")]),
    *((MS, op, [TOKENS, (F, [8])], {}, [((3, 5, 8), "float32")]) for op in ("BiasGelu", "FastGelu")),
    *((MS, op, [TOKENS], {}, [((3, 5, 8), "float32")]) for op in ("Gelu", "QuickGelu")),
    *(
        (MS, op, [(U8, ["n", 4]), (F, []), (U8, []), (F, []), (U8, [])], {}, [((3, 4), "uint8")])
        for op in ("QLinearSigmoid", "QLinearLeakyRelu")
    ),
    *(
        (MS, op, [TOKENS, TOKENS, (F, [8])], {}, [((3, 5, 8), "float32"), None, None, ((3, 5, 8), "float32")])
        for op in ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization")
    ),
    ("", "SimplifiedLayerNormalization", [TOKENS, (F, [8])], {}, [((3, 5, 8), "float32")]),
    (MS, "FusedMatMul", [TOKENS, (F, [7, 8])], {"transB": 1}, [((3, 5, 7), "float32")]),
    (MS, "FusedMatMul", [TOKENS, (F, ["n", 5, 7])], {"transA": 1}, [((3, 8, 7), "float32")]),
    (MS, "DynamicQuantizeMatMul", [TOKENS, (I8, [8, 7]), (F, [1])], {}, [((3, 5, 7), "float32")]),
    (MS, "MatMulIntegerToFloat", [(U8, ["n", 8]), (I8, [8, 7]), (F, []), (F, [])], {}, [((3, 7), "float32")]),
    (MS, "MatMulNBits", [TOKENS, (U8, [7, 1, 4]), (F, [7])], {"K": 8, "N": 7}, [((3, 5, 7), "float32")]),
    *(
        (MS, op, [(U8, ["n", 1]), (F, []), (U8, []), (U8, [4]), *[(F, []), (U8, [])] * 2], {}, [((3, 4), "uint8")])
        for op in ("QLinearAdd", "QLinearMul")
    ),
    (MS, "Attention", [TOKENS, (F, [8, 24]), (F, [24])], {"num_heads": 2}, [((3, 5, 8), "float32")]),
    (
        MS, "Attention", [TOKENS, (F, [8, 20]), (F, [20])], {"num_heads": 2, "qkv_hidden_sizes": [8, 8, 4]},
        [((3, 5, 4), "float32")],
    ),
    (
        MS, "MultiHeadAttention", [TOKENS, (F, ["n", 9, 8]), (F, ["n", 9, 6])], {"num_heads": 2},
        [((3, 5, 6), "float32")],
    ),
    (
        MS, "GroupQueryAttention", [TOKENS, (F, ["n", 5, 4]), (F, ["n", 5, 4]), None, None, (I32, ["n"]), (I32, [])],
        HEADS, [((3, 5, 8), "float32"), *[((3, 2, 5, 2), "float32")] * 2],
    ),
    (
        MS, "GroupQueryAttention", [(F, ["n", 5, 16]), None, None, None, None, (I32, ["n"]), (I32, [])], HEADS,
        [((3, 5, 8), "float32"), *[((3, 2, 5, 2), "float32")] * 2],
    ),
    (
        MS, "EmbedLayerNormalization", [(I32, ["n", 5]), None, (F, [9, 8]), (F, [6, 8]), None, (F, [8]), (F, [8])], {},
        [((3, 5, 8), "float32"), ((3,), "int32")],
    ),
    (
        MS, "DynamicQuantizeLSTM", [(F, [5, "n", 4]), (I8, [2, 4, 32]), (I8, [2, 8, 32])],
        {"hidden_size": 8, "direction": "bidirectional"},
        [((5, 2, 3, 8), "float32"), ((2, 3, 8), "float32"), ((2, 3, 8), "float32")],
    ),
    *(
        (domain, op, [IMAGE, (F, [16, 8, 3, 3]), (F, [16]), (F, ["n", 16, 4, 3])],
         {"pads": [1, 1, 1, 1], "strides": [2, 3], "activation": "Relu"}, [((3, 16, 4, 3), "float32")])
        for domain, op in ((MS, "FusedConv"), (BLOCKS, "Conv"))
    ),
    (MS, "FusedConv", [IMAGE, (F, [8, 2, 3, 3])], {"group": 4, "dilations": [2, 1]}, [((3, 8, 3, 7), "float32")]),
    (MS, "NhwcFusedConv", [IMAGE_LAST, (F, [16, 8, 3, 3])], {}, [((3, 5, 7, 16), "float32")]),
    *(
        (domain, op, [IMAGE], {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [0, 0, 1, 1], "ceil_mode": 1},
         [((3, 8, 4, 5), "float32")])
        for domain, op in ((BLOCKS, "MaxPool"), (BLOCKS, "AveragePool"))
    ),
    (BLOCKS, "MaxPool", [IMAGE], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [0, 0, 2, 2], "ceil_mode": 1},
     [((3, 8, 4, 5), "float32")]),
    *(
        (domain, op, [IMAGE_LAST], {"kernel_shape": [3, 3], "strides": [2, 2]}, [((3, 3, 4, 8), "float32")])
        for domain, op in ((MS, "NhwcMaxPool"), (LAST, "MaxPool"), (LAST, "AveragePool"))
    ),
    *((BLOCKS, op, [IMAGE], {}, [((3, 8, 1, 1), "float32")]) for op in ("GlobalMaxPool", "GlobalAveragePool")),
    (LAST, "GlobalAveragePool", [IMAGE_LAST], {}, [((3, 1, 1, 8), "float32")]),
    (BLOCKS, "ReorderOutput", [IMAGE], {"channels": 7}, [((3, 7, 7, 9), "float32")]),
    (BLOCKS, "ReorderOutput", [IMAGE], {"channels": 7, "channels_last": 1}, [((3, 7, 9, 7), "float32")]),
    (BLOCKS, "Upsample", [IMAGE], {"scales": [1, 1, 2, 3]}, [((3, 8, 14, 27), "float32")]),
    (MS, "FusedGemm", [X, (F, [5, 6]), (F, [5])], {"transB": 1, "activation": "Relu"}, [((3, 5), "float32")]),
    (MS, "TransposeMatMul", [TOKENS, (F, [7, 8])], {"transB": 1}, [((3, 5, 7), "float32")]),
    (MS, "FusedMatMul", [(F, [5, "n", 8]), (F, ["n", 8, 4])], {"transBatchA": 1}, [((3, 5, 4), "float32")]),
    (MS, "FusedMatMul", [(F, ["n", 8, 5]), (F, [4, "n", 8])], {"transA": 1, "transBatchB": 1, "transB": 1},
     [((3, 5, 4), "float32")]),
    (MS, "BiasSoftmax", [TOKENS, (F, [1, 1, 8])], {"axis": 2}, [((3, 5, 8), "float32")]),
    (MS, "QLinearSoftmax", [(U8, ["n", 4]), *SCALED, *SCALED], {"opset": 13}, [((3, 4), "uint8")]),
    (MS, "QLinearConv", [(U8, ["n", 8, 7, 9]), *SCALED, (I8, [16, 8, 1, 1]), (F, []), (I8, []), (F, []), (I8, [])], {},
     [((3, 16, 7, 9), "int8")]),
    (MS, "QLinearConv", [(U8, ["n", 7, 9, 8]), *SCALED, (I8, [16, 8, 1, 1]), *SCALED, *SCALED], {"channels_last": 1},
     [((3, 7, 9, 16), "uint8")]),
    (MS, "QLinearAveragePool", [(U8, ["n", 7, 9, 8]), *SCALED, *SCALED], {"channels_last": 1, "kernel_shape": [3, 3]},
     [((3, 5, 7, 8), "uint8")]),
    (MS, "QLinearGlobalAveragePool", [(U8, ["n", 7, 9, 8]), *SCALED, *SCALED], {"channels_last": 1},
     [((3, 1, 1, 8), "uint8")]),
    (MS, "QLinearConcat", [*SCALED, (U8, ["n", 2, 3]), *SCALED, (U8, ["n", 4, 3]), *SCALED], {"axis": -2},
     [((3, 6, 3), "uint8")]),
    (MS, "QLinearWhere", [(TensorProto.BOOL, ["n", 1]), (U8, [4]), *SCALED, (U8, []), *SCALED, *SCALED], {},
     [((3, 4), "uint8")]),
    (MS, "QGemm", [(U8, ["n", 6]), *SCALED, (I8, [5, 6]), *SCALED, None, *SCALED], {"transB": 1}, [((3, 5), "uint8")]),
    (MS, "QGemm", [(U8, ["n", 6]), *SCALED, (I8, [6, 5]), *SCALED], {}, [((3, 5), "float32")]),
    (MS, "QuantizeLinear", [X, (F, []), (I8, [])], {}, [((3, 6), "int8")]),
    (MS, "QuantizeLinear", [X, (F, [])], {}, [((3, 6), "uint8")]),
    (MS, "DequantizeLinear", [(I8, ["n", 6]), (F, [])], {}, [((3, 6), "float32")]),
]  # fmt: skip


def alone(domain: str, op: str, operands: list[Any], attributes: dict[str, Any], results: list[Any]) -> onnx.ModelProto:
    """A model of one node, whose results are the outputs."""
    names = ["" if operand is None else f"x{k}" for k, operand in enumerate(operands)]
    inputs = [helper.make_tensor_value_info(f"x{k}", *o) for k, o in enumerate(operands) if o is not None]
    outputs = ["" if result is None else f"y{k}" for k, result in enumerate(results)]
    node = helper.make_node(op, names, outputs, domain=domain, **attributes)
    made = [onnx.ValueInfoProto(name=name) for name in outputs if name]
    versions = {"": 18, ML: 3, MS: 1, BLOCKS: 1, LAST: 1}
    imports = [helper.make_opsetid(name, version) for name, version in versions.items()]
    return helper.make_model(helper.make_graph([node], "alone", inputs, made), opset_imports=imports, ir_version=8)


@pytest.mark.parametrize(("domain", "op", "operands", "attributes", "results"), CASES, ids=lambda each: str(each)[:24])
def test_planner_and_verifier_have_the_size_that_the_text_states(
    domain: str, op: str, operands: list[Any], attributes: dict[str, Any], results: list[Any], tmp_path: Path
) -> None:
    """At one size, and over a range of sizes. spec: T10.15, V3.7"""
    model = alone(domain, op, operands, attributes, results)
    closed = any("n" in operand[1] for operand in operands if operand is not None)
    for bindings in ({"dims": {"n": 3}}, {"ranges": {"n": (2, 9)}}) if closed else ({},):
        found = resolved(tmp_path, model, **bindings)
        for k, result in enumerate(results):
            if result is not None:
                shape, dtype = found.sizes[f"y{k}"]
                assert (tuple(evaluate(dim, {"n": 3}) for dim in shape), dtype) == result
        reference = reference_of(found)
        assert (reference.size_differences, reference.assumed_sizes) == ((), {})


def test_every_rule_of_either_side_is_tested_and_has_one_on_the_other() -> None:
    """spec: T10.15"""
    ours = {key for key, row in reading.OPERATORS.items() if row.sizes is not None}
    theirs = {key for key, row in verifier.OPERATORS.items() if row.of_runtime or row.of_older_runtime}
    elsewhere = {(ML, "TreeEnsemble"), (BLOCKS, "ReorderInput"), ("", "LayerNormalization")}  # test_runtime_graphs
    assert {(domain, op) for domain, op, *_ in CASES} >= ours - elsewhere
    assert {key for key in ours if key[0] != ML} == theirs
    assert {key for key in ours if key[0] == ML} <= {(domain, op) for domain, op, _ in RULES}


@pytest.mark.parametrize(
    ("op", "operands", "attributes", "results"),
    [
        ("MultiHeadAttention", [TOKENS], {"num_heads": 2}, 1),
        ("Attention", [TOKENS, (F, [8, 24])], {"num_heads": 2}, 2),
        ("SkipLayerNormalization", [TOKENS, TOKENS, (F, [8])], {}, 2),
        ("Unheard", [TOKENS], {}, 1),
    ],
)
def test_what_a_text_leaves_open_is_asked_for_and_assumed(
    op: str, operands: list[Any], attributes: dict[str, Any], results: int, tmp_path: Path
) -> None:
    """spec: T10.6, T10.14, V3.9"""
    model, last = alone(MS, op, operands, attributes, [1] * results), f"y{results - 1}"
    assert f"--shape {last}=" in str(refusal(tmp_path, model, dims={"n": 3}).fix)
    reference = reference_of(resolved(tmp_path, model, dims={"n": 3}, stated={last: "float32:3x5x8"}))
    assert (reference.size_differences, list(reference.assumed_sizes)) == ((), [f"{MS}::{op}"])


@pytest.mark.parametrize(
    ("op", "operands", "attributes"),
    [
        ("FusedMatMul", [TOKENS, (F, [7, 7])], {}), ("DynamicQuantizeMatMul", [(F, [4]), (I8, [4, 4])], {}),
        ("Attention", [X, (F, [8, 24])], {}), ("DynamicQuantizeLSTM", [TOKENS], {}),
        ("MatMulNBits", [TOKENS], {}), ("GroupQueryAttention", [TOKENS], {"num_heads": 4}),
        ("EmbedLayerNormalization", [TOKENS, None, (F, [9, 8])], {}),
        ("QLinearAdd", [X, X, X, (F, [5])], {}), ("FusedConv", [X, (F, [8, 6])], {}),
        ("FusedConv", [IMAGE, (F, [16, 4, 3, 3])], {}), ("FusedGemm", [X, (F, [5, 5])], {}),
        ("QLinearConcat", [*SCALED, (U8, ["n", 2]), *SCALED, (U8, [3, "n"]), *SCALED], {"axis": 7}),
        ("QLinearConcat", [*SCALED, (U8, ["n", 2]), *SCALED, (U8, [9, 2]), *SCALED], {"axis": 1}),
        ("NhwcMaxPool", [X], {"kernel_shape": [1]}),
    ],
)  # fmt: skip
def test_operands_that_do_not_fit_are_refused(
    op: str, operands: list[Any], attributes: dict[str, Any], tmp_path: Path
) -> None:
    """spec: T10.6, T10.15"""
    error = refusal(
        tmp_path, alone(MS, op, operands, attributes, [1]), dims={"n": 3} if op != "DynamicQuantizeMatMul" else {}
    )
    assert error.code_id == "INVALID_IR_SHAPES"
