"""Decompressing a tile: gguf's own values bit for bit, and no allocation. spec: FD5.6, FD5.7"""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pytest
from gguf import quants
from gguf.constants import GGMLQuantizationType
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tmmu.foundry.dequantize import dequantize, scratch_bytes, widen
from tmmu.foundry.weights import BLOCKS, WeightType

TYPES: list[WeightType] = ["F32", "F16", "Q8_0", "Q4_0"]


def decompressed(weight_type: WeightType, blocks: NDArray[np.uint8], columns: int) -> NDArray[np.float32]:
    out = np.full((len(blocks), columns), np.nan, np.float32)
    scratch = np.full(scratch_bytes(weight_type, len(blocks), columns), 0xAB, np.uint8)
    with np.errstate(all="ignore"):
        dequantize(weight_type, blocks, out, scratch)
    return out


@given(st.sampled_from(TYPES), st.integers(1, 5), st.integers(1, 4), st.data())
def test_any_bytes_become_the_floats_that_gguf_makes(
    weight_type: WeightType, rows: int, groups: int, data: st.DataObject
) -> None:
    """NaN and infinities among the scales included."""
    elements, size = BLOCKS[weight_type]
    columns = groups * 32
    length = columns // elements * size
    blocks = np.frombuffer(data.draw(st.binary(min_size=rows * length, max_size=rows * length)), np.uint8)
    blocks = blocks.reshape(rows, length)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        wanted = quants.dequantize(blocks, GGMLQuantizationType[weight_type])
    assert decompressed(weight_type, blocks, columns).tobytes() == wanted.tobytes()


def test_every_float16_is_widened_exactly() -> None:
    """In one piece with infinities and NaN, and without them, which is another way."""
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    for halves in (every, every[np.isfinite(every)], every[~np.isnan(every)][:40000]):
        out, scratch = np.empty((1, len(halves)), np.float32), np.empty(4, np.uint8)
        with np.errstate(invalid="ignore"):
            widen(halves.reshape(1, -1), out, scratch)
            assert out.tobytes() == halves.astype(np.float32).tobytes()


@pytest.mark.parametrize("weight_type", TYPES)
def test_a_tile_is_the_same_rows_of_the_whole(weight_type: WeightType) -> None:
    """The last tile is shorter; a row has the same bits in a tile of any height."""
    matrix = np.random.default_rng(1).normal(size=(37, 96)).astype(np.float32)
    stored = quants.quantize(matrix, GGMLQuantizationType[weight_type]).view(np.uint8).reshape(37, -1)
    whole = decompressed(weight_type, stored, 96)
    for height in (1, 8, 36):
        tiles = [decompressed(weight_type, stored[k : k + height], 96) for k in range(0, 37, height)]
        assert np.concatenate(tiles).tobytes() == whole.tobytes()


def test_scratch_is_a_scale_for_each_block_and_each_element() -> None:
    assert [scratch_bytes(weight_type, 7, 96) for weight_type in TYPES] == [4, 4, 7 * 3 * 132, 7 * 3 * 132]


@pytest.mark.parametrize("weight_type", TYPES)
def test_no_array_is_allocated(weight_type: WeightType) -> None:
    """A tile of 786,432 bytes, during which all of Python, NumPy's data included, takes less than 4 KiB."""
    rows, columns = 256, 768
    elements, size = BLOCKS[weight_type]
    blocks = np.zeros((rows, columns // elements * size), np.uint8)
    out, scratch = np.empty((rows, columns), np.float32), np.empty(scratch_bytes(weight_type, rows, columns), np.uint8)
    dequantize(weight_type, blocks, out, scratch)
    tracemalloc.start()
    try:
        dequantize(weight_type, blocks, out, scratch)
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        dequantize(weight_type, blocks, out, scratch)
        peak = tracemalloc.get_traced_memory()[1] - before
        quants.dequantize(blocks, GGMLQuantizationType[weight_type]).copy()
        allocating = tracemalloc.get_traced_memory()[1] - before
        domains = tracemalloc.take_snapshot().filter_traces([tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)])
    finally:
        tracemalloc.stop()
    assert peak < 4096 < out.nbytes < allocating
    assert not [trace for trace in domains.traces if "dequantize.py" in str(trace.traceback)]
