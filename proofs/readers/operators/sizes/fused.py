"""Compute sizes for the operators that ONNX Runtime writes when it optimizes for the CPU, by its documentation.

In `com.microsoft.nchwc` channels come in blocks: a dimension of channels is a whole number of blocks, and all else is
as in ONNX's layout. In `com.ms.internal.nhwc`, and with the attribute `channels_last`, channels come last.
"""

from __future__ import annotations

from proofs.readers.operators.sizes.call import (
    Call,
    Misfit,
    NotKnown,
    Shape,
    TensorSize,
    axis_of,
    broadcast,
    format_shape,
    same,
    same_shape,
)
from proofs.readers.operators.sizes.windows import convolution_shape, pool_shape
from tmmu.core.dims.expressions import Dim
from tmmu.core.dims.operations import divide_up


def _channels_first(shape: Shape) -> Shape:
    """Return the shape of a tensor with its last dimension moved behind the first."""
    if len(shape) < 3:
        raise Misfit(f"{format_shape(shape)} has no spatial dimension")
    return (shape[0], shape[-1], *shape[1:-1])


def _channels_last(shape: Shape) -> Shape:
    return (shape[0], *shape[2:], shape[1])


def _is_last(call: Call) -> bool:
    return bool(call.attribute("channels_last", 0))


def _data(call: Call, last: bool) -> Shape:
    """Return the shape of operand 0 in ONNX's layout."""
    found = _channels_first(call.shape(0))
    return found if last else call.shape(0)


def reorder_input(call: Call) -> list[TensorSize]:
    """Return the size of ReorderInput: channels filled up to whole blocks of the size that this CPU has."""
    shape = _data(call, _is_last(call))
    if call.block < 1:
        raise NotKnown("the number of channels in a block is not known")
    return [TensorSize((shape[0], divide_up(shape[1], call.block) * call.block, *shape[2:]), call.dtype(0))]


def reorder_output(call: Call) -> list[TensorSize]:
    """Return the size of ReorderOutput: the channels that it states, of no more than one block less."""
    shape, channels = call.shape(0), call.attribute("channels", 0)
    if len(shape) < 3 or type(channels) is not int or channels < 1:
        raise Misfit(f"{channels} channels of {format_shape(shape)}")
    if call.block > 0:
        same(shape[1], -(-channels // call.block) * call.block, "channels in whole blocks")
    found = (shape[0], channels, *shape[2:])
    return [TensorSize(_channels_last(found) if _is_last(call) else found, call.dtype(0))]


def conv(call: Call) -> list[TensorSize]:
    """Return the size of FusedConv, and of Conv in blocks: what it adds has the size of the result."""
    return [_fused(call, convolution_shape(call, call.shape(0), call.shape(1)))]


def nhwc_conv(call: Call) -> list[TensorSize]:
    """Return the size of NhwcFusedConv: its weights are in ONNX's layout."""
    return [_fused(call, _channels_last(convolution_shape(call, _data(call, True), call.shape(1))))]


def _fused(call: Call, found: Shape) -> TensorSize:
    if call.has(3):
        same_shape(call.shape(3), found, "what is added and the result")
    return TensorSize(found, call.one_type())


def quantized_conv(call: Call) -> list[TensorSize]:
    """Return the size of QLinearConv, which has more layouts than that of ai.onnx."""
    last = _is_last(call)
    found = convolution_shape(call, _data(call, last), call.shape(3))
    return [TensorSize(_channels_last(found) if last else found, call.dtype(7))]


def pool(call: Call) -> list[TensorSize]:
    """Return the size of a pool; ONNX Runtime begins no window behind the data, whatever the version."""
    return _pooled(call, _is_last(call))


def nhwc_pool(call: Call) -> list[TensorSize]:
    """Return the size of a pool of channels that come last."""
    return _pooled(call, True)


def _pooled(call: Call, last: bool) -> list[TensorSize]:
    found = pool_shape(call, _data(call, last), begins_in_data=True)
    return [TensorSize(_channels_last(found) if last else found, call.dtype(0))]


def global_pool(call: Call) -> list[TensorSize]:
    """Return the size of a global pool: every spatial dimension becomes 1."""
    return _pooled_whole(call, _is_last(call))


def nhwc_global_pool(call: Call) -> list[TensorSize]:
    """Return the size of a global pool of channels that come last."""
    return _pooled_whole(call, True)


def _pooled_whole(call: Call, last: bool) -> list[TensorSize]:
    shape = _data(call, last)
    found: Shape = (*shape[:2], *[1] * len(shape[2:]))
    return [TensorSize(_channels_last(found) if last else found, call.dtype(0))]


def upsample(call: Call) -> list[TensorSize]:
    """Return the size of Upsample in blocks: each dimension times its scale."""
    shape, scales = call.shape(0), call.attribute("scales", [])
    if len(scales) != len(shape) or any(scale < 1 for scale in scales):
        raise Misfit(f"scales {scales} for {format_shape(shape)}")
    return [TensorSize(tuple(scale * dim for scale, dim in zip(scales, shape, strict=True)), call.dtype(0))]


def _matrices(call: Call, other: int) -> Shape:
    a, b = call.shape(0, 2), call.shape(other, 2)
    m, k = (a[1], a[0]) if call.attribute("transA", 0) else a
    inner, n = (b[1], b[0]) if call.attribute("transB", 0) else b
    same(k, inner, f"inner dimensions of {format_shape(a)} and {format_shape(b)}")
    return (m, n)


def gemm(call: Call) -> list[TensorSize]:
    """Return the size of FusedGemm: as Gemm."""
    return [TensorSize(_matrices(call, 1), call.one_type())]


def quantized_gemm(call: Call) -> list[TensorSize]:
    """Return the size of QGemm: the zero point's type, or floats where the result is not quantized."""
    return [TensorSize(_matrices(call, 3), call.dtype(8) if call.has(8) else "float32")]


def quantized_concat(call: Call) -> list[TensorSize]:
    """Return the size of QLinearConcat: scale and zero point of the result, then each operand with its own."""
    count = len(call.operands) - 2
    if count < 3 or count % 3:
        raise Misfit(f"it has {len(call.operands)} operands")
    shapes = [call.shape(k) for k in range(2, len(call.operands), 3)]
    rank = len(shapes[0])
    axis = axis_of(call.attribute("axis"), rank)
    total: Dim = 0
    for shape in shapes:
        same_shape((*shape[:axis], *shape[axis + 1 :]), (*shapes[0][:axis], *shapes[0][axis + 1 :]), "the operands")
        total = total + shape[axis]
    return [TensorSize((*shapes[0][:axis], total, *shapes[0][axis + 1 :]), call.dtype(1))]


def quantized_where(call: Call) -> list[TensorSize]:
    """Return the size of QLinearWhere: condition, and both choices with scale and zero point, broadcast."""
    return [TensorSize(broadcast(call.shape(0), call.shape(1), call.shape(4)), call.dtype(1))]
