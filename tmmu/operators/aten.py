"""Rows of operators of PyTorch. They state costs only: PyTorch's schemas state what the operators share."""

from __future__ import annotations

from tmmu.operators.costs import of_convolution, product_over
from tmmu.operators.row import PlannedOperator, Rows

ATEN = "aten"

ROWS: Rows = (
    PlannedOperator("addmm", ATEN, cost=product_over(1)),
    PlannedOperator("baddbmm", ATEN, cost=product_over(1)),
    PlannedOperator("bmm", ATEN, cost=product_over(0)),
    PlannedOperator("convolution", ATEN, cost=of_convolution),
    PlannedOperator("matmul", ATEN, cost=product_over(0)),
    PlannedOperator("mm", ATEN, cost=product_over(0)),
)
