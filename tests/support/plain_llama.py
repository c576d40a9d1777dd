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

from tmmu.foundry.shapes import LlamaFile
from tmmu.foundry.weights import Weight

TILE = 256
BLOCK = 128

Single = NDArray[np.float32]
Stored = NDArray[Any]


def rows_of(weight: Weight, begin: int, end: int) -> Single:
    """Rows of a weight as float32."""
    blocks = np.ascontiguousarray(weight.blocks[begin:end])
    found: Single = quants.dequantize(blocks, GGMLQuantizationType[weight.type])
    return found.reshape(-1, weight.columns)


def limited(values: Single, limit: float) -> Single:
    """Each x as limit · tanh(x / limit)."""
    found: Single = np.tanh(values / np.float32(limit)) * np.float32(limit)
    return found


class PlainLlama:
    """One sequence. `step` takes a token and returns the logits of the next."""

    def __init__(self, file: LlamaFile, activation: type = np.float16, capacity: int = 4096) -> None:
        s = self.shape = file.shape
        self.file, self.activation = file, activation
        self.position = 0
        capacity = -(-capacity // BLOCK) * BLOCK
        self.keys = np.zeros((s.n_layers, s.n_kv_heads, capacity, s.head_dim), np.float16)
        self.values = np.zeros_like(self.keys)
        self.tables = [by.compute_rows(0, capacity, s.head_dim) for by in s.rotations]
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
        row = rows_of(self.file.tensors["token_embd.weight"], token, token + 1)[0]
        x = (row * np.float32(s.embedding_scale) if s.embedding_scale != 1 else row).astype(self.activation)
        for layer in range(s.n_layers):
            block = f"blk.{layer}"
            attended = self._attention(layer, self._normed(f"{block}.attn_norm", x))
            x = self._add(x, self._post(f"{block}.post_attention_norm", attended))
            fed = self._feed_forward(layer, self._normed(f"{block}.ffn_norm", x))
            x = self._add(x, self._post(f"{block}.post_ffw_norm", fed))
        self.position += 1
        return self._product(self.file.output, self._normed("output_norm", x), limit=s.logit_limit)

    def _post(self, name: str, x: Stored) -> Stored:
        return self._normed(name, x) if f"{name}.weight" in self.file.tensors else x

    def _add(self, x: Stored, y: Stored) -> Stored:
        return (x.astype(np.float32) + y.astype(np.float32)).astype(self.activation)

    def _normed(self, name: str, x: Stored) -> Stored:
        weight = rows_of(self.file.tensors[f"{name}.weight"], 0, 1)[0]
        x32 = x.astype(np.float32)
        mean = np.add.reduce(x32 * x32) / np.float32(len(x))
        scale = np.float32(1) / np.sqrt(mean + np.float32(self.shape.rms_eps))
        return (x32 * scale * weight).astype(self.activation)

    def _matrix(self, name: str, x: Stored) -> Stored:
        return self._product(self.file.tensors[f"{name}.weight"], x, self.file.tensors.get(f"{name}.bias"))

    def _product(self, weight: Weight, x: Stored, bias: Weight | None = None, limit: float = 0.0) -> Stored:
        """The matrix times x, with its bias and within its limit; its tiles are float32 from the first use on."""
        if weight.name not in self._tiles:
            starts = range(0, weight.rows, TILE)
            self._tiles[weight.name] = [rows_of(weight, k, min(k + TILE, weight.rows)) for k in starts]
        x32 = x.astype(np.float32)
        found = np.concatenate([np.dot(tile, x32) for tile in self._tiles[weight.name]])
        if bias is not None:
            found = found + rows_of(bias, 0, 1)[0]
        return (limited(found, limit) if limit else found).astype(self.activation)

    def _rotated(self, layer: int, heads: Stored) -> Stored:
        """Pairs of each head turned by the angle of the position: (2i, 2i + 1), or (i, i + half)."""
        cos, sin = (table[self.position].astype(np.float32) for table in self.tables[self.shape.rotation_of(layer)])
        wide = heads.astype(np.float32)
        half = wide.shape[1] // 2
        if self.shape.kind.halves:
            first, second = wide[:, :half], wide[:, half:]
            turned = np.concatenate([first * cos - second * sin, first * sin + second * cos], axis=1)
            return turned.astype(self.activation)
        pairs = wide.reshape(len(heads), -1, 2)
        turned = np.stack(
            [pairs[..., 0] * cos - pairs[..., 1] * sin, pairs[..., 0] * sin + pairs[..., 1] * cos], axis=-1
        )
        return turned.reshape(heads.shape).astype(self.activation)

    def _heads(self, layer: int, name: str, x: Stored) -> Stored:
        """Queries or keys of each head, with their norm if there is one, rotated."""
        heads = self._matrix(f"blk.{layer}.attn_{name}", x).reshape(-1, self.shape.head_dim)
        norm = f"blk.{layer}.attn_{name}_norm"
        found: Stored = self._rotated(layer, np.stack([self._post(norm, head) for head in heads]))
        return found

    def _attention(self, layer: int, x: Stored) -> Stored:
        s, name, p = self.shape, f"blk.{layer}", self.position
        q, k = self._heads(layer, "q", x), self._heads(layer, "k", x)
        self.keys[layer, :, p] = k
        self.values[layer, :, p] = self._matrix(f"{name}.attn_v", x).reshape(s.n_kv_heads, s.head_dim)
        group = s.n_heads // s.n_kv_heads
        end, window = (p // BLOCK + 1) * BLOCK, s.window_of(layer)
        least = max(p + 1 - window, 0) if window else 0
        begin = least // BLOCK * BLOCK
        q32 = q.astype(np.float32).reshape(s.n_kv_heads, group, s.head_dim, 1)
        scores = np.empty((s.n_heads, end - begin), np.float32)
        for start in range(begin, end, BLOCK):
            keys = self.keys[layer, :, start : start + BLOCK].astype(np.float32)
            scores[:, start - begin : start - begin + BLOCK] = np.matmul(keys[:, None], q32).reshape(s.n_heads, BLOCK)
        scores *= np.float32(s.attention_scale)
        if s.score_limit:
            scores = limited(scores, s.score_limit)
        scores[:, : least - begin] = -np.inf
        scores[:, p + 1 - begin :] = -np.inf
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        total = np.add.reduce(weights, axis=1)
        summed = np.zeros((s.n_heads, s.head_dim), np.float32)
        for start in range(begin, end, BLOCK):
            values = self.values[layer, :, start : start + BLOCK].astype(np.float32)
            block = weights[:, start - begin : start - begin + BLOCK].reshape(s.n_kv_heads, group, 1, BLOCK)
            summed += np.matmul(block, values[:, None]).reshape(s.n_heads, s.head_dim)
        result = (summed / total[:, None]).astype(self.activation).reshape(-1)
        return self._matrix(f"{name}.attn_output", result)

    def _feed_forward(self, layer: int, x: Stored) -> Stored:
        gate = self._matrix(f"blk.{layer}.ffn_gate", x).astype(np.float32)
        up = self._matrix(f"blk.{layer}.ffn_up", x).astype(np.float32)
        if self.shape.kind.gate == "gelu":
            inner = (gate * gate * np.float32(0.044715) + np.float32(1)) * gate * np.float32(np.sqrt(2 / np.pi))
            gated = gate * ((np.tanh(inner) + np.float32(1)) * np.float32(0.5)) * up
            return self._matrix(f"blk.{layer}.ffn_down", gated.astype(self.activation))
        with np.errstate(over="ignore"):
            gated = gate / (np.float32(1) + np.exp(-gate)) * up
        return self._matrix(f"blk.{layer}.ffn_down", gated.astype(self.activation))
