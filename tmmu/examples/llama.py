"""Decoder-only Llamas with seeded weights, as GGUF files: `tmmu example llama-15m --weights SEED -o m.gguf`.

They have the shapes of small trained models, grouped heads, and a vocabulary of single characters, bytes and runs of up
to three letters, so that any text can be tokenised. The weights are drawn (`draws`) so that activations keep their size
and the best logit is clearly above the next: a product of n terms with factors of variance 1 has the variance
`VARIANCES[name]`. The same seed gives the same bytes everywhere; only quantising needs gguf.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, islice, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tmmu.core.extras import require_import
from tmmu.examples.draws import Grid, check_seed, draw_weights, grid

TYPES: dict[str, tuple[int, int, int, int]] = {
    "f32": (0, 0, 1, 4), "f16": (1, 1, 1, 2), "q8_0": (8, 7, 32, 34), "q4_0": (2, 2, 32, 18),
}  # fmt: skip
"""The numbers of GGUF for the type of the matrices and for that of the file; elements and bytes of a block."""

VARIANCES = {
    "token_embd": Fraction(4), "attn_q": Fraction(1, 2), "attn_k": Fraction(1, 2), "attn_v": Fraction(1),
    "attn_output": Fraction(1, 8), "ffn_gate": Fraction(2), "ffn_up": Fraction(2), "ffn_down": Fraction(1, 8),
    "output": Fraction(4),
}  # fmt: skip
"""The variance of the results of each matrix; norms are drawn around 1.

