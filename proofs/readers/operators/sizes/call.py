"""Represent one use of an operator for its rule: attributes, the operands' sizes and, if the rule asks, their values.

A rule returns the size of each result, over numbers and over ranges alike. It raises `Misfit` if the specification
gives these operands no result, and `NotKnown` if it would need to know more than it can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tmmu.core.dims.expressions import Dim, Expression, bounds_of, format_dim
from tmmu.core.dims.operations import divide_exactly

if TYPE_CHECKING:  # rows name the rules where no model is read, and onnx takes its time
    from onnx import AttributeProto, NodeProto

Shape = tuple[Dim, ...]
Cells = NDArray[Any]


class TensorSize(NamedTuple):
    """Shape and element type of a tensor."""

    shape: Shape
    dtype: str

    def __str__(self) -> str:
        return f"{self.dtype} {format_shape(self.shape)}"


class Value(NamedTuple):
    """A tensor with known elements.

    Integers are an array of objects (Python integers or expressions); booleans and floats have one of NumPy's own
    types.
    """

    cells: Cells
    dtype: str


class Misfit(ValueError):
    """The operator's specification defines no result for these operands or attributes."""


class NotKnown(Exception):
    """A rule needs something that is not known. The message is the reason."""


NUMBERS = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
    11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "bfloat16", 17: "float8e4m3fn",
    18: "float8e4m3fnuz", 19: "float8e5m2", 20: "float8e5m2fnuz", 21: "uint4", 22: "int4", 23: "float4e2m1",
    24: "float8e8m0", 25: "uint2", 26: "int2",
}  # fmt: skip
"""The element types by the numbers of `TensorProto.DataType`.

Strings are not among them, because no plan holds them.
"""


@dataclass(frozen=True)
class Call:
    """One node: the version of its operator's last change, its operands (None for an absent one), and their values.

    `value` returns the value of an operand or None. It is called only for operands whose numbers decide a shape.
    `block` is the number of channels in a block of the runtime that made the graph, 0 if none did.
    """

    node: NodeProto
    since: int
    operands: Sequence[TensorSize | None]
    value: Callable[[int], Value | None]
    block: int = 0

    @cached_property
    def _attributes(self) -> dict[str, AttributeProto]:
        return {attribute.name: attribute for attribute in self.node.attribute}

    @property
    def results(self) -> int:
        """The number of results that the node names, including absent ones in between."""
        return len(self.node.output)

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute's value: an integer, a float, a text, or a list of them."""
        return attribute_value(self._attributes[name]) if name in self._attributes else default

    def has(self, k: int) -> bool:
        """Whether there is an operand at this position."""
        return k < len(self.operands) and self.operands[k] is not None

    def size(self, k: int) -> TensorSize:
        """Return the size of an operand that must be there."""
        found = self.operands[k] if k < len(self.operands) else None
        if found is None:
            raise Misfit(f"operand {k} is missing")
        return found

    def shape(self, k: int, rank: int | None = None) -> Shape:
        """Return the shape of an operand that must be there, of this rank if one is given."""
        found = self.size(k).shape
        if rank is not None and len(found) != rank:
            raise Misfit(f"operand {k} is {format_shape(found)} and must have {rank} dimensions")
        return found

    def dtype(self, k: int) -> str:
        """Return the element type of an operand that must be there."""
        return self.size(k).dtype

    def present(self) -> list[TensorSize]:
        """Return the sizes of all operands that are there."""
        return [size for size in self.operands if size is not None]

    def numbers(self, k: int, attribute: str | None = None) -> list[Dim]:
        """Return the integers that operand `k` holds, or the attribute that an older version has instead."""
        if not self.has(k) and attribute in self._attributes:
            return [int(each) for each in self.attribute(attribute)]
        size, found = self.size(k), self.value(k)
        if len(size.shape) > 1:
            raise Misfit(f"operand {k} is {format_shape(size.shape)} and must be a number or a list of numbers")
        if found is None or found.dtype not in ("int64", "int32"):
            raise NotKnown(f"the value of operand {k} is not known")
        return list(found.cells.reshape(-1))

    def number(self, k: int) -> Dim:
        """Return the one integer that operand `k` holds."""
        found = self.numbers(k)
        if len(found) != 1:
            raise Misfit(f"operand {k} has {len(found)} numbers and must have one")
        return found[0]

    def one_type(self, *positions: int) -> str:
        """Return the element type that these operands (all, if none is named) have in common."""
        found = {self.dtype(k) for k in positions} if positions else {size.dtype for size in self.present()}
        if len(found) != 1:
            raise Misfit(f"its operands are of the types {', '.join(sorted(found))}, which must be one")
        return found.pop()


Rule = Callable[[Call], Sequence[TensorSize]]
"""The sizes of the results in order. A result that the node does not name may be among them."""

Operands = list[Value | None]
Evaluation = Callable[[Call, Operands, list[TensorSize]], list[Cells]]
"""The elements of the results, from the values of the operands and the sizes of the results."""


