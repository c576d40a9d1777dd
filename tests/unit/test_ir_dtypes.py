"""Sizes of tensors, in exact integers."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tmmu.core.dtypes import BITS, element_alignment, nbytes


@given(st.lists(st.integers(0, 1 << 40), max_size=6), st.sampled_from(sorted(BITS)))
def test_a_size_is_the_exact_number_of_bits_rounded_up_to_bytes(shape: list[int], dtype: str) -> None:
    assert nbytes(tuple(shape), dtype) == ceil(Fraction(prod(shape) * BITS[dtype], 8))


@pytest.mark.parametrize("dtype", BITS)
def test_an_element_is_aligned_to_a_power_of_two_that_is_no_wider_than_itself(dtype: str) -> None:
    alignment = element_alignment(dtype)
    assert alignment & (alignment - 1) == 0
    assert 1 <= alignment <= max(1, BITS[dtype] // 8)
    assert alignment == {"complex64": 4, "complex128": 8}.get(dtype, max(1, BITS[dtype] // 8))
