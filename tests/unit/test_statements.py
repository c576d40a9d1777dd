"""Mutants are asked in a small world, where quantifiers are written out and integers are bounded; twins are not.

spec: V4.9, V4.19
"""

from __future__ import annotations

from typing import Any

import pytest

from proofs.proving.lemmas.engine.statements import Mutant, Statement, World
from proofs.proving.solvers.process import Z3

DECLARED = """
(declare-sort S 0)(declare-fun f (S) Int)(declare-fun g () Int)(declare-const x Int)(declare-fun p (S S) Bool)
(define-fun twice ((k Int)) Int (* 2 k))
"""


def stated(goal: str, world: World | None, *hypotheses: str) -> Statement:
    return Statement("one", "One.", DECLARED, hypotheses, goal, (), world)


HOLD = (
    "(= x 4)", "(= x (- 1))", "(= g 4)", "(= g (- 1))", "(= 4 (twice x))",
    "(exists ((a S)) (= (f a) 4))", "(forall ((a S)) (= (f a) (- 1)))", "(exists ((a S) (b S)) (not (= a b)))",
    "(exists ((k Int)) (= k 4))", "(exists ((k Int)) (= k (- 1)))", "(forall ((k Int)) (= k k))",
)  # fmt: skip
DO_NOT = (
    "(= x 5)", "(= x (- 2))", "(= g 5)", "(= g (- 2))", "(= 3 (twice x))",
    "(exists ((a S)) (= (f a) 5))", "(exists ((a S)) (= (f a) (- 2)))", "(exists ((a S)) (and (p a a) (not (p a a))))",
    "(exists ((k Int)) (= k 5))", "(exists ((k Int)) (= k (- 2)))", "(exists ((a S) (b S) (c S)) (distinct a b c))",
)  # fmt: skip


def negated(goal: str) -> Mutant:
    """The mutant whose case is one of the goal itself."""
    return Mutant("not", f"(prove {goal})", f"(prove (not {goal}))")


def test_a_mutant_is_false_in_the_small_world_alone() -> None:
    """Two elements of each sort, and the integers from -1 to 4."""
    with Z3() as solver:
        for goal in (*HOLD, *DO_NOT):
            asked = "".join(stated(goal, World({"S": 2})).mutant(negated(goal)))
            answer = solver.evaluate(f"(push){asked}(check-sat)(pop)", 20)
            assert answer.text == ("sat" if goal in HOLD else "unsat"), goal


BEYOND = ("(= x 5)", "(= x (- 2))", "(= g 5)", "(exists ((a S)) (= (f a) (- 2)))", "(exists ((k Int)) (= k 5))",
          "(exists ((k Int) (a S)) (< 99 k (f a)))")  # fmt: skip
NOT_BEYOND = ("(= 3 (twice x))", "(exists ((a S) (b S) (c S)) (distinct a b c))", "(forall ((k Int)) (<= k 4))")


def test_a_twin_is_a_case_among_all_integers() -> None:
    """Hypotheses that only a window of integers satisfies have no case. spec: V4.19"""
    with Z3() as solver:
        for goal in (*BEYOND, *NOT_BEYOND):
            asked = "".join(stated(goal, World({"S": 2})).twin())
            answer = solver.evaluate(f"(push){asked}(check-sat)(pop)", 20)
            assert answer.text == ("sat" if goal in BEYOND else "unsat"), goal


def test_a_twin_may_be_sought_where_functions_have_a_meaning() -> None:
    """spec: V4.19"""
    meanings = "(define-fun f ((a S)) Int (ite (= a s_0) 7 8))(define-fun x () Int 9)(define-fun elsewhere () Int 0)"
    twin = stated("(< 0 x)", World({"S": 2}, meanings=meanings)).twin()
    assert {"(define-fun f ((a S)) Int (ite (= a s_0) 7 8))", "(define-fun x () Int 9)"} <= set(twin)
    assert not any("elsewhere" in command or "declare-fun f " in command for command in twin)


