"""Lifetimes: walking the steps in order and noting the last access covers every access, in loops too.

The pass over the steps sets the death of a tensor to each step that reads or writes it, the last one in the end. A loop
runs its steps again: between two moments of a run stand steps that the order of the plan puts after both, so what a
loop captures or is given has to live until the loop is left.

Tests: `tests/property/test_lemmas_are_of_the_code.py`.
spec: T1.2, T1.7, T8.3, T8.4, V1.4, V4.9, V4.11
"""

from __future__ import annotations

from proofs.lemmas.statements import Mutant, Statement, World

DIES = "now"
"""The death of a tensor after an access at the step `now`: the planner's recurrence, evaluated beside it by a test."""

_PASS = """
(declare-sort Tensor 0)
(declare-fun birth (Tensor) Int)(declare-const before Int)(declare-const now Int)(declare-const t Tensor)
(declare-fun death0 (Tensor) Int)(declare-fun death1 (Tensor) Int)
(declare-fun seen0 (Tensor Int) Bool)(declare-fun seen1 (Tensor Int) Bool)
"""


def _covered(suffix: str) -> str:
    """Every access seen so far lies in the lifetime of its tensor."""
    return f"(forall ((x Tensor) (s Int)) (=> (seen{suffix} x s) (and (<= (birth x) s) (<= s (death{suffix} x)))))"


def _by(suffix: str, step: str) -> str:
    """No access seen so far comes after the step."""
    return f"(forall ((x Tensor) (s Int)) (=> (seen{suffix} x s) (<= s {step})))"


_IN_ORDER = "(<= before now)"
_AFTER_ITS_WRITE = "(<= (birth t) now)"
_SET = f"(forall ((x Tensor)) (= (death1 x) (ite (= x t) {DIES} (death0 x))))"

_LOOP = """
(declare-const birth Int)(declare-const death Int)(declare-const enter Int)(declare-const leave Int)
(declare-const reader Int)(declare-const reads_in Int)(declare-const step Int)(declare-const iteration Int)
"""
_INSIDE = "(and (<= enter step) (<= step leave))"
_BEFORE_THE_READ = "(or (< iteration reads_in) (and (= iteration reads_in) (<= step reader)))"

STATEMENTS = (
    Statement(
        "a_pass_begins_right",
        "Before the first step no access has been seen: all that were seen lie in lifetimes, and none comes later.",
        _PASS, ("(forall ((x Tensor) (s Int)) (not (seen1 x s)))",), f"(and {_covered('1')} {_by('1', 'now')})",
        (Mutant("something was seen", "(not (seen1 x s))", "(=> (< s now) (not (seen1 x s)))"),),
        World({"Tensor": 2}),
    ),
    Statement(
        "setting_the_death_to_each_access_covers_it",
        "Where steps are walked in order and no tensor is read before it is written, setting the death of a tensor to"
        " the step of each access keeps every access so far within its lifetime, and none of them is later than this"
        " step.",
        _PASS,
        (_covered("0"), _by("0", "before"), _IN_ORDER, _AFTER_ITS_WRITE, _SET,
         "(forall ((x Tensor) (s Int)) (= (seen1 x s) (or (seen0 x s) (and (= x t) (= s now)))))"),
        f"(and {_covered('1')} {_by('1', 'now')})",
        (Mutant("steps out of order", f"(assume {_IN_ORDER})", ""),
         Mutant("read before it is written", f"(assume {_AFTER_ITS_WRITE})", ""),
         Mutant("an open end", "(ite (= x t) now (death0 x))", "(ite (= x t) (- now 1) (death0 x))")),
        World({"Tensor": 2}),
    ),
    Statement(
        "what_a_loop_captures_is_live_at_every_moment_until_it_is_read",
        "A value from before a loop that lives to the step at which the loop is left is live at every step that is run"
        " before it is read, in whichever iteration that is.",
        _LOOP,
        ("(<= birth enter)", "(<= leave death)", "(<= enter reader)", "(<= reader leave)", _INSIDE, _BEFORE_THE_READ),
        "(and (<= birth step) (<= step death))",
        (Mutant("it dies at its last reader in the order of the plan", "(<= leave death)", "(= death reader)"),
         Mutant("it is born after the loop begins", "(<= birth enter)", "(<= birth reader)")),
    ),
    Statement(
        "what_an_iteration_makes_is_live_until_it_is_read_there",
        "A value that is made and read in one iteration is live at every step between, by its first and last access"
        " alone.",
        _LOOP,
        ("(<= enter birth)", "(<= birth reader)", "(<= reader death)", _INSIDE, _BEFORE_THE_READ,
         "(or (< reads_in iteration) (and (= iteration reads_in) (<= birth step)))"),
        "(and (<= birth step) (<= step death))",
        (Mutant("it is read in a later iteration", "(or (< reads_in iteration) (and",
                "(or (<= iteration reads_in) (and"),),
    ),
)  # fmt: skip
