"""Lifetimes: noting the last access while walking the steps in order covers every access, in loops too.

The pass over the steps sets the death of a tensor to each step that reads or writes it, and so to the last one. A loop
runs its steps again: between two moments of a run there are steps that come after both in the order of the plan. The
captures and operands of a loop must therefore live until the loop is left.

Tests: `tests/property/test_lemmas_are_of_the_code.py`.
spec: T1.2, T1.7, T8.3, T8.4, V1.4, V4.9, V4.11
"""

from __future__ import annotations

from proofs.proving.lemmas.engine.machine import Machine, MachineRule, Without
from proofs.proving.lemmas.engine.statements import Mutant, Statement, World

DIES = "now"
"""The death of a tensor after an access at the step `now`: the planner's recurrence, which a test evaluates too."""

PASS = Machine(
    "liveness",
    "Setting the death of a tensor to the step of each access, in order, keeps every access within its lifetime.",
    "(declare-sort Tensor 0)(declare-fun birth (Tensor) Int)",
    "(death (Tensor) Int) (seen (Tensor Int) Bool) (now () Int)",
    MachineRule(
        "Init",
        "Before the first step there is no access.",
        "(forall ((x Tensor) (s Int)) (not (seen x s)))",
        (Mutant("there was one", "(not (seen x s))", "(=> (< s now) (not (seen x s)))"),),
    ),
    """
    ; Every access so far is in the lifetime of its tensor, and none comes later.
    (forall ((x Tensor) (s Int)) (=> (seen x s) (and (<= (birth x) s) (<= s (death x)))))
    (forall ((x Tensor) (s Int)) (=> (seen x s) (<= s now)))""",
    (
        MachineRule(
            "Access",
            "A tensor that was written by then is accessed at this step or a later one, and its death becomes that"
            " step.",
            f"""(any t Tensor) (any now') (<= now now') (<= (birth t) now')
            (set (death t) {DIES}') (set (seen t now') true)""",
            (Without("steps out of order", "(<= now now')"),
             Without("read before it is written", "(<= (birth t) now')"),
             Mutant("an open end", f"(set (death t) {DIES}')", f"(set (death t) (- {DIES}' 1))")),
        ),
    ),
    World({"Tensor": 2}),
)  # fmt: skip

_LOOP = """
(declare-const birth Int)(declare-const death Int)(declare-const enter Int)(declare-const leave Int)
(declare-const reader Int)(declare-const reads_in Int)(declare-const step Int)(declare-const iteration Int)
"""
_INSIDE = "(and (<= enter step) (<= step leave))"
_BEFORE_THE_READ = "(or (< iteration reads_in) (and (= iteration reads_in) (<= step reader)))"

LOOPS = (
    Statement(
        "what_a_loop_captures_is_live_at_every_moment_until_it_is_read",
        "A value from before a loop that lives until the loop is left is live at every step that runs before it is"
        " read, in every iteration.",
        _LOOP,
        ("(<= birth enter)", "(<= leave death)", "(<= enter reader)", "(<= reader leave)", _INSIDE, _BEFORE_THE_READ),
        "(and (<= birth step) (<= step death))",
        (Mutant("it dies at its last reader in the order of the plan", "(<= leave death)", "(= death reader)"),
         Mutant("it is born after the loop begins", "(<= birth enter)", "(<= birth reader)")),
    ),
    Statement(
        "what_an_iteration_makes_is_live_until_it_is_read_there",
        "A value that is made and read in one iteration is live at every step between, by only its first and last"
        " access.",
        _LOOP,
        ("(<= enter birth)", "(<= birth reader)", "(<= reader death)", _INSIDE, _BEFORE_THE_READ,
         "(or (< reads_in iteration) (and (= iteration reads_in) (<= birth step)))"),
        "(and (<= birth step) (<= step death))",
        (Mutant("it is read in a later iteration", "(or (< reads_in iteration) (and",
                "(or (<= iteration reads_in) (and"),),
    ),
)  # fmt: skip
LEMMAS = (*PASS.lemmas(), *LOOPS)
