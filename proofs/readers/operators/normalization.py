"""Rows of normalizations and quantization."""

from __future__ import annotations

from proofs.readers.operators.gradients import NO_GRADIENT, NOTHING, OPERAND, REST, Gradient, Uses
from proofs.readers.operators.loops import each_channel
from proofs.readers.operators.row import KnownOperator, Rows
from proofs.readers.operators.sizes import normalization as sizes

ROWS: Rows = (
    KnownOperator("BatchNormalization", versions=(7, 9, 14, 15), names="epsilon momentum",
        only={"spatial": 1, "training_mode": 0}, never="mean running_mean running_var saved_mean saved_var var",
        flags="training_mode spatial is_test", size=sizes.batch,
        loops=each_channel, gradient=Gradient({0: Uses((0, 1, 3, 4)), 1: Uses((0, 3, 4)), 2: NOTHING})),
    KnownOperator("DequantizeLinear", versions=(10, 13, 19, 21, 23, 24, 25, 28),
        names="axis block_size output_dtype x_zero_point", size=sizes.dequantize,
        gradient=Gradient({0: Uses((1,)), 1: Uses((0, 2)), 2: Uses((1,))})),
    KnownOperator("DynamicQuantizeLinear", versions=(11,), size=sizes.dynamic, gradient=Gradient({0: OPERAND})),
    KnownOperator("GroupNormalization", versions=(18, 21), names="epsilon num_groups stash_type", size=sizes.group,
        gradient=Gradient({0: Uses((0, 1)), 1: OPERAND, 2: NOTHING})),
    KnownOperator("InstanceNormalization", versions=(6, 22), names="epsilon", size=sizes.per_channel,
        loops=each_channel, gradient=Gradient({0: Uses((0, 1)), 1: OPERAND, 2: NOTHING})),
    KnownOperator("LRN", versions=(1, 13), size=sizes.like),
    KnownOperator("LayerNormalization", versions=(1, 17), of_older_runtime=True,
        names="B InvStdDev Mean axis epsilon stash_type", size=sizes.layer,
        gradient=Gradient({0: Uses((0, 1), REST), 1: Uses((0,), REST), 2: NOTHING})),
    KnownOperator("MeanVarianceNormalization", versions=(9, 13), size=sizes.like),
    KnownOperator("QuantizeLinear", versions=(10, 13, 19, 21, 23, 24, 25, 28),
        names="axis block_size output_dtype precision saturate y_zero_point", flags="saturate", size=sizes.quantize,
        gradient=NO_GRADIENT),
    KnownOperator("RMSNormalization", versions=(23,), names="axis epsilon stash_type", size=sizes.rms,
        gradient=Gradient({0: Uses((0, 1)), 1: OPERAND})),
)  # fmt: skip
