"""Operators on int8 and uint8, with scales and zero points; sums are int32, and each result is rounded once.

An integer result is sum * (a_scale * b_scale / y_scale), with the factor in float and the product in double, rounded to
nearest, ties to even, plus the zero point, and clamped to its type: bit for bit that of onnx's reference evaluator.
spec: MC4.8
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from tmmu.mico.kernels.functions import TEMPLATES
from tmmu.mico.kernels.node import KernelCall, NodeCall, NoKernel, Operand, broadcast
from tmmu.mico.kernels.products import conv_fields, convolution, product_arguments, struct

BYTES = ("int8", "uint8")
RANGES = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767), "uint16": (0, 65535)}

TEMPLATES["quantize_linear"] = """\
/* Element i has scale and zero point number i / inner % channels; a zero point that is NULL is 0. */
void $name(uint8_t *y, const uint8_t *x, const uint8_t *scale, const uint8_t *zero, size_t count, size_t channels,
    size_t inner, double low, double high)
{
    for (size_t i = 0; i < count; i++) {
        size_t channel = i / inner % channels;
        double value = (double)rintf(load_$s(x, i) / load_f32(scale, channel));
        value += zero == NULL ? 0 : (double)load_$s2(zero, channel);
        store_$s2(y, i, ($T2)(value >= low ? value <= high ? value : high : low));
    }
}
"""

TEMPLATES["dequantize_linear"] = """\
/* Element i has scale and zero point number i / inner % channels; a zero point that is NULL is 0. */
void $name(uint8_t *y, const uint8_t *x, const uint8_t *scale, const uint8_t *zero, size_t count, size_t channels,
    size_t inner)
{
    for (size_t i = 0; i < count; i++) {
        size_t channel = i / inner % channels;
        float value = (float)load_$s(x, i) - (zero == NULL ? 0 : (float)load_$s(zero, channel));
        store_f32(y, i, value * load_f32(scale, channel));
    }
}
"""

TEMPLATES["dynamic_quantize_linear"] = """\
void $name(uint8_t *y, uint8_t *scale_out, uint8_t *zero_out, const uint8_t *x, size_t count)
{
    float low = 0, high = 0;
    for (size_t i = 0; i < count; i++) {
        low = fminf(low, load_f32(x, i));
        high = fmaxf(high, load_f32(x, i));
    }
    float scale = (low == high ? 1 : high - low) / 255;
    float zero = rintf(fmaxf(0, fminf(255, 0 - low / scale)));
    for (size_t i = 0; i < count; i++) {
        store_u8(y, i, (uint8_t)fmaxf(0, fminf(255, rintf(load_f32(x, i) / scale) + zero)));
    }
    store_f32(scale_out, 0, scale);
    store_u8(zero_out, 0, (uint8_t)zero);
}
"""

_CONV = partial(
    convolution,
    term="""\
((int32_t)load_$s(x, from + kx * c->dilation_x) - x_off)
                                    * ((int32_t)load_$s2(weight, tap + kx) - w_off)""",
    per_filter="""\
            int32_t x_off = x_zero == NULL ? 0 : (int32_t)load_$s(x_zero, 0);
            int32_t w_off = w_zero == NULL ? 0 : (int32_t)load_$s2(w_zero, filter * w_zero_step);
""",
)

TEMPLATES["conv_integer"] = """\
void $name(uint8_t *y, const uint8_t *x, const uint8_t *weight, const uint8_t *x_zero, const uint8_t *w_zero,
    size_t w_zero_step, const $Conv *c)
""" + _CONV("int32_t sum = 0", end="store_i32(y, y_at, sum);")

TEMPLATES["qlinear_conv"] = """\
/* Scales and zero points of filters are steps apart: 0 if all filters share one. */
void $name(uint8_t *y, const uint8_t *x, const uint8_t *x_scale, const uint8_t *x_zero, const uint8_t *weight,
    const uint8_t *w_scale, size_t w_scale_step, const uint8_t *w_zero, size_t w_zero_step, const uint8_t *y_scale,
    const uint8_t *y_zero, const uint8_t *bias, double low, double high, const $Conv *c)
""" + _CONV(
    "int32_t sum = bias == NULL ? 0 : load_i32(bias, filter)",
    end="""\
