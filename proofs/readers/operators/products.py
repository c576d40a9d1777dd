"""Rows of the products of matrices."""

from __future__ import annotations

from proofs.readers.operators.gradients import ALL, NOTHING, OPERAND, Gradient, Uses
from proofs.readers.operators.loops import gemm, product
from proofs.readers.operators.row import KnownOperator, Rows
from proofs.readers.operators.sizes import products as sizes

ROWS: Rows = (
    KnownOperator("Einsum", versions=(12, 28), names="equation", size=sizes.einsum,
        gradient=Gradient(of_others=Uses(ALL))),
    KnownOperator("Gemm", versions=(7, 9, 11, 13), names="C alpha beta transA transB", flags="transA transB",
        size=sizes.gemm,
        loops=gemm, gradient=Gradient({0: Uses((1,)), 1: OPERAND, 2: NOTHING})),
    KnownOperator("MatMul", versions=(1, 9, 13), size=sizes.matmul,
        loops=product, gradient=Gradient({0: Uses((1,)), 1: OPERAND})),
    KnownOperator("MatMulInteger", versions=(10,), size=sizes.matmul_integer),
    KnownOperator("QLinearMatMul", versions=(10, 21), size=sizes.qlinear_matmul),
)  # fmt: skip
