"""Gradient steps: the operands and results that each one reads, and the bytes that it may share.

For y = f(x0, x1, …) the gradient of an operand is a formula over the gradient of y and some of the operands and
results. The formulas are the checker's own reading of the operators. If a row states no gradient, the gradient step
reads everything and shares nothing. A gradient step may share bytes only if its own fields permit it, whatever the
forward operator may share.
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
    """The gradient step of an operator.

    Attributes
    ----------
    formulas, of_others
        The formula for the gradient of the operand at each position, and for every other operand. An operand without a
        formula has no gradient.
    in_place
        Result 0 may take the bytes of operand 0, which is the gradient of the forward result: by the chain rule each
        element of result 0 is the element of operand 0 times a factor. Further results read operand 0 too and are
        written first.
    passes
        Every result of the same size as operand 0 shows it.
    reshapes
        The forward result has the operand's elements in the same order. Its gradient step is a Reshape, which shows
        its operand.
    """

    formulas: Mapping[int, Uses] = field(default_factory=dict)
    of_others: Uses | None = None
    _: KW_ONLY
    in_place: bool = False
    passes: bool = False
    reshapes: bool = False

    def uses(self, position: int, results: int) -> Uses | None:
        """Return the tensors that the gradient of the operand at `position` uses, or None if it has no gradient.

        A step that has fewer results than the formula contains uses everything.
        """
        found = self.formulas.get(position, self.of_others)
        if found is not None and isinstance(found.results, tuple) and any(k >= results for k in found.results):
            return EVERYTHING
        return found


NO_GRADIENT = Gradient()
"""The gradient of steps, draws and shapes: the derivative is zero or there is none."""
