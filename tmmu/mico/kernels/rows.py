"""Operators over whole rows: Softmax, normalizations, reductions, running sums, places of maxima. spec: MC4.3"""

from __future__ import annotations

import math
from collections.abc import Callable

from tmmu.mico.kernels.elementwise import call_copy, snake
from tmmu.mico.kernels.functions import TEMPLATES
from tmmu.mico.kernels.node import (
    FLOATS,
    NUMBERS,
    KernelCall,
    NodeCall,
    NoKernel,
    Operand,
    collapse_dimensions,
    number,
    sizes,
    strides,
)

for _name, _sum, _last in (
    (
        "softmax",
        "store_$s(y, at, exp$f(load_$s(x, at) - most));\n            sum += load_$s(y, at);",
        "load_$s(y, at) / sum",
    ),
    ("log_softmax", "sum += exp$f(load_$s(x, at) - most);", "load_$s(x, at) - most - log$f(sum)"),
):
    TEMPLATES[_name] = f"""\
/* Rows of `width` elements, each `inner` apart. */
void $name(uint8_t *y, const uint8_t *x, size_t outer, size_t width, size_t inner)
{{
    for (size_t row = 0; row < outer * inner; row++) {{
        size_t first = row / inner * width * inner + row % inner;
        $T most = load_$s(x, first), sum = 0;
        for (size_t k = 1; k < width; k++) {{
            $T value = load_$s(x, first + k * inner);
            most = value > most ? value : most;
        }}
        for (size_t k = 0; k < width; k++) {{
            size_t at = first + k * inner;
            {_sum}
        }}
        for (size_t k = 0; k < width; k++) {{
            size_t at = first + k * inner;
            store_$s(y, at, {_last});
        }}
    }}
}}
"""

_STATISTICS = """\
        $T mean = 0, variance = 0;
        for (size_t k = 0; k < width; k++) {
            mean += load_$s(x, row * width + k);
        }
        mean /= ($T)width;
        for (size_t k = 0; k < width; k++) {
            $T apart = load_$s(x, row * width + k) - mean;
            variance += apart * apart;
        }
        $T inverse = 1 / sqrt$f(variance / ($T)width + epsilon);
"""
"""The mean of a row, and the inverse of its deviation."""

TEMPLATES["layer_normalization"] = """\
/* Rows of `width` elements; an argument that is NULL is left out. */
void $name(uint8_t *y, uint8_t *mean_out, uint8_t *inverse_out, const uint8_t *x, const uint8_t *scale,
    const uint8_t *bias, size_t rows, size_t width, $T epsilon)
{
    for (size_t row = 0; row < rows; row++) {
STATISTICS
        for (size_t k = 0; k < width; k++) {
            $T value = (load_$s(x, row * width + k) - mean) * inverse * load_$s(scale, k);
            store_$s(y, row * width + k, bias == NULL ? value : value + load_$s(bias, k));
        }
        if (mean_out != NULL) {
            store_$s2(mean_out, row, ($T2)mean);
        }
        if (inverse_out != NULL) {
            store_$s2(inverse_out, row, ($T2)inverse);
        }
    }
}
""".replace("STATISTICS\n", _STATISTICS)

TEMPLATES["rms_normalization"] = """\
void $name(uint8_t *y, const uint8_t *x, const uint8_t *scale, size_t rows, size_t width, $T epsilon)
{
    for (size_t row = 0; row < rows; row++) {
        $T sum = 0;
        for (size_t k = 0; k < width; k++) {
            sum += load_$s(x, row * width + k) * load_$s(x, row * width + k);
        }
        $T inverse = 1 / sqrt$f(sum / ($T)width + epsilon);
        for (size_t k = 0; k < width; k++) {
            store_$s(y, row * width + k, load_$s(x, row * width + k) * inverse * load_$s(scale, k));
        }
    }
}
"""

TEMPLATES["batch_normalization"] = """\
void $name(uint8_t *y, const uint8_t *x, const uint8_t *scale, const uint8_t *bias, const uint8_t *mean,
    const uint8_t *variance, size_t batch, size_t channels, size_t area, $T epsilon)
{
    for (size_t row = 0; row < batch * channels; row++) {
        size_t channel = row % channels;
        $T factor = ($T)load_$s2(scale, channel) / sqrt$f(($T)load_$s3(variance, channel) + epsilon);
        for (size_t k = 0; k < area; k++) {
            $T value = (load_$s(x, row * area + k) - ($T)load_$s3(mean, channel)) * factor;
            store_$s(y, row * area + k, value + ($T)load_$s2(bias, channel));
        }
    }
}
"""

