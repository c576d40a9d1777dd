"""Which nodes of ai.onnx the checker's tables are about: by version, attribute, optional operand and optional result.

The tables of sharing, derivatives, loops and bodies go by an operator's name. A row of them was written from the texts
of the versions that stand here, and holds for any value of each name here, but where one value is stated (`name=1`)
or none is covered (`-name`). A node with anything else is *opaque*: an operator that no table has, which neither
views nor works in place, whose gradient reads everything and of which no loop is divided. spec: V2.4
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from proofs.readers.operators import plain

if TYPE_CHECKING:  # the rows are read where no ONNX file is
    from onnx import NodeProto, defs

_TEXT = """
Abs Ceil Exp Floor Log Neg Reciprocal Sigmoid Sqrt Tanh Tile: 6 13
Acos Asin Atan Cos Sin Tan: 7 22
Acosh Asinh Atanh Cosh Sinh: 9 22
Add Div Mul Sub: 7 13 14
And Or Xor: 7
AveragePool: 7 10 11 19 22; auto_pad ceil_mode count_include_pad dilations kernel_shape pads strides
BatchNormalization: 7 9 14 15; epsilon momentum spatial=1 training_mode=0 -mean -var -saved_mean -saved_var
BatchNormalization: 14 15; -running_mean -running_var
Bernoulli: 15 22; dtype seed
BitCast: 26; to
BitShift: 11 28; direction
BitwiseAnd BitwiseNot BitwiseOr BitwiseXor: 18
Cast: 6 9 13 19 21 23 24 25 28; round_mode saturate to
CastLike: 15 19 21 23 24 25; round_mode saturate
Celu: 12 28; alpha
Clip: 6 11 12 13; max min
Concat: 4 11 13; axis
ConstantOfShape: 9 20 21 23 24 25; value
Conv: 1 11 22; B auto_pad dilations group kernel_shape pads strides
ConvTranspose: 1 11 22; B auto_pad dilations group kernel_shape output_padding output_shape pads strides
CumSum: 11 14; exclusive reverse
DepthToSpace: 1 11 13 28; blocksize mode
DequantizeLinear: 10 13 19 21 23 24 25 28; axis block_size output_dtype x_zero_point
Dropout: 7 10 12 13 22; mask ratio seed training_mode
DynamicQuantizeLinear: 11
Einsum: 12 28; equation
Elu: 6 22; alpha
Equal: 7 11 13 19
Erf Sign: 9 13
Expand: 8 13
EyeLike: 9 22; dtype k
Flatten: 1 9 11 13 21 23 24 25; axis
Gather LogSoftmax Softmax: 1 11 13; axis
GatherElements: 11 13; axis
GatherND: 11 12 13; batch_dims
Gelu: 20; approximate
Gemm: 7 9 11 13; C alpha beta transA transB
GlobalAveragePool GlobalMaxPool Softplus Softsign: 1 22
Greater Less: 7 9 13
GreaterOrEqual LessOrEqual: 12 16
GroupNormalization: 18 21; epsilon num_groups stash_type
HardSigmoid: 6 22; alpha beta
HardSwish: 14 22
Identity: 1 13 14 16 19 21 23 24 25
If: 1 11 13 16 19 21 23 24 25; else_branch then_branch
InstanceNormalization: 6 22; epsilon
IsInf: 10 20; detect_negative detect_positive
IsNaN: 9 13 20
LayerNormalization: 17; B InvStdDev Mean axis epsilon stash_type
LeakyRelu: 6 16; alpha
LpPool: 2 11 18 22; auto_pad ceil_mode dilations kernel_shape p pads strides
MatMul: 1 9 13
Max Min: 6 8 12 13
MaxPool: 1 8 10 11 12 22; Indices auto_pad ceil_mode dilations kernel_shape pads storage_order strides
Mean Sum: 6 8 13
Mish: 18 22
Mod: 10 13 28; fmod
Not: 1
OneHot: 9 11 28; axis
PRelu: 7 9 16
Pad: 2 11 13 18 19 21 23 24 25; axes constant_value mode pads value
Pow: 7 12 13 15
QuantizeLinear: 10 13 19 21 23 24 25 28; axis block_size output_dtype precision saturate y_zero_point
RMSNormalization: 23; axis epsilon stash_type
RandomNormalLike: 1 22; dtype mean scale seed
RandomUniformLike: 1 22; dtype high low seed
Range: 11 27; stash_type
ReduceL1 ReduceL2 ReduceMean ReduceProd ReduceSumSquare: 1 11 13 18; axes keepdims noop_with_empty_axes
ReduceLogSum ReduceLogSumExp: 1 11 13 18 28; axes keepdims noop_with_empty_axes
ReduceMax ReduceMin: 1 11 12 13 18 20; axes keepdims noop_with_empty_axes
ReduceSum: 1 11 13; axes keepdims noop_with_empty_axes
Relu: 6 13 14
Reshape: 5 13 14 19 21 23 24 25; allowzero
Resize: 10 11 13 18 19; antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside roi scales sizes
Resize: 18 19; extrapolation_value keep_aspect_ratio_policy mode nearest_mode
Round: 11 22
Selu: 6 22; alpha gamma
Shape: 1 13 15 19 21 23 24 25; end start
Shrink: 9; bias lambd
Size: 1 13 19 21 23 24 25
Slice: 1 10 11 13; axes ends starts steps
SoftmaxCrossEntropyLoss: 12 13; ignore_index log_prob reduction weights
SpaceToDepth: 1 13 28; blocksize mode
Split: 2 11 13 18; axis num_outputs split
Squeeze Unsqueeze: 1 11 13 21 23 24 25; axes
SwiGLU: 28; alpha
Swish: 24; alpha
ThresholdedRelu: 10 22; alpha
TopK: 1 10 11 24; axis k largest sorted
Transpose: 1 13 21 23 24 25; perm
Trilu: 14; k upper
Where: 9 16
"""
"""A line: operators, the versions whose texts were read, and the names of attributes, optional operands and results.

