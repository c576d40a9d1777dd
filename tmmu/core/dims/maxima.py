"""Find the maximum of an expression inside the envelope, and a shape that reaches it, by branch and bound on boxes.

Sizes are not monotone (`cache[seq:1024]` is largest at the smallest `seq`), so the ends of ranges need not be maxima. A
box is bounded by interval arithmetic. A dimension along which the expression certainly grows, or certainly shrinks, is
set to that end; other dimensions are halved. The search ends with the maximum, or gives up after `BOXES` boxes, fewer
for a large expression. The maximum is a claim: the verifier has a solver show it again. spec: R6.1, R6.2, D1.2
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from tmmu.core.dims.expressions import Atom, Bounds, Dim, Expression, Monomial, Symbol, bounds_in

BOXES = 4000
"""The most boxes that one search visits."""

EFFORT = 1 << 16
"""The most boxes times terms and atoms of the expression, to which the time of a search is proportional."""


class Maximum(NamedTuple):
    """The largest value of an expression, and the size of each of its dimensions at which it is reached."""

    value: int
    point: Mapping[str, int]


@lru_cache(maxsize=4096)
def maximum(value: Dim) -> Maximum | None:
    """Return the largest value inside the envelope and a shape that reaches it; None if the search gives up.

    Deterministic: among several shapes always the same. O(EFFORT), and one box for nearly all sizes of real models.

    >>> from tmmu.core.dims.expressions import symbol
    >>> n = symbol("n", 1, 4096)
    >>> maximum(n * (1024 - n)), maximum(4 * (2000 - n)).point
    (Maximum(value=262144, point={'n': 512}), {'n': 1})
    """
    if not isinstance(value, Expression):
        return Maximum(value, {})
    names = sorted(value.symbols)
    atoms: dict[Atom, Bounds] = {}
    bounds_in(value, {}, atoms)
    most = min(BOXES, EFFORT // (len(value.terms) + len(atoms)))
    best: Maximum | None = None
    start = tuple(Bounds(s.low, s.high) for s in names)
    work: list[tuple[int, int, tuple[Bounds, ...]]] = [(-value.bounds.high, 0, start)]
    count = 0
    while work:
        least, _, ranges = heapq.heappop(work)
        if best is not None and -least <= best.value:
            return best
        count += 1
        if count > most:
            return None
        box = _narrow(value, dict(zip(names, ranges, strict=True)))
        for point in (
            {s.name: box[s].high for s in names},
            {s.name: box[s].low for s in names},
            {s.name: (box[s].low + box[s].high) // 2 for s in names},
        ):
            found = value.at(point)
            if best is None or found > best.value:
                best = Maximum(found, point)
        assert best is not None
        high = bounds_in(value, box).high
        if high <= best.value:
            continue
        widest = max(names, key=lambda s: box[s].high - box[s].low)
        low, end = box[widest]
        middle = (low + end) // 2
        for half in (Bounds(middle + 1, end), Bounds(low, middle)):
            inner = {**box, widest: half}
            heapq.heappush(
                work, (-bounds_in(value, inner).high, 2 * count + (half.low == low), tuple(inner[s] for s in names))
            )
    return best


def minimum(value: Dim) -> Maximum | None:
    """Return the smallest value inside the envelope and a shape that reaches it; None if the search gives up."""
    found = maximum(-value)
    return None if found is None else Maximum(-found.value, found.point)


def is_negative(value: Dim) -> bool:
    """Return whether the expression is below 0 for some shape, or is not shown to be 0 or more for all.

    >>> from tmmu.core.dims.expressions import symbol
    >>> n = symbol("n", 0, 4)
    >>> is_negative(n * (4 - n)), is_negative(n * (3 - n)), is_negative(7)
    (False, True, False)
    """
    if bounds_in(value, {}).low >= 0:
        return False
    least = minimum(value)
    return least is None or least.value < 0


def _narrow(value: Expression, box: dict[Symbol, Bounds]) -> dict[Symbol, Bounds]:
    """Return a part of a box that contains a maximum: one end of a dimension along which the expression is monotone."""
    for s in sorted(box):
        if box[s].low < box[s].high and (way := _Directions(s, box).of(value)) is not None:
            box[s] = Bounds(box[s].high, box[s].high) if way > 0 else Bounds(box[s].low, box[s].low)
    return box


class _Directions:
    """The direction in which expressions grow along one dimension in a box; shared parts are visited once."""

    def __init__(self, along: Symbol, box: Mapping[Symbol, Bounds]) -> None:
        self._along, self._box = along, box
        self._bounds: dict[Atom, Bounds] = {}
        self._known: dict[Atom, int | None] = {}

    def of(self, value: Dim) -> int | None:
        """Return 1 if the expression nowhere shrinks along the dimension, -1 if it nowhere grows, 0 for both.

        By the mean value theorem over the atoms: if each partial derivative, times the direction of its atom, has one
        sign over the box, so has every difference. Returns None if that is unknown.
        """
        if not isinstance(value, Expression) or self._along not in value.symbols:
            return 0
        ways = set()
        for atom in dict.fromkeys(atom for monomial, _ in value.terms for atom, _ in monomial):
            if atom not in self._known:
                self._known[atom] = self._of_atom(atom)
            way = self._known[atom]
            if way == 0:
                continue
            slope = bounds_in(_derivative(value, atom), self._box, self._bounds)
            if way is None or (slope.low < 0 < slope.high):
                return None
            if slope.low < 0 or slope.high > 0:
                ways.add(way if slope.low >= 0 else -way)
        return None if len(ways) > 1 else ways.pop() if ways else 0

    def _of_atom(self, atom: Atom) -> int | None:
        if isinstance(atom, Symbol):
            return 1 if atom == self._along else 0
        first, second = self.of(atom.left), self.of(atom.right)
        if atom.op == "div":
            return first if second == 0 else None
        if first is None or second is None or first * second < 0:
            return None
        return first or second


def _derivative(value: Expression, atom: Atom) -> Dim:
    """Return the partial derivative with respect to an atom, with the others fixed."""
    terms: dict[Monomial, int] = {}
    for monomial, factor in value.terms:
        power = dict(monomial).get(atom, 0)
        if power:
            rest = tuple((a, p - (a == atom)) for a, p in monomial if a != atom or p > 1)
            terms[rest] = factor * power
    return Expression(tuple(terms.items()))
