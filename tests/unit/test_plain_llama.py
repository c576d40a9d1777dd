"""The plain run is the network as it is written down: one expression in float64, without cache, blocks or tiles."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gguf import quants
from gguf.constants import GGMLQuantizationType
from numpy.typing import NDArray

from tests.support.gguf_parts import TINY, tiny
from tests.support.plain_llama import PlainLlama
from tmmu.examples.llama import SeededLlama
from tmmu.foundry.shapes import LlamaFile, open_llama

Wide = NDArray[np.float64]


def textbook(file: LlamaFile, tokens: list[int]) -> Wide:
    """The logits after each token, [tokens, vocab]: whole matrices, and a causal mask."""
    s, count = file.shape, len(tokens)

    def matrix(name: str) -> Wide:
        weight = file.tensors[f"{name}.weight"]
        stored = quants.dequantize(np.ascontiguousarray(weight.blocks), GGMLQuantizationType[weight.type])
        return stored.reshape(weight.rows, weight.columns).astype(np.float64)

    def normed(x: Wide, name: str) -> Wide:
        return x / np.sqrt((x * x).mean(axis=1, keepdims=True) + s.rms_eps) * matrix(name)[0]

    def rotated(x: Wide) -> Wide:
        angles = np.outer(np.arange(count), s.rotations[0].base ** (-np.arange(0, s.head_dim, 2) / s.head_dim))
        turned = (x[..., ::2] + 1j * x[..., 1::2]) * np.exp(1j * angles)[:, None]
        return np.stack([turned.real, turned.imag], axis=-1).reshape(x.shape)

    x = matrix("token_embd")[tokens]
    for layer in range(s.n_layers):
        block = f"blk.{layer}"
        h = normed(x, f"{block}.attn_norm")
        q, k, v = ((h @ matrix(f"{block}.attn_{name}").T).reshape(count, -1, s.head_dim) for name in "qkv")
        group = s.n_heads // s.n_kv_heads
        k, v = np.repeat(rotated(k), group, axis=1), np.repeat(v, group, axis=1)
        scores = np.einsum("ihd,jhd->hij", rotated(q), k) / np.sqrt(s.head_dim)
        weights = np.exp(np.where(np.tri(count, dtype=bool), scores, -np.inf))
        mixed = np.einsum("hij,jhd->ihd", weights / weights.sum(axis=2, keepdims=True), v).reshape(count, -1)
        x = x + mixed @ matrix(f"{block}.attn_output").T
        h = normed(x, f"{block}.ffn_norm")
        gate = h @ matrix(f"{block}.ffn_gate").T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ matrix(f"{block}.ffn_up").T)) @ matrix(f"{block}.ffn_down").T
    return normed(x, "output_norm") @ matrix(file.output.name.removesuffix(".weight")).T


@pytest.mark.parametrize("file_type", ["f32", "q4_0"])
@pytest.mark.parametrize("shape", [TINY, SeededLlama("tied", 96, 1, 3, 1, 64, vocab=300)], ids=["tiny", "tied"])
def test_logits_are_those_of_the_textbook(shape: SeededLlama, file_type: str, tmp_path: Path) -> None:
    """Over the end of a block of 128 tokens; what remains is the rounding of cache and tables to float16."""
    file = open_llama(tiny(tmp_path, file_type, shape))
    tokens = [k * 37 % shape.vocab for k in range(140)]
    wanted = textbook(file, tokens)
    for activation, tolerance in ((np.float32, 4e-3), (np.float16, 2e-2)):
        model = PlainLlama(file, activation, 256)
        found = np.stack([model.step(token) for token in tokens])
        assert np.abs(found - wanted).max() < tolerance
