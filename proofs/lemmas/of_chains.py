"""What follows from a chain that holds: the lemmas that carry the rows of a plan to its properties.

Each is proved for all lists and all integers, in the order in which it stands here; a lemma may use those before it.
Together they say: a plan whose slots pass `tenancy` and whose arenas pass `layout` has no byte in two storages that
live at one step; whose changes pass `level` never exceeds its peak; whose contents pass `holding` reads what was
written. spec: V1.1, V1.5, V4.3, V5.1, T6.4
"""

from __future__ import annotations

from proofs.lemmas.induction import Lemma

_TENANCY = {"since": "Int", "until": "Int", "start": "Int", "size": "Int", "tenants": "Tenants"}
_TENANCY_OK = "(tenancy since until start size tenants)"
_AFTER_FIRST = {"since": "its_death"}

TENANCY = (
    Lemma(
        "tenants_come_later",
        "Every storage of a slot that passes `tenancy` is born after the step from which the slot is free.",
        {**_TENANCY, "step": "Int"},
        f"(=> (and (<= step since) {_TENANCY_OK}) (all_born_after step tenants))",
        over="tenants",
        hypotheses=(_AFTER_FIRST,),
    ),
    Lemma(
        "tenants_are_apart_in_time",
        "No two storages of a slot that passes `tenancy` are live at one step.",
        _TENANCY,
        f"(=> {_TENANCY_OK} (apart_in_time tenants))",
        over="tenants",
        hypotheses=(_AFTER_FIRST,),
        using=(("tenants_come_later", {"step": "its_death", "since": "its_death", "tenants": "rest_of_list"}),),
    ),
    Lemma(
        "tenants_fit",
        "Every storage of a slot that passes `tenancy` lies within the slot, at a multiple of its alignment.",
        _TENANCY,
        f"(=> {_TENANCY_OK} (all_fit start size tenants))",
        over="tenants",
        hypotheses=(_AFTER_FIRST,),
    ),
    Lemma(
        "nothing_lives_before_its_turn",
        "No storage of a slot that passes `tenancy` is live up to the step from which the slot is free.",
        {**_TENANCY, "step": "Int"},
        f"(=> (and (<= step since) {_TENANCY_OK}) (= 0 (live_at step tenants)))",
        over="tenants",
        hypotheses=(_AFTER_FIRST,),
    ),
    Lemma(
        "at_most_one_tenant",
        "At most one storage of a slot that passes `tenancy` is live at any step: slots are at least the most live.",
        {**_TENANCY, "step": "Int"},
        f"(=> {_TENANCY_OK} (<= (live_at step tenants) 1))",
        over="tenants",
        hypotheses=(_AFTER_FIRST,),
        using=(("nothing_lives_before_its_turn", {"since": "its_death", "tenants": "rest_of_list"}),),
    ),
    Lemma(
        "tenancies_join",
        "Two lists of storages that pass `tenancy`, the second from where the first ended, pass it as one.",
        {**_TENANCY, "between": "Int", "more": "Tenants"},
        "(=> (and (tenancy since between start size tenants) (tenancy between until start size more))"
        " (tenancy since until start size (join_tenants tenants more)))",
        over="tenants",
        hypotheses=(_AFTER_FIRST,),
    ),
)

_LAYOUT = {"cursor": "Int", "end": "Int", "slots": "Slots"}
_LAYOUT_OK = "(layout cursor end slots)"
_FIRST_END = "(+ its_slot_offset its_slot_bytes)"
_AFTER_SLOT = {"cursor": _FIRST_END}

