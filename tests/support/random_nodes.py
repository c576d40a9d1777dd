"""Random nodes of real operators, with attributes and operands of random shapes, right ones and some that do not fit.

`drawn` makes one from a number. `readings` says what the verifier and shape inference make of it, and `executed` what a
runtime gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from proofs.readers.models.onnx import read_onnx
from proofs.readers.models.reference import ReferenceProgram
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Bindings

Tensor = NDArray[Any]
OPSETS = (7, 9, 10, 11, 12, 13, 14, 16, 18, 19, 21)


class Drawn(NamedTuple):
    """A node: its operator, operands (None for an absent one), attributes, and number of results."""

    op: str
    operands: Sequence[Tensor | None]
    attributes: Mapping[str, Any] = MappingProxyType({})
    results: int = 1
    opset: int = 21

    def model(self) -> onnx.ModelProto:
        """A model of this node alone, all operands stored."""
        names = [f"o{k}" if operand is not None else "" for k, operand in enumerate(self.operands)]
        results = [f"r{k}" for k in range(self.results)]
        node = helper.make_node(self.op, names, results, name="n", **self.attributes)
        stored = [numpy_helper.from_array(o, n) for n, o in zip(names, self.operands, strict=True) if o is not None]
        outputs = [helper.make_value_info(name, onnx.TypeProto()) for name in results]
        graph = helper.make_graph([node], "g", [], outputs, stored)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)


def f(r: Random, *shape: int) -> Tensor:
    return np.array(np.random.default_rng(r.getrandbits(32)).standard_normal(shape), np.float32)


def ints(*numbers: int) -> Tensor:
    return np.array(numbers, np.int64)


def dims(r: Random, rank: int | None = None) -> list[int]:
    return [r.choice((1, 1, 2, 3, 4, 5)) for _ in range(r.randint(1, 4) if rank is None else rank)]


def stretching(r: Random, shape: Sequence[int]) -> list[int]:
    """A shape that broadcasts to this one, or nearly."""
    found = [1 if r.random() < 0.3 else dim for dim in shape][r.randint(0, len(shape)) if r.random() < 0.3 else 0 :]
    return [dim + 1 if r.random() < 0.02 else dim for dim in found]


def _broadcast(r: Random) -> Drawn:
    op = r.choice(("Add", "Mul", "Sub", "Div", "Max", "Min", "Sum", "Mean", "Pow", "PRelu", "Less", "Equal", "Where"))
    shape = dims(r)
    operands: list[Tensor] = [
        f(r, *stretching(r, shape)) for _ in range(r.randint(1, 3) if op in ("Max", "Sum") else 2)
    ]
    if op == "Where":
        operands.insert(0, f(r, *stretching(r, shape)) > 0)
    return Drawn(op, operands, opset=r.choice(OPSETS))


def _einsum(r: Random) -> Drawn:
    size = {letter: r.choice((1, 2, 3)) for letter in "abcd"}
    terms = ["".join(r.sample("abcd", r.randint(1, 3))) for _ in range(r.randint(1, 3))]
    dots = r.random() < 0.2
    around = [r.choice((1, 2)) for _ in range(r.randint(0, 2))] if dots else []
    operands = [
        f(r, *(1 if r.random() < 0.2 else dim for dim in around), *(1 if r.random() < 0.2 else size[x] for x in term))
        for term in terms
    ]
    seen = sorted({letter for term in terms for letter in term})
    right = "" if r.random() < 0.3 else "->" + "..." * dots + "".join(r.sample(seen, r.randint(0, len(seen))))
    equation = ",".join("..." * dots + term for term in terms) + right
    return Drawn("Einsum", operands, {"equation": equation}, opset=r.choice((12, 21)))


def _product(r: Random) -> Drawn:
    m, k, n = dims(r, 3)
    if r.random() < 0.5:
        a, b = r.randint(0, 1), r.randint(0, 1)
        operands = [f(r, *((k, m) if a else (m, k))), f(r, *((n, k) if b else (k, n)))]
        if r.random() < 0.6:
            operands.append(f(r, *stretching(r, (m, n))))
        return Drawn("Gemm", operands, {"transA": a, "transB": b}, opset=r.choice(OPSETS))
    around = dims(r, r.randint(0, 2))
    left, right = [*stretching(r, around), m, k], [*stretching(r, around), k, n]
    return Drawn("MatMul", [f(r, *(left if r.random() < 0.8 else [k])), f(r, *(right if r.random() < 0.8 else [k]))])


def _sliding(r: Random, rank: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    auto = r.choice(("NOTSET", "NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"))
    if auto != "NOTSET":
        found["auto_pad"] = auto
    elif r.random() < 0.6:
        found["pads"] = [r.randint(0, 1) for _ in range(2 * rank)]
    if r.random() < 0.7:
        found["strides"] = [r.randint(1, 3) for _ in range(rank)]
    return found


def _pool(r: Random) -> Drawn:
    op, rank, opset = (
        r.choice(("MaxPool", "AveragePool", "LpPool")),
        r.randint(1, 2),
        r.choice((7, 10, 11, 12, 18, 19, 22)),
    )
    attributes = {**_sliding(r, rank), "kernel_shape": [r.randint(2, 3) for _ in range(rank)]}
    if r.random() < 0.5 and opset >= (18 if op == "LpPool" else 10):
        attributes["ceil_mode"] = 1
    if r.random() < 0.3 and opset >= {"LpPool": 18, "MaxPool": 10, "AveragePool": 19}[op]:
        attributes["dilations"] = [r.randint(1, 2) for _ in range(rank)]
    return Drawn(op, [f(r, 1, 2, *(r.randint(2, 9) for _ in range(rank)))], attributes, opset=opset)


def _conv(r: Random) -> Drawn:
    op, rank, group = r.choice(("Conv", "ConvTranspose")), r.randint(1, 2), r.choice((1, 1, 2))
    inner, outer = 2 * group, r.randint(1, 2) * group
    kernel = [r.randint(1, 3) for _ in range(rank)]
    attributes = {**_sliding(r, rank), "group": group}
    if r.random() < 0.3:
        attributes["dilations"] = [r.randint(1, 2) for _ in range(rank)]
    weights = (outer, inner // group, *kernel) if op == "Conv" else (inner, outer // group, *kernel)
    if op == "ConvTranspose" and r.random() < 0.2:
        attributes["output_padding"] = [r.randint(0, 1) for _ in range(rank)]
    operands = [f(r, 2, inner, *(r.randint(2, 9) for _ in range(rank))), f(r, *weights)]
    return Drawn(op, [*operands, f(r, outer)] if r.random() < 0.3 else operands, attributes, opset=r.choice((11, 21)))


def _reduced(r: Random) -> Drawn:
    op, shape = r.choice(("ReduceSum", "ReduceMax", "ReduceMean", "ReduceProd", "ReduceL2")), dims(r)
    axes = [r.choice((axis, axis - len(shape))) for axis in r.sample(range(len(shape)), r.randint(0, len(shape)))]
    opset, attributes = r.choice((11, 13, 18, 21)), {"keepdims": r.randint(0, 1)}
    if opset >= (13 if op == "ReduceSum" else 18):
        attributes["noop_with_empty_axes"] = r.randint(0, 1)
        return Drawn(op, [f(r, *shape), *([ints(*axes)] if axes or r.random() < 0.5 else [])], attributes, opset=opset)
    return Drawn(op, [f(r, *shape)], attributes | ({"axes": axes} if axes else {}), opset=opset)


def _sliced(r: Random) -> Drawn:
    shape = dims(r)
    axes = r.sample(range(len(shape)), r.randint(1, len(shape)))
    numbers = [ints(*(r.randint(-7, 7) for _ in axes)) for _ in range(2)]
    steps = ints(*(r.choice((1, 2, -1, -2)) for _ in axes))
    return Drawn("Slice", [f(r, *shape), *numbers, ints(*axes), steps], opset=r.choice((10, 13)))


def _moved(r: Random) -> Drawn:
    shape, opset = dims(r), r.choice((13, 18, 21))
    x, rank, axis = f(r, *shape), len(shape), r.randrange(len(shape))
    match r.choice(("pad", "reshape", "flatten", "squeeze", "unsqueeze", "expand", "tile", "split", "concat", "crop")):
        case "pad":
            return Drawn("Pad", [x, ints(*(r.randint(-1, 2) for _ in range(2 * rank)))], opset=opset)
        case "reshape":
            target = [r.choice((0, dim, -1)) if r.random() < 0.5 else dim for dim in shape]
            return Drawn("Reshape", [x, ints(*target)], opset=opset)
        case "flatten":
            return Drawn("Flatten", [x], {"axis": r.randint(-rank, rank)}, opset=opset)
        case "squeeze":
            listed = [ints(*(k - r.choice((0, rank)) for k, dim in enumerate(shape) if dim == 1))]
            return Drawn("Squeeze", [x, *(listed if r.random() < 0.7 else [])], opset=opset)
        case "unsqueeze":
            return Drawn("Unsqueeze", [x, ints(*r.sample(range(-rank - 1, rank + 1), r.randint(1, 2)))], opset=opset)
        case "expand":
            return Drawn("Expand", [f(r, *stretching(r, shape)), ints(*stretching(r, shape))], opset=opset)
        case "tile":
            return Drawn("Tile", [x, ints(*(r.randint(0, 2) for _ in shape))], opset=opset)
        case "split":
            count = r.randint(1, 3)
            return Drawn("Split", [x], {"axis": axis} | ({"num_outputs": count} if opset >= 18 else {}), count, opset)
        case "concat":
            others = [f(r, *(r.randint(0, 3) if k == axis else dim for k, dim in enumerate(shape))) for _ in range(2)]
            return Drawn("Concat", [x, *others], {"axis": r.choice((axis, axis - rank))}, opset=opset)
    return Drawn("CenterCropPad", [x, ints(r.randint(1, 6))], {"axes": [axis]}, opset=21)


def _picked(r: Random) -> Drawn:
    shape = dims(r)
    x, axis = f(r, *shape), r.randrange(len(shape))
    index = np.zeros(dims(r, r.randint(0, 2)), np.int64)
    match r.choice(
        ("Gather", "GatherElements", "GatherND", "TopK", "OneHot", "NonZero", "Compress", "ArgMax", "CumSum")
    ):
        case "Gather":
            return Drawn("Gather", [x, index], {"axis": axis})
        case "GatherElements":
            return Drawn("GatherElements", [x, np.zeros(shape, np.int64)], {"axis": axis})
        case "GatherND":
            return Drawn("GatherND", [x, np.zeros((*index.shape, r.randint(1, len(shape))), np.int64)])
        case "TopK":
            return Drawn("TopK", [x, ints(r.randint(0, 5))], {"axis": axis}, 2)
        case "OneHot":
            indices = np.array(index, r.choice((np.int64, np.float32)))
            return Drawn("OneHot", [indices, np.array(r.randint(1, 3)), f(r, 2)], {"axis": r.randint(-1, index.ndim)})
        case "NonZero":
            return Drawn("NonZero", [(x > 0).astype(np.int64)])
        case "Compress":
            return Drawn("Compress", [x, f(r, r.randint(1, 4)) > 0], {"axis": axis} if r.random() < 0.7 else {})
        case "ArgMax":
            return Drawn("ArgMax", [x], {"axis": axis, "keepdims": r.randint(0, 1)})
    return Drawn("CumSum", [x, np.array(axis)])


def _range(r: Random) -> Drawn:
    if r.random() < 0.5:
        return Drawn("Range", [np.array(r.randint(-9, 9)) for _ in range(3)])
    kind = r.choice((np.float32, np.float64))
    return Drawn("Range", [np.array(round(r.uniform(-4, 4), 1), kind) for _ in range(3)])


def _resized(r: Random) -> Drawn:
    shape = [r.randint(1, 9) for _ in range(r.randint(1, 3))]
    if r.random() < 0.5:
        scales = np.array([r.choice((0.5, 0.6, 0.7, 1, 1.5, 2, 2.3)) for _ in shape], np.float32)
        return Drawn("Resize", [f(r, *shape), None, scales], {"mode": "nearest"}, opset=r.choice((11, 13, 19)))
    policy = {"keep_aspect_ratio_policy": r.choice(("stretch", "not_larger", "not_smaller"))}
    axes = sorted(r.sample(range(len(shape)), r.randint(1, len(shape))))
    sizes = ints(*(r.randint(1, 12) for _ in axes))
    return Drawn("Resize", [f(r, *shape), None, None, sizes], {"mode": "nearest", "axes": axes} | policy, opset=19)


def _recurrent(r: Random) -> Drawn:
    op = r.choice(("RNN", "GRU", "LSTM"))
    gates, length, batch, width, hidden = {"RNN": 1, "GRU": 3, "LSTM": 4}[op], *dims(r, 4)
    direction = r.choice(("forward", "reverse", "bidirectional"))
    count = 1 + (direction == "bidirectional")
    operands = [f(r, length, batch, width), f(r, count, gates * hidden, width), f(r, count, gates * hidden, hidden)]
    return Drawn(op, operands, {"direction": direction, "hidden_size": hidden}, 2 + (op == "LSTM"), r.choice((7, 14)))


def _attention(r: Random) -> Drawn:
    batch, kv, rows, length, inner, width = *dims(r, 2), *(r.randint(1, 4) for _ in range(4))
    heads = kv * r.randint(1, 2)
    if r.random() < 0.5:
        operands = [f(r, batch, heads, rows, inner), f(r, batch, kv, length, inner), f(r, batch, kv, length, width)]
        return Drawn("Attention", operands, opset=23)
    packed = [f(r, batch, rows, heads * inner), f(r, batch, length, kv * inner), f(r, batch, length, kv * width)]
    return Drawn("Attention", packed, {"q_num_heads": heads, "kv_num_heads": kv}, opset=23)


def _normalized(r: Random) -> Drawn:
    shape = dims(r, r.randint(2, 4))
    axis = r.randrange(len(shape))
    match r.choice(
        ("LayerNormalization", "BatchNormalization", "Softmax", "QuantizeLinear", "DepthToSpace", "Transpose")
    ):
        case "LayerNormalization":
            return Drawn("LayerNormalization", [f(r, *shape), f(r, *shape[axis:])], {"axis": axis}, 3)
        case "BatchNormalization":
            return Drawn("BatchNormalization", [f(r, *shape), *(abs(f(r, shape[1])) for _ in range(4))])
        case "Softmax":
            return Drawn("Softmax", [f(r, *shape)], {"axis": axis - len(shape)}, opset=r.choice(OPSETS))
        case "QuantizeLinear":
            scale = abs(f(r, shape[axis])) + 1
            return Drawn("QuantizeLinear", [f(r, *shape), scale, np.zeros(shape[axis], np.int8)], {"axis": axis})
        case "DepthToSpace":
            return Drawn("DepthToSpace", [f(r, 1, 4 * r.randint(1, 2), *dims(r, 2))], {"blocksize": 2})
    return Drawn("Transpose", [f(r, *shape)], {"perm": r.sample(range(len(shape)), len(shape))})


DRAWS: tuple[Callable[[Random], Drawn], ...] = (
    _broadcast, _einsum, _product, _pool, _conv, _reduced, _sliced, _moved, _picked, _range, _resized, _recurrent,
    _attention, _normalized,
)  # fmt: skip


def drawn(number: int) -> Drawn:
    """The node of this number; each kind comes up in turn."""
    return DRAWS[number % len(DRAWS)](Random(number))


def reading(node: Drawn, folder: Path) -> ReferenceProgram | None:
    """What the verifier reads of the node; None where shape inference refuses it."""
    onnx.save(node.model(), folder / "n.onnx")
    try:
        return read_onnx(folder / "n.onnx", Bindings())
    except TmmuError:
        return None


def by_evaluator(model: onnx.ModelProto) -> list[Tensor]:
    """The results by onnx's reference evaluator."""
    found: list[Tensor] = ReferenceEvaluator(model).run(None, {})
    return found


def executed(node: Drawn, run: Callable[[onnx.ModelProto], Sequence[Any]]) -> dict[str, Tensor] | None:
    """The results that a runtime gives; None where it refuses the node."""
    try:
        with np.errstate(all="ignore"):
            found = run(node.model())
    except Exception:  # runtimes raise what they like; only what they give is compared
        return None
    return {f"r{k}": np.asarray(result) for k, result in enumerate(found)}


def shapes(results: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    """The shape of each result."""
    return {name: result.shape for name, result in results.items()}