float factor = load_f32(x_scale, 0) * load_f32(w_scale, filter * w_scale_step) / load_f32(y_scale, 0);
                    double value = rint((double)sum * (double)factor + (double)load_$s3(y_zero, 0));
                    store_$s3(y, y_at, ($T3)(value >= low ? value <= high ? value : high : low));""",
)

PART = 256
"""The most taps of a pixel that are gathered at a time: a convolution of int8 takes this part of a few pixels."""

TEMPLATES["qlinear_conv_gathered"] = """\
/* Zero points of filters are 0, and scales steps apart: 0 if all filters share one. Taps of four pixels are gathered
   a part at a time, without the zero point, and multiplied by all filters of a block. */
void $name(uint8_t *y, const uint8_t *x, const uint8_t *x_scale, const uint8_t *x_zero, const uint8_t *weight,
    const uint8_t *w_scale, size_t w_scale_step, const uint8_t *y_scale, const uint8_t *y_zero, const uint8_t *bias,
    double low, double high, const $Conv *c)
{
    int16_t part[4 * 256];
    int32_t sum[4 * 64];
    size_t taps = c->kernel_height * c->kernel_width, plane = c->out_height * c->out_width;
    for (size_t n = 0; n < c->batch * c->groups; n++) {
        for (size_t block = 0; block < c->filters; block += 64) {
            size_t width = c->filters - block < 64 ? c->filters - block : 64;
            size_t first = n % c->groups * c->filters + block, y_first = n * c->filters + block;
            for (size_t pixel = 0, pixels; pixel < plane; pixel += pixels) {
                pixels = plane - pixel < 4 ? 1 : 4;
                for (size_t k = 0; k < 4 * width; k++) {
                    sum[k] = bias == NULL ? 0 : load_i32(bias, first + k / 4);
                }
                for (size_t channel = 0, channels; channel < c->channels; channel += channels) {
                    channels = 256 / taps < c->channels - channel ? 256 / taps : c->channels - channel;
                    size_t count = channels * taps;
                    for (size_t p = 0; p < pixels; p++) {
                        int32_t x_off = (int32_t)load_$s(x_zero, 0);
                        size_t top = (pixel + p) / c->out_width * c->stride_y;
                        size_t left = (pixel + p) % c->out_width * c->stride_x;
                        size_t ky_first = first_tap(top, c->pad_top, c->dilation_y);
                        size_t ky_end = end_tap(top, c->pad_top, c->dilation_y, c->height, c->kernel_height);
                        size_t kx_first = first_tap(left, c->pad_left, c->dilation_x);
                        size_t kx_end = end_tap(left, c->pad_left, c->dilation_x, c->width, c->kernel_width);
                        memset(part + p * 256, 0, count * sizeof *part);
                        for (size_t k = 0; k < channels; k++) {
                            for (size_t ky = ky_first; ky < ky_end; ky++) {
                                size_t iy = (n * c->channels + channel + k) * c->height + top + ky * c->dilation_y;
                                size_t from = (iy - c->pad_top) * c->width + left - c->pad_left;
                                size_t to = p * 256 + (k * c->kernel_height + ky) * c->kernel_width;
                                for (size_t kx = kx_first; kx < kx_end; kx++) {
                                    int32_t value = (int32_t)load_$s(x, from + kx * c->dilation_x) - x_off;
                                    part[to + kx] = (int16_t)value;
                                }
                            }
                        }
                    }
                    for (size_t f = 0; f < width; f++) {
                        size_t tap = ((first + f) * c->channels + channel) * taps;
                        int32_t sum_0 = 0, sum_1 = 0, sum_2 = 0, sum_3 = 0;
                        if (pixels == 1) {
                            for (size_t k = 0; k < count; k++) {
                                sum_0 += part[k] * (int16_t)load_$s2(weight, tap + k);
                            }
                        } else {
                            for (size_t k = 0; k < count; k++) {
                                int16_t w = (int16_t)load_$s2(weight, tap + k);
                                sum_0 += part[k] * w;
                                sum_1 += part[256 + k] * w;
                                sum_2 += part[512 + k] * w;
                                sum_3 += part[768 + k] * w;
                            }
                        }
                        sum[4 * f] += sum_0;
                        sum[4 * f + 1] += sum_1;
                        sum[4 * f + 2] += sum_2;
                        sum[4 * f + 3] += sum_3;
                    }
                }
                for (size_t f = 0; f < width; f++) {
                    float factor = load_f32(x_scale, 0) * load_f32(w_scale, (first + f) * w_scale_step);
                    factor /= load_f32(y_scale, 0);
                    for (size_t p = 0; p < pixels; p++) {
                        double value = rint((double)sum[4 * f + p] * (double)factor + (double)load_$s3(y_zero, 0));
                        value = value >= low ? value <= high ? value : high : low;
                        store_$s3(y, (y_first + f) * plane + pixel + p, ($T3)value);
                    }
                }
            }
        }
    }
}
"""

_PRODUCT = """\
{
    size_t count = product(rank, batch);
    int32_t a_off = a_zero == NULL ? 0 : (int32_t)load_$s(a_zero, 0);
    for (size_t m = 0; m < count; m++) {
        size_t at_a = place(m, rank, batch, a_steps) * rows * inner;
        size_t at_b = place(m, rank, batch, b_steps) * inner * columns;
        for (size_t i = 0; i < rows; i++) {
            for (size_t j = 0; j < columns; j++) {
                int32_t sum = 0, b_off = b_zero == NULL ? 0 : (int32_t)load_$s2(b_zero, j * b_zero_step);
                for (size_t k = 0; k < inner; k++) {
                    sum += ((int32_t)load_$s(a, at_a + i * inner + k) - a_off)
                        * ((int32_t)load_$s2(b, at_b + k * columns + j) - b_off);
                }
                END
            }
        }
    }
}
"""

TEMPLATES["mat_mul_integer"] = """\
void $name(uint8_t *y, const uint8_t *a, const uint8_t *b, size_t rank, const size_t *batch, const size_t *a_steps,
    const size_t *b_steps, size_t rows, size_t inner, size_t columns, const uint8_t *a_zero, const uint8_t *b_zero,
    size_t b_zero_step)
