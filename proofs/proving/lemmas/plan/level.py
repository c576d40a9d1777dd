"""Prove that a running total that passes `level` never exceeds its ceiling and ends as stated.

Tests: `tests/unit/test_recursion.py`.
spec: V5.1, T6.4, V4.3
"""

from __future__ import annotations

from proofs.proving.lemmas.engine.induction import Lemma
from proofs.proving.lemmas.engine.statements import Mutant
from proofs.proving.lemmas.plan.chains import BLOCK

_LEVEL = {
    "since": "Int", "before": "Int", "until": "Int", "after": "Int", "ceiling": "Int", "changes": "Changes",
}  # fmt: skip
_LEVEL_OK = "(level since before until after ceiling changes)"
_AFTER_CHANGE = {"since": "its_at", "before": "(+ before its_amount)"}

_CELLS = range(1, BLOCK + 1)
_BLOCK = {
    **dict.fromkeys(("since", "before", "until", "after", "ceiling"), "Int"),
    **{f"{name}_{k}": "Int" for name in ("at", "born", "freed") for k in _CELLS},
}
_NOT_NEGATIVE = " ".join(f"(<= 0 born_{k}) (<= 0 freed_{k})" for k in _CELLS)
_LISTED = f"{' '.join(f'(change at_{k} (- born_{k} freed_{k})' for k in _CELLS)} no_changes{')' * BLOCK}"

LEMMAS = (
    Lemma(
        "nothing_changes_before",
        "If a list passes `level`, its changes up to any step before its start add up to 0.",
        {**_LEVEL, "step": "Int"},
        f"(=> (and (< step since) {_LEVEL_OK}) (= 0 (total_until step changes)))",
        over="changes",
        hypotheses=(_AFTER_CHANGE,),
        mutants=(Mutant("changes out of order", "(<= since (at changes))", "true"),),
    ),
    Lemma(
        "level_stays_below_the_ceiling",
        "If a list passes `level` and starts with a total of at most its ceiling, that total plus all changes up to"
        " any step is at most the ceiling.",
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
        "If a list passes `level`, its initial total plus its changes up to its last step, or to a later one, is the"
        " total that it states; and it does not end before it starts.",
        {**_LEVEL, "step": "Int"},
        f"(=> (and (<= until step) {_LEVEL_OK})"
        " (and (<= since until) (= after (+ before (total_until step changes)))))",
        over="changes",
        hypotheses=(_AFTER_CHANGE,),
        mutants=(Mutant("any total", "(= before after)", "true"),),
    ),
    Lemma(
        "levels_join",
        "If two lists of changes pass `level`, the second from where the first ended, they pass it as one list.",
        {**_LEVEL, "between": "Int", "reached": "Int", "more": "Changes"},
        "(=> (and (level since before between reached ceiling changes)"
        " (level between reached until after ceiling more))"
        " (level since before until after ceiling (join_changes changes more)))",
        over="changes",
        hypotheses=(_AFTER_CHANGE,),
        mutants=(Mutant("any total", "(= before after)", "true"),),
    ),
    Lemma(
        "level_in_block_is_enough",
        f"A block of {BLOCK} changes, each of bytes born and freed, that passes `level_in_block` also passes `level` as"
        " a list.",
        _BLOCK,
        f"(=> (and {_NOT_NEGATIVE} (level_in_block {' '.join(_BLOCK)}))"
        f" (level since before until after ceiling {_LISTED}))",
        mutants=(
            Mutant("all is freed first", "(+ ceiling freed_1)", "(+ ceiling freed_1 freed_2)"),
            Mutant("changes out of order", "(<= since at_1 at_2", "(<= since at_1) (<= at_2"),
            Mutant("a birth forgotten", "(<= (+ before born_1", "(<= (+ before"),
            Mutant("any total", "(= (+ before born_1", "(<= (+ before born_1"),
        ),
    ),
)
