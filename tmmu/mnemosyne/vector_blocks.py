"""The blocks of a store of vectors: the contents of its log's records. All is big-endian except what NumPy reads.

    head     version 1 · mode 1 · flags 1 · type 1 · width 4 · vectors 4 · number 4 · left 8
    numbers  first 8 · span 4 · a bit for each number of the span, if the version is `NUMBERED`
    then     the vectors' token ids, 8 bytes each, if the flags have `IDS`, and their differences (`delta`), as one
             frame of Zstandard if they have `COMPRESSED`

A put writes its vectors as blocks numbered from 0; `left` is the number of its vectors that follow the block. A put
without a block that has none left is unfinished. The vectors of a block have the numbers that follow the block before,
unless the block states them: a compaction writes such blocks where vectors were deleted. In them the first vector of
INT8 is a float32 if the flags have `WIDE`. spec: MN8.2, MN8.4, MN8.5, MN8.14, MN11.4
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tmmu.core.extras import require_import
from tmmu.mnemosyne import delta
from tmmu.mnemosyne.failures import InvalidLog, InvalidVectors

VERSION, NUMBERED = 1, 3
"""The first byte of a block, and of one that states the numbers of its vectors; a record of the index has 2."""

HEAD = struct.Struct(">BBBBIIIQ")
NUMBERS = struct.Struct(">QI")
IDS, COMPRESSED, WIDE = 1, 2, 4
MODES = ("lossless", "float", "int8")
KINDS = (
    "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "bfloat16", "float32",
    "float64",
)  # fmt: skip
LEVEL = 3
"""Zstandard's default level."""

IN_A_BLOCK, IN_A_ROUNDED_BLOCK = 1 << 13, 1 << 16
"""The most bytes of vectors in a block of default size: all that is decrypted for one vector.

Blocks that are compressed, or whose first vector takes more bytes than the others, are larger."""

MOST = 1024
"""The most vectors in a block of default size: a quarter of the number for which float32 sums stay within 0.024 %."""

EMPTY = 1 << 16
"""The most vectors without elements in a block."""
LARGEST = 1 << 28
"""The most bytes of a block."""


class VectorLayout(NamedTuple):
    """The properties that all vectors of a store share: the mode of their differences, their type and their width."""

    mode: str
    kind: str
    width: int

    @property
    def given(self) -> np.dtype[Any]:
        """The NumPy type of the vectors as they are put, without more packages: bfloat16 as its bit patterns."""
        return np.dtype("uint16" if self.kind == "bfloat16" else self.kind)

    @property
    def returned(self) -> str:
        """The type of the vectors as they are read: float32 in the modes that round."""
        return self.kind if self.mode == "lossless" else "float32"

    def __str__(self) -> str:
        return f"{self.width} {self.kind}, {self.mode}"


