"""A decoder-only Llama in plain NumPy that allocates at will: what a session's tokens and logits must be, bit for bit.

Of `tmmu.foundry` it has the reader of files alone. Every row (a token) is computed by itself, so that no batching can
change a bit. The order of sums is part of the definition: products of a matrix are taken in tiles of `TILE` rows, and
attention in blocks of `BLOCK` tokens. Activations are stored as `Activation`, float16 or float32; every sum is float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gguf import quants
from gguf.constants import GGMLQuantizationType
from numpy.typing import NDArray

from tmmu.foundry.weights import LlamaFile, Weight

TILE = 256
BLOCK = 128

Single = NDArray[np.float32]
Stored = NDArray[Any]


def rows_of(weight: Weight, begin: int, end: int) -> Single:
    """Rows of a weight as float32."""
    blocks = np.ascontiguousarray(weight.blocks[begin:end])
    found: Single = quants.dequantize(blocks, GGMLQuantizationType[weight.type])
    return found.reshape(-1, weight.columns)


class PlainLlama:
    """One sequence. `step` takes a token and returns the logits of the next."""

    def __init__(self, file: LlamaFile, activation: type = np.float16, capacity: int = 4096) -> None:
        s = self.shape = file.shape
        self.file, self.activation = file, activation
        self.position = 0
        capacity = -(-capacity // BLOCK) * BLOCK
        self.keys = np.zeros((s.n_layers, s.n_kv_heads, capacity, s.head_dim), np.float16)
        self.values = np.zeros_like(self.keys)
        inverse = np.float32(s.rope_base) ** (np.arange(0, s.head_dim, 2, dtype=np.float32) / np.float32(s.head_dim))
        angle = np.arange(capacity, dtype=np.float32)[:, None] / inverse
        self.cos, self.sin = np.cos(angle).astype(np.float16), np.sin(angle).astype(np.float16)
        self._tiles: dict[str, list[Single]] = {}

    def run(self, tokens: list[int]) -> Stored:
        """The logits after the last of the tokens."""
        for token in tokens:
            logits = self.step(token)
        return logits

    def greedy(self, prompt: list[int], count: int) -> list[int]:
        """The tokens that follow, each the one with the greatest logit, the first of equals."""
        logits, found = self.run(prompt), list[int]()
        while True:
            found.append(int(np.argmax(logits)))
            if len(found) == count:
                return found
            logits = self.step(found[-1])

    def step(self, token: int) -> Stored:
        """The logits of the token after this one, [vocab], stored as activations are."""
        s = self.shape
        x = rows_of(self.file.tensors["token_embd.weight"], token, token + 1)[0].astype(self.activation)
        for layer in range(s.n_layers):
            x = self._add(x, self._attention(layer, self._normed(f"blk.{layer}.attn_norm", x)))
            x = self._add(x, self._feed_forward(layer, self._normed(f"blk.{layer}.ffn_norm", x)))
        self.position += 1
        return self._product(self.file.output, self._normed("output_norm", x))

    def _add(self, x: Stored, y: Stored) -> Stored:
        return (x.astype(np.float32) + y.astype(np.float32)).astype(self.activation)

    def _normed(self, name: str, x: Stored) -> Stored:
        weight = rows_of(self.file.tensors[f"{name}.weight"], 0, 1)[0]
        x32 = x.astype(np.float32)
        mean = np.add.reduce(x32 * x32) / np.float32(len(x))
        scale = np.float32(1) / np.sqrt(mean + np.float32(self.shape.rms_eps))
        return (x32 * scale * weight).astype(self.activation)

    def _matrix(self, name: str, x: Stored) -> Stored:
        return self._product(self.file.tensors[f"{name}.weight"], x)

    def _product(self, weight: Weight, x: Stored) -> Stored:
        """The matrix times x; its tiles are kept as float32 from the first use on."""
        if weight.name not in self._tiles:
            starts = range(0, weight.rows, TILE)
            self._tiles[weight.name] = [rows_of(weight, k, min(k + TILE, weight.rows)) for k in starts]
        x32 = x.astype(np.float32)
        return np.concatenate([np.dot(tile, x32) for tile in self._tiles[weight.name]]).astype(self.activation)

    def _rotated(self, heads: Stored) -> Stored:
        """Pairs (2i, 2i + 1) of each head turned by the angle of the position."""
        cos = self.cos[self.position].astype(np.float32)
        sin = self.sin[self.position].astype(np.float32)
        pairs = heads.astype(np.float32).reshape(len(heads), -1, 2)
        turned = np.stack(
            [pairs[..., 0] * cos - pairs[..., 1] * sin, pairs[..., 0] * sin + pairs[..., 1] * cos], axis=-1
        )
        return turned.reshape(heads.shape).astype(self.activation)

    def _attention(self, layer: int, x: Stored) -> Stored:
        s, name, p = self.shape, f"blk.{layer}", self.position
        q = self._rotated(self._matrix(f"{name}.attn_q", x).reshape(s.n_heads, s.head_dim))
        k = self._rotated(self._matrix(f"{name}.attn_k", x).reshape(s.n_kv_heads, s.head_dim))
        self.keys[layer, :, p] = k
        self.values[layer, :, p] = self._matrix(f"{name}.attn_v", x).reshape(s.n_kv_heads, s.head_dim)
        group = s.n_heads // s.n_kv_heads
        end = (p // BLOCK + 1) * BLOCK
        q32 = q.astype(np.float32).reshape(s.n_kv_heads, group, s.head_dim, 1)
        scores = np.empty((s.n_heads, end), np.float32)
        for start in range(0, end, BLOCK):
            keys = self.keys[layer, :, start : start + BLOCK].astype(np.float32)
            scores[:, start : start + BLOCK] = np.matmul(keys[:, None], q32).reshape(s.n_heads, BLOCK)
        scores *= np.float32(1) / np.sqrt(np.float32(s.head_dim))
        scores[:, p + 1 :] = -np.inf
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        total = np.add.reduce(weights, axis=1)
        summed = np.zeros((s.n_heads, s.head_dim), np.float32)
        for start in range(0, end, BLOCK):
            values = self.values[layer, :, start : start + BLOCK].astype(np.float32)
            block = weights[:, start : start + BLOCK].reshape(s.n_kv_heads, group, 1, BLOCK)
            summed += np.matmul(block, values[:, None]).reshape(s.n_heads, s.head_dim)
        result = (summed / total[:, None]).astype(self.activation).reshape(-1)
        return self._matrix(f"{name}.attn_output", result)

    def _feed_forward(self, layer: int, x: Stored) -> Stored:
        gate = self._matrix(f"blk.{layer}.ffn_gate", x).astype(np.float32)
        up = self._matrix(f"blk.{layer}.ffn_up", x).astype(np.float32)
        with np.errstate(over="ignore"):
            gated = gate / (np.float32(1) + np.exp(-gate)) * up
        return self._matrix(f"blk.{layer}.ffn_down", gated.astype(self.activation))
