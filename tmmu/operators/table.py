"""The planner's table of operators: the rows of all families."""

from __future__ import annotations

from collections.abc import Mapping

from tmmu.operators import (
    aten,
    control_flow,
    elementwise,
    generators,
    images,
    jax,
    movement,
    normalization,
    products,
    reductions,
    runtimes,
    windows,
)
from tmmu.operators.row import PlannedOperator, collect

FAMILIES = (
    elementwise, movement, reductions, products, windows, normalization, generators, images, control_flow, jax, aten,
    runtimes,
)  # fmt: skip

OPERATORS: Mapping[tuple[str, str], PlannedOperator] = collect(family.ROWS for family in FAMILIES)
