"""Small models of each architecture that sessions run, with drawn weights, as GGUF files that llama.cpp loads too."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tests.support.gguf_parts import Parts, Tensor, numbers, texts, value
from tests.support.small_llama import file_of
from tmmu.examples.llama import SeededLlama
from tmmu.foundry.shapes import BIASES, HEAD_NORMS, POST_NORMS
from tmmu.foundry.weights import open_gguf

VOCABULARY = SeededLlama("words", 64, 1, 2, 1, 64, vocab=320)

LONG = [1, *((k * 37 + 5) % 320 for k in range(180))]
"""Tokens beyond the windows of the kinds, and beyond a block of 128 positions that a window leaves."""

RECORDED = Path(__file__).parents[1] / "corpus" / "llama-cpp-kinds.json"
"""Log-probabilities of llama.cpp by kind: after `LONG`, the token and the logarithm for the most probable ones."""

Scalar = bool | int | float | str


@dataclass(frozen=True)
class Kind:
    """A model: its architecture, keys under that name, tensors of each layer beyond the usual, and factors of RoPE.

    `heads` are those of queries, those of keys and values, and their width; `width` is that of the embedding.
    """

    architecture: str
    keys: dict[str, Scalar] = field(default_factory=dict)
    extras: tuple[str, ...] = ()
    factors: bool = False
    tied: bool = False
    layers: int = 3
    heads: tuple[int, int, int] = (4, 2, 16)
    width: int = 64


KINDS = {
    "llama": Kind("llama"),
    "mistral": Kind("llama", heads=(4, 1, 32)),
    "llama-biases": Kind("llama", extras=BIASES[:4]),
    "llama-factors": Kind("llama", factors=True),
    "llama-linear": Kind("llama", {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}),
    "llama-yarn": Kind("llama", {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
                                 "rope.scaling.original_context_length": 128}),
    "qwen2": Kind("qwen2", extras=BIASES[:3]),
    "qwen2-yarn": Kind("qwen2", {"rope.scaling.type": "yarn", "rope.scaling.factor": 2.0,
                                 "rope.scaling.original_context_length": 256}, BIASES[:3], tied=True),
    "qwen3": Kind("qwen3", {"rope.freq_base": 1000000.0}, HEAD_NORMS, tied=True, heads=(4, 2, 32)),
    "gemma": Kind("gemma", {}, tied=True, heads=(4, 1, 32)),
    "gemma2": Kind("gemma2", {"attention.sliding_window": 40, "attn_logit_softcapping": 5.0,
                              "final_logit_softcapping": 3.0}, POST_NORMS, tied=True),
    "gemma3": Kind("gemma3", {"attention.sliding_window": 40, "rope.freq_base": 1000000.0,
                              "rope.scaling.type": "linear", "rope.scaling.factor": 8.0},
                   (*HEAD_NORMS, *POST_NORMS), tied=True, layers=7),
}  # fmt: skip
"""Every way in which a model differs from llama and is computed by a session."""


def write_kind(folder: Path, name: str, seed: int = 1) -> Path:
    """Write the model of a name of `KINDS`; it takes milliseconds to run."""
    path = folder / f"{name}.gguf"
    path.write_bytes(parts_of(KINDS[name], seed).encoded())
    return path


def parts_of(kind: Kind, seed: int = 1) -> Parts:
    """The keys and tensors of a model."""
    words, d, ff, (heads, shared, wide) = VOCABULARY.vocab, kind.width, kind.width * 3 // 2, kind.heads
    rng = np.random.RandomState(seed)  # its numbers are the same in every version of NumPy

    def drawn(rows: int, columns: int, variance: float) -> Tensor:
        made = rng.normal(0, math.sqrt(variance / columns), (rows, columns)).astype(np.float32)
        return Tensor((columns, rows), data=made.tobytes())

    def row(count: int, middle: float, reach: float) -> Tensor:
        return Tensor((count,), data=rng.uniform(middle - reach, middle + reach, count).astype(np.float32).tobytes())

    q, kv = heads * wide, shared * wide
    biases = {"attn_q": q, "attn_k": kv, "attn_v": kv, "attn_output": d, "ffn_gate": ff, "ffn_up": ff, "ffn_down": d}
    tensors = {"token_embd.weight": drawn(words, d, 1.0 if kind.architecture.startswith("gemma") else 4.0)}
    for layer in range(kind.layers):
        at = f"blk.{layer}."
        for matrix, rows, columns, variance in (
            ("attn_q", q, d, 1.0), ("attn_k", kv, d, 1.0), ("attn_v", kv, d, 1.0), ("attn_output", d, q, 0.5),
            ("ffn_gate", ff, d, 2.0), ("ffn_up", ff, d, 2.0), ("ffn_down", d, ff, 0.5),
        ):  # fmt: skip
            tensors[f"{at}{matrix}.weight"] = drawn(rows, columns, variance)
        for norm in ("attn_norm", "ffn_norm"):
            tensors[f"{at}{norm}.weight"] = row(d, 1.0, 0.25)
        for extra in kind.extras:
            count = biases[extra.split(".")[0]] if extra in BIASES else wide if extra in HEAD_NORMS else d
            tensors[at + extra] = row(count, 0.0, 0.5) if extra in BIASES else row(count, 1.0, 0.25)
    tensors["output_norm.weight"] = row(d, 1.0, 0.25)
    if not kind.tied:
        tensors["output.weight"] = drawn(words, d, 4.0)
    if kind.factors:
        tensors["rope_freqs.weight"] = row(wide // 2, 4.0, 3.0)
    stated: dict[str, Scalar] = {
        "context_length": 512, "embedding_length": d, "block_count": kind.layers, "feed_forward_length": ff,
        "attention.head_count": heads, "attention.head_count_kv": shared, "attention.key_length": wide,
        "attention.value_length": wide, "attention.layer_norm_rms_epsilon": 1e-6, "rope.freq_base": 10000.0,
        "rope.dimension_count": wide, **kind.keys,
    }  # fmt: skip
    keys = {f"{kind.architecture}.{key}": value(found) for key, found in stated.items()}
    return Parts({"general.architecture": value(kind.architecture), **keys, **_vocabulary()}, tensors)


def _vocabulary() -> dict[str, bytes]:
    """The keys of a vocabulary of the kind `llama`."""
    keys = dict[str, bytes]()
    for key, read in open_gguf(file_of(VOCABULARY)).metadata.items():
        if not key.startswith("tokenizer."):
            continue
        if isinstance(read, list):
            keys[key] = texts(read)
        elif isinstance(read, np.ndarray):
            is_float = read.dtype.kind == "f"
            keys[key] = numbers(6 if is_float else 5, "f" if is_float else "i", read.tolist())
        else:
            keys[key] = value(read)
    return keys
