"""The known type of a value: its dimensions and its element type, in the terms of this project.

An unknown dimension is None, and so are the dimensions of a value of unknown rank and an unknown element type. Values
that are not dense tensors (strings, sequences, maps, optionals) are refused here by name. spec: T9.2
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, TypeProto

from tmmu.core.dims.expressions import Dim, Expression, Unwieldy, format_dim, upper_bound
from tmmu.core.dims.maxima import is_negative, maximum, minimum
from tmmu.core.dtypes import BITS, nbytes
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import UINT64_END

Dims = tuple[Dim | None, ...]
Size = tuple[tuple[Dim, ...], str]
"""A known shape, and the name of its element type in `tmmu.core.dtypes`; open dimensions are expressions."""

Array = NDArray[np.generic]
"""A value that is known completely."""

_RENAMED = {"FLOAT": "float32", "DOUBLE": "float64"}
DTYPES: dict[int, str] = {
    number: name
    for number, name in ((number, _RENAMED.get(word, word.lower())) for word, number in TensorProto.DataType.items())
    if name in BITS
}
"""The name in this project for each of ONNX's element types that a plan may contain, by ONNX's number."""

NUMBERS: dict[str, int] = {name: number for number, name in DTYPES.items()}


class Type(NamedTuple):
    """The dimensions (None: not even the rank is known) and the element type (None: unknown) of a value."""

    dims: Dims | None
    dtype: str | None

    def size(self) -> Size | None:
        """Return shape and element type if both are known completely, else None."""
        if self.dims is None or self.dtype is None:
            return None
        shape = tuple(dim for dim in self.dims if dim is not None)
        return (shape, self.dtype) if len(shape) == len(self.dims) else None

    def __str__(self) -> str:
        dims = (
            "[...]" if self.dims is None else f"[{', '.join('?' if d is None else format_dim(d) for d in self.dims)}]"
        )
        return f"{self.dtype or 'unknown type'} {dims}"


UNKNOWN = Type(None, None)


def refuse(code: str, place: str, what: str, fix: str) -> TmmuError:
    """Make the refusal of a model; `place` is a node or a tensor by name."""
    return TmmuError(code, what, place=place, fix=fix, operator="UML_OS.Model.AnalyzeLiveness_v1", node_id=place)


def dtype_of(number: int, place: str) -> str | None:
    """Return the name of an element type, None for undefined.

    Raises INVALID_IR_SHAPES for other types, such as strings.
    """
    if number == TensorProto.UNDEFINED:
        return None
    if number not in DTYPES:
        word = TensorProto.DataType.Name(number) if number in TensorProto.DataType.values() else str(number)
        what = f"its element type is {word}, which no plan can contain"
        raise refuse("INVALID_IR_SHAPES", place, what, "use another element type, or state its bytes: --bytes NAME=N")
    return DTYPES[number]


def from_proto(proto: TypeProto, place: str, dims: Mapping[str, Dim] = {}) -> Type:
    """Return the type that a stated or inferred type gives; `dims` are the sizes of names in it.

    Raises INVALID_IR_SHAPES for a negative dimension and for a value that is not a tensor.
    """
    kind = proto.WhichOneof("value")
    if kind is None:
        return UNKNOWN
    if kind != "tensor_type":
        word = kind.removesuffix("_type").replace("_", " ")
        raise refuse(
            "INVALID_IR_SHAPES",
            place,
            f"it is a {word}, not a dense tensor",
            "use only tensors, or state its bytes: --bytes NAME=N",
        )
    tensor = proto.tensor_type
    dtype = dtype_of(tensor.elem_type, place)
    if not tensor.HasField("shape"):
        return Type(None, dtype)
    found = (dim.dim_value if dim.HasField("dim_value") else dims.get(dim.dim_param) for dim in tensor.shape.dim)
    return _make_type(tuple(found), dtype, place)


def is_numeric(proto: TypeProto) -> bool:
    """Return whether a type, as far as it is known, is that of a tensor that a plan can contain."""
    kind = proto.WhichOneof("value")
    return kind is None or (kind == "tensor_type" and proto.tensor_type.elem_type in (TensorProto.UNDEFINED, *DTYPES))


def to_proto(size: Size) -> TypeProto:
    """Return a size without open dimensions as ONNX writes it."""
    return onnx.helper.make_tensor_type_proto(NUMBERS[size[1]], list(numbers(size[0])))


def stored_type(proto: TensorProto, place: str) -> Type:
    """Return the type of a stored tensor, from its header only: its data may be elsewhere or missing."""
    return _make_type(tuple(proto.dims), dtype_of(proto.data_type, place), place)


def _make_type(dims: Dims, dtype: str | None, place: str) -> Type:
    if any(isinstance(dim, int) and dim < 0 for dim in dims):
        what = f"its shape {list(dims)} has a negative dimension"
        raise refuse("INVALID_IR_SHAPES", place, what, "correct the model or its bindings")
    return Type(dims, dtype)


def numbers(shape: tuple[Dim, ...]) -> tuple[int, ...]:
    """Return a shape that has no open dimension as numbers."""
    return tuple(dim for dim in shape if isinstance(dim, int))


def is_open(size: Size) -> bool:
    """Return whether a dimension of the size is an expression."""
    return any(isinstance(dim, Expression) for dim in size[0])


def check_extent(size: Size, place: str) -> Size:
    """Return `size` if its bytes and its elements (without zero dimensions) fit 64 bits.

    Inside an envelope, this must be shown for every shape, and also that no dimension is negative. Raises
    ALLOCATION_OVERFLOW or INVALID_IR_SHAPES otherwise. spec: R6.1, R6.2
    """
    shape, dtype = size
    if is_open(size):
        return _check_open(size, place)
    known = numbers(shape)
    if nbytes(known, dtype) >= UINT64_END or math.prod(filter(None, known)) >= UINT64_END // 2:
        what = f"{dtype} {list(shape)} does not fit 64 bits"
        raise refuse("ALLOCATION_OVERFLOW", place, what, "bind smaller dimensions")
    return size


def _check_open(size: Size, place: str) -> Size:
    shape, dtype = size
    for axis, dim in enumerate(shape):
        if is_negative(dim):
            least = minimum(dim)
            where = "somewhere in the envelope" if least is None else f"at {at(least.point)}"
            what, fix = (
                f"dimension {axis}, {format_dim(dim)}, may be negative {where}",
                "give narrower ranges with --dim",
            )
            raise refuse("INVALID_IR_SHAPES", place, what, fix)
    try:
        most = maximum(nbytes(shape, dtype))
        elements = 1
        for dim in shape:
            elements *= max(1, upper_bound(dim))
    except Unwieldy as error:
        raise unshown(place, str(error)) from error
    if most is None:
        raise unshown(place, f"the maximum of {format_dim(nbytes(shape, dtype))} bytes is not found")
    if most.value >= UINT64_END or elements >= UINT64_END // 2:
        what = f"{Type(shape, dtype)} does not fit 64 bits at {at(most.point)}"
        raise refuse("ALLOCATION_OVERFLOW", place, what, "bind smaller dimensions")
    return size


def unshown(place: str, what: str) -> TmmuError:
    """Make the refusal of a property that is not shown for every shape of the envelope."""
    return refuse(
        "INVALID_IR_SHAPES", place, what, "bind one of the dimensions to a single size, as in --dim NAME=SIZE"
    )


def at(point: Mapping[str, int]) -> str:
    """Format a shape of the envelope for people."""
    return ", ".join(f"{name}={size}" for name, size in sorted(point.items()))
