"""The checker's tables of the operators of ai.onnx: which show another tensor's bytes, which may overwrite them.

These tables are the checker's own, written from the operators' definitions and from nothing else: a planner has its
own, and where the two differ the checker's decide. What is not listed neither views nor works in place. An operator
may work in place of an operand only if the element of its result at one index depends on that operand at the same
index and no other, so that a kernel which reads each element before it writes it gives the same values. Thus never:
MatMul, Gemm, Conv and pooling (they read neighbours), Softmax and every normalization (they read a whole row),
CumSum, Transpose, Gather, Slice, Concat, Pad, Resize, the recurrent networks, Scatter and BatchNormalization.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

KNOWN_DOMAINS = frozenset({"", "ai.onnx"})
"""The domains that the tables cover. Of any other, an operator is what the model declares, or nothing."""

VIEWS = frozenset({"Dropout", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
"""Result 0 shows the whole of operand 0 (Dropout: at inference) and no byte is written."""

DROPOUT_ASSUMED = "Dropout with training_mode false"
"""The assumption that stands for a Dropout whose training_mode nothing states that the verifier reads."""

OLD_DROPOUT_ASSUMED = "Dropout in test mode"
"""The assumption that stands for a Dropout before opset 12 in training, whose text leaves the mode to the caller."""

DROPOUTS_ASSUMED = frozenset({DROPOUT_ASSUMED, OLD_DROPOUT_ASSUMED})

_UNARY = (
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitCast", "BitwiseNot", "Cast", "Ceil", "Celu", "Cos",
    "Cosh", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "Identity", "IsInf", "IsNaN", "LeakyRelu",
    "Log", "Mish", "Neg", "Not", "Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh",
    "Softplus", "Softsign", "Sqrt", "Swish", "Tan", "Tanh", "ThresholdedRelu",
)  # fmt: skip
_UNARY_WITH_SETTINGS = ("CastLike", "Clip", "Dropout", "Trilu")
_BINARY = (
    "Add", "And", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Equal", "Greater", "GreaterOrEqual",
    "Less", "LessOrEqual", "Mod", "Mul", "Or", "PRelu", "Pow", "Sub", "SwiGLU", "Xor",
)  # fmt: skip
_VARIADIC = ("Max", "Mean", "Min", "Sum")

IN_PLACE: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(_UNARY, (0,)),
    # The operands after the first are settings for the whole tensor (a type, bounds, a diagonal), read at every index.
    **dict.fromkeys(_UNARY_WITH_SETTINGS, (0,)),
    **dict.fromkeys(_BINARY, (0, 1)),
    "Where": (0, 1, 2),
    # A kernel may fold its operands one after the other into the result, so that only the first is read in time; not
    # even that where it is an operand a second time.
    **dict.fromkeys(_VARIADIC, (0,)),
}
"""The operand positions whose bytes result 0 may take, given equal shapes and element widths (T3).

No operand before the listed ones is optional, so that a position is the same with absent operands left out.
"""


GRADIENTS = "tmmu.grad"
"""The domain of the gradient operators of ai.onnx: operand 0 is the gradient of the forward result (spec: M2.4)."""

GRADIENT_VIEWS = frozenset({"AddGrad", "SumGrad"})
"""Every result that is as large as operand 0 shows it: a summand's gradient is the sum's, unless it is broadcast."""

_ROW_BY_ROW = frozenset({"CastGrad", "CastLikeGrad", "TriluGrad"})
_GRADIENT_OF_UNARY = tuple(f"{op}Grad" for op in (*_UNARY, *_UNARY_WITH_SETTINGS))
_GRADIENT_OF_OTHERS = (
    "DivGrad",
    "MaxGrad",
    "MeanGrad",
    "MinGrad",
    "MulGrad",
    "PReluGrad",
    "PowGrad",
    "SubGrad",
    "WhereGrad",
)
GRADIENTS_IN_PLACE = frozenset({*_GRADIENT_OF_UNARY, *_GRADIENT_OF_OTHERS}) - _ROW_BY_ROW
"""Result 0 may take the bytes of operand 0: by the chain rule its element is that of operand 0 times a factor.

