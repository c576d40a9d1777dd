"""Totals over any number of members, and counts: what the machines' ledgers and reference counts rest on.

Members are numbered; a total of the first `k` is `total k`, with `total 0 = 0` and each further member's value added. A
count is a total of ones and zeros. Each statement is the step from `k` to `k + 1` of an induction whose beginning,
`k = 0`, is a statement as well. The statements of `quota` and `alias_references` assume of their totals what these
conclude.

Tests: `tests/integration/models/test_lemmas.py`.
spec: V4.9
"""

from __future__ import annotations

from proofs.lemmas.statements import Mutant, Statement, World

_TOTALS = """
(declare-fun before (Int) Int)(declare-fun after (Int) Int)(declare-const k Int)(declare-const at Int)
(declare-const total_before Int)(declare-const total_after Int)
"""
_ONE_CHANGES = "(forall ((m Int)) (=> (distinct m at) (= (after m) (before m))))"


def _follows(k: str, before: str, after: str) -> str:
    """The totals of the first k members differ by the change of the one that changed, if it is among them."""
    return f"(= {after} (+ {before} (ite (< at {k}) (- (after at) (before at)) 0)))"


_COUNT = """
(declare-fun counts (Int) Bool)(declare-const k Int)(declare-const count Int)
(define-fun next () Int (+ count (ite (counts k) 1 0)))
"""


def _zero(k: str, count: str) -> str:
    """A count is never negative, and zero exactly where nobody counts."""
    return f"(and (<= 0 {count}) (= (= {count} 0) (forall ((m Int)) (=> (and (<= 0 m) (< m {k})) (not (counts m))))))"


def _one(k: str, count: str) -> str:
    """At a count of one, or of none, no two members count."""
    return (
        f"(=> (<= {count} 1) (forall ((m Int) (n Int)) (=> (and (<= 0 m) (< m {k}) (<= 0 n) (< n {k}) (counts m)"
        " (counts n)) (= m n))))"
    )


_PARTS = """
(declare-fun value (Int) Int)(declare-fun chosen (Int) Bool)(declare-const k Int)
(declare-const part Int)(declare-const whole Int)
"""

STATEMENTS = (
    Statement(
        "no_members_total_alike",
        "Before the first member totals are zero, and so is their change.",
        _TOTALS, ("(= k 0)", "(<= 0 at)", "(= total_before 0)", "(= total_after 0)"),
        _follows("k", "total_before", "total_after"),
        (Mutant("a member before the first", "(assume (<= 0 at))", ""),),
        World({}, -1, 2),
    ),
    Statement(
        "a_total_follows_one_change",
        "Where one member's value changes, the total changes by as much.",
        _TOTALS, ("(<= 0 k)", _ONE_CHANGES, _follows("k", "total_before", "total_after")),
        _follows("(+ k 1)", "(+ total_before (before k))", "(+ total_after (after k))"),
        (Mutant("another member changes as well", _ONE_CHANGES, "true"),
         Mutant("the member itself is left out", "(< at (+ k 1))", "(< at k)")),
        World({}, 0, 2),
    ),
    Statement(
        "a_count_is_zero_where_nobody_counts",
        "A count of one member more is never negative, and zero exactly where none of them counts.",
        _COUNT, ("(<= 0 k)", _zero("k", "count")), _zero("(+ k 1)", "next"),
        (Mutant("counted down", "(+ count (ite (counts k) 1 0))", "(- count (ite (counts k) 1 0))"),
         Mutant("a member is not counted", "(ite (counts k) 1 0)", "0")),
        World({}, 0, 2),
    ),
    Statement(
        "at_a_count_of_one_no_two_count",
        "A count of one member more is greater than one where two of them count.",
        _COUNT, ("(<= 0 k)", _zero("k", "count"), _one("k", "count")), _one("(+ k 1)", "next"),
        (Mutant("a member is not counted", "(ite (counts k) 1 0)", "0"),
         Mutant("a count of two as well", "(=> (<= next 1)", "(=> (<= next 2)")),
        World({}, 0, 2),
    ),
    Statement(
        "a_part_is_at_most_the_whole",
        "The total of some members, where no value is negative, is at most the total of all.",
        _PARTS, ("(<= 0 (value k))", "(<= part whole)"),
        "(<= (+ part (ite (chosen k) (value k) 0)) (+ whole (value k)))",
        (Mutant("negative values", "(assume (<= 0 (value k)))", ""),),
    ),
)  # fmt: skip
