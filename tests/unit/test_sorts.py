"""Expressions have the sorts that their places require, and values that nothing leaves open. spec: V4.16, V4.17"""

from __future__ import annotations

import pytest

from proofs.proving.smt import descent, totality
from proofs.proving.smt.expressions import parse_one
from proofs.proving.smt.sorts import OF_REALS, IllSorted, read_signature, sort_of

DECLARED = """(declare-sort S 0)(declare-datatypes ((P 0)) (((up) (down))))(declare-const s S)(declare-const p P)
(declare-const x Int)(declare-const w (_ BitVec 8))(declare-fun f (S Int) Bool)(define-fun two ((k Int)) Int (* 2 k))"""


@pytest.mark.parametrize(
    ("text", "sort"),
    [
        ("x", "Int"), ("12", "Int"), ("(- 1)", "Int"), ("(+ x 1 (two x) (div x 2))", "Int"), ("s", "S"), ("up", "P"),
        ("(and (f s x) (< x 1 2) (not false) (=> true (f s 1)))", "Bool"), ("(ite (= p up) s s)", "S"),
        ("(distinct w (bvadd w (_ bv1 8)) (bvnot w))", "Bool"), ("(bvule w w)", "Bool"),
        ("((_ zero_extend 2) w)", "(_ BitVec 10)"), ("((_ is up) p)", "Bool"), ("(let ((y x) (t s)) (f t y))", "Bool"),
        ("(forall ((t S) (y Int)) (exists ((v (_ BitVec 8))) (=> (f t y) (= v w))))", "Bool"),
    ],
)  # fmt: skip
def test_an_expression_has_a_sort(text: str, sort: str) -> None:
    assert sort_of(parse_one(text), read_signature(DECLARED), {}) == sort


@pytest.mark.parametrize(
    "text",
    [
        "0.5", "007", "y", "f", "()", "(f)", "(x)", "(f s)", "(f x s)", "(+ x)", "(+ x true)", "(not x)",
        "(not true true)",
        "(div x 1 2)", "(= x s)", "(= x)", "(ite x 1 2)", "(ite true 1 s)", "(< x s)", "(and)", "(or x)", "(two s)",
        "(bvadd w x)", "(bvadd w (_ bv1 9))", "(bvnot x)", "(bvult w (_ bv1 9))", "((_ zero_extend 2) x)", "(_ bv1)",
        "((_ is two) p)", "((_ is up) x)", "(forall () true)", "(forall ((y)) true)", "(forall ((y T)) true)",
        "(forall ((x Int)) true)", "(forall ((y Int) (y Int)) true)", "(forall ((y Int)) y)", "(let ((x 1)) x)",
        "(let ((y 1)) (let ((y 2)) y))", "(let () 1)", "(let (y) 1)", "(forall ((and Int)) true)", "(! true :named q)",
        "((as up P))", "((f s) x)", "(match p ((up 1) (down 2)))", "(abs x)",
    ],
)  # fmt: skip
def test_what_has_no_sort_is_refused(text: str) -> None:
    with pytest.raises(IllSorted):
        sort_of(parse_one(text), read_signature(DECLARED), {})


@pytest.mark.parametrize(
    "text",
    [
        "(declare-const x Int)", "(declare-sort S 0)", "(declare-sort Int 0)", "(declare-sort T 1)",
        "(declare-const and Int)",
        "(declare-const y T)", "(declare-fun g (T) Int)", "(declare-fun g (Int) (_ BitVec 0))", "(declare-const 7 Int)",
        "(declare-fun (g) (Int) Int)", "(define-fun g ((k Int)) Int (g k))", "(define-fun g ((x Int)) Int 0)",
        "(define-fun g () Int true)", "(assert false)", "(declare-datatypes ((Q 0)) (((up))))", "(push 1)", "x",
        "(declare-datatypes ((Q 0)) ((a)))", "(declare-datatypes ((Q 0)) (((a 1))))",
    ],
)  # fmt: skip
def test_a_name_has_one_meaning_and_a_definition_a_sort(text: str) -> None:
    with pytest.raises(IllSorted):
        read_signature(DECLARED + text)


LISTS = descent.check_definitions("(declare-datatypes ((L 0)) (((nil) (cell (head Int) (tail L)))))")


@pytest.mark.parametrize(
    "text",
    [
        "(mod x 2)", "(and (<= 1 y) (= 0 (mod x y)))", "(and (< 0 y) (= 0 (div x (* 2 y))))",
        "(=> (<= 1 y) (= 0 (mod x y)))",
        "(or (not (<= 1 y)) (= 0 (mod x y)))", "(ite (and true (<= 1 y)) (mod x y) 0)", "(ite (<= y 0) 0 1)",
        "(ite ((_ is nil) l) 0 (head l))", "(ite ((_ is cell) l) (head l) 0)", "(head (cell (head (cell 1 nil)) l))",
        "(and (not ((_ is nil) l)) (not (or ((_ is nil) k) ((_ is nil) m))) (= (head l) (head k) (head m)))",
        "(let ((z y)) (=> (<= 1 z) (= 0 (mod x y))))", "(forall ((y Int)) (=> (<= 1 y) (= 0 (mod x y))))",
        "(bvurem w (_ bv8 64))",
    ],
)  # fmt: skip
def test_a_value_that_no_open_case_decides_is_accepted(text: str) -> None:
    totality.check_defined(parse_one(text), LISTS, "it")


@pytest.mark.parametrize(
    "text",
    [
        "(mod x y)", "(div x 0)", "(div x (- 1))", "(and (= 0 (mod x y)) (<= 1 y))", "(and (<= 0 y) (= 0 (mod x y)))",
        "(or (<= 1 y) (= 0 (mod x y)))", "(ite (<= 1 y) 0 (mod x y))", "(=> (<= 1 z) (= 0 (mod x y)))", "(head l)",
        "(ite ((_ is nil) l) (head l) 0)", "(ite ((_ is nil) k) 0 (head l))", "(head (tail (cell 1 nil)))",
        "(head nil)",
        "(and (not (<= 1 y)) (= 0 (mod x y)))", "(=> (< (- 1) y) (= 0 (mod x y)))", "(let ((z y)) (mod x z))",
        "(forall ((y Int)) (= 0 (mod x y)))", "(bvurem w w)", "(bvurem w (_ bv0 64))", "(div x (* 2 y))",
    ],
)  # fmt: skip
def test_a_value_that_an_open_case_may_decide_is_refused(text: str) -> None:
    """SMT-LIB leaves a division by 0 and a selector of the empty list open."""
    with pytest.raises(totality.Open):
        totality.check_defined(parse_one(text), LISTS, "it")


def test_a_file_of_lemmas_has_only_definitions_with_one_value() -> None:
    text = "(declare-datatypes ((L 0)) (((nil) (cell (head Int) (tail L)))))(define-fun first ((l L)) Int (head l))"
    with pytest.raises(totality.Open, match="first"):
        totality.check_total(descent.check_definitions(text))


@pytest.mark.parametrize(
    "text", ["(declare-fun {} (Int) Int)", "(declare-const {} Int)", "(define-fun {} ((k Int)) Int k)"]
)
@pytest.mark.parametrize("name", sorted(OF_REALS))
def test_a_function_that_the_solver_has_beside_smt_lib_cannot_be_declared(name: str, text: str) -> None:
    """Z3 would read its own: `(< (sin x) 2)` was proved of any function `sin`. spec: V4.16"""
    with pytest.raises(IllSorted, match=f"{name} is defined already"):
        read_signature(text.format(name))
