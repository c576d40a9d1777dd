"""The planner's facts about operators: shared bytes, gradients, bodies, division among ranks, and costs.

Each operator has one row, in a file for its family; `row` defines the fields. An operator without a row shares nothing,
has a gradient that reads everything, is not divided, and may run its bodies more than once. The verifier and the
simulator have other tables. The three tables share no code. spec: T3.2, T3.3
"""

from __future__ import annotations

from collections.abc import Sequence

from tmmu.operators.row import PlannedOperator
from tmmu.operators.table import OPERATORS

__all__ = ["ONNX", "OPERATORS", "PlannedOperator", "draws", "iterates", "row_of", "takeable"]

ONNX = ("", "ai.onnx")
"""The names of the domain of ONNX's own operators."""

_RANDOM = ("bernoulli", "dropout", "exponential", "multinomial", "poisson", "rand", "uniform")
"""Parts of the names of operators that give another value each time."""

_UNKNOWN = PlannedOperator("")


def row_of(domain: str, op: str) -> PlannedOperator:
    """Return the row of an operator, or a row without permissions if it has none.

    >>> row_of("", "Add").takes, row_of("com.example", "Add").takes
    ((0, 1), ())
    """
    return OPERATORS.get(("" if domain in ONNX else domain, op), _UNKNOWN)


def iterates(domain: str, op: str) -> bool:
    """Whether an operator may run its bodies more than once: every operator but those that branch. spec: T8.13"""
    return not row_of(domain, op).branches


def takeable(op: str, operands: Sequence[str], domain: str = "", result: int = 0) -> list[str]:
    """The operands, by name, whose bytes a result of an operator may take. spec: T3.2, T3.10, T3.12 to T3.15

    >>> takeable("Add", ["a", "a"]), takeable("Sum", ["a", "b", "b"]), takeable("Sum", ["a", "b", "a"])
    (['a', 'a'], ['a'], [])
    >>> takeable("FusedConv", ["x", "w", "", "z"], "com.microsoft"), takeable("FusedConv", ["x", "w", "", "x"])
    (['z'], [])
    >>> takeable("GroupQueryAttention", ["q", "", "", "k", "v", "s", "t"], "com.microsoft", 2)
    ['v']
    """
    row = row_of(domain, op)
    positions = tuple(p for r, p in row.further if r == result) if result else row.takes
    if row.one_by_one and operands.count(operands[0]) > 1:
        return []
    others = {operand for k, operand in enumerate(operands) if row.domain and k not in positions}
    return [operands[k] for k in positions if k < len(operands) and operands[k] and operands[k] not in others]


def draws(op: str) -> bool:
    """Check by its name whether an operator of any domain draws random numbers.

    >>> draws("RandomNormalLike"), draws("Add")
    (True, False)
    """
    return any(part in op.lower() for part in _RANDOM)
