"""Find the one place of a stored tensor that has its elements, by the checker's own reading of ONNX's format.

The format has a field for each kind of element, `raw_data`, and external files, and requires that one of them is used.
Readers disagree about a tensor that uses two, so it is refused: INVALID_IR. spec: T10.8, T10.10
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from proofs.readers.operators.sizes.call import NUMBERS
from tmmu.core.dtypes import BITS

if TYPE_CHECKING:  # see `call`
    from onnx import SparseTensorProto, TensorProto

EXTERNAL, RAW, STRINGS = "external_data", "raw_data", "string_data"
FIELDS = {
    "float_data": {"float32", "complex64"},
    "double_data": {"float64", "complex128"},
    "int64_data": {"int64"},
    "uint64_data": {"uint32", "uint64"},
}
FIELDS["int32_data"] = set(NUMBERS.values()).difference(*FIELDS.values())
"""The element types of each field that is neither of strings nor raw."""

_SIGNED = ("int8", "int16", "int32")


class Ambiguous(Exception):
    """A stored tensor does not state its elements exactly once. The message states the fault."""


def look_at(stored: TensorProto | SparseTensorProto) -> None:
    """Raise Ambiguous unless the elements of a stored tensor are stated exactly once."""
    from onnx import TensorProto

    if isinstance(stored, TensorProto):
        place_of(stored)
        return
    place_of(stored.values)
    place_of(stored.indices)
    number, rank = len(stored.values.dims), len(stored.dims)
    if number != 1 or NUMBERS.get(stored.indices.data_type) != "int64":
        raise Ambiguous("a sparse tensor needs its values in a row, and its indices as int64")
    count = stored.values.dims[0]
    by_row = tuple(stored.indices.dims) == (count, rank)
    if not by_row and tuple(stored.indices.dims) != (count,):
        raise Ambiguous(f"{count} values of a sparse tensor have indices of shape {list(stored.indices.dims)}")
    ends = list(stored.dims) if by_row else [prod(stored.dims)]
    listed = _integers(stored.indices)
    if listed is None or any(end < 0 for end in ends):
        return
    places = [listed[k : k + len(ends)] for k in range(0, len(listed), len(ends))] if ends else []
    if any(not 0 <= at < end for place in places for at, end in zip(place, ends, strict=True)):
        raise Ambiguous("a value of the sparse tensor has an index outside of it")
    if any(before >= after for before, after in pairwise(places)):
        raise Ambiguous("the indices of a sparse tensor's values do not ascend")


def _integers(tensor: TensorProto) -> list[int] | None:
    place = place_of(tensor)
    if place == RAW:
        found: list[int] = np.frombuffer(tensor.raw_data, "<i8").tolist()
        return found
    return list(tensor.int64_data) if place == "int64_data" else None


def place_of(tensor: TensorProto) -> str | None:
    """Return the field that holds a stored tensor's elements, or EXTERNAL, or None if they are left out.

    Raises Ambiguous.
    """
    from onnx import TensorProto

    used = [field for field in (*FIELDS, STRINGS) if len(getattr(tensor, field))]
    if tensor.raw_data or (used and tensor.HasField(RAW)):
        used.append(RAW)
    outside = tensor.data_location == TensorProto.EXTERNAL
    if outside or tensor.external_data:
        used.append(EXTERNAL)
    if tensor.HasField("segment"):
        raise Ambiguous("a segment of a tensor is not a whole tensor")
    if len(used) > 1 or (used == [EXTERNAL] and not outside):
        raise Ambiguous(f"its elements are in {', in '.join(used)} and in data_location {'1' if outside else '0'}")
    if not used:
        return None
    dtype = "string" if tensor.data_type == TensorProto.STRING else NUMBERS.get(tensor.data_type)
    if dtype is not None and all(dim >= 0 for dim in tensor.dims):
        _fits(tensor, used[0], dtype)
    return used[0]


def _fits(tensor: TensorProto, field: str, dtype: str) -> None:
    """Check that a tensor's elements are of its type, and that their number is that of its shape."""
    if (dtype == "string") != (field == STRINGS) or (field in FIELDS and dtype not in FIELDS[field]):
        raise Ambiguous(f"elements of type {dtype} cannot be in {field}")
    elements = prod(tensor.dims)
    if field == STRINGS:
        given, needed = len(tensor.string_data), elements
    elif field == RAW:
        given, needed = len(tensor.raw_data), (elements * BITS[dtype] + 7) // 8
    elif field == EXTERNAL:
        given, needed = _external(tensor, (elements * BITS[dtype] + 7) // 8)
    else:
        width = 2 * BITS[dtype] if dtype.startswith("complex") else BITS[dtype]
        parts = width // BITS[dtype] * elements
        given, needed = len(getattr(tensor, field)), (parts * min(8, width) + 7) // 8
    if given != needed:
        raise Ambiguous(f"{field} has room for {given}, but the shape {list(tensor.dims)} needs {needed}")
    low, high = _range(dtype)
    numbers = _numbers(tensor, field, dtype)
    if numbers and not low <= min(numbers) <= max(numbers) <= high:
        raise Ambiguous(f"{field} has a number that is not a {dtype}")


def _numbers(tensor: TensorProto, field: str, dtype: str) -> Sequence[int]:
    """Return the numbers in a field that is wider than the type: some may not be elements of the type."""
    if field == RAW:
        return tensor.raw_data if dtype == "bool" else ()
    return getattr(tensor, field) if field in ("int32_data", "uint64_data") else ()


def _range(dtype: str) -> tuple[int, int]:
    """Return the least and the largest number in a field that is an element of the type.

    For narrower types, they are those of a byte.
    """
    if dtype == "bool":
        return 0, 1
    states = 1 << max(8, BITS.get(dtype, 0))
    return (-states // 2, states // 2 - 1) if dtype in _SIGNED else (0, states - 1)


def _external(tensor: TensorProto, needed: int) -> tuple[int, int]:
    """Return the number of bytes that an external file has for a tensor, and the number that it needs."""
    stated: dict[str, set[str]] = {}
    for entry in tensor.external_data:
        stated.setdefault(entry.key, set()).add(entry.value)
    location, offset, length = (stated.get(key, set()) for key in ("location", "offset", "length"))
    if len(location) != 1 or "" in location or len(offset) > 1 or len(length) > 1:
        raise Ambiguous("its external file is not stated once")
    for text in offset | length:
        if not text.isascii() or not text.isdigit() or len(text) > 20:
            raise Ambiguous("offset and length in its external file must be numbers")
    return (int(next(iter(length))), needed) if length else (needed, needed)
