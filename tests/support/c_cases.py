"""Nodes of every operator of the table of C kernels, with random attributes, shapes and element types.

A case has operands that its node is given when it runs, and others that are stored, as kernels need them to be known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from random import Random
from types import MappingProxyType
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from tests.support.integer_reference import reference

Tensor = NDArray[Any]
FLOATS: tuple[Any, ...] = (np.float32, np.float32, np.float64, np.float16, ml_dtypes.bfloat16)
SIGNED: tuple[Any, ...] = (np.int8, np.int16, np.int32, np.int64)
UNSIGNED: tuple[Any, ...] = (np.uint8, np.uint16, np.uint32, np.uint64)


class NodeTest(NamedTuple):
    """A node of an operator. Of `operands` those in `stored` are initializers; None is an absent one."""

    op: str
    operands: Sequence[Tensor | None]
    attributes: Mapping[str, Any] = MappingProxyType({})
    results: int = 1
    stored: frozenset[int] = frozenset()


def a(r: Random, shape: Sequence[int], dtype: Any = np.float32, low: float = -2, high: float = 2) -> Tensor:
    """An array of numbers between `low` and `high`."""
    random = np.random.default_rng(r.getrandbits(32))
    if np.dtype(dtype).kind in "iu":
        least = max(low, np.iinfo(dtype).min)
        return random.integers(int(least), max(int(least) + 1, int(high) + 1), tuple(shape)).astype(dtype)
    if np.dtype(dtype) == np.bool_:
        return random.integers(0, 2, tuple(shape)).astype(np.bool_)
    return (low + (high - low) * random.random(tuple(shape))).astype(dtype)


def dims(r: Random, least: int = 0, most: int = 4) -> list[int]:
    return [r.choice((1, 2, 3, 4, 5)) for _ in range(r.randint(least, most))]


def narrower(r: Random, shape: Sequence[int]) -> list[int]:
    """A shape that broadcasts to this one."""
    return [1 if r.random() < 0.3 else dim for dim in shape][r.randint(0, len(shape)) if r.random() < 0.3 else 0 :]


def ints(*numbers: int) -> Tensor:
    return np.array(numbers, np.int64)


DOMAINS: dict[str, tuple[float, float]] = {
    "Acos": (-1, 1), "Acosh": (1, 4), "Asin": (-1, 1), "Atanh": (-0.9, 0.9), "Log": (0.1, 5), "Sqrt": (0, 5),
    "Reciprocal": (0.5, 3), "Tan": (-1, 1),
}  # fmt: skip
SETTINGS: dict[str, dict[str, float]] = {
    "Celu": {"alpha": 0.7}, "Elu": {"alpha": 0.7}, "HardSigmoid": {"alpha": 0.3, "beta": 0.4},
    "LeakyRelu": {"alpha": 0.1}, "Selu": {"alpha": 1.5, "gamma": 1.1}, "Shrink": {"bias": 0.3, "lambd": 0.6},
    "ThresholdedRelu": {"alpha": 0.4},
}  # fmt: skip
FUNCTIONS = [
    "Abs",
    "Acos",
    "Acosh",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "Ceil",
    "Celu",
    "Cos",
    "Cosh",
    "Elu",
    "Erf",
    "Exp",
    "Floor",
    "HardSigmoid",
    "HardSwish",
    "LeakyRelu",
    "Log",
    "Mish",
    "Neg",
    "Reciprocal",
    "Relu",
    "Round",
    "Selu",
    "Shrink",
    "Sigmoid",
    "Sign",
    "Sin",
    "Sinh",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Tan",
    "Tanh",
    "ThresholdedRelu",
]
FLOAT32_ALONE = frozenset({"Celu", "Selu", "Mish", "HardSwish", "ThresholdedRelu"})


def functions(r: Random) -> Iterator[NodeTest]:
    for op in FUNCTIONS:
        dtype = np.float32 if op in FLOAT32_ALONE or r.random() < 0.4 else r.choice(FLOATS)
        if op in ("Shrink", "Erf", "Celu") and dtype is ml_dtypes.bfloat16:
            dtype = np.float64
        low, high = DOMAINS.get(op, (-3, 3))
        settings = SETTINGS.get(op, {}) if r.random() < 0.7 else {}
        yield NodeTest(op, [a(r, dims(r), dtype, low, high)], settings)
    for op in ("Abs", "Neg", "Relu", "Sign"):
        yield NodeTest(op, [a(r, dims(r), r.choice(SIGNED), -9, 9)])
    for approximate in ("none", "tanh"):
        yield NodeTest("Gelu", [a(r, dims(r))], {"approximate": approximate})
    yield NodeTest("Swish", [a(r, dims(r))], {"alpha": 0.5} if r.random() < 0.5 else {})
    yield NodeTest("Not", [a(r, dims(r), np.bool_)])
    yield NodeTest("BitwiseNot", [a(r, dims(r), r.choice((*SIGNED, *UNSIGNED)), -9, 9)])
    special = np.array([1, np.nan, np.inf, -np.inf, -0.0], r.choice((np.float32, np.float64)))
    yield NodeTest("IsNaN", [special])
    yield NodeTest("IsInf", [special], {"detect_negative": r.randint(0, 1), "detect_positive": r.randint(0, 1)})


def of_two(r: Random) -> Iterator[NodeTest]:
    for op in ("Add", "Sub", "Mul", "Div", "Max", "Min", "PRelu", "Mod"):
        shape = dims(r)
        dtype = r.choice((*FLOATS, np.int32, np.int64) if op != "PRelu" else (np.float32, np.float64, np.int32))
        if op in ("Div", "Mod"):
            dtype = r.choice((np.float32, np.int32, np.int64, np.uint8, np.uint64, np.int8))
        low = -9 if np.dtype(dtype).kind in "if" or op != "Mod" else 0
        left, right = a(r, shape, dtype, low, 9), a(r, narrower(r, shape), dtype, low, 9)
        if op in ("Div", "Mod"):
            right = np.where(right == 0, np.array(3, dtype), right)
        if op == "Div" and np.dtype(dtype).kind in "iu":
            left = abs(left) if np.dtype(dtype).kind == "i" else left  # the evaluator rounds quotients down
            right = abs(right) if np.dtype(dtype).kind == "i" else right
        if op not in ("PRelu",) and r.random() < 0.5:
            left, right = right, left
        if op in ("Div", "Mod"):
            left, right = left, np.where(right == 0, np.array(2, dtype), right).astype(dtype)
        fmod = {"fmod": 1 if np.dtype(dtype).kind == "f" else r.randint(0, 1)} if op == "Mod" else {}
        yield NodeTest(op, [left, right], fmod)
    for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        shape, dtype = dims(r), r.choice((*SIGNED, *UNSIGNED))
        yield NodeTest(op, [a(r, shape, dtype, -99, 99), a(r, narrower(r, shape), dtype, -99, 99)])
    shape, dtype = dims(r), r.choice(UNSIGNED)
    direction = {"direction": r.choice(("LEFT", "RIGHT"))}
    yield NodeTest("BitShift", [a(r, shape, dtype, 0, 99), a(r, narrower(r, shape), dtype, 0, 7)], direction)
    for op in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"):
        shape, dtype = dims(r), r.choice((np.float32, np.float64, np.int32, np.int64, np.uint8))
        yield NodeTest(op, [a(r, shape, dtype), a(r, narrower(r, shape), dtype)])
    for op in ("And", "Or", "Xor"):
        shape = dims(r)
        yield NodeTest(op, [a(r, shape, np.bool_), a(r, narrower(r, shape), np.bool_)])
    shape = dims(r)
    yield NodeTest("Pow", [a(r, shape, np.float32, 0.5, 3), a(r, narrower(r, shape), np.float32)])
    yield NodeTest("Pow", [a(r, shape), a(r, narrower(r, shape), r.choice((np.int64, np.int32)), 0, 4)])
    yield NodeTest("Pow", [a(r, shape, np.int32, -4, 4), a(r, narrower(r, shape), np.int32, 0, 4)])


def of_many(r: Random) -> Iterator[NodeTest]:
    for op in ("Max", "Min", "Sum", "Mean"):
        shape = dims(r)
        dtype = r.choice((np.float32, np.float64, *((np.int64,) if op in ("Max", "Min") else ())))
        yield NodeTest(op, [a(r, shape if k == 1 else narrower(r, shape), dtype) for k in range(r.randint(1, 4))])
    shape, dtype = dims(r), r.choice((*FLOATS, *SIGNED, np.bool_))
    yes, no = a(r, shape, dtype), a(r, narrower(r, shape), dtype)
    yield NodeTest("Where", [a(r, narrower(r, shape), np.bool_), *((yes, no) if r.random() < 0.5 else (no, yes))])
    dtype = r.choice((np.float32, np.float64, np.int32, np.uint8))
    limits = [None if r.random() < 0.3 else np.array(limit, dtype) for limit in (1, 2)]
    yield NodeTest("Clip", [a(r, dims(r), dtype, -3, 5), *limits])


def casts(r: Random) -> Iterator[NodeTest]:
    every = {*FLOATS, *SIGNED, *UNSIGNED, np.bool_}
    for source in every:
        for target in r.sample(sorted(every, key=lambda each: np.dtype(each).name), 4):
            low = 0 if np.dtype(source).kind == "u" or np.dtype(target).kind == "u" else -9
            number = helper.np_dtype_to_tensor_dtype(np.dtype(target))
            yield NodeTest("Cast", [a(r, dims(r, 1), source, low, 9)], {"to": number})
    yield NodeTest("CastLike", [a(r, dims(r)), a(r, (1,), r.choice((*SIGNED, np.float64)))])


def views(r: Random) -> Iterator[NodeTest]:
    shape = dims(r, 1)
    x = a(r, shape, r.choice((np.float32, np.int64, np.uint8, np.bool_)))
    stored = frozenset({1})
    yield NodeTest("Identity", [x])
    yield NodeTest("Flatten", [x], {"axis": r.randint(0, len(shape))})
    yield NodeTest("Reshape", [x, ints(-1, shape[0])], stored=stored)
    yield NodeTest("Unsqueeze", [x, ints(0)], stored=stored)
    yield NodeTest("Squeeze", [a(r, (1, *shape)), ints(0)], stored=stored)
    yield NodeTest("Dropout", [a(r, shape)], results=r.randint(1, 2))


def products(r: Random) -> Iterator[NodeTest]:
    for _ in range(2):
        m, k, n = (r.randint(1, 6) for _ in range(3))
        across, down = r.randint(0, 1), r.randint(0, 1)
        dtype = r.choice((np.float32, np.float64))
        left, right = a(r, (k, m) if across else (m, k), dtype), a(r, (n, k) if down else (k, n), dtype)
        c = None if r.random() < 0.3 else a(r, r.choice(((m, n), (1, n), (m, 1), (n,), (1,), ())), dtype)
        settings = {"transA": across, "transB": down, "alpha": r.choice((1.0, 0.5)), "beta": r.choice((1.0, 2.0))}
        yield NodeTest("Gemm", [left, right, c] if c is not None else [left, right], settings)
        m, k, n = r.randint(1, 9), r.randint(1, 6), r.choice((1, 16, 21, 32))
        left, right = a(r, (k, m) if across else (m, k), dtype), a(r, (n, k) if down else (k, n), dtype)
        yield NodeTest("Gemm", [left, right], settings, stored=frozenset({1} if r.random() < 0.7 else ()))
    for _ in range(3):
        m, k, n = r.randint(1, 9), r.randint(1, 5), r.choice((1, 3, 5, 16, 19))
        batch, dtype = dims(r, 0, 2), r.choice((np.float32, np.float64, np.int32))
        left, right = [*narrower(r, batch), m, k], [*batch, k, n]
        if r.random() < 0.2:
            left = [k]
        elif r.random() < 0.2:
            right = [k]
        yield NodeTest("MatMul", [a(r, left, dtype), a(r, right, dtype)])


def sliding(r: Random, rank: int, *, dilated: bool = True) -> dict[str, Any]:
    """Attributes of a window over planes of 6 to 9, and the kernel."""
    kernel = [r.randint(1, 3) for _ in range(rank)]
    found: dict[str, Any] = {"kernel_shape": kernel, "strides": [r.randint(1, 3) for _ in range(rank)]}
    if dilated:
        found["dilations"] = [r.randint(1, 2) for _ in range(rank)]
    if r.random() < 0.3:  # runtimes differ on what is padded where windows are dilated or leave gaps
        found = {"kernel_shape": kernel, "strides": [r.randint(1, size) for size in kernel]}
        found["auto_pad"] = r.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
    else:
        found["pads"] = [r.randint(0, size - 1) for size in kernel * 2]
    return found


def windows(r: Random) -> Iterator[NodeTest]:
    for rank in (1, 2, 2, 2):
        plane = [r.randint(6, 9) for _ in range(rank)]
        groups, channels, filters = r.choice((1, 2)), r.randint(1, 2), r.randint(1, 3)
        window, dtype = sliding(r, rank), r.choice((np.float32, np.float32, np.float64))
        x = a(r, (r.randint(1, 2), groups * channels, *plane), dtype)
        w = a(r, (groups * filters, channels, *window["kernel_shape"]), dtype)
        bias = [a(r, (groups * filters,), dtype)] if r.random() < 0.5 else []
        yield NodeTest("Conv", [x, w, *bias], {**window, "group": groups})
        many = groups * r.choice((3, 16, 19, 33))  # blocks of 16, and what is left
        w = a(r, (many, channels, *window["kernel_shape"]), dtype)
        yield NodeTest("Conv", [x, w], {**window, "group": groups}, stored=frozenset({1}))
        w = a(r, (groups * channels, filters, *window["kernel_shape"]), dtype)
        if "auto_pad" not in window:
            window["output_padding"] = [r.randint(0, stride - 1) for stride in window["strides"]]
            bias = [a(r, (groups * filters,), dtype)] if r.random() < 0.5 else []
            yield NodeTest("ConvTranspose", [x, w, *bias], {**window, "group": groups})
        window = sliding(r, rank)
        yield NodeTest("MaxPool", [x], {**window, "ceil_mode": r.randint(0, 1)} if "pads" in window else window)
        if rank == 2 and "pads" in window:
            yield NodeTest("MaxPool", [x], window, results=2)
        window = sliding(r, rank, dilated=False)
        window["count_include_pad"] = r.randint(0, 1)
        yield NodeTest("AveragePool", [x], window)
        yield NodeTest(r.choice(("GlobalAveragePool", "GlobalMaxPool")), [x])


def rows(r: Random) -> Iterator[NodeTest]:
    shape = dims(r, 1)
    axis = r.randint(-len(shape), len(shape) - 1)
    for op in ("Softmax", "LogSoftmax"):
        yield NodeTest(op, [a(r, shape, r.choice((np.float32, np.float64)))], {"axis": axis})
    for op in ("ArgMax", "ArgMin"):
        settings = {"axis": axis, "keepdims": r.randint(0, 1), "select_last_index": r.randint(0, 1)}
        yield NodeTest(op, [a(r, shape, r.choice((np.float32, np.int32)))], settings)
    flags = {"exclusive": r.randint(0, 1), "reverse": r.randint(0, 1)}
    number = np.array(axis, np.int64)
    yield NodeTest("CumSum", [a(r, shape, r.choice((np.float32, np.int64))), number], flags, stored=frozenset({1}))
    width = shape[axis:]
    scale, bias = a(r, width), a(r, width)
    for results in (1, 3):
        operands = [a(r, shape), scale, *([bias] if r.random() < 0.6 else [])]
        yield NodeTest("LayerNormalization", operands, {"axis": axis, "epsilon": 1e-3}, results=results)
    yield NodeTest("RMSNormalization", [a(r, shape), scale], {"axis": axis})
    channels = [a(r, (3,)), a(r, (3,)), a(r, (3,)), a(r, (3,), np.float32, 0.5, 2)]
    yield NodeTest("BatchNormalization", [a(r, (2, 3, *dims(r, 0, 2))), *channels], {"epsilon": 1e-3})
    yield NodeTest("InstanceNormalization", [a(r, (2, 3, *dims(r, 1, 2))), *channels[:2]], {"epsilon": 1e-3})
    yield NodeTest("GroupNormalization", [a(r, (2, 6, 3)), a(r, (6,)), a(r, (6,))], {"num_groups": r.choice((2, 3))})
    for op in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"):
        shape = dims(r, 1)
        whole = op in ("Max", "Min", "Prod", "Sum", "SumSquare") and r.random() < 0.5
        dtype = np.int64 if whole else r.choice((np.float32, np.float64))
        axes = ints(*r.sample(range(len(shape)), r.randint(1, len(shape)))) - r.choice((0, len(shape)))
        x = a(r, shape, dtype, 0.5 if op == "LogSum" else -3, 3)
        operands = [x] if r.random() < 0.2 else [x, axes]
        settings = {"keepdims": r.randint(0, 1), "noop_with_empty_axes": r.randint(0, 1) * int(len(operands) == 2)}
        yield NodeTest(f"Reduce{op}", operands, settings, stored=frozenset({1}))


def moves(r: Random) -> Iterator[NodeTest]:
    kinds = (np.float32, np.float64, np.int64, np.uint8, np.float16, np.bool_)
    shape, dtype = dims(r, 1), r.choice(kinds)
    x, rank = a(r, shape, dtype), len(shape)
    axis = r.randint(-rank, rank - 1)
    yield NodeTest("Transpose", [x], {"perm": r.sample(range(rank), rank)} if r.random() < 0.8 else {})
    axes = r.sample(range(rank), r.randint(1, rank))
    steps = [r.choice((1, 1, 2, -1, -2)) for _ in axes]
    starts = [r.randint(-6, 6) if step > 0 else r.randint(-1, 9) for step in steps]
    ends = [r.randint(-3, 9) if step > 0 else r.randint(-9, 2) for step in steps]
    sliced = [ints(*starts), ints(*ends), ints(*axes), ints(*steps)]
    yield NodeTest("Slice", [x, *sliced], stored=frozenset({1, 2, 3, 4}))
    wide = [dim if dim > 1 else r.randint(1, 3) for dim in shape]
    yield NodeTest("Expand", [x, ints(r.randint(1, 3), *wide)], stored=frozenset({1}))
    yield NodeTest("Tile", [x, ints(*(r.randint(1, 3) for _ in shape))], stored=frozenset({1}))
    others = [a(r, [r.randint(1, 3) if d == axis % rank else dim for d, dim in enumerate(shape)], dtype) for _ in "ab"]
    yield NodeTest("Concat", [x, *others][: r.randint(1, 3)], {"axis": axis})
    whole = a(r, [*shape, 6], dtype)
    yield NodeTest("Split", [whole, ints(1, 3, 2)], {"axis": -1}, results=3, stored=frozenset({1}))
    yield NodeTest("Split", [np.moveaxis(whole, -1, 0).copy()], {"axis": 0, "num_outputs": 2}, results=2)
    dim = shape[axis]
    for kind in (np.int32, np.int64):
        yield NodeTest("Gather", [x, a(r, dims(r, 0, 2), kind, -dim, dim - 1)], {"axis": axis})
    near = [d if k == axis % rank else r.randint(1, d) for k, d in enumerate(shape)]
    yield NodeTest("GatherElements", [x, a(r, near, np.int64, -dim, dim - 1)], {"axis": axis})
    mode = r.choice(("constant", "edge", "wrap", "reflect"))
    large = a(r, [dim + 2 for dim in shape], r.choice((np.float32, np.int64, np.uint8)))
    pads = ints(*(r.randint(-1 if mode == "constant" else 0, 2) for _ in range(2 * rank)))
    value = [np.array(3, large.dtype)] if mode == "constant" and r.random() < 0.6 else []
    yield NodeTest("Pad", [large, pads, *value], {"mode": mode}, stored=frozenset({1}))
    matrices = a(r, [*dims(r, 0, 2), r.randint(1, 5), r.randint(1, 5)], dtype)
    yield NodeTest("Trilu", [matrices, np.array(r.randint(-2, 2))], {"upper": r.randint(0, 1)}, stored=frozenset({1}))
    number = r.choice((np.int32, np.int64, np.float32))
    limits = [np.array(limit, number) for limit in (r.randint(-3, 3), r.randint(4, 9), r.randint(1, 3))]
    yield NodeTest("Range", limits, stored=frozenset({0, 1, 2}))
    filled = numpy_helper.from_array(np.array([3], r.choice(kinds)))
    yield NodeTest("ConstantOfShape", [ints(*shape)], {"value": filled}, stored=frozenset({0}))
    yield NodeTest("Constant", [], {"value": numpy_helper.from_array(x)})
    yield NodeTest("Constant", [], {"value_floats": [1.0, 2.5]})
    yield NodeTest("Shape", [x], {"start": r.randint(-2, 1)})
    yield NodeTest("Size", [x])
    space = a(r, (r.randint(1, 2), 8, r.choice((2, 4)), 4), dtype)
    yield NodeTest("DepthToSpace", [space], {"blocksize": 2, "mode": r.choice(("DCR", "CRD"))})
    yield NodeTest("SpaceToDepth", [space], {"blocksize": 2})


def of_bytes(r: Random) -> Iterator[NodeTest]:
    """Operators on int8 and uint8; scales along an axis in half of the cases."""

    def scale(count: int | None = None, least: float = 0.01) -> Tensor:
        return a(r, () if count is None else (count,), np.float32, least, 3 * least)

    def zero(dtype: Any, count: int | None = None) -> Tensor:
        return a(r, () if count is None else (count,), dtype, -5, 5)

    for _ in range(2):
        one, two, three = (r.choice((np.int8, np.uint8)) for _ in range(3))
        shape, count = dims(r, 2), r.choice((None, 1))
        count = None if count is None else shape[1]
        settings = {} if count is None else {"axis": 1}
        yield NodeTest(
            "QuantizeLinear", [a(r, shape, np.float32, -9, 9), scale(count, 0.05), zero(one, count)], settings
        )
        yield NodeTest("QuantizeLinear", [a(r, shape, np.float32, 0, 9), scale()])
        wide = r.choice((np.int8, np.uint8, np.int16, np.uint16))
        x = a(r, shape, wide, -99, 99)
        yield NodeTest(
            "DequantizeLinear", [x, scale(count), *([zero(wide, count)] if r.random() < 0.7 else [])], settings
        )
        yield NodeTest("DequantizeLinear", [a(r, shape, np.int32, -9999, 9999), scale()])
        yield NodeTest("DynamicQuantizeLinear", [a(r, shape)], results=3)
        groups, filters = r.choice((1, 2)), r.randint(1, 3)
        window = sliding(r, 2)
        x = a(r, (1, groups * 2, r.randint(6, 9), r.randint(6, 9)), one, -128, 255 if one is np.uint8 else 127)
        w = a(r, (groups * filters, 2, *window["kernel_shape"]), two, -128, 255 if two is np.uint8 else 127)
        each = groups * filters if r.random() < 0.5 else None
        operands = [x, scale(), zero(one), w, scale(each), zero(two, each), scale(None, 0.2), zero(three)]
        bias = [a(r, (groups * filters,), np.int32, -999, 999)] if r.random() < 0.5 else []
        yield NodeTest("QLinearConv", [*operands, *bias], {**window, "group": groups})
        groups, channels, filters = r.choice(((1, 40, 65), (2, 3, 4), (1, 1, 3)))
        window = sliding(r, 2)
        x = a(r, (1, groups * channels, r.randint(6, 9), r.randint(6, 9)), one, -128, 255 if one is np.uint8 else 127)
        w = a(r, (groups * filters, channels, *window["kernel_shape"]), two, -128, 255 if two is np.uint8 else 127)
        operands = [x, scale(), zero(one), w, scale(), np.zeros((), two), scale(None, 0.2), zero(three)]
        yield NodeTest("QLinearConv", operands, {**window, "group": groups}, stored=frozenset({3, 5}))
        yield NodeTest("ConvInteger", [x, w, zero(one)], {**window, "group": groups})
        m, k, n = (r.randint(1, 5) for _ in range(3))
        left, right = a(r, (2, m, k), one, -128, 127), a(r, (k, n), two, -128, 127)
        each = n if r.random() < 0.5 else None
        yield NodeTest("MatMulInteger", [left, right, zero(one), zero(two, each)])
        operands = [left, scale(), zero(one), right, scale(each), zero(two, each), scale(None, 0.2), zero(three)]
        yield NodeTest("QLinearMatMul", operands)
        batch = dims(r, 2)
        left, right = (a(r, shape, one, -128, 127) for shape in (batch, narrower(r, batch)))
        operands = [left, scale(None, 0.1), zero(one), right, scale(None, 0.1), zero(one), scale(None, 0.1)]
        yield NodeTest("com.microsoft.QLinearAdd", [*operands, *[zero(one)] * r.randint(0, 1)])


def placements(r: Random) -> Iterator[NodeTest]:
    """Indices in range, from either end; images that grow and shrink."""
    random = np.random.default_rng(r.getrandbits(32))
    for reduction in ("none", "add", "mul", "max", "min"):
        shape, dtype = [r.randint(1, 4) for _ in range(3)], r.choice((np.float32, np.float64, np.int32, np.int64))
        count, depth = r.randint(1, 4), r.randint(1, 3)
        data = a(r, shape, dtype, -5, 5)
        rows = np.stack([random.integers(-dim, dim, count) for dim in shape[:depth]], axis=-1)
        updates = a(r, [count, *shape[depth:]], dtype, -5, 5)
        yield NodeTest("ScatterND", [data, rows, updates], {"reduction": reduction})
        axis = r.randint(-3, 2)
        within = [r.randint(1, dim) for dim in shape]
        along = random.integers(-shape[axis], shape[axis], within).astype(r.choice((np.int32, np.int64)))
        settings = {"axis": axis, "reduction": reduction}
        yield NodeTest("ScatterElements", [data, along, a(r, within, dtype, -5, 5)], settings)
    for batches in (0, 1):
        shape = [r.randint(1, 3) for _ in range(4)]
        depth = r.randint(1, 4 - batches)
        rows = np.stack([random.integers(-dim, dim, [*shape[:batches], 2]) for dim in shape[batches:][:depth]], axis=-1)
        yield NodeTest("GatherND", [a(r, shape, r.choice(FLOATS)), rows], {"batch_dims": batches})
    for dtype in (np.float32, np.int64):
        shape, axis = dims(r, 1, 3), -1
        x = a(r, shape, dtype, -3, 3)
        k = np.array([r.randint(1, shape[axis])])
        settings = {"axis": axis, "largest": r.randint(0, 1)}
        yield NodeTest("TopK", [x, k], settings, results=2, stored=frozenset({1}))
    modes = ("half_pixel", "half_pixel_symmetric", "asymmetric", "align_corners", "pytorch_half_pixel")
    for mode in ("nearest", "linear", "cubic"):
        x = a(r, (1, 2, r.randint(2, 5), r.randint(2, 5)), np.float32)
        settings = {"mode": mode, "coordinate_transformation_mode": r.choice(modes)}
        if mode == "nearest":
            settings["nearest_mode"] = r.choice(("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"))
        to = np.array([1, 2, r.randint(1, 9), r.randint(1, 9)])
        yield NodeTest("Resize", [x, None, None, to], settings, stored=frozenset({3}))
        by = np.array([2.0, r.choice((0.5, 1.5, 3.0))], np.float32)
        if settings["coordinate_transformation_mode"] == "align_corners":  # the evaluator has lengths with fractions
            settings = {**settings, "coordinate_transformation_mode": "asymmetric"}
        yield NodeTest("Resize", [x, None, by], {**settings, "axes": [2, 3]}, stored=frozenset({2}))


RECURRENT = {"LSTM": 4, "GRU": 3, "RNN": 1}
"""The gates of a unit."""


def recurrences(r: Random) -> Iterator[NodeTest]:
    for op, gates in RECURRENT.items():
        for direction in ("forward", "reverse", "bidirectional"):
            steps, batch, inputs, hidden, ways = (r.randint(1, 3) for _ in range(5))
            ways = 2 if direction == "bidirectional" else 1
            dtype = r.choice((np.float32, np.float64))
            weights = (a(r, (ways, gates * hidden, size), dtype) for size in (inputs, hidden))
            operands = [a(r, (steps, batch, inputs), dtype), *weights]
            bias = a(r, (ways, 2 * gates * hidden), dtype) if r.random() < 0.7 else None
            state = a(r, (ways, batch, hidden), dtype) if r.random() < 0.7 else None
            operands += [bias, None, state]
            settings: dict[str, Any] = {"hidden_size": hidden, "direction": direction}
            if op == "GRU":
                settings["linear_before_reset"] = r.randint(0, 1)
            if op == "LSTM":
                operands.append(None if state is None else a(r, (ways, batch, hidden), dtype))
                operands += [a(r, (ways, 3 * hidden), dtype)] if r.random() < 0.5 else []
            while operands[-1] is None:
                operands.pop()
            yield NodeTest(op, operands, settings, results=3 if op == "LSTM" else 2)


FAMILIES: tuple[Callable[[Random], Iterator[NodeTest]], ...] = (
    functions, of_two, of_many, casts, views, products, windows, rows, moves, of_bytes, placements, recurrences,
)  # fmt: skip


def model_of(cases: Sequence[NodeTest], opset: int = 24) -> tuple[onnx.ModelProto, dict[str, Tensor]]:
    """A model of all the nodes side by side, and what its inputs are given."""
    nodes, inputs, stored, outputs = [], {}, [], []
    for n, case in enumerate(cases):
        names = []
        for k, operand in enumerate(case.operands):
            name = "" if operand is None else f"n{n}.o{k}"
            names.append(name)
            if operand is None:
                continue
            if k in case.stored:
                stored.append(numpy_helper.from_array(operand, name))
            else:
                inputs[name] = operand
        results = [f"n{n}.r{k}" for k in range(case.results)]
        domain, _, op = case.op.rpartition(".")
        nodes.append(helper.make_node(op, names, results, f"{op}.{n}", domain=domain, **case.attributes))
        outputs += results
    typed = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in inputs.items()
    ]
    untyped = [helper.make_value_info(name, onnx.TypeProto()) for name in outputs]
    graph = helper.make_graph(nodes, "cases", typed, untyped, stored)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=11), inputs


def evaluated(case: NodeTest) -> list[Tensor] | None:
    """The results of a case by the reference evaluator, None where the node is no right one or the evaluator fails.

    The evaluator runs recurrent networks forward only, so those of other directions are given to it in parts.
    It fails at a ConvTranspose of several groups: it is given the groups one after the other. And it pads
    pools otherwise than onnxruntime where SAME_LOWER is stated: that convolutions have alone.
    """
    groups = case.attributes.get("group", 1)
    if case.op in ("MaxPool", "AveragePool") and case.attributes.get("auto_pad") == "SAME_LOWER":
        return None
    if case.op == "ConvTranspose" and groups > 1:
        parts = [np.split(operand, groups, axis) for operand, axis in zip(case.operands, (1, 0, 0), strict=False)]
        made = [
            evaluated(case._replace(operands=operands, attributes={**case.attributes, "group": 1}))
            for operands in zip(*parts, strict=True)
        ]
        return None if None in made else [np.concatenate([each[0] for each in made if each is not None], axis=1)]
    if case.attributes.get("direction", "forward") in ("reverse", "bidirectional"):
        return _evaluated_backward(case)
    model, inputs = model_of([case])
    try:
        inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
        with np.errstate(all="ignore"):
            found = [np.asarray(result) for result in reference(model).run(None, inputs)]
    except Exception:  # the evaluator raises exceptions of any kind
        return None
    for result, value in zip(found, inferred.graph.output, strict=True):
        kind = value.type.tensor_type
        known = kind.HasField("shape") and all(dim.HasField("dim_value") for dim in kind.shape.dim)
        if known and [dim.dim_value for dim in kind.shape.dim] != list(result.shape):
            return None
    return found


def _evaluated_backward(case: NodeTest) -> list[Tensor] | None:
    """The results of a recurrent network, a direction at a time: the evaluator runs one forward."""
    found = []
    ways = 2 if case.attributes["direction"] == "bidirectional" else 1
    for way in range(ways):
        backward, x, *others = way == ways - 1, *case.operands
        assert x is not None
        parts = [None if each is None else each[way : way + 1] for each in others]
        settings = {**case.attributes, "direction": "forward"}
        results = evaluated(case._replace(operands=[x[::-1] if backward else x, *parts], attributes=settings))
        if results is None:
            return None
        found.append([results[0][::-1] if backward else results[0], *results[1:]])
    return [np.concatenate(parts, axis=0 if k else 1) for k, parts in enumerate(zip(*found, strict=True))]


@cache
def drawn(seed: int) -> tuple[list[NodeTest], list[list[Tensor]]]:
    """The cases of all families that the evaluator computes, with their results."""
    random = Random(seed)
    cases, results = [], []
    for case in (case for family in FAMILIES for case in family(random)):
        found = evaluated(case)
        if found is not None:
            cases.append(case)
            results.append(found)
    return cases, results
