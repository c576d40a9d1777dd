"""Expressions over dimensions: their normal form, their bounds and maxima, their rows; each with what is refused.

spec: R6.1, R6.3
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tmmu.core.dims import expressions, maxima, table
from tmmu.core.dims.expressions import Dim, Symbol, Unwieldy, bounds_of, depth_of, evaluate, format_dim, symbol
from tmmu.core.dims.maxima import is_negative, maximum, minimum
from tmmu.core.dims.operations import divide_exactly, divide_up, maximum_of, minimum_of, quotient

RANGES = {"m": (0, 3), "n": (1, 7)}
M, N = (symbol(name, *ends) for name, ends in RANGES.items())
SHAPES = [dict(zip(RANGES, point, strict=True)) for point in product(range(4), range(1, 8))]


def together(children: st.SearchStrategy[Dim]) -> st.SearchStrategy[Dim]:
    """Two expressions as one; by each of the operations."""

    def apply(op: str, a: Dim, b: Dim) -> Dim:
        try:
            return {
                "add": lambda: a + b,
                "sub": lambda: a - b,
                "mul": lambda: a * b,
                "div": lambda: quotient(a, maximum_of(1, b)),
                "min": lambda: minimum_of(a, b),
                "max": lambda: maximum_of(a, b),
                "up": lambda: divide_up(a, 3),
            }[op]()
        except Unwieldy:
            return a

    return st.builds(apply, st.sampled_from(("add", "sub", "mul", "div", "min", "max", "up")), children, children)


expressions_of = st.recursive(st.one_of(st.sampled_from((M, N)), st.integers(-4, 9)), together, max_leaves=8)


@given(expressions_of, expressions_of)
def test_arithmetic_is_that_of_numbers_at_every_shape(a: Dim, b: Dim) -> None:
    for shape in SHAPES:
        x, y = evaluate(a, shape), evaluate(b, shape)
        assert evaluate(a + b, shape) == x + y
        assert evaluate(a - b, shape) == x - y
        assert evaluate(a * b, shape) == x * y
        assert evaluate(minimum_of(a, b), shape) == min(x, y)
        assert evaluate(maximum_of(a, b), shape) == max(x, y)
        assert evaluate(quotient(a, maximum_of(b, 1)), shape) == x // max(y, 1)
        assert evaluate(divide_up(a, maximum_of(b, 1)), shape) == -(-x // max(y, 1))
        if a == b:
            assert x == y


@given(expressions_of)
def test_bounds_and_maxima_are_those_of_all_shapes(a: Dim) -> None:
    values = [evaluate(a, shape) for shape in SHAPES]
    low, high = bounds_of(a)
    assert low <= min(values)
    assert max(values) <= high
    for found, value in ((maximum(a), max(values)), (minimum(a), min(values))):
        assert found is not None
        assert found.value == value
        assert evaluate(a, {"m": 0, "n": 1} | dict(found.point)) == value
    assert is_negative(a) == (min(values) < 0)


@given(st.lists(expressions_of, max_size=5))
def test_rows_are_read_as_they_were_written_and_evaluated_alike(values: list[Dim]) -> None:
    rows, places = table.write(values, list(RANGES))
    read = table.read(rows, RANGES)
    assert [read[place] for place in places] == values
    assert table.write([read[place] for place in places], list(RANGES)) == (rows, places)
    for shape in SHAPES[::5]:
        found = table.evaluate_rows(rows, list(shape.values()))
        assert [found[place] for place in places] == [evaluate(value, shape) for value in values]


@given(expressions_of, expressions_of)
def test_a_quotient_of_polynomials_is_exact_or_there_is_none(a: Dim, b: Dim) -> None:
    found = divide_exactly(a * b, b)
    if b == 0:
        assert found is None
        return
    assert found is not None
    for shape in SHAPES:
        assert evaluate(found, shape) * evaluate(b, shape) == evaluate(a * b, shape)


def test_what_is_written_in_another_way_is_equal() -> None:
    assert (N + 1) * (N - 1) == N * N - 1
    assert quotient(4 * N + 4 * M, 4) == N + M
    assert quotient(8 * N + 7, 8) == N
    assert quotient(N * N + M * N, N + M) == N
    assert minimum_of(N, M) == minimum_of(M, N)
    assert N - N == 0
    assert hash(N * 2) == hash(N + N)
    assert symbol("k", 4, 4) == 4


def test_expressions_are_shown_as_people_write_them() -> None:
    assert format_dim(2 * N * N - 3 * M + 1) == "2*n*n - 3*m + 1"
    assert format_dim(-N) == "-n"
    assert format_dim(quotient(minimum_of(N, 4), 3)) == "(min(4, n))//(3)"
    assert "..." in format_dim(nested(9))
    assert len(format_dim(sum((N * k * M + N for k in range(9)), N) * minimum_of(N, 3))) <= 240


def test_no_more_of_an_expression_is_read_than_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four levels of forty quotients each are 40^4 summands. spec: V1.16"""
    terms, read = expressions.terms_of, 0

    def counted(value: Dim) -> Any:
        nonlocal read
        read += 1
        return terms(value)

    value = N
    for _ in range(4):
        value = sum((quotient(value + k, 2 + k) for k in range(40)), N)
    monkeypatch.setattr(expressions, "terms_of", counted)
    assert format_dim(value).endswith("...")
    assert read < 240


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: symbol("n", 2, 1), "expected low <= high, got 2 and 1"),
        (lambda: quotient(N, M), "a division by m, which may be zero"),
        (lambda: quotient(N, 0), "a division by 0"),
        (lambda: pow_(N, 33), "a product of more than 32 dimensions"),
        (lambda: N * (1 << 192), "beyond 2"),
        (lambda: sum((symbol(f"x{k}", 0, 9) for k in range(200)), N), "more than 128 terms"),
        (lambda: wide(70) * wide(70), "a product of sums of 70 and 70 terms"),
        (lambda: nested(60), "nest more than 48 deep"),
    ],
)
def test_what_would_grow_beyond_reason_is_refused(make: object, message: str) -> None:
    with pytest.raises((Unwieldy, ValueError), match=message):
        make()  # type: ignore[operator]  # each is a lambda


