"""Facts about operators that reading an ONNX file needs. Planner and verifier share them on purpose.

No field of a row permits sharing of bytes. A row states whether an operator is computed while shapes are worked out,
and how dimensions follow if ONNX's own inference does not give them. Only the operators with `folded` are computed:
exporters use these to make shapes, because they pick, join and rearrange numbers and calculate with them. Each gives
the same result for the same operands on every machine. Floating-point sums and powers do not and are left out. No
random operator, Loop or Scan is computed, and no operator whose size is not known in advance.
spec: T10.1, T10.3, T10.4, T10.15
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from types import MappingProxyType

from tmmu.onnx import fused, rules, runtimes, symbolic
from tmmu.onnx.rules import Rule
from tmmu.onnx.runtimes import SizeRule
from tmmu.onnx.symbolic import SymbolicRule

ALL = range(sys.maxsize)
"""Every operand."""

ML, MICROSOFT = "ai.onnx.ml", "com.microsoft"
NCHWC, NHWC = "com.microsoft.nchwc", "com.ms.internal.nhwc"
"""The domains of operators on tensors whose channels are in blocks, and on tensors whose channels come last."""


@dataclass(frozen=True)
class ReadOperator:
    """One operator of the table of reading, in every version that a model may import.

    Attributes
    ----------
    op, domain
        The name, and the domain, which is empty for ai.onnx.
    folded
        The operator may be computed while shapes are worked out.
    integers_only
        It is computed for integers only.
    by_shape
        Its result depends on the operand's shape only.
    counting
        The shape of its result depends on the operand's values. The result has at most rank times elements numbers.
    moves
        The positions of the operands whose numbers it moves without looking at them.
    symbolic
        The rule for numbers that are expressions over the dimensions of the envelope.
    same_elements
        It keeps every element. Inference does not check that for all such operators.
    spelt_out
        Inference takes another value for an absent attribute than the operator's definition does.
    shapes
        The rule for the dimensions of the results, if dimensions of operands are expressions and ONNX's inference does
        not carry names of dimensions through the operator.
    sizes
        The rule for the sizes that ONNX's inference does not give. Its text is the same in all versions.
    bodies
        The attributes with the bodies, if the bodies are understood.
    by_data
        The rule asks for no value, although the shape of the result depends on one.
    """

    op: str
    domain: str = ""
    _: KW_ONLY
    folded: bool = False
    integers_only: bool = False
    by_shape: bool = False
    counting: bool = False
    moves: range | tuple[int, ...] | None = None
    symbolic: SymbolicRule | None = None
    same_elements: bool = False
    spelt_out: bool = False
    shapes: Rule | None = None
    sizes: SizeRule | None = None
    bodies: tuple[str, ...] = ()
    by_data: bool = False


def by_operator(rows: Iterable[ReadOperator]) -> Mapping[tuple[str, str], ReadOperator]:
    """Index rows by domain and operator. Raises ValueError if an operator has two rows."""
    found: dict[tuple[str, str], ReadOperator] = {}
    for row in rows:
        if (row.domain, row.op) in found:
            raise ValueError(f"{row.op} of {row.domain or 'ai.onnx'} has two rows")
        found[row.domain, row.op] = row
    return MappingProxyType(found)


OPERATORS = by_operator((
    ReadOperator("Abs", folded=True, symbolic=symbolic.take_absolute),
    ReadOperator("Add", folded=True, symbolic=symbolic.add, shapes=rules.together),
    ReadOperator("And", folded=True, shapes=rules.together),
    ReadOperator("AveragePool", shapes=rules.pool),
    ReadOperator("BitShift", folded=True, shapes=rules.together),
    ReadOperator("BitwiseAnd", folded=True, shapes=rules.together),
    ReadOperator("BitwiseNot", folded=True),
    ReadOperator("BitwiseOr", folded=True, shapes=rules.together),
    ReadOperator("BitwiseXor", folded=True, shapes=rules.together),
    ReadOperator("Cast", folded=True, symbolic=symbolic.cast),
    ReadOperator("CastLike", folded=True),
    ReadOperator("Ceil", folded=True),
    ReadOperator("Clip", folded=True),
    ReadOperator("Compress", by_data=True),
    ReadOperator("Concat", folded=True, moves=ALL, shapes=rules.concat),
    ReadOperator("Constant", folded=True),
    ReadOperator("ConstantOfShape", folded=True, shapes=rules.constant_of_shape),
    ReadOperator("Conv", shapes=rules.conv),
    ReadOperator("ConvInteger", shapes=rules.conv),
    ReadOperator("ConvTranspose", shapes=rules.conv_transpose),
    ReadOperator("CumSum", folded=True, integers_only=True),
    ReadOperator("DepthToSpace", shapes=rules.depth_to_space),
    ReadOperator("Div", folded=True, symbolic=symbolic.divide, shapes=rules.together),
    ReadOperator("Equal", folded=True, symbolic=symbolic.compare_equal, shapes=rules.together),
    ReadOperator("Expand", folded=True, moves=(0,), shapes=rules.expand),
    ReadOperator("Flatten", folded=True, moves=(0,), same_elements=True, shapes=rules.flatten),
    ReadOperator("Floor", folded=True),
    ReadOperator("Gather", folded=True, moves=(0,)),
    ReadOperator("GatherElements", folded=True, moves=(0,)),
    ReadOperator("GatherND", folded=True, moves=(0,)),
    ReadOperator("Greater", folded=True, symbolic=symbolic.compare_greater, shapes=rules.together),
    ReadOperator("GreaterOrEqual", folded=True, symbolic=symbolic.compare_greater_or_equal, shapes=rules.together),
    ReadOperator("Identity", folded=True, moves=(0,), same_elements=True),
    ReadOperator("If", bodies=("else_branch", "then_branch")),
    ReadOperator("ImageDecoder", by_data=True),
    ReadOperator("Less", folded=True, symbolic=symbolic.compare_less, shapes=rules.together),
    ReadOperator("LessOrEqual", folded=True, symbolic=symbolic.compare_less_or_equal, shapes=rules.together),
    ReadOperator("Loop", bodies=("body",)),
    ReadOperator("LpPool", shapes=rules.pool),
    ReadOperator("MatMul", shapes=rules.matmul),
    ReadOperator("MatMulInteger", shapes=rules.matmul),
    ReadOperator("Max", folded=True, symbolic=symbolic.find_larger, shapes=rules.together),
    ReadOperator("MaxPool", shapes=rules.pool),
    ReadOperator("Mean", shapes=rules.together),
    ReadOperator("Min", folded=True, symbolic=symbolic.find_smaller, shapes=rules.together),
    ReadOperator("Mod", folded=True, symbolic=symbolic.take_remainder, shapes=rules.together),
    ReadOperator("Mul", folded=True, symbolic=symbolic.multiply, shapes=rules.together),
    ReadOperator("Neg", folded=True, symbolic=symbolic.negate),
    ReadOperator("NonMaxSuppression", by_data=True),
    ReadOperator("NonZero", folded=True, counting=True),
    ReadOperator("Not", folded=True),
    ReadOperator("OneHot", folded=True, shapes=rules.one_hot),
    ReadOperator("Or", folded=True, shapes=rules.together),
    ReadOperator("Pad", shapes=rules.pad),
    ReadOperator("Pow", folded=True, integers_only=True, shapes=rules.together),
    ReadOperator("Range", folded=True, shapes=rules.count_range),
    ReadOperator("ReduceMax", folded=True, symbolic=symbolic.reduce_to_largest),
    ReadOperator("ReduceMin", folded=True, symbolic=symbolic.reduce_to_smallest),
    ReadOperator("ReduceProd", folded=True, integers_only=True, symbolic=symbolic.reduce_to_product),
    ReadOperator("ReduceSum", folded=True, integers_only=True, symbolic=symbolic.reduce_to_sum),
    ReadOperator("Reshape", folded=True, moves=(0,), same_elements=True, shapes=rules.reshape),
    ReadOperator("Resize", shapes=rules.resize),
    ReadOperator("Round", folded=True),
    ReadOperator("STFT", spelt_out=True),
    ReadOperator("Scan", bodies=("body",)),
    ReadOperator("ScatterElements", folded=True, moves=(0, 2)),
    ReadOperator("ScatterND", folded=True, moves=(0, 2)),
    ReadOperator("Shape", folded=True, by_shape=True),
    ReadOperator("Sign", folded=True),
    ReadOperator("Size", folded=True, by_shape=True),
    ReadOperator("Slice", folded=True, moves=(0,), shapes=rules.cut),
    ReadOperator("SpaceToDepth", shapes=rules.space_to_depth),
    ReadOperator("Split", folded=True, moves=(0,), shapes=rules.split),
    ReadOperator("Sqrt", folded=True),
    ReadOperator("Squeeze", folded=True, moves=(0,), same_elements=True, shapes=rules.squeeze),
    ReadOperator("Sub", folded=True, symbolic=symbolic.subtract, shapes=rules.together),
    ReadOperator("Sum", folded=True, symbolic=symbolic.add, shapes=rules.together),
    ReadOperator("Tile", folded=True, moves=(0,), shapes=rules.tile),
    ReadOperator("TopK", shapes=rules.top_k),
    ReadOperator("Transpose", folded=True, moves=(0,)),
    ReadOperator("Trilu", folded=True),
    ReadOperator("Unique", by_data=True),
    ReadOperator("Unsqueeze", folded=True, moves=(0,), same_elements=True),
    ReadOperator("Upsample", shapes=rules.resize),
    ReadOperator("Where", folded=True, moves=(1, 2), shapes=rules.together),
    ReadOperator("Xor", folded=True, shapes=rules.together),
    ReadOperator("LayerNormalization", sizes=runtimes.like),
    ReadOperator("SimplifiedLayerNormalization", sizes=runtimes.like),
    ReadOperator("ArrayFeatureExtractor", ML, sizes=runtimes.array_feature_extractor),
    ReadOperator("Binarizer", ML, sizes=runtimes.like),
    ReadOperator("FeatureVectorizer", ML, sizes=runtimes.feature_vectorizer),
    ReadOperator("Imputer", ML, sizes=runtimes.like),
    ReadOperator("LinearRegressor", ML, sizes=runtimes.targets),
    ReadOperator("Normalizer", ML, sizes=runtimes.floats),
    ReadOperator("Scaler", ML, sizes=runtimes.floats),
    ReadOperator("TreeEnsemble", ML, sizes=runtimes.targets),
    ReadOperator("TreeEnsembleClassifier", ML, sizes=runtimes.classes),
    ReadOperator("TreeEnsembleRegressor", ML, sizes=runtimes.targets),
    ReadOperator("Attention", MICROSOFT, sizes=runtimes.attention),
    ReadOperator("BiasGelu", MICROSOFT, sizes=runtimes.like),
    ReadOperator("BiasSoftmax", MICROSOFT, sizes=runtimes.like),
    ReadOperator("DequantizeLinear", MICROSOFT, sizes=runtimes.dequantize_like),
    ReadOperator("DynamicQuantizeLSTM", MICROSOFT, sizes=runtimes.recurrent),
    ReadOperator("DynamicQuantizeMatMul", MICROSOFT, sizes=runtimes.quantized_product),
    ReadOperator("EmbedLayerNormalization", MICROSOFT, sizes=runtimes.embedding),
    ReadOperator("FastGelu", MICROSOFT, sizes=runtimes.like),
    ReadOperator("FusedConv", MICROSOFT, sizes=fused.conv),
    ReadOperator("FusedGemm", MICROSOFT, sizes=fused.gemm),
    ReadOperator("FusedMatMul", MICROSOFT, sizes=runtimes.fused_product),
    ReadOperator("Gelu", MICROSOFT, sizes=runtimes.like),
    ReadOperator("GroupQueryAttention", MICROSOFT, sizes=runtimes.attention_of_groups),
    ReadOperator("MatMulIntegerToFloat", MICROSOFT, sizes=runtimes.quantized_product),
    ReadOperator("MatMulNBits", MICROSOFT, sizes=runtimes.packed_product),
    ReadOperator("MultiHeadAttention", MICROSOFT, sizes=runtimes.attention_of_many),
    ReadOperator("NhwcFusedConv", MICROSOFT, sizes=fused.conv_last),
    ReadOperator("NhwcMaxPool", MICROSOFT, sizes=fused.pool_last),
    ReadOperator("QGemm", MICROSOFT, sizes=fused.quantized_gemm),
    ReadOperator("QLinearAdd", MICROSOFT, sizes=runtimes.both),
    ReadOperator("QLinearAveragePool", MICROSOFT, sizes=fused.pool),
    ReadOperator("QLinearConcat", MICROSOFT, sizes=fused.quantized_concat),
    ReadOperator("QLinearConv", MICROSOFT, sizes=fused.quantized_conv),
    ReadOperator("QLinearGlobalAveragePool", MICROSOFT, sizes=fused.global_pool),
    ReadOperator("QLinearLeakyRelu", MICROSOFT, sizes=runtimes.like),
    ReadOperator("QLinearMul", MICROSOFT, sizes=runtimes.both),
    ReadOperator("QLinearSigmoid", MICROSOFT, sizes=runtimes.like),
    ReadOperator("QLinearSoftmax", MICROSOFT, sizes=runtimes.like),
    ReadOperator("QLinearWhere", MICROSOFT, sizes=fused.quantized_where),
    ReadOperator("QuantizeLinear", MICROSOFT, sizes=runtimes.quantize_like),
    ReadOperator("QuickGelu", MICROSOFT, sizes=runtimes.like),
    ReadOperator("SkipLayerNormalization", MICROSOFT, sizes=runtimes.skip_normalization),
    ReadOperator("SkipSimplifiedLayerNormalization", MICROSOFT, sizes=runtimes.skip_normalization),
    ReadOperator("TransposeMatMul", MICROSOFT, sizes=runtimes.fused_product),
    ReadOperator("AveragePool", NCHWC, sizes=fused.pool),
    ReadOperator("Conv", NCHWC, sizes=fused.conv),
    ReadOperator("GlobalAveragePool", NCHWC, sizes=fused.global_pool),
    ReadOperator("GlobalMaxPool", NCHWC, sizes=fused.global_pool),
    ReadOperator("MaxPool", NCHWC, sizes=fused.pool),
    ReadOperator("ReorderInput", NCHWC, sizes=fused.reorder_input),
    ReadOperator("ReorderOutput", NCHWC, sizes=fused.reorder_output),
    ReadOperator("Upsample", NCHWC, sizes=fused.upsample),
    ReadOperator("AveragePool", NHWC, sizes=fused.pool_last),
    ReadOperator("GlobalAveragePool", NHWC, sizes=fused.global_pool_last),
    ReadOperator("MaxPool", NHWC, sizes=fused.pool_last),
))  # fmt: skip
"""Every row by domain and operator."""

_UNKNOWN = ReadOperator("")


def row_of(domain: str, op: str) -> ReadOperator:
    """Return the row of an operator, or an empty row if it has none. `domain_of` gives the domain."""
    return OPERATORS.get((domain, op), _UNKNOWN)
