"""Prove that the slots of one arena follow one behind the other if they pass `layout`.

Tests: `tests/unit/test_recursion.py`.
spec: V1.1, V1.3, V4.3
"""

from __future__ import annotations

from proofs.proving.lemmas.engine.induction import Lemma
from proofs.proving.lemmas.engine.statements import Mutant

_LAYOUT = {"cursor": "Int", "end": "Int", "slots": "Slots"}
_LAYOUT_OK = "(layout cursor end slots)"
_FIRST_END = "(+ its_slot_offset its_slot_bytes)"
_AFTER_SLOT = {"cursor": _FIRST_END}

LEMMAS = (
    Lemma(
        "slots_start_later",
        "Every slot of an arena that passes `layout` starts at or after the first free byte of the arena.",
        {**_LAYOUT, "byte": "Int"},
        f"(=> (and (<= byte cursor) {_LAYOUT_OK}) (all_start_from byte slots))",
        over="slots",
        hypotheses=(_AFTER_SLOT,),
        mutants=(Mutant("slots at any offset", "(<= cursor (slot_offset slots))", "true"),),
    ),
    Lemma(
        "slots_are_apart_in_bytes",
        "No two slots of an arena that passes `layout` have a byte in common.",
        _LAYOUT,
        f"(=> {_LAYOUT_OK} (apart_in_bytes slots))",
        over="slots",
        hypotheses=(_AFTER_SLOT,),
        using=(("slots_start_later", {"byte": _FIRST_END, "cursor": _FIRST_END, "slots": "rest_of_list"}),),
        mutants=(
            Mutant(
                "size forgotten", "(layout (+ (slot_offset slots) (slot_bytes slots))", "(layout (slot_offset slots)"
            ),
        ),
    ),
    Lemma(
        "layout_goes_up",
        "The end that `layout` reaches is at or after the byte that it started from.",
        _LAYOUT,
        f"(=> {_LAYOUT_OK} (<= cursor end))",
        over="slots",
        hypotheses=(_AFTER_SLOT,),
        mutants=(Mutant("any end of an arena", "(= cursor end)", "true"),),
    ),
    Lemma(
        "slots_end_in_time",
        "Every slot of an arena that passes `layout` is aligned and ends at or before the end that it reaches.",
        _LAYOUT,
        f"(=> {_LAYOUT_OK} (all_end_by end slots))",
        over="slots",
        hypotheses=(_AFTER_SLOT,),
        using=(("layout_goes_up", {**_AFTER_SLOT, "slots": "rest_of_list"}),),
        mutants=(
            Mutant(
                "slots misaligned",
                "(= 0 (mod (slot_offset slots) (slot_alignment slots)))\n         (lay",
                "true\n         (lay",
            ),
            Mutant("any end of an arena", "(= cursor end)", "true"),
        ),
    ),
    Lemma(
        "layouts_join",
        "If two lists of slots pass `layout`, the second from where the first ended, they pass it as one list.",
        {**_LAYOUT, "between": "Int", "more": "Slots"},
        "(=> (and (layout cursor between slots) (layout between end more))"
        " (layout cursor end (join_slots slots more)))",
        over="slots",
        hypotheses=(_AFTER_SLOT,),
        mutants=(Mutant("any end of an arena", "(= cursor end)", "true"),),
    ),
    Lemma(
        "storages_of_two_slots_are_apart",
        "Storages that fit into two slots without a common byte have no byte in common.",
        dict.fromkeys(("first", "size", "second", "extent", "one", "length", "other", "width"), "Int"),
        "(=> (and (<= (+ first size) second) (<= first one) (<= (+ one length) (+ first size))"
        " (<= second other) (<= (+ other width) (+ second extent)))"
        " (<= (+ one length) other))",
        mutants=(
            Mutant("slots overlap by one byte", "(<= (+ first size) second)", "(<= (+ first size) (+ second 1))"),
            Mutant("a storage larger than its slot", "(<= (+ one length) (+ first size))", "true"),
        ),
    ),
)
