"""Compute sizes for operators that make numbers: constants, ranges, random numbers, windows, Shape and Size."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np

from proofs.readers.operators.sizes.call import (
    Call,
    Cells,
    Misfit,
    NotKnown,
    Operands,
    TensorSize,
    array,
    axis_of,
    element_type,
    format_shape,
    never_below,
    product,
)
from proofs.readers.operators.sizes.stored import constant, of_numpy, size_of, value_of
from tmmu.core.dims.expressions import Dim, bounds_of, close_shape
from tmmu.core.dims.operations import divide_up, maximum_of, quotient


def constant_rule(call: Call) -> list[TensorSize]:
    """Return the size of Constant, only from its attribute."""
    return [constant(call.node)[0]]


def constant_of_shape(call: Call) -> list[TensorSize]:
    """Return the size of ConstantOfShape: the listed shape, and the type of the one element, by default float32."""
    value, shape = call.attribute("value"), tuple(call.numbers(0))
    never_below(0, shape, f"a shape of {format_shape(shape)}")
    if value is None:
        return [TensorSize(shape, "float32")]
    one = size_of(value)
    if one.shape not in ((), (1,)):
        raise Misfit(f"a value of {one}")
    return [TensorSize(shape, one.dtype)]


def number_range(call: Call) -> list[TensorSize]:
    """Return the size of Range: max(ceil((limit - start) / delta), 0) elements.

    Integers are exact; for floats see `steps`.
    """
    dtype = call.one_type(0, 1, 2)
    cells: list[Any] = []
    for k in range(3):
        if call.shape(k) not in ((), (1,)):  # runtimes take a list of one as well
            raise Misfit(f"operand {k} is {call.size(k)} and must be a scalar")
        found = call.value(k)
        if found is None:
            raise NotKnown(f"the value of operand {k} is not known")
        cells.append(found.cells.reshape(-1)[0])
    if dtype.startswith("float"):
        return [TensorSize((steps(*cells),), dtype)]
    start, limit, delta = cells
    low, high = bounds_of(delta)
    if low <= 0 <= high:
        if low == high:
            raise Misfit("a step of 0")
        raise NotKnown("the sign of the step depends on the shape")
    count: Dim = divide_up(limit - start, delta) if low > 0 else divide_up(start - limit, -delta)
    return [TensorSize((maximum_of(0, count),), dtype)]


def steps(start: Any, limit: Any, delta: Any) -> int:
    """Return the number of elements of a Range over floats, unless its precision decides it.

    The text gives a formula over numbers and no precision. It is computed exactly, in the operands' own type and in
    double precision, as runtimes do. If these differ, no size is reliable.
    """
    from fractions import Fraction  # it takes as long to import as all rules of sizes

    exact = [Fraction(float(each)) if np.isfinite(each) else None for each in (start, limit, delta)]
    if None in exact or not exact[2]:
        raise Misfit(f"from {start} to {limit} by {delta}")
    first, last, step = (each or Fraction(0) for each in exact)
    with np.errstate(all="ignore"):
        own = (limit - start) / delta
        mixed = float(limit - start) / float(delta)
        double = (float(limit) - float(start)) / float(delta)
    if not all(np.isfinite(each) for each in (own, mixed, double)):
        raise Misfit(f"from {start} to {limit} by {delta} overflows")
    found = {max(0, ceil(each)) for each in ((last - first) / step, float(own), mixed, double)}
    if len(found) > 1:
        raise Misfit(f"from {start} to {limit} by {delta} there are {' or '.join(map(str, sorted(found)))} elements, "
                     "depending on how they are rounded")  # fmt: skip
    return found.pop()


def random(call: Call) -> list[TensorSize]:
    """Return the size of RandomNormal and RandomUniform: shape and type are attributes."""
    shape = call.attribute("shape")
    if shape is None or min(shape, default=0) < 0:
        raise Misfit(f"a shape of {shape}")
    return [TensorSize(tuple(shape), element_type(call.attribute("dtype", 1)))]


def drawn(call: Call) -> list[TensorSize]:
    """Return the size of Multinomial: the requested number of samples in each row."""
    return [
        TensorSize((call.shape(0, 2)[0], call.attribute("sample_size", 1)), element_type(call.attribute("dtype", 6)))
    ]


def fill(call: Call, operands: Operands, results: list[TensorSize]) -> list[Cells]:
    """Fill the result of a ConstantOfShape with its one element, which is 0 by default."""
    tensor = call.attribute("value")
    one = of_numpy(np.zeros((), np.float32), "float32") if tensor is None else value_of(tensor)
    if one is None:
        raise NotKnown("its element is not known")
    return [np.broadcast_to(one.cells.reshape(-1)[:1], close_shape(results[0].shape))]


def read_constant(call: Call, operands: Operands, results: list[TensorSize]) -> list[Cells]:
    """Return the elements that the attribute of a Constant has."""
    value = constant(call.node)[1]
    if value is None:
        raise NotKnown("its elements are not in the file")
    return [value.cells]


def shape_of(call: Call) -> list[TensorSize]:
    """Return the size of Shape: a number for each dimension between `start` and `end`, clamped."""
    return [TensorSize((len(shape_part(call)),), "int64")]


def shape_part(call: Call) -> tuple[Dim, ...]:
    """Return the dimensions that a Shape gives."""
    shape = call.shape(0)
    if call.since < 15:
        return shape
    return shape[call.attribute("start", 0) : call.attribute("end")]


def list_dimensions(call: Call, operands: Operands, results: list[TensorSize]) -> list[Cells]:
    """Return the dimensions that a Shape gives."""
    return [array(shape_part(call))]


def count_elements(call: Call, operands: Operands, results: list[TensorSize]) -> list[Cells]:
    """Return the number of elements of the operand."""
    found = np.empty((), object)
    found[()] = product(call.shape(0))
    return [found]


def count_of(call: Call) -> list[TensorSize]:
    """Return the size of Size: one number."""
    call.size(0)
    return [TensorSize((), "int64")]


def window(call: Call) -> list[TensorSize]:
    """Return the size of BlackmanWindow, HammingWindow and HannWindow: the requested length."""
    length = call.number(0)
    never_below(0, [length], f"a window of {length}")
    return [TensorSize((length,), element_type(call.attribute("output_datatype", 1)))]


def mel_weights(call: Call) -> list[TensorSize]:
    """Return the size of MelWeightMatrix: floor(length / 2) + 1 rows, a column for each bin."""
    bins, length = call.number(0), call.number(1)
    return [TensorSize((quotient(length, 2) + 1, bins), element_type(call.attribute("output_datatype", 1)))]


def dft(call: Call) -> list[TensorSize]:
    """Return the size of DFT: along an axis other than the last, of the stated length; half of it for a real signal."""
    shape = list(call.shape(0))
    if len(shape) < 2 or shape[-1] not in (1, 2):
        raise Misfit(f"{format_shape(tuple(shape))} is neither real nor complex")
    stated: Dim = call.attribute("axis", 1) if call.since < 20 else call.number(2) if call.has(2) else -2
    if not isinstance(stated, int):
        raise NotKnown("the axis is not one number")
    axis = axis_of(stated, len(shape))
    if axis == len(shape) - 1:
        raise Misfit("the last axis holds real and imaginary parts")
    inverse, onesided = call.attribute("inverse", 0), call.attribute("onesided", 0)
    if onesided and inverse:
        shape[axis] = call.number(1) if call.has(1) else (shape[axis] - 1) * 2
        return [TensorSize((*shape[:-1], 1), call.dtype(0))]
    shape[axis] = call.number(1) if call.has(1) else shape[axis]
    if onesided:
        shape[axis] = quotient(shape[axis], 2) + 1
    return [TensorSize((*shape[:-1], 2), call.dtype(0))]


def stft(call: Call) -> list[TensorSize]:
    """Return the size of STFT: floor((length - frame) / step) + 1 frames, with half of the bins for a real signal."""
    batch, length, parts = call.shape(0, 3)
    step = call.number(1)
    frame = call.number(3) if call.has(3) else call.shape(2, 1)[0] if call.has(2) else length
    if call.has(2) and call.shape(2, 1)[0] != frame:
        raise Misfit(f"a window of {call.shape(2)[0]} for frames of {frame}")
    if parts not in (1, 2) or bounds_of(length - frame).high < 0 or bounds_of(step).high < 1:
        raise Misfit(f"frames of {frame} by {step} of {format_shape(call.shape(0))}")
    if call.attribute("onesided", 1) and parts == 2:
        raise Misfit("the transform of a complex signal has two sides")
    bins = quotient(frame, 2) + 1 if call.attribute("onesided", 1) else frame
    return [TensorSize((batch, quotient(length - frame, step) + 1, bins, 2), call.dtype(0))]