Whether a Dropout trains is read from its operand where its row needs that, and so for any value.
"""


class Covered(NamedTuple):
    """What an operator's rows are about; `only` are the attributes of which one value is, `not_covered` no value."""

    versions: frozenset[int]
    names: frozenset[str]
    only: Mapping[str, int]
    not_covered: frozenset[str]


def _rows() -> dict[str, Covered]:
    words: dict[str, tuple[set[int], set[str]]] = {}
    for line in _TEXT.strip().splitlines():
        operators, _, text = line.partition(": ")
        versions, _, names = text.partition("; ")
        for op in operators.split():
            row = words.setdefault(op, (set(), set()))
            row[0].update(map(int, versions.split()))
            row[1].update(names.split())
    return {op: _row(versions, names) for op, (versions, names) in words.items()}


def _row(versions: set[int], names: set[str]) -> Covered:
    only = {name: int(value) for name, found, value in (word.partition("=") for word in names) if found}
    not_covered = frozenset(word.removeprefix("-") for word in names if word.startswith("-"))
    return Covered(frozenset(versions), frozenset(filter(str.isidentifier, names)), only, not_covered)


COVERED: Mapping[str, Covered] = _rows()
"""For each operator that a table has: what its rows are about."""


def is_opaque(node: NodeProto, opsets: Mapping[str, int]) -> bool:
    """Whether a node of an operator that the tables have is one that they are not about. O(operands + attributes).

    `opsets` gives the version of each domain. Always false of an operator that no table has.
    """
    if plain(node.domain) or node.op_type not in COVERED:
        return False
    row, schema = COVERED[node.op_type], _schema(node.op_type, opsets[""])
    if schema is None or schema.since_version not in row.versions or node.overload:
        return True
    return not (
        _attributes_fit(node, row, schema)
        and _operands_fit(node.input, schema.inputs, row)
        and _operands_fit(node.output, schema.outputs, row)
    )


@cache
def _schema(op: str, opset: int) -> defs.OpSchema | None:
    from onnx import defs

    try:
        return defs.get_schema(op, opset, "")
    except defs.SchemaError:
        return None


def _attributes_fit(node: NodeProto, row: Covered, schema: defs.OpSchema) -> bool:
    """Whether each attribute is one of this version, of its type, and of a value that the row is about."""
    from onnx import AttributeProto, defs

    for attribute in node.attribute:
        formal = schema.attributes.get(attribute.name)
        kind = AttributeProto.AttributeType.Name(attribute.type)
        if formal is None or formal.type != getattr(defs.OpSchema.AttrType, kind, None) or attribute.ref_attr_name:
            return False
        if attribute.name in row.only:
            if attribute.i != row.only[attribute.name]:
                return False
        elif attribute.name not in row.names:
            return False
    given = {attribute.name for attribute in node.attribute}
    return all(name in given for name, formal in schema.attributes.items() if formal.required)


def _operands_fit(given: Sequence[str], formals: Sequence[defs.OpSchema.FormalParameter], row: Covered) -> bool:
    """Whether all that must be there is, and the row is about whatever else has a place, named or left out."""
    from onnx import defs

    options = defs.OpSchema.FormalParameterOption
    if len(given) > len(formals) and all(formal.option != options.Variadic for formal in formals):
        return False
    for position in range(max(len(given), len(formals))):
        formal = formals[min(position, len(formals) - 1)]
        there = position < len(given)
        if formal.option == options.Optional:
            if there and formal.name not in row.names:
                return False
        elif not given[position] if there else formal.option == options.Single:
            return False
    return True
