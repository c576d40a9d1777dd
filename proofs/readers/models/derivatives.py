"""What the derivative of each operator of ai.onnx is computed from, by the checker's own reading of the formulas.

For y = f(x0, x1, …) the gradient of an operand is a formula over the gradient of y and some of the operands and
results; each case below states which. A planner has its own table; where the two differ a plan is refuted.
spec: M2.5, M2.6
"""

from __future__ import annotations

import sys
from typing import NamedTuple

ALL = range(sys.maxsize)
"""Every position."""


class Uses(NamedTuple):
    """The positions of the operands and results of the forward step that a formula contains."""

    operands: range | tuple[int, ...] = ()
    results: range | tuple[int, ...] = ()


REST = ALL[1:]
NOTHING = Uses()

LINEAR_IN_ALL = frozenset({"Add", "Concat", "Mean", "Sub", "Sum"})
LINEAR_IN_FIRST = frozenset(
    {"AveragePool", "Cast", "CastLike", "DepthToSpace", "Expand", "Flatten", "GlobalAveragePool", "Identity", "Neg",
     "Reshape", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"}
)  # fmt: skip
LINEAR_GIVEN_SETTINGS = frozenset({"CumSum", "Pad", "ReduceMean", "ReduceSum", "Resize", "Slice", "Trilu"})
OF_RESULT = frozenset({"Exp", "LogSoftmax", "Reciprocal", "Relu", "Sigmoid", "Softmax", "Sqrt", "Tan", "Tanh"})
OF_OPERAND = frozenset(
    {"Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Celu", "Cos", "Cosh", "Elu", "Erf", "Gelu",
     "HardSigmoid", "HardSwish", "LeakyRelu", "Log", "Mish", "Selu", "Shrink", "Sin", "Sinh", "Softplus", "Softsign",
     "Swish", "ThresholdedRelu"}
)  # fmt: skip
REDUCTIONS = frozenset(
    {"ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMin", "ReduceProd",
     "ReduceSumSquare"}
)  # fmt: skip
CONSTANT = frozenset(
    {"Bernoulli", "Ceil", "ConstantOfShape", "EyeLike", "Floor", "OneHot", "QuantizeLinear", "RandomNormalLike",
     "RandomUniformLike", "Round", "Shape", "Sign", "Size"}
)  # fmt: skip
"""Steps, draws and shapes: the derivative is zero or there is none."""


def derivative(op: str, position: int, results: int = 2) -> Uses | None:
    """What the gradient of the operand at `position` is computed from; None where there is no gradient.

    Everything where a step of so few results lacks one that the formula contains.

    >>> derivative("Div", 0), derivative("Shape", 0)
    (Uses(operands=(1,), results=()), None)
    """
    first = position == 0
    if op in CONSTANT:
        return None
    if op in LINEAR_IN_ALL:
        return NOTHING
    if op in LINEAR_IN_FIRST:
        return NOTHING if first else None
    if op in LINEAR_GIVEN_SETTINGS:
        return Uses(REST) if first else None
    if op in OF_RESULT:
        return Uses((), (0,)) if first else None
    if op in OF_OPERAND:
        return Uses((0,)) if first else None
    if op in REDUCTIONS:
        return Uses(ALL, (0,)) if first else None
    if op in ("Max", "Min", "Einsum"):
        return Uses(ALL)
    if op in FORMULAS:
        found = FORMULAS[op].get(position)
        lacks = found is not None and isinstance(found.results, tuple) and any(k >= results for k in found.results)
        return Uses(ALL, ALL) if lacks else found
    return Uses(ALL, ALL)


_PRODUCT = {0: Uses((1,)), 1: Uses((0,))}
_FILTER = {**_PRODUCT, 2: NOTHING}  # and a bias, which is added
_NORMALIZED = {0: Uses((0, 1)), 1: Uses((0,)), 2: NOTHING}

FORMULAS: dict[str, dict[int, Uses]] = {
    "Mul": _PRODUCT,
    "MatMul": _PRODUCT,
    "Gemm": _FILTER,
    "Conv": _FILTER,
    "ConvTranspose": _FILTER,
    "Div": {0: Uses((1,)), 1: Uses((1,), (0,))},  # y = a/b: dy/b and -dy·y/b
    "Pow": {0: Uses((0, 1)), 1: Uses((0,), (0,))},  # y = a^b: dy·b·a^(b-1) and dy·y·log a
    "PRelu": {0: Uses((0, 1)), 1: Uses((0,))},
    "Clip": {0: Uses(ALL)},
    "DequantizeLinear": {0: Uses((1,)), 1: Uses((0, 2)), 2: Uses((1,))},  # y = (x - zero) * scale
    "DynamicQuantizeLinear": {0: Uses((0,))},  # its scale is of the largest and the smallest element
    "Range": {0: NOTHING, 2: NOTHING},  # start + k * delta
    "Where": {1: Uses((0,)), 2: Uses((0,))},
    "Gather": {0: Uses((1,))},
    "GatherElements": {0: Uses((1,))},
    "GatherND": {0: Uses((1,))},
    "MaxPool": {0: Uses((0,), ALL)},
    "GlobalMaxPool": {0: Uses((0,), (0,))},
    "BatchNormalization": {0: Uses((0, 1, 3, 4)), 1: Uses((0, 3, 4)), 2: NOTHING},
    "LayerNormalization": {0: Uses((0, 1), REST), 1: Uses((0,), REST), 2: NOTHING},
    "InstanceNormalization": _NORMALIZED,
    "GroupNormalization": _NORMALIZED,
    "RMSNormalization": {0: Uses((0, 1)), 1: Uses((0,))},
    "Dropout": {0: Uses(REST, REST)},
    "SoftmaxCrossEntropyLoss": {0: Uses(ALL, REST)},
    "TopK": {0: Uses((), (1,))},
}
"""The operators whose operands differ; an operand that is not listed has no gradient."""
