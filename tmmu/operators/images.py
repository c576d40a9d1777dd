"""Rows of the operators on images."""

from __future__ import annotations

from tmmu.operators.gradients import GradientRule
from tmmu.operators.row import PlannedOperator, Rows

ROWS: Rows = (
    PlannedOperator("Resize", versions=(10, 11, 13, 18, 19),
        harmless="antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside extrapolation_value "
        "keep_aspect_ratio_policy mode nearest_mode roi scales sizes",
        gradient=GradientRule("0:o1+")),
)  # fmt: skip
