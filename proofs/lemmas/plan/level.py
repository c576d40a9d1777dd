"""A running total: what passes `level` never exceeds its ceiling and ends as stated.

Tests: `tests/unit/test_recursion.py`.
spec: V5.1, T6.4, V4.3
"""

from __future__ import annotations

from proofs.lemmas.engine.induction import Lemma
from proofs.lemmas.engine.statements import Mutant

_LEVEL = {
    "since": "Int", "before": "Int", "until": "Int", "after": "Int", "ceiling": "Int", "changes": "Changes",
}  # fmt: skip
_LEVEL_OK = "(level since before until after ceiling changes)"
_AFTER_CHANGE = {"since": "its_at", "before": "(+ before its_amount)"}

LEMMAS = (
    Lemma(
        "nothing_changes_before",
        "Up to any step before the one at which a list that passes `level` starts, its changes are together 0.",
        {**_LEVEL, "step": "Int"},
        f"(=> (and (< step since) {_LEVEL_OK}) (= 0 (total_until step changes)))",
        over="changes",
        hypotheses=(_AFTER_CHANGE,),
        mutants=(Mutant("changes out of order", "(<= since (at changes))", "true"),),
    ),
    Lemma(
        "level_stays_below_the_ceiling",
        "Where a list that passes `level` starts with a total no greater than its ceiling, that total and all changes"
        " up to any step are together no greater.",
        {**_LEVEL, "step": "Int"},
        f"(=> (and (<= before ceiling) {_LEVEL_OK}) (<= (+ before (total_until step changes)) ceiling))",
        over="changes",
        hypotheses=(_AFTER_CHANGE,),
        using=(("nothing_changes_before", {**_AFTER_CHANGE, "changes": "rest_of_list"}),),
        mutants=(
            Mutant("above the ceiling", "(<= (+ before (amount changes)) ceiling)", "true"),
            Mutant("changes out of order", "(<= since (at changes))", "true"),
        ),
    ),
    Lemma(
        "level_reaches_its_end",
        "The total that a list that passes `level` starts with and its changes up to its last step, or to a later one,"
        " are together the total that it states; and it does not end before it starts.",
        {**_LEVEL, "step": "Int"},
        f"(=> (and (<= until step) {_LEVEL_OK})"
        " (and (<= since until) (= after (+ before (total_until step changes)))))",
        over="changes",
        hypotheses=(_AFTER_CHANGE,),
        mutants=(Mutant("any total", "(= before after)", "true"),),
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
        mutants=(Mutant("any total", "(= before after)", "true"),),
    ),
)
