"""Rules for the dimensions of a node's results if dimensions of its operands are expressions; rows name them.

ONNX's own inference carries a named dimension through an operator that keeps it; the rules here combine, compare and
compute dimensions. A rule answers for every shape of the envelope, or not at all: operands that fit together only for
some shapes are refused. spec: R6.1, T10.1
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from tmmu.core.dims.expressions import Dim, Expression, bounds_of, format_dim
from tmmu.core.dims.operations import divide_exactly, divide_up, maximum_of, minimum_of, quotient
from tmmu.onnx.sizes import Array, Size

Shape = tuple[Dim, ...]
WINDOWS_BEGIN_IN_DATA_SINCE = 22
"""The version of pools since which no window that `ceil_mode` adds begins in the padding behind the data."""


class Unfit(Exception):
    """Operands that do not fit the operator for every shape of the envelope; the text states the reason."""


@dataclass(frozen=True)
class NodeFacts:
    """One node, with the known facts about its operands, by position."""

    node: onnx.NodeProto
    sizes: Mapping[str, Size]
    values: Mapping[str, Array]
    version: int
    block: int = 0
    """How many channels the layout of a runtime keeps together, 0 if no runtime has made the graph."""

    def shape(self, k: int) -> Shape:
        """Return the shape of an operand that is present."""
        return self.sizes[self.node.input[k]][0]

    def shapes(self) -> list[Shape]:
        """Return the shapes of all operands that are present."""
        return [self.sizes[name][0] for name in self.node.input if name]

    def has(self, k: int) -> bool:
        """Return whether there is an operand at this position."""
        return k < len(self.node.input) and bool(self.node.input[k])

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return the value of an attribute, or the default."""
        for attribute in self.node.attribute:
            if attribute.name == name:
                return onnx.helper.get_attribute_value(attribute)
        return default

    def numbers(self, k: int, name: str = "") -> list[Dim] | None:
        """Return the numbers of a small operand, or of the attribute of older versions; None if they are not known.

        An absent operand has no numbers, which is known: the result is [].
        """
        if self.has(k):
            value = self.values.get(self.node.input[k])
            if value is None or value.dtype.kind not in "iuO":
                return None
            return [cell if isinstance(cell, Expression) else int(cell) for cell in value.reshape(-1)]
        return list(self.attribute(name, ())) if name else []


Rule = Callable[[NodeFacts], "list[Shape] | None"]
"""A rule that returns the shapes of the outputs in order, None if it does not decide them."""


def broadcast(*shapes: Shape) -> Shape:
    """Return the shape to which operands are broadcast together. Raises `Unfit` unless they fit for every shape."""
    rank = max(map(len, shapes))
    result: list[Dim] = []
    for axis in range(-rank, 0):
        found: Dim = 1
        for shape in shapes:
            dim = shape[axis] if -axis <= len(shape) else 1
            if found == 1:
                found = dim
            elif dim not in (1, found):
                raise Unfit(
                    f"{_show_shapes(*shapes)} cannot be broadcast for every shape: {format_dim(found)} against "
                    f"{format_dim(dim)}"
                )
        result.append(found)
    return tuple(result)


def _show_shapes(*shapes: Shape) -> str:
    return " and ".join(f"[{', '.join(map(format_dim, shape))}]" for shape in shapes)


def together(facts: NodeFacts) -> list[Shape]:
    """Broadcast the operands together."""
    return [broadcast(*facts.shapes())]


def matmul(facts: NodeFacts) -> list[Shape]:
    """Compute MatMul and MatMulInteger: a vector is a matrix of one row or column, which the result lacks."""
    a, b = facts.shape(0), facts.shape(1)
    if not a or not b:
        raise Unfit("a scalar has no product")
    left: Shape = (1, *a) if len(a) == 1 else a
    right: Shape = (*b, 1) if len(b) == 1 else b
    _check_same(left[-1], right[-2], a, b)
    rows: Shape = () if len(a) == 1 else (left[-2],)
    columns: Shape = () if len(b) == 1 else (right[-1],)
    return [(*broadcast(left[:-2], right[:-2]), *rows, *columns)]


def _check_same(one: Dim, other: Dim, *shapes: Shape) -> None:
    if one != other:
        raise Unfit(
            f"{_show_shapes(*shapes)} do not fit for every shape: {format_dim(one)} against {format_dim(other)}"
        )


