"""Sums of products: Gemm, MatMul, Conv and ConvTranspose, by tiles of four rows or pixels and 16 columns or filters.

A tile is small enough for vector registers, and its loops have constant bounds, so compilers unroll and vectorize them.
spec: MC4.3, MC4.10, MC4.11, MC5.4
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from tmmu.mico.kernels.functions import STRUCTS, TEMPLATES
from tmmu.mico.kernels.node import (
    FLOATS,
    NUMBERS,
    Array,
    KernelCall,
    NodeCall,
    NoKernel,
    Operand,
    broadcast,
    number,
    sizes,
    strides,
)

BLOCK = 16
"""The filters of a convolution, or the columns of a product, that are summed side by side, in vector registers."""

TILE = 4
"""The pixels, or the rows, that share the load of a block of weights."""

PART = 64
"""The most taps of a pixel that are gathered at a time."""

_TILES = """\
        for (size_t j = 0; j < columns; j += 16) {
            size_t width = columns - j < 16 ? columns - j : 16;
            size_t from = FIRST, step = STEP;
            for (size_t i = 0, height; i < rows; i += height) {
                height = rows - i < 4 ? 1 : 4;
                $T sum[64] = {0};
                if (ACROSS != 1 || width < 16) {
                    for (size_t k = 0; k < inner; k++) {
                        for (size_t p = 0; p < height; p++) {
                            $T left = load_$s(a, LEFT(i + p));
                            for (size_t f = 0; f < width; f++) {
                                $T right = load_$s(b, from + k * step + f * ACROSS);
                                sum[p * 16 + f] = madd$f(left, right, sum[p * 16 + f]);
                            }
                        }
                    }
                } else if (height == 1) {
                    for (size_t k = 0; k < inner; k++) {
                        $T left = load_$s(a, LEFT(i));
                        for (size_t f = 0; f < 16; f++) {
                            sum[f] = madd$f(left, load_$s(b, from + k * step + f), sum[f]);
                        }
                    }
                } else {
                    for (size_t k = 0; k < inner; k++) {
                        $T a0 = load_$s(a, LEFT(i)), a1 = load_$s(a, LEFT(i + 1));
                        $T a2 = load_$s(a, LEFT(i + 2)), a3 = load_$s(a, LEFT(i + 3));
                        for (size_t f = 0; f < 16; f++) {
                            $T right = load_$s(b, from + k * step + f);
                            sum[f] = madd$f(a0, right, sum[f]);
                            sum[16 + f] = madd$f(a1, right, sum[16 + f]);
                            sum[32 + f] = madd$f(a2, right, sum[32 + f]);
                            sum[48 + f] = madd$f(a3, right, sum[48 + f]);
                        }
                    }
                }
                for (size_t p = 0; p < height; p++) {
                    for (size_t f = 0; f < width; f++) {
                        END
                    }
                }
            }
        }
"""


def _tiles(first: str, step: str, across: str, left: str, end: str) -> str:
    """Return the sums of a product by tiles; `left` is the element of `a` of row ROW and column k."""
    parts = {"FIRST": first, "STEP": step, "ACROSS": across, "END": end}
    text = re.sub("|".join(parts), lambda found: parts[found[0]], _TILES)
    return re.sub(r"LEFT\(([^)]*)\)", lambda found: left.replace("ROW", f"({found[1]})"), text)


TEMPLATES["gemm"] = (
    """\
/* y = alpha * a * b + beta * c, for y of [rows, columns]; elements of an operand are steps apart, down and across.
   A packed b has blocks of 16 columns, one after the other. */
void $name(uint8_t *y, const uint8_t *a, const uint8_t *b, const uint8_t *c, size_t rows, size_t inner,
    size_t columns, const size_t *a_steps, const size_t *b_steps, const size_t *c_steps, $T alpha, $T beta, bool packed)
{
    size_t across = packed ? 1 : b_steps[1];
"""
    + textwrap.indent(
        textwrap.dedent(
            _tiles(
                "packed ? j * inner : j * across",
                "packed ? width : b_steps[0]",
                "across",
                "ROW * a_steps[0] + k * a_steps[1]",
                """\
$T value = alpha * sum[p * 16 + f];
                        if (c != NULL) {
                            value += beta * load_$s(c, (i + p) * c_steps[0] + (j + f) * c_steps[1]);
                        }
                        store_$s(y, (i + p) * columns + j + f, value);""",
            )
        ),
        "    ",
    )
    + """\
}
"""
)

TEMPLATES["mat_mul"] = (
    """\
