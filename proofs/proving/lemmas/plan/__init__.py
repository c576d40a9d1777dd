"""State what verdicts rest on: lists that solvers walk on the data of a plan, and what follows from them.

`chains` has the functions that are evaluated on plans, and `properties` states what they mean for each pair of cells.
The files of lemmas lead from the one to the other. `clique_bound` shows why there cannot be fewer slots than storages
live at one step, `merged` why one row may replace several, `bases` why aligned offsets suffice, and `hulls` why no
write reaches an input. Verdicts on ranks rest on `cover`, those on envelopes on `shrinking`, those on plans with
streams on `streams`, and those on plan sets on `plan_sets`. `at_use` proves all of them when they are first needed.
spec: V4.3, V4.8
"""

from __future__ import annotations

from proofs.proving.lemmas.engine.induction import Lemma
from proofs.proving.lemmas.engine.statements import Statement
from proofs.proving.lemmas.plan import (
    bases,
    chains,
    clique_bound,
    column,
    cover,
    holding,
    hulls,
    layout,
    level,
    merged,
    plan_sets,
    properties,
    shrinking,
    streams,
    tenancy,
    tiling,
    unfolded,
)

TEXT = chains.DEFINITIONS + properties.PROPERTIES + clique_bound.DEFINITIONS
"""All definitions of the lemmas about lists. The first part is evaluated on plans."""
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
"""The lemmas about lists, in the order of their proofs."""
STATEMENTS: tuple[Statement, ...] = (
    *merged.STATEMENTS,
    *bases.STATEMENTS,
    *hulls.STATEMENTS,
    *cover.STATEMENTS,
    *shrinking.STATEMENTS,
    *streams.STATEMENTS,
)
"""The lemmas without lists."""
SETS = plan_sets.LEMMAS
"""The lemmas about the calls of a plan set."""
