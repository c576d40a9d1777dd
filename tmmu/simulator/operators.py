"""The simulator's table of operators: which results are views of an operand, and which are elementwise.

Each operator has one row. A run follows the plan's sharing where the operator allows it: a result stated as a view is
not written if its operator is a view, and a result stated as in place is computed piece by piece over its operand. So
the rows decide little for real kernels. For stand-in kernels they define the operators. They are as wide as the rows of
the verifier, so that no proved plan fails here because a row is missing. spec: SIM2.1, SIM2.2
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from types import MappingProxyType

DOMAIN, ONNX = "tmmu.grad", ("", "ai.onnx")
"""The domain of gradient steps, and the two names of ONNX's domain."""


@dataclass(frozen=True)
class SimulatedOperator:
    """One operator of the simulator's table.

    Attributes
    ----------
    op, domain
        The name, and the domain, which is empty for ai.onnx.
    shows
        Result 0 has the elements of operand 0 in the same order. Of a Dropout this holds at inference.
    bytewise
        The positions of the operands that result 0 depends on at the same element only, if it has their size. Further
        operands are settings of the whole. A kernel may fold further operands into the result, which then must not be
        the first operand.
    gradient_shows
        Each result of the gradient step has the elements of operand 0.
    gradient_bytewise
        Result 0 of the gradient step depends on operand 0 at the same element only.
    draws
        The operator draws numbers. If it has no seed, it gets the seed of its node's name.
    branches
        The operator runs one of its bodies, once.
    repeats
        The operator is outside of the known domains and runs its bodies again and again.
    """

    op: str
    domain: str = ""
    _: KW_ONLY
    shows: bool = False
    bytewise: tuple[int, ...] = ()
    gradient_shows: bool = False
    gradient_bytewise: bool = False
    draws: bool = False
    branches: bool = False
    repeats: bool = False


def by_name(rows: Iterable[SimulatedOperator]) -> Mapping[tuple[str, str], SimulatedOperator]:
    """Index rows by domain and operator. Raises ValueError if an operator has more than one row."""
    table: dict[tuple[str, str], SimulatedOperator] = {}
    for row in rows:
        if (row.domain, row.op) in table:
            raise ValueError(f"operator {row.op!r} of domain {row.domain!r} has more than one row")
        table[row.domain, row.op] = row
    return MappingProxyType(table)


