"""Operators whose elements have places that the model computes, and images of other sizes.

GatherND, ScatterND, ScatterElements, TopK and Resize. An index beyond a dimension counts as the nearest within it. The
places and weights of Resize follow from shapes, so they are tables of constants. spec: MC4.3, MC4.7, MC4.12
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tmmu.mico.kernels.elementwise import call_copy, word
from tmmu.mico.kernels.functions import TEMPLATES
from tmmu.mico.kernels.node import (
    FLOATS,
    NUMBERS,
    Array,
    KernelCall,
    NodeCall,
    NoKernel,
    sizes,
    strides,
)

TEMPLATES["gather_nd"] = """\
/* Each row of indices is the place of `inner` elements in one of the batches of x. */
void $name(uint8_t *y, const uint8_t *x, const uint8_t *indices, size_t count, size_t depth, const size_t *dims,
    const size_t *steps, size_t inner, size_t rows, size_t batch_step)
{
    for (size_t i = 0; i < count; i++) {
        size_t at = i / rows * batch_step;
        for (size_t d = 0; d < depth; d++) {
            at += clamped(load_i64(indices, i * depth + d), dims[d]) * steps[d];
        }
        for (size_t k = 0; k < inner; k++) {
            store_$s(y, i * inner + k, load_$s(x, at + k));
        }
    }
}
"""

REDUCTIONS = {"none": "b", "add": "a + b", "mul": "a * b", "max": "a > b ? a : b", "min": "a < b ? a : b"}
"""How an update b and the element a before it become one; integers wrap around."""

for _reduction, _expression in REDUCTIONS.items():
    _suffix = "" if _reduction == "none" else f"_{_reduction}"
    _before = "" if _reduction == "none" else "$T a = load_$s(y, at); "
    TEMPLATES[f"scatter_nd{_suffix}"] = f"""\
/* Each row of indices is the place of `inner` updates in y, which has a copy of the data. */
void $name(uint8_t *y, const uint8_t *indices, const uint8_t *updates, size_t count, size_t depth, const size_t *dims,
    const size_t *steps, size_t inner)
{{
    for (size_t i = 0; i < count; i++) {{
        size_t first = 0;
        for (size_t d = 0; d < depth; d++) {{
            first += clamped(load_i64(indices, i * depth + d), dims[d]) * steps[d];
        }}
        for (size_t k = 0; k < inner; k++) {{
            size_t at = first + k;
            {_before}$T b = load_$s(updates, i * inner + k);
            store_$s(y, at, ($T)({_expression}));
        }}
    }}
}}
"""
    TEMPLATES[f"scatter_elements{_suffix}"] = f"""\
/* Each update has its place in y, which has a copy of the data, except along one axis, where an index states it. */
void $name(uint8_t *y, const uint8_t *indices, const uint8_t *updates, size_t rank, const size_t *shape,
    const size_t *steps, size_t dim, size_t step)
{{
    size_t count = product(rank, shape);
    for (size_t i = 0; i < count; i++) {{
        size_t at = place(i, rank, shape, steps) + clamped((int64_t)load_$s2(indices, i), dim) * step;
        {_before}$T b = load_$s(updates, i);
        store_$s(y, at, ($T)({_expression}));
    }}
}}
"""

TEMPLATES["top_k"] = """\
/* The first k elements along an axis in order, each found as the next after the one before; equal ones by place. */
void $name(uint8_t *values, uint8_t *indices, const uint8_t *x, size_t outer, size_t dim, size_t inner, size_t k,
    bool largest)
{
    for (size_t row = 0; row < outer * inner; row++) {
        size_t from = row / inner * dim * inner + row % inner, to = row / inner * k * inner + row % inner, last = dim;
        for (size_t rank = 0; rank < k; rank++) {
            size_t best = dim;
            for (size_t i = 0; i < dim; i++) {
                $T value = load_$s(x, from + i * inner);
                if (last < dim) {
                    $T before = load_$s(x, from + last * inner);
                    bool equal = !(value < before || value > before);
                    if ((equal && i <= last) || (largest ? value > before : value < before)) {
                        continue;
                    }
                }
                $T most = best < dim ? load_$s(x, from + best * inner) : value;
                if (best == dim || (largest ? value > most : value < most)) {
                    best = i;
                }
            }
            last = best < dim ? best : 0;
            if (values != NULL) {
                store_$s(values, to + rank * inner, load_$s(x, from + last * inner));
            }
            if (indices != NULL) {
                store_i64(indices, to + rank * inner, (int64_t)last);
            }
        }
    }
}
"""

TEMPLATES["resize_nearest"] = """\
/* `from` has for each dimension, one after the other, the place of each element of y along it. */
void $name(uint8_t *y, const uint8_t *x, size_t rank, const size_t *shape, const size_t *steps, const uint8_t *from)
{
    size_t count = product(rank, shape), tables = 0;
    for (size_t d = 0; d < rank; d++) {
        tables += shape[d];
    }
    for (size_t i = 0; i < count; i++) {
        size_t at = 0, rest = i, table = tables;
        for (size_t d = rank; d-- > 0;) {
            table -= shape[d];
            at += (size_t)load_i32(from, table + rest % shape[d]) * steps[d];
            rest /= shape[d];
        }
        store_$s(y, i, load_$s(x, at));
    }
}
"""

TEMPLATES["resize"] = """\
/* Along each of `rank` dimensions an element of y has `taps` places in x, each with a weight; the products of weights
   are those of the places in all dimensions. */
