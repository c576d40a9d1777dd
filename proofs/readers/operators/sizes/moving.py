"""Compute sizes for operators that move elements without computing with them: reshape, join, cut, pick, repeat."""

from __future__ import annotations

from itertools import accumulate

from proofs.readers.operators.sizes.call import (
    Call,
    Misfit,
    NotKnown,
    Shape,
    TensorSize,
    axes_of,
    axis_of,
    broadcast,
    equal_part,
    format_shape,
    never_below,
    product,
    same,
    same_shape,
    whole,
)
from tmmu.core.dims.expressions import Dim, Expression, bounds_of
from tmmu.core.dims.operations import divide_exactly, divide_up, maximum_of, minimum_of, quotient


def reshape(call: Call) -> list[TensorSize]:
    """Return the size of Reshape: 0 keeps a dimension unless zeros are allowed, and one -1 takes the rest."""
    given, target = call.shape(0), call.numbers(1, "shape")
    zeros = bool(call.attribute("allowzero", 0))
    if zeros and 0 in target and -1 in target:
        raise Misfit("a target with 0 and -1 does not determine the dimension of -1")
    dims: list[Dim] = []
    left = None
    for k, dim in enumerate(target):
        low, high = bounds_of(dim)
        if low < 1 <= high or (isinstance(dim, Expression) and low < 1):
            raise NotKnown("a number of the target may be 0 or less for some shapes, which has another meaning")
        if dim == 0 and not zeros:
            if k >= len(given):
                raise Misfit(f"dimension {k} of {format_shape(given)} cannot be kept")
            dim = given[k]
        elif dim == -1:
            if left is not None:
                raise Misfit("more than one number of the target is -1")
            left, dim = k, 1
        elif dim != 0 and high < 0:
            raise Misfit(f"{dim} in the target")
        dims.append(dim)
    total, found = product(given), product(dims)
    if left is not None:
        dims[left] = _share(total, found, given)
        found = product(dims)
    same(total, found, f"{format_shape(given)} has another number of elements than {format_shape(tuple(dims))}")
    return [TensorSize(tuple(dims), call.dtype(0))]


def _share(total: Dim, known: Dim, given: Shape) -> Dim:
    """Return the dimension that -1 represents."""
    if known == 0:
        raise Misfit("-1 is not determined if another dimension is 0")
    if isinstance(total, int) and isinstance(known, int):
        if total % known:
            raise Misfit(f"{total} elements of {format_shape(given)} are not a multiple of {known}")
        return total // known
    found = divide_exactly(total, known)
    if found is None:
        raise NotKnown(
            f"the elements of {format_shape(given)} are not shown to be a multiple of {known} for every shape"
        )
    return found


def flatten(call: Call) -> list[TensorSize]:
    """Return the size of Flatten: two dimensions, cut before an axis, which may be the rank."""
    shape = call.shape(0)
    axis = call.attribute("axis", 1)
    least = 0 if call.since < 11 else -len(shape)
    if not least <= axis <= len(shape):
        raise Misfit(f"axis {axis} of {format_shape(shape)}")
    axis = axis + len(shape) if axis < 0 else axis
    return [TensorSize((product(shape[:axis]), product(shape[axis:])), call.dtype(0))]


def squeeze(call: Call) -> list[TensorSize]:
    """Return the size of Squeeze: without the listed dimensions, which must be 1, or without all that are 1."""
    shape = call.shape(0)
    has_list = call.has(1) or call.attribute("axes") is not None
    axes = axes_of(call.numbers(1, "axes"), len(shape)) if has_list else []
    for axis in axes:
        same(shape[axis], 1, f"dimension {axis} of {format_shape(shape)}")
    if not axes:
        axes = [k for k, dim in enumerate(shape) if dim == 1]
        if has_list and axes:
            raise NotKnown("the text does not say whether an empty list of axes is one")
        if any(isinstance(dim, Expression) and bounds_of(dim).low <= 1 <= bounds_of(dim).high for dim in shape):
            raise NotKnown("a dimension is 1 for some shapes only")
    return [TensorSize(tuple(dim for k, dim in enumerate(shape) if k not in axes), call.dtype(0))]


def unsqueeze(call: Call) -> list[TensorSize]:
    """Return the size of Unsqueeze: dimensions of 1 at the listed axes of the result."""
    shape, listed = call.shape(0), call.numbers(1, "axes")
    axes = axes_of(listed, len(shape) + len(listed))
    rest = iter(shape)
    return [TensorSize(tuple(1 if k in axes else next(rest) for k in range(len(shape) + len(axes))), call.dtype(0))]