OPERATORS = by_name((
    SimulatedOperator("Abs", bytewise=(0,), gradient_bytewise=True),
    SimulatedOperator("Acos", bytewise=(0,), gradient_bytewise=True),
    SimulatedOperator("Acosh", bytewise=(0,), gradient_bytewise=True),
    SimulatedOperator("Add", bytewise=(0, 1), gradient_shows=True),
    SimulatedOperator("And", bytewise=(0, 1)),
    SimulatedOperator("Asin", bytewise=(0,), gradient_bytewise=True),
    SimulatedOperator("Asinh", bytewise=(0,), gradient_bytewise=True),
    SimulatedOperator("Atan", bytewise=(0,), gradient_bytewise=True),
    SimulatedOperator("Atanh", bytewise=(0,), gradient_bytewise=True),
    SimulatedOperator("Bernoulli", draws=True),
    SimulatedOperator("BitCast", bytewise=(0,)),
    SimulatedOperator("BitShift", bytewise=(0, 1)),
    SimulatedOperator("BitwiseAnd", bytewise=(0, 1)),
    SimulatedOperator("BitwiseNot", bytewise=(0,)),
    SimulatedOperator("BitwiseOr", bytewise=(0, 1)),
    SimulatedOperator("BitwiseXor", bytewise=(0, 1)),
    SimulatedOperator("Cast", bytewise=(0,)),
    SimulatedOperator("CastLike", bytewise=(0,)),
    SimulatedOperator("Ceil", bytewise=(0,)),
    SimulatedOperator("Celu", bytewise=(0,), gradient_bytewise=True),
    SimulatedOperator("Clip", bytewise=(0,), gradient_bytewise=True),
    SimulatedOperator("Cos", bytewise=(0,), gradient_bytewise=True),
    SimulatedOperator("Cosh", bytewise=(0,), gradient_bytewise=True),
    SimulatedOperator("Div", bytewise=(0, 1), gradient_bytewise=True),
    SimulatedOperator("Dropout", shows=True, bytewise=(0,), gradient_bytewise=True, draws=True),
    SimulatedOperator("Elu", bytewise=(0,), gradient_bytewise=True),
    SimulatedOperator("Equal", bytewise=(0, 1)),
    SimulatedOperator("Erf", bytewise=(0,), gradient_bytewise=True),
    SimulatedOperator("Exp", bytewise=(0,), gradient_bytewise=True),
    SimulatedOperator("Flatten", shows=True),
    SimulatedOperator("Floor", bytewise=(0,)),
    SimulatedOperator("Gelu", bytewise=(0,), gradient_bytewise=True),
    SimulatedOperator("Greater", bytewise=(0, 1)),
    SimulatedOperator("GreaterOrEqual", bytewise=(0, 1)),
    SimulatedOperator("HardSigmoid", bytewise=(0,), gradient_bytewise=True),
    SimulatedOperator("HardSwish", bytewise=(0,), gradient_bytewise=True),
    SimulatedOperator("Identity", shows=True, bytewise=(0,)),
    SimulatedOperator("If", branches=True),
    SimulatedOperator("IsInf", bytewise=(0,)),
    SimulatedOperator("IsNaN", bytewise=(0,)),
    SimulatedOperator("LeakyRelu", bytewise=(0,), gradient_bytewise=True),
    SimulatedOperator("Less", bytewise=(0, 1)),
    SimulatedOperator("LessOrEqual", bytewise=(0, 1)),
    SimulatedOperator("Log", bytewise=(0,), gradient_bytewise=True),
    SimulatedOperator("Max", bytewise=(0,), gradient_bytewise=True),
    SimulatedOperator("Mean", bytewise=(0,), gradient_bytewise=True),
    SimulatedOperator("Min", bytewise=(0,), gradient_bytewise=True),
    SimulatedOperator("Mish", bytewise=(0,), gradient_bytewise=True),
    SimulatedOperator("Mod", bytewise=(0, 1)),
    SimulatedOperator("Mul", bytewise=(0, 1), gradient_bytewise=True),
    SimulatedOperator("Multinomial", draws=True),
    SimulatedOperator("Neg", bytewise=(0,), gradient_bytewise=True),
    SimulatedOperator("Not", bytewise=(0,)),
    SimulatedOperator("Or", bytewise=(0, 1)),
    SimulatedOperator("PRelu", bytewise=(0, 1), gradient_bytewise=True),
    SimulatedOperator("Pow", bytewise=(0, 1), gradient_bytewise=True),
    SimulatedOperator("RandomNormal", draws=True),
    SimulatedOperator("RandomNormalLike", draws=True),
    SimulatedOperator("RandomUniform", draws=True),
    SimulatedOperator("RandomUniformLike", draws=True),
    SimulatedOperator("Reciprocal", bytewise=(0,), gradient_bytewise=True),
    SimulatedOperator("Relu", bytewise=(0,), gradient_bytewise=True),
    SimulatedOperator("Reshape", shows=True),
    SimulatedOperator("Round", bytewise=(0,)),
    SimulatedOperator("ScatterElements", bytewise=(0,)),
    SimulatedOperator("ScatterND", bytewise=(0,)),
    SimulatedOperator("Selu", bytewise=(0,), gradient_bytewise=True),
    SimulatedOperator("Shrink", bytewise=(0,), gradient_bytewise=True),
    SimulatedOperator("Sigmoid", bytewise=(0,), gradient_bytewise=True),
    SimulatedOperator("Sign", bytewise=(0,)),
    SimulatedOperator("Sin", bytewise=(0,), gradient_bytewise=True),
    SimulatedOperator("Sinh", bytewise=(0,), gradient_bytewise=True),
    SimulatedOperator("Softplus", bytewise=(0,), gradient_bytewise=True),
    SimulatedOperator("Softsign", bytewise=(0,), gradient_bytewise=True),
    SimulatedOperator("Sqrt", bytewise=(0,), gradient_bytewise=True),
    SimulatedOperator("Squeeze", shows=True),
    SimulatedOperator("Sub", bytewise=(0, 1), gradient_bytewise=True),
    SimulatedOperator("Sum", bytewise=(0,), gradient_shows=True),
    SimulatedOperator("SwiGLU", bytewise=(0, 1)),
    SimulatedOperator("Swish", bytewise=(0,), gradient_bytewise=True),
    SimulatedOperator("Tan", bytewise=(0,), gradient_bytewise=True),
    SimulatedOperator("Tanh", bytewise=(0,), gradient_bytewise=True),
    SimulatedOperator("TensorScatter", bytewise=(0,)),
    SimulatedOperator("ThresholdedRelu", bytewise=(0,), gradient_bytewise=True),
    SimulatedOperator("Trilu", bytewise=(0,)),
    SimulatedOperator("Unsqueeze", shows=True),
    SimulatedOperator("Where", bytewise=(0, 1, 2), gradient_bytewise=True),
    SimulatedOperator("Xor", bytewise=(0, 1)),
    SimulatedOperator("FusedConv", "com.microsoft", bytewise=(3,)),
    SimulatedOperator("NhwcFusedConv", "com.microsoft", bytewise=(3,)),
    SimulatedOperator("Conv", "com.microsoft.nchwc", bytewise=(3,)),
    SimulatedOperator("cond", "jax.lax", branches=True),
    SimulatedOperator("scan", "jax.lax", repeats=True),
    SimulatedOperator("while", "jax.lax", repeats=True),
))  # fmt: skip
"""Every row by domain and operator."""

