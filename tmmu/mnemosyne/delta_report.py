"""Measure δ on given vectors: correlation, entropy by Theorem 5.1, bytes in each mode, error beside its bound.

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
"""How many elements are processed at a time."""

ESTIMATE = 0.1088
"""The saving that the document estimates, as a part of 16 bits."""


@dataclass(frozen=True)
class Correlation:
    """Statistics of Pearson's coefficients of neighbours. `undefined` counts the neighbours that have no coefficient.

    `formula` is the value of Theorem 5.1 at the mean, in bits an element. `variance` is half the logarithm of the
    variance of differences over that of vectors. The two are equal if the vectors satisfy the theorem's assumptions.
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
    """The result of one mode: bytes with and without zstd, their saving over float16, and the error of decoded vectors.

    `error` is the largest error of a vector relative to its norm, and `bound` the largest that the mode permits.
    `changed` is the part of elements that differ. `refused` is the reason why a mode does not accept these vectors; the
    other fields are then unset.
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
    """The report of a matrix of vectors.

    `int8_savings` is the saving of INT8 for 2, 10 and 1000 vectors of that width.
    """

    vectors: int
    elements: int
    dtype: str
    block: int
    correlation: Correlation | None
    modes: list[ModeReport]
    int8_savings: dict[int, float]


def report(vectors: NDArray[Any], block: int = delta.BLOCK) -> DeltaReport:
    """Measure `vectors` [n, d], which may be mapped from a file. O(n·d).

    Raises `InvalidVectors` if no mode accepts the vectors. With fewer than two vectors `correlation` is None.
    """
    if vectors.ndim != 2 or not vectors.size:
        raise InvalidVectors(
            f"expected a matrix with elements, got an array of shape {vectors.shape}",
            "vectors",
            "give a matrix [vectors, elements]",
        )
    delta.encode_lossless(vectors[:1], block)  # raises if no mode accepts the vectors
    modes = [
        _mode("as they are", vectors, block, _as_they_are), _mode("lossless", vectors, block, _lossless),
        _mode("float subtraction", vectors, block, _float), _mode("INT8", vectors, block, _int8),
    ]  # fmt: skip
    n, d = vectors.shape
    savings = {count: int8_saving(count, d) for count in (2, 10, 1000)}
    return DeltaReport(n, d, vectors.dtype.name, block, _correlation(vectors, block), modes, savings)


def _chunks(vectors: NDArray[Any], block: int) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield whole blocks of vectors, with the number of the first vector."""
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
"""The stored arrays, the vectors decoded from them, and the error bound of each element if there is one."""


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
    squeezed = _CompressedStream()
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


class _CompressedStream:
    """A zstd stream at the default level. `size` is None if the package is not installed."""

    def __init__(self) -> None:
        try:
            import zstandard
        except ImportError:
            self._pieces = None
        else:
            self._pieces = zstandard.ZstdCompressor().compressobj()
        self._size = 0

    def add(self, part: NDArray[Any]) -> None:
        """Compress one more array."""
        if self._pieces is not None:
            self._size += len(self._pieces.compress(np.ascontiguousarray(part).tobytes()))

    def size(self) -> int | None:
        """Return the compressed size in bytes, or None without zstd. Closes the stream: call it once."""
        if self._pieces is None:
            return None
        return self._size + len(self._pieces.flush())


def replace_nonfinite(value: Any) -> Any:
    """Replace NaN and infinities by None, recursively: JSON has no numbers for them."""
    if isinstance(value, dict):
        return {str(key): replace_nonfinite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [replace_nonfinite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
