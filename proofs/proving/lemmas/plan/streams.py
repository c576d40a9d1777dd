"""Prove why clocks and last accesses show that no two accesses race, each as the step of an induction on the list.

`before` is happens-before, any relation that is transitive, contains the order of each stream, and has each step after
the steps that it follows directly. A clock has, for each stream, a number of its first steps. Each statement is about
one more step of the list, or one more access of a byte: what is known of the steps and accesses before it is its
hypothesis.

Tests: `tests/property/test_streams.py`.
spec: X5.2, X5.3, X5.10, X5.11, V4.3
"""

from __future__ import annotations

from proofs.proving.lemmas.engine.statements import Mutant, Statement

ORDERED = """
(define-fun clocked ((shown Int) (followed_shows Int) (followed_is Int)) Bool
  (or (<= shown followed_shows) (<= shown followed_is)))
(define-fun ordered ((position Int) (shown Int)) Bool (< position shown))
(define-fun complete ((shown Int) (followed_shows Int) (followed_is Int)) Bool
  (and (<= followed_shows shown) (<= followed_is shown)))
(define-fun unordered ((shown Int) (position Int)) Bool (<= shown position))
"""
"""The macros of rows. `followed_is` is the position of the followed step plus 1 if it is on the stream, otherwise 0."""

_STEPS = (
    "(declare-sort Step 0)(declare-fun before (Step Step) Bool)(declare-fun stream (Step) Int)"
    "(declare-fun position (Step) Int)(declare-fun clock (Step Int) Int)"
    + "".join(f"(declare-const {name} Step)" for name in "spt")
)
_IS = "(ite (= (stream p) (stream t)) (+ 1 (position p)) 0)"
_ROW = f"(clock s (stream t)) (clock p (stream t)) {_IS}"
_BYTES = (
    "(declare-sort Step 0)(declare-fun before (Step Step) Bool)(declare-const first_writes Bool)"
    "(declare-const then_writes Bool)" + "".join(f"(declare-const {name} Step)" for name in ("e", "n", "w", "r"))
)


def _is_transitive(*path: str) -> str:
    """Return that happens-before is transitive along three steps."""
    a, b, c = path
    return f"(=> (and (before {a} {b}) (before {b} {c})) (before {a} {c}))"


def _is_reached(a: str, b: str) -> str:
    """Return that a step is another one or happens before it."""
    return f"(or (= {a} {b}) (before {a} {b}))"


STATEMENTS = (
    Statement(
        "a_clock_shows_what_happens_before",
        "If a step's clock shows no more steps of a stream than that of a step which it follows directly, or than that"
        " step and those before it on its stream, then all that it shows happen before it, if so of that step's clock.",
        ORDERED + _STEPS,
        (
            "(before p s)", _is_transitive("t", "p", "s"),
            "(=> (and (= (stream t) (stream p)) (< (position t) (position p))) (before t p))",
            "(=> (and (= (stream t) (stream p)) (= (position t) (position p))) (= t p))",
            "(<= 0 (position t))",
            "(=> (< (position t) (clock p (stream t))) (before t p))",
            f"(clocked {_ROW})", "(ordered (position t) (clock s (stream t)))",
        ),
        "(before t s)",
        (
            Mutant("it does not follow that step", "(assume (before p s))", "(assume true)"),
            Mutant("the clock shows one step more", "(or (<= shown followed_shows)",
                   "(or (<= shown (+ 1 followed_shows))"),
            Mutant("a step of another stream", "(+ 1 (position p)) 0)", "(+ 1 (position p)) 1)"),
            Mutant("the step after those shown", "Bool (< position shown)", "Bool (<= position shown)"),
        ),
    ),
    Statement(
        "what_a_join_shows_happens_before_later_steps",
        "What the clock of a step shows happens before each later step of its stream.",
        ORDERED + _STEPS,
        (
            "(or (= p s) (before p s))", _is_transitive("t", "p", "s"),
            "(=> (< (position t) (clock p (stream t))) (before t p))", "(ordered (position t) (clock p (stream t)))",
        ),
        "(before t s)",
        (
            Mutant("the step after those shown", "Bool (< position shown)", "Bool (<= position shown)"),
            Mutant("a join that is not earlier", "(assume (or (= p s) (before p s)))", "(assume true)"),
        ),
    ),
    Statement(
        "the_last_accesses_of_a_byte_are_enough",
        "Each write of a byte so far is its last write or happens before it, and each read happens before that write,"
        " or is the last read on its stream since, or happens before that. If the next access is ordered after the last"
        " write and, if it writes, after the last read of each stream, it is ordered after every earlier access that"
        " it could disturb or that could disturb it.",
        _BYTES,
        (
            f"(or {_is_reached('e', 'w')} (and (not first_writes) {_is_reached('e', 'r')}))",
            _is_reached("w", "n"), f"(=> then_writes {_is_reached('r', 'n')})",
            _is_transitive("e", "w", "n"), _is_transitive("e", "r", "n"),
        ),
        f"(=> (or first_writes then_writes) {_is_reached('e', 'n')})",
        (
            Mutant("a write that is not ordered after reads", "(assume (=> then_writes", "(assume (=> first_writes"),
            Mutant("an access that is not ordered after the last write", f"(assume {_is_reached('w', 'n')})",
                   "(assume true)"),
            Mutant("writes that are not ordered", "(and (not first_writes)", "(and true"),
        ),
    ),
    Statement(
        "a_complete_clock_shows_all_that_happens_before",
        "If a step's clock shows all that the clock of each step that it follows directly shows, and that step, then"
        " what it does not show does not happen before it, if so of those clocks.",
        ORDERED + _STEPS,
        (f"(complete {_ROW})", "(or (= t p) (< (position t) (clock p (stream t))))"),
        "(not (unordered (clock s (stream t)) (position t)))",
        (
            Mutant("not what the other clock shows", "(and (<= followed_shows shown)", "(and true"),
            Mutant("not the step itself", "(<= followed_is shown))", "true)"),
            Mutant("the last step that is shown", "Bool (<= shown position)", "Bool (< shown (+ 2 position))"),
        ),
    ),
    Statement(
        "last_and_first_accesses_order_storages",
        "If the last access of one storage on each stream happens before the first access of another on each stream,"
        " then every access of the one happens before every access of the other.",
        _BYTES,
        (
            _is_reached("e", "w"), "(before w r)", _is_reached("r", "n"),
            _is_transitive("e", "w", "r"), _is_transitive("e", "r", "n"), _is_transitive("w", "r", "n"),
        ),
        "(before e n)",
        (
            Mutant("the first access is not ordered", "(assume (before w r))", "(assume true)"),
            Mutant("an access after the last one", f"(assume {_is_reached('e', 'w')})", "(assume true)"),
        ),
    ),
)  # fmt: skip