LAYOUT = (
    Lemma(
        "slots_start_later",
        "Every slot of an arena that passes `layout` starts at or after the byte from which the arena is free.",
        {**_LAYOUT, "byte": "Int"},
        f"(=> (and (<= byte cursor) {_LAYOUT_OK}) (all_start_from byte slots))",
        over="slots",
        hypotheses=(_AFTER_SLOT,),
    ),
    Lemma(
        "slots_are_apart_in_bytes",
        "No two slots of an arena that passes `layout` have a byte in common.",
        _LAYOUT,
        f"(=> {_LAYOUT_OK} (apart_in_bytes slots))",
        over="slots",
        hypotheses=(_AFTER_SLOT,),
        using=(("slots_start_later", {"byte": _FIRST_END, "cursor": _FIRST_END, "slots": "rest_of_list"}),),
    ),
    Lemma(
        "layout_goes_up",
        "The end that `layout` reaches is at or after the byte from which it started.",
        _LAYOUT,
        f"(=> {_LAYOUT_OK} (<= cursor end))",
        over="slots",
        hypotheses=(_AFTER_SLOT,),
    ),
    Lemma(
        "slots_end_in_time",
        "Every slot of an arena that passes `layout` is aligned and ends at or before the end that it reaches.",
        _LAYOUT,
        f"(=> {_LAYOUT_OK} (all_end_by end slots))",
        over="slots",
        hypotheses=(_AFTER_SLOT,),
        using=(("layout_goes_up", {**_AFTER_SLOT, "slots": "rest_of_list"}),),
    ),
    Lemma(
        "layouts_join",
        "Two lists of slots that pass `layout`, the second from where the first ended, pass it as one.",
        {**_LAYOUT, "between": "Int", "more": "Slots"},
        "(=> (and (layout cursor between slots) (layout between end more))"
        " (layout cursor end (join_slots slots more)))",
        over="slots",
        hypotheses=(_AFTER_SLOT,),
    ),
    Lemma(
        "storages_of_two_slots_are_apart",
        "Storages that fit into two slots without a common byte have no byte in common.",
        dict.fromkeys(("first", "size", "second", "extent", "one", "length", "other", "width"), "Int"),
        "(=> (and (<= (+ first size) second) (<= first one) (<= (+ one length) (+ first size))"
        " (<= second other) (<= (+ other width) (+ second extent)))"
        " (<= (+ one length) other))",
    ),
)

_LEVEL = {
    "since": "Int", "before": "Int", "until": "Int", "after": "Int", "ceiling": "Int", "changes": "Changes",
}  # fmt: skip
_LEVEL_OK = "(level since before until after ceiling changes)"
_AFTER_CHANGE = {"since": "its_at", "before": "(+ before its_amount)"}

LEVEL = (
    Lemma(
        "nothing_changes_before",
        "Nothing is allocated or freed before the step at which a list that passes `level` starts.",
        {**_LEVEL, "step": "Int"},
        f"(=> (and (< step since) {_LEVEL_OK}) (= 0 (total_until step changes)))",
        over="changes",
        hypotheses=(_AFTER_CHANGE,),
    ),
    Lemma(
        "level_stays_below_the_ceiling",
        "At every step the total of all changes up to it is at most the ceiling of a list that passes `level`.",
        {**_LEVEL, "step": "Int"},
        f"(=> (and (<= before ceiling) {_LEVEL_OK}) (<= (+ before (total_until step changes)) ceiling))",
        over="changes",
        hypotheses=(_AFTER_CHANGE,),
        using=(("nothing_changes_before", {**_AFTER_CHANGE, "changes": "rest_of_list"}),),
    ),
    Lemma(
        "level_reaches_its_end",
        "From its last step on, the total of all changes of a list that passes `level` is what it states.",
        {**_LEVEL, "step": "Int"},
        f"(=> (and (<= until step) {_LEVEL_OK})"
        " (and (<= since until) (= after (+ before (total_until step changes)))))",
        over="changes",
        hypotheses=(_AFTER_CHANGE,),
    ),
    Lemma(
        "levels_join",
        "Two lists of changes that pass `level`, the second from where the first ended, pass it as one.",
        {**_LEVEL, "between": "Int", "reached": "Int", "more": "Changes"},
        "(=> (and (level since before between reached ceiling changes)"
        " (level between reached until after ceiling more))"
        " (level since before until after ceiling (join_changes changes more)))",
        over="changes",
        hypotheses=(_AFTER_CHANGE,),
    ),
)