_UNKNOWN = SimulatedOperator("")


def row_of(domain: str, op: str) -> SimulatedOperator:
    """Return the row of an operator, or an empty row if it has none."""
    return OPERATORS.get(("" if domain in ONNX else domain, op), _UNKNOWN)


def has_domain(domain: str) -> bool:
    """Return whether the tables have the operators of `domain`. For other domains the plan's declaration is used."""
    return domain in ONNX or domain == DOMAIN


def is_view_result(domain: str, op: str, result: int) -> bool:
    """Return whether that result of an operator is a view of its first operand, if both have the same size.

    >>> is_view_result("", "Reshape", 0), is_view_result("", "Transpose", 0), is_view_result("tmmu.grad", "AddGrad", 1)
    (True, False, True)
    """
    if domain == DOMAIN:
        return row_of("", op.removesuffix("Grad")).gradient_shows
    return row_of(domain, op).shows and result == 0


def elementwise_operands(domain: str, op: str) -> tuple[int, ...]:
    """Return the positions of the operands that result 0 depends on element by element.

    >>> elementwise_operands("", "Add"), elementwise_operands("", "MatMul")
    ((0, 1), ())
    >>> elementwise_operands("tmmu.grad", "ReluGrad")
    (0,)
    """
    if domain == DOMAIN:
        return (0,) if row_of("", op.removesuffix("Grad")).gradient_bytewise else ()
    return row_of(domain, op).bytewise


def iterates(domain: str, op: str) -> bool:
    """Return whether a node may run its bodies more than once: true of every operator except branches.

    >>> iterates("", "If"), iterates("", "Scan"), iterates("jax.lax", "cond"), iterates("com.example", "If")
    (False, True, False, True)
    """
    return not row_of(domain, op).branches


def has_body_rule(domain: str, op: str) -> bool:
    """Whether the tables have how often an operator runs its bodies; of others the plan's statement is used (X4)."""
    row = row_of(domain, op)
    return has_domain(domain) or row.branches or row.repeats
