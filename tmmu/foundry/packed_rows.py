"""Products with quantised weights whose rows are stored in groups, compiled by numba (extra `fast`).

The bytes of `WIDTH` rows are stored together, block after block: the lower bytes of the scales of all rows, their upper
bytes, then the first bytes of all rows, their second bytes, and so on. So the loop over the rows of a group reads
consecutive bytes, and each row is summed in the order of its elements:

* in a block of 32 elements, float32, from 0: `part = part + q · x`, each product and each sum rounded;
* over the blocks, float32, from 0: `total = total + part · scale`.

No operations are fused and none are reordered, so the bits of a result do not depend on the processor.
spec: FD12.1 to FD12.4
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tmmu.core import folders
from tmmu.core.extras import require_import
from tmmu.foundry.weights import BLOCKS, WeightType

WIDTH = 64
"""The rows of a group."""

PACKED = "groups of rows"
"""The form of a weight that is stored so."""

PACKED_TYPES: tuple[WeightType, ...] = ("Q8_0", "Q4_0")

Multiply = Callable[..., None]


def pack_rows(weight_type: WeightType, blocks: NDArray[np.uint8], groups: NDArray[np.uint8]) -> None:
    """Store `blocks`, [rows, bytes of a row], in groups, uint8 [rows / WIDTH, blocks of a row, WIDTH · block bytes].

    O(bytes). spec: FD12.2
    """
    _, size = BLOCKS[weight_type]
    count, parts = len(blocks) // WIDTH, blocks.shape[1] // size
    rows = blocks.reshape(count, WIDTH, parts, size)
    np.copyto(groups.reshape(count, parts, size, WIDTH), rows.transpose(0, 2, 3, 1))


def _read_scales(at: Any, bits: Any) -> None:
    """Write the scales of a block as float32 bits, to be multiplied by 2^112; infinities and NaN stay."""
    lower, upper = at[0:WIDTH], at[WIDTH : 2 * WIDTH]
    for i in range(WIDTH):
        half = (np.int32(lower[i]) & 255) | (np.int32(upper[i]) << 8)
        special = 0x7F800000 if (half & 0x7C00) == 0x7C00 else 0
        bits[i] = ((half & 0x8000) << 16) | ((half & 0x7FFF) << 13) | special


def _multiply_q8_0(groups: Any, x: Any, out: Any, bits: Any, scales: Any, part: Any) -> None:
    """Write the products of the rows of `groups`, int8, with `x` to `out`."""
    for g in range(groups.shape[0]):
        total = out[g * WIDTH : (g + 1) * WIDTH]
        for i in range(WIDTH):
            total[i] = 0
        for b in range(groups.shape[1]):
            at = groups[g, b]
            _read_scales(at, bits)
            for i in range(WIDTH):
                part[i] = 0
            for k in range(32):
                value, stored = x[b * 32 + k], at[(2 + k) * WIDTH : (3 + k) * WIDTH]
                for i in range(WIDTH):
                    part[i] += np.float32(stored[i]) * value
            for i in range(WIDTH):
                total[i] += part[i] * (scales[i] * np.float32(2.0**112))


def _multiply_q4_0(groups: Any, x: Any, out: Any, bits: Any, scales: Any, part: Any) -> None:
    """Write the products of the rows of `groups`, int8, with `x` to `out`."""
    for g in range(groups.shape[0]):
        total = out[g * WIDTH : (g + 1) * WIDTH]
        for i in range(WIDTH):
            total[i] = 0
        for b in range(groups.shape[1]):
            at = groups[g, b]
            _read_scales(at, bits)
            for i in range(WIDTH):
                part[i] = 0
            for k in range(16):
                value, stored = x[b * 32 + k], at[(2 + k) * WIDTH : (3 + k) * WIDTH]
                for i in range(WIDTH):
                    part[i] += np.float32((np.int32(stored[i]) & 15) - 8) * value
            for k in range(16):
                value, stored = x[b * 32 + 16 + k], at[(2 + k) * WIDTH : (3 + k) * WIDTH]
                for i in range(WIDTH):
                    part[i] += np.float32(((np.int32(stored[i]) >> 4) & 15) - 8) * value
            for i in range(WIDTH):
                total[i] += part[i] * (scales[i] * np.float32(2.0**112))


@cache
def compile_product(weight_type: WeightType) -> Multiply:
    """Return the compiled product of a type. Raises MISSING_PACKAGE without numba.

    Compiling takes seconds; the result is cached on disk if this process has a folder for caches.
    """
    with require_import("numba", "the device fast", "fast"):
        from numba import njit
        from numba.extending import register_jitable
    register_jitable(_read_scales)
    loop = {"Q8_0": _multiply_q8_0, "Q4_0": _multiply_q4_0}[weight_type]
    try:
        made: Multiply = njit(cache=folders.has_caches())(loop)
    except RuntimeError:  # there is no folder for the cache
        made = njit(loop)
    return made
