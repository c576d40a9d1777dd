"""The closed list of folded operators on numbers that are expressions over the dimensions of the envelope.

An operator that only moves numbers is run by ONNX's own evaluator on numbers that stand for them; arithmetic is that of
`tmmu.core.dims`. What depends on a comparison that the envelope does not decide, on a division whose sign it does not
decide, or on a number that may leave its type, is not known. spec: R6.1, T10.3
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx

from tmmu.core.dims.expressions import Dim, Unwieldy, limits
from tmmu.core.dims.operations import larger, quotient, smaller
from tmmu.onnx.folding import compute, settled
from tmmu.onnx.sizes import Array

MOVED: dict[str, tuple[int, ...] | None] = {
    "Concat": None, "Expand": (0,), "Flatten": (0,), "Gather": (0,), "GatherElements": (0,), "GatherND": (0,),
    "Identity": (0,), "Reshape": (0,), "ScatterElements": (0, 2), "ScatterND": (0, 2), "Slice": (0,), "Split": (0,),
    "Squeeze": (0,), "Tile": (0,), "Transpose": (0,), "Unsqueeze": (0,), "Where": (1, 2),
}  # fmt: skip
"""Operators that move numbers without looking at them, and the operands whose numbers they move (None: all)."""


class Undecided(Exception):
    """A question that has different answers for different shapes of the envelope."""


def calculate(
    node: onnx.NodeProto, operands: Sequence[Array | None], types: Sequence[str], opset: int
) -> list[Array] | None:
    """The results of a node of the closed list some of whose operands hold expressions; None where they are not known.

    Parameters
    ----------
    node, operands, opset
        As for `folding.compute`; an array of objects holds numbers and expressions.
    types
        The element types of the results.
    """
    try:
        if node.op_type in MOVED:
            results = _moved(node, operands, opset)
        elif node.op_type in _ELEMENTWISE:
            given = [operand.astype(object) for operand in operands if operand is not None]
            results = [_ELEMENTWISE[node.op_type](_attributes(node), given)]
        elif node.op_type in _REDUCED:
            results = [_reduced(node, operands)]
        else:
            return None
        if results is None or not all(_within(cells, dtype) for cells, dtype in zip(results, types, strict=True)):
            return None
        return [settled(cells, dtype) for cells, dtype in zip(results, types, strict=True)]
    except (Undecided, Unwieldy, ValueError, IndexError, TypeError, OverflowError):
        return None


def _moved(node: onnx.NodeProto, operands: Sequence[Array | None], opset: int) -> list[Array] | None:
    """Run the operator on the places of the numbers instead of the numbers."""
    positions = MOVED[node.op_type]
    if _attributes(node).get("reduction", b"none") != b"none":
        return None
    cells: list[object] = []
    places: list[Array | None] = []
    for k, operand in enumerate(operands):
        if operand is None or (positions is not None and k not in positions):
            places.append(operand)
            continue
        places.append(np.arange(len(cells), len(cells) + operand.size, dtype=np.int64).reshape(operand.shape))
        cells.extend(operand.astype(object).flat)
    if any(operand is not None and operand.dtype == object for operand in places):
        return None
    found = compute(node, places, opset)
    table = np.empty(len(cells), object)
    table[:] = cells
    return None if found is None else [np.asarray(table[result], object) for result in found]


def _attributes(node: onnx.NodeProto) -> dict[str, object]:
    return {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}


def _within(cells: Array, dtype: str) -> bool:
    """Whether every number is one of its type for every shape: no wrap-around changes it."""
    if dtype == "bool":
        return True
    if not dtype.lstrip("u").startswith("int"):
        return False
    kind = np.iinfo(dtype)
    dims: list[Dim] = list(cells.astype(object).flat)
    return all(kind.min <= limits(dim).low and limits(dim).high <= kind.max for dim in dims)


def _less(a: Dim, b: Dim) -> bool:
    difference = limits(a - b)
    if difference.high < 0:
        return True
    if difference.low >= 0:
        return False
    raise Undecided


def _equal(a: Dim, b: Dim) -> bool:
    difference = limits(a - b)
    if difference == (0, 0):
        return True
    if difference.low > 0 or difference.high < 0:
        return False
    raise Undecided


def _truncated(a: Dim, b: Dim) -> Dim:
    """ONNX divides integers towards zero; that is rounding down where neither is negative."""
    if limits(a).low < 0:
        raise Undecided
    return quotient(a, b)


def _absolute(a: Dim) -> Dim:
    if limits(a).low >= 0:
        return a
    if limits(a).high <= 0:
        return -a
    raise Undecided


def _of_all(function: Callable[..., object], count: int) -> Callable[[dict[str, object], list[Array]], Array]:
    """An elementwise operator, for as many operands as there are where `count` is 2 (Max, Min, Sum) or exactly one."""
    over = np.frompyfunc(function, count, 1)

    def run(attributes: dict[str, object], given: list[Array]) -> Array:
        if attributes.get("fmod"):
            raise Undecided
        if count == 1:
            return np.asarray(over(given[0]), object)
        result = given[0]
        for other in given[1:]:
            result = np.asarray(over(result, other), object)
        return result

    return run


def _cast(attributes: dict[str, object], given: list[Array]) -> Array:
    if attributes.get("to") == onnx.TensorProto.BOOL:
        return np.asarray(np.frompyfunc(lambda a: not _equal(a, 0), 1, 1)(given[0]), object)
    return given[0]


_ELEMENTWISE: dict[str, Callable[[dict[str, object], list[Array]], Array]] = {
    "Abs": _of_all(_absolute, 1),
    "Neg": _of_all(lambda a: -a, 1),
    "Add": _of_all(lambda a, b: a + b, 2),
    "Sum": _of_all(lambda a, b: a + b, 2),
    "Sub": _of_all(lambda a, b: a - b, 2),
    "Mul": _of_all(lambda a, b: a * b, 2),
    "Div": _of_all(_truncated, 2),
    "Mod": _of_all(lambda a, b: a - quotient(a, b) * b, 2),
    "Max": _of_all(larger, 2),
    "Min": _of_all(smaller, 2),
    "Equal": _of_all(_equal, 2),
    "Less": _of_all(_less, 2),
    "Greater": _of_all(lambda a, b: _less(b, a), 2),
    "LessOrEqual": _of_all(lambda a, b: not _less(b, a), 2),
    "GreaterOrEqual": _of_all(lambda a, b: not _less(a, b), 2),
    "Cast": _cast,
}

_REDUCED: dict[str, Callable[[Dim, Dim], Dim]] = {
    "ReduceMax": larger,
    "ReduceMin": smaller,
    "ReduceProd": lambda a, b: a * b,
    "ReduceSum": lambda a, b: a + b,
}


def _reduced(node: onnx.NodeProto, operands: Sequence[Array | None]) -> Array:
    """A reduction over the axes that are stated, or over all."""
    attributes, data = _attributes(node), operands[0]
    listed = operands[1].tolist() if len(operands) > 1 and operands[1] is not None else attributes.get("axes")
    if data is None or (listed is not None and not isinstance(listed, list)):
        raise Undecided
    if not listed and attributes.get("noop_with_empty_axes"):
        return data
    axes = sorted({axis % data.ndim for axis in listed}) if listed else list(range(data.ndim))
    over, result = np.frompyfunc(_REDUCED[node.op_type], 2, 1), data
    for axis in reversed(axes):
        if not result.shape[axis]:
            raise Undecided
        result = np.asarray(over.reduce(result, axis=axis), object)
    if attributes.get("keepdims", 1):
        for axis in axes:
            result = np.expand_dims(result, axis)
    return result
