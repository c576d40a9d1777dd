"""Every lemma by the file that holds it: what each speaks of, and in which order they are proved.

A family of lemmas about lists has definitions of its own, which a solver reads before its queries; statements need
none. Adding a lemma is adding it to a file here, or a file. spec: V4.3, V4.9
"""

from __future__ import annotations

from proofs.lemmas import (
    alias_references,
    align_up,
    bodies,
    cache_growth,
    clique_bound,
    column,
    delta_encoding,
    eviction,
    execution,
    holding,
    layout,
    level,
    linear_scan,
    liveness,
    mapped_regions,
    plan_lifecycle,
    pool_generations,
    pools,
    prefix_sums,
    quota,
    ranks,
    sealed_records,
    sessions,
    sharding_cover,
    size_maxima,
    tenancy,
    tiling,
    totals,
    unions,
    write_locks,
    zeroing,
)
from proofs.lemmas.induction import Lemma
from proofs.lemmas.statements import Statement

OF_CHAINS: tuple[Lemma, ...] = (
    *tenancy.LEMMAS,
    *layout.LEMMAS,
    *level.LEMMAS,
    *holding.LEMMAS,
    *tiling.LEMMAS,
    *column.LEMMAS,
)
"""The lemmas that carry a plan's rows to its properties, in the order in which they are proved."""

LISTS: dict[str, tuple[str, tuple[Lemma, ...], tuple[Lemma, ...]]] = {
    "tenancy": (tenancy.DEFINITIONS, tenancy.LEMMAS, ()),
    "layout": (layout.DEFINITIONS, layout.LEMMAS, ()),
    "prefix_sums": (prefix_sums.DEFINITIONS, prefix_sums.LEMMAS, layout.LEMMAS),
    "level": (level.DEFINITIONS, level.LEMMAS, ()),
    "holding": (holding.DEFINITIONS, holding.LEMMAS, ()),
    "tiling": (tiling.DEFINITIONS, tiling.LEMMAS, ()),
    "column": (column.DEFINITIONS, column.LEMMAS, ()),
    "clique_bound": (clique_bound.DEFINITIONS, clique_bound.LEMMAS, ()),
}
"""The families of lemmas about lists: definitions, lemmas, each of which may use those before it, and those of another
family that they may use as well."""

STATEMENTS: dict[str, tuple[Statement, ...]] = {
    "align_up": align_up.STATEMENTS,
    "linear_scan": linear_scan.STATEMENTS,
    "liveness": liveness.STATEMENTS,
    "execution": execution.STATEMENTS,
    "unions": unions.STATEMENTS,
    "zeroing": zeroing.STATEMENTS,
    "sharding_cover": sharding_cover.STATEMENTS,
    "size_maxima": size_maxima.STATEMENTS,
    "totals": totals.STATEMENTS,
    "quota": quota.STATEMENTS,
    "alias_references": alias_references.STATEMENTS,
    "pools": pools.STATEMENTS,
    "write_locks": write_locks.STATEMENTS,
    "sealed_records": sealed_records.STATEMENTS,
    "pool_generations": pool_generations.STATEMENTS,
    "cache_growth": cache_growth.STATEMENTS,
    "plan_lifecycle": plan_lifecycle.STATEMENTS,
    "sessions": sessions.STATEMENTS,
    "bodies": bodies.STATEMENTS,
    "ranks": ranks.STATEMENTS,
    "mapped_regions": mapped_regions.STATEMENTS,
    "eviction": eviction.STATEMENTS,
    "delta_encoding": delta_encoding.STATEMENTS,
}
"""The families of statements without lists."""
