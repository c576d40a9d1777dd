"""Read stored tensors as values, from the one field of a `TensorProto` that has its elements (`encodings`)."""

from __future__ import annotations

import sys
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from proofs.readers.operators.sizes.call import (
    NUMBERS,
    Cells,
    Misfit,
    NotKnown,
    TensorSize,
    Value,
    attribute_value,
)
from proofs.readers.operators.sizes.elements import EXTERNAL, RAW, Ambiguous, place_of

if TYPE_CHECKING:  # see `call`
    from onnx import NodeProto, SparseTensorProto, TensorProto

LIMIT = 1 << 16
"""The maximum number of elements of a value."""

_NUMPY = frozenset(
    {"bool", "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"}
)
"""The element types that NumPy has."""


def size_of(tensor: TensorProto) -> TensorSize:
    """Return shape and element type of a stored tensor, only from its header."""
    if tensor.data_type not in NUMBERS or any(dim < 0 for dim in tensor.dims):
        raise NotKnown(f"tensor {tensor.name!r} is of type {tensor.data_type} and dimensions {list(tensor.dims)}")
    return TensorSize(tuple(tensor.dims), NUMBERS[tensor.data_type])


def value_of(tensor: TensorProto) -> Value | None:
    """Return the elements of a stored tensor, or None if they are not in the file, not NumPy's, or not stated once."""
    dtype, shape = NUMBERS.get(tensor.data_type), tuple(tensor.dims)
    if dtype not in _NUMPY or any(dim < 0 for dim in shape) or prod(shape) > LIMIT:
        return None
    try:
        place = place_of(tensor)
    except Ambiguous:
        return None
    kind = np.dtype(dtype)
    if place == EXTERNAL or (place is None and prod(shape)):
        return None
    if place == RAW:
        cells = np.frombuffer(tensor.raw_data, kind.newbyteorder("<"))
    elif dtype == "float16":
        cells = np.array(tensor.int32_data, np.uint16).view(np.float16)
    else:
        cells = np.array([] if place is None else getattr(tensor, place), kind)
    return of_numpy(cells.reshape(shape), dtype)


def of_numpy(cells: Cells, dtype: str) -> Value:
    """Return a value from an array of NumPy's own numbers."""
    if cells.dtype.kind not in "iu":
        return Value(cells.astype(cells.dtype.newbyteorder("=") if sys.byteorder else cells.dtype), dtype)
    found = np.empty(cells.shape, object)
    found[...] = cells.astype(object)
    return Value(found, dtype)


def constant(node: NodeProto) -> tuple[TensorSize, Value | None]:
    """Return size and value of a Constant. Exactly one attribute gives it."""
    if len(node.attribute) != 1:
        raise Misfit(f"a Constant has {len(node.attribute)} attributes")
    attribute = node.attribute[0]
    if attribute.name == "value":
        return size_of(attribute.t), value_of(attribute.t)
    if attribute.name == "sparse_value":
        return sparse_size(attribute.sparse_tensor), None
    dtypes = {"value_int": "int64", "value_ints": "int64", "value_float": "float32", "value_floats": "float32"}
    if attribute.name not in dtypes:
        raise NotKnown(f"attribute {attribute.name!r} gives no tensor that a plan holds")
    found = attribute_value(attribute)
    cells = np.array(found, dtypes[attribute.name])
    value = of_numpy(cells, dtypes[attribute.name]) if cells.size <= LIMIT else None
    return TensorSize(cells.shape, dtypes[attribute.name]), value


def sparse_size(tensor: SparseTensorProto) -> TensorSize:
    """Return the size of the dense tensor that a sparse one represents."""
    return TensorSize(tuple(tensor.dims), size_of(tensor.values).dtype)
