"""The nodes of ai.onnx to which the tables of sharing, gradients, bodies and division do not apply.

Those tables go by operator alone. Here stands for which versions of an operator they were written, and which of its
attributes, optional inputs and optional outputs make no difference to them. A node that has anything else, or a value
that does make a difference, is marked `opaque` and planned as an operator of no table. spec: T3.11
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import onnx
from onnx import defs

from tmmu.onnx.naming import domain_of

_BY_VERSIONS = """
1: Not
1 8 10 11 12 22: MaxPool
1 9 11 13 21 23 24 25: Flatten
1 9 13: MatMul
1 10 11 13: Slice
1 10 11 24: TopK
1 11 12 13 18 20: ReduceMax ReduceMin
1 11 13: Gather LogSoftmax ReduceSum Softmax
1 11 13 16 19 21 23 24 25: If
1 11 13 18: ReduceL1 ReduceL2 ReduceMean ReduceProd ReduceSumSquare
1 11 13 18 28: ReduceLogSum ReduceLogSumExp
1 11 13 21 23 24 25: Squeeze Unsqueeze
1 11 13 28: DepthToSpace
1 11 22: Conv ConvTranspose
1 13 14 16 19 21 23 24 25: Identity
1 13 15 19 21 23 24 25: Shape
1 13 19 21 23 24 25: Size
1 13 21 23 24 25: Transpose
1 13 28: SpaceToDepth
1 22: GlobalAveragePool GlobalMaxPool RandomNormalLike RandomUniformLike Softplus Softsign
2 11 13 18: Split
2 11 13 18 19 21 23 24 25: Pad
2 11 18 22: LpPool
4 11 13: Concat
5 13 14 19 21 23 24 25: Reshape
6 8 12 13: Max Min
6 8 13: Mean Sum
6 9 13 19 21 23 24 25 28: Cast
6 11 12 13: Clip
6 13: Abs Ceil Exp Floor Log Neg Reciprocal Sigmoid Sqrt Tanh Tile
6 13 14: Relu
6 16: LeakyRelu
6 22: Elu HardSigmoid InstanceNormalization Selu
7: And Or Xor
7 9 11 13: Gemm
7 9 13: Greater Less
7 9 14 15: BatchNormalization
7 9 16: PRelu
7 10 11 19 22: AveragePool
7 10 12 13 22: Dropout
7 11 13 19: Equal
7 12 13 15: Pow
7 13 14: Add Div Mul Sub
7 22: Acos Asin Atan Cos Sin Tan
8 13: Expand
9: Shrink
9 11 28: OneHot
9 13: Erf Sign
9 13 20: IsNaN
9 16: Where
9 20 21 23 24 25: ConstantOfShape
9 22: Acosh Asinh Atanh Cosh EyeLike Sinh
10 11 13 18 19: Resize
10 13 19 21 23 24 25 28: DequantizeLinear QuantizeLinear
10 13 28: Mod
10 20: IsInf
10 22: ThresholdedRelu
11: DynamicQuantizeLinear
11 12 13: GatherND
11 13: GatherElements
11 14: CumSum
11 22: Round
11 27: Range
11 28: BitShift
12 13: SoftmaxCrossEntropyLoss
12 16: GreaterOrEqual LessOrEqual
12 28: Celu Einsum
14: Trilu
14 22: HardSwish
15 19 21 23 24 25: CastLike
15 22: Bernoulli
17: LayerNormalization
18: BitwiseAnd BitwiseNot BitwiseOr BitwiseXor
18 21: GroupNormalization
18 22: Mish
20: Gelu
23: RMSNormalization
24: Swish
26: BitCast
"""
"""The versions that the tables are about."""

_BY_NAME = """
auto_pad dilations kernel_shape strides: AveragePool Conv ConvTranspose LpPool MaxPool
ceil_mode: AveragePool LpPool MaxPool
count_include_pad: AveragePool
pads: AveragePool Conv ConvTranspose LpPool MaxPool Pad
p: LpPool
Indices storage_order: MaxPool
group: Conv ConvTranspose
output_padding output_shape: ConvTranspose
B: Conv ConvTranspose LayerNormalization
C transA transB: Gemm
epsilon: BatchNormalization GroupNormalization InstanceNormalization LayerNormalization RMSNormalization
momentum: BatchNormalization
num_groups: GroupNormalization
InvStdDev Mean: LayerNormalization
stash_type: GroupNormalization LayerNormalization RMSNormalization Range
dtype: Bernoulli EyeLike RandomNormalLike RandomUniformLike
mean scale: RandomNormalLike
high low: RandomUniformLike
seed: Bernoulli Dropout RandomNormalLike RandomUniformLike
mask ratio training_mode: Dropout
to: BitCast Cast
round_mode: Cast CastLike
saturate: Cast CastLike QuantizeLinear
direction: BitShift
alpha: Celu Elu Gemm HardSigmoid LeakyRelu Selu Swish ThresholdedRelu
beta: Gemm HardSigmoid
gamma: Selu
bias lambd: Shrink
approximate: Gelu
max min: Clip
detect_negative detect_positive: IsInf
fmod: Mod
axis: Concat DequantizeLinear Flatten Gather GatherElements LayerNormalization LogSoftmax OneHot QuantizeLinear
axis: RMSNormalization Softmax Split TopK
axes keepdims noop_with_empty_axes: ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin
axes keepdims noop_with_empty_axes: ReduceProd ReduceSum ReduceSumSquare
axes: Pad Resize Slice Squeeze Unsqueeze
value: ConstantOfShape Pad
constant_value: Pad
mode: DepthToSpace Pad Resize SpaceToDepth
blocksize: DepthToSpace SpaceToDepth
antialias coordinate_transformation_mode cubic_coeff_a exclude_outside extrapolation_value: Resize
keep_aspect_ratio_policy nearest_mode roi scales sizes: Resize
ends starts steps: Slice
num_outputs split: Split
allowzero: Reshape
perm: Transpose
end start: Shape
k: EyeLike TopK Trilu
largest sorted: TopK
upper: Trilu
batch_dims: GatherND
equation: Einsum
exclusive reverse: CumSum
block_size output_dtype: DequantizeLinear QuantizeLinear
x_zero_point: DequantizeLinear
precision y_zero_point: QuantizeLinear
ignore_index log_prob reduction weights: SoftmaxCrossEntropyLoss
else_branch then_branch: If
"""
"""The attributes, optional inputs and optional outputs that may have any value.

