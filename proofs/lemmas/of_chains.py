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

LEMMAS: tuple[Lemma, ...] = (*TENANCY, *LAYOUT, *LEVEL, *HOLDING)
"""In the order in which they are proved."""
