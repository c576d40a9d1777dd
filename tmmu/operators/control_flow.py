"""Rows of the operators that run one of their bodies. Operators that run a body again need no row."""

from __future__ import annotations

from tmmu.operators.row import PlannedOperator, Rows

ROWS: Rows = (
    PlannedOperator("If", versions=(1, 11, 13, 16, 19, 21, 23, 24, 25), harmless="else_branch then_branch",
        branches=True),
    PlannedOperator("cond", "jax.lax", branches=True),
)  # fmt: skip
