"""The simulator's table of operators: which results are views of an operand, and which are elementwise.

A plan's declared sharing is executed if possible: a result declared as a view is not written if its operator is a view,
and one declared in place is computed piece by piece over its operand. So these tables matter little for real kernels;
for stand-in kernels they define the operators. They are as wide as the tables of the verifier, so that no proved plan
fails here because an entry is missing. spec: SIM2.1, SIM2.2
"""

from __future__ import annotations

DOMAIN, ONNX = "tmmu.grad", ("", "ai.onnx")
"""The domain of gradient steps, and the two names of ONNX's domain."""

VIEWS = frozenset({"Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Dropout"})
"""Result 0 has the elements of operand 0, in their order; for Dropout only at inference."""

PASSING = frozenset({"Add", "Sum"})
"""The gradients of the operands equal that of the result."""

_ROUNDING = "Ceil Floor Round Sign Cast CastLike BitCast"
_SMOOTH = "Exp Log Sqrt Reciprocal Erf Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Asinh Acosh Atanh Abs Neg"
_TESTS = "Not BitwiseNot IsNaN IsInf ThresholdedRelu"
_ACTIVATION = "Relu LeakyRelu Elu Celu Selu Gelu Mish Swish Sigmoid HardSigmoid HardSwish Softplus Softsign Shrink"
_GIVEN = "Clip Dropout Identity Trilu"  # further operands are settings, not elements
_FOLDED = "Max Min Mean Sum"  # a kernel may fold further operands into the result, which then must not alias the first
_TWO = (
    "Add Sub Mul Div Mod Pow PRelu SwiGLU And Or Xor BitwiseAnd BitwiseOr BitwiseXor BitShift"
    " Equal Less LessOrEqual Greater GreaterOrEqual"
)
BYTEWISE: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(" ".join((_ROUNDING, _SMOOTH, _TESTS, _ACTIVATION, _GIVEN, _FOLDED)).split(), (0,)),
    **dict.fromkeys(_TWO.split(), (0, 1)),
    "Where": (0, 1, 2),
}
"""The operands that result 0 of an ai.onnx operator depends on only at the same element, if they have its size."""


def known(domain: str) -> bool:
    """Return whether the tables have the operators of `domain`. For other domains the plan's declaration is used."""
    return domain in ONNX or domain == DOMAIN


def shows(domain: str, op: str, result: int) -> bool:
    """Return whether that result of an operator is a view of its first operand, if both have the same size.

    >>> shows("", "Reshape", 0), shows("", "Transpose", 0), shows("tmmu.grad", "AddGrad", 1)
    (True, False, True)
    """
    if domain in ONNX:
        return op in VIEWS and result == 0
    return domain == DOMAIN and op.removesuffix("Grad") in PASSING


def bytewise(domain: str, op: str) -> tuple[int, ...]:
    """Return the positions of the operands that result 0 depends on element by element.

    >>> bytewise("", "Add"), bytewise("", "MatMul"), bytewise("tmmu.grad", "ReluGrad")
    ((0, 1), (), (0,))
    """
    if domain == DOMAIN:
        return (0,) if op.removesuffix("Grad") in BYTEWISE else ()
    return BYTEWISE.get(op, ()) if domain in ONNX else ()


BRANCHES = frozenset({*((domain, "If") for domain in ONNX), ("jax.lax", "cond")})
"""The operators that run one of their bodies, once."""

REPEATING = frozenset({("jax.lax", "scan"), ("jax.lax", "while")})
"""Operators outside of the known domains that run their bodies repeatedly."""


def iterates(domain: str, op: str) -> bool:
    """Return whether a node may run its bodies more than once: true of every operator except branches.

    >>> iterates("", "If"), iterates("", "Scan"), iterates("jax.lax", "cond"), iterates("com.example", "If")
    (False, True, False, True)
    """
    return (domain, op) not in BRANCHES


def has_body_rule(domain: str, op: str) -> bool:
    """Return whether the tables define how often an operator runs its bodies; otherwise the plan declares it (X4)."""
    return known(domain) or (domain, op) in BRANCHES | REPEATING
