"""Rows of convolutions and pools."""

from __future__ import annotations

from tmmu.operators import costs
from tmmu.operators.gradients import GradientRule
from tmmu.operators.relations import channels, conv
from tmmu.operators.row import PlannedOperator, Rows

ROWS: Rows = (
    PlannedOperator("AveragePool", versions=(7, 10, 11, 19, 22),
        harmless="auto_pad ceil_mode count_include_pad dilations kernel_shape pads strides",
        split=channels, gradient=GradientRule("0:")),
    PlannedOperator("Conv", versions=(1, 11, 22), harmless="B auto_pad dilations group kernel_shape pads strides",
        split=conv, gradient=GradientRule("0:o1 1:o0 2:"), cost=costs.of_convolution),
    PlannedOperator("ConvTranspose", versions=(1, 11, 22),
        harmless="B auto_pad dilations group kernel_shape output_padding output_shape pads strides",
        gradient=GradientRule("0:o1 1:o0 2:")),
    PlannedOperator("GlobalAveragePool", versions=(1, 22), split=channels, gradient=GradientRule("0:")),
    PlannedOperator("GlobalMaxPool", versions=(1, 22), split=channels, gradient=GradientRule("0:o0,r0")),
    PlannedOperator("LpPool", versions=(2, 11, 18, 22),
        harmless="auto_pad ceil_mode dilations kernel_shape p pads strides", split=channels),
    PlannedOperator("MaxPool", versions=(1, 8, 10, 11, 12, 22),
        harmless="Indices auto_pad ceil_mode dilations kernel_shape pads storage_order strides",
        split=channels, gradient=GradientRule("0:o0,r0+")),
)  # fmt: skip