Rounding of the cache is not amplified from layer to layer, because those of q, k and the results that are added to the
residual are smaller. spec: FD5.12, FD5.14
"""

Store = Callable[[NDArray[np.float32]], NDArray[Any]]

ALIGNMENT = 32
BYTES_FROM, PIECES_FROM = 3, 259
"""The id of the first byte token, after <unk>, <s> and </s>, and that of the first piece of text."""

LETTERS = "etaoinshrdlcumwfgypbvkjxqz"
SPACE = "▁"


@dataclass(frozen=True)
class SeededLlama:
    """The shape of a model: `vocab` ≥ 260, `d_model` a multiple of 2 · `n_heads`, `n_kv_heads` a divisor of `n_heads`.

    If `tied` is true, the embedding is the matrix of the logits too, and the file has no `output.weight`.
    """

    name: str
    d_model: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    d_ff: int
    vocab: int = 32000
    context_length: int = 8192
    tied: bool = True

    def tensors(self) -> Iterator[tuple[str, int, int]]:
        """Yield name, rows and columns in the order of the file; 0 rows stand for one dimension."""
        d, kv = self.d_model, self.d_model // self.n_heads * self.n_kv_heads
        yield "token_embd.weight", self.vocab, d
        for layer in range(self.n_layers):
            for name, rows, columns in (
                ("attn_norm", 0, d), ("attn_q", d, d), ("attn_k", kv, d), ("attn_v", kv, d), ("attn_output", d, d),
                ("ffn_norm", 0, d), ("ffn_gate", self.d_ff, d), ("ffn_up", self.d_ff, d), ("ffn_down", d, self.d_ff),
            ):  # fmt: skip
                yield f"blk.{layer}.{name}.weight", rows, columns
        yield "output_norm.weight", 0, d
        if not self.tied:
            yield "output.weight", self.vocab, d


LLAMA_15M = SeededLlama("llama-15m", 288, 6, 6, 2, 768)
LLAMA_110M = SeededLlama("llama-110m", 768, 12, 12, 4, 2048)


class Entry(NamedTuple):
    """A tensor of the file: its row in the table, the grid of its elements, and their encoding."""

    header: bytes
    elements: int
    size: int
    grid: Grid
    file_type: str


def file_pieces(shape: SeededLlama, seed: int, file_type: str = "f32") -> Iterator[bytes]:
    """Yield the file in pieces of at most some 16 MiB; each is made when it is asked for.

    Norms are float32 in every file. Raises ValueError for a seed that is out of range or a type that is not in `TYPES`,
    MISSING_PACKAGE for a quantised file if the package gguf is not installed.
    spec: FD5.11 to FD5.13
    """
    check_seed(seed)
    if file_type not in TYPES:
        raise ValueError(f"expected one of the types {', '.join(TYPES)}, got {file_type!r}")
    store = {kind: _choose_encoder(kind) for kind in ("f32", file_type)}
    entries = list(_iterate_entries(shape, file_type))
    keys = _encode_metadata(shape, file_type)
    header = b"".join(
        [b"GGUF", struct.pack("<IQQ", 3, len(entries), len(keys)), *keys, *(entry.header for entry in entries)]
    )
    return chain([header, bytes(-len(header) % ALIGNMENT)], _encode_data(entries, seed, store))


def _iterate_entries(shape: SeededLlama, file_type: str) -> Iterator[Entry]:
    """Yield the tensors with their offsets from the first byte of the first tensor."""
    offset = 0
    for name, rows, columns in shape.tensors():
        dims, kind = ([columns, rows], file_type) if rows else ([columns], "f32")
        number, _, elements, size = TYPES[kind]
        count = columns * (rows or 1)
        bits = 11 if kind == "f16" else 16
        if rows:
            drawn_from = grid(3 * VARIANCES[name.split(".")[-2]] / columns, bits, False)
        else:
            drawn_from = grid(Fraction(1, 16), bits, True)
        header = _encode_text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, number, offset)
        yield Entry(header, count, count // elements * size, drawn_from, kind)
        offset += -(-count // elements * size // ALIGNMENT) * ALIGNMENT


def _encode_data(entries: list[Entry], seed: int, store: dict[str, Store]) -> Iterator[bytes]:
    for k, entry in enumerate(entries):
        for elements in draw_weights(entry.elements, seed, k, entry.grid):
            yield store[entry.file_type](elements).tobytes()
        yield bytes(-entry.size % ALIGNMENT)


def _choose_encoder(file_type: str) -> Store:
    """Return the function that encodes elements as the file has them; only quantised types round."""
    if TYPES[file_type][2] == 1:
        return lambda elements: elements.astype("<f4" if file_type == "f32" else "<f2")
    with require_import("gguf", f"a file of the type {file_type}", "foundry"):
        from gguf import quants
        from gguf.constants import GGMLQuantizationType
    kind = GGMLQuantizationType[file_type.upper()]
    return lambda elements: quants.quantize(elements.reshape(1, -1), kind)


def _encode_metadata(shape: SeededLlama, file_type: str) -> list[bytes]:
    """Return the keys with their values, each encoded as in the file."""
    pieces = [*map(str.encode, islice(_iterate_vocabulary(), shape.vocab))]
    if not PIECES_FROM < len(pieces) == shape.vocab:
        most = sum(1 for _ in _iterate_vocabulary())
        raise ValueError(f"expected a vocabulary of {PIECES_FROM + 1} to {most}, got {shape.vocab}")
    scores = np.concatenate([np.zeros(PIECES_FROM), -np.arange(len(pieces) - PIECES_FROM)]).astype("<f4")
    kinds = np.ones(len(pieces), "<i4")
    kinds[:PIECES_FROM] = [2, 3, 3, *[6] * 256]
    head_dim = shape.d_model // shape.n_heads
    keys = [
        _encode_string("general.architecture", "llama"),
        _encode_string("general.name", shape.name),
        _encode_number("general.file_type", TYPES[file_type][1]),
        _encode_number("llama.context_length", shape.context_length),
        _encode_number("llama.embedding_length", shape.d_model),
        _encode_number("llama.block_count", shape.n_layers),
        _encode_number("llama.feed_forward_length", shape.d_ff),
        _encode_number("llama.attention.head_count", shape.n_heads),
        _encode_number("llama.attention.head_count_kv", shape.n_kv_heads),
        _encode_number("llama.attention.layer_norm_rms_epsilon", 1e-5),
        _encode_number("llama.rope.dimension_count", head_dim),
        _encode_number("llama.rope.freq_base", 10000.0),
        _encode_number("llama.vocab_size", shape.vocab),
        _encode_string("tokenizer.ggml.model", "llama"),
        _encode_string("tokenizer.ggml.pre", "default"),
        _encode_array("tokenizer.ggml.tokens", 8, [struct.pack("<Q", len(piece)) + piece for piece in pieces]),
        _encode_array("tokenizer.ggml.scores", 6, [score.tobytes() for score in scores]),
        _encode_array("tokenizer.ggml.token_type", 5, [kind.tobytes() for kind in kinds]),
        *(_encode_number(f"tokenizer.ggml.{name}_token_id", k) for k, name in enumerate(("unknown", "bos", "eos"))),
        *(_encode_number(f"tokenizer.ggml.{name}", value) for name, value in (
            ("add_bos_token", True), ("add_eos_token", False), ("add_space_prefix", True)
        )),
    ]  # fmt: skip
    return keys if TYPES[file_type][2] == 1 else [*keys, _encode_number("general.quantization_version", 2)]


def _iterate_vocabulary() -> Iterator[str]:
    """Yield the pieces in the order of their ids: special ones, bytes, characters, then runs of letters.

    Each run occurs inside of words and, after a space, at their begin.
    """
    yield from ("<unk>", "<s>", "</s>")
    yield from (f"<0x{byte:02X}>" for byte in range(256))
    yield SPACE
    yield from map(chr, chain(range(0x21, 0x7F), range(0xC0, 0x100)))
    for length in (1, 2, 3):
        runs = ["".join(letters) for letters in product(LETTERS, repeat=length)]
        yield from runs if length > 1 else ()
        yield from (SPACE + run for run in runs)


def _encode_text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def _encode_string(key: str, value: str) -> bytes:
    return _encode_text(key) + struct.pack("<I", 8) + _encode_text(value)


def _encode_number(key: str, value: bool | int | float) -> bytes:
    if isinstance(value, bool):
        return _encode_text(key) + struct.pack("<I?", 7, value)
    return _encode_text(key) + (
        struct.pack("<II", 4, value) if isinstance(value, int) else struct.pack("<If", 6, value)
    )


def _encode_array(key: str, inner: int, values: list[bytes]) -> bytes:
    return _encode_text(key) + struct.pack("<IIQ", 9, inner, len(values)) + b"".join(values)
