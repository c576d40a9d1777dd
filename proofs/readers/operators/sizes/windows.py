"""Compute sizes for operators that slide a window: convolutions and pools, by the formulas of the operators' texts.

An effective kernel is `(kernel - 1) * dilation + 1`. With `ceil_mode` a window must not start in the padding behind the
data. Only texts of version 22 state that; for other versions, a size that depends on it is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from proofs.readers.operators.sizes.call import (
    Call,
    Misfit,
    NotKnown,
    Shape,
    TensorSize,
    format_shape,
    same,
    same_shape,
)
from tmmu.core.dims.expressions import Dim, bounds_of
from tmmu.core.dims.operations import divide_up, minimum_of, quotient

PADDINGS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
WINDOWS_BEGIN_IN_DATA_SINCE = 22


class SlidingWindow(NamedTuple):
    """The attributes of a window, one number for each spatial axis. `pads` has those before, then those after."""

    kernel: Sequence[Dim]
    strides: Sequence[int]
    dilations: Sequence[int]
    pads: Sequence[int]
    auto: str

    def extent(self, axis: int) -> Dim:
        """Return the effective kernel."""
        return (self.kernel[axis] - 1) * self.dilations[axis] + 1

    def padded(self, axis: int) -> int:
        """Return the padding before and behind together."""
        return self.pads[axis] + self.pads[axis + len(self.kernel)]


def window(call: Call, kernel: Sequence[Dim], count: int) -> SlidingWindow:
    """Return the window of a node over `count` spatial axes."""
    strides, dilations = (list(call.attribute(name, [1] * count)) for name in ("strides", "dilations"))
    auto = call.attribute("auto_pad", "NOTSET") or "NOTSET"
    pads = list(call.attribute("pads", [0] * 2 * count))
    lengths = (len(kernel), len(strides), len(dilations), len(pads))
    if count < 1 or lengths != (count, count, count, 2 * count) or auto not in PADDINGS:
        raise Misfit(f"kernel, strides, dilations and pads have {lengths} numbers for {count} axes")
    if min(strides) < 1 or min(dilations) < 1 or any(bounds_of(each).high < 1 for each in kernel):
        raise Misfit("a kernel, stride or dilation is not positive")
    if auto != "NOTSET":
        pads = [0] * 2 * count
    return SlidingWindow(kernel, strides, dilations, pads, auto)


def count_windows(spatial: Shape, over: SlidingWindow) -> Shape:
    """Return how often a window fits each axis, rounded down."""
    found: list[Dim] = []
    for axis, dim in enumerate(spatial):
        if over.auto.startswith("SAME"):
            found.append(divide_up(dim, over.strides[axis]))
        else:
            found.append(_counted(quotient(_room(dim, over, axis), over.strides[axis]) + 1, dim, over, axis))
    return tuple(found)


def _room(dim: Dim, over: SlidingWindow, axis: int) -> Dim:
    """Return the number of places behind the first where a window may begin."""
    return dim + over.padded(axis) - over.extent(axis)


def _counted(count: Dim, dim: Dim, over: SlidingWindow, axis: int) -> Dim:
    """Return the number of windows that a formula gives. A window that is just too large fits zero times."""
    if bounds_of(count).high < 0:
        raise Misfit(f"a window of {over.extent(axis)} does not fit {dim} with padding {over.padded(axis)}")
    if bounds_of(count).low < 0:
        raise NotKnown(f"a window of {over.extent(axis)} fits {dim} for some shapes only")
    return count


def conv(call: Call) -> list[TensorSize]:
    """Return the size of Conv and ConvInteger: weights [M, C / group, kernel]. ConvInteger gives 32-bit integers."""
    shape = convolution_shape(call, call.shape(0), call.shape(1))
    if call.node.op_type == "ConvInteger":
        return [TensorSize(shape, "int32")]
    if call.has(2):
        same_shape(call.shape(2), shape[1:2], "the bias and the channels of the result")
    return [TensorSize(shape, call.one_type())]


def qlinear_conv(call: Call) -> list[TensorSize]:
    """Return the size of QLinearConv: scales and zero points in between. The type is the result's zero point's."""
    shape = convolution_shape(call, call.shape(0), call.shape(3))
    if call.has(8):
        same_shape(call.shape(8), shape[1:2], "the bias and the channels of the result")
    return [TensorSize(shape, call.dtype(7))]


def convolution_shape(call: Call, data: Shape, weight: Shape) -> Shape:
    """Return the shape of a convolution."""
    group, kernel = call.attribute("group", 1), weight[2:]
    if len(data) != len(weight) or len(data) < 3 or group < 1:
        raise Misfit(f"weights {format_shape(weight)} in {group} groups for {format_shape(data)}")
    same(
        data[1], weight[1] * group, f"channels of {format_shape(data)} and of {group} groups of {format_shape(weight)}"
    )
    if isinstance(weight[0], int) and weight[0] % group:
        raise Misfit(f"{weight[0]} channels are not a multiple of {group} groups")
    same_shape(tuple(call.attribute("kernel_shape", kernel)), kernel, "kernel_shape and weights")
    return (data[0], weight[0], *count_windows(data[2:], window(call, kernel, len(kernel))))


def deform_conv(call: Call) -> list[TensorSize]:
    """Return the size of DeformConv: a convolution whose samples are moved by offsets."""
    shape = convolution_shape(call, call.shape(0), call.shape(1))
    same_shape(call.shape(2)[2:], shape[2:], "offsets and result")
    return [TensorSize(shape, call.dtype(0))]


def conv_transpose(call: Call) -> list[TensorSize]:
    """Return the size of ConvTranspose: weights [C, M / group, kernel], by the inverse formula of a convolution."""
    data, weight = call.shape(0), call.shape(1)
    group, kernel = call.attribute("group", 1), weight[2:]
    if len(data) != len(weight) or len(data) < 3 or group < 1:
        raise Misfit(f"weights {format_shape(weight)} in {group} groups for {format_shape(data)}")
    same(data[1], weight[0], f"channels of {format_shape(data)} and {format_shape(weight)}")
    same_shape(tuple(call.attribute("kernel_shape", kernel)), kernel, "kernel_shape and weights")
    channels, count = weight[1] * group, len(kernel)
    over, more = window(call, kernel, count), call.attribute("output_padding", [0] * count)
    if len(more) != count:
        raise Misfit(f"{len(more)} numbers of output_padding for {count} axes")
    if call.has(2):
        same_shape(call.shape(2), (channels,), "the bias and the channels of the result")
    stated = call.attribute("output_shape")
    if stated is not None and len(stated) != count:
        raise NotKnown(f"the text does not say which {count} of output_shape's {len(stated)} numbers count")
    if any(extra >= max(over.strides[k], over.dilations[k]) for k, extra in enumerate(more)):
        raise Misfit(f"output_padding {more} is not less than stride or dilation")
    found: list[Dim] = [
        (dim - 1) * over.strides[k] + more[k] + over.extent(k) - over.padded(k) for k, dim in enumerate(data[2:])
    ]
    if stated is None and over.auto.startswith("SAME"):
        if call.since < 11:
            raise NotKnown("before version 11 the text does not say what SAME gives a transposed convolution")
        stated = [dim * stride for dim, stride in zip(data[2:], over.strides, strict=True)]
        if any(bounds_of(one - other).low < 0 for one, other in zip(found, stated, strict=True)):
            raise NotKnown("the text asks for a negative padding where the window is smaller than the stride")
    found = stated or found
    if any(bounds_of(dim).high < 1 for dim in found):
        raise Misfit(f"{format_shape(data)} becomes {format_shape(tuple(found))}")
    return [TensorSize((data[0], channels, *found), call.one_type())]


def pool(call: Call) -> list[TensorSize]:
    """Return the sizes of AveragePool, LpPool and MaxPool. The second result of MaxPool are indices."""
    is_stated = call.since >= WINDOWS_BEGIN_IN_DATA_SINCE and call.node.op_type != "LpPool"
    found = pool_shape(call, call.shape(0), begins_in_data=is_stated)
    return [TensorSize(found, call.dtype(0)), TensorSize(found, "int64")]


def pool_shape(call: Call, shape: Shape, *, begins_in_data: bool) -> Shape:
    """Return the shape of a pool. `begins_in_data` is whether no window may begin in the padding behind the data."""
    kernel = call.attribute("kernel_shape")
    if len(shape) < 3 or kernel is None:
        raise Misfit(f"'kernel_shape' is {kernel} for {format_shape(shape)}")
    over = window(call, kernel, len(shape) - 2)
    ceil = call.attribute("ceil_mode", 0) and over.auto == "NOTSET"  # the result of auto_pad is the same either way
    inner = _rounded_up(shape[2:], over, begins_in_data) if ceil else count_windows(shape[2:], over)
    return (*shape[:2], *inner)


def _rounded_up(spatial: Shape, over: SlidingWindow, begins_in_data: bool) -> Shape:
    found: list[Dim] = []
    for axis, dim in enumerate(spatial):
        stride = over.strides[axis]
        count = divide_up(_room(dim, over, axis), stride) + 1
        begin = divide_up(dim + over.pads[axis], stride)  # windows that begin in the data, or in the padding before it
        if bounds_of(count - begin).high > 0:
            if not begins_in_data:
                raise NotKnown("the text does not say whether a window may begin in the padding behind the data")
            count = minimum_of(count, begin)
        found.append(_counted(count, dim, over, axis))
    return tuple(found)


def max_unpool(call: Call) -> list[TensorSize]:
    """Return the size of MaxUnpool: the stated shape, or the inverse formula of a pool."""
    shape, kernel = call.shape(0), call.attribute("kernel_shape")
    same_shape(shape, call.shape(1), "values and indices")
    if len(shape) < 3 or kernel is None:
        raise Misfit(f"'kernel_shape' is {kernel} for {format_shape(shape)}")
    over = window(call, kernel, len(shape) - 2)
    if call.has(2):
        stated = tuple(call.numbers(2))
        if len(stated) != len(shape):
            raise Misfit(f"output_shape {format_shape(stated)} for {format_shape(shape)}")
        return [TensorSize(stated, call.dtype(0))]
    inner = ((dim - 1) * over.strides[k] + over.extent(k) - over.padded(k) for k, dim in enumerate(shape[2:]))
    return [TensorSize((*shape[:2], *inner), call.dtype(0))]


def global_pool(call: Call) -> list[TensorSize]:
    """Return the size of GlobalAveragePool, GlobalLpPool and GlobalMaxPool: every spatial dimension becomes 1."""
    shape = call.shape(0)
    if len(shape) < 3:
        raise Misfit(f"{format_shape(shape)} has no spatial dimension")
    return [TensorSize((*shape[:2], *[1] * (len(shape) - 2)), call.dtype(0))]


def causal_conv(call: Call) -> list[TensorSize]:
    """Return the sizes of CausalConvWithState: depthwise over [batch, channels, length].

    The state has kernel - 1 positions.
    """
    batch, channels, _ = call.shape(0, 3)
    same_shape(call.shape(1, 3)[:2], (channels, 1), "weights and channels")
    state: Shape = (batch, channels, call.shape(1)[2] - 1)
    if call.has(3):
        same_shape(call.shape(3), state, "the past state")
    if call.has(2):
        same_shape(call.shape(2), (channels,), "the bias and the channels")
    return [call.size(0), TensorSize(state, call.one_type())]
