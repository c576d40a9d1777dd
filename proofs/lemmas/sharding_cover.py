"""Sharding: cut into parts of equal size, the last one padded, each index of a dimension lies in exactly one part.

`part` is the size of a part and rank r holds the indices from r·part up to, and not including, (r + 1)·part. What a
plan states that a rank holds ends where the dimension does: a chunk is a part without its padding.

Tests: `tests/property/test_lemmas_are_of_the_code.py`.
spec: V4.9, V4.11
"""

from __future__ import annotations

from proofs.lemmas.statements import Mutant, Statement

PART = "(define-fun part ((size Int) (ranks Int)) Int (div (+ size ranks (- 1)) ranks))"
"""The size of a part where dimensions that do not divide are padded; a quotient where they do."""

_DIMENSION = """
(declare-const size Int)(declare-const ranks Int)(declare-const width Int)
(declare-const index Int)(declare-const rank Int)(declare-const other Int)
"""


def _holds(rank: str) -> str:
    """The rank's part has the index."""
    return f"(and (<= (* {rank} width) index) (< index (+ (* {rank} width) width)))"


DEFINITIONS = """
(define-fun cut ((n Int) (chunk Int) (place Int)) Int (ite (< (* chunk place) n) (* chunk place) n))
(define-fun holds ((n Int) (chunk Int) (place Int) (element Int)) Bool
  (and (<= (cut n chunk place) element) (< element (cut n chunk (+ place 1)))))
(define-fun is_chunk ((n Int) (places Int) (chunk Int) (place Int) (start Int) (held Int)) Bool
  (and (<= n (* chunk places)) (<= 0 place) (< place places)
       (= start (cut n chunk place)) (= (+ start held) (cut n chunk (+ place 1)))))
"""
"""What a rank's chunk of a dimension of `n` elements is; the same text is proved about and evaluated on plans."""

_CHUNKS = DEFINITIONS + "".join(f"(declare-const {x} Int)" for x in ("n", "places", "chunk", "element", "one", "other"))
_GIVEN = ("(<= 1 places)", "(<= n (* chunk places))", "(<= 0 element)", "(< element n)")

OF_COVER = (
    Statement(
        "each_element_is_held",
        "In equal chunks that reach the end of a dimension, the place whose number is the element's index divided by"
        " the chunk holds the element, and it is one of the axis.",
        _CHUNKS, _GIVEN,
        "(let ((place (div element chunk))) (and (<= 0 place) (< place places) (holds n chunk place element)))",
        (Mutant("a chunk begins one later", "(<= (cut n chunk place) element)", "(< (cut n chunk place) element)"),
         Mutant("the last element is left out", "(* chunk place) n))", "(* chunk place) (- n 1)))"),
         Mutant("chunks that do not reach", "(assume (<= n (* chunk places)))", "(assume (<= 1 chunk))")),
    ),
    Statement(
        "no_element_is_held_twice",
        "Two different places of an axis hold no element in common.",
        _CHUNKS, (*_GIVEN, "(<= 0 one)", "(< one other)", "(< other places)"),
        "(not (and (holds n chunk one element) (holds n chunk other element)))",
        (Mutant("a chunk ends one later", "(< element (cut n chunk (+ place 1)))",
                "(<= element (cut n chunk (+ place 1)))"),
         Mutant("a place beside itself", "(< one other)", "(<= one other)")),
    ),
)  # fmt: skip
"""What a verdict on all ranks rests on, each time proved again: `proofs/sharding/cover.py` evaluates `is_chunk`."""

STATEMENTS = (
    *OF_COVER,
    Statement(
        "parts_are_large_enough",
        "Parts of the size rounded up hold the dimension between them, and no smaller size would.",
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