/* One product [rows, inner] x [inner, columns] for each place in the batch; steps go from matrix to matrix. */
void $name(uint8_t *y, const uint8_t *a, const uint8_t *b, size_t rank, const size_t *batch, const size_t *a_steps,
    const size_t *b_steps, size_t rows, size_t inner, size_t columns)
{
    size_t count = product(rank, batch);
    for (size_t m = 0; m < count; m++) {
        size_t at_a = place(m, rank, batch, a_steps) * rows * inner;
        size_t at_b = place(m, rank, batch, b_steps) * inner * columns;
"""
    + _tiles(
        "at_b + j",
        "columns",
        "1",
        "at_a + ROW * inner + k",
        "store_$s(y, (m * rows + i + p) * columns + j + f, sum[p * 16 + f]);",
    )
    .replace("1 != 1 || ", "")
    .replace(" + f * 1)", " + f)")
    + """\
    }
}
"""
)

TEMPLATES["mat_mul_of_integers"] = """\
/* One product [rows, inner] x [inner, columns] for each place in the batch; steps go from matrix to matrix. */
void $name(uint8_t *y, const uint8_t *a, const uint8_t *b, size_t rank, const size_t *batch, const size_t *a_steps,
    const size_t *b_steps, size_t rows, size_t inner, size_t columns)
{
    size_t count = product(rank, batch);
    for (size_t m = 0; m < count; m++) {
        size_t at_a = place(m, rank, batch, a_steps) * rows * inner;
        size_t at_b = place(m, rank, batch, b_steps) * inner * columns;
        for (size_t i = 0; i < rows; i++) {
            for (size_t j = 0; j < columns; j++) {
                $T sum = 0;
                for (size_t k = 0; k < inner; k++) {
                    sum += load_$s(a, at_a + i * inner + k) * load_$s(b, at_b + k * columns + j);
                }
                store_$s(y, (m * rows + i) * columns + j, sum);
            }
        }
    }
}
"""

STRUCTS["Conv"] = """\
/* A convolution over two dimensions; channels and filters are those of one group. */
typedef struct {
    size_t batch, groups, channels, filters;
    size_t height, width, out_height, out_width;
    size_t kernel_height, kernel_width, stride_y, stride_x, dilation_y, dilation_x, pad_top, pad_left;
} $Conv;
"""

_CONVOLUTION = """\
{
    size_t y_at = 0;
    for (size_t n = 0; n < c->batch; n++) {
        for (size_t filter = 0; filter < c->groups * c->filters; filter++) {
            size_t first = (n * c->groups + filter / c->filters) * c->channels;
PER_FILTER
            for (size_t oy = 0; oy < c->out_height; oy++) {
                size_t top = oy * c->stride_y;
                size_t ky_first = first_tap(top, c->pad_top, c->dilation_y);
                size_t ky_end = end_tap(top, c->pad_top, c->dilation_y, c->height, c->kernel_height);
                for (size_t ox = 0; ox < c->out_width; ox++) {
                    size_t left = ox * c->stride_x;
                    size_t kx_first = first_tap(left, c->pad_left, c->dilation_x);
                    size_t kx_end = end_tap(left, c->pad_left, c->dilation_x, c->width, c->kernel_width);
                    BEGIN;
                    for (size_t channel = 0; channel < c->channels; channel++) {
                        for (size_t ky = ky_first; ky < ky_end; ky++) {
                            size_t iy = (first + channel) * c->height + top + ky * c->dilation_y - c->pad_top;
                            size_t tap = ((filter * c->channels + channel) * c->kernel_height + ky) * c->kernel_width;
                            size_t from = iy * c->width + left - c->pad_left;
                            for (size_t kx = kx_first; kx < kx_end; kx++) {
                                sum += TERM;
                            }
                        }
                    }
                    END
                    y_at++;
                }
            }
        }
    }
}
"""


def convolution(begin: str, term: str, end: str, per_filter: str = "") -> str:
    """Return the body of a convolution: the begin of a sum, the term of a tap, the end, and code for each filter."""
    parts = {"PER_FILTER\n": per_filter, "BEGIN": begin, "TERM": term, "END": end}
    return re.sub("|".join(parts), lambda found: parts[found[0]], _CONVOLUTION)


TEMPLATES["conv_packed"] = """\
/* Weights are in blocks of 16 filters of a group: for each channel and tap, that of every filter. Taps of four pixels
   are gathered a part at a time, and multiplied by up to 128 filters. */
