"""Prove the clique bound: storages that are all live at one step need a slot each.

A list of storages states what every assignment of slots must satisfy. That there cannot be fewer slots is the
pigeonhole principle, by induction on their number. `tall` represents that number: there are lists of every length.

Tests: `tests/property/test_lemmas_are_of_the_code.py`.
spec: T6.4, V5.1, V4.9, V4.11
"""

from __future__ import annotations

from proofs.proving.lemmas.engine.induction import Lemma
from proofs.proving.lemmas.engine.statements import Mutant

DEFINITIONS = """
; Numbers of slots, one for each storage.
(declare-datatypes ((Numbers 0)) (((no_numbers) (number (value Int) (next_numbers Numbers)))))
(define-fun-rec how_many ((numbers Numbers)) Int
  (ite ((_ is no_numbers) numbers) 0 (+ 1 (how_many (next_numbers numbers)))))
(define-fun-rec occurs ((which Int) (numbers Numbers)) Bool
  (ite ((_ is no_numbers) numbers) false (or (= which (value numbers)) (occurs which (next_numbers numbers)))))
(define-fun-rec all_different ((numbers Numbers)) Bool
  (ite ((_ is no_numbers) numbers) true
    (and (not (occurs (value numbers) (next_numbers numbers))) (all_different (next_numbers numbers)))))
(define-fun-rec all_below ((bound Int) (numbers Numbers)) Bool
  (ite ((_ is no_numbers) numbers) true
    (and (<= 0 (value numbers)) (< (value numbers) bound) (all_below bound (next_numbers numbers)))))
(define-fun-rec without ((which Int) (numbers Numbers)) Numbers
  (ite ((_ is no_numbers) numbers) no_numbers
    (ite (= which (value numbers)) (without which (next_numbers numbers))
      (number (value numbers) (without which (next_numbers numbers))))))

; Storages with the slots that an assignment gives them: two that meet must have different ones.
(declare-datatypes ((Storages 0)) (((no_storages) (storage
  (first_live Int) (last_live Int) (slot_held Int) (next_storages Storages)))))
(define-fun-rec all_live_at ((step Int) (storages Storages)) Bool
  (ite ((_ is no_storages) storages) true
    (and (<= (first_live storages) step) (<= step (last_live storages)) (all_live_at step (next_storages storages)))))
(define-fun-rec none_meets ((from Int) (to Int) (slot Int) (storages Storages)) Bool
  (ite ((_ is no_storages) storages) true
    (and (or (distinct slot (slot_held storages)) (< to (first_live storages)) (< (last_live storages) from))
         (none_meets from to slot (next_storages storages)))))
(define-fun-rec well_assigned ((storages Storages)) Bool
  (ite ((_ is no_storages) storages) true
    (and (none_meets (first_live storages) (last_live storages) (slot_held storages) (next_storages storages))
         (well_assigned (next_storages storages)))))
(define-fun-rec slots_of ((storages Storages)) Numbers
  (ite ((_ is no_storages) storages) no_numbers (number (slot_held storages) (slots_of (next_storages storages)))))
"""
"""The definitions as SMT-LIB, accepted by `proofs.proving.smt.descent`.

A test evaluates `well_assigned` on the planner's assignments.
"""

_NUMBERS = {"which": "Int", "numbers": "Numbers"}
_REST = {"numbers": "rest_of_list"}
_TALLEST = "(how_many rest_of_list)"

