"""The training graphs that are shipped, as configurations: `tmmu trace torch` traces them again from these functions.

Each function builds a model of the library transformers under FakeTensorMode: shapes without weights. Parameters,
activations and gradients are bfloat16, the loss float32, the batch one sequence of the length that the model was first
trained at. The Llamas are Meta's Llama 3.1; GPT-3 is GPT-2's architecture at the size that Brown and others published
("Language models are few-shot learners", 2020, table 2.1), with dense attention in every layer and without dropout. To
trace a file again: `tmmu trace torch tmmu.examples.traced.recipes:llama_8b -o llama-8b.ir.cbor`.
"""

from __future__ import annotations

from typing import Any

from tmmu.importers.torch import TorchTraining


def llama_8b() -> TorchTraining:
    """Build Llama 3.1 of 8 billion parameters, with one sequence of 4096 tokens."""
    return _llama(hidden=4096, intermediate=14336, layers=32, heads=32)


def llama_70b() -> TorchTraining:
    """Build Llama 3.1 of 70 billion parameters, with one sequence of 4096 tokens."""
    return _llama(hidden=8192, intermediate=28672, layers=80, heads=64)


def llama_405b() -> TorchTraining:
    """Build Llama 3.1 of 405 billion parameters, with one sequence of 4096 tokens."""
    return _llama(hidden=16384, intermediate=53248, layers=126, heads=128)


def gpt3_175b() -> TorchTraining:
    """Build GPT-3 of 175 billion parameters, with one sequence of 2048 tokens."""
    return _gpt(layers=96, hidden=12288, heads=96, sequence=2048)


def gpt2_124m() -> TorchTraining:
    """Build GPT-2 of 124 million parameters, with 8 sequences of 1024 tokens and dropout; it is not shipped."""
    return _gpt(layers=12, hidden=768, heads=12, sequence=1024, batch=8, dropout=0.1, dtype="float32")


def _llama(hidden: int, intermediate: int, layers: int, heads: int) -> TorchTraining:
    from transformers import LlamaConfig, LlamaForCausalLM

    class Loss(LlamaForCausalLM):  # type: ignore[misc]  # transformers may be absent
        def forward(self, tokens: Any, labels: Any) -> Any:
            return super().forward(input_ids=tokens, labels=labels, use_cache=False).loss

    config = LlamaConfig(
        hidden_size=hidden, intermediate_size=intermediate, num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=8, vocab_size=128256, max_position_embeddings=131072, rms_norm_eps=1e-5,
        rope_theta=500000.0, tie_word_embeddings=False, pad_token_id=None, bos_token_id=128000, eos_token_id=128001,
    )  # fmt: skip
    return _training(Loss, config, 1, 4096, "bfloat16", f"Llama 3.1, {layers} layers")


def _gpt(
    layers: int, hidden: int, heads: int, sequence: int, batch: int = 1, dropout: float = 0.0, dtype: str = "bfloat16"
) -> TorchTraining:
    from transformers import GPT2Config, GPT2LMHeadModel

    class Loss(GPT2LMHeadModel):  # type: ignore[misc]  # transformers may be absent
        def forward(self, tokens: Any, labels: Any) -> Any:
            return super().forward(input_ids=tokens, labels=labels, use_cache=False).loss

    config = GPT2Config(
        n_layer=layers, n_embd=hidden, n_head=heads, n_positions=sequence, vocab_size=50257, resid_pdrop=dropout,
        embd_pdrop=dropout, attn_pdrop=dropout,
    )  # fmt: skip
    return _training(Loss, config, batch, sequence, dtype, f"GPT, {layers} layers")


def _training(kind: Any, config: Any, batch: int, sequence: int, dtype: str, what: str) -> TorchTraining:
    import torch
    import transformers

    torch.set_default_dtype(getattr(torch, dtype))
    tokens, labels = (torch.zeros(batch, sequence, dtype=torch.long) for _ in range(2))
    note = f"{what}, {dtype}, batch {batch}, sequence {sequence}; transformers {transformers.__version__}"
    return TorchTraining(kind(config), (tokens, labels), None, note)
