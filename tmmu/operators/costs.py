"""Rules for the number of operations of a node, which decides what is computed again under a budget.

A cost chooses one of several right plans and has no other effect.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

Shape = tuple[int, ...]
CostRule = Callable[[Sequence[Shape], Shape, int], int | None]
"""The cost from the shapes of the operands, the shape of the first result, and the number of elements of all results.

None if the shapes do not fit the rule. Then the number of elements is the cost.
"""


def product_over(position: int) -> CostRule:
    """Make the rule of a product of matrices: a multiplication and an addition for each summand.

    The last dimension of the operand at `position` is summed over.
    """

    def run(reads: Sequence[Shape], result: Shape, elements: int) -> int | None:
        if len(reads) <= position or not reads[position]:
            return None
        return 2 * elements * reads[position][-1]

    return run


def of_gemm(reads: Sequence[Shape], result: Shape, elements: int) -> int | None:
    """Return the cost of a product of two matrices, with either or both transposed."""
    return 2 * elements * (math.prod(reads[0]) // max(1, result[0])) if result else None


def of_convolution(reads: Sequence[Shape], result: Shape, elements: int) -> int | None:
    """Return the cost of a convolution: a product with the weights of one output channel for each element."""
    if len(reads) < 2 or not reads[1]:
        return None
    return 2 * elements * (math.prod(reads[1]) // max(1, reads[1][0]))
