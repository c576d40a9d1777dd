"""The lemmas behind the edges are those that the rows rest on. What else is asked of them, `prove-lemmas` asks.

spec: V1.12, V4.3
"""

from __future__ import annotations

from proofs.proving.lemmas import plan
from proofs.proving.lemmas.plan import column, tiling, unfolded
from proofs.proving.obligations.by_edges import LEMMAS as CARRYING


def test_every_lemma_that_the_rows_rest_on_is_one_of_the_lemmas() -> None:
    own = {lemma.name for lemma in (*tiling.LEMMAS, *column.LEMMAS, *unfolded.LEMMAS)}
    assert set(CARRYING) <= own <= {lemma.name for lemma in plan.LISTS}
