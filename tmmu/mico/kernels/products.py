"""Sums of products: Gemm, MatMul, Conv and ConvTranspose. spec: MC4.3"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from tmmu.mico.kernels.functions import STRUCTS, TEMPLATES
from tmmu.mico.kernels.node import (
    FLOATS,
    NUMBERS,
    KernelCall,
    NodeCall,
    NoKernel,
    Operand,
    broadcast,
    number,
    sizes,
    strides,
)

TEMPLATES["gemm"] = """\
/* y = alpha * a * b + beta * c, for y of [rows, columns]; elements of an operand are steps apart, down and across. */
void $name(uint8_t *y, const uint8_t *a, const uint8_t *b, const uint8_t *c, size_t rows, size_t inner,
    size_t columns, const size_t *a_steps, const size_t *b_steps, const size_t *c_steps, $T alpha, $T beta)
{
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < columns; j++) {
            $T sum = 0;
            for (size_t k = 0; k < inner; k++) {
                sum += load_$s(a, i * a_steps[0] + k * a_steps[1]) * load_$s(b, k * b_steps[0] + j * b_steps[1]);
            }
            sum = alpha * sum;
            if (c != NULL) {
                sum += beta * load_$s(c, i * c_steps[0] + j * c_steps[1]);
            }
            store_$s(y, i * columns + j, sum);
        }
    }
}
"""

TEMPLATES["mat_mul"] = """\
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
    return [
        KernelCall(
            "gemm", (node.of_type(a, FLOATS),),
            (
                node.y.code, a.code, b.code, "NULL" if c is None else c.code, str(rows), str(inner), str(columns),
                sizes(across), sizes(down), sizes(c_steps),
                number(node.get("alpha", 1.0), a.dtype), number(node.get("beta", 1.0), a.dtype),
            ),
        )
    ]  # fmt: skip


def mat_mul(node: NodeCall) -> list[KernelCall]:
    """Return the call of MatMul, also of stacks of matrices; a vector is a matrix of one row, or of one column."""
    return [KernelCall("mat_mul", (node.of_type(node.x, NUMBERS),), product_arguments(node.y, node.x, node.needed(1)))]


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
    arguments = (node.y.code, x.code, w.code, "NULL" if bias is None else bias.code)
    fields = struct("Conv", conv_fields(node, x, w, node.y))
    return [KernelCall("conv", (node.of_type(x, FLOATS),), (*arguments, fields))]


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
