"""`make coverage` counts lines that did not run by what they are."""

from __future__ import annotations

from tests.benchmarks.coverage import count_kinds

SOURCE = """
def called(x):
    "Documented."
    if x:
        raise ValueError
    return x

def uncalled():
    "Documented."
    if 1:
        raise ValueError
"""


def test_lines_of_functions_that_nothing_calls_are_counted_apart_from_errors() -> None:
    assert count_kinds(SOURCE, {5}) == (0, 1)
    assert count_kinds(SOURCE, {5, 6}) == (0, 1)
    assert count_kinds(SOURCE, {5, 10, 11}) == (2, 1)
    assert count_kinds(SOURCE, set()) == (0, 0)