void $name(uint8_t *y, const uint8_t *x, const uint8_t *weight, const uint8_t *bias, const $Conv *c)
{
    $T part[4 * 64], sums[4 * 128];
    size_t rows = c->channels * c->kernel_height, plane = c->out_height * c->out_width, area = c->height * c->width;
    for (size_t n = 0; n < c->batch * c->groups; n++) {
        for (size_t many = 0, end; many < c->filters; many = end) {
            end = c->filters - many < 128 ? c->filters : many + 128;
            size_t first = n % c->groups * c->filters, y_first = n * c->filters;
            for (size_t pixel = 0, pixels; pixel < plane; pixel += pixels) {
                pixels = plane - pixel < 4 ? 1 : 4;
                for (size_t f = many; f < end; f++) {
                    $T start = bias == NULL ? 0 : load_$s(bias, first + f);
                    for (size_t p = 0; p < 4; p++) {
                        sums[(f - many) / 16 * 64 + p * 16 + f % 16] = start;
                    }
                }
                for (size_t row = 0, some; row < rows; row += some) {
                    some = 64 / c->kernel_width < rows - row ? 64 / c->kernel_width : rows - row;
                    size_t count = some * c->kernel_width;
                    for (size_t p = 0; p < pixels; p++) {
                        size_t top = (pixel + p) / c->out_width * c->stride_y;
                        size_t left = (pixel + p) % c->out_width * c->stride_x;
                        size_t ky_first = first_tap(top, c->pad_top, c->dilation_y);
                        size_t ky_end = end_tap(top, c->pad_top, c->dilation_y, c->height, c->kernel_height);
                        size_t kx_first = first_tap(left, c->pad_left, c->dilation_x);
                        size_t kx_end = end_tap(left, c->pad_left, c->dilation_x, c->width, c->kernel_width);
                        size_t ky = row % c->kernel_height;
                        size_t from = (n * c->channels + row / c->kernel_height) * area + left - c->pad_left;
                        $T *to = part + p * 64;
                        for (size_t r = 0; r < some; r++, to += c->kernel_width) {
                            size_t at = from + (top + ky * c->dilation_y - c->pad_top) * c->width;
                            bool inside = ky >= ky_first && ky < ky_end;
                            for (size_t kx = 0; kx < c->kernel_width; kx++, at += c->dilation_x) {
                                to[kx] = inside && kx >= kx_first && kx < kx_end ? load_$s(x, at) : 0;
                            }
                            if (++ky == c->kernel_height) {
                                ky = 0;
                                from += area;
                            }
                        }
                    }
                    for (size_t block = many; block < end; block += 16) {
                        size_t width = c->filters - block < 16 ? c->filters - block : 16;
                        size_t tap = (first + block) * rows * c->kernel_width + row * c->kernel_width * width;
                        $T *kept = sums + (block - many) / 16 * 64, sum[64];
                        memcpy(sum, kept, sizeof sum);
                        if (width < 16) {
                            for (size_t k = 0; k < count; k++) {
                                for (size_t p = 0; p < pixels; p++) {
                                    for (size_t f = 0; f < width; f++) {
                                        $T w = load_$s(weight, tap + k * width + f);
                                        sum[p * 16 + f] = madd$f(part[p * 64 + k], w, sum[p * 16 + f]);
                                    }
                                }
                            }
                        } else if (pixels == 1) {
                            for (size_t k = 0; k < count; k++) {
                                for (size_t f = 0; f < 16; f++) {
                                    sum[f] = madd$f(part[k], load_$s(weight, tap + k * 16 + f), sum[f]);
                                }
                            }
                        } else {
                            for (size_t k = 0; k < count; k++) {
                                for (size_t f = 0; f < 16; f++) {
                                    $T w = load_$s(weight, tap + k * 16 + f);
                                    sum[f] = madd$f(part[k], w, sum[f]);
                                    sum[16 + f] = madd$f(part[64 + k], w, sum[16 + f]);
                                    sum[32 + f] = madd$f(part[128 + k], w, sum[32 + f]);
                                    sum[48 + f] = madd$f(part[192 + k], w, sum[48 + f]);
                                }
                            }
                        }
                        memcpy(kept, sum, sizeof sum);
                    }
                }
                for (size_t f = many; f < end; f++) {
                    for (size_t p = 0; p < pixels; p++) {
                        $T sum = sums[(f - many) / 16 * 64 + p * 16 + f % 16];
                        store_$s(y, (y_first + f) * plane + pixel + p, sum);
                    }
                }
            }
        }
    }
}
"""

TEMPLATES["conv"] = """\
void $name(uint8_t *y, const uint8_t *x, const uint8_t *weight, const uint8_t *bias, const $Conv *c)
""" + convolution(
    "$T sum = bias == NULL ? 0 : load_$s(bias, filter)",
    "load_$s(x, from + kx * c->dilation_x) * load_$s(weight, tap + kx)",
    "store_$s(y, y_at, sum);",
)

TEMPLATES["conv_transpose"] = """\
/* Each element sums the terms that a convolution with the same numbers would compute from it. */
void $name(uint8_t *y, const uint8_t *x, const uint8_t *weight, const uint8_t *bias, const $Conv *c)
{
    size_t y_at = 0;
    for (size_t n = 0; n < c->batch; n++) {
        for (size_t filter = 0; filter < c->groups * c->filters; filter++) {
            size_t first = filter / c->filters * c->channels;
            for (size_t oy = 0; oy < c->out_height; oy++) {
                for (size_t ox = 0; ox < c->out_width; ox++) {
                    $T sum = bias == NULL ? 0 : load_$s(bias, filter);
                    for (size_t ky = 0; ky < c->kernel_height; ky++) {
                        size_t up = oy + c->pad_top - ky * c->dilation_y;
                        for (size_t kx = 0; kx < c->kernel_width; kx++) {
                            size_t left = ox + c->pad_left - kx * c->dilation_x;
                            if (up % c->stride_y != 0 || up / c->stride_y >= c->height || left % c->stride_x != 0
                                || left / c->stride_x >= c->width) {
                                continue; /* no element contributes here, or only one in the padding */
                            }
                            for (size_t channel = first; channel < first + c->channels; channel++) {
                                size_t from = (n * c->groups * c->channels + channel) * c->height + up / c->stride_y;
                                size_t tap = (channel * c->filters + filter % c->filters) * c->kernel_height + ky;
                                sum += load_$s(x, from * c->width + left / c->stride_x)
                                    * load_$s(weight, tap * c->kernel_width + kx);
                            }
                        }
                    }
                    store_$s(y, y_at, sum);
                    y_at++;
                }
            }
        }
    }
}
"""


def gemm(node: NodeCall) -> list[KernelCall]:
    """Return the call of Gemm; operands may be transposed, the third is broadcast."""
    a, b, c = node.x, node.needed(1), node.operand(2)
    rows, columns = node.y.shape
    inner = a.shape[0 if node.get("transA", 0) else 1]
    across = strides(a.shape)[::-1] if node.get("transA", 0) else strides(a.shape)
    down = strides(b.shape)[::-1] if node.get("transB", 0) else strides(b.shape)
    c_steps = [0, 0]
    if c is not None:
        own = [1] * (2 - c.rank) + list(c.shape)
        c_steps = [0 if dim == 1 else step for dim, step in zip(own, strides(own), strict=True)]
    packed = node.packed(b, "by columns", partial(pack_columns, transposed=bool(node.get("transB", 0))))
    return [
        KernelCall(
            "gemm", (node.of_type(a, FLOATS),),
            (
                node.y.code, a.code, packed or b.code, "NULL" if c is None else c.code, str(rows), str(inner),
                str(columns),
                sizes(across), sizes(down), sizes(c_steps),
                number(node.get("alpha", 1.0), a.dtype), number(node.get("beta", 1.0), a.dtype),
                "true" if packed else "false",
            ),
        )
    ]  # fmt: skip


def mat_mul(node: NodeCall) -> list[KernelCall]:
    """Return the call of MatMul, also of stacks of matrices; a vector is a matrix of one row, or of one column."""
    name = "mat_mul" if node.x.dtype in FLOATS else "mat_mul_of_integers"
    return [KernelCall(name, (node.of_type(node.x, NUMBERS),), product_arguments(node.y, node.x, node.needed(1)))]


def product_arguments(y: Operand, a: Operand, b: Operand) -> tuple[str, ...]:
    """Return the arguments of a product of stacks of matrices."""
    left = (1, *a.shape) if a.rank == 1 else a.shape
    right = (*b.shape, 1) if b.rank == 1 else b.shape
    batch = y.shape[: y.rank - (a.rank > 1) - (b.rank > 1)]
    stacks = (Operand(each.code, shape[:-2], each.dtype) for each, shape in ((a, left), (b, right)))
    rank, shape, *steps = broadcast(batch, *stacks)
    return (y.code, a.code, b.code, rank, shape, *steps, str(left[-2]), str(left[-1]), str(right[-1]))


def planar(shape: Sequence[int]) -> tuple[int, int]:
    """Return height and width of one or two dimensions. Raises NoKernel for more."""
    if len(shape) not in (1, 2):
        raise NoKernel(f"it has no kernel for {len(shape)} spatial dimensions")
    return (1, shape[0]) if len(shape) == 1 else (shape[0], shape[1])


def window(node: NodeCall, kernel: Sequence[int], spatial: Sequence[int], out: Sequence[int]) -> dict[str, int]:
    """Return the walk of a kernel over two dimensions as fields of `Conv` and `Window`; a missing dimension is 1."""
    rank = len(spatial)
    stride, dilation = node.get("strides", [1] * rank), node.get("dilations", [1] * rank)
    pads = list(node.get("pads", [0] * (2 * rank)))
    auto = node.get("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        for d in range(rank):
            reach = dilation[d] * (kernel[d] - 1) + 1
            total = max(0, (out[d] - 1) * stride[d] + reach - spatial[d])
            pads[d] = total // 2 if auto == "SAME_UPPER" else total - total // 2
            pads[rank + d] = total - pads[d]
    elif auto == "VALID":
        pads = [0] * (2 * rank)
    names = (("height", spatial), ("out_height", out), ("kernel_height", kernel))
    found: dict[str, int] = {}
    for name, values in names:
        found[name], found[name.replace("height", "width")] = planar(values)
    for name, values, alone in (("stride", stride, 1), ("dilation", dilation, 1)):
        found[f"{name}_y"], found[f"{name}_x"] = (alone, values[0]) if rank == 1 else (values[0], values[1])
    for top, left, values in (("pad_top", "pad_left", pads[:rank]), ("pad_bottom", "pad_right", pads[rank:])):
        found[top], found[left] = (0, values[0]) if rank == 1 else (values[0], values[1])
    return found


def struct(name: str, fields: dict[str, int]) -> str:
    """Return a struct as an argument, with its fields by name; `$NAME` is its type, as in templates."""
    stated = STRUCTS[name]
    return f"&(const ${name}){{{', '.join(f'.{key} = {value}' for key, value in fields.items() if key in stated)}}}"


def conv_fields(node: NodeCall, x: Operand, w: Operand, y: Operand) -> dict[str, int]:
    """Return a convolution as fields of `Conv`."""
    groups = node.get("group", 1)
    kernel = w.shape[2:]
    if any(dim == 0 for dim in kernel):
        raise NoKernel("its kernel is empty")
    sizes_ = {"batch": x.shape[0], "groups": groups, "channels": w.shape[1], "filters": w.shape[0] // groups}
    return sizes_ | window(node, kernel, x.shape[2:], y.shape[2:])


def conv(node: NodeCall) -> list[KernelCall]:
    """Return the call of Conv over one or two dimensions, with groups, strides, dilations and pads."""
    x, w, bias = node.x, node.needed(1), node.operand(2)
    fields = conv_fields(node, x, w, node.y)
    packed = None
    if fields["filters"] > 1 and fields["kernel_width"] <= PART:
        packed = node.packed(w, "by filters", partial(pack_filters, groups=fields["groups"]))
    name = "conv" if packed is None else "conv_packed"
    arguments = (node.y.code, x.code, packed or w.code, "NULL" if bias is None else bias.code, struct("Conv", fields))
    return [KernelCall(name, (node.of_type(x, FLOATS),), arguments)]


def pack_filters(weight: Array, groups: int) -> Array:
    """Return the weights in blocks of filters of a group; in a block, all filters of a channel and tap are together.

    >>> pack_filters(np.arange(6).reshape(3, 2, 1), 1)
    array([0, 2, 4, 1, 3, 5])
    """
    filters = weight.shape[0] // groups
    parts = weight.reshape(groups, filters, -1)
    blocks = (part[at : at + BLOCK].T.reshape(-1) for part in parts for at in range(0, filters, BLOCK))
    return np.concatenate([*blocks])


def pack_columns(matrix: Array, transposed: bool) -> Array:
    """Return a matrix in blocks of columns, row by row in each.

    >>> pack_columns(np.arange(6).reshape(2, 3), transposed=True)
    array([0, 3, 1, 4, 2, 5])
    """
    whole = matrix.T if transposed else matrix
    return np.concatenate([whole[:, at : at + BLOCK].reshape(-1) for at in range(0, whole.shape[1], BLOCK)])


def conv_transpose(node: NodeCall) -> list[KernelCall]:
    """Return the call of ConvTranspose over one or two dimensions; the shape of the result determines the pads."""
    x, w, bias, y = node.x, node.needed(1), node.operand(2), node.y
    groups, rank, kernel = node.get("group", 1), x.rank - 2, w.shape[2:]
    stride, dilation = node.get("strides", [1] * rank), node.get("dilations", [1] * rank)
    extra = node.get("output_padding", [0] * rank)
    pads = list(node.get("pads", [0] * (2 * rank)))
    auto = node.get("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER") or "output_shape" in node.attributes:
        for d in range(rank):
            whole = stride[d] * (x.shape[2 + d] - 1) + extra[d] + dilation[d] * (kernel[d] - 1) + 1
            total = whole - y.shape[2 + d]
            pads[d] = total // 2 if auto == "SAME_UPPER" else total - total // 2
            if total < 0:
                raise NoKernel("its result is larger than its terms cover")
    fields = {"batch": x.shape[0], "groups": groups, "channels": x.shape[1] // groups, "filters": w.shape[1]}
    padded = NodeCall(
        node.op, node.version, {**node.attributes, "pads": pads, "auto_pad": "NOTSET"}, (), (), node.literal
    )
    fields |= window(padded, kernel, x.shape[2:], y.shape[2:])
    arguments = (y.code, x.code, w.code, "NULL" if bias is None else bias.code, struct("Conv", fields))
    return [KernelCall("conv_transpose", (node.of_type(x, FLOATS),), arguments)]


RULES: dict[str, Callable[[NodeCall], list[KernelCall]]] = {
    "Gemm": gemm,
    "MatMul": mat_mul,
    "Conv": conv,
    "ConvTranspose": conv_transpose,
}