TEMPLATES["group_normalization"] = """\
/* Each group of channels is normalized; a scale is for `shared` channels. */
void $name(uint8_t *y, const uint8_t *x, const uint8_t *scale, const uint8_t *bias, size_t batch, size_t groups,
    size_t channels, size_t area, size_t shared, $T epsilon)
{
    size_t width = channels * area;
    for (size_t row = 0; row < batch * groups; row++) {
STATISTICS
        for (size_t k = 0; k < width; k++) {
            size_t channel = (row % groups * channels + k / area) / shared;
            $T value = (load_$s(x, row * width + k) - mean) * inverse;
            store_$s(y, row * width + k, value * load_$s(scale, channel) + load_$s(bias, channel));
        }
    }
}
""".replace("STATISTICS\n", _STATISTICS)

REDUCTIONS: dict[str, tuple[str, str, str]] = {
    "ReduceL1": ("0", "found + (value < 0 ? -value : value)", "found"),
    "ReduceL2": ("0", "found + value * value", "sqrt$f(found)"),
    "ReduceLogSum": ("0", "found + value", "log$f(found)"),
    "ReduceMax": ("", "value > found || value != value ? value : found", "found"),
    "ReduceMean": ("0", "found + value", "found / ($T)count"),
    "ReduceMin": ("", "value < found || value != value ? value : found", "found"),
    "ReduceProd": ("1", "found * value", "found"),
    "ReduceSum": ("0", "found + value", "found"),
    "ReduceSumSquare": ("0", "found + value * value", "found"),
}
"""The first value of each reduction (empty: the first element), the expression that adds an element, and the result."""
FOR_INTEGERS = {
    "ReduceMax": ("", "value > found ? value : found", "found"),
    "ReduceMin": ("", "value < found ? value : found", "found"),
    "ReduceProd": ("1", "(uint64_t)found * (uint64_t)value", "found"),
    "ReduceSum": ("0", "(uint64_t)found + (uint64_t)value", "found"),
    "ReduceSumSquare": ("0", "(uint64_t)found + (uint64_t)value * (uint64_t)value", "found"),
}
"""The same expressions for integers, which wrap around."""


def _define_reduction(name: str, begin: str, add: str, end: str) -> None:
    first = begin or "load_$s(x, from)"
    TEMPLATES[name] = f"""\
/* One result for each place in the kept dimensions, from all places in the reduced ones. */
void $name(uint8_t *y, const uint8_t *x, size_t kept_rank, const size_t *kept, const size_t *kept_steps,
    size_t rank, const size_t *reduced, const size_t *steps)
{{
    size_t results = product(kept_rank, kept), count = product(rank, reduced);
    for (size_t i = 0; i < results; i++) {{
        size_t from = place(i, kept_rank, kept, kept_steps);
        $T found = {first};
        for (size_t k = 0; k < count; k++) {{
            $T value = load_$s(x, from + place(k, rank, reduced, steps));
            found = ($T)({add});
        }}
        store_$s(y, i, {end});
    }}
}}
"""


for _op, (_begin, _add, _end) in REDUCTIONS.items():
    _define_reduction(snake(_op), _begin, _add, _end)
for _op, (_begin, _add, _end) in FOR_INTEGERS.items():
    _define_reduction(f"{snake(_op)}_integer", _begin, _add, _end)

TEMPLATES["reduce_log_sum_exp"] = """\
/* One result for each place in the kept dimensions, from all places in the reduced ones. */
void $name(uint8_t *y, const uint8_t *x, size_t kept_rank, const size_t *kept, const size_t *kept_steps,
    size_t rank, const size_t *reduced, const size_t *steps)
{
    size_t results = product(kept_rank, kept), count = product(rank, reduced);
    for (size_t i = 0; i < results; i++) {
        size_t from = place(i, kept_rank, kept, kept_steps);
        $T most = load_$s(x, from), sum = 0;
        for (size_t k = 0; k < count; k++) {
            $T value = load_$s(x, from + place(k, rank, reduced, steps));
            most = value > most ? value : most;
        }
        for (size_t k = 0; k < count; k++) {
            sum += exp$f(load_$s(x, from + place(k, rank, reduced, steps)) - most);
        }
        store_$s(y, i, most + log$f(sum));
    }
}
"""

