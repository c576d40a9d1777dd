"""What verdicts rest on: lists that solvers walk on the data of a plan, and what follows from them.

`chains` are the functions that are evaluated on plans, `properties` what they mean for each pair of cells; the files of
lemmas are the way from the one to the other. `clique_bound` is why slots cannot be fewer than storages live at one
step, `merged` is why one row may ask what several would, `cover` and `shrinking` what verdicts on ranks and envelopes
rest on. `at_use` proves all of them when they are first needed. spec: V4.3, V4.8
"""

from __future__ import annotations

from proofs.proving.lemmas.engine.induction import Lemma
from proofs.proving.lemmas.engine.statements import Statement
from proofs.proving.lemmas.plan import (
    chains,
    clique_bound,
    column,
    cover,
    holding,
    layout,
    level,
    merged,
    properties,
    shrinking,
    tenancy,
    tiling,
    unfolded,
)

TEXT = chains.DEFINITIONS + properties.PROPERTIES + clique_bound.DEFINITIONS
"""All definitions of the lemmas about lists; the first part is what is evaluated on plans."""
LISTS: tuple[Lemma, ...] = (
    *tenancy.LEMMAS,
    *layout.LEMMAS,
    *level.LEMMAS,
    *holding.LEMMAS,
    *tiling.LEMMAS,
    *column.LEMMAS,
    *clique_bound.LEMMAS,
    *unfolded.LEMMAS,
)
"""The lemmas about lists, in the order in which they are proved."""
STATEMENTS: tuple[Statement, ...] = (*merged.STATEMENTS, *cover.STATEMENTS, *shrinking.STATEMENTS)
"""Those without lists."""
