"""Rows of the collectives over one axis of a mesh that may share bytes; all others write what they were not given."""

from __future__ import annotations

from proofs.readers.operators.domains import COLLECTIVES
from proofs.readers.operators.row import KnownOperator, Rows

ROWS: Rows = (KnownOperator("AllReduce", COLLECTIVES, in_place=(0,)),)
