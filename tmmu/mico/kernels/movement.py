"""Operators that move elements, or make them of shapes and numbers; they compute only places. spec: MC4.3"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from onnx import numpy_helper

from tmmu.core.dtypes import BITS
from tmmu.mico.kernels.elementwise import word
from tmmu.mico.kernels.functions import TEMPLATES
from tmmu.mico.kernels.node import (
    Array,
    KernelCall,
    NodeCall,
    NoKernel,
    Operand,
    collapse_dimensions,
    sizes,
    strides,
)

for _name in ("transpose", "slice", "expand", "tile", "depth_to_space", "space_to_depth"):
    TEMPLATES[_name] = """\
/* Element (i, j, ...) of y, of this shape, is the one of x at first + i * steps[0] + j * steps[1] + ... */
void $name(uint8_t *y, const uint8_t *x, size_t first, size_t rank, const size_t *shape, const size_t *steps)
{
    size_t rows = product(rank - 1, shape), width = shape[rank - 1];
    for (size_t row = 0; row < rows; row++) {
        size_t from = first + place(row, rank - 1, shape, steps);
        for (size_t k = 0; k < width; k++) {
            store_$s(y, row * width + k, load_$s(x, from + k * steps[rank - 1]));
        }
    }
}
"""

TEMPLATES["concat"] = """\
/* Rows of x_bytes become parts of rows of y_bytes. */
void $name(uint8_t *y, const uint8_t *x, size_t rows, size_t y_bytes, size_t x_bytes)
{
    for (size_t row = 0; row < rows; row++) {
        memcpy(y + row * y_bytes, x + row * x_bytes, x_bytes);
    }
}
"""

TEMPLATES["split"] = """\
/* Parts of rows of x_bytes become rows of y_bytes. */
void $name(uint8_t *y, const uint8_t *x, size_t rows, size_t y_bytes, size_t x_bytes)
{
    for (size_t row = 0; row < rows; row++) {
        memcpy(y + row * y_bytes, x + row * x_bytes, y_bytes);
    }
}
"""

TEMPLATES["gather"] = """\
/* The parts that the indices name, of `dim` parts of `bytes` in each of `outer`. */
void $name(uint8_t *y, const uint8_t *x, const uint8_t *indices, size_t outer, size_t dim, size_t bytes, size_t count)
{
    for (size_t n = 0; n < outer; n++) {
        for (size_t k = 0; k < count; k++) {
            size_t at = clamped(load_$s(indices, k), dim);
            memcpy(y + (n * count + k) * bytes, x + (n * dim + at) * bytes, bytes);
        }
    }
}
"""

TEMPLATES["gather_elements"] = """\
/* An element of y has the place of its index in x, except along one dimension, where the index is the place. */
void $name(uint8_t *y, const uint8_t *x, const uint8_t *indices, size_t rank, const size_t *shape,
    const size_t *steps, size_t dim, size_t step)
{
    size_t count = product(rank, shape);
    for (size_t i = 0; i < count; i++) {
        size_t at = place(i, rank, shape, steps) + clamped(load_$s2(indices, i), dim) * step;
        store_$s(y, i, load_$s(x, at));
    }
}
"""

TEMPLATES["pad"] = """\
/* Element (i, j, ...) of y is (i - before[0], j - before[1], ...) of x, or padding; a value that is NULL is 0. */
void $name(uint8_t *y, const uint8_t *x, const uint8_t *value, size_t rank, const size_t *y_shape,
    const size_t *x_shape, const ptrdiff_t *before, char mode)
{
    size_t count = product(rank, y_shape);
    for (size_t i = 0; i < count; i++) {
        size_t rest = i, at = 0, step = 1;
        bool within = true;
        for (size_t d = rank; d-- > 0;) {
            ptrdiff_t dim = (ptrdiff_t)x_shape[d], k = (ptrdiff_t)(rest % y_shape[d]) - before[d];
            if (k < 0 || k >= dim) {
                if (mode == 'c') { /* constant */
                    within = false;
                    break;
                }
                if (mode == 'e') { /* edge */
                    k = k < 0 ? 0 : dim - 1;
                } else if (mode == 'w') { /* wrap */
                    k = (k % dim + dim) % dim;
                } else { /* reflect */
                    while (k < 0 || k >= dim) {
                        k = dim == 1 ? 0 : k < 0 ? -k : 2 * (dim - 1) - k;
                    }
                }
            }
            at += (size_t)k * step;
            step *= x_shape[d];
            rest /= y_shape[d];
        }
        store_$s(y, i, within ? load_$s(x, at) : value == NULL ? 0 : load_$s(value, 0));
    }
}
"""

TEMPLATES["trilu"] = """\
/* The elements below diagonal k of each matrix become zero, or those above it. */
void $name(uint8_t *y, const uint8_t *x, size_t matrices, size_t rows, size_t columns, ptrdiff_t k, bool upper)
{
    for (size_t i = 0; i < matrices * rows * columns; i++) {
        ptrdiff_t diagonal = (ptrdiff_t)(i % columns) - (ptrdiff_t)(i / columns % rows);
        store_$s(y, i, (upper ? diagonal >= k : diagonal <= k) ? load_$s(x, i) : 0);
    }
}
"""

TEMPLATES["range"] = """\
void $name(uint8_t *y, const uint8_t *start, const uint8_t *delta, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        store_$s(y, i, ($T)(load_$s(start, 0) + ($T)i * load_$s(delta, 0)));
    }
}
"""

TEMPLATES["constant_of_shape"] = """\
void $name(uint8_t *y, const uint8_t *value, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        store_$s(y, i, load_$s(value, 0));
    }
}
"""


def _walk(node: NodeCall, name: str, shape: Sequence[int], steps: Sequence[int], first: int = 0) -> list[KernelCall]:
    """Return the call of a walk over the result, by steps in the operand; a negative step wraps as size_t."""
    return _make_walk(name, node.y, node.x, shape, steps, first)


def _make_walk(
    name: str, y: Operand, x: Operand, shape: Sequence[int], steps: Sequence[int], first: int
) -> list[KernelCall]:
    dims, (found,) = collapse_dimensions(shape, steps)
    written = [str(step) if step >= 0 else f"(size_t){step}" for step in found]
    array = f"(const size_t[]){{{', '.join(written)}}}"
    return [KernelCall(name, (word(y.dtype),), (y.code, x.code, str(first), str(len(dims)), sizes(dims), array))]


def transpose(node: NodeCall) -> list[KernelCall]:
    """Return the call of Transpose."""
    order = node.get("perm", list(range(node.x.rank))[::-1])
    steps = strides(node.x.shape)
    return _walk(node, "transpose", node.y.shape, [steps[axis] for axis in order])


def call_slice(node: NodeCall) -> list[KernelCall]:
    """Return the call of Slice, whose limits must be known at generation."""
    x = node.x
    starts = node.get("starts") or node.known(1, "starts") or []
    axes = node.get("axes") or node.known(3, "axes") or list(range(len(starts)))
    by = node.known(4, "steps") or [1] * len(starts)
    steps, first = strides(x.shape), 0
    for axis, start, step in zip(axes, starts, by, strict=True):
        d = node.axis(axis)
        dim = x.shape[d]
        start = start + dim if start < 0 else start
        start = min(max(start, 0), dim if step > 0 else dim - 1)
        first += start * strides(x.shape)[d]
        steps[d] *= step
    return _walk(node, "slice", node.y.shape, steps, first)


def expand(node: NodeCall) -> list[KernelCall]:
    """Return the call of Expand."""
    own = [1] * (node.y.rank - node.x.rank) + list(node.x.shape)
    return _walk(node, "expand", node.y.shape, [0 if d == 1 else s for d, s in zip(own, strides(own), strict=True)])


def tile(node: NodeCall) -> list[KernelCall]:
    """Return the call of Tile, which walks through each dimension several times."""
    shape, steps = [], []
    for whole, dim, step in zip(node.y.shape, node.x.shape, strides(node.x.shape), strict=True):
        shape += [whole // dim, dim]
        steps += [0, step]
    return _walk(node, "tile", shape, steps)


def depth_and_space(node: NodeCall) -> list[KernelCall]:
    """Return the call of DepthToSpace or SpaceToDepth, as a walk over six dimensions."""
    n, c, h, w = node.x.shape
    b = node.get("blocksize")
    if node.op == "SpaceToDepth":
        shape, name = (n, b, b, c, h // b, w // b), "space_to_depth"
        steps = (c * h * w, w, 1, h * w, b * w, b)
    else:
        depth, name, area = c // (b * b), "depth_to_space", h * w
        shape = (n, depth, h, b, w, b)
        across = (depth * area, area) if node.get("mode", "DCR") == "DCR" else (area, b * b * area)
        steps = (c * area, across[1], w, b * across[0], 1, across[0])
    return _walk(node, name, shape, steps)


def concat(node: NodeCall) -> list[KernelCall]:
    """Return the calls of Concat, one for each operand."""
    y, calls, at = node.y, [], 0
    axis = node.axis(node.get("axis", 1), y.rank)
    for k in range(len(node.operands)):
        x = node.needed(k)
        rows, part, whole = _rows(x, axis), _bytes(x.shape[axis:], x), _bytes(y.shape[axis:], y)
        if part:
            code = f"{y.code} + {at}" if at else y.code
            calls.append(KernelCall("concat", (), (code, x.code, rows, str(whole), str(part))))
        at += part
    return calls


def _rows(operand: Operand, axis: int) -> str:
    return str(math.prod(operand.shape[:axis]))


def _bytes(shape: Sequence[int], operand: Operand) -> int:
    word(operand.dtype)
    return math.prod(shape) * BITS[operand.dtype] // 8


def split(node: NodeCall) -> list[KernelCall]:
    """Return the calls of Split, one for each result."""
    x, calls, at = node.x, [], 0
    axis = node.axis(node.get("axis", 0))
    for k, y in enumerate(node.results):
        if y is None:
            raise NoKernel(f"its result {k} is left out")
        part = _bytes(y.shape[axis:], y)
        code = f"{x.code} + {at}" if at else x.code
        if part:
            whole = _bytes(x.shape[axis:], x)
            calls.append(KernelCall("split", (), (y.code, code, _rows(x, axis), str(part), str(whole))))
        at += part
    return calls


def gather(node: NodeCall) -> list[KernelCall]:
    """Return the call of Gather; an index beyond the dimension is clamped."""
    x, indices = node.x, node.needed(1)
    axis = node.axis(node.get("axis", 0))
    types = (node.of_type(indices, ("int32", "int64")),)
    numbers = (_rows(x, axis), str(x.shape[axis]), str(_bytes(x.shape[axis + 1 :], x)), str(indices.count))
    return [KernelCall("gather", types, (node.y.code, x.code, indices.code, *numbers))]


def gather_elements(node: NodeCall) -> list[KernelCall]:
    """Return the call of GatherElements; an index beyond the dimension is clamped."""
    x, indices = node.x, node.needed(1)
    axis = node.axis(node.get("axis", 0))
    own = strides(x.shape)
    steps = [0 if d == axis else step for d, step in enumerate(own)]
    types = word(x.dtype), node.of_type(indices, ("int32", "int64"))
    numbers = (str(x.rank), sizes(indices.shape), sizes(steps), str(x.shape[axis]), str(own[axis]))
    return [KernelCall("gather_elements", types, (node.y.code, x.code, indices.code, *numbers))]


def pad(node: NodeCall) -> list[KernelCall]:
    """Return the call of Pad, whose pads must be known at generation."""
    x, y, value = node.x, node.y, node.operand(2)
    pads = node.get("pads") or node.known(1, "pads") or []
    axes = node.known(3, "axes")
    axes = list(range(x.rank)) if axes is None else [node.axis(axis) for axis in axes]
    before = [0] * x.rank
    for axis, number in zip(axes, pads, strict=False):
        before[axis] = number
    mode = node.get("mode", "constant")
    constant = "NULL" if value is None else value.code
    if value is None and node.get("value", 0.0):
        node.of_type(x, ("float32",))
        constant = node.literal(np.array([node.get("value")], np.float32))
    if mode != "constant" and x.count == 0:
        raise NoKernel("it pads with elements of an operand that has none")
    numbers = (str(x.rank), sizes(y.shape), sizes(x.shape), sizes(before, "ptrdiff_t"), f"'{mode[0]}'")
    return [KernelCall("pad", (word(x.dtype),), (y.code, x.code, constant, *numbers))]


def trilu(node: NodeCall) -> list[KernelCall]:
    """Return the call of Trilu."""
    x = node.x
    k = (node.known(1, "diagonal") or [0])[0]
    k = max(-(2**31) + 1, min(2**31 - 1, k))
    rows, columns = x.shape[-2:]
    numbers = (str(math.prod(x.shape[:-2])), str(rows), str(columns), str(k))
    upper = "true" if node.get("upper", 1) else "false"
    return [KernelCall("trilu", (word(x.dtype),), (node.y.code, x.code, *numbers, upper))]


def call_range(node: NodeCall) -> list[KernelCall]:
    """Return the call of Range."""
    types = (node.of_type(node.y, ("float32", "float64", "int16", "int32", "int64")),)
    return [KernelCall("range", types, (node.y.code, node.x.code, node.needed(2).code, str(node.y.count)))]


def constant_of_shape(node: NodeCall) -> list[KernelCall]:
    """Return the call of ConstantOfShape."""
    value = node.get("value")
    array = np.zeros(1, np.float32) if value is None else numpy_helper.to_array(value).reshape(1)
    arguments = (node.y.code, node.literal(array), str(node.y.count))
    return [KernelCall("constant_of_shape", (word(node.y.dtype),), arguments)]


def _copy_constant(node: NodeCall, array: Array) -> list[KernelCall]:
    if BITS[node.y.dtype] < 8:
        raise NoKernel(f"it has no kernel for {node.y.dtype}")
    return [KernelCall("memcpy", (), (node.y.code, node.literal(array), str(array.nbytes)))]


def by_shape(node: NodeCall) -> list[KernelCall]:
    """Return the call of Shape or Size, which are known at generation."""
    if node.op == "Size":
        return _copy_constant(node, np.array(node.x.count, np.int64))
    return _copy_constant(node, np.array(node.x.shape[node.get("start", 0) : node.get("end")], np.int64))


RULES: dict[str, Callable[[NodeCall], list[KernelCall]]] = {
    "Transpose": transpose,
    "Slice": call_slice,
    "Expand": expand,
    "Tile": tile,
    "DepthToSpace": depth_and_space,
    "SpaceToDepth": depth_and_space,
    "Concat": concat,
    "Split": split,
    "Gather": gather,
    "GatherElements": gather_elements,
    "Pad": pad,
    "Trilu": trilu,
    "Range": call_range,
    "ConstantOfShape": constant_of_shape,
    "Shape": by_shape,
    "Size": by_shape,
}