_HOLDING = {"made": "Int", "busy": "Int", "made_last": "Int", "busy_last": "Int", "contents": "Contents"}
_HOLDING_OK = "(holding made busy made_last busy_last contents)"
_AFTER_CONTENT = {"made": "its_written", "busy": "its_last_read"}

HOLDING = (
    Lemma(
        "later_contents_do_not_disturb",
        "Every content of bytes that pass `holding` is written after what was there, and not while that is to be read.",
        {**_HOLDING, "from": "Int", "to": "Int"},
        f"(=> (and (<= from made) (<= to busy) (<= made busy) {_HOLDING_OK}) (none_disturbs from to contents))",
        over="contents",
        hypotheses=(_AFTER_CONTENT,),
    ),
    Lemma(
        "every_content_is_kept",
        "In bytes that pass `holding` each content is read only after its write, and no other is written until its last"
        " read, but for one that replaces it in that very step.",
        _HOLDING,
        f"(=> (and (<= made busy) {_HOLDING_OK}) (each_kept contents))",
        over="contents",
        hypotheses=(_AFTER_CONTENT,),
        using=(
            (
                "later_contents_do_not_disturb",
                {**_AFTER_CONTENT, "from": "its_written", "to": "its_last_read", "contents": "rest_of_list"},
            ),
        ),
    ),
    Lemma(
        "holdings_join",
        "Two lists of contents that pass `holding`, the second from where the first ended, pass it as one.",
        {**_HOLDING, "made_between": "Int", "busy_between": "Int", "more": "Contents"},
        "(=> (and (holding made busy made_between busy_between contents)"
        " (holding made_between busy_between made_last busy_last more))"
        " (holding made busy made_last busy_last (join_contents contents more)))",
        over="contents",
        hypotheses=(_AFTER_CONTENT,),
    ),
)

_TILING = {"since": "Int", "until": "Int", "edges": "Edges"}
_TILING_OK = "(tiling since until edges)"
_AFTER_EDGE = {"since": "its_last_step"}

TILING = (
    Lemma(
        "no_edge_comes_too_early",
        "A list of edges that passes `tiling` has none up to the step after which it starts, and ends no earlier.",
        {**_TILING, "step": "Int"},
        f"(=> {_TILING_OK} (and (<= since until) (=> (<= step since) (= 0 (edges_at step edges)))))",
        over="edges",
        hypotheses=(_AFTER_EDGE,),
    ),
    Lemma(
        "one_edge_at_each_step",
        "A list of edges that passes `tiling` has exactly one edge at each step of its storage.",
        {**_TILING, "step": "Int"},
        f"(=> (and (< since step) (<= step until) {_TILING_OK}) (= 1 (edges_at step edges)))",
        over="edges",
        hypotheses=(_AFTER_EDGE,),
        using=(("no_edge_comes_too_early", {**_AFTER_EDGE, "edges": "rest_of_list"}),),
    ),
    Lemma(
        "no_edge_at_another_step",
        "A list of edges that passes `tiling` has no edge at a step at which its storage is not live.",
        {**_TILING, "step": "Int"},
        f"(=> (and (or (<= step since) (< until step)) {_TILING_OK}) (= 0 (edges_at step edges)))",
        over="edges",
        hypotheses=(_AFTER_EDGE,),
        using=(("no_edge_comes_too_early", {**_AFTER_EDGE, "edges": "rest_of_list"}),),
    ),
    Lemma(
        "tilings_join",
        "Two lists of edges that pass `tiling`, the second from where the first ended, pass it as one.",
        {**_TILING, "between": "Int", "more": "Edges"},
        "(=> (and (tiling since between edges) (tiling between until more))"
        " (tiling since until (join_edges edges more)))",
        over="edges",
        hypotheses=(_AFTER_EDGE,),
    ),
)

