"""Rows of convolutions and pools."""

from __future__ import annotations

from proofs.readers.operators.gradients import ALL, NOTHING, OPERAND, Gradient, Uses
from proofs.readers.operators.loops import convolution, each_channel
from proofs.readers.operators.row import KnownOperator, Rows
from proofs.readers.operators.sizes import windows as sizes

ROWS: Rows = (
    KnownOperator("AveragePool", versions=(7, 10, 11, 19, 22),
        names="auto_pad ceil_mode count_include_pad dilations kernel_shape pads strides",
        flags="ceil_mode count_include_pad", size=sizes.pool,
        loops=each_channel, gradient=Gradient({0: NOTHING})),
    KnownOperator("CausalConvWithState", versions=(27,), size=sizes.causal_conv),
    KnownOperator("Conv", versions=(1, 11, 22), names="B auto_pad dilations group kernel_shape pads strides",
        size=sizes.conv,
        loops=convolution, gradient=Gradient({0: Uses((1,)), 1: OPERAND, 2: NOTHING})),
    KnownOperator("ConvInteger", versions=(10,), size=sizes.conv),
    KnownOperator("ConvTranspose", versions=(1, 11, 22),
        names="B auto_pad dilations group kernel_shape output_padding output_shape pads strides",
        size=sizes.conv_transpose,
        gradient=Gradient({0: Uses((1,)), 1: OPERAND, 2: NOTHING})),
    KnownOperator("DeformConv", versions=(19, 22), size=sizes.deform_conv),
    KnownOperator("GlobalAveragePool", versions=(1, 22), size=sizes.global_pool,
        loops=each_channel, gradient=Gradient({0: NOTHING})),
    KnownOperator("GlobalLpPool", versions=(2, 22), size=sizes.global_pool),
    KnownOperator("GlobalMaxPool", versions=(1, 22), size=sizes.global_pool,
        loops=each_channel, gradient=Gradient({0: Uses((0,), (0,))})),
    KnownOperator("LpPool", versions=(2, 11, 18, 22), names="auto_pad ceil_mode dilations kernel_shape p pads strides",
        flags="ceil_mode", size=sizes.pool,
        loops=each_channel),
    KnownOperator("MaxPool", versions=(1, 8, 10, 11, 12, 22),
        names="Indices auto_pad ceil_mode dilations kernel_shape pads storage_order strides",
        flags="ceil_mode storage_order", size=sizes.pool,
        loops=each_channel, gradient=Gradient({0: Uses((0,), ALL)})),
    KnownOperator("MaxUnpool", versions=(9, 11, 22), size=sizes.max_unpool),
    KnownOperator("QLinearConv", versions=(10,), size=sizes.qlinear_conv),
)  # fmt: skip
