"""Rules for the operators that ONNX Runtime writes when it optimizes a graph for the CPU: fused, quantized, laid out.

Those of `com.microsoft.nchwc` work on tensors whose channels are in blocks: such a tensor has the shape of ONNX's
layout, with the channels rounded up to whole blocks. Others work on tensors whose channels come last. As in `runtimes`,
a size that a rule leaves open is None, and operands that do not fit raise `Unfit`. spec: T10.15, T10.16
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tmmu.core.dims.expressions import Dim
from tmmu.core.dims.operations import divide_up
from tmmu.onnx.rules import WINDOWS_BEGIN_IN_DATA_SINCE, NodeFacts, Shape, Unfit, broadcast, count_windows
from tmmu.onnx.runtimes import Found, dtype_of, require_rank


def _is_last(facts: NodeFacts) -> bool:
    return bool(facts.attribute("channels_last", 0))


def _split(shape: Shape, *, last: bool) -> tuple[Dim, Dim, Shape]:
    """Return the examples, the channels and the spatial dimensions of a tensor."""
    if len(shape) < 3:
        raise Unfit(f"expected a tensor with spatial dimensions, got {len(shape)} dimensions")
    return (shape[0], shape[-1], shape[1:-1]) if last else (shape[0], shape[1], shape[2:])


def _join(examples: Dim, channels: Dim, spatial: Sequence[Dim], *, last: bool) -> Shape:
    return (examples, *spatial, channels) if last else (examples, channels, *spatial)


def reorder_input(facts: NodeFacts) -> Found:
    """Return the size of a tensor put into blocks of channels."""
    examples, channels, spatial = _split(facts.shape(0), last=_is_last(facts))
    if facts.block < 1:
        return [None]
    return [((examples, divide_up(channels, facts.block) * facts.block, *spatial), dtype_of(facts, 0))]


def reorder_output(facts: NodeFacts) -> Found:
    """Return the size of a tensor taken out of blocks, with the stated number of channels."""
    examples, _, spatial = _split(facts.shape(0), last=False)
    channels = facts.attribute("channels")
    if type(channels) is not int or channels < 1:
        raise Unfit("it does not state its channels")
    return [(_join(examples, channels, spatial, last=_is_last(facts)), dtype_of(facts, 0))]


def _convolve(facts: NodeFacts, weight: int, *, last: bool) -> Shape:
    """Return the shape of a convolution with weights [filters, channels of a group, kernel]."""
    examples, channels, spatial = _split(facts.shape(0), last=last)
    filters, of_group, *kernel = facts.shape(weight)
    if len(kernel) != len(spatial) or of_group * facts.attribute("group", 1) != channels:
        raise Unfit(f"its weights have {of_group} channels in each group, and its operand {channels} channels")
    found = count_windows(facts, spatial, facts.attribute("kernel_shape") or kernel)
    return _join(examples, filters, found, last=last)


def conv(facts: NodeFacts) -> Found:
    """Return the size of a convolution with an activation, to which the fourth operand is added."""
    return [(_convolve(facts, 1, last=False), dtype_of(facts, 0))]


def conv_last(facts: NodeFacts) -> Found:
    """Return the size of the same of tensors whose channels come last."""
    return [(_convolve(facts, 1, last=True), dtype_of(facts, 0))]


def quantized_conv(facts: NodeFacts) -> Found:
    """Return the size of a convolution of integers, in the type of the zero point of the result."""
    return [(_convolve(facts, 3, last=_is_last(facts)), dtype_of(facts, 7))]


def _pool(facts: NodeFacts, *, last: bool) -> Found:
    examples, channels, spatial = _split(facts.shape(0), last=last)
    found = count_windows(replace(facts, version=WINDOWS_BEGIN_IN_DATA_SINCE), spatial, facts.attribute("kernel_shape"))
    return [(_join(examples, channels, found, last=last), dtype_of(facts, 0))]


def pool(facts: NodeFacts) -> Found:
    """Return the size of a pool, no window of which begins behind the data."""
    return _pool(facts, last=_is_last(facts))


def pool_last(facts: NodeFacts) -> Found:
    """Return the size of the same of a tensor whose channels come last."""
    return _pool(facts, last=True)


def _pool_whole(facts: NodeFacts, *, last: bool) -> Found:
    examples, channels, spatial = _split(facts.shape(0), last=last)
    return [(_join(examples, channels, [1] * len(spatial), last=last), dtype_of(facts, 0))]


def global_pool(facts: NodeFacts) -> Found:
    """Return the size of a number for each example and channel."""
    return _pool_whole(facts, last=_is_last(facts))


def global_pool_last(facts: NodeFacts) -> Found:
    """Return the size of the same of a tensor whose channels come last."""
    return _pool_whole(facts, last=True)


def upsample(facts: NodeFacts) -> Found:
    """Return the size of a tensor each dimension of which is multiplied."""
    shape, scales = facts.shape(0), facts.attribute("scales", ())
    if len(scales) != len(shape) or min(scales) < 1:
        raise Unfit(f"expected {len(shape)} scales from 1, got {list(scales)}")
    return [(tuple(dim * scale for dim, scale in zip(shape, scales, strict=True)), dtype_of(facts, 0))]


def _multiply(facts: NodeFacts, other: int) -> Shape:
    """Return the shape of a product of two matrices, each of which may be transposed."""
    a, b = require_rank(facts, 0, 2), require_rank(facts, other, 2)
    a, b = (
        shape[::-1] if facts.attribute(name, 0) else shape for name, shape in (("transA", a), ("transB", b))
    )  # fmt: skip
    if a[1] != b[0]:
        raise Unfit(f"{list(a)} and {list(b)} have no product")
    return (a[0], b[1])


def gemm(facts: NodeFacts) -> Found:
    """Return the size of a product of matrices with an activation."""
    return [(_multiply(facts, 1), dtype_of(facts, 0))]


def quantized_gemm(facts: NodeFacts) -> Found:
    """Return the size of a product of matrices of integers: floats if no zero point of the result is given."""
    return [(_multiply(facts, 3), dtype_of(facts, 8) if facts.has(8) else "float32")]


def quantized_concat(facts: NodeFacts) -> Found:
    """Return the size of tensors behind each other: after two operands, each third is one of them."""
    shapes = [facts.shape(k) for k in range(2, len(facts.node.input), 3)]
    axis = facts.attribute("axis")
    if not shapes or type(axis) is not int or not -len(shapes[0]) <= axis < len(shapes[0]):
        raise Unfit("it has no operands, or no axis of them")
    at, whole = axis % len(shapes[0]), [*shapes[0]]
    total: Dim = 0
    for shape in shapes:
        if (*shape[:at], *shape[at + 1 :]) != (*whole[:at], *whole[at + 1 :]):
            raise Unfit("its operands differ in another dimension")
        total = total + shape[at]
    whole[at] = total
    return [(tuple(whole), dtype_of(facts, 1))]


def quantized_where(facts: NodeFacts) -> Found:
    """Return the size of a condition and of what it chooses from, broadcast together."""
    return [(broadcast(facts.shape(0), facts.shape(1), facts.shape(4)), dtype_of(facts, 1))]
