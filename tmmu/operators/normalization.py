"""Rows of normalizations and quantizations."""

from __future__ import annotations

from tmmu.operators.gradients import GradientRule
from tmmu.operators.relations import channels
from tmmu.operators.row import PlannedOperator, Rows

ROWS: Rows = (
    PlannedOperator("BatchNormalization", versions=(7, 9, 14, 15), harmless="epsilon momentum",
        # Statistics of the batch are made of all of it.
        deciding={"spatial": 1, "training_mode": 0, "mean": None, "var": None, "saved_mean": None, "saved_var": None,
                  "running_mean": None, "running_var": None},
        split=channels, gradient=GradientRule("0:o0,o1,o3,o4 1:o0,o3,o4 2:")),
    PlannedOperator("DequantizeLinear", versions=(10, 13, 19, 21, 23, 24, 25, 28),
        harmless="axis block_size output_dtype x_zero_point", gradient=GradientRule("0:o1 1:o0,o2 2:o1")),
    PlannedOperator("DynamicQuantizeLinear", versions=(11,), gradient=GradientRule("0:o0")),
    PlannedOperator("GroupNormalization", versions=(18, 21), harmless="epsilon num_groups stash_type",
        gradient=GradientRule("0:o0,o1 1:o0 2:")),
    PlannedOperator("InstanceNormalization", versions=(6, 22), harmless="epsilon",
        split=channels, gradient=GradientRule("0:o0,o1 1:o0 2:")),
    PlannedOperator("LayerNormalization", versions=(17,), harmless="B InvStdDev Mean axis epsilon stash_type",
        gradient=GradientRule("0:o0,o1,r1+ 1:o0,r1+ 2:")),
    PlannedOperator("QuantizeLinear", versions=(10, 13, 19, 21, 23, 24, 25, 28),
        harmless="axis block_size output_dtype precision saturate y_zero_point", gradient=GradientRule()),
    PlannedOperator("RMSNormalization", versions=(23,), harmless="axis epsilon stash_type",
        gradient=GradientRule("0:o0,o1 1:o0")),
)  # fmt: skip
