"""Evaluate the numbers that shapes depend on: a closed list of operators on small tensors with known elements.

Integers may be expressions over the dimensions of an envelope. A result is not known if it depends on a comparison that
the envelope does not decide, or if it may leave its type. Floats are single operations that IEEE 754 rounds in one way.
Sums and powers of floats depend on the order and are left out. The operators follow their texts.
"""

from __future__ import annotations

import numpy as np

from proofs.readers.operators import row_of
from proofs.readers.operators.sizes import arithmetic
from proofs.readers.operators.sizes.call import Call, Cells, Misfit, NotKnown, TensorSize, Value
from proofs.readers.operators.sizes.stored import LIMIT
from tmmu.core.dims.expressions import Expression, Unwieldy, bounds_of


def evaluate(call: Call, operands: list[Value | None], results: list[TensorSize]) -> list[Value] | None:
    """Return the values of the results of an operator of ai.onnx with known sizes, or None if they are not known."""
    rule = row_of("", call.node.op_type).value
    if rule is None or any(not _fits(size) for size in results):
        return None
    try:
        with np.errstate(all="ignore"):  # NaN and infinities follow IEEE 754, and are refused when they become a size
            found = rule(call, operands, results)
        return [_checked(cells, size) for cells, size in zip(found, results, strict=False)]
    except (Misfit, NotKnown, Unwieldy, ValueError, TypeError, IndexError, ArithmeticError):
        return None


def _fits(size: TensorSize) -> bool:
    count = 1
    for dim in size.shape:
        if isinstance(dim, Expression):
            return False
        count *= dim
    return count <= LIMIT


def _checked(cells: Cells, size: TensorSize) -> Value:
    """Return the result as a value: of the rule's size, and of numbers that its type holds for every shape."""
    cells = np.asarray(cells)
    if cells.shape != size.shape:
        raise NotKnown(f"{cells.shape} is not {size}")
    if size.dtype == "bool":
        return Value(cells.astype(np.bool_), "bool")
    if arithmetic.is_integer(size.dtype):
        kind = np.iinfo(size.dtype)
        for cell in cells.astype(object).flat:
            low, high = bounds_of(cell)
            if low < kind.min or high > kind.max:
                raise NotKnown(f"{cell} may be no {size.dtype}")
        return Value(cells.astype(object), size.dtype)
    if size.dtype not in arithmetic.FLOATS or cells.dtype.name != size.dtype:
        raise NotKnown(f"{size.dtype} is not worked out")
    return Value(cells, size.dtype)