def reshape(facts: NodeFacts) -> list[Shape] | None:
    """Compute Reshape: 0 keeps a dimension, and -1 takes the remaining elements."""
    target = facts.numbers(1, "shape")
    if target is None:
        return None
    given, total = facts.shape(0), math.prod(facts.shape(0))
    dims: list[Dim] = []
    open_axis = None
    for k, dim in enumerate(target):
        if isinstance(dim, Expression) and dim.bounds.low < 1:
            raise Unfit(f"a dimension of {format_dim(dim)} may be 0 or less, which has a special meaning")
        if dim == 0 and not facts.attribute("allowzero", 0):
            if k >= len(given):
                raise Unfit(f"dimension {k} of {_show_shapes(given)} cannot be kept")
            dim = given[k]
        if dim == -1:
            open_axis = k
            dim = 1
        dims.append(dim)
    if open_axis is not None:
        rest = divide_exactly(total, math.prod(dims))
        if rest is None or bounds_of(math.prod(dims)).low < 1:
            raise Unfit(f"{_show_shapes(given)} cannot become {_show_shapes(tuple(target))} for every shape")
        dims[open_axis] = rest
    if math.prod(dims) != total:
        raise Unfit(f"{_show_shapes(given)} cannot become {_show_shapes(tuple(target))} for every shape")
    return [tuple(dims)]


def flatten(facts: NodeFacts) -> list[Shape]:
    """Compute Flatten: the products of the dimensions before and after an axis."""
    shape = facts.shape(0)
    axis = facts.attribute("axis", 1)
    axis += len(shape) if axis < 0 else 0
    return [(math.prod(shape[:axis]), math.prod(shape[axis:]))]


def squeeze(facts: NodeFacts) -> list[Shape] | None:
    """Compute Squeeze without the listed dimensions; None if no axes are listed."""
    shape, axes = facts.shape(0), facts.numbers(1, "axes")
    if not axes:
        return None  # which dimensions are 1 may differ from shape to shape
    gone = {int(axis) % len(shape) for axis in axes if isinstance(axis, int)}
    for axis in gone:
        if shape[axis] != 1:
            raise Unfit(f"dimension {axis} of {_show_shapes(shape)} is not 1 for every shape")
    return [tuple(dim for axis, dim in enumerate(shape) if axis not in gone)]


def concat(facts: NodeFacts) -> list[Shape]:
    """Compute Concat: the sum along the axis; all other dimensions must be equal."""
    shapes = facts.shapes()
    axis = facts.attribute("axis", 1) % max(1, len(shapes[0]))
    for shape in shapes[1:]:
        for k, (one, other) in enumerate(zip(shapes[0], shape, strict=True)):
            if k != axis:
                _check_same(one, other, shapes[0], shape)
    total: Dim = sum((shape[axis] for shape in shapes[1:]), shapes[0][axis])
    return [(*shapes[0][:axis], total, *shapes[0][axis + 1 :])]


def split(facts: NodeFacts) -> list[Shape] | None:
    """Compute Split: the listed parts, or equal ones."""
    shape, count = facts.shape(0), len(facts.node.output)
    axis = facts.attribute("axis", 0) % len(shape)
    parts = facts.numbers(1, "split")
    if parts is None:
        return None
    if not parts:
        part = divide_up(shape[axis], count) if facts.version >= 18 else divide_exactly(shape[axis], count)
        if part is None:
            raise Unfit(f"{format_dim(shape[axis])} is not {count} equal parts for every shape")
        last = shape[axis] - (count - 1) * part
        if bounds_of(last).low < 0:
            raise Unfit(f"{format_dim(shape[axis])} is not {count} parts for every shape")
        parts = [*[part] * (count - 1), last]
    _check_same(sum(parts[1:], parts[0]), shape[axis], shape)
    return [(*shape[:axis], part, *shape[axis + 1 :]) for part in parts]


def expand(facts: NodeFacts) -> list[Shape] | None:
    """Compute Expand: the operand and the stated shape, broadcast together."""
    target = facts.numbers(1)
    return None if target is None else [broadcast(facts.shape(0), tuple(target)) if target else facts.shape(0)]


def tile(facts: NodeFacts) -> list[Shape] | None:
    """Compute Tile: each dimension times its stated number."""
    repeats, shape = facts.numbers(1), facts.shape(0)
    return None if repeats is None else [tuple(dim * n for dim, n in zip(shape, repeats, strict=True))]


