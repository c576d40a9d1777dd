"""Evaluation of operators that calculate: exactly on integers and expressions, as IEEE 754 rounds on floats.

Integers are divided towards zero. What may have a value for some shapes of the envelope only, or one that depends on
them where a decision is asked for, is not known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proofs.readers.models.sizes.call import NUMBERS, Call, NotKnown, TensorSize, Value, array, whole
from proofs.readers.models.sizes.picking import cells_of, integers
from proofs.readers.models.sizes.reductions import reduced_axes
from tmmu.core.dims.expressions import Dim, closed, limits
from tmmu.core.dims.operations import larger, quotient, smaller

Cells = NDArray[Any]
Operands = list[Value | None]
FLOATS = ("float16", "float32", "float64")


def is_integer(dtype: str) -> bool:
    """Whether the type is one of whole numbers that NumPy has."""
    return dtype.lstrip("u") in ("int8", "int16", "int32", "int64")


def truncated(a: Dim, b: Dim) -> Dim:
    """a / b towards zero."""
    if isinstance(a, int) and isinstance(b, int):
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    if limits(a).low < 0 or limits(b).low < 1:
        raise NotKnown("the sign of a quotient depends on the shape")
    return quotient(a, b)


def less(a: Dim, b: Dim) -> bool:
    """Whether a < b for every shape; NotKnown where shapes differ in it."""
    difference = limits(a - b)
    if difference.high < 0 or difference.low >= 0:
        return difference.high < 0
    raise NotKnown("a comparison depends on the shape")


def equal(a: Dim, b: Dim) -> bool:
    """Whether a == b for every shape; NotKnown where shapes differ in it."""
    difference = limits(a - b)
    if difference == (0, 0) or difference.low > 0 or difference.high < 0:
        return difference == (0, 0)
    raise NotKnown("an equality depends on the shape")


def _modulo(a: Dim, b: Dim) -> Dim:
    """With the sign of the divisor."""
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


_INTEGER: dict[str, Callable[..., Any]] = {
    "Add": lambda a, b: a + b, "Sum": lambda a, b: a + b, "Sub": lambda a, b: a - b, "Mul": lambda a, b: a * b,
    "Div": truncated, "Mod": _modulo, "Max": larger, "Min": smaller, "Equal": equal, "Less": less,
    "Greater": lambda a, b: less(b, a), "LessOrEqual": lambda a, b: not less(b, a), "Pow": _power,
    "GreaterOrEqual": lambda a, b: not less(a, b), "BitwiseAnd": lambda a, b: whole(a) & whole(b),
    "BitwiseOr": lambda a, b: whole(a) | whole(b), "BitwiseXor": lambda a, b: whole(a) ^ whole(b),
    "Abs": _absolute, "Neg": lambda a: -a, "Sign": _sign,
}  # fmt: skip
_FLOAT: dict[str, Callable[..., Any]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Max": np.maximum, "Min": np.minimum,
    "Equal": np.equal, "Less": np.less, "Greater": np.greater, "LessOrEqual": np.less_equal,
    "GreaterOrEqual": np.greater_equal, "Abs": np.abs, "Neg": np.negative, "Sign": np.sign, "Ceil": np.ceil,
    "Floor": np.floor, "Round": np.rint, "Sqrt": np.sqrt,
}  # fmt: skip
_BOOL: dict[str, Callable[..., Any]] = {
    "And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor, "Not": np.logical_not, "Equal": np.equal,
}  # fmt: skip
_FOLDS = ("Max", "Min", "Sum")


def _elementwise(call: Call, operands: Operands, results: list[TensorSize]) -> list[Cells]:
    """One function at each index, operands broadcast; Max, Min and Sum take them one after the other."""
    op, cells = call.node.op_type, [cells_of(operands, k) for k in range(len(operands))]
    kind = call.dtype(0)
    if op == "Sum" and kind in FLOATS and len(cells) > 2:
        raise NotKnown("a sum of floats depends on its order")
    if op == "Mod" and call.attribute("fmod", 0):
        if kind in FLOATS:
            return [np.fmod(*cells)]
        return [np.frompyfunc(lambda a, b: a - truncated(a, b) * b, 2, 1)(*cells)]
    if kind in FLOATS:
        if op in ("Max", "Min") and any(np.isnan(each).any() for each in cells):
            raise NotKnown("the text does not say what NaN is compared to")
        function: Any = np.add if op == "Sum" else _FLOAT.get(op)
    elif kind == "bool":
        function = _BOOL.get(op)
    else:
        count = 1 if len(cells) == 1 and op not in _FOLDS else 2
        function = np.frompyfunc(_INTEGER[op], count, 1) if op in _INTEGER and is_integer(kind) else None
    if function is None or any(each.dtype.kind != cells[0].dtype.kind for each in cells):
        raise NotKnown(f"{op} of {kind} is not worked out")
    if op not in _FOLDS:
        return [function(*cells)]
    found = cells[0]
    for other in cells[1:]:
        found = function(found, other)
    return [found]


def _shift(call: Call, operands: Operands, results: list[TensorSize]) -> list[Cells]:
    left, bits = call.attribute("direction") == "LEFT", np.iinfo(call.dtype(0)).bits
    a, by = integers(cells_of(operands)), integers(cells_of(operands, 1))
    if call.dtype(0).startswith("int") or (by.size and (by.min() < 0 or by.max() >= bits)):
        raise NotKnown("a shift of signed numbers, or by more bits than there are")
    return [np.frompyfunc(lambda x, y: _shifted(int(x), int(y), left, bits), 2, 1)(a.astype(object), by.astype(object))]


def _inverted(call: Call, operands: Operands, results: list[TensorSize]) -> list[Cells]:
    kind = np.iinfo(call.dtype(0))
    flip = (lambda a: kind.max - whole(a)) if kind.min == 0 else (lambda a: ~whole(a))
    return [np.frompyfunc(flip, 1, 1)(cells_of(operands))]


def _clip(call: Call, operands: Operands, results: list[TensorSize]) -> list[Cells]:
    """Clip: at least the first bound, then at most the second."""
    found, is_float = cells_of(operands), call.dtype(0) in FLOATS
    bounds = []
    for k, name in ((1, "min"), (2, "max")):
        stated = call.attribute(name) if call.since < 11 else None
        bounds.append(cells_of(operands, k).reshape(-1)[0] if call.has(k) else stated)
    if call.since < 11 and any(bound is not None for bound in bounds):
        raise NotKnown("bounds of an older version are not worked out")
    for bound, floats, numbers in zip(bounds, (np.maximum, np.minimum), (larger, smaller), strict=True):
        if bound is not None:
            found = floats(found, bound) if is_float else np.frompyfunc(numbers, 2, 1)(found, bound)
    if is_float and np.isnan(found).any():
        raise NotKnown("the text does not say what NaN is compared to")
    return [found]


def _cast(call: Call, operands: Operands, results: list[TensorSize]) -> list[Cells]:
    """Cast, CastLike: floats are cut to integers, integers wrap around, whatever is not zero is true."""
    cells, to = cells_of(operands), results[0].dtype
    if call.node.op_type == "Cast" and NUMBERS.get(call.attribute("to")) != to:
        raise NotKnown("the type is not the attribute's")
    if cells.dtype == object:
        return [_of_integers(cells, call.dtype(0), to)]
    if is_integer(to):
        if cells.dtype.kind == "f" and not np.isfinite(cells).all():
            raise NotKnown("a float that is no number becomes no integer")
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
    if kind.min <= limits(a).low and limits(a).high <= kind.max:
        return a
    return (whole(a) - int(kind.min)) % (1 << kind.bits) + int(kind.min)


def _range(call: Call, operands: Operands, results: list[TensorSize]) -> list[Cells]:
    start, _, delta = (cells_of(operands, k).reshape(-1)[0] for k in range(3))
    if call.dtype(0) in FLOATS:
        raise NotKnown("the elements of a range of floats depend on how they are added")
    return [array([start + delta * k for k in range(whole(results[0].shape[0]))])]


_REDUCED: dict[str, tuple[Callable[[Any, Any], Any], int | None]] = {
    "ReduceMax": (larger, None), "ReduceMin": (smaller, None), "ReduceProd": (lambda a, b: a * b, 1),
    "ReduceSum": (lambda a, b: a + b, 0),
}  # fmt: skip


def _reduce(call: Call, operands: Operands, results: list[TensorSize]) -> list[Cells]:
    data = cells_of(operands)
    axes, _ = reduced_axes(call)
    function, nothing = _REDUCED[call.node.op_type]
    if data.dtype != object:
        if nothing is not None or data.dtype.kind != "f" or np.isnan(data).any():
            raise NotKnown("a reduction that depends on the order, or of no numbers, is not worked out")
        function = max if call.node.op_type == "ReduceMax" else min
    if 0 in (data.shape[axis] for axis in axes) and nothing is None:
        raise NotKnown("nothing has no largest number")
    fold = np.frompyfunc(function, 2, 1)
    for axis in sorted(axes, reverse=True):
        data = np.asarray(fold.reduce(data, axis=axis, initial=nothing) if nothing is not None
                          else fold.reduce(data, axis=axis), object)  # fmt: skip
    found = np.asarray(data, object if is_integer(call.dtype(0)) else call.dtype(0))
    return [found.reshape(closed(results[0].shape))]


def _cumulated(call: Call, operands: Operands, results: list[TensorSize]) -> list[Cells]:
    data, axis = cells_of(operands), whole(cells_of(operands, 1).reshape(-1)[0])
    if data.dtype != object:
        raise NotKnown("sums of floats are not worked out")
    if call.attribute("reverse", 0):
        data = np.flip(data, axis)
    found = np.cumsum(data, axis)
    if call.attribute("exclusive", 0):
        found = found - data
    return [np.flip(found, axis) if call.attribute("reverse", 0) else found]


EVALUATED = {
    **dict.fromkeys({*_INTEGER, *_FLOAT, *_BOOL}, _elementwise),
    **dict.fromkeys(_REDUCED, _reduce),
    "BitShift": _shift, "BitwiseNot": _inverted, "Clip": _clip, "Cast": _cast, "CastLike": _cast, "Range": _range,
    "CumSum": _cumulated,
}  # fmt: skip
