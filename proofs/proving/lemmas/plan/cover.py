"""Prove that equal chunks that reach the end of a dimension hold each of its elements exactly once.

A rank's part ends, as the plan states it, at the end of the dimension. `proofs/sharding/cover.py` evaluates `is_chunk`
on such parts and has these lemmas proved each time.

Tests: `tests/unit/test_sharding_holes.py`.
spec: V4.3, R7.24, R7.25
"""

from __future__ import annotations

from proofs.proving.lemmas.engine.statements import Mutant, Statement

DEFINITIONS = """
(define-fun cut ((n Int) (chunk Int) (place Int)) Int (ite (< (* chunk place) n) (* chunk place) n))
(define-fun holds ((n Int) (chunk Int) (place Int) (element Int)) Bool
  (and (<= (cut n chunk place) element) (< element (cut n chunk (+ place 1)))))
(define-fun is_chunk ((n Int) (places Int) (chunk Int) (place Int) (start Int) (held Int)) Bool
  (and (<= n (* chunk places)) (<= 0 place) (< place places)
       (= start (cut n chunk place)) (= (+ start held) (cut n chunk (+ place 1)))))
"""
"""A rank's chunk of a dimension of `n` elements. The same text is proved about and evaluated on plans."""

_CHUNKS = DEFINITIONS + "".join(f"(declare-const {x} Int)" for x in ("n", "places", "chunk", "element", "one", "other"))
# The first follows from the others. It says that the chunk, which is divided by, is not 0.
_GIVEN = ("(<= 1 chunk)", "(<= 1 places)", "(<= n (* chunk places))", "(<= 0 element)", "(< element n)")

STATEMENTS = (
    Statement(
        "each_element_is_held",
        "In equal chunks that reach the end of a dimension, the place whose number is the element's index divided by"
        " the chunk holds the element, and it is one of the axis.",
        _CHUNKS, _GIVEN,
        "(let ((place (div element chunk))) (and (<= 0 place) (< place places) (holds n chunk place element)))",
        (Mutant("a chunk begins one later", "(<= (cut n chunk place) element)", "(< (cut n chunk place) element)"),
         Mutant("the last element is left out", "(* chunk place) n))", "(* chunk place) (- n 1)))"),
         Mutant("chunks that do not reach", "(assume (<= n (* chunk places)))", "")),
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
