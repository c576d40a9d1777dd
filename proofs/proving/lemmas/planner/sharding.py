"""Sharding: each index of a dimension is in exactly one of its parts, which have equal size, the last one padded.

`part` is the size of a part. Rank r holds the indices from r·part up to, and not including, (r + 1)·part.

Tests: `tests/property/test_lemmas_are_of_the_code.py`.
spec: V4.9, V4.11
"""

from __future__ import annotations

from proofs.proving.lemmas.engine.statements import Mutant, Statement

PART = "(define-fun part ((size Int) (ranks Int)) Int (ite (<= 1 ranks) (div (+ size ranks (- 1)) ranks) 0))"
"""The size of a part: the quotient, rounded up because dimensions that do not divide are padded; 0 without ranks."""

_DIMENSION = """
(declare-const size Int)(declare-const ranks Int)(declare-const width Int)
(declare-const index Int)(declare-const rank Int)(declare-const other Int)
"""


def _holds(rank: str) -> str:
    """Return the formula that the rank's part has the index."""
    return f"(and (<= (* {rank} width) index) (< index (+ (* {rank} width) width)))"


LEMMAS = (
    Statement(
        "parts_are_large_enough",
        "Parts of the size rounded up together hold the dimension, and parts of a smaller size do not.",
        f"{PART}{_DIMENSION}", ("(<= 1 ranks)", "(<= 0 size)"),
        "(and (<= size (* ranks (part size ranks))) (< (* ranks (part size ranks)) (+ size ranks)))",
        (Mutant("rounded down", "(+ size ranks (- 1))", "size"),
         Mutant("no rank", "(assume (<= 1 ranks))", "")),
    ),
    Statement(
        "each_index_has_a_rank",
        "The part whose number is the index divided by the size of a part holds the index, and it is one of the"
        " ranks'.",
        _DIMENSION,
        ("(<= 1 width)", "(<= 0 index)", "(< index size)", "(<= size (* ranks width))", "(= rank (div index width))"),
        f"(and {_holds('rank')} (<= 0 rank) (< rank ranks))",
        (Mutant("numbered from one", "(= rank (div index width))", "(= rank (+ 1 (div index width)))"),
         Mutant("the parts are too small together", "(assume (<= size (* ranks width)))", "")),
    ),
    Statement(
        "a_rank_beyond_the_last_holds_nothing",
        "A rank beyond the last holds no index of the dimension.",
        _DIMENSION,
        ("(<= 1 width)", "(< index size)", "(<= size (* ranks width))", "(<= 0 (- rank ranks))"),
        f"(not {_holds('rank')})",
        (Mutant("the parts are too small together", "(assume (<= size (* ranks width)))", ""),),
    ),
    Statement(
        "no_index_has_two_ranks",
        "Two different ranks hold no index in common.",
        _DIMENSION,
        ("(<= 1 width)", "(< rank other)"),
        f"(not (and {_holds('rank')} {_holds('other')}))",
        (Mutant("parts overlap by one", "(< index (+ (* rank width) width))", "(<= index (+ (* rank width) width))"),
         Mutant("a rank beside itself", "(< rank other)", "(<= rank other)")),
    ),
)  # fmt: skip
