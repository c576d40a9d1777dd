"""Prove why a few hulls suffice: a write that is clear of a hull is clear of every input in it.

Tests: `tests/property/test_kept_inputs.py`.
spec: Z1.1, V4.3
"""

from __future__ import annotations

from proofs.proving.lemmas.engine.statements import Mutant, Statement

HULLS = """
(define-fun in_hull ((first Int) (bytes Int) (low Int) (high Int)) Bool
  (and (<= low first) (<= (+ first bytes) high)))
(define-fun clear_of ((first Int) (bytes Int) (low Int) (high Int)) Bool
  (or (<= (+ first bytes) low) (<= high first)))
"""

STATEMENTS = (
    Statement(
        "what_is_clear_of_a_hull_is_clear_of_its_parts",
        "If a range of bytes is inside of a hull, and another range is clear of the hull, then no byte is in both.",
        HULLS + "".join(f"(declare-const {name} Int)" for name in ("f", "b", "l", "h", "g", "c", "x")),
        ("(in_hull f b l h)", "(clear_of g c l h)"),
        "(not (and (<= f x) (< x (+ f b)) (<= g x) (< x (+ g c))))",
        (Mutant("a part that begins below the hull", "(and (<= low first)", "(and true"),
         Mutant("a part that ends above the hull", "(<= (+ first bytes) high)))", "true))"),
         Mutant("a range that reaches into the hull", "(or (<= (+ first bytes) low)", "(or (<= first low)")),
    ),
)  # fmt: skip
