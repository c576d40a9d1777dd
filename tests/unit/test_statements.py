"""Twins and mutants are asked in a small world, where every quantifier is written out and every integer is bounded.

spec: V4.9
"""

from __future__ import annotations

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


def test_a_twin_holds_in_the_small_world_alone() -> None:
    """Two elements of each sort, and the integers from -1 to 4."""
    with Z3() as solver:
        for goal in (*HOLD, *DO_NOT):
            asked = "".join(stated(goal, World({"S": 2})).twin())
            answer = solver.evaluate(f"(push){asked}(check-sat)(pop)", 20)
            assert answer.text == ("sat" if goal in HOLD else "unsat"), goal


def test_quantifiers_are_written_out_over_the_window_and_the_elements() -> None:
    """Over a single choice nothing is joined: SMT-LIB knows no conjunction of one."""
    for world, expected in (
        (World({"S": 2}, 0, 1), "(assert (and (or (= x 0) (= x 1)) (and (p s_0 s_0) (p s_1 s_1))))"),
        (World({"S": 1}, 7, 7), "(assert (and (= x 7) (p s_0 s_0)))"),
        (World({"S": 1}, -1, -1), "(assert (and (= x (- 1)) (p s_0 s_0)))"),
        (None, "(assert (and (exists ((k Int)) (= x k)) (forall ((a S)) (p a a))))"),
    ):
        assert stated("(and (exists ((k Int)) (= x k)) (forall ((a S)) (p a a)))", world).twin()[-1] == expected


def test_hypotheses_are_assumed_everywhere_and_the_goal_is_negated_where_it_is_not_to_hold() -> None:
    statement = stated("(< x 3)", None, "(< x 2)")
    for commands, last in (
        (statement.refutation(), ["(assert (< x 2))", "(assert (not (< x 3)))"]),
        (statement.twin(), ["(assert (< x 2))", "(assert (< x 3))"]),
        (statement.mutant(Mutant("more", "(< x 3)", "(< x 1)")), ["(assert (< x 2))", "(assert (not (< x 1)))"]),
    ):
        assert commands[-2:] == last
        assert commands[:-2] == statement.refutation()[:-2]
