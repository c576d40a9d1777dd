"""Stored tensors as values: by exactly one of the fields in which a `TensorProto` can hold its elements.

A tensor whose data is in two fields at once, outside of the file, or of another number than its shape has no
value here: readers differ in what they make of it.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, SparseTensorProto, TensorProto

from proofs.readers.models.sizes.call import NUMBERS, Call, Misfit, NotKnown, TensorSize, Value, attribute_value

LIMIT = 1 << 16
"""The most elements of a value."""

FIELDS = {
    "float_data": ("float32",), "double_data": ("float64",), "int64_data": ("int64",),
    "uint64_data": ("uint32", "uint64"), "int32_data": ("bool", "int8", "int16", "int32", "uint8", "uint16", "float16"),
}  # fmt: skip
"""The field for the elements of each type, where they are not raw; float16 stands there by its bits."""

_DATA = (*FIELDS, "string_data")
_TYPES = {dtype for types in FIELDS.values() for dtype in types}


def size_of(tensor: TensorProto) -> TensorSize:
    """Shape and element type of a stored tensor, by its header alone."""
    if tensor.data_type not in NUMBERS or any(dim < 0 for dim in tensor.dims):
        raise NotKnown(f"tensor {tensor.name!r} is of type {tensor.data_type} and dimensions {list(tensor.dims)}")
    return TensorSize(tuple(tensor.dims), NUMBERS[tensor.data_type])


def value_of(tensor: TensorProto) -> Value | None:
    """The elements of a stored tensor; None where they are not in the file, not NumPy's, or not in one field alone."""
    if tensor.data_type not in NUMBERS or (dtype := NUMBERS[tensor.data_type]) not in _TYPES:
        return None
    shape, filled = tuple(tensor.dims), [name for name in _DATA if len(getattr(tensor, name))]
    if any(dim < 0 for dim in shape) or np.prod(shape, dtype=object) > LIMIT:
        return None
    if tensor.data_location == TensorProto.EXTERNAL or len(tensor.external_data) or tensor.HasField("segment"):
        return None
    kind = np.dtype(dtype)
    if tensor.raw_data:
        if filled or len(tensor.raw_data) != np.prod(shape, dtype=object) * kind.itemsize:
            return None
        cells = np.frombuffer(tensor.raw_data, kind.newbyteorder("<"))
    else:
        field = next(name for name, types in FIELDS.items() if dtype in types)
        if filled not in ([], [field]) or len(getattr(tensor, field)) != np.prod(shape, dtype=object):
            return None
        numbers = list(getattr(tensor, field))
        if dtype == "float16":
            cells = np.array(numbers, np.uint16).view(np.float16)
        elif kind.kind in "iu" and any(not np.iinfo(kind).min <= each <= np.iinfo(kind).max for each in numbers):
            return None
        else:
            cells = np.array(numbers, kind)
    return of_numpy(cells.reshape(shape), dtype)


def of_numpy(cells: NDArray[Any], dtype: str) -> Value:
    """A value of an array of NumPy's own numbers."""
    if cells.dtype.kind not in "iu":
        return Value(cells.astype(cells.dtype.newbyteorder("=") if sys.byteorder else cells.dtype), dtype)
    found = np.empty(cells.shape, object)
    found[...] = cells.astype(object)
    return Value(found, dtype)


def constant(node: NodeProto) -> tuple[TensorSize, Value | None]:
    """Size and value of a Constant: exactly one attribute gives it."""
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
    """The size of the dense tensor that a sparse one stands for."""
    return TensorSize(tuple(tensor.dims), size_of(tensor.values).dtype)


def constant_rule(call: Call) -> list[TensorSize]:
    """Constant: by its attribute alone."""
    return [constant(call.node)[0]]
