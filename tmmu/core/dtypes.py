"""The element types that a model may use, by name, and the bytes of a tensor of each."""

from __future__ import annotations

import re
from typing import overload

from tmmu.core.dims.expressions import Dim
from tmmu.core.dims.maxima import maximum
from tmmu.core.dims.operations import quotient

BITS: dict[str, int] = {
    "float64": 64, "float32": 32, "float16": 16, "bfloat16": 16,
    "float8e4m3fn": 8, "float8e4m3fnuz": 8, "float8e5m2": 8, "float8e5m2fnuz": 8, "float8e8m0": 8,
    "float4e2m1": 4,
    "int64": 64, "int32": 32, "int16": 16, "int8": 8, "int4": 4, "int2": 2,
    "uint64": 64, "uint32": 32, "uint16": 16, "uint8": 8, "uint4": 4, "uint2": 2,
    "bool": 8,
    "complex64": 64, "complex128": 128,
}  # fmt: skip
"""Bits of one element; elements narrower than a byte are packed, and the last byte of a tensor is padded."""

SHORT = {name: re.sub(r"^(b?)([fuic])[a-z]+(\d+)$", r"\1\2\3", name) for name in BITS}
"""The short name of each type in texts: `f32` for float32, `bf16`, `u8`, `c64`; float8e5m2 and the like unchanged."""

TYPES = {short: name for name, short in SHORT.items()} | {name: name for name in SHORT}
"""Each type by both of its names."""


def element_alignment(dtype: str) -> int:
    """Return the alignment in bytes that an element needs: its width, at least 1. `complex128` needs 8.

    >>> element_alignment("int4"), element_alignment("float32"), element_alignment("complex128")
    (1, 4, 8)
    """
    if dtype.startswith("complex"):
        return BITS[dtype] // 16
    return max(1, BITS[dtype] // 8)


@overload
def nbytes(shape: tuple[int, ...], dtype: str) -> int: ...
@overload
def nbytes(shape: tuple[Dim, ...], dtype: str) -> Dim: ...
def nbytes(shape: tuple[Dim, ...], dtype: str) -> Dim:
    """Return the bytes of a dense tensor, in exact integers (the caller checks them against 2**64).

    >>> nbytes((3, 5), "int4"), nbytes((), "float64"), nbytes((0, 7), "bool")
    (8, 8, 0)
    """
    elements: Dim = 1
    for dim in shape:
        elements = elements * dim
    return quotient(elements * BITS[dtype] + 7, 8)


def most_bytes(shape: tuple[Dim, ...], dtype: str) -> int | None:
    """Return the most bytes of a tensor inside the envelope; None if no maximum is found. spec: R6.1"""
    found = maximum(nbytes(shape, dtype))
    return None if found is None else found.value
