"""Pooling: MaxPool, AveragePool, and their global forms. spec: MC4.3"""

from __future__ import annotations

import math
from collections.abc import Callable

from tmmu.mico.kernels.functions import STRUCTS, TEMPLATES
from tmmu.mico.kernels.node import FLOATS, NUMBERS, KernelCall, NodeCall, NoKernel
from tmmu.mico.kernels.products import struct, window

STRUCTS["Window"] = """\
/* A window that moves over each plane. */
typedef struct {
    size_t planes, height, width, out_height, out_width;
    size_t kernel_height, kernel_width, stride_y, stride_x, dilation_y, dilation_x;
    size_t pad_top, pad_left, pad_bottom, pad_right;
} $Window;
"""

TEMPLATES["max_pool"] = """\
/* Indices, if not NULL, are the places of the maxima in x. */
void $name(uint8_t *y, uint8_t *indices, const uint8_t *x, const $Window *w)
{
    size_t y_at = 0;
    for (size_t plane = 0; plane < w->planes; plane++) {
        for (size_t oy = 0; oy < w->out_height; oy++) {
            for (size_t ox = 0; ox < w->out_width; ox++) {
                $T most = 0;
                size_t at = (size_t)-1;
                for (size_t ky = 0; ky < w->kernel_height; ky++) {
                    size_t iy = oy * w->stride_y + ky * w->dilation_y - w->pad_top;
                    for (size_t kx = 0; kx < w->kernel_width; kx++) {
                        size_t ix = ox * w->stride_x + kx * w->dilation_x - w->pad_left;
                        if (iy >= w->height || ix >= w->width) {
                            continue; /* in the padding, on either side: the difference wraps around */
                        }
                        size_t x_at = (plane * w->height + iy) * w->width + ix;
                        $T value = load_$s(x, x_at);
                        if (at == (size_t)-1 || value > most) {
                            most = value;
                            at = x_at;
                        }
                    }
                }
                store_$s(y, y_at, most);
                if (indices != NULL) {
                    store_i64(indices, y_at, (int64_t)at);
                }
                y_at++;
            }
        }
    }
}
"""

TEMPLATES["average_pool"] = """\
/* If padding counts, the divisor is the part of the window that is within the padded plane. */
void $name(uint8_t *y, const uint8_t *x, const $Window *w, bool padding_counts)
{
    size_t y_at = 0;
    for (size_t plane = 0; plane < w->planes; plane++) {
        for (size_t oy = 0; oy < w->out_height; oy++) {
            for (size_t ox = 0; ox < w->out_width; ox++) {
                $T sum = 0;
                size_t count = 0;
                for (size_t ky = 0; ky < w->kernel_height; ky++) {
                    size_t iy = oy * w->stride_y + ky * w->dilation_y;
                    for (size_t kx = 0; kx < w->kernel_width; kx++) {
                        size_t ix = ox * w->stride_x + kx * w->dilation_x;
                        bool within = iy >= w->pad_top && iy - w->pad_top < w->height && ix >= w->pad_left
                            && ix - w->pad_left < w->width;
                        if (within) {
                            sum += load_$s(x, (plane * w->height + iy - w->pad_top) * w->width + ix - w->pad_left);
                        }
                        if (within || (padding_counts && iy < w->pad_top + w->height + w->pad_bottom
                                && ix < w->pad_left + w->width + w->pad_right)) {
                            count++;
                        }
                    }
                }
                store_$s(y, y_at, sum / ($T)count);
                y_at++;
            }
        }
    }
}
"""

TEMPLATES["global_average_pool"] = """\
void $name(uint8_t *y, const uint8_t *x, size_t planes, size_t area)
{
    for (size_t plane = 0; plane < planes; plane++) {
        $T sum = 0;
        for (size_t k = 0; k < area; k++) {
            sum += load_$s(x, plane * area + k);
        }
        store_$s(y, plane, sum / ($T)area);
    }
}
"""

TEMPLATES["global_max_pool"] = """\
void $name(uint8_t *y, const uint8_t *x, size_t planes, size_t area)
{
    for (size_t plane = 0; plane < planes; plane++) {
        $T most = load_$s(x, plane * area);
        for (size_t k = 1; k < area; k++) {
            $T value = load_$s(x, plane * area + k);
            most = value > most ? value : most;
        }
        store_$s(y, plane, most);
    }
}
"""


def _window(node: NodeCall) -> str:
    x, y = node.x, node.y
    fields = {"planes": math.prod(x.shape[:2])} | window(node, node.get("kernel_shape"), x.shape[2:], y.shape[2:])
    return struct("Window", fields)


def max_pool(node: NodeCall) -> list[KernelCall]:
    """Return the call of MaxPool over one or two dimensions, with the indices if they are a result."""
    indices = node.result(1)
    if indices is not None and node.get("storage_order", 0):
        raise NoKernel("it has no kernel for indices in the order of columns")
    arguments = (node.y.code, "NULL" if indices is None else indices.code, node.x.code, _window(node))
    return [KernelCall("max_pool", (node.of_type(node.x, NUMBERS),), arguments)]


def average_pool(node: NodeCall) -> list[KernelCall]:
    """Return the call of AveragePool over one or two dimensions."""
    counts = "true" if node.get("count_include_pad", 0) else "false"
    arguments = (node.y.code, node.x.code, _window(node), counts)
    return [KernelCall("average_pool", (node.of_type(node.x, FLOATS),), arguments)]


def global_pool(node: NodeCall) -> list[KernelCall]:
    """Return the call of GlobalAveragePool or GlobalMaxPool over any number of dimensions."""
    x, name = node.x, "global_average_pool" if node.op == "GlobalAveragePool" else "global_max_pool"
    arguments = (node.y.code, x.code, str(math.prod(x.shape[:2])), str(math.prod(x.shape[2:])))
    return [KernelCall(name, (node.of_type(x, FLOATS),), arguments)]


RULES: dict[str, Callable[[NodeCall], list[KernelCall]]] = {
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "GlobalAveragePool": global_pool,
    "GlobalMaxPool": global_pool,
}