A Dropout's `training_mode` decides something, and is looked at where it does.
"""

DECIDING: Mapping[tuple[str, str], int | None] = {
    ("BatchNormalization", "spatial"): 1,
    ("BatchNormalization", "training_mode"): 0,
    # Statistics of the batch are made of all of it.
    **dict.fromkeys(
        (("BatchNormalization", name) for name in ("mean", "var", "saved_mean", "saved_var", "running_mean",
                                                   "running_var")), None,
    ),
}  # fmt: skip
"""What does make a difference: the one value of an attribute with which the tables apply, or None for never."""


def _inverted(text: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for line in text.strip().splitlines():
        keys, _, operators = line.partition(": ")
        for op in operators.split():
            found[op].update(keys.split())
    return found


VERSIONS: Mapping[str, frozenset[int]] = {op: frozenset(map(int, v)) for op, v in _inverted(_BY_VERSIONS).items()}
HARMLESS: Mapping[str, frozenset[str]] = {op: frozenset(names) for op, names in _inverted(_BY_NAME).items()}


def is_opaque(node: onnx.NodeProto, schema: defs.OpSchema | None) -> bool:
    """Whether the tables have the operator of a node and do not apply to it; `schema` is that of the model's version.

    >>> is_opaque(onnx.helper.make_node("Relu", ["x"], ["y"]), defs.get_schema("Relu", 21, ""))
    False
    >>> is_opaque(onnx.helper.make_node("Relu", ["x"], ["y"], slope=2), defs.get_schema("Relu", 21, ""))
    True
    """
    op = node.op_type
    if domain_of(node) or op not in VERSIONS:
        return False
    if schema is None or schema.since_version not in VERSIONS[op] or node.overload:
        return True
    if any(name not in HARMLESS.get(op, ()) for name in (*_optional(node, schema), *_attributes(node, schema))):
        return True
    stated = {attribute.name for attribute in node.attribute}
    if any(formal.required and name not in stated for name, formal in schema.attributes.items()):
        return True
    return _lacks(list(node.input), schema.inputs) or _lacks(list(node.output), schema.outputs)


def _attributes(node: onnx.NodeProto, schema: defs.OpSchema) -> Iterator[str]:
    """The attributes that have not a value with which the tables apply; "" stands for one that is not of this kind."""
    for attribute in node.attribute:
        formal, kind = schema.attributes.get(attribute.name), onnx.AttributeProto.AttributeType.Name(attribute.type)
        if formal is None or formal.type != getattr(defs.OpSchema.AttrType, kind, None) or attribute.ref_attr_name:
            yield ""
        elif (decided := (node.op_type, attribute.name)) not in DECIDING or DECIDING[decided] != attribute.i:
            yield attribute.name


def _optional(node: onnx.NodeProto, schema: defs.OpSchema) -> Iterator[str]:
    """The optional inputs and outputs that have a place, an empty one included."""
    for given, formals in ((node.input, schema.inputs), (node.output, schema.outputs)):
        for _, formal in zip(given, formals, strict=False):
            if formal.option == defs.OpSchema.FormalParameterOption.Optional:
                yield formal.name


def _lacks(given: list[str], formals: Sequence[defs.OpSchema.FormalParameter]) -> bool:
    """Whether something that is not optional is absent, or there is more than the operator takes."""
    kinds = defs.OpSchema.FormalParameterOption
    variadic = bool(formals) and formals[-1].option == kinds.Variadic
    if len(given) > len(formals) and not variadic:
        return True
    for k, formal in enumerate(formals):
        if formal.option == kinds.Single and not (k < len(given) and given[k]):
            return True
    return variadic and not all(given[len(formals) - 1 :])
