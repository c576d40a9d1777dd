"""The verifier's facts about operators: views, in-place operands, gradients, sizes, division and bodies.

Each operator has one row. The rows are the checker's own and are written from the operators' definitions only. A
planner has rows of another kind; if the two differ, the checker's decide. An operator without a row neither views nor
works in place, its gradient reads everything, no loop of it is divided, its bodies may run again, and its sizes are
assumed.

This module answers questions from the rows. Each family of operators has a file of rows, `row` defines the fields of a
row, and `sizes`, `loops` and `gradients` hold the rules that rows refer to.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

from proofs.readers.operators.domains import COLLECTIVES, GRADIENTS, KNOWN_DOMAINS, is_covered, plain, qualify_name
from proofs.readers.operators.gradients import EVERYTHING, Gradient, Uses
from proofs.readers.operators.row import KnownOperator, ViewTime
from proofs.readers.operators.table import OPERATORS

__all__ = [
    "COLLECTIVES",
    "DROPOUTS_ASSUMED",
    "DROPOUT_ASSUMED",
    "GRADIENTS",
    "KNOWN_DOMAINS",
    "OLD_DROPOUT_ASSUMED",
    "OPERATORS",
    "KnownOperator",
    "ViewTime",
    "derivative",
    "draws",
    "has_known_bodies",
    "is_branch",
    "is_covered",
    "is_floating",
    "is_view",
    "iterates",
    "overwritable",
    "plain",
    "qualify_name",
    "row_of",
    "shows_in_every_result",
]  # fmt: skip

DROPOUT_ASSUMED = "Dropout with training_mode false"
"""The assumption about a Dropout whose training_mode is not stated anywhere that the verifier reads."""

OLD_DROPOUT_ASSUMED = "Dropout in test mode"
"""The assumption about a Dropout before opset 12 in training, whose text leaves the mode to the caller."""

DROPOUTS_ASSUMED = frozenset({DROPOUT_ASSUMED, OLD_DROPOUT_ASSUMED})

_NOTHING = KnownOperator("")
_DRAWS = re.compile("bernoulli|dropout|exponential|multinomial|poisson|rand|uniform", re.IGNORECASE)


def row_of(domain: str, op: str) -> KnownOperator:
    """Return the row of an operator, or a row that permits nothing if it has none.

    >>> row_of("ai.onnx", "Where").in_place, row_of("com.example", "Where").in_place
    ((0, 1, 2), ())
    """
    return OPERATORS.get((COLLECTIVES if domain.startswith(COLLECTIVES) else plain(domain), op), _NOTHING)


def _gradient(domain: str, op: str) -> Gradient | None:
    """Return the gradient that an operator computes, or None if it is not a gradient step or no row states it."""
    return row_of("", op.removesuffix("Grad")).gradient if domain == GRADIENTS and op.endswith("Grad") else None


def is_floating(dtype: str) -> bool:
    """Decide whether values of this element type can have a gradient.

    >>> is_floating("bfloat16"), is_floating("int8")
    (True, False)
    """
    return dtype.startswith(("float", "bfloat", "complex"))


def shows_in_every_result(domain: str, op: str) -> bool:
    """Decide whether each result of operand 0's size shows operand 0, and not only result 0."""
    gradient = _gradient(domain, op)
    return gradient is not None and gradient.passes


def is_view(domain: str, op: str) -> bool:
    """Decide whether result 0 of the operator shows the whole of operand 0; for Dropout, only at inference.

    >>> is_view("", "Reshape"), is_view("", "Transpose"), is_view("com.example", "Reshape")
    (True, False, False)
    """
    return row_of(domain, op).view is not None or shows_in_every_result(domain, op)


Operand = TypeVar("Operand")


def overwritable(
    domain: str, op: str, operands: Sequence[Operand], result: int = 0, absent: int = 0
) -> tuple[Operand, ...]:  # fmt: skip
    """Return the operands whose bytes a result may take; none for an operator that the tables do not know.

    An operand of a runtime's operator that comes again at another place is none of them: there a kernel may read any
    part of it at any time. Of a step that does not list its absent operands, `absent` is their number.

    spec: T3.2, T3.10, T3.12 to T3.15

    >>> overwritable("", "Add", "ab"), overwritable("", "MatMul", "ab"), overwritable("com.example", "Add", "ab")
    (('a', 'b'), (), ())
    >>> overwritable("", "Sum", "ab"), overwritable("", "Sum", "aba"), overwritable("", "Add", "aa")
    (('a',), (), ('a', 'a'))
    >>> overwritable("com.microsoft", "FusedConv", "xwbz"), overwritable("com.microsoft", "FusedConv", "xwbx")
    (('z',), ())
    >>> overwritable("com.microsoft", "GroupQueryAttention", "qkvabst", 1), overwritable("", "Add", "ab", 1)
    (('a',), ())
    """
    own, gradient = row_of(domain, op), _gradient(domain, op)
    if result:
        positions: tuple[int, ...] = tuple(p - absent for r, p in own.further if r == result)
    else:
        positions = (0,) if gradient is not None and gradient.in_place else tuple(p - absent for p in own.in_place)
    if own.folds and any(each == operands[0] for each in operands[1:]):
        return ()
    elsewhere = [operand for p, operand in enumerate(operands) if p not in positions] if own.of_runtime else []
    return tuple(operands[p] for p in positions if p < len(operands) and operands[p] not in elsewhere)


def derivative(op: str, position: int, results: int = 2) -> Uses | None:
    """Return the tensors that the gradient of an operand is computed from, or None if it has no gradient.

    An operator without a row uses everything. So does a step with fewer results than the formula contains.

    >>> derivative("Div", 0), derivative("Shape", 0)
    (Uses(operands=(1,), results=()), None)
    """
    gradient = row_of("", op).gradient
    return EVERYTHING if gradient is None else gradient.uses(position, results)


def draws(op: str) -> bool:
    """Check by its name whether an operator of any domain may give other values each time.

    >>> draws("aten.rand_like"), draws("Relu")
    (True, False)
    """
    return _DRAWS.search(op) is not None


def iterates(domain: str, op: str, exclusive: bool = False) -> bool:
    """Decide whether an operator with bodies may run one of them more than once (spec: T8.3, X4.2).

    All may, except branches. If a plan declares the bodies exclusive, an unknown operator may not either: that is an
    assumption.

    >>> iterates("", "If"), iterates("", "Scan"), iterates("com.example", "If"), iterates("jax.lax", "cond")
    (False, True, True, False)
    >>> iterates("com.example", "Switch", exclusive=True), iterates("jax.lax", "while", exclusive=True)
    (False, True)
    """
    return not is_branch(domain, op) and not (exclusive and not has_known_bodies(domain, op))


def is_branch(domain: str, op: str) -> bool:
    """Decide whether exactly one body of the operator runs at each visit (spec: X4.2)."""
    bodies = row_of(domain, op).bodies
    return bodies is not None and bodies.branches


def has_known_bodies(domain: str, op: str) -> bool:
    """Decide whether the tables state how often the operator runs its bodies."""
    return is_covered(domain) or row_of(domain, op).bodies is not None
