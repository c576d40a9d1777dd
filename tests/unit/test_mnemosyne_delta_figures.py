"""The document's figures about δ, on vectors that are drawn as it assumes them.

spec: MN4.3, MN4.5, MN4.7, MN4.10 to MN4.12
"""

from __future__ import annotations

from math import inf, isnan

import numpy as np
import pytest
from numpy.typing import NDArray

from tmmu.mnemosyne import delta
from tmmu.mnemosyne import delta_figures as figures


def autoregressive(rho: float, vectors: int = 200, elements: int = 4096) -> NDArray[np.float32]:
    """Gaussian vectors of which neighbours have the correlation `rho`, from a fixed seed."""
    drawn = np.random.default_rng(7).normal(size=(vectors, elements))
    for i in range(1, vectors):
        drawn[i] = rho * drawn[i - 1] + (1 - rho * rho) ** 0.5 * drawn[i]
    return drawn.astype(np.float32)


def error(vectors: NDArray[np.float32], rebuilt: NDArray[np.float32]) -> float:
    """The largest error of a vector, relative to its norm."""
    apart = np.linalg.norm(rebuilt.astype(np.float64) - vectors, axis=1)
    return float((apart / np.linalg.norm(vectors.astype(np.float64), axis=1)).max())


def test_entropy_falls_exactly_above_the_threshold() -> None:
    """spec: MN4.10"""
    changes = [figures.entropy_change(rho) for rho in (-1, 0, 0.499, figures.THRESHOLD, 0.501, 0.95, 1)]
    assert changes == sorted(changes, reverse=True)
    assert (changes[0], changes[3], changes[6]) == (1, 0, -inf)
    for wrong in (-1.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="expected a correlation"):
            figures.entropy_change(wrong)


@pytest.mark.parametrize("rho", [0.3, 0.5, 0.7, 0.95])
def test_the_formula_is_that_of_gaussian_vectors_drawn_so(rho: float) -> None:
    """The entropy of a Gaussian follows from its variance, which is measured here. spec: MN4.10"""
    vectors = autoregressive(rho, 400).astype(np.float64)
    differences = vectors[1:] - vectors[:-1]
    measured = np.log2(differences.var() / vectors.var()) / 2
    assert measured == pytest.approx(figures.entropy_change(rho), abs=0.01)
    assert figures.correlations(vectors).mean() == pytest.approx(rho, abs=0.01)


def test_correlations_are_those_of_numpy_and_none_where_a_vector_is_constant() -> None:
    """spec: MN4.11"""
    vectors = np.random.default_rng(3).normal(size=(5, 40)).astype(np.float16)
    expected = [np.corrcoef(vectors[i].astype(float), vectors[i + 1].astype(float))[0, 1] for i in range(4)]
    assert figures.correlations(vectors) == pytest.approx(expected)
    vectors[2] = 1
    assert [isnan(rho) for rho in figures.correlations(vectors)] == [False, True, True, False]


@pytest.mark.parametrize(("vectors", "saving"), [(2, 0.25), (10, 0.45), (1000, 0.499)])
def test_the_formula_of_savings_is_what_is_stored(vectors: int, saving: float) -> None:
    """spec: MN4.12"""
    assert figures.int8_saving(vectors, 4096) == pytest.approx(saving, abs=5e-4)
    halves = np.zeros((vectors, 4096), np.float16)
    stored = delta.encode_int8(halves, vectors).nbytes
    assert figures.int8_saving(vectors, 4096) == 1 - stored / halves.nbytes


def test_errors_are_those_that_the_page_states() -> None:
    """INT8 in a closed loop does not grow with the vectors; an open one would be off by 3 % here. spec: MN4.5, MN4.7"""
    for rho, low, high in ((0.7, 0.007, 0.009), (0.95, 0.0025, 0.004)):
        vectors = autoregressive(rho)
        closed = error(vectors, delta.encode_int8(vectors, len(vectors)).decode())
        assert low < closed < high
        half = len(vectors) // 2
        early = error(vectors[:half], delta.encode_int8(vectors[:half], half).decode())
        assert closed < 1.1 * early
        summed = error(vectors, delta.encode_float(vectors, len(vectors)).decode())
        assert 1e-8 < summed < 1e-6 < figures.summation_bound(len(vectors))


def test_one_float_difference_loses_a_sixth_of_the_elements() -> None:
    """Which is why Inv_4 is claimed of the lossless mode alone. spec: MN4.3, MN4.5"""
    vectors = autoregressive(0.9, 2)
    lost = (delta.encode_float(vectors).decode()[1] != vectors[1]).mean()
    assert 0.14 < lost < 0.18
    assert (delta.encode_lossless(vectors).decode() == vectors).all()


def test_the_document_s_bound_ends_where_sums_are_more_than_the_unit() -> None:
    """spec: MN4.5"""
    assert figures.summation_bound(1 << 24) == inf
    assert 4096 * 2.0**-24 < figures.summation_bound(4096) < 2 * 4096 * 2.0**-24