def pow_(value: Dim, power: int) -> Dim:
    result = value
    for _ in range(power - 1):
        result = result * value
    return result


def wide(count: int) -> Dim:
    total: Dim = 0
    for k in range(count):
        total = total + symbol(f"x{k}", 0, 9)
    return total


def nested(depth: int) -> Dim:
    value: Dim = symbol("n", 1, 1 << 62)
    for _ in range(depth):
        value = quotient(value + 1, 2)
    return value


@pytest.mark.parametrize(("limit", "most"), [("BOXES", 20), ("EFFORT", 100)])
def test_a_search_that_is_cut_short_claims_nothing(limit: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """spec: R6.2"""
    n, m = symbol("n", 1, 10**6), symbol("m", 1, 10**6)
    hard = n * (10**6 - n) + 7 * quotient(n * m, 99983) - n * quotient(n * 7919 + m * 104729, 65537)
    monkeypatch.setattr(maxima, limit, most)
    maximum.cache_clear()
    assert maximum(hard) is None
    assert minimum(hard) is None
    assert is_negative(hard)


def test_what_both_sides_share_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Along a chain of minima and maxima of which both sides grow with the one before. spec: V1.16"""
    derivative, looked = maxima._derivative, 0

    def counted(*arguments: Any) -> Dim:
        nonlocal looked
        looked += 1
        return derivative(*arguments)

    monkeypatch.setattr(maxima, "_derivative", counted)
    n, m = symbol("n", 1, 64), symbol("m", 1, 64)
    value = n
    for k in range(40):
        others = ((value + m - 20, 90 - value), (value + m - 10, 70 - value), (2 * value - m, 80 - value), (value, m))
        value = next(
            found
            for one, other in others
            if depth_of(found := (minimum_of if k % 2 else maximum_of)(one, other)) == depth_of(value) + 1
        )
    maxima._Directions(Symbol("n", 1, 64), {}).of(value)
    assert 40 < looked <= 4 * 40, "two sides of two atoms each"


def test_a_maximum_inside_the_ranges_is_found() -> None:
    n = symbol("n", 1, 4096)
    assert maximum(n * (1000 - n)) == (250000, {"n": 500})
    assert maximum(quotient(n, 7) * (500 - n)) == (max((k // 7) * (500 - k) for k in range(1, 4097)), {"n": 252})
    assert maximum(1024 - minimum_of(n, 1024)) == (1023, {"n": 1})
    assert maximum(7) == (7, {})


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([table.Row(8, 0, 0, 0)], "term 0: unknown operation 8"),
        ([table.Row(0, 1, 0, 5)], "expected a number or a dimension"),
        ([table.Row(1, 0, 0, 2)], "expected a number or a dimension"),
        ([table.Row(1, 0, 0, 0), table.Row(2, 0, 1, 0)], "term 1: it refers to terms that do not come before it"),
        ([table.Row(1, 0, 0, 0), table.Row(2, 0, 0, 1)], "term 1: it refers to terms"),
        ([table.Row(1, 0, 0, 1), table.Row(1, 0, 0, 0), table.Row(5, 0, 1, 0)], "which may be zero"),
        ([table.Row(1, 0, 0, 0), *[table.Row(4, k, k, 0) for k in range(6)]], "a product of more than 32"),
    ],
)
def test_rows_that_are_no_terms_are_refused(rows: list[table.Row], message: str) -> None:
    """spec: P1.2"""
    with pytest.raises(ValueError, match=message):
        table.read(rows, RANGES)


def test_a_table_that_takes_too_much_work_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [table.Row(1, 0, 0, 0), table.Row(1, 0, 0, 1), table.Row(2, 0, 1, 0), *[table.Row(4, 2, 2, 0)] * 9]
    table.read(rows, RANGES)
    monkeypatch.setattr(table, "WORK", 20)
    with pytest.raises(ValueError, match="take too much work"):
        table.read(rows, RANGES)


def test_a_number_that_no_row_can_hold_is_refused() -> None:
    with pytest.raises(Unwieldy, match="beyond 2"):
        table.write([N * (1 << 64)], ["m", "n"])
    assert expressions.upper_bound(N) == 7
