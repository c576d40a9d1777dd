"""Small ONNX graphs with two open dimensions, made of what real models do to shapes, and every shape of their envelope.

A graph is a list of steps; each takes values that are there already. Operands are chosen so that a step fits at one
shape, the *reference*; whether it fits at every other shape is for the importer to find out, so that both graphs that
hold for a whole envelope and graphs that do not occur.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

OPSET = 18


class Dynamic(NamedTuple):
    """A graph, and the range of each of its two dimensions."""

    model: onnx.ModelProto
    ranges: dict[str, tuple[int, int]]


def shapes_of(ranges: dict[str, tuple[int, int]]) -> Iterator[dict[str, int]]:
    """Every shape of an envelope."""
    sizes = [range(low, high + 1) for low, high in ranges.values()]
    for point in product(*sizes):
        yield dict(zip(ranges, point, strict=True))


class Maker:
    """A graph in the making: `ranks` gives the rank of each value of floats."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.stored: list[onnx.TensorProto] = []
        self.ranks: dict[str, int] = {}

    def put(self, op: str, *inputs: str, results: int = 1, **attributes: Any) -> list[str]:
        """A node; its results are named by its number."""
        name = f"n{len(self.nodes)}"
        outputs = [f"{name}_{k}" for k in range(results)]
        self.nodes.append(helper.make_node(op, list(inputs), outputs, name=name, **attributes))
        return outputs

    def floats(self, op: str, rank: int, *inputs: str, results: int = 1, **attributes: Any) -> None:
        """A node whose results are floats of this rank."""
        for name in self.put(op, *inputs, results=results, **attributes):
            self.ranks[name] = rank

    def number(self, *values: int) -> str:
        """A stored vector of integers."""
        name = f"c{len(self.stored)}"
        self.stored.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def size(self, value: str, axis: int) -> str:
        """A vector of one element: a dimension of a value."""
        return self.put("Slice", self.put("Shape", value)[0], self.number(axis), self.number(axis + 1))[0]


Step = Callable[[Maker, str, str, int], None]
"""Adds nodes that read the value, and perhaps another one; the integer chooses among variants."""


def _relu(m: Maker, x: str, _: str, k: int) -> None:
    m.floats(("Relu", "Softmax", "Identity", "Neg")[k % 4], m.ranks[x], x)


def _add(m: Maker, x: str, y: str, k: int) -> None:
    m.floats(("Add", "Mul", "Max")[k % 3], max(m.ranks[x], m.ranks[y]), x, (x, y)[k % 2])


def _transpose(m: Maker, x: str, _: str, k: int) -> None:
    rank = m.ranks[x]
    m.floats("Transpose", rank, x, perm=[(axis + k) % rank for axis in range(rank)])


def _product(m: Maker, x: str, _: str, k: int) -> None:
    rank = m.ranks[x]
    perm = [*range(rank - 2), rank - 1, rank - 2] if rank > 1 else [0]
    turned = m.put("Transpose", x, perm=perm)[0]
    m.floats("MatMul", rank if rank > 1 else 0, *((x, turned) if k % 2 else (turned, x)))


def _flatten(m: Maker, x: str, _: str, k: int) -> None:
    if k % 3:
        m.floats("Reshape", 2, x, m.number(*((0, -1) if k % 2 else (-1, 1))))
    else:
        m.floats("Flatten", 2, x, axis=k % (m.ranks[x] + 1))


def _reshape(m: Maker, x: str, _: str, k: int) -> None:
    """The dimensions computed: [a, b, …] becomes [a · b, …], or [a · n, …] of what is no multiple."""
    rank = m.ranks[x]
    if rank < 2:
        m.floats("Reshape", 2, x, m.put("Concat", m.size(x, 0), m.number(1), axis=0)[0])
        return
    first = m.put("Mul", m.size(x, 0), m.size(x, 1) if k % 4 else m.number(2))[0]
    rest = m.put("Slice", m.put("Shape", x)[0], m.number(2), m.number(rank))[0]
    target = m.put("Concat", first, *([m.number(-1)] if k % 3 == 0 else []), rest, axis=0)[0]
    m.floats("Reshape", rank - 1 + (k % 3 == 0), x, target)


def _slice(m: Maker, x: str, y: str, k: int) -> None:
    axis = m.number(k % m.ranks[x])
    open_end = m.size(y, 0) if m.ranks[y] else m.number(2)
    negated = m.put("Neg", open_end)[0]
    start, end = (
        (m.number(k % 5 - 2), m.number(4 - k % 3)), (open_end, m.number(6)), (m.number(0), open_end),
        (negated, m.number(1 << 60)), (m.number(1), m.number(1 << 60)), (m.number(-1), m.number(-(1 << 60))),
    )[k % 6]  # fmt: skip
    step = m.number((1, 1, 2, 3, 2, -1 - k % 2)[k % 6])
    m.floats("Slice", m.ranks[x], x, start, end, axis, step)


def _concat(m: Maker, x: str, y: str, k: int) -> None:
    m.floats("Concat", m.ranks[x], x, y if m.ranks[y] == m.ranks[x] and k % 2 else x, axis=k % m.ranks[x])


