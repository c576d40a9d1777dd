"""GGUF files of the architecture `llama`: hyperparameters, and every tensor as bytes of the mapped file.

A file is untrusted. Each length, count and offset is compared with the size of the file before it is used, and each
tensor with the shape that the architecture requires. Features that would change the computation and are not implemented
(scaled RoPE, experts, biases, other quantisations) are refused by name; every refusal is INVALID_WEIGHTS. No content of
a tensor is read here: `Weight.blocks` is a view of the mapping, whose pages the system loads when a kernel or a copy
first reads them. The reader of the package `gguf` is not used, except as the oracle of the tests: it makes a NumPy
array for each element of the vocabulary, and follows lengths past the end of the file.

The weights of wq and wk are stored permuted: the `llama` of GGUF rotates adjacent pairs of a head, elements 2i and 2i +
1; the original checkpoints rotate i and i + head_dim / 2.
"""

from __future__ import annotations

import math
import mmap
import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from tmmu.core.errors import TmmuError
from tmmu.core.extras import require_import
from tmmu.core.reading import NotRegular, open_file

WeightType = Literal["F32", "F16", "Q8_0", "Q4_0", "BF16", "Q4_K", "Q5_K", "Q6_K"]
Value = bool | int | float | str | list[str] | NDArray[Any]

PLAIN_TYPES: tuple[WeightType, ...] = ("F32", "F16", "Q8_0", "Q4_0")
"""The types that every device multiplies."""

BLOCKS: dict[WeightType, tuple[int, int]] = {
    "F32": (1, 4), "F16": (1, 2), "Q8_0": (32, 34), "Q4_0": (32, 18),
    "BF16": (1, 2), "Q4_K": (256, 144), "Q5_K": (256, 176), "Q6_K": (256, 210),
}  # fmt: skip
"""The elements and bytes of a block: a scale of float16 before 32 int8, or before 16 bytes with two elements each.

Blocks of the last three types have scales of their parts too. Only the device `ggml` reads those of the last four.
"""

HEADER_LIMIT = 1 << 28
"""The limit on the bytes of metadata and table of tensors; those of real files take some ten million."""

COUNT_LIMIT = 1 << 16
"""The limit on the metadata keys, and on the tensors, of a file."""

VERSIONS = (2, 3)
"""The versions of the format with 64-bit lengths, little-endian."""

TYPES = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d",
}  # fmt: skip
"""The scalar metadata types of the format, as format characters of both `struct` and NumPy."""

STRING, ARRAY = 8, 9

READ = {
    "context_length", "embedding_length", "block_count", "feed_forward_length", "vocab_size", "attention.head_count",
    "attention.head_count_kv", "attention.key_length", "attention.value_length", "attention.layer_norm_rms_epsilon",
    "rope.dimension_count", "rope.freq_base",
}  # fmt: skip
"""The keys under `llama.` from which the hyperparameters are read."""

NEUTRAL: dict[str, tuple[Value, ...]] = {
    "rope.scaling.type": ("none", ""), "rope.scaling.factor": (0.0, 1.0), "rope.scale_linear": (1.0,),
    "expert_count": (0,), "expert_used_count": (0,), "attention.causal": (True,),
}  # fmt: skip
"""The keys under `llama.` that are accepted with these values only, which have no effect."""

REQUANTISE = "write the file as F32, F16, Q8_0 or Q4_0, as with llama-quantize --pure"
OTHER_DEVICE = "use --device ggml, or " + REQUANTISE


@dataclass(frozen=True)
class LlamaShape:
    """The hyperparameters of a decoder-only Llama; `head_dim · n_heads` need not be `d_model`."""

    vocab: int
    d_model: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    d_ff: int
    context_length: int
    rope_base: float
    rms_eps: float

    def tensors(self) -> Iterator[tuple[str, tuple[int, int]]]:
        """Yield the tensors that a file must have, with rows and columns, in the order of a forward pass.

        Norms have one row. `output.weight` is not required: if it is absent, the logits are products with the
        embedding.
        """
        d, q, kv, ff = self.d_model, self.n_heads * self.head_dim, self.n_kv_heads * self.head_dim, self.d_ff
        yield "token_embd.weight", (self.vocab, d)
        for layer in range(self.n_layers):
            for name, rows, columns in (
                ("attn_norm", 1, d), ("attn_q", q, d), ("attn_k", kv, d), ("attn_v", kv, d), ("attn_output", d, q),
                ("ffn_norm", 1, d), ("ffn_gate", ff, d), ("ffn_up", ff, d), ("ffn_down", d, ff),
            ):  # fmt: skip
                yield f"blk.{layer}.{name}.weight", (rows, columns)
        yield "output_norm.weight", (1, d)