for _op, _test in (("arg_max", ">"), ("arg_min", "<")):
    TEMPLATES[_op] = f"""\
/* Rows of `width` elements, each `inner` apart; of equal elements the first counts, or the last. */
void $name(uint8_t *y, const uint8_t *x, size_t outer, size_t width, size_t inner, bool last)
{{
    for (size_t row = 0; row < outer * inner; row++) {{
        size_t first = row / inner * width * inner + row % inner, found = 0;
        for (size_t k = 1; k < width; k++) {{
            $T value = load_$s(x, first + k * inner), most = load_$s(x, first + found * inner);
            if (value {_test} most || (last && value == most)) {{
                found = k;
            }}
        }}
        store_i64(y, row, (int64_t)found);
    }}
}}
"""

TEMPLATES["cum_sum"] = """\
/* Sums along rows of `width` elements, each `inner` apart; exclusive of the element itself, or from the end. */
void $name(uint8_t *y, const uint8_t *x, size_t outer, size_t width, size_t inner, bool exclusive, bool reverse)
{
    for (size_t row = 0; row < outer * inner; row++) {
        size_t first = row / inner * width * inner + row % inner;
        $T sum = 0;
        for (size_t k = 0; k < width; k++) {
            size_t at = first + (reverse ? width - 1 - k : k) * inner;
            $T before = sum;
            sum += load_$s(x, at);
            store_$s(y, at, exclusive ? before : sum);
        }
    }
}
"""


def _around(operand: Operand, axis: int) -> tuple[str, str, str]:
    """Return the number of elements before, along and after an axis."""
    shape = operand.shape or (1,)
    return str(math.prod(shape[:axis])), str(shape[axis]), str(math.prod(shape[axis + 1 :]))


def softmax(node: NodeCall) -> list[KernelCall]:
    """Return the call of Softmax or LogSoftmax; before opset 13 they go over all dimensions from the axis on."""
    x = node.x
    if node.version >= 13:
        around = _around(x, node.axis(node.get("axis", -1)))
    else:
        axis = node.axis(node.get("axis", 1), x.rank + 1)
        around = str(math.prod(x.shape[:axis])), str(math.prod(x.shape[axis:])), "1"
    return [KernelCall(snake(node.op), (node.of_type(x, FLOATS),), (node.y.code, x.code, *around))]


def layer_normalization(node: NodeCall) -> list[KernelCall]:
    """Return the call of LayerNormalization, with the mean and the inverse deviation if they are results."""
    x, scale, bias = node.x, node.needed(1), node.operand(2)
    axis = node.axis(node.get("axis", -1))
    rows, width = math.prod(x.shape[:axis]), math.prod(x.shape[axis:])
    for operand in (scale, bias):
        if operand is not None and operand.count != width:
            raise NoKernel(f"an operand of {operand.count} elements is broadcast to {width}")
    extras = [node.result(k) for k in (1, 2)]
    stash = next((each.dtype for each in extras if each is not None), "float32")
    codes = ("NULL" if each is None else each.code for each in (*extras, x, scale, bias))
    arguments = (node.y.code, *codes, str(rows), str(width), number(node.get("epsilon", 1e-5), x.dtype))
    return [KernelCall("layer_normalization", (node.of_type(x, FLOATS), stash), arguments)]


def rms_normalization(node: NodeCall) -> list[KernelCall]:
    """Return the call of RMSNormalization."""
    x, scale = node.x, node.needed(1)
    axis = node.axis(node.get("axis", -1))
    rows, width = math.prod(x.shape[:axis]), math.prod(x.shape[axis:])
    if scale.count != width:
        raise NoKernel(f"an operand of {scale.count} elements is broadcast to {width}")
    epsilon = number(node.get("epsilon", 1e-5), x.dtype)
    arguments = (node.y.code, x.code, scale.code, str(rows), str(width), epsilon)
    return [KernelCall("rms_normalization", (node.of_type(x, FLOATS),), arguments)]


