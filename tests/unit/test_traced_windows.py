"""Which bytes a strided tensor shows, against writing out every element."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tmmu.core.errors import TmmuError
from tmmu.importers.windows import Window, row_major, window

dimensions = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), max_size=4)


@given(dimensions, st.integers(0, 5))
def test_a_window_is_the_bytes_of_all_elements_and_dense_where_each_is_shown_once(
    dims: list[tuple[int, int]], offset: int
) -> None:
    """spec: T2.5"""
    shape, strides = [d for d, _ in dims], [s for _, s in dims]
    shown = [offset + sum(i * s for i, s in zip(index, strides, strict=True)) for index in product(*map(range, shape))]
    found = window(shape, strides, offset, "int16")
    if not shown:
        assert found == Window(2 * offset, 2 * offset, True)
        return
    assert (found.start, found.end) == (2 * min(shown), 2 * max(shown) + 2)
    # A dense window shows each of its elements once; strides that collide by chance may be called not dense.
    each_once = sorted(shown) == list(range(min(shown), max(shown) + 1))
    assert found.dense == each_once


def test_row_major_tensors_are_dense() -> None:
    for shape in ((), (3,), (2, 3, 4), (2, 0, 3), (1, 5, 1)):
        found = window(shape, row_major(shape), 0, "float32")
        elements = 1
        for dim in shape:
            elements *= dim
        assert found == Window(0, 4 * elements, True)


@pytest.mark.parametrize(
    ("shape", "strides", "offset", "dtype"),
    [
        ((2, 2), (2,), 0, "float32"),
        ((2,), (-1,), 1, "float32"),
        ((2,), (1,), -1, "float32"),
        ((-2,), (1,), 0, "float32"),
        ((2,), (2,), 0, "int4"),
        ((2,), (1,), 1, "int4"),
    ],
)
def test_what_shows_no_bytes_is_refused(
    shape: tuple[int, ...], strides: tuple[int, ...], offset: int, dtype: str
) -> None:
    with pytest.raises(TmmuError) as raised:
        window(shape, strides, offset, dtype)
    assert raised.value.code_id == "INVALID_IR_SHAPES"


def test_packed_elements_round_up_to_a_byte() -> None:
    assert window((3, 1), (1, 1), 0, "int4") == Window(0, 2, True)
