"""GGUF files of the architecture `llama`: hyperparameters, and every tensor as bytes of the mapped file.

A file is untrusted. Each length, count and offset is compared with the file's size before anything is made of it, each
tensor with the shape that the architecture requires, and what would change the computation and is not implemented
(scaled RoPE, experts, biases, other quantisations) is refused by name; every refusal is INVALID_WEIGHTS. Nothing of a
tensor is read here: `Weight.blocks` is a view of the mapping, whose pages the system loads when a kernel or a copy
first reads them. The reader of the package `gguf` serves as the oracle of the tests: it makes a NumPy array for each
element of the vocabulary, and follows lengths past the end of the file.

The weights of wq and wk are stored permuted: GGUF's `llama` rotates adjacent pairs of a head, elements 2i and 2i + 1,
where the checkpoints that were converted rotate i and i + head_dim / 2.
"""

from __future__ import annotations

import math
import mmap
import os
import stat
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from tmmu.core.errors import TmmuError
from tmmu.core.extras import require_import

WeightType = Literal["F32", "F16", "Q8_0", "Q4_0"]
Value = bool | int | float | str | list[str] | NDArray[Any]

BLOCKS: dict[WeightType, tuple[int, int]] = {"F32": (1, 4), "F16": (1, 2), "Q8_0": (32, 34), "Q4_0": (32, 18)}
"""Elements and bytes of a block: a scale of float16 before 32 int8, or before 16 bytes with two elements each."""

HEADER_LIMIT = 1 << 28
"""Metadata and table of tensors may take this many bytes; those of real files take some ten million."""

COUNT_LIMIT = 1 << 16
"""A file may have this many metadata keys, and this many tensors."""

VERSIONS = (2, 3)
"""Versions of the format with 64-bit lengths, little-endian."""

TYPES = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d",
}  # fmt: skip
"""Scalar metadata types of the format as `struct` and NumPy both read them."""

STRING, ARRAY = 8, 9

READ = {
    "context_length", "embedding_length", "block_count", "feed_forward_length", "vocab_size", "attention.head_count",
    "attention.head_count_kv", "attention.key_length", "attention.value_length", "attention.layer_norm_rms_epsilon",
    "rope.dimension_count", "rope.freq_base",
}  # fmt: skip
"""Keys under `llama.` of which the hyperparameters are made."""

NEUTRAL: dict[str, tuple[Value, ...]] = {
    "rope.scaling.type": ("none", ""), "rope.scaling.factor": (0.0, 1.0), "rope.scale_linear": (1.0,),
    "expert_count": (0,), "expert_used_count": (0,), "attention.causal": (True,),
}  # fmt: skip
"""Keys under `llama.` that are accepted with these values only, which change nothing."""

REQUANTISE = "write the file as F32, F16, Q8_0 or Q4_0, as with llama-quantize --pure"


@dataclass(frozen=True)
class LlamaShape:
    """Hyperparameters of a decoder-only Llama; `head_dim · n_heads` need not be `d_model`."""

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
        """The tensors that a file must have, with rows and columns, in the order of a forward pass; norms are one row.

        `output.weight` is not among them: where it is absent, the logits are products with the embedding.
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
    """A mapped GGUF file: metadata by key, tensors by name. The mapping lasts as long as a view of it does."""

    path: str
    metadata: Mapping[str, Value]
    tensors: Mapping[str, Weight]

    def refuse(self, what: str, place: str | None = None, fix: str | None = None) -> NoReturn:
        """INVALID_WEIGHTS with the file named."""
        raise invalid(self.path, what, place, fix)


@dataclass(frozen=True)
class LlamaFile(GgufFile):
    """A GGUF file of which every tensor of the architecture `llama` is there, with its shape. spec: FD5.1"""

    shape: LlamaShape

    @property
    def output(self) -> Weight:
        """The matrix of the logits, [vocab, d_model]: the embedding's where the file has none of its own."""
        return self.tensors.get("output.weight") or self.tensors["token_embd.weight"]


def invalid(path: str, what: str, place: str | None = None, fix: str | None = None) -> TmmuError:
    """INVALID_WEIGHTS with file, place and fix."""
    return TmmuError(
        "INVALID_WEIGHTS", what, file=path, place=place, fix=fix or "convert or download the file again",
        operator="foundry.weights",
    )  # fmt: skip


def open_llama(path: str | os.PathLike[str]) -> LlamaFile:
    """Map a file and check it against the architecture `llama`.

    Raises
    ------
    TmmuError
        INVALID_WEIGHTS for whatever is wrong with the file, with the tensor or key; MISSING_PACKAGE where the package
        gguf is not installed.

    Notes
    -----
    O(metadata) time and memory; no byte of a tensor is read. The file must not be shortened while it is mapped: the
    system ends a process that reads beyond the end. spec: FD5.1 to FD5.5
    """
    file = open_gguf(path)
    shape = _llama_shape(file)
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
            "the tensor is none that the architecture llama has here", other[0], "use a model without biases, experts "
            "and scaled RoPE",
        )  # fmt: skip
    return LlamaFile(file.path, file.metadata, file.tensors, shape)