def batch_normalization(node: NodeCall) -> list[KernelCall]:
    """Return the call of BatchNormalization at inference."""
    x, operands = node.x, [node.needed(k) for k in range(1, 5)]
    if node.get("training_mode", 0) or any(each is not None for each in node.results[1:]):
        raise NoKernel("it computes statistics, which is training")
    area = math.prod(x.shape[2:])
    channels = x.shape[1] if x.rank > 1 else 1
    arguments = (
        node.y.code, x.code, *(each.code for each in operands), str(x.count // max(1, area * channels)), str(channels),
        str(area), number(node.get("epsilon", 1e-5), x.dtype),
    )  # fmt: skip
    types = tuple(node.of_type(each, FLOATS) for each in (x, operands[0], operands[2]))
    return [KernelCall("batch_normalization", types, arguments)]


def group_normalization(node: NodeCall) -> list[KernelCall]:
    """Return the call of GroupNormalization or InstanceNormalization, whose groups are channels."""
    x, scale, bias = node.x, node.needed(1), node.needed(2)
    groups = node.get("num_groups", x.shape[1])
    channels = x.shape[1] // groups
    arguments = (
        node.y.code, x.code, scale.code, bias.code, str(x.shape[0]), str(groups), str(channels),
        str(math.prod(x.shape[2:])), str(x.shape[1] // scale.count), number(node.get("epsilon", 1e-5), x.dtype),
    )  # fmt: skip
    return [KernelCall("group_normalization", (node.of_type(x, FLOATS),), arguments)]


def call_reduction(node: NodeCall) -> list[KernelCall]:
    """Return the call of a reduction over some axes or all."""
    x = node.x
    axes = node.get("axes") or node.known(1, "axes")
    if not axes:
        if node.get("noop_with_empty_axes", 0):
            if node.op not in ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"):
                raise NoKernel("it has no kernel without axes")
            return call_copy(node)
        axes = list(range(x.rank))
    over = {node.axis(axis) for axis in axes}
    if any(x.shape[d] == 0 for d in over):
        raise NoKernel("it reduces no elements")
    parts = []
    for dims in ([d for d in range(x.rank) if d not in over], [d for d in range(x.rank) if d in over]):
        shape, (steps,) = collapse_dimensions([x.shape[d] for d in dims], [strides(x.shape)[d] for d in dims])
        parts += [str(len(shape)), sizes(shape), sizes(steps)]
    name = snake(node.op)
    if x.dtype not in FLOATS:
        if node.op not in FOR_INTEGERS:
            raise NoKernel(f"it has no kernel for {x.dtype}")
        name = f"{name}_integer"
    return [KernelCall(name, (node.of_type(x, NUMBERS),), (node.y.code, x.code, *parts))]


def arg_extreme(node: NodeCall) -> list[KernelCall]:
    """Return the call of ArgMax or ArgMin."""
    around = _around(node.x, node.axis(node.get("axis", 0)))
    last = "true" if node.get("select_last_index", 0) else "false"
    return [KernelCall(snake(node.op), (node.of_type(node.x, NUMBERS),), (node.y.code, node.x.code, *around, last))]


def cum_sum(node: NodeCall) -> list[KernelCall]:
    """Return the call of CumSum."""
    axes = node.known(1, "axis")
    around = _around(node.x, node.axis((axes or [0])[0]))
    flags = ("true" if node.get(name, 0) else "false" for name in ("exclusive", "reverse"))
    types = (node.of_type(node.x, (*FLOATS, "int32", "int64", "uint32", "uint64")),)
    return [KernelCall("cum_sum", types, (node.y.code, node.x.code, *around, *flags))]


RULES: dict[str, Callable[[NodeCall], list[KernelCall]]] = {
    "Softmax": softmax,
    "LogSoftmax": softmax,
    "LayerNormalization": layer_normalization,
    "RMSNormalization": rms_normalization,
    "BatchNormalization": batch_normalization,
    "GroupNormalization": group_normalization,
    "InstanceNormalization": group_normalization,
    **dict.fromkeys((*REDUCTIONS, "ReduceLogSumExp"), call_reduction),
    "ArgMax": arg_extreme,
    "ArgMin": arg_extreme,
    "CumSum": cum_sum,
}
