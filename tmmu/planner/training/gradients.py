"""The tensors that the gradient of each operator reads: the table from which the backward half of a graph is made.

For each operator the table lists the operands with a gradient, and for each of these the operands and results of the
forward node from which it is computed. If the table listed fewer reads than a framework's kernel has, the plan would be
wrong for that kernel. So if formulas differ the common one is taken, and an unlisted operator reads everything.
spec: M2.5, M2.6, M2.7
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from tmmu.core.vocabulary import Node, Tensor

DOMAIN = "tmmu.grad"
"""The domain of gradient operators: `ReluGrad` and so on."""

ONNX = ("", "ai.onnx")


class GradientRule(NamedTuple):
    """The reads of an operand's gradient, by the operand's position; `every` is for positions that are not listed.

    A read is (is a result, position, and all after it). Without `every`, an operand that is not listed has no gradient.
    """

    operands: Mapping[int, tuple[tuple[bool, int, bool], ...]]
    every: tuple[tuple[bool, int, bool], ...] | None


_TEXT = """
Add Sub Sum Mean Concat: *:
Identity Reshape Flatten Squeeze Unsqueeze Neg Transpose Expand Tile Cast CastLike Split: 0:
AveragePool GlobalAveragePool DepthToSpace SpaceToDepth: 0:
Slice Pad ReduceSum ReduceMean CumSum Trilu Resize: 0:o1+
DequantizeLinear: 0:o1 1:o0,o2 2:o1
DynamicQuantizeLinear: 0:o0
Range: 0: 2:
Mul: 0:o1 1:o0
Div: 0:o1 1:o1,r0
Pow: 0:o0,o1 1:o0,r0
MatMul: 0:o1 1:o0
Gemm Conv ConvTranspose: 0:o1 1:o0 2:
Relu Sigmoid Tanh Exp Sqrt Reciprocal Tan Softmax LogSoftmax: 0:r0
Abs Acos Acosh Asin Asinh Atan Atanh Celu Cos Cosh Elu Erf Gelu HardSigmoid HardSwish LeakyRelu Log Mish Selu: 0:o0
Shrink Sin Sinh Softplus Softsign Swish ThresholdedRelu: 0:o0
PRelu: 0:o0,o1 1:o0
Clip: 0:o0+
Max Min Einsum: *:o0+
Where: 1:o0 2:o0
Gather GatherElements GatherND: 0:o1
MaxPool: 0:o0,r0+
GlobalMaxPool: 0:o0,r0
BatchNormalization: 0:o0,o1,o3,o4 1:o0,o3,o4 2:
LayerNormalization: 0:o0,o1,r1+ 1:o0,r1+ 2:
InstanceNormalization GroupNormalization: 0:o0,o1 1:o0 2:
RMSNormalization: 0:o0,o1 1:o0
Dropout: 0:o1+,r1+
ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMin ReduceProd ReduceSumSquare: 0:o0+,r0
SoftmaxCrossEntropyLoss: 0:o0+,r1+
TopK: 0:r1
Bernoulli Ceil ConstantOfShape EyeLike Floor OneHot QuantizeLinear RandomNormalLike RandomUniformLike Round Shape:
Sign Size:
"""
"""A line: operators, a colon, and `position:reads` for each operand with a gradient (`*`: every one).

Reads are `o` or `r` for operand or result with a position, `+` for it and all after it.
"""

VIEWS = frozenset({"Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze"})
"""The result has the operand's elements in their order: its gradient is a Reshape back, which is a view."""

PASSING = frozenset({"Add", "Sum"})
"""The gradient of an operand that is not broadcast is a view of the result's gradient."""

_ELEMENTWISE = """
Abs Acos Acosh Asin Asinh Atan Atanh Celu Clip Cos Cosh Div Dropout Elu Erf Exp Gelu HardSigmoid HardSwish LeakyRelu
Log Max Mean Min Mish Mul Neg PRelu Pow Reciprocal Relu Selu Shrink Sigmoid Sin Sinh Softplus Softsign Sqrt Sub Swish
Tan Tanh ThresholdedRelu Where
"""
ELEMENTWISE = frozenset(_ELEMENTWISE.split())
"""The first gradient may take the bytes of the result's gradient, if the shapes are equal."""

EVERYTHING = GradientRule({}, ((False, 0, True), (True, 0, True)))


@cache
def _rules() -> dict[str, GradientRule]:
    rules: dict[str, GradientRule] = {}
    for line in _TEXT.strip().splitlines():
        ops, _, text = line.partition(":")
        operands: dict[int, tuple[tuple[bool, int, bool], ...]] = {}
        every = None
        for word in text.split():
            position, _, reads = word.partition(":")
            read = tuple(
                (name[0] == "r", int(name[1:].rstrip("+")), name[-1] == "+") for name in reads.split(",") if name
            )
            if position == "*":
                every = read
            else:
                operands[int(position)] = read
        rules |= dict.fromkeys(ops.split(), GradientRule(operands, every))
    return rules


def rule(node: Node) -> GradientRule:
    """Return the rule of a node's operator.

    An operator that is unlisted, opaque or of another domain reads everything.
    """
    return _rules().get(node.op, EVERYTHING) if is_known(node) else EVERYTHING


def is_known(node: Node) -> bool:
    """Return whether the tables apply to a node, if they have its operator."""
    return node.domain in ONNX and not node.opaque


def reads(node: Node, position: int) -> tuple[int, ...] | None:
    """Return the tensors of `node` that the gradient of its operand at `position` reads, or None if it has no gradient.

    >>> node = Node("n", "Div", (0, 1), (2,))
    >>> reads(node, 0), reads(node, 1), reads(Node("n", "Shape", (0,), (1,)), 0)
    ((1,), (1, 2), None)
    """
    found = rule(node)
    chosen = found.operands.get(position, found.every)
    if chosen is None:
        return None
    rows: list[int] = []
    if any(is_result and not onward and first >= len(node.writes) for is_result, first, onward in chosen):
        return node.reads + node.writes  # it lacks a result of the formula
    for is_result, first, onward in chosen:
        names = node.writes if is_result else node.reads
        rows += names[first:] if onward else names[first : first + 1]
    return tuple(rows)


def is_floating(tensor: Tensor) -> bool:
    """Return whether a tensor can have a gradient: its elements are floating point or complex."""
    return tensor.dtype.startswith(("float", "bfloat", "complex"))


def operator(node: Node) -> tuple[str, str]:
    """Return the domain and operator of a node's gradient.

    >>> operator(Node("n", "Relu", (0,), (1,))), operator(Node("n", "Fused", (0,), (1,), "com.example"))
    (('tmmu.grad', 'ReluGrad'), ('tmmu.grad/com.example', 'FusedGrad'))
    """
    return DOMAIN if is_known(node) else f"{DOMAIN}/{node.domain or ONNX[1]}", f"{node.op}Grad"
