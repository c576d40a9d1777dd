"""The computation of operators of the closed list during the resolution of shapes, and its limits.

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
"""The element types for which NumPy itself has numbers."""


def is_folded(node: onnx.NodeProto) -> bool:
    """Return whether the node's operator is on the closed list."""
    return domain_of(node) == "" and row_of("", node.op_type).folded


def fits(size: Size) -> bool:
    """Return whether an operand or result of this size may be computed."""
    shape, dtype = size
    if is_open(size) or dtype not in _DTYPES:
        return False
    return math.prod(numbers(shape)) * np.dtype(dtype).itemsize <= RESULT_LIMIT


def dimensions(node: onnx.NodeProto, shape: tuple[Dim, ...]) -> Array:
    """Return the result of a Shape or Size of an operand of `shape`."""
    if node.op_type == "Size":
        return settle_array(np.array(math.prod(shape), object), "int64")
    settings = {attribute.name: attribute.i for attribute in node.attribute}
    return settle_array(np.array(shape[settings.get("start", 0) : settings.get("end")], object), "int64")


def has_open(array: Array | None) -> bool:
    """Return whether an array contains expressions instead of numbers."""
    return array is not None and array.dtype == object


def settle_array(cells: Array, dtype: str) -> Array:
    """Return numbers and expressions as an array of `dtype`, or unchanged if there is an expression among them."""
    return cells if any(isinstance(cell, Expression) for cell in cells.flat) else cells.astype(dtype)


def compute(node: onnx.NodeProto, operands: Sequence[Array | None], opset: int) -> list[Array] | None:
    """Compute the results of a node of the closed list; None for a division by zero or operands that do not fit.

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
    except Exception:  # then the value is not known, and a shape that depends on it is refused
        return None
    return [np.asarray(result) for result in results]