@pytest.mark.parametrize(
    ("meanings", "reason"),
    [
        ("(define-fun x () Bool true)", "other sorts than x"), ("(define-fun f ((a S)) Int 0.5)", "is not defined"),
        ("(define-fun f ((k Int)) Int k)", "other sorts than f"), ("(define-fun x () Int (div 1 0))", "divide by 0"),
        ("(declare-const y Int)", "defines nothing"), ("(define-fun x () Int 1)(define-fun x () Int 2)", "already"),
    ],
)  # fmt: skip
def test_a_meaning_is_one_of_what_is_declared(meanings: str, reason: str) -> None:
    """spec: V4.16, V4.19"""
    with pytest.raises(ValueError, match=reason):
        stated("(< 0 x)", World({"S": 2}, meanings=meanings)).twin()


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"goal": "(< x 0.5)"}, "'0.5' is not defined"), ({"goal": "x"}, "has the sort Int, expected Bool"),
        ({"goal": "true)(prove false"}, "never opened"), ({"goal": "(and)"}, "not an expression"),
        ({"hypotheses": ("(= 0 (mod x g))",)}, "may divide by 0"), ({"hypotheses": ("x",)}, "expected Bool"),
        ({"declarations": f"{DECLARED}(declare-const x Int)"}, "x is defined already"),
        ({"declarations": f"{DECLARED}(prove true)"}, "neither declares nor defines"),
        ({"declarations": f"{DECLARED}(declare-datatypes ((P 0)) (((p (left Int)))))"}, "p is defined already"),
        ({"declarations": f"{DECLARED}(declare-datatypes ((P 0)) (((pair (left Int)))))"}, "other than its elements"),
        ({"declarations": f"{DECLARED}(define-fun half () Int (div x x))"}, "may divide by 0"),
    ],
)  # fmt: skip
def test_a_statement_says_what_its_parts_say(changed: dict[str, Any], reason: str) -> None:
    """spec: V4.16, V4.17"""
    wrong = stated("(< x 3)", None, "(< x 2)")._replace(**changed)
    for asked in (wrong.refutation, wrong.twin, wrong.query):
        with pytest.raises(ValueError, match=reason):
            asked()


def test_quantifiers_are_written_out_over_the_window_and_the_elements() -> None:
    """Over a single choice nothing is joined: SMT-LIB knows no conjunction of one."""
    goal = "(and (exists ((k Int)) (= x k)) (forall ((a S)) (p a a)))"
    for world, expected in (
        (World({"S": 2}, 0, 1), "(and (or (= x 0) (= x 1)) (and (p s_0 s_0) (p s_1 s_1)))"),
        (World({"S": 1}, 7, 7), "(and (= x 7) (p s_0 s_0))"),
        (World({"S": 1}, -1, -1), "(and (= x (- 1)) (p s_0 s_0))"),
        (None, goal),
    ):
        written = stated("true", world).mutant(Mutant("goal", "(prove true)", f"(prove {goal})"))
        assert written[-1] == f"(assert (not {expected}))"
    assert stated(goal, World({"S": 2}, 0, 1)).twin()[-1] == (
        "(assert (and (exists ((k Int)) (= x k)) (and (p s_0 s_0) (p s_1 s_1))))"
    )


def test_hypotheses_are_assumed_everywhere_and_the_goal_is_negated_where_it_is_not_to_hold() -> None:
    statement = stated("(< x 3)", None, "(< x 2)")
    for commands, last in (
        (statement.refutation(), ["(assert (< x 2))", "(assert (not (< x 3)))"]),
        (statement.twin(), ["(assert (< x 2))", "(assert (< x 3))"]),
        (statement.mutant(Mutant("more", "(< x 3)", "(< x 1)")), ["(assert (< x 2))", "(assert (not (< x 1)))"]),
    ):
        assert commands[-2:] == last
        assert commands[:-2] == statement.refutation()[:-2]