def _split(m: Maker, x: str, _: str, k: int) -> None:
    if k % 2:
        m.floats("Split", m.ranks[x], x, results=2, axis=k % m.ranks[x], num_outputs=2)
        return
    axis = k // 2 % m.ranks[x]
    first = m.put("Div", m.size(x, axis), m.number(2))[0]
    parts = m.put("Concat", first, m.put("Sub", m.size(x, axis), first)[0], axis=0)[0]
    m.floats("Split", m.ranks[x], x, parts, results=2, axis=axis)


def _tile(m: Maker, x: str, y: str, k: int) -> None:
    rank = m.ranks[x]
    count = m.size(y, 0) if k % 2 and m.ranks[y] else m.number(2)
    m.floats("Tile", rank, x, m.put("Concat", count, *[m.number(1)] * (rank - 1), axis=0)[0])


def _expand(m: Maker, x: str, y: str, k: int) -> None:
    lead = m.number(2) if k % 2 else m.put("Max", m.size(y, 0), m.number(3))[0] if m.ranks[y] else m.number(1)
    m.floats("Expand", m.ranks[x] + 1, x, m.put("Concat", lead, m.put("Shape", x)[0], axis=0)[0])


def _pad(m: Maker, x: str, y: str, k: int) -> None:
    rank = m.ranks[x]
    more = m.size(y, 0) if k % 2 and m.ranks[y] else m.number(k % 3)
    nothing = [m.number(0)] * (rank - 1)
    m.floats("Pad", rank, x, m.put("Concat", more, *nothing, m.number(1), *nothing, axis=0)[0])


def _filled(m: Maker, x: str, y: str, k: int) -> None:
    first = m.size(x, k % m.ranks[x])
    second = m.put(("Mod", "Div", "Min", "Sub")[k % 4], first, m.number(3))[0]
    dims = m.put("Abs", second)[0] if k % 4 == 3 else second
    m.floats("ConstantOfShape", 2, m.put("Concat", dims, first, axis=0)[0])


def _range(m: Maker, x: str, _: str, k: int) -> None:
    end = m.put("Squeeze", m.size(x, k % m.ranks[x]))[0]
    scalars = [m.put("Squeeze", m.number(value))[0] for value in (k % 3, 1 + k % 2)]
    counted = m.put("Range", scalars[0], end, scalars[1])[0]
    m.floats("Cast", 1, counted, to=TensorProto.FLOAT)


def _window(m: Maker, x: str, _: str, k: int) -> None:
    if m.ranks[x] != 3:
        m.floats("Unsqueeze", m.ranks[x] + 1, x, m.number(k % (m.ranks[x] + 1)))
        return
    auto = {} if k % 3 else {"auto_pad": "SAME_UPPER"}
    m.floats("MaxPool", 3, x, kernel_shape=[1 + k % 2], strides=[1 + k % 3], **auto)


def _chosen(m: Maker, x: str, _: str, k: int) -> None:
    """The idiom of exporters: a dimension that is -1 becomes 1, any other stays."""
    shape = m.put("Shape", x)[0]
    ones = m.put("ConstantOfShape", m.number(m.ranks[x]), value=numpy_helper.from_array(np.array([1], np.int64)))[0]
    odd = m.put("Equal", shape, m.put("Mul", ones, m.number((-1, 2)[k % 5 == 0]))[0])[0]
    m.floats("Expand", m.ranks[x], x, m.put("Where", odd, ones, shape)[0])


def _reduced(m: Maker, x: str, _: str, k: int) -> None:
    rank = m.ranks[x]
    if k % 2:
        m.floats("ReduceMax", rank, x, axes=[k % rank])
    else:
        m.floats("Gather", rank, x, m.number(0, 0), axis=k % rank)


STEPS: tuple[Step, ...] = (
    _relu, _add, _transpose, _product, _flatten, _reshape, _slice, _slice, _concat, _split, _tile, _expand, _pad,
    _filled, _range, _window, _chosen, _reduced,
)  # fmt: skip


@st.composite
def dynamic(draw: st.DrawFn, most: int = 6) -> Dynamic:
    """A graph of up to `most` steps on two inputs with open dimensions."""
    maker = Maker()
    ranges = {
        name: (low := draw(st.integers(0 if draw(st.integers(0, 5)) == 0 else 1, 3)), low + draw(st.integers(1, 4)))
        for name in ("a", "b")
    }
    inputs: list[tuple[str, Sequence[str | int]]] = [
        ("x", ("a", "b", draw(st.sampled_from((1, 2, 4))))), ("y", ("b", draw(st.sampled_from((4, "a")))))
    ]  # fmt: skip
    for name, shape in inputs:
        maker.ranks[name] = len(shape)
    for _ in range(draw(st.integers(1, most))):
        usable = [name for name, rank in maker.ranks.items() if 1 <= rank <= 4]
        x, y = (usable[-1 - draw(st.integers(0, 2)) % len(usable)] for _ in range(2))
        draw(st.sampled_from(STEPS))(maker, x, y, draw(st.integers(0, 11)))
    last = next(reversed(maker.ranks))
    value_infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape)) for name, shape in inputs]
    output = helper.make_tensor_value_info(last, TensorProto.FLOAT, None)
    graph = helper.make_graph(maker.nodes, "dynamic", value_infos, [output], maker.stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    return Dynamic(model, ranges)
