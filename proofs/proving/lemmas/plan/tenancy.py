"""Prove that the storages of one slot take turns in it, and fit, if they pass `tenancy`.

Tests: `tests/unit/test_recursion.py`.
spec: V1.1, V1.2, T6.4, V5.1, V4.3
"""

from __future__ import annotations

from proofs.proving.lemmas.engine.induction import Lemma
from proofs.proving.lemmas.engine.statements import Mutant

_TENANCY = {"since": "Int", "until": "Int", "start": "Int", "size": "Int", "tenants": "Tenants"}
_TENANCY_OK = "(tenancy since until start size tenants)"
_AFTER_FIRST = {"since": "its_death"}

LEMMAS = (
    Lemma(
        "tenants_come_later",
        "Every storage of a slot that passes `tenancy` is born after the step that ended the slot's earlier use.",
        {**_TENANCY, "step": "Int"},
        f"(=> (and (<= step since) {_TENANCY_OK}) (all_born_after step tenants))",
        over="tenants",
        hypotheses=(_AFTER_FIRST,),
        mutants=(Mutant("two storages at one step", "(< since (birth tenants))", "(<= since (birth tenants))"),),
    ),
    Lemma(
        "tenants_are_apart_in_time",
        "No two storages of a slot that passes `tenancy` are live at one step.",
        _TENANCY,
        f"(=> {_TENANCY_OK} (apart_in_time tenants))",
        over="tenants",
        hypotheses=(_AFTER_FIRST,),
        using=(("tenants_come_later", {"step": "its_death", "since": "its_death", "tenants": "rest_of_list"}),),
        mutants=(
            Mutant(
                "death before birth",
                "(<= (birth tenants) (death tenants))\n         (= start",
                "true\n         (= start",
            ),
            Mutant("two storages at one step", "(< since (birth tenants))", "(<= since (birth tenants))"),
        ),
    ),
    Lemma(
        "tenants_fit",
        "Every storage of a slot that passes `tenancy` is within the slot, at a multiple of its alignment.",
        _TENANCY,
        f"(=> {_TENANCY_OK} (all_fit start size tenants))",
        over="tenants",
        hypotheses=(_AFTER_FIRST,),
        mutants=(
            Mutant("another offset", "(= start (offset tenants))", "true"),
            Mutant("one byte too many", "(<= (bytes tenants) size)", "(<= (bytes tenants) (+ 1 size))"),
            Mutant("any alignment", "(= 0 (mod start (alignment tenants)))", "true"),
        ),
    ),
    Lemma(
        "nothing_lives_before_its_turn",
        "No storage of a slot that passes `tenancy` is live up to the step that ended the slot's earlier use.",
        {**_TENANCY, "step": "Int"},
        f"(=> (and (<= step since) {_TENANCY_OK}) (= 0 (live_at step tenants)))",
        over="tenants",
        hypotheses=(_AFTER_FIRST,),
        mutants=(Mutant("two storages at one step", "(< since (birth tenants))", "(<= since (birth tenants))"),),
    ),
    Lemma(
        "at_most_one_tenant",
        "At most one storage of a slot that passes `tenancy` is live at any step: there are at least max live slots.",
        {**_TENANCY, "step": "Int"},
        f"(=> {_TENANCY_OK} (<= (live_at step tenants) 1))",
        over="tenants",
        hypotheses=(_AFTER_FIRST,),
        using=(("nothing_lives_before_its_turn", {"since": "its_death", "tenants": "rest_of_list"}),),
        mutants=(
            Mutant("time forgotten", "(tenancy (death tenants)", "(tenancy since"),
            Mutant("two storages at one step", "(< since (birth tenants))", "(<= since (birth tenants))"),
        ),
    ),
    Lemma(
        "tenancies_join",
        "If two lists of storages pass `tenancy`, the second from where the first ended, they pass it as one list.",
        {**_TENANCY, "between": "Int", "more": "Tenants"},
        "(=> (and (tenancy since between start size tenants) (tenancy between until start size more))"
        " (tenancy since until start size (join_tenants tenants more)))",
        over="tenants",
        hypotheses=(_AFTER_FIRST,),
        mutants=(Mutant("any end of a slot's turn", "vacant) tenants) (= since until)", "vacant) tenants) true"),),
    ),
)
