"""Prove why the largest sizes of an envelope suffice: ranges that are apart and in bounds stay so when they shrink.

Tests: `tests/unit/test_envelope_verify.py`.
spec: V4.3, R6.5
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

STATEMENTS = (SMALLER_PARTS,)
