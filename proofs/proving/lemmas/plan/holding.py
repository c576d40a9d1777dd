"""Prove that reads find what was written, if the contents of the same bytes, one after the other, pass `holding`.

Tests: `tests/unit/test_recursion.py`.
spec: V1.5, T3.1, V4.3
"""

from __future__ import annotations

from proofs.proving.lemmas.engine.induction import Lemma
from proofs.proving.lemmas.engine.statements import Mutant

_HOLDING = {"made": "Int", "busy": "Int", "made_last": "Int", "busy_last": "Int", "contents": "Contents"}
_HOLDING_OK = "(holding made busy made_last busy_last contents)"
_AFTER_CONTENT = {"made": "its_written", "busy": "its_last_read"}

LEMMAS = (
    Lemma(
        "later_contents_do_not_disturb",
        "If bytes pass `holding` and hold a content whose last read is not before its write, every later content is"
        " written after that write and after that read, or in the step of that read if it may replace what it reads.",
        {**_HOLDING, "from": "Int", "to": "Int"},
        f"(=> (and (<= from made) (<= to busy) (<= made busy) {_HOLDING_OK}) (none_disturbs from to contents))",
        over="contents",
        hypotheses=(_AFTER_CONTENT,),
        mutants=(
            Mutant("overwritten before it is read", "(or (< busy (written contents))", "(or true"),
            Mutant("replaced without permission", "(and (replaces contents) (= busy", "(and (= busy"),
            Mutant("two writes at one step", "(< made (written contents))", "true"),
        ),
    ),
    Lemma(
        "every_content_is_kept",
        "If bytes pass `holding` and hold a content whose last read is not before its write, each later content is"
        " read only after its write, and no content after it is written until its last read, except one that replaces"
        " it in that step.",
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
        mutants=(
            Mutant("read before its write", "(< (written contents) (first_read contents)) (<=", "true (<="),
            Mutant("overwritten before it is read", "(or (< busy (written contents))", "(or true"),
        ),
    ),
    Lemma(
        "holdings_join",
        "If two lists of contents pass `holding`, the second from where the first ended, they pass it as one list.",
        {**_HOLDING, "made_between": "Int", "busy_between": "Int", "more": "Contents"},
        "(=> (and (holding made busy made_between busy_between contents)"
        " (holding made_between busy_between made_last busy_last more))"
        " (holding made busy made_last busy_last (join_contents contents more)))",
        over="contents",
        hypotheses=(_AFTER_CONTENT,),
        mutants=(Mutant("any end", "(and (= made made_last) (= busy busy_last))", "true"),),
    ),
)
