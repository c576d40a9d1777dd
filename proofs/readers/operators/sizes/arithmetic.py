"""Evaluate operators that calculate: exactly on integers and expressions, as IEEE 754 rounds on floats.

Integers are divided towards zero. A result is not known if it exists only for some shapes of the envelope, or if a
decision depends on the shape.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from proofs.readers.operators.sizes.call import (
    NUMBERS,
    Call,
    Cells,
    Evaluation,
    NotKnown,
    Operands,
    TensorSize,
    array,
    whole,
)
from proofs.readers.operators.sizes.picking import cells_of, integers
from proofs.readers.operators.sizes.reductions import reduced_axes
from tmmu.core.dims.expressions import Dim, bounds_of, close_shape
from tmmu.core.dims.operations import maximum_of, minimum_of, quotient

FLOATS = ("float16", "float32", "float64")


def is_integer(dtype: str) -> bool:
    """Whether the type is one of whole numbers that NumPy has."""
    return dtype.lstrip("u") in ("int8", "int16", "int32", "int64")


def divide_towards_zero(a: Dim, b: Dim) -> Dim:
    """Return a / b, rounded towards zero."""
    if isinstance(a, int) and isinstance(b, int):
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    if bounds_of(a).low < 0 or bounds_of(b).low < 1:
        raise NotKnown("the sign of a quotient depends on the shape")
    return quotient(a, b)


def less(a: Dim, b: Dim) -> bool:
    """Whether a < b for every shape. Raises NotKnown if shapes differ."""
    difference = bounds_of(a - b)
    if difference.high < 0 or difference.low >= 0:
        return difference.high < 0
    raise NotKnown("a comparison depends on the shape")


def equal(a: Dim, b: Dim) -> bool:
    """Whether a == b for every shape. Raises NotKnown if shapes differ."""
    difference = bounds_of(a - b)
    if difference == (0, 0) or difference.low > 0 or difference.high < 0:
        return difference == (0, 0)
    raise NotKnown("an equality depends on the shape")


def _modulo(a: Dim, b: Dim) -> Dim:
    """Return a modulo b, with the sign of the divisor."""
    if isinstance(a, int) and isinstance(b, int):
        return a % b
    return a - quotient(a, b) * b


def _absolute(a: Dim) -> Dim:
    return -a if less(a, 0) else a


def _sign(a: Dim) -> int:
    return 0 if equal(a, 0) else -1 if less(a, 0) else 1


def _power(a: Dim, b: Dim) -> Dim:
    times, found = whole(b), 1
    if not 0 <= times <= 64:
        raise NotKnown(f"a power of {times}")
    result: Dim = found
    for _ in range(times):
        result = result * a
    return result


def _shifted(a: int, by: int, left: bool, bits: int) -> int:
    return (a << by) % (1 << bits) if left else a >> by


Function = Callable[..., Any]
"""A function of one element of each operand: of Python's integers and expressions, or one of NumPy's."""


def each(
    integers: Function | None = None, floats: Function | None = None, booleans: Function | None = None
) -> Evaluation:
    """Make the evaluation of an elementwise operator. Elements of a type without a function are not worked out."""

    def run(call: Call, operands: Operands, results: list[TensorSize]) -> list[Cells]:
        cells = _all_cells(operands)
        return [_function(call, cells, min(len(cells), 2), integers, floats, booleans)(*cells)]

    return run


def fold(integers: Function, floats: Function, ordered: bool = False) -> Evaluation:
    """Make the evaluation of an operator that takes its operands one after the other.

    With `ordered` the result of more than two floats depends on their order. Otherwise it depends on how NaN compares,
    which no text defines.
    """

    def run(call: Call, operands: Operands, results: list[TensorSize]) -> list[Cells]:
        cells = _all_cells(operands)
        if call.dtype(0) in FLOATS and ordered and len(cells) > 2:
            raise NotKnown("a sum of floats depends on its order")
        if call.dtype(0) in FLOATS and not ordered and any(np.isnan(other).any() for other in cells):
            raise NotKnown("the text does not say what NaN is compared to")
        function, found = _function(call, cells, 2, integers, floats, None), cells[0]
        for other in cells[1:]:
            found = function(found, other)
        return [found]

    return run


def _all_cells(operands: Operands) -> list[Cells]:
    return [cells_of(operands, k) for k in range(len(operands))]


def _function(
    call: Call,
    cells: list[Cells],
    count: int,
    integers: Function | None,
    floats: Function | None,
    booleans: Function | None,
) -> Any:
    """Return the function over arrays for the type of operand 0. One of integers takes `count` operands."""
    kind = call.dtype(0)
    if kind in FLOATS:
        function: Any = floats
    elif kind == "bool":
        function = booleans
    else:
        function = np.frompyfunc(integers, count, 1) if integers is not None and is_integer(kind) else None
    if function is None or any(other.dtype.kind != cells[0].dtype.kind for other in cells):
        raise NotKnown(f"{call.node.op_type} of {kind} is not worked out")
    return function


add = each(lambda a, b: a + b, np.add)
subtract = each(lambda a, b: a - b, np.subtract)
multiply = each(lambda a, b: a * b, np.multiply)
divide = each(divide_towards_zero, np.divide)
sum_up = fold(lambda a, b: a + b, np.add, ordered=True)
find_largest = fold(maximum_of, np.maximum)
find_smallest = fold(minimum_of, np.minimum)
raise_to_power = each(_power)
compare_equal = each(equal, np.equal, np.equal)
compare_less = each(less, np.less)
compare_greater = each(lambda a, b: less(b, a), np.greater)
compare_less_or_equal = each(lambda a, b: not less(b, a), np.less_equal)
compare_greater_or_equal = each(lambda a, b: not less(a, b), np.greater_equal)
take_bits_of_both = each(lambda a, b: whole(a) & whole(b))
take_bits_of_either = each(lambda a, b: whole(a) | whole(b))
take_bits_of_one = each(lambda a, b: whole(a) ^ whole(b))
take_both = each(booleans=np.logical_and)
take_either = each(booleans=np.logical_or)
take_one = each(booleans=np.logical_xor)
invert = each(booleans=np.logical_not)
take_absolute = each(_absolute, np.abs)
negate = each(lambda a: -a, np.negative)
take_sign = each(_sign, np.sign)
round_up = each(floats=np.ceil)
round_down = each(floats=np.floor)
round_to_even = each(floats=np.rint)
take_root = each(floats=np.sqrt)


def take_remainder(call: Call, operands: Operands, results: list[TensorSize]) -> list[Cells]:
    """Return remainders with the sign of the divisor, or with `fmod` of the dividend."""
    if not call.attribute("fmod", 0):
        return _remainder(call, operands, results)
    cells = _all_cells(operands)
    if call.dtype(0) in FLOATS:
        return [np.fmod(*cells)]
    return [np.frompyfunc(lambda a, b: a - divide_towards_zero(a, b) * b, 2, 1)(*cells)]


_remainder = each(_modulo)


def shift(call: Call, operands: Operands, results: list[TensorSize]) -> list[Cells]:
    """Return the bits shifted in the stated direction."""
    left, bits = call.attribute("direction") == "LEFT", np.iinfo(call.dtype(0)).bits
    a, by = integers(cells_of(operands)), integers(cells_of(operands, 1))
    if call.dtype(0).startswith("int") or (by.size and (by.min() < 0 or by.max() >= bits)):
        raise NotKnown("a shift of signed numbers, or by more bits than there are")
    return [np.frompyfunc(lambda x, y: _shifted(int(x), int(y), left, bits), 2, 1)(a.astype(object), by.astype(object))]


def invert_bits(call: Call, operands: Operands, results: list[TensorSize]) -> list[Cells]:
    """Return every bit inverted."""
    kind = np.iinfo(call.dtype(0))
    flip = (lambda a: kind.max - whole(a)) if kind.min == 0 else (lambda a: ~whole(a))
    return [np.frompyfunc(flip, 1, 1)(cells_of(operands))]


def clip(call: Call, operands: Operands, results: list[TensorSize]) -> list[Cells]:
    """Apply Clip: at least the first bound, then at most the second."""
    found, is_float = cells_of(operands), call.dtype(0) in FLOATS
    bounds = []
    for k, name in ((1, "min"), (2, "max")):
        stated = call.attribute(name) if call.since < 11 else None
        bounds.append(cells_of(operands, k).reshape(-1)[0] if call.has(k) else stated)
    if call.since < 11 and any(bound is not None for bound in bounds):
        raise NotKnown("bounds of an older version are not worked out")
    for bound, floats, numbers in zip(bounds, (np.maximum, np.minimum), (maximum_of, minimum_of), strict=True):
        if bound is not None:
            found = floats(found, bound) if is_float else np.frompyfunc(numbers, 2, 1)(found, bound)
    if is_float and np.isnan(found).any():
        raise NotKnown("the text does not say what NaN is compared to")
    return [found]


def cast(call: Call, operands: Operands, results: list[TensorSize]) -> list[Cells]:
    """Apply Cast or CastLike: floats are cut to integers, integers wrap around, and every number but zero is true."""
    cells, to = cells_of(operands), results[0].dtype
    if call.node.op_type == "Cast" and NUMBERS.get(call.attribute("to")) != to:
        raise NotKnown("the type is not the attribute's")
    if cells.dtype == object:
        return [_of_integers(cells, call.dtype(0), to)]
    if is_integer(to):
        if cells.dtype.kind == "f" and not np.isfinite(cells).all():
            raise NotKnown("NaN and infinities have no integer value")
        return [np.frompyfunc(int, 1, 1)(np.trunc(cells).astype(object) if cells.dtype.kind == "f" else cells)]
    if to not in (*FLOATS, "bool"):
        raise NotKnown(f"a cast to {to} is not worked out")
    return [cells != 0 if to == "bool" else cells.astype(to)]


def _of_integers(cells: Cells, dtype: str, to: str) -> Cells:
    if to == "bool":
        return np.asarray(np.frompyfunc(lambda a: not equal(a, 0), 1, 1)(cells), np.bool_)
    if is_integer(to):
        return np.asarray(np.frompyfunc(lambda a: _wrapped(a, to), 1, 1)(cells), object)
    if to not in FLOATS:
        raise NotKnown(f"a cast to {to} is not worked out")
    return np.array([whole(cell) for cell in cells.reshape(-1)], dtype).reshape(cells.shape).astype(to)


def _wrapped(a: Dim, to: str) -> Dim:
    kind = np.iinfo(to)
    if kind.min <= bounds_of(a).low and bounds_of(a).high <= kind.max:
        return a
    return (whole(a) - int(kind.min)) % (1 << kind.bits) + int(kind.min)


def count_up(call: Call, operands: Operands, results: list[TensorSize]) -> list[Cells]:
    """Return the numbers from a start by a step."""
    start, _, delta = (cells_of(operands, k).reshape(-1)[0] for k in range(3))
    if call.dtype(0) in FLOATS:
        raise NotKnown("the elements of a range of floats depend on how they are added")
    return [array([start + delta * k for k in range(whole(results[0].shape[0]))])]


def reduce_by(function: Function, of_nothing: int | None = None, of_floats: Function | None = None) -> Evaluation:
    """Make the evaluation of a reduction over axes.

    Parameters
    ----------
    function
        The function of two integers.
    of_nothing
        The result over no elements, or None if it is not defined.
    of_floats
        The function of two floats if their order makes no difference, else None.
    """

    def run(call: Call, operands: Operands, results: list[TensorSize]) -> list[Cells]:
        data, chosen = cells_of(operands), function
        axes, _ = reduced_axes(call)
        if data.dtype != object:
            if of_floats is None or data.dtype.kind != "f" or np.isnan(data).any():
                raise NotKnown("a reduction that depends on the order, or of no numbers, is not worked out")
            chosen = of_floats
        if 0 in (data.shape[axis] for axis in axes) and of_nothing is None:
            raise NotKnown("nothing has no largest number")
        folding = np.frompyfunc(chosen, 2, 1)
        for axis in sorted(axes, reverse=True):
            data = np.asarray(folding.reduce(data, axis=axis, initial=of_nothing) if of_nothing is not None
                              else folding.reduce(data, axis=axis), object)  # fmt: skip
        found = np.asarray(data, object if is_integer(call.dtype(0)) else call.dtype(0))
        return [found.reshape(close_shape(results[0].shape))]

    return run


reduce_to_largest = reduce_by(maximum_of, of_floats=max)
reduce_to_smallest = reduce_by(minimum_of, of_floats=min)
reduce_to_product = reduce_by(lambda a, b: a * b, of_nothing=1)
reduce_to_sum = reduce_by(lambda a, b: a + b, of_nothing=0)


def add_along(call: Call, operands: Operands, results: list[TensorSize]) -> list[Cells]:
    """Return the sums along an axis, up to each element."""
    data, axis = cells_of(operands), whole(cells_of(operands, 1).reshape(-1)[0])
    if data.dtype != object:
        raise NotKnown("sums of floats are not worked out")
    if call.attribute("reverse", 0):
        data = np.flip(data, axis)
    found = np.cumsum(data, axis)
    if call.attribute("exclusive", 0):
        found = found - data
    return [np.flip(found, axis) if call.attribute("reverse", 0) else found]
