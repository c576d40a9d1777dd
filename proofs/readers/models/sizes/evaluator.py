"""The numbers from which shapes are made: a closed list of operators on small tensors of known elements.

Integers may be expressions over the dimensions of an envelope: what depends on a comparison that the envelope does not
decide, or may leave its type, is not known. Floats are single operations that IEEE 754 rounds in one way; sums and
powers of floats, of which the order counts, are left out. Written from the operators' texts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proofs.readers.models.sizes import arithmetic, picking
from proofs.readers.models.sizes.call import Call, Misfit, NotKnown, TensorSize, Value
from proofs.readers.models.sizes.generators import shape_part
from proofs.readers.models.sizes.stored import LIMIT, constant, of_numpy, value_of
from tmmu.core.dims.expressions import Expression, Unwieldy, closed, limits

Cells = NDArray[Any]
Evaluation = Callable[[Call, list[Value | None], list[TensorSize]], list[Cells]]
"""The elements of the results, from the values of the operands and the sizes of the results."""

BY_SHAPE = frozenset({"Shape", "Size"})
"""Operators that look at no element of their operand."""


def evaluate(call: Call, operands: list[Value | None], results: list[TensorSize]) -> list[Value] | None:
    """The values of the results of an operator of ai.onnx, whose sizes are known; None where they are not."""
    op = call.node.op_type
    if op not in EVALUATED or any(not _fits(size) for size in results):
        return None
    try:
        with np.errstate(all="ignore"):  # what is no number is one by IEEE 754, and refused where it becomes a size
            found = EVALUATED[op](call, operands, results)
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
    """The result as a value: of the size that the rule gives, and of numbers that its type holds for every shape."""
    cells = np.asarray(cells)
    if cells.shape != size.shape:
        raise NotKnown(f"{cells.shape} is not {size}")
    if size.dtype == "bool":
        return Value(cells.astype(np.bool_), "bool")
    if arithmetic.is_integer(size.dtype):
        kind = np.iinfo(size.dtype)
        for cell in cells.astype(object).flat:
            low, high = limits(cell)
            if low < kind.min or high > kind.max:
                raise NotKnown(f"{cell} may be no {size.dtype}")
        return Value(cells.astype(object), size.dtype)
    if size.dtype not in arithmetic.FLOATS or cells.dtype.name != size.dtype:
        raise NotKnown(f"{size.dtype} is not worked out")
    return Value(cells, size.dtype)


def _shape(call: Call, operands: list[Value | None], results: list[TensorSize]) -> list[Cells]:
    found = np.empty(len(shape_part(call)), object)
    found[:] = shape_part(call)
    return [found]


def _size(call: Call, operands: list[Value | None], results: list[TensorSize]) -> list[Cells]:
    found = np.empty((), object)
    total: Any = 1
    for dim in call.shape(0):
        total = total * dim
    found[()] = total
    return [found]


def _constant(call: Call, operands: list[Value | None], results: list[TensorSize]) -> list[Cells]:
    value = constant(call.node)[1]
    if value is None:
        raise NotKnown("its elements are not in the file")
    return [value.cells]


def _filled(call: Call, operands: list[Value | None], results: list[TensorSize]) -> list[Cells]:
    tensor = call.attribute("value")
    one = of_numpy(np.zeros((), np.float32), "float32") if tensor is None else value_of(tensor)
    if one is None:
        raise NotKnown("its element is not known")
    return [np.broadcast_to(one.cells.reshape(-1)[:1], closed(results[0].shape))]


EVALUATED: dict[str, Evaluation] = {
    "Shape": _shape, "Size": _size, "Constant": _constant, "ConstantOfShape": _filled,
    **picking.EVALUATED, **arithmetic.EVALUATED,
}  # fmt: skip
"""The closed list, all of ai.onnx."""
