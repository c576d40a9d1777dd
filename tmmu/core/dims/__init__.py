"""Dimensions that are not one number: expressions over named ranges, their bounds, maxima and columns.

An *envelope* gives a range to each dimension that the user leaves open. A size is then an `Expression`: an exact
integer function of these dimensions in a normal form, so that sizes with equal text are equal for every shape. `maxima`
computes how large a size can be and at which shape. `table` writes expressions as rows of a plan or a model file.
"""

from __future__ import annotations

from tmmu.core.dims.expressions import Dim, Expression, Symbol, Unwieldy, symbol

__all__ = ["Dim", "Expression", "Symbol", "Unwieldy", "symbol"]
