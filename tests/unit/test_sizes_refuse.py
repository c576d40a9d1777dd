"""What each rule for sizes refuses, operator by operator, and how many of onnx's operators have one.

Every case is right but for one thing. Operands are sizes, or arrays where their numbers decide.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import AttributeProto, helper

from proofs.readers.models.sizes import coverage
from proofs.readers.models.sizes.table import RULES, version_of
from proofs.readers.operators.sizes.call import Call, Misfit, NotKnown, TensorSize, Value
from proofs.readers.operators.sizes.stored import of_numpy
from tests.support.operator_rows import rule_of
from tmmu.core.dims.expressions import symbol

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (ROOT / "proofs/readers/models/sizes", ROOT / "proofs/readers/operators")

Operand = TensorSize | NDArray[Any] | None


class Case(NamedTuple):
    """Operators (each by itself) at an opset, with operands, attributes and a number of results that do not fit."""

    ops: str
    opset: int
    operands: tuple[Operand, ...]
    attributes: Mapping[str, Any] = MappingProxyType({})
    results: int = 1
    domain: str = ""


def f(*shape: int) -> TensorSize:
    return TensorSize(shape, "float32")


def d(*shape: int) -> TensorSize:
    return TensorSize(shape, "float64")


def b(*shape: int) -> TensorSize:
    return TensorSize(shape, "bool")


def ints(*shape: int) -> TensorSize:
    return TensorSize(shape, "int64")


def n(*numbers: int) -> Any:
    return np.array(numbers, np.int64)


def at(number: float, dtype: str = "int64") -> Any:
    return np.array(number, dtype)


def call_of(op: str, case: Case) -> tuple[Call, tuple[str, str, int]]:
    given = [f"o{k}" if operand is not None else "" for k, operand in enumerate(case.operands)]
    node = helper.make_node(op, given, [f"r{k}" for k in range(case.results)], domain=case.domain)
    kinds = {name: AttributeProto.INTS if each == [] else None for name, each in case.attributes.items()}
    node.attribute.extend(helper.make_attribute(*each, attr_type=kinds[each[0]]) for each in case.attributes.items())
    values: dict[int, Value] = {
        k: of_numpy(each, each.dtype.name) for k, each in enumerate(case.operands) if isinstance(each, np.ndarray)
    }
    sizes = [
        TensorSize(each.shape, each.dtype.name) if isinstance(each, np.ndarray) else each for each in case.operands
    ]
    since = version_of(case.domain, op, {case.domain: case.opset})
    assert since is not None
    return Call(node, since, sizes, values.get), (case.domain, op, since)


X4, W4 = f(1, 4, 8, 8), f(6, 4, 3, 3)
UNARY = (
    "Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid "
    "HardSwish Identity LeakyRelu Log Mish Neg Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus "
    "Softsign Sqrt Swish Tan Tanh ThresholdedRelu Not IsInf IsNaN Dropout Bernoulli RandomNormalLike "
    "RandomUniformLike Shape Size MeanVarianceNormalization OptionalGetElement"
)
REDUCE = (
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare"
)
CASES = (
    Case(UNARY, 25, ()), Case("OptionalHasElement", 25, (f(2), f(2))), Case("EyeLike", 22, (f(2),)),
    Case("Add Sub Mul Div Mod Pow BitShift BitwiseAnd BitwiseOr BitwiseXor Equal Greater Less GreaterOrEqual "
         "LessOrEqual Max Min Mean Sum", 21, (f(2), f(3))),
    Case("Add Sub Mul Div Equal Greater Less Max Sum", 21, (f(2), d(2))), Case("Add Equal Pow", 21, (f(2),)),
    Case("Max Min Mean Sum", 7, (f(2), f(1))), Case("Pow", 7, (f(2), d(2))),
    Case("And Or Xor", 21, (f(2), f(2))), Case("And Or Xor", 21, (b(2), b(3))), Case("PRelu", 21, (f(1), f(2))),
    Case("SwiGLU", 28, (f(2), f(1))), Case("Where", 21, (f(2), f(2), f(2))), Case("Where", 21, (b(2), f(2), f(3))),
    Case("Cast", 21, (f(2),)), Case("BitCast", 26, (f(2),), {"to": 11}), Case("CastLike", 21, (f(2),)),
    Case("Clip", 21, (f(2), f(2))), Case("Clip", 21, (f(2), d())),
    Case("Reshape", 21, (f(2, 3), n(4, -1))), Case("Reshape", 21, (f(2, 3), n(-1, -1))),
    Case("Reshape", 21, (f(2, 3), n(5))), Case("Reshape", 21, (f(2), n(2, 0))), Case("Reshape", 21, (f(2), n(-2))),
    Case("Reshape", 21, (f(0), n(0, -1)), {"allowzero": 1}), Case("Flatten", 21, (f(2),), {"axis": 2}),
    Case("Flatten", 9, (f(2),), {"axis": -1}),
    Case("Squeeze", 21, (f(2, 1), n(0))), Case("Squeeze", 21, (f(2, 1), n(2))),
    Case("Unsqueeze", 21, (f(2), n(0, 0))),
    Case("Unsqueeze", 21, (f(2), n(2))), Case("Transpose", 21, (f(2, 3),), {"perm": [0, 0]}),
    Case("Concat", 21, (f(2, 3), f(2, 4)), {"axis": 0}), Case("Concat", 21, (f(2, 3), f(2)), {"axis": 0}),
    Case("Concat", 21, (f(2),)), Case("Split", 13, (f(5),), {}, 2), Case("Split", 18, (f(5), n(2, 2)), {}, 2),
    Case("Split", 18, (f(6),), {"num_outputs": 3}, 2), Case("Slice", 21, (f(5), n(0), n(3), n(1))),
    Case("Slice", 21, (f(5), n(0), n(3), n(0), n(0))), Case("Slice", 9, (f(5),), {"starts": [0]}),
    Case("Pad", 21, (f(5), n(1))), Case("Pad", 21, (f(5), n(-3, -3))), Case("Expand", 21, (f(2), n(3))),
    Case("Tile", 21, (f(2), n(2, 2))), Case("Tile", 21, (f(2), n(-1))),
    Case("Gather", 21, (f(2), f(2))), Case("Gather", 21, (f(2), ints(2)), {"axis": 1}),
    Case("GatherElements", 21, (f(2, 2), ints(2))), Case("GatherND", 21, (f(2), ints(1, 2))),
    Case("GatherND", 21, (f(2, 2), ints(3, 1)), {"batch_dims": 1}),
    Case("Scatter", 9, (f(3), ints(2), f(1))), Case("ScatterElements", 21, (f(3), ints(2), f(1))),
    Case("ScatterElements", 21, (f(3), ints(2), d(2))), Case("ScatterND", 21, (f(3), ints(1, 1), f(2))),
    Case("TensorScatter", 24, (f(1, 4, 2), f(1, 5, 2))), Case("TensorScatter", 24, (f(4, 2), f(4, 2)), {"axis": 0}),
    Case("DepthToSpace", 21, (f(1, 6, 2, 2),), {"blocksize": 2}), Case("DepthToSpace", 21, (f(1, 4, 2, 2),)),
    Case("SpaceToDepth", 21, (f(1, 4, 3, 2),), {"blocksize": 2}), Case("ReverseSequence", 21, (f(3, 2), ints(3))),
    Case("CenterCropPad", 21, (f(3, 2), n(1))), Case("Trilu", 21, (f(3),)),
    Case("Col2Im", 21, (f(1, 4, 9), n(4, 4), n(2, 3))), Case("Col2Im", 21, (f(1, 5, 9), n(4, 4), n(2, 2))),
    Case(REDUCE, 21, (f(2), n(1))), Case(REDUCE, 11, (f(2),), {"axes": [1]}), Case(REDUCE, 21, (f(2), n(0, 0))),
    Case("ArgMax ArgMin", 21, (f(2),), {"axis": 1}),
    Case("Softmax LogSoftmax Hardmax LpNormalization", 21, (f(2),), {"axis": 1}),
    Case("Softmax LogSoftmax Hardmax", 11, (f(2),), {"axis": 2}), Case("CumSum CumProd", 26, (f(2), n(0, 0))),
    Case("CumSum", 21, (f(2), f())), Case("TopK", 21, (f(2), n(3))), Case("TopK", 21, (f(2), n(1, 1)), {}, 2),
    Case("OneHot", 21, (ints(2), at(0), f(2))), Case("OneHot", 21, (ints(2), at(2), f(3))),
    Case("OneHot", 21, (ints(2), at(2.5, "float32"), f(2))), Case("NonZero Unique", 21, ()),
    Case("Compress", 21, (f(2), np.array([[True]]))), Case("Compress", 21, (f(2), np.array([True])), {"axis": 1}),
    Case("NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss", 22, (f(2, 3), ints(3))),
    Case("NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss", 22, (f(2, 3), ints(2), f(2))),
    Case("MatMul MatMulInteger", 21, (f(2, 3), f(2, 3))), Case("MatMul", 21, (f(), f(2))),
    Case("MatMul", 21, (f(2, 2, 2), f(3, 2, 2))), Case("MatMul", 21, (f(2, 2), d(2, 2))),
    Case("QLinearMatMul", 21, (f(2, 3), f(), f(), f(2, 3), f(), f(), f(), f())),
    Case("Gemm", 21, (f(2, 3), f(2, 3))), Case("Gemm", 21, (f(2, 3), f(3, 1), f(2, 2))),
    Case("Gemm", 7, (f(2, 3), f(3, 1))), Case("Gemm", 21, (f(2, 3), f(3))),
    Case("Einsum", 21, (f(2, 3), f(2, 3)), {"equation": "ij,jk->ik"}),
    Case("Einsum", 21, (f(2),), {"equation": "ij->i"}),
    Case("Einsum", 21, (f(2),), {"equation": "i->j"}), Case("Einsum", 21, (f(2),), {"equation": "i,i->i"}),
    Case("Conv ConvInteger", 21, (X4, f(6, 3, 3, 3))), Case("Conv ConvInteger", 21, (X4, f(6, 4, 10, 10))),
    Case("Conv", 21, (X4, W4, f(5))), Case("Conv", 21, (X4, W4), {"kernel_shape": [2, 2]}),
    Case("Conv", 21, (X4, W4), {"strides": [0, 1]}), Case("Conv", 21, (X4, W4), {"pads": [1, 1]}),
    Case("Conv", 21, (X4, f(6, 2, 3, 3)), {"group": 4}), Case("Conv", 21, (X4, W4), {"auto_pad": "SAME"}),
    Case("QLinearConv", 21, (X4, f(), f(), f(6, 3, 3, 3), f(), f(), f(), f())),
    Case("DeformConv", 21, (X4, W4, f(1, 18, 5, 6))), Case("ConvTranspose", 21, (X4, f(3, 6, 3, 3))),
    Case("ConvTranspose", 21, (X4, f(4, 6, 3, 3), f(5))),
    Case("ConvTranspose", 21, (X4, f(4, 6, 3, 3)), {"pads": [9, 9, 9, 9]}),
    Case("AveragePool MaxPool LpPool", 21, (X4,), {"kernel_shape": [10, 10]}),
    Case("AveragePool MaxPool LpPool", 21, (X4,)),
    Case("AveragePool MaxPool LpPool", 21, (X4,), {"kernel_shape": [2]}),
    Case("MaxUnpool", 21, (X4, ints(1, 4, 8, 7)), {"kernel_shape": [2, 2]}),
    Case("GlobalAveragePool GlobalLpPool GlobalMaxPool", 21, (f(2, 3),)),
    Case("CausalConvWithState", 27, (f(1, 4, 8), f(4, 2, 3)), {}, 2),
    Case("BatchNormalization", 15, (X4, f(4), f(4), f(4), f(3))),
    Case("BatchNormalization", 15, (X4, f(4), f(4), f(4), f(4)), {}, 3),
    Case("BatchNormalization", 7, (X4, f(4), f(4), f(4), f(4)), {"spatial": 0}),
    Case("InstanceNormalization", 21, (X4, f(3), f(4))),
    Case("GroupNormalization", 21, (X4, f(4), f(4)), {"num_groups": 3}),
    Case("GroupNormalization", 18, (X4, f(4), f(4)), {"num_groups": 2}),
    Case("LayerNormalization", 21, (f(2, 3), f(2))),
    Case("LayerNormalization", 21, (f(2, 3), f(3)), {"axis": 2}), Case("RMSNormalization", 23, (f(2, 3), f(2))),
    Case("LRN", 21, (f(2),), {"size": 3}), Case("QuantizeLinear", 21, (f(2, 3), f(2), TensorSize((3,), "int8"))),
    Case("QuantizeLinear", 21, (f(2, 3), f(2))), Case("QuantizeLinear", 10, (f(2, 3), f(3))),
    Case("QuantizeLinear", 21, (f(2), f(), TensorSize((), "int8")), {"output_dtype": 2}),
    Case("DequantizeLinear", 21, (TensorSize((2, 3), "int8"), f(2))),
    Case("DequantizeLinear", 21, (TensorSize((2, 3), "int8"), f(), TensorSize((), "uint8"))),
    Case("DynamicQuantizeLinear", 21, (d(2),), {}, 3), Case("Constant", 21, (), {"value_int": 1, "value_float": 1.0}),
    Case("ConstantOfShape", 21, (n(-1),)), Case("Range", 21, (at(0), at(4), at(0))),
    Case("Range", 21, (n(0, 0), at(4), at(1))),
    Case("Range", 21, (at(-3.4, "float32"), at(0.3, "float32"), at(3.7, "float32"))),
    Case("RandomNormal RandomUniform", 21, (), {"shape": [-1]}), Case("Multinomial", 21, (f(2),)),
    Case("BlackmanWindow HammingWindow HannWindow", 21, (at(-1),)), Case("MelWeightMatrix", 21, (at(2),)),
    Case("DFT", 21, (f(1, 4, 3),)), Case("DFT", 17, (f(1, 4, 1),), {"axis": 2}),
    Case("DFT", 21, (f(4, 1), None, at(1))),
    Case("STFT", 21, (f(1, 4, 1), at(1), None, at(5))), Case("STFT", 21, (f(1, 4, 1), at(1), f(3), at(2))),
    Case("STFT", 21, (f(1, 4, 2), at(1), f(3))),
    Case("RNN GRU LSTM", 21, (f(5, 2, 3), f(1, 7, 3), f(1, 7, 4)), {}, 2),
    Case("RNN", 21, (f(5, 2, 3), f(1, 4, 3), f(1, 4, 4)), {"hidden_size": 5}, 2),
    Case("RNN", 21, (f(5, 2, 3), f(1, 4, 3), f(1, 4, 4), None, None, f(2, 1, 4)), {}, 2),
    Case("LSTM", 21, (f(5, 2, 3), f(1, 16, 3), f(1, 16, 4)), {"direction": "bidirectional"}, 2),
    Case("Attention", 23, (f(1, 2, 3, 4), f(1, 2, 5, 4), f(1, 2, 6, 4))), Case("Attention", 23, (f(1, 3, 8),) * 3),
    Case("Attention", 23, (f(1, 2, 3, 4),) * 3 + (None, f(1, 2, 7, 4))),
    Case("Attention", 23, (f(1, 3, 2, 4), f(1, 2, 2, 4), f(1, 2, 2, 4))),
    Case("LinearAttention", 27, (f(1, 3, 8), f(1, 3, 6), f(1, 3, 8)), {"q_num_heads": 2, "kv_num_heads": 2}, 2),
    Case("RotaryEmbedding", 23, (f(1, 3, 8), f(5, 2), f(5, 2))),
    Case("RotaryEmbedding", 23, (f(1, 2, 3, 8), f(5, 2), f(5, 3))),
    Case("Resize", 21, (f(2, 3), None, None, n(4))), Case("Resize", 21, (f(2, 3),)),
    Case("Resize", 21, (f(10), None, np.array([-1], np.float32))),
    Case("Upsample", 9, (f(2), np.array([0], np.float32))),
    Case("RoiAlign", 21, (X4, f(3, 5), ints(3))), Case("RoiAlign", 21, (X4, f(3, 4), ints(2))),
    Case("MaxRoiPool", 21, (X4, f(3, 4)), {"pooled_shape": [1, 1]}), Case("GridSample", 21, (X4, f(1, 2, 2, 3))),
    Case("AffineGrid", 21, (f(1, 2, 2), n(1, 1, 2, 2))), Case("Det", 21, (f(2, 3),)), Case("Det", 21, (f(2),)),
    Case("TfIdfVectorizer", 21, (ints(1, 2, 3),), {"ngram_indexes": [0]}),
    Case("NonMaxSuppression", 21, (f(1, 6, 3), f(1, 1, 6))),
    Case("FlexAttention", 1, (f(1, 2, 3, 4), f(1, 2, 3, 5), f(1, 2, 3, 5)), domain="ai.onnx.preview"),
    Case("Binarizer Imputer Scaler Normalizer LinearRegressor OneHotEncoder LabelEncoder ArrayFeatureExtractor "
         "FeatureVectorizer", 5, (), domain="ai.onnx.ml"),
    Case("OneHotEncoder", 5, (f(2),), {"cats_int64s": [1], "cats_strings": ["a"]}, domain="ai.onnx.ml"),
    Case("LabelEncoder", 5, (f(2),), {"values_floats": [1.0], "values_int64s": [1]}, domain="ai.onnx.ml"),
    Case("Normalizer", 5, (f(1, 2, 3),), domain="ai.onnx.ml"), Case("TreeEnsemble", 5, (f(2),), domain="ai.onnx.ml"),
    Case("FeatureVectorizer", 5, (f(2, 3), f(3)), domain="ai.onnx.ml"),
    Case("ArrayFeatureExtractor", 5, (f(), ints(2)), domain="ai.onnx.ml"),
    Case("TreeEnsembleRegressor TreeEnsembleClassifier", 5, (), domain="ai.onnx.ml"),
    Case("TreeEnsembleClassifier", 5, (f(2, 3),), {"classlabels_int64s": [1], "classlabels_strings": ["a"]},
         domain="ai.onnx.ml"),
    Case("Attention BiasGelu DequantizeLinear DynamicQuantizeLSTM DynamicQuantizeMatMul EmbedLayerNormalization "
         "FastGelu FusedMatMul Gelu GroupQueryAttention MatMulIntegerToFloat MatMulNBits MultiHeadAttention QLinearAdd "
         "QLinearLeakyRelu QLinearMul QLinearSigmoid QuantizeLinear QuickGelu SkipLayerNormalization "
         "SkipSimplifiedLayerNormalization", 1, (),
         domain="com.microsoft"),
    Case("BiasSoftmax FusedConv FusedGemm NhwcFusedConv NhwcMaxPool QGemm QLinearAveragePool QLinearConcat QLinearConv "
         "QLinearGlobalAveragePool QLinearSoftmax QLinearWhere TransposeMatMul", 1, (), domain="com.microsoft"),
    Case("AveragePool Conv GlobalAveragePool GlobalMaxPool MaxPool ReorderInput ReorderOutput Upsample", 1, (),
         domain="com.microsoft.nchwc"),
    Case("AveragePool GlobalAveragePool MaxPool", 1, (), domain="com.ms.internal.nhwc"),
    Case("SimplifiedLayerNormalization", 21, ()),
    Case("Adagrad Adam Momentum", 1, (f(), ints(), f(2), f(2), f(3), f(2)), domain="ai.onnx.preview.training"),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.ops.split()[0]}-{case.opset}")
def test_operands_that_do_not_fit_are_refused(case: Case) -> None:
    """spec: V3.7"""
    for op in case.ops.split():
        call, key = call_of(op, case)
        with pytest.raises(Misfit):
            rule_of(RULES, *key)(call)


def test_every_operator_with_a_rule_has_operands_that_it_refuses() -> None:
    refused = {(case.domain, op) for case in CASES for op in case.ops.split()}
    assert refused == {key[:2] for key in RULES}


def test_the_page_has_the_operators_that_are_covered() -> None:
    """spec: V3.7, V3.9"""
    assert coverage.table() in (ROOT / "spec/operators.md").read_text()
    apart, missing = (
        {op for each in coverage.coverage() for op in getattr(each, which)} for which in ("without_tensors", "missing")
    )
    known = {key[1] for key in RULES} | {"If", "Loop"}
    assert not known & (apart | missing)


def test_what_neither_rule_nor_operands_decide_is_not_known() -> None:
    """A dimension that fits for some shapes only, a value that is not there, an empty list. spec: V3.9"""
    open_dim = TensorSize((symbol("n", 1, 8),), "float32")
    for case in (Case("Add", 21, (open_dim, f(3))), Case("Reshape", 21, (f(6), ints(2))), Case("NonZero", 21, (f(3),)),
                 Case("Squeeze", 21, (open_dim,)), Case("Split", 13, (open_dim,), {}, 2),
                 Case("Squeeze", 21, (f(4, 1), n())), Case("Squeeze", 11, (f(4, 1),), {"axes": []}),
                 Case("Resize", 19, (f(4, 1), None, np.array([2.0, 2.0], np.float32)), {"axes": []}),
                 Case("Transpose", 21, (f(4, 1),), {"perm": []})):  # fmt: skip
        call, key = call_of(case.ops, case)
        with pytest.raises(NotKnown):
            rule_of(RULES, *key)(call)


def test_the_rules_use_neither_inference_nor_evaluator() -> None:
    """spec: V3.7"""
    for path in (path for folder in FOLDERS for path in folder.rglob("*.py")):
        assert not re.search(
            r"shape_inference|onnx\.reference|onnx\.helper|inliner|numpy_helper|importers", path.read_text()
        )
