"""The place of the elements of a stored tensor in a model file, and the check that they are stated once.

A TensorProto has seven fields for elements and a way to name an external file, and readers differ in which they prefer.
So a tensor must fill exactly one: `raw_data`, the field of its type, or an external file; with the number of elements
of its shape, each in range. A tensor without elements is allowed: this is how weights are left out. spec: T10.8, T10.10
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, defs

from tmmu.core.dtypes import BITS
from tmmu.core.errors import TmmuError
from tmmu.onnx.naming import domain_of
from tmmu.onnx.sizes import DTYPES, refuse

TYPED = ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")
VALUES_LIMIT = 1 << 20
"""The most bytes of a tensor whose every element is checked: larger ones decide nothing."""

_WIDE: dict[int, str] = {
    TensorProto.FLOAT: "float_data", TensorProto.COMPLEX64: "float_data", TensorProto.DOUBLE: "double_data",
    TensorProto.COMPLEX128: "double_data", TensorProto.INT64: "int64_data", TensorProto.UINT64: "uint64_data",
    TensorProto.UINT32: "uint64_data", TensorProto.STRING: "string_data",
}  # fmt: skip
"""The field of a type; that of all other types is `int32_data`."""

_PLACES = ("location", "offset", "length")

FLAGS = frozenset({
    "align_corners", "allowzero", "antialias", "ceil_mode", "center_point_box", "count_include_pad",
    "detect_negative", "detect_positive", "exclude_outside", "exclusive", "fmod", "input_forget", "interleaved",
    "inverse", "is_causal", "is_test", "keepdims", "largest", "layout", "linear_before_reset", "new_axis",
    "noop_with_empty_axes", "onesided", "output_sequence", "periodic", "reverse", "saturate", "select_last_index",
    "sorted", "spatial", "storage_order", "training_mode", "transA", "transB", "upper", "zeros",
})  # fmt: skip
"""The attributes of ONNX's operators that are 0 or 1; readers disagree about other numbers."""


def check(graphs: Iterable[onnx.GraphProto], nodes: Iterable[onnx.NodeProto]) -> None:
    """Raise INVALID_IR if a value is stated twice, or not as its type and shape require. O(stored bytes)."""
    for graph in graphs:
        for tensor in graph.initializer:
            _check_tensor(tensor, f"initializer {tensor.name!r}")
        for sparse in graph.sparse_initializer:
            _check_sparse(sparse, f"initializer {sparse.values.name!r}")
    for node in nodes:
        place = f"node {node.name!r}" if node.name else f"node of {node.output[0]!r}" if node.output else "a node"
        _check_node(node, place)


def _check_node(node: onnx.NodeProto, place: str) -> None:
    for name, count in Counter(attribute.name for attribute in node.attribute).items():
        if count > 1:
            raise _make_refusal(place, f"its attribute {name!r} occurs {count} times")
    if (domain_of(node), node.op_type) == ("", "Constant") and len(node.attribute) != 1:
        raise _make_refusal(place, f"expected one attribute of a Constant, got {len(node.attribute)}")
    for attribute in node.attribute:
        where = f"attribute {attribute.name!r} of {place}"
        is_flag = attribute.name in FLAGS and attribute.type == AttributeProto.INT
        if is_flag and attribute.i not in (0, 1) and defs.has(node.op_type, domain_of(node)):
            raise _make_refusal(where, f"expected 0 or 1, got {attribute.i}")
        for tensor in _iterate_tensors(attribute):
            _check_tensor(tensor, where)
        for sparse in _iterate_sparse(attribute):
            _check_sparse(sparse, where)


def _iterate_tensors(attribute: AttributeProto) -> Iterator[TensorProto]:
    if attribute.type == AttributeProto.TENSOR:
        yield attribute.t
    elif attribute.type == AttributeProto.TENSORS:
        yield from attribute.tensors


def _iterate_sparse(attribute: AttributeProto) -> Iterator[onnx.SparseTensorProto]:
    if attribute.type == AttributeProto.SPARSE_TENSOR:
        yield attribute.sparse_tensor
    elif attribute.type == AttributeProto.SPARSE_TENSORS:
        yield from attribute.sparse_tensors


def _make_refusal(place: str, what: str) -> TmmuError:
    return refuse("INVALID_IR", place, what, "write the model again, with each value stated once and in its range")


