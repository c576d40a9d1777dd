"""How operators of the closed list are computed while shapes are worked out, and the limits of doing so.

`table` has the list. spec: T10.3, T10.4
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

from tmmu.core.dims.expressions import Dim, Expression
from tmmu.onnx.naming import domain_of
from tmmu.onnx.sizes import Array, Size, is_open, numbers
from tmmu.onnx.table import row_of

RESULT_LIMIT = 1 << 20
"""The most bytes that one operand or result of a computed node may have."""

TOTAL_LIMIT = 1 << 28
"""The most bytes that the operands and results of all computed nodes of a model may have."""

_DTYPES = frozenset({
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
})  # fmt: skip
"""Element types of which NumPy itself has numbers."""


def is_folded(node: onnx.NodeProto) -> bool:
    """Whether the node's operator is of the closed list."""
    return domain_of(node) == "" and row_of("", node.op_type).folded


def fits(size: Size) -> bool:
    """Whether an operand or result of this size may be computed with."""
    shape, dtype = size
    if is_open(size) or dtype not in _DTYPES:
        return False
    return math.prod(numbers(shape)) * np.dtype(dtype).itemsize <= RESULT_LIMIT


def dimensions(node: onnx.NodeProto, shape: tuple[Dim, ...]) -> Array:
    """The result of a Shape or Size of an operand of `shape`."""
    if node.op_type == "Size":
        return settled(np.array(math.prod(shape), object), "int64")
    settings = {attribute.name: attribute.i for attribute in node.attribute}
    return settled(np.array(shape[settings.get("start", 0) : settings.get("end")], object), "int64")


def has_open(array: Array | None) -> bool:
    """Whether an array holds expressions in the place of numbers."""
    return array is not None and array.dtype == object


def settled(cells: Array, dtype: str) -> Array:
    """Numbers and expressions as they are kept: as an array of `dtype` where no expression is among them."""
    return cells if any(isinstance(cell, Expression) for cell in cells.flat) else cells.astype(dtype)


def compute(node: onnx.NodeProto, operands: Sequence[Array | None], opset: int) -> list[Array] | None:
    """The results of a node of the closed list, None where it has none (a division by zero, operands that do not fit).

    Parameters
    ----------
    node
        The node; its operands and outputs are those of the file.
    operands
        The value of each operand in order, None for an absent one.
    opset
        The version of the ai.onnx operators.
    """
    if row_of("", node.op_type).integers_only and any(o is not None and o.dtype.kind not in "iu" for o in operands):
        return None
    inputs = {name: value for name, value in zip(node.input, operands, strict=True) if value is not None}
    anything = onnx.TypeProto()
    graph = helper.make_graph(
        [node],
        "alone",
        [helper.make_value_info(name, anything) for name in inputs],
        [helper.make_value_info(name, anything) for name in node.output if name],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    try:
        with np.errstate(all="raise"):
            results = ReferenceEvaluator(model).run(None, inputs)
    except Exception:  # whatever stops the evaluator, the value is then not known, which refuses what depends on it
        return None
    return [np.asarray(result) for result in results]
