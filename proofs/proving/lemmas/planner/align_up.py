"""Rounding an address up to an alignment: the planner's `align_up`, and when its result exceeds 64 bits.

The lemmas are about integers, which the code computes with, and about words of 64 bits, which accelerators' runtimes
use. For words, the true value is a word of 66 bits, which nothing overflows.

Tests: `tests/property/test_lemmas_are_of_the_code.py`.
spec: A1.1, A1.3, V1.2, V4.9, V4.11
"""

from __future__ import annotations

from proofs.proving.lemmas.engine.statements import Mutant, Statement

ALIGN_UP = (
    "(define-fun align_up ((offset Int) (alignment Int)) Int (ite (<= 1 alignment)"
    " (* alignment (div (+ offset alignment (- 1)) alignment)) offset))"
)
"""The planner's function. A test evaluates both. No alignment is less than 1; the planner has no value there."""

_INTEGERS = f"{ALIGN_UP}(declare-const offset Int)(declare-const alignment Int)"
_VALID = ("(<= 1 alignment)",)

_WORDS = """
(declare-const offset (_ BitVec 64))(declare-const alignment (_ BitVec 64))(declare-const multiple (_ BitVec 64))
(define-fun wide ((word (_ BitVec 64))) (_ BitVec 66) ((_ zero_extend 2) word))
(define-fun one () (_ BitVec 64) (_ bv1 64))
(define-fun power_of_two ((word (_ BitVec 64))) Bool
  (and (distinct word (_ bv0 64)) (= (bvand word (bvsub word one)) (_ bv0 64))))
(define-fun low () (_ BitVec 64) (bvsub alignment one))
(define-fun sum () (_ BitVec 64) (bvadd offset low))
(define-fun rounded () (_ BitVec 64) (bvand sum (bvnot low)))
(define-fun truth () (_ BitVec 66) (bvand (bvadd (wide offset) (wide low)) (bvnot (wide low))))
(define-fun end_of_words () (_ BitVec 66) (bvshl (_ bv1 66) (_ bv64 66)))
(define-fun carry () Bool (bvult sum offset))
"""
_POWER = ("(power_of_two alignment)",)

