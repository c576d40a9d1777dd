"""Rows of the collectives that may share bytes. Every other collective writes bytes apart from its operands."""

from __future__ import annotations

from proofs.readers.operators.domains import COLLECTIVES
from proofs.readers.operators.row import KnownOperator, Rows

ROWS: Rows = (KnownOperator("AllReduce", COLLECTIVES, in_place=(0,)),)