def attribute_value(attribute: AttributeProto) -> Any:
    """Return the value of an attribute by the field that its type names."""
    from onnx import AttributeProto

    kinds = AttributeProto
    fields = {
        kinds.INT: "i", kinds.FLOAT: "f", kinds.STRING: "s", kinds.INTS: "ints", kinds.FLOATS: "floats",
        kinds.STRINGS: "strings", kinds.TENSOR: "t",
    }  # fmt: skip
    if attribute.type not in fields:
        raise NotKnown(f"attribute {attribute.name!r} is of a kind that no rule reads")
    found = getattr(attribute, fields[attribute.type])
    if attribute.type == kinds.STRING:
        return found.decode("utf-8", "replace")
    return list(found) if attribute.type in (kinds.INTS, kinds.FLOATS, kinds.STRINGS) else found


def element_type(number: int) -> str:
    """Return the element type of a number of `TensorProto.DataType`."""
    if number not in NUMBERS:
        raise NotKnown(f"element type {number} cannot be in a plan")
    return NUMBERS[number]


def format_shape(shape: Shape) -> str:
    """Return a shape for messages."""
    return f"[{', '.join(map(format_dim, shape))}]"


def axis_of(axis: int, rank: int) -> int:
    """Return an axis counted from the front. A negative one counts from the back."""
    if not -rank <= axis < rank:
        raise Misfit(f"axis {axis} does not exist among {rank}")
    return axis % rank


def axes_of(axes: Iterable[Dim], rank: int) -> list[int]:
    """Return axes counted from the front, each at most once."""
    found = [axis_of(whole(axis), rank) for axis in axes]
    if len(set(found)) != len(found):
        raise Misfit(f"an axis is listed twice in {found}")
    return found


def whole(dim: Dim) -> int:
    """Return a number that must not depend on the dimensions of the envelope."""
    if isinstance(dim, Expression):
        raise NotKnown(f"{format_dim(dim)} is not one number")
    return int(dim)


def product(dims: Iterable[Dim]) -> Dim:
    """Return the product of dimensions, which is 1 for none."""
    total: Dim = 1
    for dim in dims:
        total = total * dim
    return total


def never_below(least: int, dims: Iterable[Dim], misfit: str) -> None:
    """Raise `Misfit` if one of these is less at every shape, and `NotKnown` if its bounds do not exclude it."""
    for dim in dims:
        if bounds_of(dim).high < least:
            raise Misfit(misfit)
        if bounds_of(dim).low < least:
            raise NotKnown(f"{dim} is not shown to be {least} or more")


def equal_part(dim: Dim, count: int, unit: str = "") -> Dim:
    """Return one of `count` equal parts of a dimension. Messages name them with `unit`."""
    found = divide_exactly(dim, count)
    if found is None and isinstance(dim, Expression):
        raise NotKnown(f"{dim} is not shown to be a multiple of {count}{unit}")
    if found is None:
        raise Misfit(f"{dim} is not a multiple of {count}{unit}")
    return found


def same(one: Dim, other: Dim, what: str) -> Dim:
    """Return the one dimension that two must be."""
    if one == other:
        return one
    difference = bounds_of(one - other)
    if difference.low <= 0 <= difference.high and difference != (0, 0):
        raise NotKnown(f"{what}: {format_dim(one)} and {format_dim(other)} are equal for some shapes only")
    raise Misfit(f"{what}: {format_dim(one)} and {format_dim(other)} differ")


def same_shape(one: Shape, other: Shape, what: str) -> Shape:
    """Return the one shape that two must be."""
    if len(one) != len(other):
        raise Misfit(f"{what}: {format_shape(one)} and {format_shape(other)} have different ranks")
    return tuple(same(a, b, what) for a, b in zip(one, other, strict=True))


def broadcast(*shapes: Shape) -> Shape:
    """Return the shape of multidirectional broadcasting.

    Shapes are aligned at the end, and a dimension of 1 is stretched to any other.
    """
    rank = max(map(len, shapes))
    return tuple(
        broadcast_dimensions([shape[axis] for shape in shapes if -axis <= len(shape)], shapes)
        for axis in range(-rank, 0)
    )


def broadcast_dimensions(dims: Sequence[Dim], shapes: Sequence[Shape] = ()) -> Dim:
    """Return the dimension that several become together: the one that is not 1, which all others must equal."""
    found: Dim = 1
    for dim in dims:
        if found == 1:
            found = dim
        elif dim not in (1, found):  # the text is made only for a misfit: there may be thousands of operands
            found = same(found, dim, f"{' and '.join(map(format_shape, shapes[:4]))} do not broadcast")
    return found


def broadcast_to(one: Shape, whole_shape: Shape) -> Shape:
    """Check unidirectional broadcasting: `one` must become `whole_shape` without changing it."""
    if len(one) > len(whole_shape) or broadcast(one, whole_shape) != whole_shape:
        raise Misfit(f"{format_shape(one)} does not broadcast to {format_shape(whole_shape)}")
    return whole_shape


def array(cells: Sequence[Any] | Cells) -> Cells:
    """Return a list of integers and expressions as an array of objects."""
    found = np.empty(len(cells), object)
    found[:] = cells
    return found