LEMMAS = (
    Statement(
        "align_up_goes_up_by_less_than_the_alignment",
        "Rounding up gives a byte at or after the offset, and less than one alignment after it.",
        _INTEGERS, _VALID,
        "(and (<= offset (align_up offset alignment)) (< (align_up offset alignment) (+ offset alignment)))",
        (Mutant("rounds down", "(+ offset alignment (- 1))", "offset"),
         Mutant("one byte too far", "(+ offset alignment (- 1))", "(+ offset alignment)"),
         Mutant("any alignment", "(assume (<= 1 alignment))", "(assume true)")),
    ),
    Statement(
        "align_up_gives_a_multiple",
        "Rounding up gives a multiple of the alignment.",
        _INTEGERS, _VALID, "(= 0 (mod (align_up offset alignment) alignment))",
        (Mutant("adds and does not round", "(* alignment (div (+ offset alignment (- 1)) alignment))",
                "(+ offset alignment (- 1))"),),
    ),
    Statement(
        "align_up_takes_the_quotient",
        "The quotient that align_up multiplies by the alignment gives the last multiple that is at most the offset"
        " plus all but one byte of an alignment.",
        _INTEGERS, _VALID,
        "(and (<= (align_up offset alignment) (+ offset alignment (- 1)))"
        " (< (+ offset alignment (- 1)) (+ (align_up offset alignment) alignment)))",
        (Mutant("any alignment", "(assume (<= 1 alignment))", "(assume true)"),),
    ),
    Statement(
        "align_up_gives_the_least_multiple",
        "No multiple of the alignment is between the offset and the result of rounding up.",
        f"{_INTEGERS}(declare-const factor Int)(define-fun multiple () Int (* factor alignment))",
        (*_VALID, "(<= offset multiple)"),
        "(<= (align_up offset alignment) multiple)",
        (Mutant("compared with what is not a multiple", "(* factor alignment)", "(+ factor alignment)"),
         Mutant("compared with a multiple before the offset", "(assume (<= offset multiple))", ""),
         Mutant("one byte too far", "(+ offset alignment (- 1))", "(+ offset alignment)")),
    ),
    Statement(
        "words_round_up_as_integers_do",
        "In words of 64 bits, rounding up by a mask gives the true value if the addition does not carry out.",
        _WORDS, (*_POWER, "(not carry)"), "(= (wide rounded) truth)",
        (Mutant("the carry is not looked at", "(assume (not carry))", "(assume true)"),
         Mutant("the mask is the alignment", "(bvnot low)))\n(define-fun truth",
                "(bvnot alignment)))\n(define-fun truth")),
    ),
    Statement(
        "a_carry_is_an_overflow",
        "The addition carries out of 64 bits exactly if the true value, rounded up, is 2^64 or more.",
        _WORDS, (), "(= carry (bvuge truth end_of_words))",
        (Mutant("compared the wrong way", "(bvult sum offset)", "(bvule sum offset)"),
         Mutant("the mask is the alignment", "(bvadd offset low)", "(bvadd offset alignment)")),
    ),
    Statement(
        "an_overflow_can_be_foreseen",
        "The true value, rounded up, is 2^64 or more exactly if the offset exceeds the complement of the mask.",
        _WORDS, _POWER, "(= (bvugt offset (bvnot low)) (bvuge truth end_of_words))",
        (Mutant("one offset too many", "(bvugt offset (bvnot low))", "(bvuge offset (bvnot low))"),),
    ),
    Statement(
        "words_round_up_to_the_least_multiple",
        "The true value is at or after the offset, has the mask's bits clear, and no such word is between them.",
        _WORDS, (*_POWER, "(= (bvand multiple low) (_ bv0 64))", "(bvuge multiple offset)"),
        "(and (bvuge truth (wide offset)) (= (bvand truth (wide low)) (_ bv0 66)) (bvule truth (wide multiple)))",
        (Mutant("any word counts as a multiple", "(assume (= (bvand multiple low) (_ bv0 64)))", "(assume true)"),
         Mutant("any alignment", "(assume (power_of_two alignment))", "(assume true)")),
    ),
    Statement(
        "an_end_overflows_exactly_where_a_sum_carries",
        "An object placed at the offset rounded up ends at 2^64 or beyond exactly if one of the two sums carries: that"
        " of rounding up, or that of the size.",
        _WORDS + "(declare-const size (_ BitVec 64))(define-fun end () (_ BitVec 64) (bvadd rounded size))"
        "(define-fun reported () Bool (or carry (bvult end rounded)))",
        _POWER, "(= reported (bvuge (bvadd truth (wide size)) end_of_words))",
        (Mutant("only the sum of rounding up is looked at", "(or carry (bvult end rounded))", "carry"),
         Mutant("only the sum of the size is looked at", "(or carry (bvult end rounded))", "(bvult end rounded)"),
         Mutant("compared with the offset", "(bvult end rounded)", "(bvult end offset)")),
    ),
    Statement(
        "powers_of_two_are_the_single_bits",
        "A word is a power of two exactly if it is one of the 64 words with a single bit.",
        _WORDS, (),
        f"(= (power_of_two alignment) (or {' '.join(f'(= alignment (_ bv{1 << k} 64))' for k in range(64))}))",
        (Mutant("zero counts as one", "(distinct word (_ bv0 64))", "true"),),
    ),
    Statement(
        "clear_bits_are_no_remainder",
        "For each power of two, the bits below it are clear exactly if division by it leaves no remainder.",
        "(declare-const offset (_ BitVec 64))", (),
        "(and " + " ".join(
            f"(= (= (bvand offset (_ bv{(1 << k) - 1} 64)) (_ bv0 64)) (= (bvurem offset (_ bv{1 << k} 64)) (_"
            f" bv0 64)))"
            for k in range(64)
        ) + ")",
        (Mutant("one bit too many", "(bvand offset (_ bv7 64))", "(bvand offset (_ bv15 64))"),),
    ),
)  # fmt: skip
