"""Rows of recurrent networks and attention."""

from __future__ import annotations

from proofs.readers.operators.row import KnownOperator, Rows
from proofs.readers.operators.sizes import sequences as sizes

ROWS: Rows = (
    KnownOperator("Attention", versions=(23, 24, 25), flags="is_causal", size=sizes.attention),
    KnownOperator("GRU", versions=(7, 14, 22), flags="layout output_sequence linear_before_reset",
        size=sizes.recurrent),
    KnownOperator("LSTM", versions=(7, 14, 22), flags="layout output_sequence input_forget", size=sizes.recurrent),
    KnownOperator("LinearAttention", versions=(27,), size=sizes.linear_attention),
    KnownOperator("RNN", versions=(7, 14, 22), flags="layout output_sequence", size=sizes.recurrent),
    KnownOperator("RotaryEmbedding", versions=(23,), flags="interleaved", size=sizes.rotary),
)  # fmt: skip