def transpose(call: Call) -> list[TensorSize]:
    """Return the size of Transpose: by a permutation, which by default reverses the axes."""
    shape = call.shape(0)
    order = call.attribute("perm")
    if order == [] and len(shape) > 1:
        raise NotKnown("the text does not say whether an empty permutation is one")
    order = list(range(len(shape)))[::-1] if order is None else order
    if sorted(order) != list(range(len(shape))):
        raise Misfit(f"{order} is not a permutation of the axes of {format_shape(shape)}")
    return [TensorSize(tuple(shape[axis] for axis in order), call.dtype(0))]


def concat(call: Call) -> list[TensorSize]:
    """Return the size of Concat: all dimensions except that of the axis are the same."""
    shapes = [size.shape for size in call.present()]
    if len(shapes) < len(call.operands) or call.attribute("axis") is None or not shapes:
        raise Misfit("an operand or the attribute 'axis' is missing")
    axis = axis_of(call.attribute("axis"), len(shapes[0]))
    along: Dim = 0
    around = _without(shapes[0], axis)
    for shape in shapes:
        same_shape(_without(shape, axis), around, f"{format_shape(shapes[0])} and {format_shape(shape)}")
        along = along + shape[axis]
    return [TensorSize((*around[:axis], along, *around[axis:]), call.one_type())]


