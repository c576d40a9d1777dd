"""The verifier's table of operators: one row for each, in a file for each family."""

from __future__ import annotations

from collections.abc import Mapping

from proofs.readers.operators import (
    classic,
    collectives,
    control_flow,
    elementwise,
    generators,
    images,
    movement,
    normalization,
    previews,
    products,
    reductions,
    runtimes,
    sequences,
    windows,
)
from proofs.readers.operators.row import KnownOperator, merge_rows

FAMILIES = (
    elementwise, movement, reductions, products, windows, normalization, generators, sequences, images, control_flow,
    classic, runtimes, previews, collectives,
)  # fmt: skip

OPERATORS: Mapping[tuple[str, str], KnownOperator] = merge_rows(family.ROWS for family in FAMILIES)
"""Every row by domain and operator."""
