"""Prove why the largest sizes of an envelope suffice: ranges that are apart and in bounds stay so when they shrink.

In a symbolic plan they may also move: each slot begins where the one before it ends, rounded up.

Tests: `tests/unit/test_envelope_verify.py`.
spec: V4.3, R6.5, R6.15
"""

from __future__ import annotations

from proofs.proving.lemmas.engine.statements import Mutant, Statement

SMALLER_PARTS = Statement(
    "smaller_parts_stay_apart",
    "If two ranges of bytes are in bounds, one behind the other, then ranges that begin at the same bytes and are no"
    " longer are so too.",
    "(declare-const o Int)(declare-const p Int)(declare-const y Int)(declare-const z Int)"
    "(declare-const s Int)(declare-const t Int)(declare-const capacity Int)",
    ("(<= 0 s)", "(<= s y)", "(<= 0 t)", "(<= t z)", "(<= 0 o)", "(<= (+ o y) p)", "(<= (+ p z) capacity)"),
    "(and (<= (+ o s) p) (<= (+ p t) capacity) (<= (+ o s) capacity))",
    (Mutant("the first is larger", "(assume (<= s y))", ""), Mutant("the second is larger", "(assume (<= t z))", ""),
     Mutant("they meet", "(assume (<= (+ o y) p))", "(assume (<= o p))"),
     Mutant("out of bounds", "(assume (<= (+ p z) capacity))", "")),
)  # fmt: skip
"""Addresses do not move, so that alignment stays. A verdict over an envelope asks it."""

SMALLER_SUMS = Statement(
    "prefix_sums_of_smaller_slots_end_no_later",
    "If a slot begins at the end of those before it, rounded up, then a smaller slot behind smaller ones is behind them"
    " too, is aligned, and ends no later.",
    "(define-fun up ((x Int) (a Int)) Int (ite (<= 1 a) (* a (div (+ x a (- 1)) a)) x))"
    "(declare-const end Int)(declare-const less Int)(declare-const strict Int)"
    "(declare-const y Int)(declare-const s Int)",
    ("(<= 1 strict)", "(<= 0 less)", "(<= less end)", "(<= 0 s)", "(<= s y)"),
    "(and (<= less (up less strict)) (= 0 (mod (up less strict) strict))"
    " (<= (+ (up less strict) s) (+ (up end strict) y)))",
    (Mutant("those before it are larger", "(assume (<= less end))", ""),
     Mutant("the slot is larger", "(assume (<= s y))", ""),
     Mutant("rounded down", "(+ x a (- 1))", "x")),
)  # fmt: skip
"""The step of an induction over the slots of an arena. A verdict on a symbolic plan asks it."""

STATEMENTS = (SMALLER_PARTS, SMALLER_SUMS)
