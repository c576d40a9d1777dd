"""Rows of the operators that ONNX has on trial. They state sizes only."""

from __future__ import annotations

from proofs.readers.operators.row import KnownOperator, Rows
from proofs.readers.operators.sizes import normalization, sequences

TRAINING = "ai.onnx.preview.training"

ROWS: Rows = (
    KnownOperator("FlexAttention", "ai.onnx.preview", versions=(1,), size=sequences.flex_attention),
    KnownOperator("Adagrad", TRAINING, versions=(1,), size=normalization.optimizer),
    KnownOperator("Adam", TRAINING, versions=(1,), size=normalization.optimizer),
    KnownOperator("Momentum", TRAINING, versions=(1,), size=normalization.optimizer),
)  # fmt: skip
