"""About how many operations a node takes, for choosing what is computed again: rules for what costs more than a write.

A cost decides which of several right plans is made, and no plan depends on it otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

Shape = tuple[int, ...]
CostRule = Callable[[Sequence[Shape], Shape, int], int | None]
"""The cost from the shapes of the operands, that of the first result, and the number of elements of all results.

None if the shapes do not fit the rule: then the elements count.
"""


def product_over(position: int) -> CostRule:
    """Return the rule of a product of matrices: a multiplication and an addition for each number that is summed up.

    `position` is that of the operand whose last dimension is summed over.
    """

    def run(reads: Sequence[Shape], result: Shape, elements: int) -> int | None:
        if len(reads) <= position or not reads[position]:
            return None
        return 2 * elements * reads[position][-1]

    return run


def of_gemm(reads: Sequence[Shape], result: Shape, elements: int) -> int | None:
    """A product of matrices of which either may be transposed."""
    return 2 * elements * (math.prod(reads[0]) // max(1, result[0])) if result else None


def of_convolution(reads: Sequence[Shape], result: Shape, elements: int) -> int | None:
    """A product with the weights of one output channel for each element."""
    if len(reads) < 2 or not reads[1]:
        return None
    return 2 * elements * (math.prod(reads[1]) // max(1, reads[1][0]))
