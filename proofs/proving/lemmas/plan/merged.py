"""Prove that one row about a typical tensor means what several general rows mean.

Most tensors fill a storage, are born at the step that writes them, and are read by later steps. Their rows state each
number once where others would repeat it. The lemmas show that such a row means what the longer rows mean.

Tests: `tests/unit/test_obligations_rows.py`.
spec: V4.1, V4.3
"""

from __future__ import annotations

from proofs.proving.lemmas.engine.statements import Mutant, Statement

INSIDE = """
(define-fun inside ((window Int) (bytes Int) (storage_bytes Int)
                    (storage_birth Int) (birth Int) (death Int) (storage_death Int) (last Int)) Bool
  (and (<= (+ window bytes) storage_bytes) (<= storage_birth birth) (<= birth death) (<= death storage_death)
       (<= storage_death last)))
"""
WITHIN_STEPS = """
(define-fun within_steps ((birth Int) (death Int) (last Int)) Bool (and (<= birth death) (<= death last)))
"""
READS_AND_WRITES = """
(define-fun reads ((birth Int) (death Int) (writer Int) (first Int) (last Int)) Bool
  (and (<= birth first) (<= first last) (<= last death) (< writer first)))
(define-fun writes ((birth Int) (death Int) (writer Int) (step Int)) Bool
  (and (<= birth step) (<= step death) (= writer step)))
"""
USED = """
(define-fun used ((made Int) (dies Int) (first Int) (last Int)) Bool
  (and (< made first) (<= first last) (<= last dies)))
"""


def _integers(*names: str) -> str:
    return "".join(f"(declare-const {name} Int)" for name in names)


STATEMENTS = (
    Statement(
        "what_is_its_storage_lies_inside",
        "A tensor with the bytes, the birth and the death of its storage, from the first byte on, is within the"
        " storage; it is within the steps if its lifetime is.",
        INSIDE + WITHIN_STEPS + _integers("b", "d", "n", "z"),
        ("(within_steps b d n)",),
        "(inside 0 z z b b d d n)",
        (Mutant("another window", "(inside 0 z", "(inside 1 z"),
         Mutant("any death", "(<= birth death) (<= death last))", "(<= birth death) true)"),
         Mutant("any birth", "(and (<= birth death) (<= death last))", "(and true (<= death last))")),
    ),
    Statement(
        "what_is_used_is_written_and_read",
        "A tensor that is born when its one write makes it, and is `used` later, passes the rows of its write and of"
        " its reads.",
        READS_AND_WRITES + USED + _integers("b", "d", "f", "l"),
        ("(used b d f l)",),
        "(and (writes b d b b) (reads b d b f l))",
        (Mutant("read in the step that writes", "(< made first)", "(<= made first)"),
         Mutant("read after its death", "(<= last dies)", "true"),
         Mutant("the first read after the last", "(and (< made first) (<= first last)", "(and (< made first) true")),
    ),
)  # fmt: skip
