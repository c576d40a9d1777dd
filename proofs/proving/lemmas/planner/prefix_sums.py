"""Prefix sums: slots placed one behind the other, each rounded up to its alignment, pass `layout`.

`placed` is the planner's rule (001, MapToVirtualAddresses), which a test evaluates too. If slots pass `layout`, no byte
is in two of them, every slot is aligned, and the last ends at the footprint.

Tests: `tests/property/test_lemmas_are_of_the_code.py`.
spec: A1.1, A1.2, A3.1, V1.1, V1.2, V4.9, V4.11
"""

from __future__ import annotations

from proofs.proving.lemmas import plan
from proofs.proving.lemmas.engine.induction import Lemma
from proofs.proving.lemmas.engine.statements import Mutant
from proofs.proving.lemmas.planner.align_up import ALIGN_UP

DEFINITIONS = f"""{plan.TEXT}
; What is asked of the slots of one arena, in the order of their numbers.
(declare-datatypes ((Requests 0)) (((no_requests) (request (room Int) (strictness Int) (next_requests Requests)))))
{ALIGN_UP}
(define-fun-rec all_valid ((requests Requests)) Bool
  (ite ((_ is no_requests) requests) true
    (and (<= 1 (room requests)) (<= 1 (strictness requests)) (all_valid (next_requests requests)))))
(define-fun-rec placed ((cursor Int) (requests Requests)) Slots
  (ite ((_ is no_requests) requests) no_slots
    (slot (align_up cursor (strictness requests)) (room requests) (strictness requests)
      (placed (+ (align_up cursor (strictness requests)) (room requests)) (next_requests requests)))))
(define-fun-rec footprint ((cursor Int) (requests Requests)) Int
  (ite ((_ is no_requests) requests) cursor
    (footprint (+ (align_up cursor (strictness requests)) (room requests)) (next_requests requests))))
"""

_START = "(align_up cursor its_strictness)"
_AFTER = {"cursor": f"(+ {_START} its_room)"}
_PLACED = {"cursor": "Int", "requests": "Requests"}
_RESULT = {"end": "(footprint cursor requests)", "slots": "(placed cursor requests)"}

LEMMAS = (
    Lemma(
        "rounding_up_goes_up_to_a_multiple",
        "Rounding up gives a multiple of the alignment at or after the offset.",
        {"cursor": "Int", "strict": "Int"},
        "(=> (<= 1 strict) (and (<= cursor (align_up cursor strict)) (= 0 (mod (align_up cursor strict) strict))))",
        mutants=(Mutant("rounds down", "(+ offset alignment (- 1))", "offset"),
                 Mutant("any alignment", "(=> (<= 1 strict)", "(=> true")),
    ),
    Lemma(
        "prefix_sums_pass_layout",
        "Slots placed by prefix sums pass `layout`, from where they began to the footprint.",
        _PLACED,
        "(=> (all_valid requests) (layout cursor (footprint cursor requests) (placed cursor requests)))",
        over="requests",
        hypotheses=(_AFTER,),
        using=(("rounding_up_goes_up_to_a_multiple", {"strict": "its_strictness"}),),
        mutants=(Mutant("the cursor omits the size",
                        "(placed (+ (align_up cursor (strictness requests)) (room requests))",
                        "(placed (align_up cursor (strictness requests))"),
                 Mutant("rounded down", "(+ offset alignment (- 1))", "offset"),
                 Mutant("slots of no size", "(<= 1 (room requests))", "true")),
    ),
    Lemma(
        "prefix_sums_are_apart",
        "No two slots placed by prefix sums have a byte in common, each is aligned and ends within the footprint.",
        _PLACED,
        "(=> (all_valid requests) (and (apart_in_bytes (placed cursor requests))"
        " (all_end_by (footprint cursor requests) (placed cursor requests))))",
        using=(("prefix_sums_pass_layout", {}), ("slots_are_apart_in_bytes", _RESULT), ("slots_end_in_time", _RESULT)),
        mutants=(Mutant("the cursor omits the size",
                        "(placed (+ (align_up cursor (strictness requests)) (room requests))",
                        "(placed (align_up cursor (strictness requests))"),
                 Mutant("the footprint omits the last size",
                        "(footprint (+ (align_up cursor (strictness requests)) (room requests))",
                        "(footprint (align_up cursor (strictness requests))")),
    ),
)  # fmt: skip
