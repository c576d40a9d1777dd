"""List every file of lemmas. To add a lemma, add it to one of these files; to add a file, list it here.

spec: V4.3, V4.9
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType

from proofs.proving.lemmas import plan
from proofs.proving.lemmas.engine.family import AnyLemma, Family
from proofs.proving.lemmas.plan import (
    bases,
    clique_bound,
    column,
    cover,
    holding,
    hulls,
    layout,
    level,
    merged,
    plan_sets,
    shrinking,
    streams,
    tenancy,
    tiling,
    unfolded,
)
from proofs.proving.lemmas.planner import (
    align_up,
    execution,
    linear_scan,
    liveness,
    pools,
    prefix_sums,
    sharding,
    size_maxima,
    unions,
    zeroing,
)
from proofs.proving.lemmas.systems import (
    alias_references,
    bodies,
    cache_growth,
    delta_encoding,
    eviction,
    mapped_regions,
    plan_lifecycle,
    pool_generations,
    quota,
    ranks,
    sealed_log,
    sealed_records,
    sessions,
    totals,
    write_locks,
)

VERDICTS = "plan"
"""The folder of the lemmas that verdicts rest on."""


def _file(module: ModuleType) -> str:
    """Return the folder and the name of a file of lemmas.

    >>> _file(zeroing)
    'planner/zeroing'
    """
    return "/".join(module.__name__.split(".")[-2:])


def _all() -> list[Family]:
    of_lists = [tenancy, layout, level, holding, tiling, column, clique_bound, unfolded]
    families = [Family(_file(module), module.LEMMAS, plan.TEXT, plan.LISTS) for module in of_lists]
    families += [
        Family(_file(module), module.STATEMENTS) for module in (merged, bases, hulls, cover, shrinking, streams)
    ]
    families.append(Family(_file(plan_sets), plan_sets.LEMMAS))
    sums = prefix_sums
    families.append(Family(_file(sums), sums.LEMMAS, sums.DEFINITIONS, (*layout.LEMMAS, *sums.LEMMAS)))
    for module in (
        align_up, linear_scan, liveness, execution, unions, zeroing, pools, sharding, size_maxima,
        alias_references, bodies, plan_lifecycle, quota, ranks, totals, cache_growth, pool_generations, sessions,
        delta_encoding, eviction, mapped_regions, sealed_log, sealed_records, write_locks,
    ):  # fmt: skip
        families.append(Family(_file(module), module.LEMMAS))
    return families


FAMILIES: Mapping[str, Family] = {family.file: family for family in _all()}
"""Every file of lemmas, as `folder/name`."""


def lemma_names() -> list[str]:
    """Return the names of all lemmas, file by file."""
    return [lemma.name for family in FAMILIES.values() for lemma in family.lemmas]


def by_name() -> dict[str, tuple[Family, AnyLemma]]:
    """Return every lemma by its name, with its file."""
    return {lemma.name: (family, lemma) for family in FAMILIES.values() for lemma in family.lemmas}


def select_families(wanted: Sequence[str]) -> list[Family]:
    """Return the files with the named lemmas, or the named files or folders. Without names, returns all.

    A file is named by its stem, by its name, by its name with its folder, or by its path in the repository. Raises
    ValueError for any other name.

    >>> [family.file for family in select_families(["proofs/proving/lemmas/plan/tenancy.py", "zeroing"])]
    ['plan/tenancy', 'planner/zeroing']
    """
    called = {
        file: {file, f"{file}.py", family.stem, f"{family.stem}.py", family.path, family.folder}
        for file, family in FAMILIES.items()
    }
    known = set(lemma_names()).union(*called.values())
    if unknown := [name for name in wanted if name not in known]:
        raise ValueError(f"no lemma or file of lemmas has the name {unknown[0]!r}")
    asked = set(wanted)
    found = []
    for file, family in FAMILIES.items():
        lemmas = tuple(lemma for lemma in family.lemmas if not asked or lemma.name in asked or called[file] & asked)
        if lemmas:
            found.append(family._replace(lemmas=lemmas))
    return found
