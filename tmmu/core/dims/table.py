"""Expressions as rows of a file: a table of terms, each made of numbers, dimensions and earlier terms.

Parts that expressions share are in the table once. A row refers only to earlier rows, so that reading needs no
recursion. `write` gives equal expressions equal rows, and one list of expressions one table. `read` rebuilds the
expressions and refuses what `write` would not have written. spec: R6.3, P1.2
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tmmu.core.dims.expressions import Atom, ComposedAtom, Dim, Expression, Symbol, Unwieldy, symbol
from tmmu.core.dims.operations import maximum_of, minimum_of, quotient

OPS = ("number", "dim", "add", "sub", "mul", "div", "min", "max")
"""The kinds of rows: the number `value`, the dimension of that number, or an operation on `left` and `right`."""

NUMBER, DIM, ADD, SUB, MUL = range(5)
UINT64 = 1 << 64
WORK = 1 << 22
"""The most products and sums of single terms that reading a table may take: a file may be hostile."""


class Row(NamedTuple):
    """One term. `value` is 0 if two terms are combined; otherwise `left` and `right` are 0."""

    op: int
    left: int
    right: int
    value: int


class Writer:
    """A table under construction; `names` are the dimensions of the envelope in the order of their numbers."""

    def __init__(self, names: Sequence[str]) -> None:
        self.rows: dict[Row, int] = {}
        self._number = {name: k for k, name in enumerate(names)}
        self._known: dict[Dim | ComposedAtom, int] = {}

    def add(self, value: Dim) -> int:
        """Return the row of `value`, added if needed. Raises Unwieldy for a number that no row can hold."""
        if value not in self._known:
            self._known[value] = self._row(value)
        return self._known[value]

    def _put(self, op: int, left: int = 0, right: int = 0, value: int = 0) -> int:
        if value >= UINT64:
            raise Unwieldy("a number beyond 2^64 in an expression")
        return self.rows.setdefault(Row(op, left, right, value), len(self.rows))

    def _row(self, value: Dim) -> int:
        if not isinstance(value, Expression):
            if value < 0:
                return self._put(SUB, self._put(NUMBER), self._put(NUMBER, value=-value))
            return self._put(NUMBER, value=value)
        # Added terms come before subtracted ones: the least row begins a sum, unless nothing is added.
        terms = sorted(value.terms, key=lambda term: term[1] < 0)
        total: int | None = None
        for monomial, factor in terms:
            atoms = [self._atom(atom) for atom, power in monomial for _ in range(power)]
            if abs(factor) != 1 or not atoms:
                atoms.insert(0, self._put(NUMBER, value=abs(factor)))
            row = atoms[0]
            for atom in atoms[1:]:
                row = self._put(MUL, row, atom)
            if total is None:
                total = row if factor > 0 else self._put(SUB, self._put(NUMBER), row)
            else:
                total = self._put(ADD if factor > 0 else SUB, total, row)
        assert total is not None  # an expression has a term
        return total

    def _atom(self, atom: Atom) -> int:
        if isinstance(atom, Symbol):
            return self._put(DIM, value=self._number[atom.name])
        if atom not in self._known:
            left, right = self.add(atom.left), self.add(atom.right)
            self._known[atom] = self._put(OPS.index(atom.op), left, right)
        return self._known[atom]


def write(values: Sequence[Dim], names: Sequence[str]) -> tuple[list[Row], list[int]]:
    """Return the table of `values`, and the row of each. O(size of all of them)."""
    table = Writer(names)
    places = [table.add(value) for value in values]
    return list(table.rows), places


def read(rows: Sequence[Row], ranges: Mapping[str, tuple[int, int]]) -> list[Dim]:
    """Return the expression of each row, with the dimensions in the order of `ranges`.

    Raises ValueError for a malformed row: an unknown operation, a term that does not come before it, a division by a
    divisor that may be zero, or an expression that is too large.
    """
    dims = [symbol(name, low, high) for name, (low, high) in ranges.items()]
    found: list[Dim] = []
    work = 0
    for k, (op, left, right, value) in enumerate(rows):
        if op >= len(OPS):
            raise ValueError(f"term {k}: unknown operation {op}")
        if op in (NUMBER, DIM):
            if left or right or (op == DIM and value >= len(dims)):
                raise ValueError(f"term {k}: expected a number or a dimension of the envelope")
            found.append(value if op == NUMBER else dims[value])
            continue
        if left >= k or right >= k or value:
            raise ValueError(f"term {k}: it refers to terms that do not come before it")
        work += _length(found[left]) * _length(found[right])
        if work > WORK:
            raise ValueError(f"term {k}: the terms before it take too much work")
        try:
            found.append(_combine(op, found[left], found[right]))
        except Unwieldy as error:
            raise ValueError(f"term {k}: {error}") from error
    return found


def _length(value: Dim) -> int:
    return len(value.terms) if isinstance(value, Expression) else 1


def _combine(op: int, left: Dim, right: Dim) -> Dim:
    if op == ADD:
        return left + right
    if op == SUB:
        return left - right
    if op == MUL:
        return left * right
    return {"div": quotient, "min": minimum_of, "max": maximum_of}[OPS[op]](left, right)


def evaluate_rows(rows: Sequence[Row], point: Sequence[int]) -> list[int]:
    """Return the value of each row for the sizes in `point`, computed from the rows alone, without expressions.

    This is a second way of evaluation, which checks the first. O(rows), exact.
    """
    found: list[int] = []
    for op, left, right, value in rows:
        if op in (NUMBER, DIM):
            found.append(value if op == NUMBER else point[value])
            continue
        a, b = found[left], found[right]
        found.append((a + b, a - b, a * b, a // b if b else 0, min(a, b), max(a, b))[op - ADD])
    return found


__all__ = ["OPS", "Row", "Writer", "evaluate_rows", "read", "write"]
