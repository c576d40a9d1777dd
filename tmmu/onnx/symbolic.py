"""Arithmetic on numbers that are expressions over the dimensions of the envelope, for the table of operators.

Rules raise `Undecided` if the result depends on a comparison, or on the sign of a division, that the envelope does not
decide. spec: R6.1, T10.3
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx

from tmmu.core.dims.expressions import Dim, bounds_of
from tmmu.core.dims.operations import maximum_of, minimum_of, quotient
from tmmu.onnx.sizes import Array

SymbolicRule = Callable[[onnx.NodeProto, Sequence[Array | None]], Array]
"""The result of a node from its operands, which are arrays of numbers and expressions, or None if absent."""


class Undecided(Exception):
    """A question that has different answers for different shapes of the envelope."""


def attributes(node: onnx.NodeProto) -> dict[str, object]:
    """Return the values of a node's attributes by name."""
    return {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}


def _less(a: Dim, b: Dim) -> bool:
    difference = bounds_of(a - b)
    if difference.high < 0:
        return True
    if difference.low >= 0:
        return False
    raise Undecided


def _equal(a: Dim, b: Dim) -> bool:
    difference = bounds_of(a - b)
    if difference == (0, 0):
        return True
    if difference.low > 0 or difference.high < 0:
        return False
    raise Undecided


def _truncate(a: Dim, b: Dim) -> Dim:
    """ONNX divides integers towards zero; that is rounding down where neither is negative."""
    if bounds_of(a).low < 0:
        raise Undecided
    return quotient(a, b)


def _take_absolute(a: Dim) -> Dim:
    if bounds_of(a).low >= 0:
        return a
    if bounds_of(a).high <= 0:
        return -a
    raise Undecided


def _over_elements(function: Callable[..., object]) -> SymbolicRule:
    """Make the rule of an elementwise operator that takes two or more operands one after the other."""
    over = np.frompyfunc(function, 2, 1)

    def run(node: onnx.NodeProto, operands: Sequence[Array | None]) -> Array:
        if attributes(node).get("fmod"):
            raise Undecided
        result, *others = _list_given(operands)
        for other in others:
            result = np.asarray(over(result, other), object)
        return result

    return run


def _over_each(function: Callable[[Dim], object]) -> SymbolicRule:
    """Make the rule of an elementwise operator with one operand."""
    over = np.frompyfunc(function, 1, 1)
    return lambda node, operands: np.asarray(over(_list_given(operands)[0]), object)


def _list_given(operands: Sequence[Array | None]) -> list[Array]:
    """Return the operands that are present as arrays of objects."""
    return [operand.astype(object) for operand in operands if operand is not None]


def cast(node: onnx.NodeProto, operands: Sequence[Array | None]) -> Array:
    """Cast to a truth value, or keep the number. The caller checks that the type holds the number."""
    data = _list_given(operands)[0]
    if attributes(node).get("to") == onnx.TensorProto.BOOL:
        return np.asarray(np.frompyfunc(lambda a: not _equal(a, 0), 1, 1)(data), object)
    return data


take_absolute = _over_each(_take_absolute)
negate = _over_each(lambda a: -a)
add = _over_elements(lambda a, b: a + b)
subtract = _over_elements(lambda a, b: a - b)
multiply = _over_elements(lambda a, b: a * b)
divide = _over_elements(_truncate)
take_remainder = _over_elements(lambda a, b: a - quotient(a, b) * b)
find_larger = _over_elements(maximum_of)
find_smaller = _over_elements(minimum_of)
compare_equal = _over_elements(_equal)
compare_less = _over_elements(_less)
compare_greater = _over_elements(lambda a, b: _less(b, a))
compare_less_or_equal = _over_elements(lambda a, b: not _less(b, a))
compare_greater_or_equal = _over_elements(lambda a, b: not _less(a, b))


def _over_axes(function: Callable[[Dim, Dim], Dim]) -> SymbolicRule:
    """Make the rule of a reduction over the stated axes, or over all axes."""
    over = np.frompyfunc(function, 2, 1)

    def run(node: onnx.NodeProto, operands: Sequence[Array | None]) -> Array:
        stated, data = attributes(node), operands[0]
        listed = operands[1].tolist() if len(operands) > 1 and operands[1] is not None else stated.get("axes")
        if data is None or (listed is not None and not isinstance(listed, list)):
            raise Undecided
        if not listed and stated.get("noop_with_empty_axes"):
            return data
        axes = sorted({axis % data.ndim for axis in listed}) if listed else list(range(data.ndim))
        result = data
        for axis in reversed(axes):
            if not result.shape[axis]:
                raise Undecided
            result = np.asarray(over.reduce(result, axis=axis), object)
        if stated.get("keepdims", 1):
            for axis in axes:
                result = np.expand_dims(result, axis)
        return result

    return run


reduce_to_largest = _over_axes(maximum_of)
reduce_to_smallest = _over_axes(minimum_of)
reduce_to_product = _over_axes(lambda a, b: a * b)
reduce_to_sum = _over_axes(lambda a, b: a + b)
