"""Quotients, minima and maxima of expressions, simplified if the ranges decide them.

A quotient is exact if long division leaves no remainder, and otherwise an atom. A minimum or maximum is an atom only if
either side may be the smaller one. spec: R6.1
"""

from __future__ import annotations

from tmmu.core.dims.expressions import (
    DEPTH,
    MOST_TERMS,
    Atom,
    ComposedAtom,
    Dim,
    Expression,
    Monomial,
    Unwieldy,
    bounds_of,
    format_dim,
    key_of,
    multiply_monomials,
    sum_terms,
    terms_of,
)


def quotient(left: Dim, right: Dim) -> Dim:
    """Return `left // right`, rounded down; raises `Unwieldy` unless the divisor is positive for every shape.

    >>> from tmmu.core.dims.expressions import symbol
    >>> n = symbol("n", 1, 8)
    >>> str(quotient(8 * n, 4)), quotient(4 * n + 3, 4) == n
    ('2*n', True)
    """
    if bounds_of(right).low < 1:
        raise Unwieldy(f"a division by {format_dim(right)}, which may be zero")
    if isinstance(left, int) and isinstance(right, int):
        return left // right
    exact = divide_exactly(left, right)
    if exact is not None:
        return exact
    if isinstance(right, int):
        # Multiples of the divisor leave the quotient; if the remainder is always below the divisor, nothing else stays.
        whole: Dim = sum_terms({m: f // right for m, f in terms_of(left)})
        rest: Dim = sum_terms({m: f % right for m, f in terms_of(left)})
        if not isinstance(rest, Expression):
            return whole + rest // right
        return whole + _simplify_quotient(rest, right)
    return _simplify_quotient(left, right)


def _simplify_quotient(left: Dim, right: Dim) -> Dim:
    """Return the quotient if the ranges decide it, otherwise an atom."""
    (low, high), (least, most) = bounds_of(left), bounds_of(right)
    values = {a // b for a in (low, high) for b in (least, most)}
    return values.pop() if len(values) == 1 else _composed("div", left, right)


def minimum_of(left: Dim, right: Dim) -> Dim:
    """Return the minimum of two values.

    >>> from tmmu.core.dims.expressions import symbol
    >>> n = symbol("n", 1, 8)
    >>> minimum_of(n, 8) == n, str(minimum_of(n, 4)), maximum_of(n, 9)
    (True, 'min(4, n)', 9)
    """
    difference = bounds_of(left - right)
    if difference.high <= 0:
        return left
    return right if difference.low >= 0 else _composed("min", *sorted((left, right), key=key_of))


def maximum_of(left: Dim, right: Dim) -> Dim:
    """Return the maximum of two values."""
    difference = bounds_of(left - right)
    if difference.low >= 0:
        return left
    return right if difference.high <= 0 else _composed("max", *sorted((left, right), key=key_of))


def divide_up(left: Dim, right: Dim) -> Dim:
    """Return `left / right`, rounded up; the divisor is positive for every shape."""
    return quotient(left + right - 1, right)


def _composed(op: str, left: Dim, right: Dim) -> Expression:
    atom = ComposedAtom(op, left, right)
    if atom.depth > DEPTH:
        raise Unwieldy(f"quotients and minima nest more than {DEPTH} deep")
    return Expression(((((atom, 1),), 1),))


def divide_exactly(left: Dim, right: Dim) -> Dim | None:
    """Return `left / right` if that is an expression with integer coefficients, by long division; otherwise None.

    >>> from tmmu.core.dims.expressions import symbol
    >>> n, m = symbol("n", 1, 8), symbol("m", 1, 8)
    >>> str(divide_exactly(12 * n * n + 12 * m * n, n + m)), divide_exactly(n, m) is None
    ('12*n', True)
    """
    rest, result = dict(terms_of(left)), dict[Monomial, int]()
    divisor = sorted(terms_of(right), key=lambda term: _rank(term[0], order), reverse=True) if (
        order := _order(left, right)) is not None else []  # fmt: skip
    if not divisor:
        return None
    (lead, factor), others = divisor[0], divisor[1:]
    for _ in range(2 * MOST_TERMS):
        if not rest:
            return sum_terms(result)
        top = max(rest, key=lambda monomial: _rank(monomial, order))
        share = _without(top, lead)
        if share is None or rest[top] % factor:
            return None
        times = rest.pop(top) // factor
        result[share] = result.get(share, 0) + times
        for monomial, other in others:
            below = multiply_monomials(monomial, share)
            rest[below] = rest.get(below, 0) - other * times
            if not rest[below]:
                del rest[below]
    return None


def _order(left: Dim, right: Dim) -> list[Atom] | None:
    """Return the atoms of two expressions in order; None for a division by zero."""
    if right == 0:
        return None
    found = {atom for value in (left, right) for monomial, _ in terms_of(value) for atom, _ in monomial}
    return sorted(found, key=lambda atom: atom.key)


def _rank(monomial: Monomial, order: list[Atom] | None) -> tuple[int, ...]:
    """Return the powers of a monomial: a sort key that is preserved by products."""
    powers = dict(monomial)
    return tuple(powers.get(atom, 0) for atom in order or ())


def _without(monomial: Monomial, part: Monomial) -> Monomial | None:
    """Return the monomial divided by another, None if it is not a multiple."""
    powers = dict(monomial)
    for atom, power in part:
        if powers.get(atom, 0) < power:
            return None
        powers[atom] -= power
    return tuple((atom, power) for atom, power in powers.items() if power)
