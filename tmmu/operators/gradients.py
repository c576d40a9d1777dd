"""What the gradient of an operator reads and may share: from it the backward half of a graph is made.

A rule states which operands have a gradient, and for each of these which operands and results of the forward node its
gradient is computed from. Reading less than a framework's kernel would make the plan wrong for that kernel, so where
formulas differ the common one is taken, and an operator without a rule reads everything. What may be shared is stated
by itself, and by default nothing is. spec: M2.5, M2.6, M2.7, V2.6
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cache
from typing import NamedTuple


class Read(NamedTuple):
    """Operands or results of the forward node that a gradient reads: one position, or it and all `onward`."""

    of_results: bool
    first: int
    onward: bool


@dataclass(frozen=True)
class GradientRule:
    """The gradient of one operator; without anything, of no operand.

    `text` has `position:reads` for each operand with a gradient (`*`: every one that is not listed). Reads are `o` or
    `r` for operand or result with a position, `+` for it and all after it. `in_place`: the first gradient may take the
    bytes of the result's gradient where the shapes are equal; `passes`: the gradient of an operand that is not
    broadcast is the result's, and shows its bytes; `reshapes`: the result has the operand's elements in their order,
    so that its gradient is a Reshape back, which is a view.
    """

    text: str = ""
    _: KW_ONLY
    in_place: bool = False
    passes: bool = False
    reshapes: bool = False

    def reads(self, position: int) -> tuple[Read, ...] | None:
        """Return what the gradient of the operand at `position` reads, None if it has no gradient."""
        found = _parsed(self.text)
        return found.get(position, found.get(None))


@cache
def _parsed(text: str) -> Mapping[int | None, tuple[Read, ...]]:
    """Return the reads by position; None stands for every position that is not listed."""
    found: dict[int | None, tuple[Read, ...]] = {}
    for word in text.split():
        position, _, reads = word.partition(":")
        found[None if position == "*" else int(position)] = tuple(
            Read(name[0] == "r", int(name[1:].rstrip("+")), name[-1] == "+") for name in reads.split(",") if name
        )
    return found


EVERYTHING = GradientRule("*:o0+,r0+")
"""The rule of an operator of which nothing is known."""
