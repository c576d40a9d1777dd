"""Prove that no two storages of a stacked column share a byte: at one step, each live storage rests on another.

Tests: `tests/unit/test_recursion.py`.
spec: V1.12, V1.1, V4.3
"""

from __future__ import annotations

from proofs.proving.lemmas.engine.induction import Lemma
from proofs.proving.lemmas.engine.statements import Mutant

# At one step. `tall` and `long` bound the inductions on addresses, because there are lists of any length.
_COLUMN_OK = "(each_rests_alone column) (each_is_stacked column column)"
_LOW_ONE, _LOW_OTHER = "(low_of one column)", "(low_of other column)"
_UNDER_ONE, _UNDER_OTHER = "(below_of one column)", "(below_of other column)"
_IN_REACH = f"(<= (- 1) {_LOW_ONE}) (<= (- 1) {_LOW_OTHER}) (< (+ {_LOW_ONE} {_LOW_OTHER} 2) (size_of tall))"
_TWO = {"column": "Column", "one": "Int", "other": "Int"}


def _stacked(*which: str) -> tuple[tuple[str, dict[str, str]], ...]:
    """Return what is known of each of some storages, live or not."""
    facts = [("what_is_live_is_stacked", {"some": "column", "one": term}) for term in which]
    return (*facts, *(("what_is_not_live_has_no_byte", {"one": term}) for term in which))


LEMMAS = (
    Lemma(
        "what_rests_elsewhere_does_not_rest_here",
        "If no storage rests on a given one, then that is not what any live storage rests on.",
        {"column": "Column", "which": "Int", "one": "Int"},
        "(=> (and (none_rests_on which column) (is_live one column)) (distinct which (below_of one column)))",
        over="column",
        mutants=(
            Mutant(
                "something can rest on it",
                "(and (distinct which (rests_on column)) (none_rests_on",
                "(and true (none_rests_on",
            ),
        ),
    ),
    Lemma(
        "one_storage_rests_on_each",
        "If each storage of a column rests alone, two that rest on the same one are the same.",
        _TWO,
        "(=> (and (each_rests_alone column) (is_live one column) (is_live other column)"
        f" (= {_UNDER_ONE} {_UNDER_OTHER})) (= one other))",
        over="column",
        using=tuple(
            (
                "what_rests_elsewhere_does_not_rest_here",
                {"which": "its_rests_on", "column": "rest_of_list", "one": term},
            )
            for term in ("one", "other")
        ),
        mutants=(
            Mutant(
                "two storages can rest on one", "(and (none_rests_on (rests_on column) (others column))", "(and true"
            ),
        ),
    ),
    Lemma(
        "what_is_live_is_stacked",
        "Each live storage of a stacked column rests on the floor or on a live storage, whose end is not above it.",
        {"some": "Column", "column": "Column", "one": "Int"},
        "(=> (and (each_is_stacked some column) (is_live one some))"
        " (and (<= 1 one) (or (= 0 (below_of one some)) (is_live (below_of one some) column))"
        " (stacked (high_of (below_of one some) column) (low_of one some) (high_of one some))))",
        over="some",
        mutants=(
            Mutant(
                "a storage can rest on what is dead",
                "(or (= 0 (rests_on some)) (is_live (rests_on some) column))",
                "true",
            ),
        ),
    ),
    Lemma(
        "what_is_not_live_has_no_byte",
        "A storage that is not live in a column counts as the floor, which is below byte 0.",
        {"column": "Column", "one": "Int"},
        "(=> (not (is_live one column))"
        " (and (= 0 (below_of one column)) (= (low_of one column) (- 1)) (= 0 (high_of one column))))",
        over="column",
        mutants=(
            Mutant(
                "the floor ends at byte 1",
                "((_ is nothing_live) column) 0 (ite (= which (itself column)) (high",
                "((_ is nothing_live) column) 1 (ite (= which (itself column)) (high",
            ),
        ),
    ),
    Lemma(
        "nothing_lies_between_neighbours",
        "If each storage of a stacked column rests alone, no two begin at one byte, and none begins between another"
        " and the one that it rests on.",
        {**_TWO, "tall": "Column"},
        f"(=> (and {_COLUMN_OK} (or (= 0 one) (is_live one column)) (or (= 0 other) (is_live other column))"
        f" (distinct one other) {_IN_REACH})"
        f" (and (distinct {_LOW_ONE} {_LOW_OTHER})"
        f" (=> (< {_LOW_OTHER} {_LOW_ONE}) (<= {_LOW_OTHER} (low_of {_UNDER_ONE} column)))"
        f" (=> (< {_LOW_ONE} {_LOW_OTHER}) (<= {_LOW_ONE} (low_of {_UNDER_OTHER} column)))))",
        over="tall",
        hypotheses=({"one": _UNDER_ONE}, {"other": _UNDER_OTHER}, {"one": _UNDER_ONE, "other": _UNDER_OTHER}),
        using=(*_stacked("one", "other", _UNDER_ONE, _UNDER_OTHER), ("one_storage_rests_on_each", {})),
        mutants=(
            Mutant(
                "two storages can rest on one", "(and (none_rests_on (rests_on column) (others column))", "(and true"
            ),
            Mutant("a storage may have no byte", "(< offset_above end_above)", "(<= offset_above end_above)"),
        ),
    ),
    Lemma(
        "what_begins_below_ends_below",
        "In such a column, a storage that begins below another ends at or below the beginning of the other.",
        {**_TWO, "tall": "Column", "long": "Column"},
        f"(=> (and {_COLUMN_OK} (or (= 0 one) (is_live one column)) (is_live other column)"
        f" {_IN_REACH} (< {_LOW_ONE} (size_of long)) (< {_LOW_OTHER} {_LOW_ONE}))"
        f" (<= (high_of other column) {_LOW_ONE}))",
        over="long",
        hypotheses=({"one": _UNDER_ONE},),
        using=(
            *_stacked("one", "other", _UNDER_ONE),
            ("nothing_lies_between_neighbours", {}),
            ("nothing_lies_between_neighbours", {"one": _UNDER_ONE}),
        ),
        mutants=(
            Mutant(
                "neighbours may have a byte in common",
                "(<= end_below offset_above)",
                "(<= end_below (+ offset_above 1))",
            ),
        ),
    ),
    Lemma(
        "live_storages_are_apart_in_bytes",
        "If each storage of a stacked column rests alone, no two have a byte in common.",
        {**_TWO, "tall": "Column", "long": "Column"},
        f"(=> (and {_COLUMN_OK} (is_live one column) (is_live other column) (distinct one other)"
        f" (< (+ {_LOW_ONE} {_LOW_OTHER} 2) (size_of tall)) (< (+ {_LOW_ONE} {_LOW_OTHER}) (size_of long)))"
        f" (or (<= (high_of one column) {_LOW_OTHER}) (<= (high_of other column) {_LOW_ONE})))",
        using=(
            *_stacked("one", "other"),
            ("nothing_lies_between_neighbours", {}),
            ("what_begins_below_ends_below", {}),
            ("what_begins_below_ends_below", {"one": "other", "other": "one"}),
        ),
        mutants=(
            Mutant(
                "neighbours may have a byte in common",
                "(<= end_below offset_above)",
                "(<= end_below (+ offset_above 1))",
            ),
            Mutant(
                "two storages can rest on one", "(and (none_rests_on (rests_on column) (others column))", "(and true"
            ),
        ),
    ),
)
