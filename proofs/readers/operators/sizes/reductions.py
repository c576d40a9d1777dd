"""Compute sizes for operators over whole axes: reductions, arg-extrema, cumulative sums, softmax, picking by value."""

from __future__ import annotations

import numpy as np

from proofs.readers.operators.sizes.call import (
    Call,
    Misfit,
    NotKnown,
    Shape,
    TensorSize,
    axes_of,
    axis_of,
    format_shape,
    never_below,
    product,
    same,
    same_shape,
    whole,
)
from tmmu.core.dims.expressions import Dim
from tmmu.core.dims.operations import minimum_of


def reduction(call: Call) -> list[TensorSize]:
    """Return the size of reductions: the listed axes, by default all, become 1 or vanish.

    Nothing changes if an empty list of axes requests a no-op.
    """
    return [TensorSize(_reduced_shape(call, *reduced_axes(call)), call.dtype(0))]


def reduced_axes(call: Call) -> tuple[list[int], bool]:
    """Return the axes of a reduction, and whether they are kept as 1."""
    rank = len(call.shape(0))
    by_operand = call.since >= (13 if call.node.op_type == "ReduceSum" else 18)
    if by_operand:
        listed = call.numbers(1) if call.has(1) else []
        if not listed and call.attribute("noop_with_empty_axes", 0):
            return [], True
    else:
        listed = call.attribute("axes", [])
    return axes_of(listed, rank) if listed else list(range(rank)), bool(call.attribute("keepdims", 1))


def _reduced_shape(call: Call, axes: list[int], keep: bool) -> Shape:
    return tuple(1 if k in axes else dim for k, dim in enumerate(call.shape(0)) if keep or k not in axes)


def arg(call: Call) -> list[TensorSize]:
    """Return the size of ArgMax and ArgMin: indices along one axis."""
    axis = axis_of(call.attribute("axis", 0), len(call.shape(0)))
    return [TensorSize(_reduced_shape(call, [axis], bool(call.attribute("keepdims", 1))), "int64")]


def along(call: Call) -> list[TensorSize]:
    """Return the size of Softmax, LogSoftmax, Hardmax and LpNormalization: like the operand, along an axis."""
    rank = len(call.shape(0))
    default = 1 if call.since < 13 and call.node.op_type != "LpNormalization" else -1
    axis = call.attribute("axis", default)
    # Before version 13 the operand is cut in two before the axis, which may be its rank.
    if rank and not (call.since < 13 and axis == rank and call.node.op_type != "LpNormalization"):
        axis_of(axis, rank)
    return [call.size(0)]


def cumulative(call: Call) -> list[TensorSize]:
    """Return the size of CumSum and CumProd: like the operand. The axis is an operand of one element."""
    if call.dtype(1) not in ("int32", "int64") or call.shape(1) not in ((), (1,)):
        raise Misfit(f"its axis is {call.size(1)}")
    return [call.size(0)]


def top_k(call: Call) -> list[TensorSize]:
    """Return the sizes of TopK: k elements along an axis, and their indices."""
    shape = call.shape(0)
    axis = axis_of(call.attribute("axis", -1), len(shape))
    k: Dim = call.attribute("k", 0) if call.since < 10 else call.number(1)
    never_below(0, [k, shape[axis] - k], f"{k} elements of axis {axis} of {format_shape(shape)}")
    found = (*shape[:axis], k, *shape[axis + 1 :])
    return [TensorSize(found, call.dtype(0)), TensorSize(found, "int64")]


def one_hot(call: Call) -> list[TensorSize]:
    """Return the size of OneHot: a dimension of the stated depth is inserted."""
    shape = call.shape(0)
    axis = axis_of(call.attribute("axis", -1), len(shape) + 1)
    same_shape(call.shape(2), (2,), "the values")
    if call.shape(1) not in ((), (1,)):
        raise Misfit(f"a depth of {format_shape(call.shape(1))}")
    depth = call.value(1)
    if depth is None or depth.dtype == "bool":
        raise NotKnown("the value of the depth is not known")
    count = depth.cells.reshape(-1)[0]
    if depth.cells.dtype.kind == "f":
        if count != np.floor(count) or not np.isfinite(count):
            raise Misfit(f"a depth of {count}")
        count = int(count)
    never_below(1, [count], f"a depth of {count}")
    return [TensorSize((*shape[:axis], count, *shape[axis:]), call.dtype(2))]


def non_zero(call: Call) -> list[TensorSize]:
    """Return the size of NonZero: one row for each dimension, one column for each nonzero element."""
    call.size(0)
    found = call.value(0)
    if found is None or any(not isinstance(cell, (int, float, bool, np.generic)) for cell in found.cells.reshape(-1)):
        raise NotKnown("which elements are zero is not known")
    return [TensorSize((len(call.shape(0)), int(np.count_nonzero(found.cells))), "int64")]


def compress(call: Call) -> list[TensorSize]:
    """Return the size of Compress: one slice for each true of its condition."""
    shape, found = call.shape(0), call.value(1)
    if call.dtype(1) != "bool" or len(call.shape(1)) != 1:
        raise Misfit(f"a condition of {call.size(1)}")
    if found is None:
        raise NotKnown("the condition is not known")
    axis = call.attribute("axis")
    length = product(shape) if axis is None else shape[axis_of(axis, len(shape))]
    count = int(np.count_nonzero(found.cells[: whole(minimum_of(length, len(found.cells)))]))
    if axis is None:
        return [TensorSize((count,), call.dtype(0))]
    axis = axis_of(axis, len(shape))
    return [TensorSize((*shape[:axis], count, *shape[axis + 1 :]), call.dtype(0))]


def unique(call: Call) -> list[TensorSize]:
    """Return the sizes of Unique. The count is known if the elements are, and if they are not cut along an axis."""
    call.size(0)
    found = call.value(0)
    if found is None or found.cells.dtype == object or call.attribute("axis") is not None:
        raise NotKnown("how many elements differ is not known")
    if found.cells.dtype.kind == "f" and np.isnan(found.cells).any():
        raise NotKnown("the text does not say whether NaN equals NaN")
    count = len(np.unique(found.cells))
    vector = TensorSize((count,), "int64")
    return [TensorSize((count,), call.dtype(0)), vector, TensorSize((found.cells.size,), "int64"), vector]


def loss(call: Call) -> list[TensorSize]:
    """Return the sizes of NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss: one number, or one for each label."""
    scores, labels = call.shape(0), call.shape(1)
    if len(scores) < 2 or call.attribute("reduction", "mean") not in ("none", "sum", "mean"):
        raise Misfit(f"scores {format_shape(scores)}")
    same_shape(labels, (scores[0], *scores[2:]), "labels and scores")
    if call.has(2):
        same(call.shape(2, 1)[0], scores[1], "weights and classes")
    shape = labels if call.attribute("reduction", "mean") == "none" else ()
    return [TensorSize(shape, call.dtype(0)), call.size(0)]