def constant_of_shape(facts: NodeFacts) -> list[Shape] | None:
    """Compute ConstantOfShape: the stated shape."""
    target = facts.numbers(0)
    return None if target is None else [tuple(target)]


def count_range(facts: NodeFacts) -> list[Shape] | None:
    """Compute Range: the number of steps between start and limit."""
    ends = [facts.numbers(k) for k in range(3)]
    start, limit, delta = (end[0] if end and len(end) == 1 else None for end in ends)
    if start is None or limit is None or not isinstance(delta, int) or delta == 0:
        return None
    length = limit - start if delta > 0 else start - limit
    return [(maximum_of(0, divide_up(length, abs(delta))),)]


def cut(facts: NodeFacts) -> list[Shape] | None:
    """Compute Slice: the number of steps between the clamped starts and ends."""
    shape = list(facts.shape(0))
    starts, ends, axes = facts.numbers(1, "starts"), facts.numbers(2, "ends"), facts.numbers(3, "axes")
    steps = facts.numbers(4)
    if starts is None or ends is None or axes is None or steps is None:
        return None
    for start, end, axis, step in zip(
        starts, ends, axes or range(len(starts)), steps or [1] * len(starts), strict=True
    ):
        if not isinstance(axis, int) or not isinstance(step, int) or step == 0:
            return None
        dim = shape[axis % len(shape)]
        low, high = (0, dim) if step > 0 else (-1, dim - 1)
        first = minimum_of(maximum_of(_from_front(start, dim), 0), high)
        last = minimum_of(maximum_of(_from_front(end, dim), low), high if step < 0 else dim)
        length = last - first if step > 0 else first - last
        shape[axis % len(shape)] = maximum_of(0, divide_up(length, abs(step)))
    return [tuple(shape)]


def _from_front(index: Dim, dim: Dim) -> Dim:
    """Return an index from the front; a negative one counts from the end. Raises `Unfit` if its sign is open."""
    if bounds_of(index).low >= 0:
        return index
    if bounds_of(index).high < 0:
        return index + dim
    raise Unfit(f"the index {format_dim(index)} is negative only for some shapes")


def pad(facts: NodeFacts) -> list[Shape] | None:
    """Compute Pad: each dimension plus the padding before and after it."""
    shape, pads = facts.shape(0), facts.numbers(1, "pads" if facts.version >= 2 else "paddings")
    axes = facts.numbers(3)
    if not pads or axes is None:
        return None
    result = list(shape)
    chosen = [int(axis) % len(shape) for axis in axes if isinstance(axis, int)] or list(range(len(shape)))
    for k, axis in enumerate(chosen):
        result[axis] = result[axis] + pads[k] + pads[k + len(chosen)]
    return [tuple(result)]


def count_windows(facts: NodeFacts, dims: Shape, kernel: Sequence[Dim]) -> Shape:
    """Return how many windows of a convolution or pooling there are along each of the spatial dimensions `dims`."""
    count = len(dims)
    strides, dilations = (facts.attribute(name, [1] * count) for name in ("strides", "dilations"))
    pads, auto = facts.attribute("pads", [0] * 2 * count), facts.attribute("auto_pad", b"NOTSET")
    rounds_up = facts.attribute("ceil_mode", 0) and auto == b"NOTSET"
    found: list[Dim] = []
    for k, dim in enumerate(dims):
        if auto in (b"SAME_UPPER", b"SAME_LOWER"):
            found.append(divide_up(dim, strides[k]))
            continue
        around = 0 if auto == b"VALID" else pads[k] + pads[k + count]
        room = dim + around - ((kernel[k] - 1) * dilations[k] + 1)
        if bounds_of(room).low < 0:
            raise Unfit(f"a window of {format_dim(kernel[k])} does not fit {format_dim(dim)} for every shape")
        if rounds_up:
            found.append(_rounded_up(facts, room, strides[k], dim + pads[k]))
        else:
            found.append(quotient(room, strides[k]) + 1)
    return tuple(found)


