"""The importers' table of operators: which results of ai.onnx share bytes with an operand, and which bodies iterate.

A *view* shows all of its operand's bytes in another shape. An *elementwise* result depends, at each index, on its
operands at that index alone, so that a kernel which reads an element before it writes it may write over an operand
of the same shape and element width. What is listed nowhere shares nothing. spec: T3.2, T3.3
"""

from __future__ import annotations

from collections.abc import Sequence

VIEWS = frozenset({"Dropout", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
"""Result 0 shows operand 0; Dropout's does at inference."""

_ACTIVATIONS = (
    "Celu", "Elu", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "Relu", "Selu", "Shrink", "Sigmoid",
    "Softplus", "Softsign", "Swish", "Tanh", "ThresholdedRelu",
)  # fmt: skip
_FUNCTIONS = (
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot", "Cast", "Ceil", "Cos", "Cosh", "Erf", "Exp",
    "Floor", "IsInf", "IsNaN", "Log", "Neg", "Not", "Reciprocal", "Round", "Sign", "Sin", "Sinh", "Sqrt", "Tan",
)  # fmt: skip
# Their further operands are a type, or bounds that every element is compared with.
_WITH_SETTINGS = ("CastLike", "Clip")
_OF_TWO = (
    "Add", "And", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Equal", "Greater", "GreaterOrEqual",
    "Less", "LessOrEqual", "Mod", "Mul", "Or", "PRelu", "Pow", "Sub", "Xor",
)  # fmt: skip
# A kernel may go over the result once for each further operand, which must not have been overwritten by then; nor may
# the first be, where it comes again.
_OF_MANY = ("Max", "Mean", "Min", "Sum")

ELEMENTWISE: dict[str, tuple[int, ...]] = {
    **dict.fromkeys((*_ACTIVATIONS, *_FUNCTIONS, *_WITH_SETTINGS, *_OF_MANY), (0,)),
    **dict.fromkeys(_OF_TWO, (0, 1)),
    "Where": (0, 1, 2),
}
"""The positions of the operands that result 0 may take the bytes of."""


BRANCHES = frozenset({("", "If"), ("ai.onnx", "If"), ("jax.lax", "cond")})
"""The operators, with their domains, that run one of their bodies and run it once."""


def iterates(domain: str, op: str) -> bool:
    """Whether an operator may run its bodies more than once: every operator but those that branch. spec: T8.13"""
    return (domain, op) not in BRANCHES


def takeable(op: str, operands: Sequence[str]) -> list[str]:
    """The operands, by name, whose bytes result 0 of an operator of ai.onnx may take. spec: T3.2, T3.10

    >>> takeable("Add", ["a", "a"]), takeable("Sum", ["a", "b", "b"]), takeable("Sum", ["a", "b", "a"])
    (['a', 'a'], ['a'], [])
    """
    if op in _OF_MANY and operands.count(operands[0]) > 1:
        return []
    return [operands[k] for k in ELEMENTWISE.get(op, ()) if k < len(operands) and operands[k]]