def _check_shape(file: GgufFile, name: str, rows: int, columns: int) -> None:
    found = file.tensors[name]
    if (found.rows, found.columns) != (rows, columns):
        file.refuse(f"{found.rows} rows of {found.columns}, where the hyperparameters give {rows} of {columns}", name)


def _llama_shape(file: GgufFile) -> LlamaShape:
    """The hyperparameters, each in range and all consistent; what is not implemented is refused."""
    architecture = file.metadata.get("general.architecture")
    if architecture != "llama":
        file.refuse(
            f"the architecture is {architecture!r}, and llama is the one that is implemented", "general.architecture",
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
    heads = _integer(file, "attention.head_count")
    d_model = _integer(file, "embedding_length")
    if "llama.attention.key_length" not in file.metadata and d_model % heads:
        file.refuse(f"{heads} heads do not divide {d_model}", "llama.attention.head_count")
    head_dim = _integer(file, "attention.key_length", d_model // heads)
    shape = LlamaShape(
        vocab=embedding.rows,
        d_model=d_model,
        n_layers=_integer(file, "block_count"),
        n_heads=heads,
        n_kv_heads=_integer(file, "attention.head_count_kv", heads),
        head_dim=head_dim,
        d_ff=_integer(file, "feed_forward_length"),
        context_length=_integer(file, "context_length"),
        rope_base=_positive(file, "rope.freq_base", 10000.0),
        rms_eps=_positive(file, "attention.layer_norm_rms_epsilon", None),
    )
    for key, found, expected in (
        ("attention.value_length", _integer(file, "attention.value_length", head_dim), head_dim),
        ("rope.dimension_count", _integer(file, "rope.dimension_count", head_dim), head_dim),
        ("vocab_size", _integer(file, "vocab_size", shape.vocab), shape.vocab),
        ("attention.head_count_kv", heads % shape.n_kv_heads, 0),
        ("attention.key_length", head_dim % 2, 0),
    ):
        if found != expected:
            file.refuse(f"heads of {head_dim} ({shape.n_heads}, {shape.n_kv_heads} of keys and values) and "
                        f"{shape.vocab} rows of the embedding do not go with it", f"llama.{key}")  # fmt: skip
    return shape


def _integer(file: GgufFile, name: str, default: int | None = None) -> int:
    """An integer of [1, 2^31) under `llama.`; a default holds where the key is absent."""
    key = f"llama.{name}"
    value = file.metadata.get(key, default)
    if value is None:
        file.refuse("the key is not in the metadata", key)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value < 1 << 31:
        file.refuse("the value is not one integer from 1 to 2^31 - 1", key)
    return value


def _positive(file: GgufFile, name: str, default: float | None) -> float:
    """A finite number above 0 under `llama.`; a default holds where the key is absent."""
    key = f"llama.{name}"
    value = file.metadata.get(key, default)
    if value is None:
        file.refuse("the key is not in the metadata", key)
    if not isinstance(value, float) or not (math.isfinite(value) and value > 0):
        file.refuse("the value is not a finite float above 0", key)
    return value


def open_gguf(path: str | os.PathLike[str]) -> GgufFile:
    """Map a GGUF file of any architecture, with its metadata and tensors; as `open_llama`. spec: FD5.1 to FD5.3"""
    name = os.fspath(path)
    with require_import("gguf", "reading a GGUF file", "foundry"):
        from gguf.constants import GGMLQuantizationType
    data = _mapped(name)
    reader = _Reader(name, data)
    if reader.raw(4, "the header") != b"GGUF":
        raise invalid(name, "it does not begin with GGUF", fix="give a GGUF file")
    (version,) = reader.numbers("<I", "the header")
    if version not in VERSIONS:
        raise invalid(name, f"version {version} of the format, or big-endian", "the header",
                      "convert it to version 3, little-endian")  # fmt: skip
    tensor_count, key_count = reader.numbers("<QQ", "the header")
    for what, count in (("tensors", tensor_count), ("metadata keys", key_count)):
        if count > COUNT_LIMIT:
            raise invalid(name, f"{count} {what}, at most {COUNT_LIMIT} are read", "the header")
    metadata: dict[str, Value] = {}
    for k in range(key_count):
        key = reader.string(f"metadata key {k}")
        if key in metadata:
            raise invalid(name, "the key occurs twice", key)
        metadata[key] = reader.value(key)
    table = [reader.entry(k) for k in range(tensor_count)]
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment < 8 or alignment & (alignment - 1):
        raise invalid(name, "the alignment is not a power of two from 8", "general.alignment")
    start = -(-reader.position // alignment) * alignment
    types = {int(number): number.name for number in GGMLQuantizationType}
    tensors: dict[str, Weight] = {}
    spans: list[tuple[int, int, str]] = []
    for title, dims, number, offset in table:
        if title in tensors:
            raise invalid(name, "the tensor occurs twice", title)
        weight_type = types.get(number, f"number {number}")
        if weight_type not in BLOCKS:
            raise invalid(name, f"the type {weight_type} is not one of {', '.join(BLOCKS)}", title, REQUANTISE)
        kind = weight_type
        elements, size = BLOCKS[kind]
        if not 1 <= len(dims) <= 2 or not all(dims):
            raise invalid(name, f"the dimensions are {list(dims)}; one or two are needed, none of them 0", title)
        columns, rows = dims[0], dims[1] if len(dims) == 2 else 1
        if columns % elements:
            raise invalid(name, f"{columns} columns are no multiple of the {elements} in a block of {kind}", title)
        length = columns // elements * size
        if offset % alignment:
            raise invalid(name, f"the offset {offset} is no multiple of the alignment {alignment}", title)
        if start + offset + rows * length > len(data):
            raise invalid(
                name, f"bytes {start + offset} to {start + offset + rows * length} of a file of {len(data)}: it is cut "
                "off, or the offset is wrong", title,
            )  # fmt: skip
        spans.append((offset, offset + rows * length, title))
        blocks = np.frombuffer(data, np.uint8, rows * length, start + offset).reshape(rows, length)
        tensors[title] = Weight(title, kind, rows, columns, blocks)
    for (_, end, below), (begin, _, above) in pairwise(sorted(spans)):
        if begin < end:
            raise invalid(name, f"it shares bytes with {below}", above)
    return GgufFile(name, metadata, tensors)


def _mapped(path: str) -> mmap.mmap:
    """The file, mapped for reading; refused where it is empty or no regular file."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode) or status.st_size == 0:
                what = "it is no regular file" if status.st_size or not stat.S_ISREG(status.st_mode) else "it is empty"
                raise invalid(path, what, fix="give a GGUF file")
            return mmap.mmap(handle, 0, access=mmap.ACCESS_READ)
        finally:
            os.close(handle)
    except OSError as error:
        raise invalid(path, f"it cannot be read: {error.strerror}", fix="give a GGUF file") from error


class _Reader:
    """The header from its begin on; every piece is compared with what is left of the file."""

    def __init__(self, path: str, data: mmap.mmap) -> None:
        self.path, self.data, self.position = path, data, 0
        self.end = min(len(data), HEADER_LIMIT)

    def raw(self, count: int, place: str) -> bytes:
        """The next bytes."""
        begin = self.skip(count, place)
        return self.data[begin : self.position]

    def skip(self, count: int, place: str) -> int:
        """Where the next bytes begin; they are passed over."""
        begin = self.position
        if count > self.end - begin:
            what = "the file is cut off" if self.end == len(self.data) else f"a header above {HEADER_LIMIT} bytes"
            raise invalid(self.path, f"{what}: {count} bytes are needed at {begin} of {self.end}", place)
        self.position += count
        return begin

    def numbers(self, form: str, place: str) -> tuple[int, ...]:
        """The next numbers."""
        return struct.unpack(form, self.raw(struct.calcsize(form), place))

    def string(self, place: str) -> str:
        """The next string."""
        (length,) = self.numbers("<Q", place)
        try:
            return str(self.raw(length, place), "utf-8")
        except UnicodeDecodeError as error:
            raise invalid(self.path, "the text is not UTF-8", place) from error

    def value(self, key: str) -> Value:
        """The next value of metadata, after its type."""
        (kind,) = self.numbers("<I", key)
        if kind == STRING:
            return self.string(key)
        if kind in TYPES:
            found: Value = self.numbers(TYPES[kind], key)[0]
            return found
        if kind != ARRAY:
            raise invalid(self.path, f"the metadata type {kind} is unknown", key)
        inner, count = self.numbers("<IQ", key)
        if inner in TYPES:
            dtype = np.dtype(TYPES[inner])
            return np.frombuffer(self.data, dtype, count, self.skip(count * dtype.itemsize, key))
        if inner != STRING:
            raise invalid(self.path, f"an array of the metadata type {inner}", key)
        if count * 8 > self.end - self.position:
            self.skip(count * 8, key)
        return [self.string(key) for _ in range(count)]

    def entry(self, k: int) -> tuple[str, tuple[int, ...], int, int]:
        """The next row of the table of tensors: name, dimensions, type, offset."""
        name = self.string(f"tensor {k}")
        (count,) = self.numbers("<I", name)
        if count > 4:
            raise invalid(self.path, f"{count} dimensions", name)
        dims = self.numbers(f"<{count}Q", name)
        kind, offset = self.numbers("<IQ", name)
        return name, dims, kind, offset
