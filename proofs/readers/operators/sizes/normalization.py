"""Compute sizes for normalizations and quantization: like operand 0, with statistics, scales and zero points."""

from __future__ import annotations

from proofs.readers.operators.sizes.call import (
    Call,
    Misfit,
    Shape,
    TensorSize,
    axis_of,
    broadcast_to,
    element_type,
    format_shape,
    same,
    same_shape,
)
from tmmu.core.dims.expressions import Dim


def batch(call: Call) -> list[TensorSize]:
    """Return the sizes of BatchNormalization: scale, bias, mean and variance have one number a channel.

    Statistics are results only in training.
    """
    shape = call.shape(0)
    # Without channels there is one channel, by the text since version 9.
    channels: Dim = shape[1] if len(shape) > 1 else 1
    per: Shape = (channels,)
    if call.since == 7 and not call.attribute("spatial", 1):
        per = shape[1:]
    for k in range(1, 5):
        same_shape(call.shape(k), per, f"operand {k} and the channels")
    if call.since >= 14:
        if call.results > 1 and not call.attribute("training_mode", 0):
            raise Misfit("statistics are results only in training")
        return [call.size(0), call.size(3), call.size(4)]
    return [call.size(0), *(call.size(k) for k in (3, 4, 3, 4))]


def per_channel(call: Call) -> list[TensorSize]:
    """Return the size of InstanceNormalization: scale and bias have a number for each channel."""
    shape = call.shape(0)
    if len(shape) < 3:
        raise Misfit(f"{format_shape(shape)} has no spatial dimension")
    for k in (1, 2):
        same_shape(call.shape(k), shape[1:2], f"operand {k} and the channels")
    return [call.size(0)]


def group(call: Call) -> list[TensorSize]:
    """Return the size of GroupNormalization: scale and bias for each group in version 18, for each channel since 21."""
    shape, groups = call.shape(0), call.attribute("num_groups", 0)
    if len(shape) < 3 or groups < 1 or (isinstance(shape[1], int) and shape[1] % groups):
        raise Misfit(f"{groups} groups for {format_shape(shape)}")
    for k in (1, 2):
        same(call.shape(k, 1)[0], groups if call.since < 21 else shape[1], f"operand {k}")
    return [call.size(0)]


def layer(call: Call) -> list[TensorSize]:
    """Return the sizes of LayerNormalization.

    Statistics have 1 for each normalized axis, and the type of the accumulation.
    """
    shape = call.shape(0)
    axis = axis_of(call.attribute("axis", -1), len(shape))
    for k in (1, 2):
        if call.has(k):
            broadcast_to(call.shape(k), shape)
    kept: Shape = (*shape[:axis], *[1] * (len(shape) - axis))
    statistic = TensorSize(kept, element_type(call.attribute("stash_type", 1)))
    return [call.size(0), statistic, statistic]


def rms(call: Call) -> list[TensorSize]:
    """Return the size of RMSNormalization: the scale broadcasts to the operand, and the result has the scale's type."""
    shape = call.shape(0)
    axis_of(call.attribute("axis", -1), len(shape))
    broadcast_to(call.shape(1), shape)
    return [TensorSize(shape, call.dtype(1))]


def like(call: Call) -> list[TensorSize]:
    """Return the size of LRN and MeanVarianceNormalization: like the operand."""
    if call.node.op_type == "LRN" and len(call.shape(0)) < 2:
        raise Misfit(f"{format_shape(call.shape(0))} has no channels")
    return [call.size(0)]


def quantize(call: Call) -> list[TensorSize]:
    """Return the size of QuantizeLinear: the type of the zero point, of the attribute since version 21, or uint8."""
    _granularity(call)
    stated = call.attribute("output_dtype", 0)
    if call.has(2):
        if stated and element_type(stated) != call.dtype(2):
            raise Misfit(f"output_dtype is {element_type(stated)} and the zero point {call.dtype(2)}")
        return [TensorSize(call.shape(0), call.dtype(2))]
    return [TensorSize(call.shape(0), element_type(stated) if stated else "uint8")]


def dequantize(call: Call) -> list[TensorSize]:
    """Return the size of DequantizeLinear: the scale's type, or the attribute's since version 23."""
    _granularity(call)
    if call.has(2):
        call.one_type(0, 2)
    stated = call.attribute("output_dtype", 0)
    if call.since < 19 and call.dtype(1) != "float32":
        raise Misfit(f"a scale of {call.dtype(1)}")
    return [TensorSize(call.shape(0), element_type(stated) if stated else call.dtype(1))]


def _granularity(call: Call) -> None:
    """Check that there is one scale in all, one for each slice of an axis, or one for each block along an axis."""
    shape, scale = call.shape(0), call.shape(1)
    # Both forms of one element are in use: onnx's own tests have a list of one and a scalar.
    if call.has(2) and not (call.shape(2) in ((), (1,)) and scale in ((), (1,))):
        same_shape(call.shape(2), scale, "zero point and scale")
    if scale in ((), (1,)):
        return
    axis = axis_of(call.attribute("axis", 1), len(shape)) if call.since >= 13 else None
    if axis is None:
        raise Misfit(f"a scale of {format_shape(scale)}")
    if len(scale) == 1:
        same(scale[0], shape[axis], "scales and slices")
    elif len(scale) != len(shape) or not call.attribute("block_size", 0):
        raise Misfit(f"scales {format_shape(scale)} for {format_shape(shape)}")
    else:
        same_shape((*scale[:axis], *scale[axis + 1 :]), (*shape[:axis], *shape[axis + 1 :]), "scales and operand")


def dynamic(call: Call) -> list[TensorSize]:
    """Return the sizes of DynamicQuantizeLinear: bytes, their scale and their zero point."""
    if call.dtype(0) != "float32":
        raise Misfit(f"an operand of {call.dtype(0)}")
    return [TensorSize(call.shape(0), "uint8"), TensorSize((), "float32"), TensorSize((), "uint8")]


def optimizer(call: Call) -> list[TensorSize]:
    """Return the sizes of Adagrad, Adam and Momentum: new tensors and states.

    The operands are rate and count, then tensors, gradients and states.
    """
    groups = {"Adagrad": 3, "Adam": 4, "Momentum": 3}[call.node.op_type]
    count = (len(call.operands) - 2) // groups
    if count < 1 or len(call.operands) != 2 + count * groups:
        raise Misfit(f"{len(call.operands)} operands for groups of {groups}")
    first = [call.size(2 + k) for k in range(count)]
    for group in range(1, groups):
        for k, size in enumerate(first):
            same_shape(size.shape, call.shape(2 + group * count + k), "a tensor with its gradient and states")
    return [call.size(2 + group * count + k) for group in range(groups) if group != 1 for k in range(count)]
