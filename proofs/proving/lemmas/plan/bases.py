"""Prove why offsets suffice: at a base that is aligned as stated, an aligned offset gives an aligned address.

Addresses are words of 64 bits, and alignments powers of two among them, which the rows of `alignment` show.

Tests: `tests/unit/test_bases.py`.
spec: V1.17, V4.3
"""

from __future__ import annotations

from proofs.proving.lemmas.engine.statements import Mutant, Statement

STATEMENTS = (
    Statement(
        "at_aligned_bases_every_address_is_aligned",
        "If the base of an arena is a multiple of its stated alignment, that of the alignment of a storage, and so is"
        " the storage's offset, then the storage's address in memory is a multiple of its alignment.",
        """
(declare-const b (_ BitVec 64))(declare-const s (_ BitVec 64))
(declare-const o (_ BitVec 64))(declare-const a (_ BitVec 64))
(define-fun is_power ((word (_ BitVec 64))) Bool
  (and (distinct word (_ bv0 64)) (= (bvand word (bvsub word (_ bv1 64))) (_ bv0 64))))
(define-fun is_multiple ((word (_ BitVec 64)) (of (_ BitVec 64))) Bool
  (= (bvand word (bvsub of (_ bv1 64))) (_ bv0 64)))
""",
        ("(is_power s)", "(is_power a)", "(is_multiple b s)", "(is_multiple s a)", "(is_multiple o a)"),
        "(is_multiple (bvadd b o) a)",
        (Mutant("any base", "(assume (is_multiple b s))", ""),
         Mutant("a base that is stated as less aligned", "(assume (is_multiple s a))", ""),
         Mutant("any offset", "(assume (is_multiple o a))", "")),
    ),
)  # fmt: skip
