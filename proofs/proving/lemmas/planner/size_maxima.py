"""The largest size over an envelope: bounds of the parts give bounds of the whole, operation by operation.

Sizes are made of dimensions by sums, differences, products, quotients rounded down, the lesser and the greater. If each
part is between bounds over the envelope, the whole is between the bounds that these statements give. A bound that some
shape reaches is the maximum.

Tests: `tests/property/test_lemmas_are_of_the_code.py`.
spec: V4.9, V4.11
"""

from __future__ import annotations

from proofs.proving.lemmas.engine.statements import Mutant, Statement

_PARTS = """
(declare-const a Int)(declare-const low_a Int)(declare-const high_a Int)
(declare-const b Int)(declare-const low_b Int)(declare-const high_b Int)
"""
_BOUNDED = ("(<= low_a a)", "(<= a high_a)", "(<= low_b b)", "(<= b high_b)")

LEMMAS = (
    Statement(
        "a_sum_is_largest_where_both_parts_are",
        "A sum is between the sum of the least and the sum of the greatest values of its parts.",
        _PARTS, _BOUNDED, "(and (<= (+ low_a low_b) (+ a b)) (<= (+ a b) (+ high_a high_b)))",
        (Mutant("one part is not bounded", "(assume (<= b high_b))", ""),),
    ),
    Statement(
        "a_difference_is_largest_where_what_is_taken_is_least",
        "A difference is at most the greatest value of its first part less the least of its second: such sizes"
        " are largest"
        " at small dimensions.",
        _PARTS, _BOUNDED, "(and (<= (- low_a high_b) (- a b)) (<= (- a b) (- high_a low_b)))",
        (Mutant("taken at the upper end of both", "(<= (- a b) (- high_a low_b))", "(<= (- a b) (- high_a high_b))"),),
    ),
    Statement(
        "a_product_of_sizes_is_largest_where_both_are",
        "A product of parts that are not negative is between the products of their bounds.",
        _PARTS, ("(<= 0 low_a)", "(<= 0 low_b)", *_BOUNDED),
        "(and (<= (* low_a low_b) (* a b)) (<= (* a b) (* high_a high_b)))",
        (Mutant("a part may be negative", "(assume (<= 0 low_b))", ""),),
    ),
    Statement(
        "a_quotient_is_largest_where_what_is_divided_is",
        "A quotient rounded down, with a constant divisor of at least one, is between the quotients of the bounds.",
        _PARTS + "(declare-const by Int)", ("(<= 1 by)", "(<= low_a a)", "(<= a high_a)"),
        "(and (<= (div low_a by) (div a by)) (<= (div a by) (div high_a by)))",
        (Mutant("divided by a negative number", "(<= 1 by)", "(<= by (- 1))"),),
    ),
    Statement(
        "the_lesser_and_the_greater_are_largest_where_both_parts_are",
        "The lesser of two parts is at most the lesser of their bounds, and the greater at most the greater.",
        "(define-fun lesser ((x Int) (y Int)) Int (ite (<= x y) x y))"
        "(define-fun greater ((x Int) (y Int)) Int (ite (<= x y) y x))" + _PARTS, _BOUNDED,
        "(and (<= (lesser low_a low_b) (lesser a b)) (<= (lesser a b) (lesser high_a high_b))"
        " (<= (greater low_a low_b) (greater a b)) (<= (greater a b) (greater high_a high_b)))",
        (Mutant("the lesser of another bound", "(lesser high_a high_b)", "(lesser low_a high_b)"),),
    ),
)  # fmt: skip
