"""Indices of elements as integer expressions, exact wherever two of them are found equal.

An index is linear over variables, the counters of dimensions that are written or reduced over, and over atoms: the
clamped start of a dynamic slice, a floor division with a remainder, and an unknown number. The remainder of a division
is written by its quotient, e − k·⌊e/k⌋. So an index that is taken apart and put together again cancels to itself. Two
equal expressions have equal values; two that differ may still have equal values.

spec: FP4.14
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from proofs.readers.plans.hlo_text import Leaf

MAX_TERMS = 64
"""The most terms of an expression; one with more counts as an unknown number."""
MAX_NESTED = 16
"""The deepest quotient of quotients; a deeper one counts as an unknown number."""


@dataclass(frozen=True, slots=True)
class IndexVariable:
    """A counter: 0 ≤ value < `size`."""

    number: int
    size: int


@dataclass(frozen=True, slots=True)
class Start:
    """The start of a dynamic slice: the number `key` brought into 0 to `most`. Equal keys are equal numbers."""

    key: object
    most: int


@dataclass(frozen=True, slots=True)
class Unknown:
    """A number with 0 ≤ value < `size`; no two of them are known to be equal."""

    number: int
    size: int


@dataclass(frozen=True, slots=True)
class Quotient:
    """⌊of / by⌋."""

    of: Linear
    by: int
    depth: int


Atom = IndexVariable | Start | Unknown | Quotient


@dataclass(frozen=True, slots=True)
class Linear:
    """`constant` + Σ coefficient · atom, without a coefficient of 0."""

    constant: int
    terms: frozenset[tuple[Atom, int]] = frozenset()

    def __add__(self, other: Linear) -> Linear:
        return self.plus(other, 1)

    def __sub__(self, other: Linear) -> Linear:
        return self.plus(other, -1)

    def plus(self, other: Linear, times: int) -> Linear:
        """Return self + times · other. O(terms)."""
        if not other.terms:
            return Linear(self.constant + times * other.constant, self.terms)
        found = dict(self.terms)
        for atom, factor in other.terms:
            found[atom] = found.get(atom, 0) + times * factor
        left = frozenset((atom, factor) for atom, factor in found.items() if factor)
        return Linear(self.constant + times * other.constant, left)

    def times(self, factor: int) -> Linear:
        """Return factor · self."""
        return Linear(0).plus(self, factor)

    @property
    def is_known(self) -> bool:
        """Decide whether its value follows from the values of the variables."""
        return all(
            isinstance(atom, IndexVariable) or (isinstance(atom, Quotient) and atom.of.is_known)
            for atom, _ in self.terms
        )

    def bounds(self) -> tuple[int, int]:
        """Return a lower and an upper bound of its value; exact if all its atoms are variables."""
        low = high = self.constant
        for atom, factor in self.terms:
            least, most = _bounds(atom)
            low += factor * (least if factor > 0 else most)
            high += factor * (most if factor > 0 else least)
        return low, high

    def at(self, values: Mapping[IndexVariable, int]) -> int:
        """Return its value for values of all variables; it must be known."""
        found = self.constant
        for atom, factor in self.terms:
            if isinstance(atom, Quotient):
                found += factor * (atom.of.at(values) // atom.by)
            elif isinstance(atom, IndexVariable):
                found += factor * values[atom]
        return found

    def variables(self) -> Iterator[IndexVariable]:
        """Yield the variables that occur in it, some of them more than once."""
        for atom, _ in self.terms:
            if isinstance(atom, Quotient):
                yield from atom.of.variables()
            elif isinstance(atom, IndexVariable):
                yield atom


ZERO = Linear(0)
Indices = tuple[Linear, ...]


def _bounds(atom: Atom) -> tuple[int, int]:
    if isinstance(atom, Start):
        return 0, atom.most
    if isinstance(atom, Quotient):
        low, high = atom.of.bounds()
        return low // atom.by, high // atom.by
    return 0, atom.size - 1


def as_linear(atom: Atom) -> Linear:
    """Return an atom as an expression; one that can only be 0 is 0.

    >>> as_linear(IndexVariable(0, 1)) == ZERO
    True
    """
    return ZERO if _bounds(atom) == (0, 0) else Linear(0, frozenset({(atom, 1)}))


def sole_variable(index: Linear) -> IndexVariable | None:
    """Return the variable that an expression is, None if it is anything else."""
    if index.constant or len(index.terms) != 1:
        return None
    ((atom, factor),) = index.terms
    return atom if factor == 1 and isinstance(atom, IndexVariable) else None


def quotient(of: Linear, by: int) -> Linear:
    """Return ⌊of / by⌋: the terms that divide evenly apart, the rest as one atom unless its range gives its quotient.

    >>> i, j = as_linear(IndexVariable(0, 5)), as_linear(IndexVariable(1, 4))
    >>> quotient(i.times(4) + j, 4) == i, quotient(j, 4) == ZERO
    (True, True)
    """
    even = {atom: factor // by for atom, factor in of.terms if factor % by == 0}
    rest = Linear(of.constant % by, frozenset((atom, factor) for atom, factor in of.terms if factor % by))
    found = Linear(of.constant // by, frozenset(even.items()))
    low, high = rest.bounds()
    if low // by == high // by:
        return found + Linear(low // by)
    depth = 1 + max((atom.depth for atom, _ in rest.terms if isinstance(atom, Quotient)), default=0)
    return found + as_linear(Quotient(rest, by, depth))


def is_large(index: Linear) -> bool:
    """Decide whether an expression is too large to be followed."""
    return len(index.terms) > MAX_TERMS or any(
        isinstance(atom, Quotient) and atom.depth > MAX_NESTED for atom, _ in index.terms
    )


def substitute(index: Linear, variable: IndexVariable, by: Linear) -> Linear:
    """Return an expression with another in place of a variable, inside of quotients too. O(terms)."""
    found = Linear(index.constant)
    for atom, factor in index.terms:
        if atom == variable:
            found = found.plus(by, factor)
        elif isinstance(atom, Quotient):
            found = found.plus(quotient(substitute(atom.of, variable, by), atom.by), factor)
        else:
            found = found.plus(as_linear(atom), factor)
    return found


def number_of(indices: Sequence[Linear], dims: Sequence[int], minor: Sequence[int]) -> Linear:
    """Return the number of an element, dimensions counted from the minor one on.

    >>> indices = Linear(1), Linear(2)
    >>> number_of(indices, (3, 4), (1, 0)).constant, number_of(indices, (3, 4), (0, 1)).constant
    (6, 7)
    """
    found, stride = ZERO, 1
    for d in minor:
        found = found.plus(indices[d], stride)
        stride *= dims[d]
    return found


def indices_of(number: Linear, dims: Sequence[int], minor: Sequence[int]) -> Indices:
    """Return the indices of the element of a number: the inverse of `number_of` for indices in range."""
    found = [ZERO] * len(dims)
    # A dimension of one element has the index 0, so that the slowest other one takes all that is left.
    wide = [d for d in minor if dims[d] != 1]
    for d in wide[:-1]:
        rest = quotient(number, dims[d])
        found[d] = number.plus(rest, -dims[d])
        number = rest
    if wide:
        found[wide[-1]] = number
    return tuple(found)


def row_major_order(rank: int) -> tuple[int, ...]:
    """Return the row-major order of dimensions, minor first."""
    return tuple(reversed(range(rank)))


def place(leaf: Leaf, indices: Sequence[Linear]) -> Linear:
    """Return where an element is in memory, as elements from the start.

    In a tiled or padded layout it is the number in row-major order: such places compare within one shape only.
    """
    return number_of(indices, leaf.dims, row_major_order(len(leaf.dims)) if leaf.tiling else leaf.minor)