""" + _PRODUCT.replace("END", "store_i32(y, (m * rows + i) * columns + j, sum);")

TEMPLATES["qlinear_mat_mul"] = """\
/* Scales and zero points of columns are steps apart: 0 if all columns share one. */
void $name(uint8_t *y, const uint8_t *a, const uint8_t *b, size_t rank, const size_t *batch, const size_t *a_steps,
    const size_t *b_steps, size_t rows, size_t inner, size_t columns, const uint8_t *a_zero, const uint8_t *b_zero,
    size_t b_zero_step, const uint8_t *a_scale, const uint8_t *b_scale, size_t b_scale_step, const uint8_t *y_scale,
    const uint8_t *y_zero, double low, double high)
""" + _PRODUCT.replace(
    "END",
    """\
float factor = load_f32(a_scale, 0) * load_f32(b_scale, j * b_scale_step) / load_f32(y_scale, 0);
                double value = rint((double)sum * (double)factor + (double)load_$s3(y_zero, 0));
                value = value >= low ? value <= high ? value : high : low;
                store_$s3(y, (m * rows + i) * columns + j, ($T3)value);""",
)

TEMPLATES["qlinear_add"] = """\
/* Operands are broadcast; each is scaled to the steps of the result. */
void $name(uint8_t *y, const uint8_t *a, const uint8_t *a_scale, const uint8_t *a_zero, const uint8_t *b,
    const uint8_t *b_scale, const uint8_t *b_zero, const uint8_t *y_scale, const uint8_t *y_zero, size_t rank,
    const size_t *shape, const size_t *a_steps, const size_t *b_steps, double low, double high)
{
    size_t rows = product(rank - 1, shape), width = shape[rank - 1];
    double a_factor = (double)(load_f32(a_scale, 0) / load_f32(y_scale, 0));
    double b_factor = (double)(load_f32(b_scale, 0) / load_f32(y_scale, 0));
    int32_t a_off = a_zero == NULL ? 0 : (int32_t)load_$s(a_zero, 0);
    int32_t b_off = b_zero == NULL ? 0 : (int32_t)load_$s(b_zero, 0);
    double y_off = y_zero == NULL ? 0 : (double)load_$s(y_zero, 0);
    for (size_t row = 0; row < rows; row++) {
        size_t at_a = place(row, rank - 1, shape, a_steps), at_b = place(row, rank - 1, shape, b_steps);
        for (size_t k = 0; k < width; k++) {
            int32_t left = (int32_t)load_$s(a, at_a + k * a_steps[rank - 1]) - a_off;
            int32_t right = (int32_t)load_$s(b, at_b + k * b_steps[rank - 1]) - b_off;
            double value = rint(left * a_factor + right * b_factor + y_off);
            store_$s(y, row * width + k, ($T)(value >= low ? value <= high ? value : high : low));
        }
    }
}
"""


def _code(operand: Operand | None) -> str:
    return "NULL" if operand is None else operand.code


def _single(operand: Operand | None) -> str:
    """Return the code of a scale or zero point of a whole tensor. Raises NoKernel for several."""
    if operand is not None and operand.count != 1:
        raise NoKernel(f"it has no kernel for {operand.count} scales or zero points of one operand")
    return _code(operand)


def _step(operand: Operand | None, count: int) -> str:
    """Return the distance of the scales or zero points of filters or columns."""
    if operand is None or operand.count == 1:
        return "0"
    if operand.count != count or max(operand.shape) != count:
        raise NoKernel(f"it has no kernel for {operand.count} scales or zero points of {count}")
    return "1"


def _by_axis(node: NodeCall, scale: Operand, zero: Operand | None) -> tuple[str, str, str]:
    """Return the number of elements, that of scales, and the number of consecutive elements that share one."""
    x = node.x
    if node.get("block_size", 0):
        raise NoKernel("it has no kernel for blocks")
    if zero is not None and zero.count != scale.count:
        raise NoKernel("it has no kernel for other zero points than scales")
    if scale.count == 1:
        return str(x.count), "1", str(max(1, x.count))
    axis = node.axis(node.get("axis", 1))
    if scale.count != x.shape[axis]:
        raise NoKernel(f"it has no kernel for {scale.count} scales of {x.shape[axis]}")
    return str(x.count), str(scale.count), str(math.prod(x.shape[axis + 1 :]))


def quantize_linear(node: NodeCall) -> list[KernelCall]:
    """Return the call of QuantizeLinear of float32, of a tensor or along an axis."""
    x, y, scale, zero = node.x, node.y, node.needed(1), node.operand(2)
    node.of_type(scale, ("float32",))
    if node.get("precision", 0) not in (0, 1):
        raise NoKernel("it has no kernel for divisions in another type than float32")
    types = node.of_type(x, ("float32",)), node.of_type(y, tuple(RANGES))
    limits = (f"{limit}.0" for limit in RANGES[y.dtype])
    arguments = (y.code, x.code, scale.code, _code(zero), *_by_axis(node, scale, zero), *limits)
    return [KernelCall("quantize_linear", types, arguments)]


def dequantize_linear(node: NodeCall) -> list[KernelCall]:
    """Return the call of DequantizeLinear to float32, of a tensor or along an axis."""
    x, y, scale, zero = node.x, node.y, node.needed(1), node.operand(2)
    for operand in (y, scale):
        node.of_type(operand, ("float32",))
    types = (node.of_type(x, (*RANGES, "int32")),)
    arguments = (y.code, x.code, scale.code, _code(zero), *_by_axis(node, scale, zero))
    return [KernelCall("dequantize_linear", types, arguments)]


def dynamic_quantize_linear(node: NodeCall) -> list[KernelCall]:
    """Return the call of DynamicQuantizeLinear."""
    y, scale, zero = node.results
    if y is None or scale is None or zero is None:
        raise NoKernel("one of its results is left out")
    node.of_type(node.x, ("float32",))
    return [KernelCall("dynamic_quantize_linear", (), (y.code, scale.code, zero.code, node.x.code, str(node.x.count)))]


def conv_integer(node: NodeCall) -> list[KernelCall]:
    """Return the call of ConvInteger."""
    x, w, x_zero, w_zero = node.x, node.needed(1), node.operand(2), node.operand(3)
    types = node.of_type(x, BYTES), node.of_type(w, BYTES)
    fields = struct("Conv", conv_fields(node, x, w, node.y))
    zeros = (_single(x_zero), _code(w_zero), _step(w_zero, w.shape[0]))
    return [KernelCall("conv_integer", types, (node.y.code, x.code, w.code, *zeros, fields))]


def qlinear_conv(node: NodeCall) -> list[KernelCall]:
    """Return the call of QLinearConv, with one scale for the weights or one for each filter."""
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = (node.needed(k) for k in range(8))
    y, bias = node.y, node.operand(8)
    types = node.of_type(x, BYTES), node.of_type(w, BYTES), node.of_type(y, BYTES)
    fields, zeros = conv_fields(node, x, w, y), w_zero.value()
    is_gathered = zeros is not None and not np.any(zeros) and fields["filters"] > 1 and math.prod(w.shape[2:]) <= PART
    steps = () if is_gathered else (w_zero.code, _step(w_zero, w.shape[0]))
    arguments = (
        y.code, x.code, _single(x_scale), _single(x_zero), w.code, w_scale.code, _step(w_scale, w.shape[0]), *steps,
        _single(y_scale), _single(y_zero), _code(bias), *(f"{limit}.0" for limit in RANGES[y.dtype]),
        struct("Conv", fields),
    )  # fmt: skip
    return [KernelCall("qlinear_conv_gathered" if is_gathered else "qlinear_conv", types, arguments)]


def mat_mul_integer(node: NodeCall) -> list[KernelCall]:
    """Return the call of MatMulInteger, with one zero point for the second operand or one for each column."""
    a, b, a_zero, b_zero = node.x, node.needed(1), node.operand(2), node.operand(3)
    types = node.of_type(a, BYTES), node.of_type(b, BYTES)
    zeros = (_single(a_zero), _code(b_zero), _step(b_zero, b.shape[-1]))
    return [KernelCall("mat_mul_integer", types, (*product_arguments(node.y, a, b), *zeros))]


def qlinear_mat_mul(node: NodeCall) -> list[KernelCall]:
    """Return the call of QLinearMatMul, with one scale for the second operand or one for each column."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = (node.needed(k) for k in range(8))
    y, columns = node.y, b.shape[-1]
    for scale in (a_scale, b_scale, y_scale):
        node.of_type(scale, ("float32",))
    types = node.of_type(a, BYTES), node.of_type(b, BYTES), node.of_type(y, BYTES)
    arguments = (
        *product_arguments(y, a, b), _single(a_zero), b_zero.code, _step(b_zero, columns), _single(a_scale),
        b_scale.code, _step(b_scale, columns), _single(y_scale), _single(y_zero),
        *(f"{limit}.0" for limit in RANGES[y.dtype]),
    )  # fmt: skip
    return [KernelCall("qlinear_mat_mul", types, arguments)]


