"""Dimensions that are not one number: expressions over named ranges, their bounds, their maxima, their columns.

An *envelope* gives each dimension that the user leaves open a range. A size is then an `Expression`: an exact integer
function of these dimensions, in one normal form, so that two sizes that are written alike are alike for every shape.
`maxima` computes how large one can be and where, `table` writes many as rows of a plan or a model file.
"""

from __future__ import annotations

from tmmu.core.dims.expressions import Dim, Expression, Symbol, Unwieldy, symbol

__all__ = ["Dim", "Expression", "Symbol", "Unwieldy", "symbol"]
