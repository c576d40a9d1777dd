"""The input of a kernel rule: a node with the shapes, types, places and known values of its operands and results.

A rule turns it into calls of C functions; `NoKernel` is its refusal, with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class NoKernel(Exception):
    """No kernel computes this node; the text states the reason."""


class StoredWeight(NamedTuple):
    """A constant tensor: its name, and the function that reads its elements."""

    name: str
    read: Callable[[], Array]


@dataclass(frozen=True)
class Operand:
    """A tensor at a node: the C expression of its bytes, its shape, its element type, and its value if it is known.

    The value is known of small tensors; `weight` is there for every constant.

    Two operands are the same bytes if their `code` is equal.
    """

    code: str
    shape: tuple[int, ...]
    dtype: str
    value: Callable[[], Array | None] = lambda: None
    weight: StoredWeight | None = None

    @property
    def count(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.shape)


class KernelCall(NamedTuple):
    """A call of the function that `tmmu.mico.kernels.functions` makes for these element types."""

    function: str
    types: tuple[str, ...]
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class NodeCall:
    """A node of ai.onnx as the input of a rule; None stands for operands and results that are absent."""

    op: str
    version: int
    attributes: Mapping[str, Any]
    operands: Sequence[Operand | None]
    results: Sequence[Operand | None]
    literal: Callable[[Array], str]
    """Stores an array among the weights, and returns its C expression."""
    pack: Callable[[StoredWeight, str, Callable[[Array], Array]], str] | None = None
    """Stores a weight in the order that a kernel reads, named by the second argument; returns its C expression."""

    def packed(self, operand: Operand, order: str, arrange: Callable[[Array], Array]) -> str | None:
        """Return the C expression of an operand in another order of its elements; None unless it is constant."""
        if operand.weight is None or self.pack is None:
            return None
        return self.pack(operand.weight, order, arrange)

    @property
    def x(self) -> Operand:
        """The first operand. Raises NoKernel if it is absent."""
        return self.needed(0)

    @property
    def y(self) -> Operand:
        """The first result. Raises NoKernel if it is absent."""
        if not self.results or self.results[0] is None:
            raise NoKernel("its first result is left out")
        return self.results[0]

    def needed(self, number: int) -> Operand:
        """Return the operand of that number. Raises NoKernel if it is absent."""
        found = self.operand(number)
        if found is None:
            raise NoKernel(f"its operand {number} is absent")
        return found

    def operand(self, number: int) -> Operand | None:
        """Return the operand of that number, None if it is absent."""
        return self.operands[number] if number < len(self.operands) else None

    def result(self, number: int) -> Operand | None:
        """Return the result of that number, None if it is absent."""
        return self.results[number] if number < len(self.results) else None

    def known(self, number: int, what: str) -> list[int] | None:
        """Return the known numbers of an operand, None if it is absent.

        Raises NoKernel if they are computed when the model runs.
        """
        operand = self.operand(number)
        if operand is None:
            return None
        value = operand.value()
        if value is None:
            raise NoKernel(f"its {what} are computed when the model runs")
        return [int(each) for each in np.asarray(value).reshape(-1).tolist()]

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute, or the default."""
        return self.attributes.get(name, default)

    def of_type(self, operand: Operand, types: Sequence[str]) -> str:
        """Return the type of an operand. Raises NoKernel unless it is one of `types`."""
        if operand.dtype not in types:
            raise NoKernel(f"it has no kernel for {operand.dtype}")
        return operand.dtype

    def axis(self, axis: int, rank: int | None = None) -> int:
        """Return an axis as a number from 0 on. Raises NoKernel for an axis that does not exist."""
        rank = self.x.rank if rank is None else rank
        if not -rank <= axis < max(1, rank):
            raise NoKernel(f"it has no axis {axis}")
        return axis % rank if rank else 0


FLOATS = ("float32", "float64", "float16", "bfloat16")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = (*SIGNED, *UNSIGNED)
NUMBERS = (*FLOATS, *INTEGERS)
WORDS = {8: "uint8", 16: "uint16", 32: "uint32", 64: "uint64"}
"""The type as which elements are moved, by their bits."""


def sizes(numbers: Sequence[int], kind: str = "size_t") -> str:
    """Return an array of numbers as an argument.

    >>> sizes((2, 3))
    '(const size_t[]){2, 3}'
    """
    return f"(const {kind}[]){{{', '.join(map(str, numbers))}}}"


def strides(shape: Sequence[int]) -> list[int]:
    """Return the distance of neighbours along each dimension, in elements.

    >>> strides((2, 3, 4))
    [12, 4, 1]
    """
    found, step = [], 1
    for dim in reversed(shape):
        found.append(step)
        step *= dim
    return found[::-1]


def collapse_dimensions(shape: Sequence[int], *steps: Sequence[int]) -> tuple[list[int], list[list[int]]]:
    """Return the same walk over elements in the fewest dimensions possible, at least one.

    `steps` are the steps along the dimensions of `shape`, a list for each tensor. Dimensions of one element are
    removed, and two dimensions become one if every list has one constant step through both.

    >>> collapse_dimensions((2, 3, 1, 4), (12, 4, 4, 1), (0, 4, 4, 1))
    ([2, 12], [[12, 1], [0, 1]])
    """
    dims: list[int] = []
    rows: list[tuple[int, ...]] = []
    for d, dim in enumerate(shape):
        here = tuple(each[d] for each in steps)
        if dim == 1:
            continue
        if dims and all(before == after * dim for before, after in zip(rows[-1], here, strict=True)):
            dims[-1], rows[-1] = dims[-1] * dim, here
        else:
            dims.append(dim)
            rows.append(here)
    if not dims:
        dims, rows = [1], [tuple(0 for _ in steps)]
    return dims, [[row[k] for row in rows] for k in range(len(steps))]


def broadcast(shape: Sequence[int], *operands: Operand) -> tuple[str, ...]:
    """Return rank, shape, and the steps of each operand for a walk over `shape`, to which operands are broadcast.

    Raises NoKernel if one does not broadcast to it.
    """
    steps = []
    for operand in operands:
        own = [1] * (len(shape) - operand.rank) + list(operand.shape)
        if len(own) != len(shape) or any(a not in (1, b) for a, b in zip(own, shape, strict=True)):
            raise NoKernel(f"an operand of {list(operand.shape)} is not broadcast to {list(shape)}")
        steps.append([0 if dim == 1 else step for dim, step in zip(own, strides(own), strict=True)])
    dims, found = collapse_dimensions(shape, *steps)
    return (str(len(dims)), sizes(dims), *map(sizes, found))


def number(value: float, dtype: str = "float32") -> str:
    """Return an attribute, stored as float32, as a C number of the type in which elements of `dtype` are computed.

    >>> number(0.5), number(0.2), number(0.2, "float64"), number(float("inf")), number(3)
    ('0.5F', '0.2F', '0.20000000298023224', 'INFINITY', '3.0F')
    """
    stored = np.float32(value)
    if math.isnan(stored):
        return "NAN"
    if math.isinf(stored):
        return "INFINITY" if stored > 0 else "-INFINITY"
    return repr(float(stored)) if dtype == "float64" else f"{stored!s}F"
