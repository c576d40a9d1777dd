"""What δ does to given vectors: correlation, entropy by Theorem 5.1, bytes in each mode, error beside its bound.

Vectors are read some blocks at a time, so that a file may be larger than memory. spec: MN4.10 to MN4.14
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tmmu.mnemosyne import delta
from tmmu.mnemosyne.delta_figures import THRESHOLD, correlation_of_gain, correlations, entropy_change, int8_saving
from tmmu.mnemosyne.failures import InvalidVectors

CHUNK = 1 << 22
"""Elements that are worked on at a time."""

ESTIMATE = 0.1088
"""The part of 16 bits that the document estimates to be gained."""


@dataclass(frozen=True)
class Correlation:
    """Pearson's coefficients of neighbours: of those that are defined, and how many are not.

    `formula` is what Theorem 5.1 states at the mean, in bits an element, and `variance` half the logarithm of the
    variance of differences over that of vectors: equal where vectors are as the theorem assumes them.
    """

    mean: float
    median: float
    least: float
    most: float
    above_threshold: float
    above_estimate: float
    undefined: int
    formula: float
    variance: float


@dataclass(frozen=True)
class ModeReport:
    """A mode: bytes with and without zstd, what they save of float16, and the error of what is decoded.

    `error` is the largest of a vector relative to its norm, `bound` the largest that the mode permits; `changed` the
    part of elements that differ. `refused` is why a mode takes no such vectors; then there is nothing else.
    """

    mode: str
    refused: str | None = None
    bytes: int = 0
    saving: float = 0.0
    zstd_bytes: int | None = None
    zstd_saving: float | None = None
    error: float = 0.0
    bound: float = 0.0
    changed: float = 0.0


@dataclass(frozen=True)
class DeltaReport:
    """All that is reported of a matrix of vectors, and what INT8 saves of 2, 10 and 1000 of that many elements."""

    vectors: int
    elements: int
    dtype: str
    block: int
    correlation: Correlation | None
    modes: list[ModeReport]
    int8_savings: dict[int, float]


def report(vectors: NDArray[Any], block: int = delta.BLOCK) -> DeltaReport:
    """The report of `vectors` [n, d], which may be mapped from a file. O(n·d).

    `InvalidVectors` for what no mode takes. No correlation for less than two vectors.
    """
    if vectors.ndim != 2 or not vectors.size:
        raise InvalidVectors(f"an array of shape {vectors.shape}", "vectors", "give a matrix [vectors, elements]")
    delta.encode_lossless(vectors[:1], block)  # refuses what no mode takes
    modes = [
        _mode("as they are", vectors, block, _as_they_are), _mode("lossless", vectors, block, _lossless),
        _mode("float subtraction", vectors, block, _float), _mode("INT8", vectors, block, _int8),
    ]  # fmt: skip
    n, d = vectors.shape
    savings = {count: int8_saving(count, d) for count in (2, 10, 1000)}
    return DeltaReport(n, d, vectors.dtype.name, block, _correlation(vectors, block), modes, savings)


def _chunks(vectors: NDArray[Any], block: int) -> Iterator[tuple[int, NDArray[Any]]]:
    """Whole blocks of vectors, with the number of the first."""
    step = max(CHUNK // max(vectors.shape[1], 1) // block, 1) * block
    for start in range(0, len(vectors), step):
        yield start, np.ascontiguousarray(vectors[start : start + step])


def _correlation(vectors: NDArray[Any], block: int) -> Correlation | None:
    if len(vectors) < 2:
        return None
    found = []
    squares = np.zeros(4)  # of vectors and their sum, of differences and their sum
    for start, rows in _chunks(vectors, block):
        beside = delta.as_float64(vectors[max(start - 1, 0) : start + len(rows)])
        found.append(correlations(beside))
        later = beside[1 if start else 0 :]
        with np.errstate(all="ignore"):
            differences = beside[1:] - beside[:-1]
            squares += [(later**2).sum(), later.sum(), (differences**2).sum(), differences.sum()]
    rho = np.concatenate(found)
    defined = rho[~np.isnan(rho)]
    n, d = vectors.shape
    if not len(defined):
        return None
    with np.errstate(all="ignore"):
        own = squares[0] / (n * d) - (squares[1] / (n * d)) ** 2
        apart = squares[2] / ((n - 1) * d) - (squares[3] / ((n - 1) * d)) ** 2
        variance = float(np.log2(apart / own) / 2)
    mean = float(defined.mean())
    return Correlation(
        mean, float(np.median(defined)), float(defined.min()), float(defined.max()),
        float((defined > THRESHOLD).mean()), float((defined >= correlation_of_gain(ESTIMATE)).mean()),
        len(rho) - len(defined), entropy_change(mean), variance,
    )  # fmt: skip


Encoded = tuple[list[NDArray[Any]], NDArray[Any], NDArray[np.float64] | None]
"""What is stored, what is decoded from it, and the bound of each element where there is one."""


def _as_they_are(rows: NDArray[Any], block: int) -> Encoded:
    return [rows], rows, None


def _lossless(rows: NDArray[Any], block: int) -> Encoded:
    deltas = delta.encode_lossless(rows, block)
    return [deltas.records], deltas.decode(), None


def _float(rows: NDArray[Any], block: int) -> Encoded:
    deltas = delta.encode_float(rows, block)
    return [deltas.records], deltas.decode(), deltas.bound()


def _int8(rows: NDArray[Any], block: int) -> Encoded:
    deltas = delta.encode_int8(rows, block)
    is_difference = np.arange(len(rows)) % block > 0
    return [deltas.firsts, deltas.scales[is_difference], deltas.codes[is_difference]], deltas.decode(), deltas.bound()


def _mode(name: str, vectors: NDArray[Any], block: int, encode: Callable[[NDArray[Any], int], Encoded]) -> ModeReport:
    squeezed = _Squeezed()
    stored = changed = 0
    error = bound = 0.0
    for _, rows in _chunks(vectors, block):
        try:
            parts, decoded, bounds = encode(rows, block)
        except InvalidVectors as refusal:
            return ModeReport(name, refusal.what)
        for part in parts:
            stored += part.nbytes
            squeezed.add(part)
        if bounds is None:
            patterns = f"u{rows.itemsize}"
            changed += int((decoded.view(patterns) != rows.view(patterns)).sum())
            continue
        given = delta.as_float64(rows)
        changed += int((decoded != given).sum())
        norms = np.linalg.norm(given, axis=1)
        norms[norms == 0] = np.inf  # a vector of zeros has no relative error
        error = max(error, float((np.linalg.norm(decoded - given, axis=1) / norms).max()))
        bound = max(bound, float((np.linalg.norm(bounds, axis=1) / norms).max()))
    halves = 2 * vectors.size
    size = squeezed.size()
    less = None if size is None else 1 - size / halves
    return ModeReport(name, None, stored, 1 - stored / halves, size, less, error, bound, changed / vectors.size)


class _Squeezed:
    """The bytes that zstd makes of parts one after the other, at its default level; none without the package."""

    def __init__(self) -> None:
        try:
            import zstandard
        except ImportError:
            self._pieces = None
        else:
            self._pieces = zstandard.ZstdCompressor().compressobj()
        self._size = 0

    def add(self, part: NDArray[Any]) -> None:
        """Compress one more."""
        if self._pieces is not None:
            self._size += len(self._pieces.compress(np.ascontiguousarray(part).tobytes()))

    def size(self) -> int | None:
        """All bytes."""
        if self._pieces is None:
            return None
        return self._size + len(self._pieces.flush())


def finite(value: Any) -> Any:
    """The same for JSON, which has no number for NaN and infinities."""
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
