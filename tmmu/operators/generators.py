"""Rows of the operators that make numbers, and of Shape and Size."""

from __future__ import annotations

from tmmu.operators.gradients import GradientRule
from tmmu.operators.relations import metadata
from tmmu.operators.row import PlannedOperator, Rows

ROWS: Rows = (
    PlannedOperator("ConstantOfShape", versions=(9, 20, 21, 23, 24, 25), harmless="value", gradient=GradientRule()),
    PlannedOperator("Range", versions=(11, 27), harmless="stash_type", gradient=GradientRule("0: 2:")),
    PlannedOperator("Shape", versions=(1, 13, 15, 19, 21, 23, 24, 25), harmless="end start",
        split=metadata, gradient=GradientRule()),
    PlannedOperator("Size", versions=(1, 13, 19, 21, 23, 24, 25), split=metadata, gradient=GradientRule()),
)  # fmt: skip
