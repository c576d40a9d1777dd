"""Vectors stored as differences: `tla/mnemosyne/DeltaEncoding.tla` for any number of vectors and any width.

`back` is the reader's reconstruction from the lossless records, and `near` that from the lossy ones. From the first
record it is the vector itself, and then the one before and the record together. Two separate statements show that
differences of patterns wrap and can be undone, and that a rounded difference is within half a step. The machine assumes
no more of `difference`, `sum` and `nearest` than these state. spec: V4.9
"""

from __future__ import annotations

from proofs.proving.lemmas.engine.machine import NEXT, Machine, MachineRule, Without
from proofs.proving.lemmas.engine.statements import Mutant, Statement, World

ARITHMETIC = (
    Statement(
        "a_difference_is_a_pattern",
        "The difference of two patterns, modulo the number of patterns, is their difference as integers or that plus"
        " the number: always a pattern.",
        "(declare-const modulus Int)(declare-const v Int)(declare-const a Int)",
        ("(< 0 modulus)", "(<= 0 v)", "(< v modulus)", "(<= 0 a)", "(< a modulus)"),
        "(and (<= 0 (mod (- v a) modulus)) (< (mod (- v a) modulus) modulus)"
        " (= (mod (- v a) modulus) (ite (<= a v) (- v a) (+ (- v a) modulus))))",
        (Mutant("what is subtracted is not a pattern", "(assume (< a modulus))", ""),
         Mutant("it does not wrap", "(+ (- v a) modulus)", "(- v a)")),
        World({}, 0, 5),
    ),
    Statement(
        "a_difference_gives_its_vector_back",
        "Adding a difference to its subtrahend, modulo the number of patterns, gives its minuend.",
        "(declare-const modulus Int)(declare-const v Int)(declare-const a Int)(declare-const d Int)",
        ("(< 0 modulus)", "(<= 0 v)", "(< v modulus)", "(<= 0 a)", "(< a modulus)",
         "(= d (ite (<= a v) (- v a) (+ (- v a) modulus)))"),
        "(= v (mod (+ a d) modulus))",
        (Mutant("the sum does not wrap", "(= v (mod (+ a d) modulus))", "(= v (+ a d))"),
         Mutant("the difference does not wrap", "(ite (<= a v) (- v a) (+ (- v a) modulus))",
                "(ite (<= a v) (- v a) (- a v))"),
         Mutant("a vector that is not a pattern", "(assume (< v modulus))", "")),
        World({}, 0, 5),
    ),
    Statement(
        "a_rounded_difference_is_within_half_a_step",
        "The nearest multiple of the step is within half a step.",
        "(declare-const step Int)(declare-const y Int)(declare-const q Int)",
        ("(<= 1 step)", "(= q (div (+ (* 2 y) step) (* 2 step)))"),
        "(and (<= (* 2 (- (* step q) y)) step) (<= (* 2 (- y (* step q))) step))",
        (Mutant("rounded down", "(+ (* 2 y) step)", "(* 2 y)"),
         Mutant("a quarter of a step", "(<= (* 2 (- y (* step q))) step)", "(<= (* 4 (- y (* step q))) step)")),
        World({}, 0, 6),
    ),
)  # fmt: skip

_AT = "(+ length 1)"
_READS_ON = (
    f"""(set (back {_AT}) (sum (back length) (exact' {_AT}))) (set (near {_AT}) (+ (near length) (rounded' {_AT})))"""
)
_DIFFERENCE, _CLOSED_LOOP = "(difference v (vector length))", "(nearest (- v (near length)))"
_RECORDS = ("vector", "exact", "rounded", "back", "near")
_STAYS = "\n".join(
    f"(any {r}') (forall ((i Int)) (=> (and (<= 1 i) (<= i synced)) (= ({r}' i) ({r} i))))" for r in _RECORDS
)

_CONSTANT = (
    "(define-fun modulus () Int 1)(define-fun step () Int 0)(define-fun nearest ((y Int)) Int y)"
    "(define-fun difference ((v Int) (a Int)) Int 0)(define-fun sum ((a Int) (d Int)) Int 0)"
) + "".join(f"(define-fun {name} ((i Int)) Int 0)" for record in _RECORDS for name in (record, f"{record}{NEXT}"))
"""A case in which every vector is 0, the only pattern."""