def _check_tensor(tensor: TensorProto, place: str) -> None:
    filled = [field for field in TYPED if len(getattr(tensor, field))]
    if tensor.HasField("raw_data") and (tensor.raw_data or filled):
        filled.insert(0, "raw_data")
    if tensor.HasField("segment"):
        raise _make_refusal(place, "it is one segment of a tensor, and the others are missing")
    if tensor.data_location == TensorProto.EXTERNAL:
        filled.append("an external file")
    elif tensor.external_data:
        raise _make_refusal(place, "it names an external file, but its data_location is not external")
    if len(filled) > 1:
        raise _make_refusal(place, f"its elements are stated in {' and in '.join(filled)}")
    if not filled:
        return
    (field,) = filled
    if tensor.data_type not in DTYPES and tensor.data_type != TensorProto.STRING:
        return  # its type is refused when it is read
    if tensor.data_type == TensorProto.STRING and field != "string_data":
        raise _make_refusal(place, f"expected strings in string_data, got {field}")
    if field == "an external file":
        _check_external(tensor, place)
    elif field == "raw_data":
        _check_count(len(tensor.raw_data), _count_bytes(tensor), "bytes", tensor, place)
        if tensor.data_type == TensorProto.BOOL and set(tensor.raw_data[:VALUES_LIMIT]) - {0, 1}:
            raise _make_refusal(place, "expected 0 or 1 for each bool")
    else:
        if field != _WIDE.get(tensor.data_type, "int32_data"):
            raise _make_refusal(place, f"{field} is not the field for elements of its type")
        _check_typed(tensor, field, place)


def _check_typed(tensor: TensorProto, field: str, place: str) -> None:
    given, elements = getattr(tensor, field), math.prod(tensor.dims)
    if field == "string_data":
        _check_count(len(given), elements, "strings", tensor, place)
        return
    dtype = DTYPES[tensor.data_type]
    bits = BITS[dtype]
    if dtype.startswith("complex"):
        elements *= 2
    elif bits < 8:
        elements, bits = -(-elements * bits // 8), 8
    _check_count(len(given), elements, "entries", tensor, place)
    if field in ("float_data", "double_data", "int64_data") or len(given) * 8 > VALUES_LIMIT:
        return
    if dtype == "bool":
        low, high = 0, 1
    elif dtype in ("int8", "int16", "int32"):
        low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    else:
        low, high = 0, (1 << bits) - 1
    if not low <= min(given) <= max(given) <= high:
        raise _make_refusal(place, f"{field} has entries out of range for {dtype}")


def _check_external(tensor: TensorProto, place: str) -> None:
    stated: dict[str, str] = {}
    for entry in tensor.external_data:
        if entry.key in _PLACES and stated.setdefault(entry.key, entry.value) != entry.value:
            raise _make_refusal(place, f"its external file has two values for {entry.key}")
    if not stated.get("location"):
        raise _make_refusal(place, "its elements are in an external file without a location")
    for key in _PLACES[1:]:
        number = stated.get(key, "0")
        if not (number.isascii() and number.isdigit() and len(number) <= 20):
            raise _make_refusal(place, f"expected a number for the {key} in its external file, got {stated[key]!r}")
    if "length" in stated:
        _check_count(int(stated["length"]), _count_bytes(tensor), "bytes", tensor, place)


def _count_bytes(tensor: TensorProto) -> int:
    elements: int = math.prod(tensor.dims)
    return -(-elements * BITS[DTYPES[tensor.data_type]] // 8)


def _check_count(given: int, needed: int, unit: str, tensor: TensorProto, place: str) -> None:
    if given != needed and min(tensor.dims, default=0) >= 0:
        raise _make_refusal(place, f"its shape {list(tensor.dims)} needs {needed} {unit}, got {given}")


def _check_sparse(sparse: onnx.SparseTensorProto, place: str) -> None:
    values, indices, rank = sparse.values, sparse.indices, len(sparse.dims)
    _check_tensor(values, place)
    _check_tensor(indices, f"the indices of {place}")
    if len(values.dims) != 1 or indices.data_type != TensorProto.INT64:
        raise _make_refusal(place, "a sparse tensor has a list of values, and indices of int64")
    flat = list(indices.dims) == list(values.dims)
    if not flat and list(indices.dims) != [values.dims[0], rank]:
        raise _make_refusal(place, f"its indices are {list(indices.dims)} for {values.dims[0]} values")
    absent = not (indices.raw_data or indices.int64_data)
    if absent or indices.ByteSize() > VALUES_LIMIT or min(sparse.dims, default=0) < 0:
        return
    found = np.frombuffer(indices.raw_data, "<i8") if indices.raw_data else np.array(indices.int64_data, np.int64)
    limits = [math.prod(sparse.dims)] if flat else list(sparse.dims)
    rows = [tuple(row) for row in found.reshape(-1, len(limits)).tolist()]
    if any(not 0 <= index < limit for row in rows for index, limit in zip(row, limits, strict=True)):
        raise _make_refusal(place, "an index is outside of its shape")
    if any(one >= other for one, other in pairwise(rows)):
        raise _make_refusal(place, "its indices are not strictly ascending")
