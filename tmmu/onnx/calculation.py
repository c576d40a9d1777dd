"""The closed list of folded operators on numbers that are expressions over the dimensions of the envelope.

ONNX's own evaluator runs an operator that only moves numbers on numbers that represent the expressions; `symbolic` does
arithmetic. A result is not known if it depends on a comparison, or on the sign of a division, that the envelope does
not decide, or on a number that may exceed its type. spec: R6.1, T10.3
"""

from __future__ import annotations

from collections.abc import Container, Sequence

import numpy as np
import onnx

from tmmu.core.dims.expressions import Dim, Unwieldy, bounds_of
from tmmu.onnx.folding import compute, settle_array
from tmmu.onnx.sizes import Array
from tmmu.onnx.symbolic import Undecided, attributes
from tmmu.onnx.table import row_of


def calculate(
    node: onnx.NodeProto, operands: Sequence[Array | None], types: Sequence[str], opset: int
) -> list[Array] | None:
    """Compute the results of a node of the closed list with expressions in its operands; None if they are not known.

    Parameters
    ----------
    node, operands, opset
        As for `folding.compute`; an array of objects contains numbers and expressions.
    types
        The element types of the results.
    """
    try:
        row = row_of("", node.op_type)
        if row.moves is not None:
            results = _move(node, operands, row.moves, opset)
        elif row.symbolic is not None:
            results = [row.symbolic(node, operands)]
        else:
            return None
        if results is None or not all(_fits_type(cells, dtype) for cells, dtype in zip(results, types, strict=True)):
            return None
        return [settle_array(cells, dtype) for cells, dtype in zip(results, types, strict=True)]
    except (Undecided, Unwieldy, ValueError, IndexError, TypeError, OverflowError):
        return None


def _move(
    node: onnx.NodeProto, operands: Sequence[Array | None], positions: Container[int], opset: int
) -> list[Array] | None:
    """Run the operator on the places of the numbers instead of the numbers."""
    if attributes(node).get("reduction", b"none") != b"none":
        return None
    cells: list[object] = []
    places: list[Array | None] = []
    for k, operand in enumerate(operands):
        if operand is None or k not in positions:
            places.append(operand)
            continue
        places.append(np.arange(len(cells), len(cells) + operand.size, dtype=np.int64).reshape(operand.shape))
        cells.extend(operand.astype(object).flat)
    if any(operand is not None and operand.dtype == object for operand in places):
        return None
    found = compute(node, places, opset)
    table = np.empty(len(cells), object)
    table[:] = cells
    return None if found is None else [np.asarray(table[result], object) for result in found]


def _fits_type(cells: Array, dtype: str) -> bool:
    """Return whether every number fits its type for every shape, so that no wrap-around changes it."""
    if dtype == "bool":
        return True
    if not dtype.lstrip("u").startswith("int"):
        return False
    kind = np.iinfo(dtype)
    dims: list[Dim] = list(cells.astype(object).flat)
    return all(kind.min <= bounds_of(dim).low and bounds_of(dim).high <= kind.max for dim in dims)