@dataclass(frozen=True)
class Weight:
    """A tensor of the file: `blocks` is a read-only view [rows, bytes of a row] of the mapping."""

    name: str
    type: WeightType
    rows: int
    columns: int
    blocks: NDArray[np.uint8]


@dataclass(frozen=True)
class GgufFile:
    """A mapped GGUF file: metadata by key, tensors by name. The mapping exists while any view of it does."""

    path: str
    metadata: Mapping[str, Value]
    tensors: Mapping[str, Weight]

    def refuse(self, what: str, place: str | None = None, fix: str | None = None) -> NoReturn:
        """Raise INVALID_WEIGHTS with the path of the file."""
        raise make_invalid_weights(self.path, what, place, fix)


@dataclass(frozen=True)
class LlamaFile(GgufFile):
    """A GGUF file that has every tensor of the architecture `llama`, with its shape. spec: FD5.1"""

    shape: LlamaShape

    @property
    def output(self) -> Weight:
        """The matrix of the logits, [vocab, d_model]: `output.weight`, or the embedding if the file has none."""
        return self.tensors.get("output.weight") or self.tensors["token_embd.weight"]


def make_invalid_weights(path: str, what: str, place: str | None = None, fix: str | None = None) -> TmmuError:
    """Make the error INVALID_WEIGHTS with file, place and fix."""
    return TmmuError(
        "INVALID_WEIGHTS", what, file=path, place=place, fix=fix or "convert or download the file again",
        operator="foundry.weights",
    )  # fmt: skip


def open_llama(path: str | os.PathLike[str], types: tuple[WeightType, ...] = PLAIN_TYPES) -> LlamaFile:
    """Map a file and check it against the architecture `llama`; `types` are those that its tensors may have.

    Raises
    ------
    TmmuError
        INVALID_WEIGHTS for each defect of the file, with the tensor or key; MISSING_PACKAGE if the package gguf is
        not installed.

    Notes
    -----
    O(metadata) time and memory; no byte of a tensor is read. The file must not be shortened while it is mapped: the
    system ends a process that reads beyond the end. spec: FD5.1 to FD5.5
    """
    file = open_gguf(path, types)
    shape = _read_shape(file)
    names = {"output.weight"} & file.tensors.keys()
    for name, (rows, columns) in shape.tensors():
        if name not in file.tensors:
            file.refuse("the tensor is not in the file", name)
        _check_shape(file, name, rows, columns)
        names.add(name)
    if "output.weight" in names:
        _check_shape(file, "output.weight", shape.vocab, shape.d_model)
    if other := sorted(file.tensors.keys() - names):
        file.refuse(
            "the tensor is not part of the architecture llama", other[0], "use a model without biases, experts "
            "and scaled RoPE",
        )  # fmt: skip
    return LlamaFile(file.path, file.metadata, file.tensors, shape)


def _check_shape(file: GgufFile, name: str, rows: int, columns: int) -> None:
    found = file.tensors[name]
    if (found.rows, found.columns) != (rows, columns):
        file.refuse(
            f"expected {rows} rows of {columns} from the hyperparameters, got {found.rows} of {found.columns}", name
        )


