"""Write columns as SMT-LIB tables over an unknown row: bit-vectors, selected by the bits of the row.

A question about a table is a question about all its rows at once. Comments give the rows' names. spec: V4.7
"""

from __future__ import annotations

from collections.abc import Sequence

from tmmu.core.output import escape_line


def name_rows(names: Sequence[str]) -> str:
    """Return SMT-LIB comments that name each row of a table as the plan does, for readers."""
    return "\n".join(f"; row {k}: {escape_line(name)}" for k, name in enumerate(names))


def width(values: Sequence[int]) -> int:
    """Return the number of bits that the largest of some numbers needs, at least 1."""
    return max(1, max(values).bit_length())


def declare_unknown(name: str, count: int) -> str:
    """Declare an unknown row or step below `count`, with a predicate `rows_NAME` that bounds it."""
    bits = max(1, (count - 1).bit_length())
    below = f"(define-fun rows_{name} () Bool (bvule {name} (_ bv{count - 1} {bits})))"
    return f"(declare-const {name} (_ BitVec {bits}))\n{below}"


def define_table(name: str, row: str, column: Sequence[int], others: Sequence[int] = ()) -> str:
    """Define a column at an unknown row: the bits of the row select one leaf of a tree.

    `others` are the values that the column is compared with; the bit-vectors are wide enough for both.
    """
    size, bits = width([*column, *others]), max(1, (len(column) - 1).bit_length())
    leaves = [f"(_ bv{value} {size})" for value in column]
    for bit in range(bits):
        odd = f"(= ((_ extract {bit} {bit}) {row}) #b1)"
        leaves = [
            f"(ite {odd} {leaves[k + 1]} {leaves[k]})" if k + 1 < len(leaves) else leaves[k]
            for k in range(0, len(leaves), 2)
        ]
    return f"(define-fun {name} () (_ BitVec {size}) {leaves[0]})"
