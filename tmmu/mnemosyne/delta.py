"""δ: vectors stored as differences from the vector before, in blocks that are decoded independently.

There are three modes. *Lossless* subtracts bit patterns as integers of their width, modulo 2 to the width: every vector
is decoded bit for bit, whatever it contains. *Float subtraction* is the document's V_i - V_{i-1} in float32. Sums
round, and the error has a bound that grows with the length of a block. *INT8* rounds each difference to 8 bits. It
takes the difference from the reader's reconstruction, so that the error stays within about half a step at any length.

The first vector of each block is stored unchanged. `tla/mnemosyne/DeltaEncoding.tla` models one block.
spec: MN4.1 to MN4.9
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tmmu.mnemosyne.failures import InvalidVectors

BLOCK = 64
"""The default number of vectors in a block."""

LARGEST = 2.0**96
"""The largest magnitude that float subtraction and INT8 accept: no sum of such differences overflows float32."""

LONGEST = 1 << 22
"""The longest block of float subtraction, 2^22: its error bound is at most a third of the magnitudes added."""

UNIT = 2.0**-24
"""The unit roundoff of float32."""

Vectors: TypeAlias = NDArray[Any]


@dataclass(frozen=True)
class LosslessDeltas:
    """Bit patterns [n, d], unsigned and as wide as an element of `dtype`: firsts of blocks, then differences."""

    dtype: np.dtype[Any]
    block: int
    records: NDArray[Any]

    @property
    def nbytes(self) -> int:
        """Size of the records in bytes, equal to that of the vectors."""
        return self.records.nbytes

    def decode(self, start: int = 0, stop: int | None = None) -> Vectors:
        """Decode vectors `start` to `stop`, bit for bit. O(stop - start + block) vectors."""
        begin, start, stop = _range(len(self.records), self.block, start, stop)
        rows = np.empty((stop - begin, self.records.shape[1]), self.records.dtype)
        self._add_up(self.records[begin:stop], rows)
        return rows[start - begin :].view(self.dtype)

    def decode_into(self, out: Vectors) -> None:
        """Decode all vectors into `out`, which has their shape and type."""
        self._add_up(self.records, out.view(self.records.dtype))

    def _add_up(self, records: NDArray[Any], out: NDArray[Any]) -> None:
        if len(records) > self.block * self.block // 64:  # many blocks: all of them at once
            out[:: self.block] = records[:: self.block]
            for (before, now), (_, difference) in zip(
                _steps(out, self.block), _steps(records, self.block), strict=True
            ):
                np.add(before, difference, out=now)
        else:
            for at in range(0, len(records), self.block):
                _add_up(records[at : at + self.block], out[at : at + self.block])


@dataclass(frozen=True)
class FloatDeltas:
    """Float32 records [n, d]: firsts of blocks, then differences as float32 rounds them."""

    block: int
    records: NDArray[np.float32]

    @property
    def nbytes(self) -> int:
        """Size of the records in bytes, equal to that of the vectors."""
        return self.records.nbytes

    def decode(self, start: int = 0, stop: int | None = None) -> NDArray[np.float32]:
        """Decode vectors `start` to `stop`, each element within `bound` of its original."""
        begin, start, stop = _range(len(self.records), self.block, start, stop)
        rows = self.records[begin:stop].copy()
        for before, now in _steps(rows, self.block):
            np.add(before, now, out=now)
        return rows[start - begin :]

    def bound(self) -> NDArray[np.float64]:
        """Return the largest error of each element, [n, d]: γ(k + 1) of the magnitudes added, k places into a block.

        γ(m) = m·u / (1 - m·u) with u = 2^-24: k sums round, and each difference has rounded once. It is 0 for firsts of
        blocks.
        """
        added = np.abs(self.records, dtype=np.float64)
        for before, now in _steps(added, self.block):
            np.add(before, now, out=now)
        place = np.arange(len(added)) % self.block
        rounded = np.where(place > 0, place + 1, 0) * UNIT
        return (rounded / (1 - rounded) * (1 + 2.0**-20))[:, None] * added


@dataclass(frozen=True)
class Int8Deltas:
    """Firsts of blocks unchanged; for each other vector a float32 scale and d codes from -127 to 127.

    `firsts` are bit patterns [blocks, d] of `dtype`. `scales` [n] and `codes` [n, d] are 0 for the firsts.
    """

    dtype: np.dtype[Any]
    block: int
    firsts: NDArray[Any]
    scales: NDArray[np.float32]
    codes: NDArray[np.int8]

    @property
    def nbytes(self) -> int:
        """Size in bytes as stored: the firsts, and for each other vector its scale and its codes."""
        return int(self.firsts.nbytes + (len(self.codes) - len(self.firsts)) * (4 + self.codes.shape[1]))

    def decode(self, start: int = 0, stop: int | None = None) -> NDArray[np.float32]:
        """Decode vectors `start` to `stop` as float32, each element within `bound` of its original."""
        begin, start, stop = _range(len(self.codes), self.block, start, stop)
        rows = np.zeros((stop - begin, self.codes.shape[1]), np.float32)
        firsts = self.firsts[begin // self.block : -(-stop // self.block)]
        rows[:: self.block] = _as_float32(firsts.view(self.dtype))
        scales, codes, block = self.scales[begin:stop], self.codes[begin:stop], self.block
        for part in _groups(rows, block):
            room = np.empty(rows[part][::block].shape)
            for place in range(1, min(block, len(rows[part]))):
                now = rows[part][place::block]
                now[...] = rows[part][place - 1 :: block][: len(now)]
                _rebuild(now, scales[part][place::block], codes[part][place::block], room[: len(now)])
        return rows[start - begin :]

    def bound(self) -> NDArray[np.float64]:
        """Return the largest error of each element, [n, d]: half a step, plus the rounding of the sum to float32."""
        rebuilt = np.abs(self.decode(), dtype=np.float64)
        scales = self.scales.astype(np.float64)[:, None]
        bound = scales * (0.5 + 2.0**-40) + rebuilt * (UNIT + 2.0**-40) + 2.0**-150
        bound[:: self.block] = 0
        return bound


def encode_lossless(vectors: Vectors, block: int = BLOCK, out: NDArray[Any] | None = None) -> LosslessDeltas:
    """Encode bit patterns of `vectors` [n, d] as differences modulo 2 to the width of an element. spec: MN4.2, MN4.3

    If `out` is given ([n, d] unsigned integers of that width), the differences are written into it. Elements are
    integers, float16, bfloat16, float32 or float64, in the machine's byte order. O(n·d).

    >>> deltas = encode_lossless(np.array([[7], [5], [200]], np.uint8))
    >>> deltas.records.ravel().tolist(), deltas.decode(2).tolist()
    ([7, 254, 195], [[200]])
    """
    patterns = _patterns(vectors, block)
    records = np.empty_like(patterns) if out is None else out
    np.subtract(patterns[1:], patterns[:-1], out=records[1:])
    records[::block] = patterns[::block]
    return LosslessDeltas(vectors.dtype, block, records)


def encode_float(vectors: NDArray[np.float32], block: int = BLOCK, first: int = 0) -> FloatDeltas:
    """Encode float32 `vectors` [n, d] as V_i - V_{i-1}, the document's δ. spec: MN4.4, MN4.5

    Raises `InvalidVectors` for another type, NaN, infinities and magnitudes beyond `LARGEST`. The message counts
    vectors from `first`. O(n·d).
    """
    _patterns(vectors, block)
    if vectors.dtype != np.float32 or block > LONGEST:
        raise InvalidVectors(
            f"float subtraction takes float32 in blocks of at most {LONGEST}, not {vectors.dtype.name} in {block}",
            "vectors", "encode them in the lossless mode",
        )  # fmt: skip
    _refuse_not_finite(vectors, first)
    records = np.empty(vectors.shape, np.float32)
    np.subtract(vectors[1:], vectors[:-1], out=records[1:])
    records[::block] = vectors[::block]
    return FloatDeltas(block, records)


def encode_int8(vectors: Vectors, block: int = BLOCK, first: int = 0) -> Int8Deltas:
    """Encode differences of `vectors` [n, d] from the reader's reconstruction in 8 bits. spec: MN4.6, MN4.7, MN4.8

    The scale of a vector is 1/127 of its largest difference, rounded up to a float32, so that no code is cut off. Codes
    are rounded half to even. Elements are float16, bfloat16 or float32. Raises `InvalidVectors` for another type, NaN,
    infinities and magnitudes beyond `LARGEST`. The message counts vectors from `first`. O(n·d).
    """
    patterns = _patterns(vectors, block)
    if vectors.dtype.name not in ("float16", "bfloat16", "float32"):
        raise InvalidVectors(
            f"INT8 takes float16, bfloat16 and float32, not {vectors.dtype.name}", "vectors",
            "encode them in the lossless mode",
        )  # fmt: skip
    values = _as_float32(vectors)
    _refuse_not_finite(values, first)
    scales, codes = np.zeros(len(values), np.float32), np.zeros(values.shape, np.int8)
    for part in _groups(values, block):
        _quantise(values[part], block, scales[part], codes[part])
    return Int8Deltas(vectors.dtype, block, patterns[::block].copy(), scales, codes)


AT_A_TIME = 1 << 15
"""How many elements of neighbouring blocks are rounded at a time, so that intermediate results stay in a cache."""


def _groups(rows: NDArray[Any], block: int) -> Iterator[slice]:
    """Yield slices of whole blocks, so that one place of all blocks of a slice has about `AT_A_TIME` elements."""
    step = block * max(1, AT_A_TIME // max(1, rows.shape[1]))
    return (slice(start, start + step) for start in range(0, len(rows), step))


def _quantise(values: NDArray[np.float32], block: int, scales: NDArray[np.float32], codes: NDArray[np.int8]) -> None:
    """Write scales [n] and codes [n, d] of whole blocks of vectors [n, d].

    Those of the first vectors are not written.
    """
    rebuilt = values[::block].copy()
    exact, other = np.empty(rebuilt.shape), np.empty(rebuilt.shape)
    for place in range(1, min(block, len(values))):
        now, to = values[place::block], codes[place::block]
        before, difference, size = rebuilt[: len(now)], exact[: len(now)], other[: len(now)]
        np.subtract(now, before, out=difference, dtype=np.float64)
        largest = np.abs(difference, out=size).max(axis=1, initial=0)
        step = (largest / 127).astype(np.float32)
        is_short = step.astype(np.float64) * 127 < largest
        step = np.where(is_short, np.nextafter(step, np.float32(np.inf)), step)
        scales[place::block] = step
        np.divide(difference, np.where(step > 0, step, 1).astype(np.float64)[:, None], out=difference)
        np.rint(difference, out=difference)
        to[...] = difference
        _rebuild(before, step, difference, difference)


def _rebuild(
    before: NDArray[np.float32], scales: NDArray[np.float32], codes: NDArray[Any], room: NDArray[np.float64]
) -> None:
    """Compute in place the next vectors as a reader has them: product exact in float64, sum rounded to float32."""
    np.multiply(codes, scales.astype(np.float64)[:, None], out=room)
    np.add(before, room, out=room)
    before[...] = room


def _patterns(vectors: Vectors, block: int) -> NDArray[Any]:
    """Return the bit patterns as unsigned integers.

    Raises `InvalidVectors` if it is not a matrix of a supported type.
    """
    kind = vectors.dtype
    if vectors.ndim != 2 or block < 1:
        raise InvalidVectors(
            f"expected 2 dimensions and blocks of at least 1, got {vectors.ndim} dimensions in blocks of {block}",
            "vectors",
            "give a matrix [vectors, elements]",
        )
    if not (kind.kind in "iuf" or kind.name == "bfloat16") or kind.itemsize > 8 or not kind.isnative:
        raise InvalidVectors(
            f"elements of type {kind!r} cannot be encoded", "vectors",
            "convert them to integers, float16, bfloat16, float32 or float64 in this machine's order of bytes",
        )  # fmt: skip
    return np.ascontiguousarray(vectors).view(f"u{kind.itemsize}")


def _as_float32(vectors: Vectors) -> NDArray[np.float32]:
    """Convert to float32, exactly. A bfloat16 pattern is the upper half of a float32 pattern."""
    if vectors.dtype.name == "bfloat16":
        return (np.ascontiguousarray(vectors).view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
    return vectors.astype(np.float32)


def as_float64(vectors: Vectors) -> NDArray[np.float64]:
    """Convert to float64: exact except for integers beyond 2^53."""
    return (_as_float32(vectors) if vectors.dtype.name == "bfloat16" else vectors).astype(np.float64)


def _refuse_not_finite(values: NDArray[np.float32], first: int) -> None:
    fits = np.abs(values) <= LARGEST
    if not fits.all():
        row, column = np.argwhere(~fits)[0]
        raise InvalidVectors(
            f"{values[row, column]} is not finite or exceeds 2**96 in magnitude",
            f"vector {first + row} element {column}",
            "encode such vectors in the lossless mode",
        )


def _range(length: int, block: int, start: int, stop: int | None) -> tuple[int, int, int]:
    """Return the beginning of the block of `start`, and the requested range.

    Raises `InvalidVectors` if out of range.
    """
    end = length if stop is None else stop
    if not 0 <= start <= end <= length:
        raise InvalidVectors(
            f"vectors {start} to {end} were requested, there are {length}",
            "range",
            "request a range within the vectors",
        )
    return start // block * block, start, end


def _add_up(records: NDArray[Any], out: NDArray[Any]) -> None:
    """Write running sums of the rows, modulo 2 to the width: within all groups at once, then from group to group.

    Sums within groups go to a separate array, because NumPy would copy the bytes between the rows of a strided result.
    """
    size, width = math.isqrt(len(records)), records.shape[1]
    if not size:
        return
    whole = len(records) // size * size
    shape = (whole // size, size, width)
    differences, groups = records[:whole].reshape(shape), out[:whole].reshape(shape)
    within = np.empty((size, whole // size, width), records.dtype)
    within[0] = differences[:, 0]
    for place in range(1, size):
        np.add(differences[:, place], within[place - 1], out=within[place])
    groups[0] = within[:, 0]
    for group in range(1, len(groups)):
        np.add(within[:, group], groups[group - 1, -1], out=groups[group])
    for row in range(whole, len(records)):
        np.add(records[row], out[row - 1], out=out[row])


def _steps(rows: NDArray[Any], block: int) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Return, for each place of a block but the first, the rows before it and the rows at it, of all blocks at once."""
    places = [rows[place::block] for place in range(min(block, len(rows)))]
    return [(before[: len(now)], now) for before, now in pairwise(places)]
