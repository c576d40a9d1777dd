"""What a gradient step is computed from, and which bytes it may share, by the checker's own reading of the formulas.

For y = f(x0, x1, …) the gradient of an operand is a formula over the gradient of y and some of the operands and
results. An operator whose row states no gradient has a step that reads everything and shares nothing. What a gradient
step may share is stated for itself and follows from nothing that the operator may do.
spec: M2.5, M2.6, V2.6
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import NamedTuple

ALL = range(sys.maxsize)
"""Every position."""

REST = ALL[1:]
"""Every position but the first."""


class Uses(NamedTuple):
    """The positions of the operands and results of the forward step that a formula contains."""

    operands: range | tuple[int, ...] = ()
    results: range | tuple[int, ...] = ()


NOTHING = Uses()
"""The gradient of the result is all that the formula contains: the operator is linear in the operand."""

OPERAND = Uses((0,))
RESULT = Uses((), (0,))
SETTINGS = Uses(REST)
"""The operands after the first, which are settings."""

EVERYTHING = Uses(ALL, ALL)


@dataclass(frozen=True)
class Gradient:
    """The gradient step of an operator. Without a formula for an operand there is no gradient of it.

    `formulas` gives what the gradient of the operand at a position uses, `of_others` what that of every other operand
    does. The permissions are `in_place`: result 0 may take the bytes of operand 0, the gradient of the forward result,
    as by the chain rule its element is that of operand 0 times a factor (further results are written first: they read
    operand 0 too); `passes`: every result that is as large as operand 0 shows it; `reshapes`: the forward result has
    the operand's elements in their order, so that the step is a Reshape, which shows its operand.
    """

    formulas: Mapping[int, Uses] = field(default_factory=dict)
    of_others: Uses | None = None
    _: KW_ONLY
    in_place: bool = False
    passes: bool = False
    reshapes: bool = False

    def uses(self, position: int, results: int) -> Uses | None:
        """Return what the gradient of the operand at `position` is computed from, None if it has no gradient.

        That is everything for a step of so few results that it lacks one of those in the formula.
        """
        found = self.formulas.get(position, self.of_others)
        if found is not None and isinstance(found.results, tuple) and any(k >= results for k in found.results):
            return EVERYTHING
        return found


NO_GRADIENT = Gradient()
"""The gradient of steps, draws and shapes: the derivative is zero or there is none."""
