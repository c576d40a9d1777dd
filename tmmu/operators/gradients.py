"""Rules for gradients. The backward half of a graph is made from them.

A rule lists the operands that have a gradient and, for each of these, the operands and results of the forward node that
its gradient is computed from. If a rule listed fewer tensors than a framework's kernel reads, the plan would be wrong
for that kernel. So the common formula is taken if formulas differ, and an operator without a rule reads everything. A
gradient shares bytes only if its rule permits it. spec: M2.5, M2.6, M2.7, V2.6
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cache
from typing import NamedTuple


class Read(NamedTuple):
    """Operands or results of the forward node that a gradient reads: one position, or with `onward` all from there."""

    of_results: bool
    first: int
    onward: bool


@dataclass(frozen=True)
class GradientRule:
    """The gradient of one operator.

    Attributes
    ----------
    text
        `position:reads` for each operand with a gradient. `*` is for every position that is not listed. Reads are
        `o` for an operand or `r` for a result, followed by a position; `+` includes all positions after it.
    in_place
        The first gradient may take the bytes of the result's gradient if their shapes are equal.
    passes
        The gradient of an operand that is not broadcast equals the result's gradient and shows its bytes.
    reshapes
        The result has the operand's elements in the same order. Its gradient is a Reshape back, which is a view.
    """

    text: str = ""
    _: KW_ONLY
    in_place: bool = False
    passes: bool = False
    reshapes: bool = False

    def reads(self, position: int) -> tuple[Read, ...] | None:
        """Return the reads of the gradient of the operand at `position`, or None if it has no gradient."""
        found = _parsed(self.text)
        return found.get(position, found.get(None))


@cache
def _parsed(text: str) -> Mapping[int | None, tuple[Read, ...]]:
    """Return the reads by position. The key None is for every position that is not listed."""
    found: dict[int | None, tuple[Read, ...]] = {}
    for word in text.split():
        position, _, reads = word.partition(":")
        found[None if position == "*" else int(position)] = tuple(
            Read(name[0] == "r", int(name[1:].rstrip("+")), name[-1] == "+") for name in reads.split(",") if name
        )
    return found


EVERYTHING = GradientRule("*:o0+,r0+")
"""The rule of an unknown operator."""
