"""Does a tie between a lemma and the code notice a change of one side alone? A copy of it is changed in one place.

spec: V4.11
"""

from __future__ import annotations

import pytest
from hypothesis import Phase, find, settings

from tests.support import ties
from tests.support.tie_table import TIES, Change, Tie

CHANGED = [
    pytest.param(tie, change, id=f"{tie.lemma}-{tie.code.__name__}-{change.side}-{k}")
    for tie in TIES
    for k, change in enumerate(tie.changes)
]


@pytest.mark.parametrize(("tie", "change"), CHANGED)
def test_a_change_of_one_side_alone_is_noticed(tie: Tie, change: Change) -> None:
    """spec: V4.11"""
    texts, code = dict(tie.texts), tie.code
    if change.side == "code":
        code = ties.copied(tie.code, change.old, change.new)
    else:
        assert texts[change.of].count(change.old) == 1
        texts[change.of] = texts[change.of].replace(change.old, change.new)
    quick = settings(max_examples=2000, database=None, derandomize=True, phases=[Phase.generate])
    shown = find(tie.examples, lambda example: tie.disagreement(texts, code, example) is not None, settings=quick)
    assert tie.disagreement(tie.texts, tie.code, shown) is None
