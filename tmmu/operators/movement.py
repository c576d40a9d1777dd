"""Rows of the operators that move elements and compute nothing."""

from __future__ import annotations

from tmmu.operators.gradients import GradientRule
from tmmu.operators.relations import concat, expand, gather, reshape, split, transpose
from tmmu.operators.row import PlannedOperator, Rows

ROWS: Rows = (
    PlannedOperator("Concat", versions=(4, 11, 13), harmless="axis",
        split=concat, gradient=GradientRule("*:")),
    PlannedOperator("DepthToSpace", versions=(1, 11, 13, 28), harmless="blocksize mode", gradient=GradientRule("0:")),
    PlannedOperator("Expand", versions=(8, 13), split=expand, gradient=GradientRule("0:")),
    PlannedOperator("Flatten", versions=(1, 9, 11, 13, 21, 23, 24, 25), harmless="axis",
        view=True, split=reshape, gradient=GradientRule("0:", reshapes=True)),
    PlannedOperator("Gather", versions=(1, 11, 13), harmless="axis",
        split=gather, gradient=GradientRule("0:o1")),
    PlannedOperator("GatherElements", versions=(11, 13), harmless="axis", gradient=GradientRule("0:o1")),
    PlannedOperator("GatherND", versions=(11, 12, 13), harmless="batch_dims", gradient=GradientRule("0:o1")),
    PlannedOperator("Pad", versions=(2, 11, 13, 18, 19, 21, 23, 24, 25),
        harmless="axes constant_value mode pads value", gradient=GradientRule("0:o1+")),
    PlannedOperator("Reshape", versions=(5, 13, 14, 19, 21, 23, 24, 25), harmless="allowzero",
        view=True, split=reshape, gradient=GradientRule("0:", reshapes=True)),
    PlannedOperator("ScatterElements", versions=(11, 13, 16, 18), harmless="axis reduction",
        takes=(0,), one_by_one=True),
    PlannedOperator("ScatterND", versions=(11, 13, 16, 18), harmless="reduction",
        takes=(0,), one_by_one=True),
    PlannedOperator("Slice", versions=(1, 10, 11, 13), harmless="axes ends starts steps",
        gradient=GradientRule("0:o1+")),
    PlannedOperator("SpaceToDepth", versions=(1, 13, 28), harmless="blocksize mode", gradient=GradientRule("0:")),
    PlannedOperator("Split", versions=(2, 11, 13, 18), harmless="axis num_outputs split",
        split=split, gradient=GradientRule("0:")),
    PlannedOperator("Squeeze", versions=(1, 11, 13, 21, 23, 24, 25), harmless="axes",
        view=True, split=reshape, gradient=GradientRule("0:", reshapes=True)),
    PlannedOperator("TensorScatter", versions=(24,), harmless="axis mode write_indices",
        takes=(0,), one_by_one=True),
    PlannedOperator("Tile", versions=(6, 13), gradient=GradientRule("0:")),
    PlannedOperator("Transpose", versions=(1, 13, 21, 23, 24, 25), harmless="perm",
        split=transpose, gradient=GradientRule("0:")),
    PlannedOperator("Trilu", versions=(14,), harmless="k upper", gradient=GradientRule("0:o1+")),
    PlannedOperator("Unsqueeze", versions=(1, 11, 13, 21, 23, 24, 25), harmless="axes",
        view=True, split=reshape, gradient=GradientRule("0:", reshapes=True)),
)  # fmt: skip