def _read_shape(file: GgufFile) -> LlamaShape:
    """Read the hyperparameters; refuse those out of range, inconsistent or not implemented."""
    architecture = file.metadata.get("general.architecture")
    if architecture != "llama":
        file.refuse(
            f"expected the architecture llama, got {architecture!r}", "general.architecture",
            "use a model of the architecture llama",
        )  # fmt: skip
    for key, value in file.metadata.items():
        name = key.removeprefix("llama.")
        if name == key or name in READ or name == "tensor_data_layout":
            continue
        if isinstance(value, np.ndarray | list) or value not in NEUTRAL.get(name, ()):
            shown = "an array" if isinstance(value, np.ndarray | list) else repr(value)
            file.refuse(f"{shown} changes the computation in a way that is not implemented", key, "use another model")
    embedding = file.tensors.get("token_embd.weight")
    if embedding is None:
        file.refuse("the tensor is not in the file", "token_embd.weight")
    heads = _read_integer(file, "attention.head_count")
    d_model = _read_integer(file, "embedding_length")
    if "llama.attention.key_length" not in file.metadata and d_model % heads:
        file.refuse(f"{heads} heads do not divide {d_model}", "llama.attention.head_count")
    head_dim = _read_integer(file, "attention.key_length", d_model // heads)
    shape = LlamaShape(
        vocab=embedding.rows,
        d_model=d_model,
        n_layers=_read_integer(file, "block_count"),
        n_heads=heads,
        n_kv_heads=_read_integer(file, "attention.head_count_kv", heads),
        head_dim=head_dim,
        d_ff=_read_integer(file, "feed_forward_length"),
        context_length=_read_integer(file, "context_length"),
        rope_base=_read_positive(file, "rope.freq_base", 10000.0),
        rms_eps=_read_positive(file, "attention.layer_norm_rms_epsilon", None),
    )
    for key, found, expected in (
        ("attention.value_length", _read_integer(file, "attention.value_length", head_dim), head_dim),
        ("rope.dimension_count", _read_integer(file, "rope.dimension_count", head_dim), head_dim),
        ("vocab_size", _read_integer(file, "vocab_size", shape.vocab), shape.vocab),
        ("attention.head_count_kv", heads % shape.n_kv_heads, 0),
        ("attention.key_length", head_dim % 2, 0),
    ):
        if found != expected:
            file.refuse(f"heads of {head_dim} ({shape.n_heads}, {shape.n_kv_heads} of keys and values) and "
                        f"{shape.vocab} rows of the embedding do not go with it", f"llama.{key}")  # fmt: skip
    return shape


def _read_integer(file: GgufFile, name: str, default: int | None = None) -> int:
    """Read an integer of [1, 2^31) under `llama.`; the default holds if the key is absent."""
    key = f"llama.{name}"
    value = file.metadata.get(key, default)
    if value is None:
        file.refuse("the key is not in the metadata", key)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value < 1 << 31:
        file.refuse("the value is not one integer from 1 to 2^31 - 1", key)
    return value


def _read_positive(file: GgufFile, name: str, default: float | None) -> float:
    """Read a finite number above 0 under `llama.`; the default holds if the key is absent."""
    key = f"llama.{name}"
    value = file.metadata.get(key, default)
    if value is None:
        file.refuse("the key is not in the metadata", key)
    if not isinstance(value, float) or not (math.isfinite(value) and value > 0):
        file.refuse("the value is not a finite float above 0", key)
    return value


def open_gguf(path: str | os.PathLike[str], types: tuple[WeightType, ...] = PLAIN_TYPES) -> GgufFile:
    """Map a GGUF file of any architecture, with its metadata and tensors; as `open_llama`. spec: FD5.1 to FD5.3"""
    name = os.fspath(path)
    with require_import("gguf", "reading a GGUF file", "foundry"):
        from gguf.constants import GGMLQuantizationType
    data = _map_file(name)
    reader = _Reader(name, data)
    if reader.raw(4, "the header") != b"GGUF":
        raise make_invalid_weights(name, "it does not begin with GGUF", fix="give a GGUF file")
    (version,) = reader.numbers("<I", "the header")
    if version not in VERSIONS:
        raise make_invalid_weights(name, "expected version 2 or 3 of the format, little-endian, "
            f"got version {version}", "the header",
                      "convert it to version 3, little-endian")  # fmt: skip
    tensor_count, key_count = reader.numbers("<QQ", "the header")
    for what, count in (("tensors", tensor_count), ("metadata keys", key_count)):
        if count > COUNT_LIMIT:
            raise make_invalid_weights(name, f"{count} {what}, at most {COUNT_LIMIT} are read", "the header")
    metadata: dict[str, Value] = {}
    for k in range(key_count):
        key = reader.string(f"metadata key {k}")
        if key in metadata:
            raise make_invalid_weights(name, "the key occurs twice", key)
        metadata[key] = reader.value(key)
    table = [reader.entry(k) for k in range(tensor_count)]
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment < 8 or alignment & (alignment - 1):
        raise make_invalid_weights(name, "the alignment is not a power of two from 8", "general.alignment")
    start = -(-reader.position // alignment) * alignment
    names = {int(number): number.name for number in GGMLQuantizationType}
    tensors: dict[str, Weight] = {}
    spans: list[tuple[int, int, str]] = []
    for title, dims, number, offset in table:
        if title in tensors:
            raise make_invalid_weights(name, "the tensor occurs twice", title)
        weight_type = names.get(number, f"number {number}")
        if weight_type not in types:
            fix = OTHER_DEVICE if weight_type in BLOCKS else REQUANTISE
            raise make_invalid_weights(name, f"the type {weight_type} is not one of {', '.join(types)}", title, fix)
        kind = weight_type
        elements, size = BLOCKS[kind]
        if not 1 <= len(dims) <= 2 or not all(dims):
            raise make_invalid_weights(name, f"expected one or two dimensions, none of them 0, got {list(dims)}", title)
        columns, rows = dims[0], dims[1] if len(dims) == 2 else 1
        if columns % elements:
            raise make_invalid_weights(
                name, f"{columns} columns are not a multiple of the {elements} in a block of {kind}", title
            )
        length = columns // elements * size
        if offset % alignment:
            raise make_invalid_weights(
                name, f"the offset {offset} is not a multiple of the alignment {alignment}", title
            )
        if start + offset + rows * length > len(data):
            raise make_invalid_weights(
                name, f"bytes {start + offset} to {start + offset + rows * length} of a file of {len(data)}: it is cut "
                "off, or the offset is wrong", title,
            )  # fmt: skip
        spans.append((offset, offset + rows * length, title))
        blocks = np.frombuffer(data, np.uint8, rows * length, start + offset).reshape(rows, length)
        tensors[title] = Weight(title, kind, rows, columns, blocks)
    for (_, end, below), (begin, _, above) in pairwise(sorted(spans)):
        if begin < end:
            raise make_invalid_weights(name, f"it shares bytes with {below}", above)
    return GgufFile(name, metadata, tensors)


def _map_file(path: str) -> mmap.mmap:
    """Map the file for reading. Raises INVALID_WEIGHTS if it is empty or not a regular file."""
    try:
        with open_file(path) as file:
            if os.fstat(file.fileno()).st_size == 0:
                raise make_invalid_weights(path, "it is empty", fix="give a GGUF file")
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except NotRegular as error:
        raise make_invalid_weights(path, error.what, fix="give a GGUF file") from error
    except OSError as error:
        raise make_invalid_weights(path, f"it cannot be read: {error.strerror}", fix="give a GGUF file") from error


class _Reader:
    """The header, read from its begin; every length is compared with the rest of the file."""

    def __init__(self, path: str, data: mmap.mmap) -> None:
        self.path, self.data, self.position = path, data, 0
        self.end = min(len(data), HEADER_LIMIT)

    def raw(self, count: int, place: str) -> bytes:
        """Return the next bytes."""
        begin = self.skip(count, place)
        return self.data[begin : self.position]

    def skip(self, count: int, place: str) -> int:
        """Skip the next bytes, and return their position."""
        begin = self.position
        if count > self.end - begin:
            what = "the file is cut off" if self.end == len(self.data) else f"a header above {HEADER_LIMIT} bytes"
            raise make_invalid_weights(self.path, f"{what}: {count} bytes are needed at {begin} of {self.end}", place)
        self.position += count
        return begin

    def numbers(self, form: str, place: str) -> tuple[int, ...]:
        """Return the next numbers."""
        return struct.unpack(form, self.raw(struct.calcsize(form), place))

    def string(self, place: str) -> str:
        """Return the next string."""
        (length,) = self.numbers("<Q", place)
        try:
            return str(self.raw(length, place), "utf-8")
        except UnicodeDecodeError as error:
            raise make_invalid_weights(self.path, "the text is not UTF-8", place) from error

    def value(self, key: str) -> Value:
        """Return the next value of metadata, after its type."""
        (kind,) = self.numbers("<I", key)
        if kind == STRING:
            return self.string(key)
        if kind in TYPES:
            found: Value = self.numbers(TYPES[kind], key)[0]
            return found
        if kind != ARRAY:
            raise make_invalid_weights(self.path, f"the metadata type {kind} is unknown", key)
        inner, count = self.numbers("<IQ", key)
        if inner in TYPES:
            dtype = np.dtype(TYPES[inner])
            return np.frombuffer(self.data, dtype, count, self.skip(count * dtype.itemsize, key))
        if inner != STRING:
            raise make_invalid_weights(self.path, f"an array of the metadata type {inner}", key)
        if count * 8 > self.end - self.position:
            self.skip(count * 8, key)
        return [self.string(key) for _ in range(count)]

    def entry(self, k: int) -> tuple[str, tuple[int, ...], int, int]:
        """Return the next row of the table of tensors: name, dimensions, type, offset."""
        name = self.string(f"tensor {k}")
        (count,) = self.numbers("<I", name)
        if count > 4:
            raise make_invalid_weights(self.path, f"{count} dimensions", name)
        dims = self.numbers(f"<{count}Q", name)
        kind, offset = self.numbers("<IQ", name)
        return name, dims, kind, offset
