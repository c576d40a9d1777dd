"""Differences of vectors: lossless ones give every bit back, the others keep to their bound in exact arithmetic.

The oracles are Python's own integers and fractions, element by element. spec: MN4.1 to MN4.9
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from tmmu.mnemosyne import delta
from tmmu.mnemosyne.failures import InvalidVectors

TYPES = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "bfloat16", "f4", "f8")
SHAPES = arrays.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=9)


def element_type(name: str) -> np.dtype[Any]:
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


@st.composite
def any_bits(draw: st.DrawFn) -> NDArray[Any]:
    """A matrix of any patterns: NaN with payloads, infinities, zeros of both signs and subnormal numbers among them."""
    kind = element_type(draw(st.sampled_from(TYPES)))
    unsigned = np.dtype(f"u{kind.itemsize}")
    ends = [0, 1, 2**unsigned.itemsize, int(np.iinfo(unsigned).max), 1 << (8 * unsigned.itemsize - 1)]
    elements = arrays.from_dtype(unsigned) | st.sampled_from(ends)
    return draw(arrays.arrays(unsigned, SHAPES, elements=elements)).view(kind)


def integers(matrix: NDArray[Any]) -> list[list[int]]:
    return [[int.from_bytes(element.tobytes(), "little") for element in row] for row in matrix]


@given(any_bits(), st.integers(1, 12), st.data())
def test_lossless_differences_give_every_bit_back(vectors: NDArray[Any], block: int, data: st.DataObject) -> None:
    deltas = delta.encode_lossless(vectors, block)
    modulus = 1 << 8 * vectors.dtype.itemsize
    before, rows = integers(vectors), integers(deltas.records)
    for i, row in enumerate(rows):
        taken = [0] * len(row) if i % block == 0 else before[i - 1]
        assert row == [(now - then) % modulus for now, then in zip(before[i], taken, strict=True)]
    assert deltas.decode().dtype == vectors.dtype
    assert deltas.decode().tobytes() == vectors.tobytes()
    assert deltas.nbytes == vectors.nbytes
    start = data.draw(st.integers(0, len(vectors)))
    stop = data.draw(st.integers(start, len(vectors)))
    assert deltas.decode(start, stop).tobytes() == vectors[start:stop].tobytes()


@pytest.mark.parametrize("kind", ["f2", "bfloat16"])
@pytest.mark.parametrize("shift", [1, 255, 32769])
def test_every_pattern_of_16_bits_comes_back(kind: str, shift: int) -> None:
    """spec: MN4.3"""
    every = (np.arange(1 << 16, dtype=np.uint32) * shift).astype(np.uint16).reshape(-1, 4).view(element_type(kind))
    assert delta.encode_lossless(every, 1 << 14).decode().tobytes() == every.tobytes()


FLOATS = st.floats(-delta.LARGEST, delta.LARGEST, width=32) | st.floats(-4, 4, width=32)


def exact(matrix: NDArray[Any]) -> list[list[Fraction]]:
    return [[Fraction(float(element)) for element in row] for row in matrix]


def within(
    vectors: NDArray[Any], deltas: delta.FloatDeltas | delta.Int8Deltas, data: st.DataObject
) -> NDArray[np.float32]:
    """What was rebuilt, each element within the bound that is stated, ranges of it alike."""
    rebuilt = deltas.decode()
    for row, back, bound in zip(exact(vectors), exact(rebuilt), exact(deltas.bound()), strict=True):
        assert all(abs(v - r) <= b for v, r, b in zip(row, back, bound, strict=True))
    start = data.draw(st.integers(0, len(vectors)))
    stop = data.draw(st.integers(start, len(vectors)))
    assert deltas.decode(start, stop).tobytes() == rebuilt[start:stop].tobytes()
    return rebuilt


@given(arrays.arrays(np.float32, SHAPES, elements=FLOATS), st.integers(1, 12), st.data())
def test_float_subtraction_keeps_to_its_bound(vectors: NDArray[np.float32], block: int, data: st.DataObject) -> None:
    """spec: MN4.4, MN4.5"""
    deltas = delta.encode_float(vectors, block)
    rebuilt = within(vectors, deltas, data)
    assert rebuilt[::block].tobytes() == vectors[::block].tobytes()
    unit = Fraction(1, 1 << 24)
    for i, row in enumerate(exact(deltas.bound())):
        place = i % block
        added = [sum(map(abs, column)) for column in zip(*exact(deltas.records[i - place : i + 1]), strict=True)]
        rounded = (place + 1) * unit
        stated = [rounded / (1 - rounded) * total if place else 0 for total in added]
        assert all(s <= b <= s * (1 + Fraction(1, 1 << 19)) for s, b in zip(stated, row, strict=True))


@given(
    st.sampled_from(["f2", "bfloat16", "f4"]), arrays.arrays(np.float32, SHAPES, elements=FLOATS), st.integers(1, 12),
    st.data(),
)  # fmt: skip
def test_int8_keeps_within_half_a_step(kind: str, values: NDArray[np.float32], block: int, data: st.DataObject) -> None:
    """spec: MN4.6, MN4.7"""
    if kind == "f2":
        values = np.clip(values, -65504, 65504)
    vectors = values.astype(element_type(kind))
    deltas = delta.encode_int8(vectors, block)
    rebuilt = within(vectors, deltas, data)
    assert rebuilt[::block].tobytes() == vectors[::block].astype(np.float32).tobytes()
    rows, scales = exact(vectors), [Fraction(float(scale)) for scale in deltas.scales]
    for i in set(range(len(rows))) - set(range(0, len(rows), block)):
        differences = [v - Fraction(float(r)) for v, r in zip(rows[i], rebuilt[i - 1], strict=True)]
        largest = max(map(abs, differences), default=Fraction(0))
        assert scales[i] * 127 >= largest * (1 - Fraction(1, 1 << 52))
        assert Fraction(float(np.nextafter(deltas.scales[i], np.float32(0)))) * 127 <= largest
        for code, difference in zip(deltas.codes[i].tolist(), differences, strict=True):
            assert -127 <= code <= 127
            assert abs(code * scales[i] - difference) <= scales[i] * (Fraction(1, 2) + Fraction(1, 1 << 40))


def test_codes_are_rounded_half_to_even_from_what_is_rebuilt() -> None:
    """Scales are 1, and half steps go to 0, 2, 2 and -4; what was lost is made up for by the next. spec: MN4.6"""
    vectors = np.array([[0, 0, 0, 0, 0], [127, 0.5, 1.5, 2.5, -3.5], [254, 0.75, 1.5, 3.5, -3.5]], np.float32)
    deltas = delta.encode_int8(vectors, 8)
    assert deltas.scales.tolist() == [0, 1, 1]
    assert deltas.codes.tolist() == [[0] * 5, [127, 0, 2, 2, -4], [127, 1, 0, 2, 0]]


@given(
    st.sampled_from([np.nan, np.inf, -np.inf, 2.0**97, -(2.0**97)]), st.integers(0, 3), st.integers(0, 2),
    st.sampled_from(["f2", "bfloat16", "f4"]),
)  # fmt: skip
@example(np.inf, 3, 2, "f2")
def test_lossy_modes_refuse_what_is_not_finite_and_name_it(value: float, row: int, column: int, kind: str) -> None:
    """spec: MN4.8"""
    vectors = np.ones((4, 3), element_type(kind))
    with np.errstate(over="ignore"):
        vectors[row, column] = value
    modes = [delta.encode_int8] + ([delta.encode_float] if kind == "f4" else [])
    for encode in modes:
        with pytest.raises(InvalidVectors) as refused:
            encode(vectors)
        assert (refused.value.code_id, refused.value.place) == ("INVALID_VECTORS", f"vector {row} element {column}")
    assert delta.encode_lossless(vectors).decode().tobytes() == vectors.tobytes()


@pytest.mark.parametrize(
    "vectors",
    [np.ones(3, "f4"), np.ones((2, 2, 2), "f4"), np.ones((2, 2), "c8"), np.ones((2, 2), "?"), np.ones((2, 2), "O"),
     np.ones((2, 2), ">f4"), np.ones((2, 2), np.longdouble), np.ones((2, 2), "M8[s]")],
    ids=lambda vectors: f"{vectors.ndim}{vectors.dtype.str}",
)  # fmt: skip
def test_what_is_no_matrix_of_numbers_is_refused(vectors: NDArray[Any]) -> None:
    """spec: MN4.9"""
    for encode in (delta.encode_lossless, delta.encode_float, delta.encode_int8):
        with pytest.raises(InvalidVectors):
            encode(vectors)


def test_a_mode_refuses_types_blocks_and_ranges_that_it_does_not_take() -> None:
    """spec: MN4.4, MN4.6, MN4.9"""
    halves, floats = np.ones((2, 2), "f2"), np.ones((2, 2), "f4")
    for refused in (
        lambda: delta.encode_float(halves),  # type: ignore[arg-type]
        lambda: delta.encode_float(floats, delta.LONGEST + 1),
        lambda: delta.encode_int8(np.ones((2, 2), "f8")),
        lambda: delta.encode_int8(np.ones((2, 2), "i4")),
        lambda: delta.encode_lossless(floats, 0),
        lambda: delta.encode_lossless(floats).decode(1, 3),
        lambda: delta.encode_float(floats).decode(2, 1),
        lambda: delta.encode_int8(floats).decode(-1),
    ):
        with pytest.raises(InvalidVectors):
            refused()