void $name(uint8_t *y, const uint8_t *x, size_t rank, const size_t *shape, const size_t *steps, size_t taps,
    const uint8_t *from, const uint8_t *weights)
{
    size_t count = product(rank, shape), all = 1, tables = 0;
    for (size_t d = 0; d < rank; d++) {
        all *= taps;
        tables += shape[d];
    }
    for (size_t i = 0; i < count; i++) {
        $T sum = 0;
        for (size_t tap = 0; tap < all; tap++) {
            size_t at = 0, rest = i, choice = tap, table = tables;
            $T weight = 1;
            for (size_t d = rank; d-- > 0;) {
                table -= shape[d];
                size_t entry = (table + rest % shape[d]) * taps + choice % taps;
                at += (size_t)load_i32(from, entry) * steps[d];
                weight *= load_$s(weights, entry);
                rest /= shape[d];
                choice /= taps;
            }
            if (weight != 0) {
                sum += weight * load_$s(x, at);
            }
        }
        store_$s(y, i, sum);
    }
}
"""


def gather_nd(node: NodeCall) -> list[KernelCall]:
    """Return the call of GatherND."""
    x, indices = node.x, node.needed(1)
    node.of_type(indices, ("int64",))
    batches, depth = node.get("batch_dims", 0), indices.shape[-1]
    dims, own = x.shape[batches : batches + depth], strides(x.shape)[batches : batches + depth]
    count, many = math.prod(indices.shape[:-1]), math.prod(x.shape[:batches])
    numbers = (
        str(count), str(depth), sizes(dims or (0,)), sizes(own or (0,)), str(math.prod(x.shape[batches + depth :])),
        str(max(1, count // max(1, many))), str(math.prod(x.shape[batches:])),
    )  # fmt: skip
    return [KernelCall("gather_nd", (word(x.dtype),), (node.y.code, x.code, indices.code, *numbers))]


def _reduced(node: NodeCall, name: str) -> tuple[str, str]:
    """Return the name of a scatter, and the type as which it reads elements."""
    reduction, x = node.get("reduction", "none"), node.x
    if reduction not in REDUCTIONS:
        raise NoKernel(f"it has no kernel for the reduction {reduction}")
    if reduction == "none":
        return name, word(x.dtype)
    return f"{name}_{reduction}", node.of_type(x, (*FLOATS, "int32", "int64", "uint32", "uint64"))


def scatter_nd(node: NodeCall) -> list[KernelCall]:
    """Return the copy of the data, and the call of ScatterND."""
    x, indices, updates = node.x, node.needed(1), node.needed(2)
    node.of_type(indices, ("int64",))
    name, dtype = _reduced(node, "scatter_nd")
    depth = indices.shape[-1]
    numbers = (
        str(math.prod(indices.shape[:-1])), str(depth), sizes(x.shape[:depth] or (0,)),
        sizes(strides(x.shape)[:depth] or (0,)), str(math.prod(x.shape[depth:])),
    )  # fmt: skip
    call = KernelCall(name, (dtype,), (node.y.code, indices.code, updates.code, *numbers))
    return [*call_copy(node), *([call] if updates.count else [])]


def scatter_elements(node: NodeCall) -> list[KernelCall]:
    """Return the copy of the data, and the call of ScatterElements."""
    x, indices, updates = node.x, node.needed(1), node.needed(2)
    axis, own = node.axis(node.get("axis", 0)), strides(x.shape)
    name, dtype = _reduced(node, "scatter_elements")
    steps = [0 if d == axis else step for d, step in enumerate(own)]
    types = dtype, node.of_type(indices, ("int32", "int64"))
    numbers = (str(x.rank), sizes(indices.shape), sizes(steps), str(x.shape[axis]), str(own[axis]))
    call = KernelCall(name, types, (node.y.code, indices.code, updates.code, *numbers))
    return [*call_copy(node), *([call] if updates.count else [])]


def top_k(node: NodeCall) -> list[KernelCall]:
    """Return the call of TopK, whose elements are always in order; equal ones have the order of their places."""
    x, values, indices = node.x, node.result(0), node.result(1)
    axis = node.axis(node.get("axis", -1))
    count = next(each.shape[axis] for each in (values, indices) if each is not None)
    if x.shape[axis] == 0:
        raise NoKernel("it selects from no elements")
    codes = ("NULL" if each is None else each.code for each in (values, indices))
    numbers = (math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :]), count)
    largest = "true" if node.get("largest", 1) else "false"
    return [KernelCall("top_k", (node.of_type(x, NUMBERS),), (*codes, x.code, *map(str, numbers), largest))]


def _origins(mode: str, size: int, out: int, scale: float) -> Array:
    """Return the place in an operand of each element of a result along a dimension. Raises NoKernel for other modes."""
    at = np.arange(out, dtype=np.float64)
    if mode == "asymmetric":
        return at / scale
    if mode == "align_corners":
        return at * ((size - 1) / (out - 1)) if out > 1 else at * 0
    if mode == "pytorch_half_pixel" and out == 1:
        return at * 0
    if mode in ("half_pixel", "pytorch_half_pixel"):
        return (at + 0.5) / scale - 0.5
    if mode == "half_pixel_symmetric":
        return size / 2 * (1 - out / (scale * size)) + (at + 0.5) / scale - 0.5
    raise NoKernel(f"it has no kernel for coordinates of the mode {mode}")


NEAREST: dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda at: np.ceil(at - 0.5), "round_prefer_ceil": lambda at: np.floor(at + 0.5),
    "floor": np.floor, "ceil": np.ceil,
}  # fmt: skip


def _taps(node: NodeCall, mode: str, at: Array) -> tuple[Array, Array]:
    """Return the places and the weights of each element, [elements, taps] each."""
    if mode == "nearest":
        usual = "round_prefer_floor" if node.version > 10 else "floor"
        places = NEAREST[node.get("nearest_mode", usual)](at)[:, None]
        return places, np.ones_like(places)
    low = np.floor(at)
    part = (at - low)[:, None]
    if mode == "linear":
        return low[:, None] + [0, 1], np.concatenate([1 - part, part], axis=1)
    if mode != "cubic":
        raise NoKernel(f"it has no kernel for the mode {mode}")
    a = float(np.float32(node.get("cubic_coeff_a", -0.75)))
    away = np.abs(part - [-1, 0, 1, 2])
    near, far = ((a + 2) * away - (a + 3)) * away**2 + 1, ((a * away - 5 * a) * away + 8 * a) * away - 4 * a
    return low[:, None] + [-1, 0, 1, 2], np.where(away <= 1, near, far)


def resize(node: NodeCall) -> list[KernelCall]:
    """Return the call of Resize: nearest of any type, linear and cubic of floats."""
    x, y, mode = node.x, node.y, node.get("mode", "nearest")
    if x.count == 0:
        raise NoKernel("it resizes no elements")
    if node.get("antialias", 0) or node.get("exclude_outside", 0):
        raise NoKernel("it has no kernel for antialias or exclude_outside")
    if node.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise NoKernel("it has no kernel for a ratio that is kept")
    stated = node.operand(2 if node.version > 10 else 1)
    value = None if stated is None or stated.count == 0 else stated.value()
    if stated is not None and stated.count and value is None:
        raise NoKernel("its scales are computed when the model runs")
    axes = [node.axis(axis) for axis in node.get("axes") or range(x.rank)]
    given = {} if value is None else dict(zip(axes, map(float, value.reshape(-1)), strict=True))
    coordinates = node.get("coordinate_transformation_mode", "half_pixel" if node.version > 10 else "asymmetric")
    resized = [d for d in range(x.rank) if x.shape[d] != y.shape[d] or given.get(d, 1.0) != 1.0]
    shape, own, places, weights = [], [], [], []
    for d in range(x.rank):
        if d in resized:
            at = _origins(coordinates, x.shape[d], y.shape[d], given.get(d, y.shape[d] / x.shape[d]))
            places_, weights_ = _taps(node, mode, at)
        elif mode == "nearest" or not resized:
            places_, weights_ = np.arange(x.shape[d])[:, None], np.ones((x.shape[d], 1))
        else:
            taps = {"linear": 2, "cubic": 4}.get(mode, 1)
            places_ = np.repeat(np.arange(x.shape[d])[:, None], taps, axis=1)
            weights_ = np.repeat(np.eye(1, taps), x.shape[d], axis=0)
        shape.append(y.shape[d])
        own.append(strides(x.shape)[d])
        places.append(np.clip(places_, 0, x.shape[d] - 1).astype(np.int32))
        weights.append(weights_)
    start = (y.code, x.code, str(x.rank), sizes(shape), sizes(own))
    if mode == "nearest" or not resized:
        tables = node.literal(np.concatenate([each.reshape(-1) for each in places]))
        return [KernelCall("resize_nearest", (word(x.dtype),), (*start, tables))]
    dtype = node.of_type(x, ("float32", "float64"))
    tables = node.literal(np.concatenate(places))
    parts = node.literal(np.concatenate(weights).astype(dtype))
    return [KernelCall("resize", (dtype,), (*start, str(places[0].shape[1]), tables, parts))]


RULES: dict[str, Callable[[NodeCall], list[KernelCall]]] = {
    "GatherND": gather_nd,
    "ScatterND": scatter_nd,
    "ScatterElements": scatter_elements,
    "TopK": top_k,
    "Resize": resize,
}