LEMMAS = (
    Lemma(
        "removing_a_number_brings_no_other_in",
        "A number that does not occur in a list does not occur in it after another was removed.",
        {**_NUMBERS, "other": "Int"},
        "(=> (not (occurs other numbers)) (not (occurs other (without which numbers))))",
        over="numbers",
        mutants=(Mutant("the removed number is put in", "(number (value numbers) (without which",
                        "(number which (without which"),
                 Mutant("it occurs", "(=> (not (occurs other numbers))", "(=> (occurs other numbers)")),
    ),
    Lemma(
        "numbers_stay_different",
        "Numbers that are all different still are after one was removed.",
        _NUMBERS,
        "(=> (all_different numbers) (all_different (without which numbers)))",
        over="numbers",
        using=(("removing_a_number_brings_no_other_in", {**_REST, "other": "its_value"}),),
        mutants=(Mutant("they need not be", "(=> (all_different numbers) (all", "(=> (all_below which numbers) (all"),),
    ),
    Lemma(
        "what_does_not_occur_cannot_be_removed",
        "Removing a number that does not occur leaves the count unchanged.",
        _NUMBERS,
        "(=> (not (occurs which numbers)) (= (how_many (without which numbers)) (how_many numbers)))",
        over="numbers",
        mutants=(Mutant("it occurs", "(=> (not (occurs which numbers)) (=", "(=> (occurs which numbers) (="),),
    ),
    Lemma(
        "removing_a_number_removes_at_most_one",
        "Removing one of numbers that are all different leaves at most one fewer.",
        _NUMBERS,
        "(=> (all_different numbers) (<= (how_many numbers) (+ 1 (how_many (without which numbers)))))",
        over="numbers",
        using=(("what_does_not_occur_cannot_be_removed", _REST),),
        mutants=(Mutant("numbers may be equal", "(not (occurs (value numbers) (next_numbers numbers)))", "true"),
                 Mutant("it removes none", "(+ 1 (how_many (without", "(+ 0 (how_many (without")),
    ),
    Lemma(
        "without_the_largest_all_are_smaller",
        "Numbers below a bound, without the bound less one, are below the bound less one.",
        {"bound": "Int", "numbers": "Numbers"},
        "(=> (all_below bound numbers) (all_below (- bound 1) (without (- bound 1) numbers)))",
        over="numbers",
        mutants=(Mutant("the bound may occur", "(< (value numbers) bound)", "(<= (value numbers) bound)"),
                 Mutant("another is removed", "(without (- bound 1) numbers)))", "(without bound numbers)))")),
    ),
    Lemma(
        "different_numbers_below_a_bound_are_at_most_as_many",
        "There are at most n different numbers from 0 up to, and not including, n: the pigeonhole principle.",
        {"tall": "Numbers", "numbers": "Numbers"},
        "(=> (and (all_different numbers) (all_below (how_many tall) numbers)) (<= (how_many numbers) (how_many"
        " tall)))",
        over="tall",
        hypotheses=({"numbers": f"(without {_TALLEST} numbers)"},),
        using=(
            ("numbers_stay_different", {"which": _TALLEST}),
            ("removing_a_number_removes_at_most_one", {"which": _TALLEST}),
            ("without_the_largest_all_are_smaller", {"bound": f"(+ 1 {_TALLEST})"}),
        ),
        mutants=(Mutant("numbers may be equal", "(not (occurs (value numbers) (next_numbers numbers)))", "true"),
                 Mutant("the bound may occur", "(< (value numbers) bound)", "(<= (value numbers) bound)"),
                 Mutant("negative numbers", "(<= 0 (value numbers))", "(<= (- 1) (value numbers))")),
    ),
    Lemma(
        "storages_that_meet_a_storage_have_other_slots",
        "If no storage of a list has the slot of one that it overlaps in time, and all are live at a step of that one,"
        " the slot does not occur among theirs.",
        {"from": "Int", "to": "Int", "held": "Int", "step": "Int", "storages": "Storages"},
        "(=> (and (<= from step) (<= step to) (all_live_at step storages) (none_meets from to held storages))"
        " (not (occurs held (slots_of storages))))",
        over="storages",
        mutants=(Mutant("not live at that step", "(<= step (last_live storages))", "true"),),
    ),
    Lemma(
        "storages_live_at_one_step_have_different_slots",
        "Well-assigned storages that are all live at one step have slots that are all different.",
        {"step": "Int", "storages": "Storages"},
        "(=> (and (all_live_at step storages) (well_assigned storages)) (all_different (slots_of storages)))",
        over="storages",
        using=(
            ("storages_that_meet_a_storage_have_other_slots",
             {"from": "its_first_live", "to": "its_last_live", "held": "its_slot_held", "storages": "rest_of_list"}),
        ),
        mutants=(Mutant("lifetimes without their death", "(< to (first_live storages))",
                        "(<= to (first_live storages))"),
                 Mutant("not live at that step", "(<= step (last_live storages))", "true")),
    ),
    Lemma(
        "no_assignment_has_fewer_slots_than_are_live",
        "If storages are all live at one step, no valid assignment gives them fewer slots than there are storages.",
        {"step": "Int", "storages": "Storages", "tall": "Numbers"},
        "(=> (and (all_live_at step storages) (well_assigned storages) (all_below (how_many tall) (slots_of storages)))"
        " (<= (how_many (slots_of storages)) (how_many tall)))",
        using=(
            ("storages_live_at_one_step_have_different_slots", {}),
            ("different_numbers_below_a_bound_are_at_most_as_many", {"numbers": "(slots_of storages)"}),
        ),
        mutants=(Mutant("storages that are not live together",
                        "(and (all_live_at step storages) (well_assigned storages) (all_below",
                        "(and (well_assigned storages) (all_below"),
                 Mutant("storages that meet may share a slot",
                        "(=> (and (all_live_at step storages) (well_assigned storages) (all_below",
                        "(=> (and (all_live_at step storages) (all_below")),
    ),
)  # fmt: skip