def qlinear_add(node: NodeCall) -> list[KernelCall]:
    """Return the call of QLinearAdd of ONNX Runtime, whose operands are broadcast. spec: MC4.9"""
    a, a_scale, b, b_scale, y_scale = (node.needed(k) for k in (0, 1, 3, 4, 6))
    for scale in (a_scale, b_scale, y_scale):
        node.of_type(scale, ("float32",))
    arguments = (
        node.y.code, a.code, _single(a_scale), _single(node.operand(2)), b.code, _single(b_scale),
        _single(node.operand(5)), _single(y_scale), _single(node.operand(7)), *broadcast(node.y.shape, a, b),
        *(f"{limit}.0" for limit in RANGES[node.of_type(a, BYTES)]),
    )  # fmt: skip
    return [KernelCall("qlinear_add", (a.dtype,), arguments)]


RULES: dict[str, Callable[[NodeCall], list[KernelCall]]] = {
    "QuantizeLinear": quantize_linear,
    "DequantizeLinear": dequantize_linear,
    "DynamicQuantizeLinear": dynamic_quantize_linear,
    "ConvInteger": conv_integer,
    "QLinearConv": qlinear_conv,
    "MatMulInteger": mat_mul_integer,
    "QLinearMatMul": qlinear_mat_mul,
    "com.microsoft.QLinearAdd": qlinear_add,
}
