"""GGUF files: metadata, and every tensor as bytes of the mapped file.

A file is untrusted. Each length, count and offset is compared with the size of the file before it is used; every
refusal is INVALID_WEIGHTS. No content of a tensor is read here: `Weight.blocks` is a view of the mapping, whose pages
the system loads when a kernel or a copy first reads them. The reader of the package `gguf` is not used, except as the
oracle of the tests: it makes a NumPy array for each element of the vocabulary, and follows lengths past the end of the
file.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Mapping
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

REQUANTISE = "write the file as F32, F16, Q8_0 or Q4_0, as with llama-quantize --pure"
OTHER_DEVICE = "use --device ggml, or " + REQUANTISE


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


def make_invalid_weights(path: str, what: str, place: str | None = None, fix: str | None = None) -> TmmuError:
    """Make the error INVALID_WEIGHTS with file, place and fix."""
    return TmmuError(
        "INVALID_WEIGHTS", what, file=path, place=place, fix=fix or "convert or download the file again",
        operator="foundry.weights",
    )  # fmt: skip


def open_gguf(path: str | os.PathLike[str], types: tuple[WeightType, ...] = PLAIN_TYPES) -> GgufFile:
    """Map a GGUF file of any architecture; `types` are those that its tensors may have.

    Raises
    ------
    TmmuError
        INVALID_WEIGHTS for each defect of the file, with the tensor or key; MISSING_PACKAGE if the package gguf is
        not installed.

    Notes
    -----
    O(metadata) time and memory; no byte of a tensor is read. The file must not be shortened while it is mapped: the
    system ends a process that reads beyond the end. spec: FD5.1 to FD5.3
    """
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