def _rounded_up(facts: NodeFacts, room: Dim, stride: int, until: Dim) -> Dim:
    """Return how many windows there are if the last may be cut off; each begins before the place `until`.

    Raises `Unfit` where the text of an operator does not say that.
    """
    count, begin = divide_up(room, stride) + 1, divide_up(until, stride)
    if bounds_of(count - begin).high <= 0:
        return count
    if facts.version < WINDOWS_BEGIN_IN_DATA_SINCE or facts.node.op_type == "LpPool":
        raise Unfit(
            "whether a window counts that begins in the padding behind the data is not stated before version 22"
        )
    return minimum_of(count, begin)


def conv(facts: NodeFacts) -> list[Shape] | None:
    """Compute Conv and ConvInteger: examples, output channels, and the number of windows along each dimension."""
    data, weight = facts.shape(0), facts.shape(1)
    return [(data[0], weight[0], *count_windows(facts, data[2:], facts.attribute("kernel_shape") or weight[2:]))]


def pool(facts: NodeFacts) -> list[Shape] | None:
    """Compute AveragePool, LpPool and MaxPool: the number of windows along each dimension, equal for all results."""
    data = facts.shape(0)
    shape = (*data[:2], *count_windows(facts, data[2:], facts.attribute("kernel_shape")))
    return [shape] * len(facts.node.output)


def conv_transpose(facts: NodeFacts) -> list[Shape] | None:
    """Compute ConvTranspose: the inverse of the formula of a convolution."""
    data, weight = facts.shape(0), facts.shape(1)
    count = len(data) - 2
    if facts.attribute("output_shape") or facts.attribute("auto_pad", b"NOTSET") != b"NOTSET":
        return None
    kernel = facts.attribute("kernel_shape") or weight[2:]
    strides, dilations = (facts.attribute(name, [1] * count) for name in ("strides", "dilations"))
    more, pads = facts.attribute("output_padding", [0] * count), facts.attribute("pads", [0] * 2 * count)
    inner = [
        strides[k] * (data[2 + k] - 1) + more[k] + (kernel[k] - 1) * dilations[k] + 1 - pads[k] - pads[k + count]
        for k in range(count)
    ]
    return [(data[0], weight[1] * facts.attribute("group", 1), *inner)]


def resize(facts: NodeFacts) -> list[Shape] | None:
    """Compute Resize and Upsample: the stated sizes, or each dimension times an integer scale."""
    shape = facts.shape(0)
    if facts.attribute("axes") or facts.attribute("keep_aspect_ratio_policy", b"stretch") != b"stretch":
        return None
    if facts.has(3):
        sizes = facts.numbers(3)
        return None if sizes is None else [tuple(sizes)]
    at = 2 if facts.node.op_type == "Resize" and len(facts.node.input) > 2 else 1
    scales = facts.values.get(facts.node.input[at]) if facts.has(at) else None
    if scales is None or len(scales) != len(shape) or not np.equal(scales, np.floor(scales)).all():
        return None
    return [tuple(dim * int(scale) for dim, scale in zip(shape, scales.tolist(), strict=True))]


def depth_to_space(facts: NodeFacts) -> list[Shape] | None:
    """Compute DepthToSpace: channels become rows and columns of blocks."""
    n, c, h, w = facts.shape(0)
    block = facts.attribute("blocksize")
    depth = divide_exactly(c, block * block)
    return None if depth is None else [(n, depth, h * block, w * block)]


def space_to_depth(facts: NodeFacts) -> list[Shape]:
    """Compute SpaceToDepth: blocks become channels."""
    n, c, h, w = facts.shape(0)
    block = facts.attribute("blocksize")
    rows, columns = divide_exactly(h, block), divide_exactly(w, block)
    if rows is None or columns is None:
        raise Unfit(f"{_show_shapes(facts.shape(0))} is not made of blocks of {block} for every shape")
    return [(n, c * block * block, rows, columns)]


def top_k(facts: NodeFacts) -> list[Shape] | None:
    """Compute TopK: the stated number along the axis."""
    shape, k = list(facts.shape(0)), facts.numbers(1, "k")
    if facts.version < 10:
        k = [facts.attribute("k")]
    if not k:
        return None
    shape[facts.attribute("axis", -1) % len(shape)] = k[0]
    return [tuple(shape)] * 2


def one_hot(facts: NodeFacts) -> list[Shape] | None:
    """Compute OneHot: an additional dimension of the stated depth."""
    shape, depth = facts.shape(0), facts.numbers(1)
    if not depth:
        return None
    axis = facts.attribute("axis", -1) % (len(shape) + 1)
    return [(*shape[:axis], depth[0], *shape[axis:])]
