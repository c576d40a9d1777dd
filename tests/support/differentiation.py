"""A joint graph run with NumPy: what its gradient steps compute, from what they are said to read and nothing else.

Forward operators and their derivatives are written here from the formulas. A gradient step gets a dictionary that holds
the tensors it reads; a formula that needs another one fails. So the graph's gradients can be compared with finite
differences, and a table that saves too little is noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from tmmu.core.vocabulary import Model, Node

Value = NDArray[np.float64]
Values = dict[int, Value]


def _softmax(x: Value) -> Value:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    result: Value = e / e.sum(axis=-1, keepdims=True)
    return result


FORWARD: dict[str, Callable[..., Value]] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Div": lambda a, b: a / b,
    "MatMul": lambda a, b: a @ b,
    "Gemm": lambda a, b, c: a @ b + c,
    "Sum": lambda *all: sum(all[1:], all[0]),
    "Relu": lambda a: np.maximum(a, 0),
    "Tanh": np.tanh,
    "Sin": np.sin,
    "Exp": np.exp,
    "Neg": lambda a: -a,
    "Softmax": _softmax,
    "Identity": lambda a: a,
}
"""The operators that can be run; a Reshape takes the shape of its result."""


def _softmax_back(dy: Value, y: Value) -> Value:
    result: Value = y * (dy - (dy * y).sum(axis=-1, keepdims=True))
    return result


BACKWARD: dict[str, Callable[[int, Value, Callable[[int], Value], Callable[[], Value]], Value]] = {
    "Add": lambda p, dy, x, y: dy,
    "Sum": lambda p, dy, x, y: dy,
    "Neg": lambda p, dy, x, y: -dy,
    "Sub": lambda p, dy, x, y: -dy if p else dy,
    "Mul": lambda p, dy, x, y: dy * x(1 - p),
    "Div": lambda p, dy, x, y: -dy * y() / x(1) if p else dy / x(1),
    "MatMul": lambda p, dy, x, y: x(0).T @ dy if p else dy @ x(1).T,
    "Gemm": lambda p, dy, x, y: (dy @ x(1).T, x(0).T @ dy, dy)[p] if p == 2 else x(0).T @ dy if p else dy @ x(1).T,
    "Relu": lambda p, dy, x, y: dy * (y() > 0),
    "Tanh": lambda p, dy, x, y: dy * (1 - y() ** 2),
    "Sin": lambda p, dy, x, y: dy * np.cos(x(0)),
    "Exp": lambda p, dy, x, y: dy * y(),
    "Softmax": lambda p, dy, x, y: _softmax_back(dy, y()),
}
"""The gradient of operand `p` from that of the result, the operands `x` and the result `y`, broadcasts apart."""


def _summed_to(value: Value, shape: tuple[int, ...]) -> Value:
    """The sum over the axes along which an operand of `shape` was broadcast."""
    while value.ndim > len(shape):
        value = value.sum(axis=0)
    for axis, size in enumerate(shape):
        if size == 1:
            value = value.sum(axis=axis, keepdims=True)
    return value


class Run:
    """The values of a joint graph's tensors, from those that the caller gives by name."""

    def __init__(self, model: Model, given: Mapping[str, Value]) -> None:
        self.model, self.values = model, dict[int, Value]()
        rows = {tensor.name: t for t, tensor in enumerate(model.tensors)}
        for name, value in given.items():
            if name in rows:
                self.values[rows[name]] = value
        self.named = {node.name: node for node in model.nodes}
        for node in model.nodes:
            read = {t: self.values[t] for t in node.reads}  # a KeyError is a read before its write
            if node.domain == "tmmu.grad" or (node.name.endswith(".grad") and node.op == "Reshape"):
                self._gradients(node, read)
            else:
                self._forward(node, read)
            for t in node.writes:
                view = model.tensors[t].view
                if view is not None:  # a view shows its base's bytes, so their values must be equal
                    assert np.array_equal(self.values[t].ravel(), self.values[view.base].ravel(), equal_nan=True), node

    def __getitem__(self, name: str) -> Value:
        return next(self.values[t] for t, tensor in enumerate(self.model.tensors) if tensor.name == name)

    def _forward(self, node: Node, read: Values) -> None:
        operands = [read[t] for t in node.reads]
        shape = self.model.tensors[node.writes[0]].shape
        self.values[node.writes[0]] = (
            operands[0].reshape(shape) if node.op == "Reshape" else FORWARD[node.op](*operands)
        )

    def _gradients(self, node: Node, read: Values) -> None:
        """What a gradient step writes; what is computed again stands for what it was computed from."""
        forward = self.named[node.name.removesuffix(".grad")]
        given = read[node.reads[0]]
        names = [self.model.tensors[t].name for t in forward.reads]
        position = -1
        for written in node.writes:
            target = self.model.tensors[written].name.rpartition(".grad")[0]
            position = names.index(target, position + 1)
            shape = self.model.tensors[forward.reads[position]].shape
            if node.op == "Reshape":
                self.values[written] = given.reshape(shape)
                continue

            def operand(p: int) -> Value:
                return self._read(read, forward.reads[p])

            formula = BACKWARD[forward.op]
            value = formula(position, given, operand, lambda: self._read(read, forward.writes[0]))
            self.values[written] = _summed_to(value, shape)

    def _read(self, read: Values, t: int) -> Value:
        """A tensor, or its copy, among those that the step reads."""
        name = self.model.tensors[t].name
        for row, value in read.items():
            other = self.model.tensors[row].name
            if row == t or other.rpartition(".recompute")[0] == name:
                return value
        raise AssertionError(f"{name} is needed, and the step does not read it")


def loss(model: Model, given: Mapping[str, Value], seeds: Mapping[str, Value]) -> float:
    """The sum of the outputs, each element times that of its seed."""
    run = Run(model, given)
    return float(sum((run[name] * seed).sum() for name, seed in seeds.items()))