Further results are written first: they read operand 0 too.
"""


COLLECTIVES = "tmmu.mesh/"
"""What the domains of collectives begin with, one domain for each axis. An all-reduce sums element by element."""


def known(domain: str) -> bool:
    """Whether the tables cover the operators of `domain` (spec: V2.1)."""
    return domain in KNOWN_DOMAINS or domain == GRADIENTS or domain.startswith(COLLECTIVES)


def plain(domain: str) -> str:
    """A domain as steps are compared by: empty for ai.onnx.

    >>> plain("ai.onnx"), plain("tmmu.grad")
    ('', 'tmmu.grad')
    """
    return "" if domain in KNOWN_DOMAINS else domain


def is_floating(dtype: str) -> bool:
    """Whether values of this element type can have a gradient.

    >>> is_floating("bfloat16"), is_floating("int8")
    (True, False)
    """
    return dtype.startswith(("float", "bfloat", "complex"))


def shows_in_every_result(domain: str, op: str) -> bool:
    """Whether each result of the operator that is as large as operand 0 shows it, and not result 0 alone."""
    return domain == GRADIENTS and op in GRADIENT_VIEWS


def is_view(domain: str, op: str) -> bool:
    """Whether result 0 of the operator shows the whole of operand 0; of Dropout this holds at inference alone.

    >>> is_view("", "Reshape"), is_view("", "Transpose"), is_view("com.example", "Reshape")
    (True, False, False)
    """
    return op in VIEWS if domain in KNOWN_DOMAINS else shows_in_every_result(domain, op)


Operand = TypeVar("Operand")


def overwritable(domain: str, op: str, operands: Sequence[Operand]) -> tuple[Operand, ...]:
    """Those of the operands whose bytes result 0 may take; none for an operator that the tables do not know.

    spec: T3.2, T3.10

    >>> overwritable("", "Add", "ab"), overwritable("", "MatMul", "ab"), overwritable("com.example", "Add", "ab")
    (('a', 'b'), (), ())
    >>> overwritable("", "Sum", "ab"), overwritable("", "Sum", "aba"), overwritable("", "Add", "aa")
    (('a',), (), ('a', 'a'))
    """
    positions: tuple[int, ...] = ()
    if domain == GRADIENTS:
        positions = (0,) if op in GRADIENTS_IN_PLACE else ()
    elif domain.startswith(COLLECTIVES):
        positions = (0,) if op == "AllReduce" else ()
    elif domain in KNOWN_DOMAINS and not (op in _VARIADIC and any(each == operands[0] for each in operands[1:])):
        positions = IN_PLACE.get(op, ())
    return tuple(operands[p] for p in positions if p < len(operands))


BRANCHES = frozenset({("", "If"), ("jax.lax", "cond")})
"""The operators of which exactly one body runs, once, at each visit (spec: X4.2)."""

REPEATING = frozenset({("jax.lax", "scan"), ("jax.lax", "while")})
"""Operators of further domains whose bodies may run again; in a domain that is known, all but branches may."""


def iterates(domain: str, op: str, exclusive: bool = False) -> bool:
    """Whether an operator with bodies may run one of them more than once: all may but branches (spec: T8.3, X4.2).

    Where a plan declares the bodies exclusive, an operator that is not known may not either: that is an assumption.

    >>> iterates("", "If"), iterates("", "Scan"), iterates("com.example", "If"), iterates("jax.lax", "cond")
    (False, True, True, False)
    >>> iterates("com.example", "Switch", exclusive=True), iterates("jax.lax", "while", exclusive=True)
    (False, True)
    """
    return not is_branch(domain, op) and not (exclusive and not has_known_bodies(domain, op))


def is_branch(domain: str, op: str) -> bool:
    """Whether exactly one body of the operator runs at each visit."""
    return (plain(domain), op) in BRANCHES


def has_known_bodies(domain: str, op: str) -> bool:
    """Whether the tables state how often the operator runs its bodies."""
    return known(domain) or is_branch(domain, op) or (domain, op) in REPEATING


def qualified(domain: str, op: str) -> str:
    """The operator as assumptions name it: `domain::op`, or `op` of no domain. spec: X1.5"""
    return f"{domain}::{op}" if domain or "::" in op else op
