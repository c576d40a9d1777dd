"""The document's figures about δ, computed: Theorem 5.1, stored sizes, and the error bound.

The document's 10.88 % is an estimate of entropy, and its 0.024 % is a bound of rounding in float32. Its pipeline
neither stores nor loses these amounts: see `spec/mnemosyne.md`. spec: MN4.10 to MN4.12
"""

from __future__ import annotations

from math import exp2, inf, log2
from typing import Any

import numpy as np
from numpy.typing import NDArray

THRESHOLD = 0.5
"""The correlation above which differences have less entropy than the vectors (Theorem 5.1)."""


def entropy_change(correlation: float) -> float:
    """Return by how many bits an element the entropy of differences exceeds that of vectors: log2(2(1 - ρ)) / 2.

    Exact if neighbours are jointly Gaussian with one covariance and the cross covariance is ρ times it. Raises
    ValueError if ρ is not in [-1, 1].

    >>> [round(entropy_change(rho), 3) for rho in (0.5, 0.7, 0.85, 0.9, 0.95)]
    [0.0, -0.368, -0.868, -1.161, -1.661]
    """
    if not -1 <= correlation <= 1:
        raise ValueError(f"expected a correlation between -1 and 1, got {correlation}")
    return log2(2 * (1 - correlation)) / 2 if correlation < 1 else -inf


def correlation_of_gain(gain: float, bits: int = 16) -> float:
    """Return the correlation at which differences save the part `gain` of an element of `bits` bits.

    >>> round(correlation_of_gain(0.1088), 4), round(correlation_of_gain(0.1088, bits=8), 4)
    (0.9552, 0.8504)
    """
    return 1 - exp2(-2 * gain * bits - 1)


def correlations(vectors: NDArray[Any]) -> NDArray[np.float64]:
    """Return Pearson's coefficient of each vector and the one before, [n - 1]; NaN if one of them is constant.

    O(n·d).
    """
    centred = vectors.astype(np.float64)
    centred -= centred.mean(axis=1, keepdims=True)
    norms = np.sqrt(np.einsum("ij,ij->i", centred, centred))
    products = np.einsum("ij,ij->i", centred[1:], centred[:-1])
    both = norms[1:] * norms[:-1]
    found = np.full(len(products), np.nan)
    np.divide(products, both, out=found, where=both > 0)
    return np.clip(found, -1, 1, out=found)


def int8_saving(vectors: int, elements: int, first_bits: int = 16) -> float:
    """Return the part that INT8 saves of one block of `vectors` float16 vectors; the first has `first_bits` an element.

    >>> [round(int8_saving(n, 4096), 3) for n in (2, 10, 1000)]
    [0.25, 0.45, 0.499]
    """
    stored = elements * first_bits // 8 + (vectors - 1) * (elements + 4)
    return 1 - stored / (2 * vectors * elements)


def summation_bound(differences: int, unit: float = 2.0**-24) -> float:
    """Return γ(n + 1), the error of n float differences relative to the sum of magnitudes; inf from n + 1 = 1/u on.

    >>> f"{summation_bound(4000):.4%}", summation_bound(4024) < 0.00024 < summation_bound(4026)
    ('0.0239%', True)
    """
    rounded = (differences + 1) * unit
    return rounded / (1 - rounded) if rounded < 1 else inf
