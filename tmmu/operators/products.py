"""Rows of the products of matrices."""

from __future__ import annotations

from tmmu.operators import costs
from tmmu.operators.gradients import GradientRule
from tmmu.operators.relations import gemm, matmul
from tmmu.operators.row import PlannedOperator, Rows

ROWS: Rows = (
    PlannedOperator("Einsum", versions=(12, 28), harmless="equation", gradient=GradientRule("*:o0+")),
    PlannedOperator("Gemm", versions=(7, 9, 11, 13), harmless="C alpha beta transA transB",
        split=gemm, gradient=GradientRule("0:o1 1:o0 2:"), cost=costs.of_gemm),
    PlannedOperator("MatMul", versions=(1, 9, 13),
        split=matmul, gradient=GradientRule("0:o1 1:o0"), cost=costs.product_over(0)),
)  # fmt: skip