def split(call: Call) -> list[TensorSize]:
    """Return the sizes of Split: by the listed sizes, or evenly. Since version 18 the last part may be smaller."""
    shape, dtype = call.size(0)
    axis = axis_of(call.attribute("axis", 0), len(shape))
    dim = shape[axis]
    if call.has(1) or (call.since < 13 and call.attribute("split") is not None):
        if call.attribute("num_outputs") is not None:
            raise Misfit("both sizes and 'num_outputs' are stated")
        parts = call.numbers(1, "split")
        never_below(0, parts, f"a part of {format_shape(tuple(parts))} is negative")
        if len(parts) != call.results:
            raise Misfit(f"{len(parts)} sizes for {call.results} results")
        same(list(accumulate(parts))[-1] if parts else 0, dim, f"{format_shape(tuple(parts))} of {dim}")
    else:
        count = call.attribute("num_outputs", call.results) if call.since >= 18 else call.results
        if count != call.results:
            raise Misfit(f"'num_outputs' is {count}, and there are {call.results} results")
        if call.since >= 18 and not isinstance(dim, Expression):
            most = -(-dim // count)
            last = dim - most * (count - 1)
            if last < 0:
                raise Misfit(f"{dim} in {count} parts leaves {last} for the last")
            parts = [*[most] * (count - 1), last]
        else:
            parts = [equal_part(dim, count)] * count
    return [TensorSize((*shape[:axis], part, *shape[axis + 1 :]), dtype) for part in parts]


def slices(call: Call) -> list[TensorSize]:
    """Return the size of Slice.

    `ends` are excluded, negative numbers count from the back and are clamped to the dimension, and steps have either
    sign.
    """
    shape = list(call.shape(0))
    if call.since < 10:
        starts, ends = call.attribute("starts"), call.attribute("ends")
        if starts is None or ends is None:
            raise Misfit("'starts' or 'ends' is missing")
        axes = call.attribute("axes", list(range(len(starts))))
        steps: list[Dim] = [1] * len(starts)
    else:
        starts, ends = call.numbers(1), call.numbers(2)
        axes = [whole(axis) for axis in call.numbers(3)] if call.has(3) else list(range(len(starts)))
        steps = call.numbers(4) if call.has(4) else [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise Misfit("starts, ends, axes and steps differ in number")
    for axis, start, end, step in zip(axes_of(axes, len(shape)), starts, ends, steps, strict=True):
        shape[axis] = cut(shape[axis], start, end, whole(step))
    return [TensorSize(tuple(shape), call.dtype(0))]


def cut(dim: Dim, start: Dim, end: Dim, step: int) -> Dim:
    """Return how many elements a slice takes of a dimension."""
    if step == 0:
        raise Misfit("a step of 0")
    start, end = _from_back(start, dim), _from_back(end, dim)
    if step > 0:
        first, last = _clamped(start, 0, dim), _clamped(end, 0, dim)
        return maximum_of(0, divide_up(last - first, step))
    first, last = _clamped(start, 0, maximum_of(0, dim - 1)), _clamped(end, -1, maximum_of(-1, dim - 1))
    taken = maximum_of(0, divide_up(first - last, -step))
    return taken if bounds_of(dim).low > 0 else minimum_of(taken, dim)  # an empty dimension has no elements to take


def _from_back(place: Dim, dim: Dim) -> Dim:
    low, high = bounds_of(place)
    if high < 0:
        return place + dim
    if low < 0:
        raise NotKnown(f"{place} counts from the back for some shapes only")
    return place


def _clamped(place: Dim, least: Dim, most: Dim) -> Dim:
    return maximum_of(least, minimum_of(place, most))


def pad(call: Call) -> list[TensorSize]:
    """Return the size of Pad: numbers before and after each (listed) axis, which may be negative."""
    shape = list(call.shape(0))
    amounts = call.numbers(1, "pads")
    axes = axes_of(call.numbers(3), len(shape)) if call.since >= 18 and call.has(3) else list(range(len(shape)))
    if len(amounts) != 2 * len(axes):
        raise Misfit(f"{len(amounts)} pads for {len(axes)} axes")
    for k, axis in enumerate(axes):
        shape[axis] = shape[axis] + amounts[k] + amounts[k + len(axes)]
        if bounds_of(shape[axis]).high < 0:
            raise Misfit(f"axis {axis} becomes {shape[axis]}")
    return [TensorSize(tuple(shape), call.dtype(0))]


def expand(call: Call) -> list[TensorSize]:
    """Return the size of Expand: the operand and the listed shape broadcast to each other."""
    return [TensorSize(broadcast(call.shape(0), tuple(call.numbers(1))), call.dtype(0))]


def tile(call: Call) -> list[TensorSize]:
    """Return the size of Tile: each dimension times its number of repeats."""
    shape, repeats = call.shape(0), call.numbers(1)
    misfit = f"repeats {format_shape(tuple(repeats))} for {format_shape(shape)}"
    if len(repeats) != len(shape):
        raise Misfit(misfit)
    never_below(0, repeats, misfit)
    return [TensorSize(tuple(dim * times for dim, times in zip(shape, repeats, strict=True)), call.dtype(0))]


def gather(call: Call) -> list[TensorSize]:
    """Return the size of Gather: the indices' shape replaces the axis."""
    shape, indices = call.shape(0), call.shape(1)
    _indices(call, 1)
    axis = axis_of(call.attribute("axis", 0), len(shape))
    return [TensorSize((*shape[:axis], *indices, *shape[axis + 1 :]), call.dtype(0))]


def gather_elements(call: Call) -> list[TensorSize]:
    """Return the size of GatherElements: that of the indices, which have the operand's rank."""
    shape, indices = call.shape(0), call.shape(1)
    _indices(call, 1)
    axis_of(call.attribute("axis", 0), len(shape))
    if len(shape) != len(indices):
        raise Misfit(f"indices {format_shape(indices)} for {format_shape(shape)}")
    return [TensorSize(indices, call.dtype(0))]


def gather_nd(call: Call) -> list[TensorSize]:
    """Return the size of GatherND.

    The indices' last dimension picks from the operand's dimensions after the batch ones.
    """
    shape, indices = call.shape(0), call.shape(1)
    batch = call.attribute("batch_dims", 0)
    if not indices or not 0 <= batch < min(len(shape), len(indices)):
        raise Misfit(f"indices {format_shape(indices)} with {batch} batch dimensions for {format_shape(shape)}")
    same_shape(shape[:batch], indices[:batch], "batch dimensions")
    depth = whole(indices[-1])
    if not 1 <= depth <= len(shape) - batch:
        raise Misfit(f"indices of {depth} numbers for {format_shape(shape)}")
    return [TensorSize((*indices[:-1], *shape[batch + depth :]), call.dtype(0))]


def scatter(call: Call) -> list[TensorSize]:
    """Return the size of ScatterElements (once Scatter): indices and updates of one shape, of the operand's rank."""
    same_shape(call.shape(1), call.shape(2), "indices and updates")
    axis_of(call.attribute("axis", 0), len(call.shape(0)))
    if len(call.shape(1)) != len(call.shape(0)):
        raise Misfit(f"indices {format_shape(call.shape(1))} for {format_shape(call.shape(0))}")
    _indices(call, 1)
    return [TensorSize(call.shape(0), call.one_type(0, 2))]


def scatter_nd(call: Call) -> list[TensorSize]:
    """Return the size of ScatterND: updates have the shape that GatherND would give."""
    shape, indices = call.shape(0), call.shape(1)
    if not indices or not 1 <= (depth := whole(indices[-1])) <= len(shape):
        raise Misfit(f"indices {format_shape(indices)} for {format_shape(shape)}")
    same_shape(call.shape(2), (*indices[:-1], *shape[depth:]), "updates")
    return [TensorSize(shape, call.one_type(0, 2))]


def tensor_scatter(call: Call) -> list[TensorSize]:
    """Return the size of TensorScatter: updates differ from the cache only in the sequence dimension, not the first."""
    cache, update = call.shape(0), call.shape(1)
    axis = axis_of(call.attribute("axis", -2), len(cache))
    if axis == 0 or len(update) != len(cache):
        raise Misfit(f"axis {axis} of {format_shape(cache)} with updates {format_shape(update)}")
    same_shape(_without(cache, axis), _without(update, axis), "cache and updates")
    if bounds_of(cache[axis] - update[axis]).high < 0:
        raise Misfit(f"updates {format_shape(update)} are longer than {format_shape(cache)}")
    return [TensorSize(cache, call.one_type(0, 1))]


def depth_to_space(call: Call) -> list[TensorSize]:
    """Return the size of DepthToSpace: channels in blocks become rows and columns."""
    n, c, h, w = call.shape(0, 4)
    block = _block(call)
    return [TensorSize((n, equal_part(c, block * block), h * block, w * block), call.dtype(0))]


def space_to_depth(call: Call) -> list[TensorSize]:
    """Return the size of SpaceToDepth: blocks of rows and columns become channels."""
    n, c, h, w = call.shape(0, 4)
    block = _block(call)
    return [TensorSize((n, c * (block * block), equal_part(h, block), equal_part(w, block)), call.dtype(0))]


def _block(call: Call) -> int:
    block = call.attribute("blocksize")
    if block is None or block < 1:
        raise Misfit(f"'blocksize' is {block}")
    return int(block)


def reverse_sequence(call: Call) -> list[TensorSize]:
    """Return the size of ReverseSequence: batch and time are the first two axes, with one length for each batch."""
    shape = call.shape(0)
    axes = sorted((call.attribute("batch_axis", 1), call.attribute("time_axis", 0)))
    if len(shape) < 2 or axes != [0, 1]:
        raise Misfit(f"batch and time are axes {axes} of {format_shape(shape)}")
    same(call.shape(1, 1)[0], shape[call.attribute("batch_axis", 1)], "lengths and batch")
    return [call.size(0)]


def center_crop_pad(call: Call) -> list[TensorSize]:
    """Return the size of CenterCropPad: the listed axes have the stated sizes."""
    shape, target = list(call.shape(0)), call.numbers(1)
    axes = axes_of(call.attribute("axes", range(len(shape))), len(shape))
    if len(target) != len(axes):
        raise Misfit(f"{len(target)} sizes for {len(axes)} axes")
    for axis, dim in zip(axes, target, strict=True):
        shape[axis] = dim
    return [TensorSize(tuple(shape), call.dtype(0))]


def trilu(call: Call) -> list[TensorSize]:
    """Return the size of Trilu: matrices, at least one."""
    if len(call.shape(0)) < 2:
        raise Misfit(f"{format_shape(call.shape(0))} is not a matrix")
    return [call.size(0)]


def col2im(call: Call) -> list[TensorSize]:
    """Return the size of Col2Im: channels in blocks become an image of the stated shape."""
    batch, channels, columns = call.shape(0, 3)
    image, block = call.numbers(1), call.numbers(2)
    count = len(image)
    strides, dilations = (call.attribute(name, [1] * count) for name in ("strides", "dilations"))
    pads = call.attribute("pads", [0] * 2 * count)
    if not len(block) == len(strides) == len(dilations) == count or len(pads) != 2 * count:
        raise Misfit("image, block, strides, dilations and pads differ in rank")
    expected = product(
        quotient(image[k] + pads[k] + pads[k + count] - (dilations[k] * (block[k] - 1) + 1), strides[k]) + 1
        for k in range(count)
    )
    same(columns, expected, "blocks of the image")
    return [TensorSize((batch, equal_part(channels, whole(product(block))), *image), call.dtype(0))]


def _without(shape: Shape, axis: int) -> Shape:
    if axis >= len(shape):
        raise Misfit(f"{format_shape(shape)} has no axis {axis}")
    return (*shape[:axis], *shape[axis + 1 :])


def _indices(call: Call, k: int) -> None:
    if call.dtype(k) not in ("int32", "int64"):
        raise Misfit(f"indices of type {call.dtype(k)}")