MACHINE = Machine(
    "delta_encoding",
    "A reader gets every vector back exactly, or within half a step from rounded records, and synced records remain.",
    """
    (declare-const modulus Int)(declare-const step Int)
    (declare-fun difference (Int Int) Int)(declare-fun sum (Int Int) Int)(declare-fun nearest (Int) Int)""",
    """
    (vector (Int) Int) (exact (Int) Int) (rounded (Int) Int) (back (Int) Int) (near (Int) Int)
    (length () Int) (synced () Int)""",
    MachineRule(
        "Init",
        "Nothing is stored.",
        "(= length 0) (= synced 0)",
        (Mutant("a vector is stored that was never given", "(= length 0)", "(= length 1)"),),
    ),
    """
    (and (<= 0 synced) (<= synced length))
    ; Vectors are patterns, and so are the lossless records.
    (forall ((i Int)) (=> (and (<= 1 i) (<= i length))
      (and (<= 0 (vector i)) (< (vector i) modulus) (<= 0 (exact i)) (< (exact i) modulus))))
    ; A reader begins with the first record, and continues from the vector that it has.
    (=> (<= 1 length) (and (= (back 1) (exact 1)) (= (near 1) (rounded 1))))
    (forall ((i Int) (j Int)) (=> (and (<= 1 i) (= j (+ i 1)) (<= j length)) (= (back j) (sum (back i) (exact j)))))
    (forall ((i Int) (j Int)) (=> (and (<= 1 i) (= j (+ i 1)) (<= j length)) (= (near j) (+ (near i) (rounded j)))))
    ; Inv_4, the document's invertibility.
    (forall ((i Int)) (=> (and (<= 1 i) (<= i length)) (= (vector i) (back i))))
    ; ErrorIsBounded: half a step, however many vectors there are.
    (forall ((i Int)) (=> (and (<= 1 i) (<= i length))
      (and (<= (* 2 (- (near i) (vector i))) step) (<= (* 2 (- (vector i) (near i))) step))))""",
    (
        MachineRule(
            "Begin",
            "A first vector is stored unchanged in both modes.",
            f"""(any v Int) (<= 0 v) (< v modulus) (= length 0) (set length 1)
            {" ".join(f"(set ({name} 1) v)" for name in _RECORDS)}""",
            (Without("no pattern", "(< v modulus)"), Without("in place of another", "(= length 0)"),
             Mutant("rounded", "(set (rounded 1) v)", "(set (rounded 1) (nearest v))")),
        ),
        MachineRule(
            "Extend",
            "A vector is stored as its difference from the one before, and as the rounded difference from the vector"
            " that a reader reconstructs.",
            f"""(any v Int) (<= 0 v) (< v modulus) (<= 1 length) (set length {_AT}) (set (vector {_AT}) v)
            (set (exact {_AT}) {_DIFFERENCE}) (set (rounded {_AT}) {_CLOSED_LOOP}) {_READS_ON}""",
            (Mutant("from the first", _DIFFERENCE, "(difference v (vector 1))"),
             Without("does not wrap", "(= p (sum q (difference p q)))"),
             Mutant("open loop", _CLOSED_LOOP, "(nearest (- v (vector length)))"),
             Without("rounded more coarsely", "(<= (* 2 (- (nearest y) y)) step)")),
        ),
        MachineRule(
            "Sync",
            "The next record is synced.",
            "(< synced length) (set synced (+ synced 1))",
            (Without("one that is not stored", "(< synced length)"),),
        ),
        MachineRule(
            "Crash",
            "A crash cuts off the records that were not synced.",
            f"(set length synced) {_STAYS}",
            (Mutant("crash takes more", "(set length synced)", "(set length (- synced 1))"),
             Without("crash takes the records and leaves their number", "(= (exact' i) (exact i))")),
        ),
    ),
    World({}, 0, 3, _CONSTANT),
    assumed="""
    (<= 0 step)
    ; The conclusions of the second statement, for all patterns, and of the third, for all differences.
    (forall ((p Int) (q Int)) (=> (and (<= 0 p) (< p modulus) (<= 0 q) (< q modulus))
      (and (<= 0 (difference p q)) (< (difference p q) modulus) (= p (sum q (difference p q))))))
    (forall ((y Int)) (and (<= (* 2 (- (nearest y) y)) step) (<= (* 2 (- y (nearest y))) step)))""",
    step="""
    ; SyncedIsKept: what is safe stays as it is.
    (<= synced length')
    (forall ((i Int)) (=> (and (<= 1 i) (<= i synced))
      (and (= (exact' i) (exact i)) (= (rounded' i) (rounded i)) (= (vector' i) (vector i)))))""",
)  # fmt: skip
LEMMAS = (*ARITHMETIC, *MACHINE.lemmas())