# At one step. `tall` and `long` stand for how far an induction on addresses has to go: there are lists of any length.
_COLUMN_OK = "(each_rests_alone column) (each_is_stacked column column)"
_LOW_ONE, _LOW_OTHER = "(low_of one column)", "(low_of other column)"
_UNDER_ONE, _UNDER_OTHER = "(below_of one column)", "(below_of other column)"
_IN_REACH = f"(<= (- 1) {_LOW_ONE}) (<= (- 1) {_LOW_OTHER}) (< (+ {_LOW_ONE} {_LOW_OTHER} 2) (size_of tall))"
_TWO = {"column": "Column", "one": "Int", "other": "Int"}


def _stacked(*which: str) -> tuple[tuple[str, dict[str, str]], ...]:
    """What is known of each of some storages, live or not."""
    facts = [("what_is_live_is_stacked", {"some": "column", "one": term}) for term in which]
    return (*facts, *(("what_is_not_live_has_no_byte", {"one": term}) for term in which))


COLUMN = (
    Lemma(
        "what_rests_elsewhere_does_not_rest_here",
        "Where no storage rests on a given one, that is not what any live storage rests on.",
        {"column": "Column", "which": "Int", "one": "Int"},
        "(=> (and (none_rests_on which column) (is_live one column)) (distinct which (below_of one column)))",
        over="column",
    ),
    Lemma(
        "one_storage_rests_on_each",
        "Where each storage of a column rests alone, two that rest on the same one are the same.",
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
    ),
    Lemma(
        "what_is_live_is_stacked",
        "Each live storage of a stacked column rests on the floor or on a live storage, whose end is not above it.",
        {"some": "Column", "column": "Column", "one": "Int"},
        "(=> (and (each_is_stacked some column) (is_live one some))"
        " (and (<= 1 one) (or (= 0 (below_of one some)) (is_live (below_of one some) column))"
        " (stacked (high_of (below_of one some) column) (low_of one some) (high_of one some))))",
        over="some",
    ),
    Lemma(
        "what_is_not_live_has_no_byte",
        "What is not live in a column counts as the floor, which lies below byte 0.",
        {"column": "Column", "one": "Int"},
        "(=> (not (is_live one column))"
        " (and (= 0 (below_of one column)) (= (low_of one column) (- 1)) (= 0 (high_of one column))))",
        over="column",
    ),
    Lemma(
        "nothing_lies_between_neighbours",
        "In a stacked column where each storage rests alone, no two begin at one byte, and none begins between another"
        " and what that rests on.",
        {**_TWO, "tall": "Column"},
        f"(=> (and {_COLUMN_OK} (or (= 0 one) (is_live one column)) (or (= 0 other) (is_live other column))"
        f" (distinct one other) {_IN_REACH})"
        f" (and (distinct {_LOW_ONE} {_LOW_OTHER})"
        f" (=> (< {_LOW_OTHER} {_LOW_ONE}) (<= {_LOW_OTHER} (low_of {_UNDER_ONE} column)))"
        f" (=> (< {_LOW_ONE} {_LOW_OTHER}) (<= {_LOW_ONE} (low_of {_UNDER_OTHER} column)))))",
        over="tall",
        hypotheses=({"one": _UNDER_ONE}, {"other": _UNDER_OTHER}, {"one": _UNDER_ONE, "other": _UNDER_OTHER}),
        using=(*_stacked("one", "other", _UNDER_ONE, _UNDER_OTHER), ("one_storage_rests_on_each", {})),
    ),
    Lemma(
        "what_begins_below_ends_below",
        "In such a column a storage that begins below another ends at or below the byte where that begins.",
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
    ),
    Lemma(
        "live_storages_are_apart_in_bytes",
        "Two storages of a stacked column where each rests alone have no byte in common.",
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
    ),
)

LEMMAS: tuple[Lemma, ...] = (*TENANCY, *LAYOUT, *LEVEL, *HOLDING, *TILING, *COLUMN)
"""In the order in which they are proved."""
