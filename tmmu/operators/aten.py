"""Rows of operators of PyTorch: costs, and functional updates of an operand.

PyTorch's schemas state what else the operators share.
"""

from __future__ import annotations

from tmmu.operators.costs import of_convolution, product_over
from tmmu.operators.row import PlannedOperator, Rows

ATEN = "aten"

ROWS: Rows = (
    PlannedOperator("addmm", ATEN, cost=product_over(1)),
    PlannedOperator("baddbmm", ATEN, cost=product_over(1)),
    PlannedOperator("bmm", ATEN, cost=product_over(0)),
    PlannedOperator("convolution", ATEN, cost=of_convolution),
    PlannedOperator("diagonal_scatter", ATEN, takes=(0,), one_by_one=True),
    PlannedOperator("index_add", ATEN, takes=(0,), one_by_one=True),
    PlannedOperator("index_copy", ATEN, takes=(0,), one_by_one=True),
    PlannedOperator("index_fill", ATEN, takes=(0,), one_by_one=True),
    PlannedOperator("index_put", ATEN, takes=(0,), one_by_one=True),
    PlannedOperator("matmul", ATEN, cost=product_over(0)),
    PlannedOperator("mm", ATEN, cost=product_over(0)),
    PlannedOperator("scatter", ATEN, takes=(0,), one_by_one=True),
    PlannedOperator("scatter_add", ATEN, takes=(0,), one_by_one=True),
    PlannedOperator("select_scatter", ATEN, takes=(0,), one_by_one=True),
    PlannedOperator("slice_scatter", ATEN, takes=(0,), one_by_one=True),
)
