"""Random nodes on small numbers of known values, and what the evaluator by which the verifier folds shapes gives."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from proofs.readers.models.sizes.table import RULES, version_of
from proofs.readers.models.sizes.values import Producer, TensorValues
from proofs.readers.operators.sizes.call import TensorSize, Value
from proofs.readers.operators.sizes.stored import of_numpy
from tests.support.operator_rows import rule_of
from tests.support.random_nodes import Drawn, dims, ints, stretching

KINDS = (np.int64, np.int64, np.int64, np.int32, np.float32, np.float64)
BINARY = ("Add", "Sub", "Mul", "Div", "Mod", "Max", "Min", "Equal", "Less", "GreaterOrEqual", "Sum")
UNARY = ("Neg", "Abs", "Sign", "Floor", "Ceil", "Round", "Identity", "Cast", "Not", "Sqrt")
CASTS = (TensorProto.INT64, TensorProto.INT32, TensorProto.FLOAT, TensorProto.BOOL, TensorProto.UINT8, TensorProto.INT8)


def _numbers(r: Random, shape: list[int], kind: Any, low: int = -9) -> NDArray[Any]:
    found = np.random.default_rng(r.getrandbits(32)).integers(low, 10, shape)
    halves = np.random.default_rng(r.getrandbits(32)).integers(0, 2, shape) / 2
    return (found + (halves if np.dtype(kind).kind == "f" else 0)).astype(kind)


def valued(number: int) -> Drawn:
    """The node of this number."""
    r = Random(number)
    kind, shape = r.choice(KINDS), dims(r, r.randint(0, 3))
    x, rank = _numbers(r, shape, kind), len(shape)
    axis = r.randrange(rank) if rank else 0
    which = number % 16
    if which < 4:
        other = _numbers(r, stretching(r, shape), kind)
        op = r.choice(BINARY)
        whole = op in ("Div", "Mod") and np.dtype(kind).kind == "i"
        attributes = {"fmod": 1} if op == "Mod" and (not whole or r.random() < 0.5) else {}
        return Drawn(op, [x, np.where(other == 0, 1, other).astype(kind) if whole else other], attributes)
    if which < 6:
        op = r.choice(UNARY)
        if op == "Cast":
            return Drawn(op, [_numbers(r, shape, kind, 0 if r.random() < 0.5 else -9)], {"to": r.choice(CASTS)})
        if op == "Not":
            return Drawn(op, [x > 0])
        return Drawn(op, [abs(x) if op == "Sqrt" else x])
    if which == 6:
        return Drawn("Where", [_numbers(r, stretching(r, shape), np.int64) > 0, x, _numbers(r, shape, kind)])
    if which == 7:
        op = r.choice(("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd"))
        axes = r.sample(range(rank), r.randint(0, rank))
        return Drawn(op, [x, ints(*axes)], {"keepdims": r.randint(0, 1), "noop_with_empty_axes": r.randint(0, 1)})
    if which == 8 and rank:
        starts, ends, steps = (ints(r.choice(choices)) for choices in (range(-6, 6), range(-6, 6), (1, 2, -1)))
        return Drawn("Slice", [x, starts, ends, ints(axis), steps], opset=13)
    if which == 9 and rank:
        index = np.array(_numbers(r, dims(r, r.randint(0, 2)), np.int64, 0) % shape[axis])
        return Drawn("Gather", [x, index - r.choice((0, shape[axis]))], {"axis": axis})
    if which == 10 and rank:
        return Drawn("Concat", [x, x], {"axis": axis - r.choice((0, rank))})
    if which == 11:
        return Drawn("Range", [np.array(r.randint(-9, 9)) for _ in range(2)] + [np.array(r.choice((-3, -1, 1, 2)))])
    if which == 12:
        indices = _numbers(r, dims(r, r.randint(0, 2)), np.int64, -3)
        return Drawn("OneHot", [indices, np.array(r.randint(1, 5)), _numbers(r, [2], kind)], {"axis": -1})
    if which == 13 and rank:
        at = np.stack([_numbers(r, [3], np.int64, 0) % dim for dim in shape[: r.randint(1, rank)]], -1)
        return Drawn(r.choice(("GatherND", "Transpose")), [x, at]) if r.random() < 0.7 else Drawn("Transpose", [x])
    if which == 14:
        return Drawn("NonZero" if rank else "Shape", [x])
    if which == 15 and rank:
        mode = {"exclusive": r.randint(0, 1), "reverse": r.randint(0, 1)}
        return Drawn("CumSum", [_numbers(r, shape, np.int64), np.array(axis)], mode)
    return Drawn("Clip", [x, np.array(-2, kind), np.array(5, kind)])


def same_as(value: Value, result: NDArray[Any]) -> bool:
    """Whether a value is the array that a runtime gives, of the same type."""
    cells = value.cells
    if cells.shape != result.shape or value.dtype != result.dtype.name:
        return False
    return np.array_equal(cells.astype(result.dtype), result, equal_nan=result.dtype.kind == "f")


def evaluated(node: Drawn) -> Value | None:
    """The value of the node's first result by the verifier's evaluator; None where it gives none.

    Raises Misfit where the operands do not fit the operator.
    """
    proto = node.model().graph.node[0]
    sizes: dict[str, TensorSize] = {}
    values = TensorValues(sizes)
    for name, operand in zip(proto.input, node.operands, strict=True):
        assert operand is not None  # all are there
        sizes[name] = TensorSize(operand.shape, operand.dtype.name)
        values.assume(name, of_numpy(operand, operand.dtype.name))
    since = version_of("", node.op, {"": node.opset})
    assert since is not None
    made = Producer(proto, since, list(proto.input), list(proto.output))
    (sizes["r0"],) = rule_of(RULES, "", node.op, since)(values.call(made))
    values.made_by(made)
    return values.of("r0")
