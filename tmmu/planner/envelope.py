"""The envelope of a plan: the size of each tensor as an expression, and the shape at which it is largest.

spec: R6.1, R6.3
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tmmu.core.columns import build_column
from tmmu.core.dims import table
from tmmu.core.dims.maxima import maximum
from tmmu.core.dtypes import nbytes
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Tensor
from tmmu.ir.columns import terms_object
from tmmu.plans.columns import Terms
from tmmu.plans.sections import Envelope


def build_envelope(
    tensors: Sequence[Tensor], ranges: Mapping[str, tuple[int, int]], policy: str, *, symbolic: bool = False
) -> Envelope | None:
    """Build the envelope of a plan with these tensors; None if no dimension is open. O(size of expressions).

    A dimension that a tensor does not depend on is set to its least value in the shape at which the tensor is largest.
    Raises INVALID_IR_SHAPES if the size of a tensor is not the maximum of its expression.
    """
    if not ranges:
        return None
    sizes = [nbytes(tensor.shape, tensor.dtype) for tensor in tensors]
    names = sorted(ranges)
    rows, places = table.write(sizes, names)
    points: dict[tuple[int, ...], int] = {}
    largest = []
    for tensor, size in zip(tensors, sizes, strict=True):
        most = maximum(size)
        if most is None or most.value != tensor.bytes:
            raise TmmuError(
                "INVALID_IR_SHAPES",
                f"{tensor.bytes} bytes are not the maximum of {size}",
                place=f"tensor {tensor.name!r}",
                fix="bind one of its dimensions to a single size",
            )
        point = tuple(most.point.get(name, ranges[name][0]) for name in names)
        largest.append(points.setdefault(point, len(points)))
    return Envelope(
        policy,
        {name: ranges[name] for name in names},
        Terms(**terms_object(rows)),
        build_column(places, np.uint32),
        build_column([size for point in points for size in point], np.uint64),
        build_column(largest, np.uint32),
        symbolic,
    )
