"""Calls on lists that are written out are unfolded, all others stay, and an expression keeps its meaning.

spec: V4.10
"""

from __future__ import annotations

import pytest

from proofs.proving.lemmas.plan.chains import DEFINITIONS
from proofs.proving.smt import descent
from proofs.proving.smt.expressions import parse_one, text_of
from proofs.proving.smt.unfold import Scope, has_recursive_call, read_unfolding, unfold_calls

CHAINS = read_unfolding(descent.check_definitions(DEFINITIONS))
TENANTS = "(tenancy (- 1) 7 0 64 (tenant 2 3 0 64 8 (tenant 5 7 0 32 8 vacant)))"
# Names of one letter, so that a symbol could be taken for a call of it.
LISTS = """
(declare-datatypes ((L 0)) (((e) (c (v Int) (w Int) (r L)))))
(define-fun two () Int 2)
(define-fun-rec f ((k Int) (x L)) Int (ite ((_ is e) x) k (+ (v x) (f (w x) (r x)))))
"""
BY = read_unfolding(descent.check_definitions(LISTS))


def test_a_call_on_a_list_that_is_written_out_is_unfolded_to_its_cells() -> None:
    text = text_of(unfold_calls(parse_one(TENANTS), CHAINS))
    assert "tenancy" not in text
    assert text.startswith("(and (< (- 1) 2) (<= 2 3) (= 0 0) (<= 1 64)")
    assert text.endswith("(= 7 7)))")


@pytest.mark.parametrize(
    ("call", "stands_for"),
    [
        ("(f 5 e)", "5"),
        ("(f 5 (c 7 8 e))", "(+ 7 8)"),
        ("(f 5 (c 7 8 (c 9 10 e)))", "(+ 7 (+ 9 10))"),
        ("(f 5 (c 7 8 rest))", "(+ 7 (f 8 rest))"),
        ("(= 1 (f 5 (r (c 7 8 e))))", "(= 1 5)"),
        ("(f (v (c 7 8 e)) e)", "7"),
        ("(v (c 7 8 e))", "7"),
        ("(w (c 7 8 e))", "8"),
        ("(r (c 7 8 (c 9 10 rest)))", "(c 9 10 rest)"),
    ],
)
def test_a_call_becomes_what_its_definition_says(call: str, stands_for: str) -> None:
    assert text_of(unfold_calls(parse_one(call), BY)) == stands_for


@pytest.mark.parametrize(
    "kept", ["fresh", "c", "()", "(f 5 cells)", "(f 5 c)", "(f 5 ())", "(f 5 (r x))", "(f 5 ((as e L)))", "(v x)",
             "(v c)", "(v e)", "(v ())", "(v (r x))", "((_ is e) x)", "(two)"],
)  # fmt: skip
def test_what_is_not_known_to_be_a_cell_or_empty_stays(kept: str) -> None:
    assert text_of(unfold_calls(parse_one(kept), BY)) == kept


def test_a_field_is_read_off_a_list_of_any_length() -> None:
    """A list is a value: nobody looks for calls in its cells."""
    cells = "(c 7 8 " * 5000 + "rest" + ")" * 5000
    assert unfold_calls(["v", parse_one(cells)], BY) == "7"


def test_only_a_call_of_a_recursive_function_recurs() -> None:
    for text, expected in (
        ("(f 5 x)", True), ("(and (= 1 (f 5 x)))", True), ("f", False), ("fresh", False), ("()", False),
        ("(two)", False), ("(+ f 1)", False), ("(v x)", False),
    ):  # fmt: skip
        assert has_recursive_call(parse_one(text), BY) is expected, text


def test_a_query_is_given_the_recursive_definitions_only_where_it_needs_them() -> None:
    known, unknown = "(assert (= 15 (f 5 (c 7 8 e))))", "(assert (= 15 (f 5 x)))"
    plain, asked = Scope(LISTS).unfold(known)
    assert "define-fun-rec" not in plain
    assert all(part in plain for part in ("(declare-datatypes ((L 0))", "(define-fun two () Int 2)"))
    assert asked == "(assert (= 15 (+ 7 8)))"
    for commands in (unknown, f"{known}{unknown}", f"{unknown}{known}"):
        assert Scope(LISTS).unfold(commands)[0] == LISTS
