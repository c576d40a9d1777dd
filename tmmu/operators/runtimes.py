"""Rows of operators that ONNX Runtime writes when it optimizes a graph for the CPU.

It registers the kernels of three convolutions so that the result may be at the bytes of the fourth operand, which is
added to it: they begin with what is there. GroupQueryAttention looks whether its
caches are at the bytes of the past ones, and then writes the new rows alone. All its other kernels for such operators
need other bytes, also those that compute element by element. spec: T3.13, T3.15
"""

from __future__ import annotations

from tmmu.operators.row import PlannedOperator, Rows

ROWS: Rows = (
    PlannedOperator("FusedConv", "com.microsoft", versions=(1,), takes=(3,)),
    PlannedOperator("GroupQueryAttention", "com.microsoft", versions=(1,), further=((1, 3), (2, 4))),
    PlannedOperator("NhwcFusedConv", "com.microsoft", versions=(1,), takes=(3,)),
    PlannedOperator("Conv", "com.microsoft.nchwc", versions=(1,), takes=(3,)),
)
"""The rows of this family."""