class VectorBlock(NamedTuple):
    """A block as it is in its record."""

    layout: VectorLayout
    vectors: int
    number: int
    left: int
    ids: NDArray[np.uint64] | None
    is_compressed: bool
    content: memoryview
    first: int | None = None
    """The number of its first vector, if it states the numbers of its vectors."""
    offsets: NDArray[np.int64] | None = None
    """The numbers of its vectors, counted from `first`."""
    is_wide: bool = False
    kept: NDArray[np.int64] | None = None
    """The places of its vectors that were not deleted; None if none was."""

    @property
    def span(self) -> int:
        """How many numbers there are from its first vector to its last."""
        return self.vectors if self.offsets is None else int(self.offsets[-1]) + 1

    def numbers(self, first: int) -> NDArray[np.int64]:
        """Return the numbers of its vectors, of which `first` is the least."""
        return first + (np.arange(self.vectors) if self.offsets is None else self.offsets)

    def place_of(self, offset: int) -> int | None:
        """Return the place of the vector whose number is that many after the first; None if it has none."""
        if self.offsets is None:
            return offset if offset < self.vectors else None
        place = int(np.searchsorted(self.offsets, offset))
        return place if place < len(self.offsets) and self.offsets[place] == offset else None

    def differences(self) -> bytes | memoryview:
        """Return its content without compression. Raises ValueError if it has another number of bytes."""
        size = content_size(self.layout, self.vectors, is_wide=self.is_wide)
        content = _decompress(self.content, size) if self.is_compressed else self.content
        if len(content) != size:
            raise ValueError(f"expected {size} bytes, got {len(content)}")
        return content

    def decode(self, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Decode its vectors [vectors, width], of the type that the layout returns; bfloat16 as its bit patterns.

        If `out` is given, they are written into it. Raises ValueError if the bytes do not match the number of vectors.
        """
        layout, shape, kind = self.layout, (self.vectors, self.layout.width), self.layout.given
        block = max(self.vectors, 1)
        if out is None:
            out = np.empty(shape, kind if layout.mode == "lossless" else np.float32)
        if layout.mode == "lossless":
            patterns = np.frombuffer(self.differences(), f"u{kind.itemsize}").reshape(shape)
            delta.LosslessDeltas(kind, block, patterns).decode_into(out)
        elif layout.mode == "float":
            out[...] = delta.FloatDeltas(block, np.frombuffer(self.differences(), np.float32).reshape(shape)).decode()
        else:
            out[...] = self.deltas().decode()
        return out

    def deltas(self) -> delta.Int8Deltas:
        """Return its differences, in the mode INT8. Raises ValueError if it has another number of bytes."""
        content = self.differences()
        vectors, width, later = self.vectors, self.layout.width, max(self.vectors - 1, 0)
        kind = _kind_of_first(self.layout, is_wide=self.is_wide)
        first = min(vectors, 1) * width * kind.itemsize
        firsts = np.frombuffer(content[:first], f"u{kind.itemsize}").reshape(min(vectors, 1), width)
        scales, codes = np.zeros(vectors, np.float32), np.zeros((vectors, width), np.int8)
        scales[1:] = np.frombuffer(content[first : first + 4 * later], np.float32)
        codes[1:] = np.frombuffer(content[first + 4 * later :], np.int8).reshape(later, width)
        return delta.Int8Deltas(kind, max(vectors, 1), firsts, scales, codes)


def default_block(layout: VectorLayout, is_compressed: bool = False) -> int:
    """Return the default number of vectors in a block, which is the interval of vectors that are stored unchanged."""
    size = IN_A_ROUNDED_BLOCK if is_compressed or layout.mode == "int8" else IN_A_BLOCK
    return max(1, min(MOST, size // max(1, layout.width * layout.given.itemsize)))


def encode_block(
    layout: VectorLayout,
    rows: NDArray[Any],
    number: int,
    left: int,
    ids: NDArray[np.uint64] | None = None,
    *,
    compress: bool = False,
    first: int = 0,
) -> memoryview:
    """Encode a block of `rows` [vectors, width]. `first` is the number of its first vector in a refusal. O(rows).

    Raises `InvalidVectors` for rows that the mode does not accept.
    """
    flags = (IDS if ids is not None else 0) | (COMPRESSED if compress else 0)
    mode, kind = MODES.index(layout.mode), KINDS.index(layout.kind)
    head = HEAD.pack(VERSION, mode, flags, kind, layout.width, len(rows), number, left)
    start = HEAD.size + (0 if ids is None else 8 * len(rows))
    if compress:
        content = _compress(b"".join(_encoded(layout, rows, first)))
        into = np.empty(start + len(content), np.uint8)
        into[start:] = np.frombuffer(content, np.uint8)
    elif layout.mode == "lossless":
        into = np.empty(start + rows.size * rows.itemsize, np.uint8)
        out = into[start:].view(f"u{rows.itemsize}").reshape(rows.shape)
        delta.encode_lossless(rows, max(len(rows), 1), out)
    else:
        into = np.frombuffer(bytearray(start) + b"".join(_encoded(layout, rows, first)), np.uint8)
    into[: HEAD.size] = np.frombuffer(head, np.uint8)
    if ids is not None:
        into[HEAD.size : start] = np.ascontiguousarray(ids, "<u8").view(np.uint8)
    return into.data


def encode_blocks(layout: VectorLayout, rows: NDArray[Any], block: int, number: int, left: int) -> list[bytes]:
    """Encode `rows` in lossless blocks of `block` vectors, all at once, without token ids and not compressed.

    The first has the given number, and `left` vectors of the put are after them. Equal to `encode_block` of each.
    """
    content = _bytes(delta.encode_lossless(rows, block).records)
    mode, kind, size = MODES.index(layout.mode), KINDS.index(layout.kind), layout.width * layout.given.itemsize
    found = []
    for at, start in enumerate(range(0, len(rows), block)):
        stop = min(start + block, len(rows))
        head = HEAD.pack(
            VERSION, mode, 0, kind, layout.width, stop - start, number + at, left + len(rows) - stop
        )  # fmt: skip
        found.append(b"".join((head, content[start * size : stop * size])))
    return found


def decode_block(data: bytes | memoryview, file: str, place: str) -> VectorBlock:
    """Decode the block in a record. Raises `InvalidLog` if it is not a block, or of another version. spec: RE3.2"""
    if not data or data[0] not in (VERSION, NUMBERED):
        what = (
            f"expected version {VERSION} or {NUMBERED} of a block, got {data[0]}" if data else "not a block of vectors"
        )
        raise InvalidLog(what, file, place)
    first, offsets = None, None
    try:
        version, mode, flags, kind, width, vectors, number, left = HEAD.unpack_from(data)
        layout, start = VectorLayout(MODES[mode], KINDS[kind], width), HEAD.size
        if version == NUMBERED:
            first, offsets, start = _decode_numbers(data, vectors)
        ids = np.frombuffer(data, "<u8", vectors, start).astype(np.uint64) if flags & IDS else None
        start += 8 * vectors if flags & IDS else 0
    except (struct.error, IndexError, ValueError) as error:
        raise InvalidLog("not a block of vectors", file, place) from error
    # Put writes no larger one. Its vectors would take any memory, and of vectors without elements their numbers would.
    if content_size(layout, vectors) > 2 * LARGEST or (not width and vectors > EMPTY):
        raise InvalidLog(f"not a block of vectors: {vectors} of {width} elements", file, place)
    content, is_compressed = memoryview(data)[start:], bool(flags & COMPRESSED)
    return VectorBlock(
        layout, vectors, number, left, ids, is_compressed, content, first, offsets, bool(flags & WIDE)
    )  # fmt: skip


def _decode_numbers(data: bytes | memoryview, vectors: int) -> tuple[int, NDArray[np.int64], int]:
    """Decode the numbers that a block states: the first, all from the first on, and where they end."""
    first, span = NUMBERS.unpack_from(data, HEAD.size)
    at = HEAD.size + NUMBERS.size
    bits = np.frombuffer(data, np.uint8, -(-span // 8), at)
    offsets = np.flatnonzero(np.unpackbits(bits, count=span))
    if len(offsets) != vectors or not vectors or offsets[0] != 0 or offsets[-1] != span - 1:
        raise ValueError("the numbers are not those of its vectors")
    return first, offsets, at + len(bits)


def pack_block(block: VectorBlock) -> bytes:
    """Return the bytes of a block, as `decode_block` takes them."""
    flags = (IDS if block.ids is not None else 0) | (COMPRESSED if block.is_compressed else 0)
    layout, offsets = block.layout, block.offsets
    head = HEAD.pack(
        VERSION if offsets is None else NUMBERED, MODES.index(layout.mode), flags | (WIDE if block.is_wide else 0),
        KINDS.index(layout.kind), layout.width, block.vectors, block.number, block.left,
    )  # fmt: skip
    parts: list[bytes | memoryview] = [head]
    if offsets is not None:
        is_there = np.zeros(block.span, np.bool_)
        is_there[offsets] = True
        parts += [NUMBERS.pack(block.first, block.span), np.packbits(is_there).tobytes()]
    if block.ids is not None:
        parts.append(np.ascontiguousarray(block.ids, "<u8").tobytes())
    return b"".join((*parts, block.content))


def keep_vectors(block: VectorBlock, first: int, places: NDArray[np.int64]) -> list[VectorBlock]:
    """Return blocks of the vectors at these places of a block (ascending), which state their numbers. O(block).

    `first` is the number of the block's first vector. Each vector is decoded from them as from this block, bit for bit.
    A lossless block is encoded anew. In the other modes each run of neighbours is a block, whose first vector is stored
    as it was rebuilt: its differences stay. Raises ValueError if the bytes of the block do not match its size.
    """
    numbers, ids = block.numbers(first), block.ids
    if len(places) == block.vectors or block.layout.mode == "lossless":
        runs = [places] if len(places) else []
    else:
        runs = np.split(places, np.flatnonzero(np.diff(places) > 1) + 1)
    found = []
    for run in runs:
        content, is_wide = block.content, block.is_wide
        if len(run) < block.vectors:
            content, is_wide = _content_of(block, run)
        offsets = numbers[run] - numbers[run[0]]
        found.append(
            block._replace(
                vectors=len(run), ids=None if ids is None else ids[run], content=content, is_wide=is_wide,
                first=int(numbers[run[0]]), offsets=offsets,
            )
        )  # fmt: skip
    return found


def _content_of(block: VectorBlock, run: NDArray[np.int64]) -> tuple[memoryview, bool]:
    """Encode the vectors of a run, neighbours unless the block is lossless. Also returns whether the first is wide."""
    layout, start, stop = block.layout, int(run[0]), int(run[-1]) + 1
    is_wide = block.is_wide
    if layout.mode == "lossless":
        parts = [_bytes(delta.encode_lossless(block.decode()[run], len(run)).records)]
    elif layout.mode == "float":
        records = np.frombuffer(block.differences(), np.float32).reshape(block.vectors, layout.width)[run]
        records[0] = block.decode()[start]
        parts = [_bytes(records)]
    else:
        deltas = block.deltas()
        firsts = deltas.firsts
        if start:
            is_wide = _kind_of_first(layout, is_wide=False) != np.float32
            firsts = block.decode()[start]
        parts = [_bytes(firsts), _bytes(deltas.scales[start + 1 : stop]), _bytes(deltas.codes[start + 1 : stop])]
    content = b"".join(parts)
    return memoryview(_compress(content) if block.is_compressed else content), is_wide


def check_size(layout: VectorLayout, block: int) -> None:
    """Raise `InvalidVectors` if a block of that many vectors has more than `LARGEST` bytes."""
    if block * layout.width * layout.given.itemsize > LARGEST or (not layout.width and block > EMPTY):
        raise InvalidVectors(
            f"a block of {block} vectors of {layout.width} {layout.kind} has more than {LARGEST} bytes", "--block",
            "put fewer into a block",
        )  # fmt: skip


def _encoded(layout: VectorLayout, rows: NDArray[Any], first: int) -> list[bytes | memoryview]:
    block = max(len(rows), 1)
    if layout.mode == "lossless":
        return [_bytes(delta.encode_lossless(rows, block).records)]
    if layout.kind == "bfloat16":  # its bit patterns are the upper halves of those of float32
        rows = (rows.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if layout.mode == "float":
        return [_bytes(delta.encode_float(rows, block, first).records)]
    deltas = delta.encode_int8(rows, block, first)
    return [_bytes(deltas.firsts), _bytes(deltas.scales[1:]), _bytes(deltas.codes[1:])]


def content_size(layout: VectorLayout, vectors: int, *, is_wide: bool = False) -> int:
    """Return the bytes of the differences of that many vectors."""
    item = _kind_of_first(layout, is_wide=is_wide).itemsize
    if layout.mode != "int8":
        return vectors * layout.width * item
    return min(vectors, 1) * layout.width * item + max(vectors - 1, 0) * (4 + layout.width)


def _kind_of_first(layout: VectorLayout, *, is_wide: bool) -> np.dtype[Any]:
    """Return the type in which the first vector of a block is stored."""
    is_rounded = layout.kind == "bfloat16" and layout.mode != "lossless"
    return np.dtype(np.float32) if is_rounded or is_wide else layout.given


def _bytes(array: NDArray[Any]) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _compress(content: bytes) -> bytes:
    with require_import("zstandard", "--zstd", "mnemosyne"):
        import zstandard
    return bytes(zstandard.ZstdCompressor(LEVEL).compress(content))


def _decompress(content: memoryview, size: int) -> bytes:
    """Decompress `size` bytes. Raises ValueError if it has another size."""
    with require_import("zstandard", "a store that was written with --zstd", "mnemosyne"):
        import zstandard
    try:
        if zstandard.frame_content_size(content) != size:
            raise ValueError(f"expected a frame of {size} bytes, got another size")
        return bytes(zstandard.ZstdDecompressor().decompress(content)) if size else b""
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error
