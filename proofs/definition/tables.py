"""Columns as SMT-LIB tables over an unknown row: bit-vectors, chosen by the bits of the row.

What is asked of a table is asked of all its rows at once; comments give the rows' names. spec: V4.7
"""

from __future__ import annotations

from collections.abc import Sequence

from tmmu.core.output import one_line


def named(names: Sequence[str]) -> str:
    """The rows of a table by the plan's own names, for people."""
    return "\n".join(f"; row {k}: {one_line(name)}" for k, name in enumerate(names))


def width(values: Sequence[int]) -> int:
    """The bits of the largest of some numbers."""
    return max(1, max(values).bit_length())


def unknown(name: str, count: int) -> str:
    """An unknown row or step below `count`."""
    bits = max(1, (count - 1).bit_length())
    below = f"(define-fun rows_{name} () Bool (bvule {name} (_ bv{count - 1} {bits})))"
    return f"(declare-const {name} (_ BitVec {bits}))\n{below}"


def table(name: str, row: str, column: Sequence[int], others: Sequence[int] = ()) -> str:
    """A column at an unknown row: the leaf whose number the bits of the row spell; `others` are compared with it."""
    size, bits = width([*column, *others]), max(1, (len(column) - 1).bit_length())
    leaves = [f"(_ bv{value} {size})" for value in column]
    for bit in range(bits):
        odd = f"(= ((_ extract {bit} {bit}) {row}) #b1)"
        leaves = [
            f"(ite {odd} {leaves[k + 1]} {leaves[k]})" if k + 1 < len(leaves) else leaves[k]
            for k in range(0, len(leaves), 2)
        ]
    return f"(define-fun {name} () (_ BitVec {size}) {leaves[0]})"
