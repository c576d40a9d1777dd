"""Rows of the operators that run bodies, in ai.onnx and in JAX. No reader asks for the sizes of those of JAX."""

from __future__ import annotations

from proofs.readers.operators.row import BodyRules, KnownOperator, Rows
from proofs.readers.operators.sizes import bodies as sizes

JAX = "jax.lax"

ROWS: Rows = (
    KnownOperator("If", versions=(1, 11, 13, 16, 19, 21, 23, 24, 25), names="else_branch then_branch",
        bodies=BodyRules(branches=True, sizes=sizes.OF_IF)),
    KnownOperator("Loop", versions=(1, 11, 13, 16, 19, 21, 23, 24, 25),
        bodies=BodyRules(sizes=sizes.OF_LOOP)),
    KnownOperator("Scan", versions=(9, 11, 16, 19, 21, 23, 24, 25),
        bodies=BodyRules(sizes=sizes.OF_SCAN)),
    KnownOperator("cond", JAX, bodies=BodyRules(branches=True)),
    KnownOperator("scan", JAX, bodies=BodyRules()),
    KnownOperator("while", JAX, bodies=BodyRules()),
)  # fmt: skip
