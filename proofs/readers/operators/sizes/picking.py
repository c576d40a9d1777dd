"""Evaluate operators that move elements, or pick them by position."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from proofs.readers.operators.sizes.call import (
    Call,
    Cells,
    Misfit,
    NotKnown,
    Operands,
    TensorSize,
    axis_of,
    whole,
)
from tmmu.core.dims.expressions import close_shape


def cells_of(operands: Operands, k: int = 0) -> Cells:
    """Return the elements of an operand that must be known."""
    value = operands[k] if k < len(operands) else None
    if value is None:
        raise NotKnown(f"the value of operand {k} is not known")
    return value.cells


def integers(cells: Cells) -> NDArray[np.int64]:
    """Return numbers that do not depend on the envelope, as NumPy indices."""
    return np.array([whole(cell) for cell in cells.reshape(-1)], np.int64).reshape(cells.shape)


def _indices(cells: Cells, length: int) -> NDArray[np.int64]:
    """Return indices of an axis, negative ones from the back."""
    found = integers(cells)
    if found.size and not (-length <= found.min() and found.max() < length):
        raise Misfit(f"an index is outside of {length}")
    return np.where(found < 0, found + length, found)


def reshape(call: Call, operands: Operands, results: list[TensorSize]) -> list[Cells]:
    """Return the elements of the operand in the shape of the result."""
    return [cells_of(operands).reshape(close_shape(results[0].shape))]


def transpose(call: Call, operands: Operands, results: list[TensorSize]) -> list[Cells]:
    """Return the elements with their axes permuted."""
    return [np.transpose(cells_of(operands), call.attribute("perm"))]


def join(call: Call, operands: Operands, results: list[TensorSize]) -> list[Cells]:
    """Return the operands joined along an axis."""
    return [np.concatenate([cells_of(operands, k) for k in range(len(operands))], call.attribute("axis"))]


def cut(call: Call, operands: Operands, results: list[TensorSize]) -> list[Cells]:
    """Cut the operand along an axis. The lengths of the parts are those of the results."""
    data = cells_of(operands)
    axis = axis_of(call.attribute("axis", 0), data.ndim)
    ends = list(accumulate(whole(size.shape[axis]) for size in results))
    return np.split(data, ends[:-1], axis)


def cut_by_steps(call: Call, operands: Operands, results: list[TensorSize]) -> list[Cells]:
    """Return the elements between starts and ends, by steps."""
    data = cells_of(operands)
    if call.since < 10:
        starts, ends = call.attribute("starts"), call.attribute("ends")
        axes, steps = call.attribute("axes", range(len(starts))), [1] * len(starts)
    else:
        starts, ends = (integers(cells_of(operands, k)).tolist() for k in (1, 2))
        axes = integers(cells_of(operands, 3)).tolist() if call.has(3) else range(len(starts))
        steps = integers(cells_of(operands, 4)).tolist() if call.has(4) else [1] * len(starts)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        axis = axis_of(axis, data.ndim)
        data = np.take(data, np.array(slice_indices(data.shape[axis], start, end, step), np.int64), axis)
    return [data]


def slice_indices(length: int, start: int, end: int, step: int) -> range:
    """Return the indices that a slice takes, by the text: ends from the back, then clamped by the sign of the step."""
    start, end = (place + length if place < 0 else place for place in (start, end))
    if step > 0:
        return range(min(max(start, 0), length), min(max(end, 0), length), step)
    return range(min(max(start, 0), length - 1), min(max(end, -1), length - 1), step)


def gather(call: Call, operands: Operands, results: list[TensorSize]) -> list[Cells]:
    """Return the slices of an axis that the indices name."""
    data = cells_of(operands)
    axis = axis_of(call.attribute("axis", 0), data.ndim)
    return [np.take(data, _indices(cells_of(operands, 1), data.shape[axis]), axis)]


def gather_elements(call: Call, operands: Operands, results: list[TensorSize]) -> list[Cells]:
    """Return for each index the element that it names along the axis."""
    return [cells_of(operands)[_grid(call, cells_of(operands), cells_of(operands, 1))]]


def _grid(call: Call, data: Cells, indices: Cells) -> tuple[Cells, ...]:
    """Return the place that each index names: the index along the axis, its own position along the others."""
    axis = axis_of(call.attribute("axis", 0), data.ndim)
    places: list[Cells] = list(np.indices(indices.shape))
    places[axis] = _indices(indices, data.shape[axis])
    return tuple(places)


def gather_places(call: Call, operands: Operands, results: list[TensorSize]) -> list[Cells]:
    """Return the elements or slices that lists of indices name."""
    data, indices, batch = cells_of(operands), integers(cells_of(operands, 1)), call.attribute("batch_dims", 0)
    found = np.empty(close_shape(results[0].shape), data.dtype)
    for at in np.ndindex(indices.shape[:-1]):
        found[at] = data[at[:batch]][_place(indices[at], data.shape[batch:])]
    return [found]


def _place(index: NDArray[np.int64], shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(_indices(np.array(each, object), dim)) for each, dim in zip(index, shape, strict=False))


def scatter_elements(call: Call, operands: Operands, results: list[TensorSize]) -> list[Cells]:
    """Return the operand with the updates at the elements that the indices name."""
    data, indices, updates = (cells_of(operands, k) for k in range(3))
    _replaces(call)
    found, places = data.copy(), _grid(call, data, indices)
    named = list(zip(*(place.reshape(-1).tolist() for place in places), strict=True))
    if len(set(named)) < len(named):
        raise NotKnown("one element is written twice, in no stated order")
    found[places] = updates
    return [found]


def scatter_places(call: Call, operands: Operands, results: list[TensorSize]) -> list[Cells]:
    """Return the operand with the updates at the places that lists of indices name."""
    data, updates = cells_of(operands).copy(), cells_of(operands, 2)
    indices = integers(cells_of(operands, 1))
    _replaces(call)
    seen = set()
    for at in np.ndindex(indices.shape[:-1]):
        place = _place(indices[at], data.shape)
        if place in seen:
            raise NotKnown("one element is written twice, in no stated order")
        seen.add(place)
        data[place] = updates[at]
    return [data]


def _replaces(call: Call) -> None:
    if call.attribute("reduction", "none") != "none":
        raise NotKnown("a reduction is not worked out")


def expand(call: Call, operands: Operands, results: list[TensorSize]) -> list[Cells]:
    """Return the operand broadcast to the shape of the result."""
    return [np.broadcast_to(cells_of(operands), close_shape(results[0].shape))]


def repeat(call: Call, operands: Operands, results: list[TensorSize]) -> list[Cells]:
    """Return the operand repeated along each axis."""
    return [np.tile(cells_of(operands), integers(cells_of(operands, 1)).tolist())]


def choose(call: Call, operands: Operands, results: list[TensorSize]) -> list[Cells]:
    """Return elements of the one or the other operand, by the condition."""
    return [np.where(cells_of(operands), cells_of(operands, 1), cells_of(operands, 2))]


def keep_triangle(call: Call, operands: Operands, results: list[TensorSize]) -> list[Cells]:
    """Return the upper or lower triangle of each matrix, with zeros elsewhere."""
    data = cells_of(operands)
    k = whole(cells_of(operands, 1).reshape(-1)[0]) if call.has(1) else 0
    rows, columns = np.indices(data.shape[-2:])
    kept = columns - rows >= k if call.attribute("upper", 1) else columns - rows <= k
    return [np.where(kept, data, np.zeros((), data.dtype))]


def find_non_zero(call: Call, operands: Operands, results: list[TensorSize]) -> list[Cells]:
    """Return the indices of the elements that are not zero."""
    data = cells_of(operands)
    if data.dtype == object:
        data = integers(data)
    if data.ndim == 0:
        return [np.empty((0, int(data != 0)), object)]
    return [np.array(np.nonzero(data)).astype(object)]


def one_hot(call: Call, operands: Operands, results: list[TensorSize]) -> list[Cells]:
    """Apply OneHot: indices of other types are first cast to int64; those outside of the depth give only `off`."""
    indices, values = cells_of(operands), cells_of(operands, 2)
    depth = whole(cells_of(operands, 1).reshape(-1)[0])
    if indices.dtype.kind == "f":
        if not np.isfinite(indices).all():
            raise NotKnown("an index that is NaN or infinite")
        indices = np.trunc(indices).astype(np.int64)
    indices = integers(indices)
    axis = axis_of(call.attribute("axis", -1), indices.ndim + 1)
    classes = np.arange(depth).reshape((depth, *[1] * (indices.ndim - axis)))
    at = np.expand_dims(np.where(indices < 0, indices + depth, indices), axis)
    return [np.where(at == classes, values[1], values[0]).astype(values.dtype)]
