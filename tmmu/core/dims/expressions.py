"""Integer expressions over named dimensions: polynomials whose atoms are symbols, quotients, minima and maxima.

A constant expression is an `int`, so that arithmetic on plain numbers stays plain. All others are sums of products in a
fixed order. Equal expressions are equal functions on all shapes; the converse does not hold, and nothing relies on it.
Every symbol carries its range, so that quotients, minima and maxima simplify if the range decides them. Expressions
that would exceed `MOST_TERMS` or `DEPTH` are refused: a model file may be hostile. spec: R6.1
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import NamedTuple, Union

MOST_TERMS = 128
"""The most summands of an expression."""

MOST_FACTORS = 32
"""The highest degree of a summand."""

DEPTH = 48
"""The deepest nesting of quotients, minima and maxima."""

LARGEST = 1 << 192
"""Coefficients stay below this: a size below 2^64 never needs more."""


class Unwieldy(ArithmeticError):
    """An expression that is too large, or a division by a divisor that may be zero: its value is unknown."""


@dataclass(frozen=True, order=True)
class Symbol:
    """A dimension by its name, with its range in the envelope (both ends included)."""

    name: str
    low: int
    high: int

    depth = 0

    @cached_property
    def key(self) -> tuple[int, str]:
        """The sort key among atoms: symbols come first, by name."""
        return 0, f"{self.name}\0{self.low}\0{self.high}"


@dataclass(frozen=True)
class ComposedAtom:
    """`left // right` rounded down, or the minimum or maximum of the two; `op` is "div", "min" or "max"."""

    op: str
    left: Dim
    right: Dim

    @cached_property
    def key(self) -> tuple[int, str]:
        """The sort key among atoms: after the symbols, by digest."""
        text = f"{self.op}\0{key_of(self.left)}\0{key_of(self.right)}"
        return 1, hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def depth(self) -> int:
        """How many composed atoms are nested in it, itself included."""
        return 1 + max(depth_of(self.left), depth_of(self.right))

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposedAtom) and self.key == other.key


Atom = Symbol | ComposedAtom
Monomial = tuple[tuple[Atom, int], ...]
"""Atoms in order, each with its power."""

Dim = Union[int, "Expression"]
"""A dimension, or any number computed from dimensions: known, or an expression."""


class Bounds(NamedTuple):
    """A lower and an upper bound of an expression; the expression may reach neither."""

    low: int
    high: int


@dataclass(frozen=True, eq=False)
class Expression:
    """A sum of products that is not constant: `terms` in the order of their monomials, no coefficient 0.

    Created only by arithmetic, beginning with `symbol`.
    """

    terms: tuple[tuple[Monomial, int], ...]

    @cached_property
    def key(self) -> str:
        """A digest that is equal for equal expressions."""
        text = "\n".join(f"{factor} {_monomial_key(monomial)}" for monomial, factor in self.terms)
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def bounds(self) -> Bounds:
        """The bounds that follow from the ranges of its symbols. O(size)."""
        return bounds_in(self, {})

    @cached_property
    def symbols(self) -> frozenset[Symbol]:
        """The dimensions that it depends on."""
        found: set[Symbol] = set()
        for monomial, _ in self.terms:
            for atom, _ in monomial:
                if isinstance(atom, Symbol):
                    found.add(atom)
                else:
                    for part in (atom.left, atom.right):
                        if isinstance(part, Expression):
                            found |= part.symbols
        return frozenset(found)

    def at(self, point: Mapping[str, int]) -> int:
        """Return the exact value for the sizes of dimensions in `point`. O(size); shared parts count once."""
        return _value(self, point, {})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __add__(self, other: Dim) -> Dim:
        return _sum(self, other, 1)

    def __sub__(self, other: Dim) -> Dim:
        return _sum(self, other, -1)

    def __rsub__(self, other: int) -> Dim:
        return _sum(-self, other, 1)

    def __mul__(self, other: Dim) -> Dim:
        return _product(self, other)

    def __neg__(self) -> Expression:
        return Expression(tuple((monomial, -factor) for monomial, factor in self.terms))

    __radd__, __rmul__ = __add__, __mul__

    def __str__(self) -> str:
        return format_dim(self)

    __repr__ = __str__


def symbol(name: str, low: int, high: int) -> Dim:
    """Return the dimension `name` from `low` to `high`, both included; if they are equal, the number itself.

    >>> n = symbol("n", 1, 8)
    >>> str((n + 1) * n), n - n
    ('n*n + n', 0)
    """
    if low > high:
        raise ValueError(f"{name}: expected low <= high, got {low} and {high}")
    return low if low == high else Expression((((((Symbol(name, low, high)), 1),), 1),))


def close_shape(shape: tuple[Dim, ...]) -> tuple[int, ...]:
    """Return a shape without open dimensions unchanged; raises Unwieldy if a dimension is open."""
    if any(isinstance(dim, Expression) for dim in shape):
        raise Unwieldy(f"[{', '.join(map(format_dim, shape))}] is open")
    return tuple(dim for dim in shape if isinstance(dim, int))


def bounds_of(value: Dim) -> Bounds:
    """Return the bounds of a number or an expression."""
    return value.bounds if isinstance(value, Expression) else Bounds(value, value)


def evaluate(value: Dim, point: Mapping[str, int]) -> int:
    """Return the value of a number or an expression at a shape."""
    return value.at(point) if isinstance(value, Expression) else value


def upper_bound(value: Dim) -> int:
    """Return an upper bound of a number or an expression; a number is its own."""
    return bounds_of(value).high


def bounds_in(value: Dim, box: Mapping[Symbol, Bounds], known: dict[Atom, Bounds] | None = None) -> Bounds:
    """Return bounds of `value` with the symbols of `box` within its bounds, and other symbols within their ranges.

    Interval arithmetic: sound, and exact if no symbol occurs twice. `known` holds the bounds of atoms in this box, and
    is extended. O(size); shared or known parts count once.
    """
    return _bounds(value, box, {} if known is None else known)


def format_dim(value: Dim) -> str:
    """Format an expression for people, shortened if it is long; the text is never parsed. O(text)."""
    text = ""
    for part in _shown(value, 6):
        text += part
        if len(text) > 240:
            return f"{text[:237]}..."
    return text


def multiply_monomials(one: Monomial, other: Monomial) -> Monomial:
    """Return the product of two monomials; raises Unwieldy if its degree is too high."""
    powers = dict(one)
    for atom, power in other:
        powers[atom] = powers.get(atom, 0) + power
    if sum(powers.values()) > MOST_FACTORS:
        raise Unwieldy(f"a product of more than {MOST_FACTORS} dimensions")
    return tuple(sorted(powers.items(), key=lambda item: item[0].key))


def terms_of(value: Dim) -> tuple[tuple[Monomial, int], ...]:
    """Return the summands of a number or an expression; 0 has none."""
    if isinstance(value, Expression):
        return value.terms
    return (((), value),) if value else ()


def sum_terms(terms: Mapping[Monomial, int]) -> Dim:
    """Return the sum of these terms in normal form; raises Unwieldy if it is too large."""
    kept = {monomial: factor for monomial, factor in terms.items() if factor}
    if len(kept) > MOST_TERMS or any(abs(factor) >= LARGEST for factor in kept.values()):
        raise Unwieldy(f"an expression of more than {MOST_TERMS} terms, or of numbers beyond 2^192")
    if not kept.keys() - {()}:
        return kept.get((), 0)
    return Expression(tuple(sorted(kept.items(), key=lambda term: _place(term[0]))))


def _place(monomial: Monomial) -> tuple[int, tuple[tuple[tuple[int, str], int], ...]]:
    """Return the sort key of a monomial in a sum: higher degrees first."""
    return -sum(power for _, power in monomial), tuple((atom.key, -power) for atom, power in monomial)


def _sum(one: Expression, other: Dim, sign: int) -> Dim:
    terms = dict(one.terms)
    for monomial, factor in terms_of(other):
        terms[monomial] = terms.get(monomial, 0) + sign * factor
    return sum_terms(terms)


def _product(one: Expression, other: Dim) -> Dim:
    terms: dict[Monomial, int] = {}
    if len(one.terms) * len(terms_of(other)) > MOST_TERMS * MOST_TERMS // 4:
        raise Unwieldy(f"a product of sums of {len(one.terms)} and {len(terms_of(other))} terms")
    for (a, f), (b, g) in product(one.terms, terms_of(other)):
        monomial = multiply_monomials(a, b)
        terms[monomial] = terms.get(monomial, 0) + f * g
    return sum_terms(terms)


def depth_of(value: Dim) -> int:
    """Return how deep quotients, minima and maxima are nested in `value`."""
    if not isinstance(value, Expression):
        return 0
    return max(atom.depth for monomial, _ in value.terms for atom, _ in monomial)


def key_of(value: Dim) -> str:
    """Return a text that is equal for equal values, and by which values are sorted: numbers first."""
    return f"~{value.key}" if isinstance(value, Expression) else str(value)


def _monomial_key(monomial: Monomial) -> str:
    return " ".join(f"{atom.key[0]}\0{atom.key[1]}\0{power}" for atom, power in monomial)


def _value(value: Dim, point: Mapping[str, int], known: dict[Atom, int]) -> int:
    total = 0
    for monomial, factor in terms_of(value):
        for atom, power in monomial:
            if atom not in known:
                known[atom] = _value_of(atom, point, known)
            factor *= known[atom] ** power
        total += factor
    return total


def _value_of(atom: Atom, point: Mapping[str, int], known: dict[Atom, int]) -> int:
    if isinstance(atom, Symbol):
        return point[atom.name]
    left, right = _value(atom.left, point, known), _value(atom.right, point, known)
    return left // right if atom.op == "div" else min(left, right) if atom.op == "min" else max(left, right)


def _bounds(value: Dim, box: Mapping[Symbol, Bounds], known: dict[Atom, Bounds]) -> Bounds:
    low = high = 0
    for monomial, factor in terms_of(value):
        here = Bounds(factor, factor)
        for atom, power in monomial:
            if atom not in known:
                known[atom] = _bounds_of(atom, box, known)
            here = _times(here, _powered(known[atom], power))
        low, high = low + here.low, high + here.high
    return Bounds(low, high)


def _bounds_of(atom: Atom, box: Mapping[Symbol, Bounds], known: dict[Atom, Bounds]) -> Bounds:
    if isinstance(atom, Symbol):
        return box.get(atom, Bounds(atom.low, atom.high))
    (low, high), (least, most) = _bounds(atom.left, box, known), _bounds(atom.right, box, known)
    if atom.op == "div":
        ends = [a // b for a in (low, high) for b in (max(1, least), max(1, most))]
        return Bounds(min(ends), max(ends))
    chosen = min if atom.op == "min" else max
    return Bounds(chosen(low, least), chosen(high, most))


def _times(one: Bounds, other: Bounds) -> Bounds:
    ends = [a * b for a in one for b in other]
    return Bounds(min(ends), max(ends))


def _powered(one: Bounds, power: int) -> Bounds:
    ends = (one.low**power, one.high**power)
    inner = 0 if one.low < 0 < one.high and power % 2 == 0 else min(ends)
    return Bounds(inner, max(ends))


def _shown(value: Dim, deep: int) -> Iterator[str]:
    """Yield the text of an expression piece by piece."""
    if deep == 0:
        yield "..."
        return
    if value == 0:
        yield "0"
    for k, (monomial, factor) in enumerate(terms_of(value)):
        yield (" - " if factor < 0 else " + ") if k else "-" if factor < 0 else ""
        if abs(factor) != 1 or not monomial:
            yield f"{abs(factor)}*" if monomial else str(abs(factor))
        for j, atom in enumerate(atom for atom, power in monomial for _ in range(power)):
            yield "*" if j else ""
            yield from _shown_atom(atom, deep)


def _shown_atom(atom: Atom, deep: int) -> Iterator[str]:
    if isinstance(atom, Symbol):
        yield atom.name
        return
    start, between, end = ("(", ")//(", ")") if atom.op == "div" else (f"{atom.op}(", ", ", ")")
    yield start
    yield from _shown(atom.left, deep - 1)
    yield between
    yield from _shown(atom.right, deep - 1)
    yield end
