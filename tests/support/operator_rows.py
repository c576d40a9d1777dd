"""Compare the three tables of operators: find files that lack a row, and operators with different answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from proofs.readers.operators import KnownOperator
from proofs.readers.operators import table as known
from proofs.readers.operators.sizes.call import Rule
from tmmu.operators import PlannedOperator
from tmmu.operators import table as planned
from tmmu.simulator.operators import SimulatedOperator

Key = tuple[str, str]
"""Domain and operator."""

VERIFIER, PLANNER, SIMULATOR = "proofs/readers/operators", "tmmu/operators", "tmmu/simulator/operators.py"
ELSEWHERE = "elementwise"
"""The family of an operator that no table has."""


def _families(modules: Iterable[ModuleType]) -> dict[Key, str]:
    """Return the name of the file of each row."""
    return {(row.domain, row.op): Path(str(module.__file__)).stem for module in modules for row in module.ROWS}


IN_FAMILY: Mapping[Key, str] = {**_families(planned.FAMILIES), **_families(known.FAMILIES)}


def file_of(folder: str, key: Key) -> str:
    """Return the file of a side for the row of an operator. Files of one family have one name on both sides."""
    return folder if folder.endswith(".py") else f"{folder}/{IN_FAMILY.get(key, ELSEWHERE)}.py"


def missing_rows(
    verifier: Mapping[Key, KnownOperator],
    planner: Mapping[Key, PlannedOperator],
    simulator: Mapping[Key, SimulatedOperator],
) -> list[str]:
    """Return a sentence for each row that one table has and another lacks, with both files and the operator.

    A row of the verifier with sizes only needs no counterpart, nor does an operator that may run its bodies again.
    Outside of ai.onnx only operators that branch and those of ONNX Runtime that work in place need rows on each side:
    models declare the sharing of all others.
    """
    of_runtimes = {key[0] for key, row in verifier.items() if row.of_runtime}
    has: dict[str, set[Key]] = {
        VERIFIER: {key for key, row in verifier.items() if row.permits_anything and _is_shared(key, row)},
        PLANNER: {
            key for key, row in planner.items()
            if not key[0] or row.branches or (row.takes and key[0] in of_runtimes)
        },
        SIMULATOR: {key for key, row in simulator.items() if _means_sharing(row)},
    }  # fmt: skip
    needs = {
        VERIFIER: has[PLANNER] | has[SIMULATOR],
        PLANNER: has[VERIFIER] | has[SIMULATOR],
        SIMULATOR: {key for key, row in verifier.items() if _is_shared(key, row) and _shares(row)},
    }
    found = []
    for side, keys in needs.items():
        for key in sorted(keys - has[side]):
            there = next(other for other in (VERIFIER, PLANNER, SIMULATOR) if key in has[other])
            found.append(f"{key[1]} has a row in {file_of(there, key)} and none in {file_of(side, key)}")
    return found


def _is_shared(key: Key, row: KnownOperator) -> bool:
    """Check whether planner and simulator look up the operator. The planner writes collectives without a row."""
    works_in_place = row.of_runtime and bool(row.in_place)
    return not key[0] or works_in_place or (row.bodies is not None and row.bodies.branches)


def _shares(row: KnownOperator) -> bool:
    of_gradient = row.gradient is not None and (row.gradient.in_place or row.gradient.passes)
    branches = row.bodies is not None and row.bodies.branches
    return row.view is not None or bool(row.in_place) or of_gradient or branches


def _means_sharing(row: SimulatedOperator) -> bool:
    return row.shows or bool(row.bytewise) or row.gradient_shows or row.gradient_bytewise or row.branches


def differing(
    operators: Iterable[str], one: Callable[[str], object], other: Callable[[str], object]
) -> dict[str, tuple[object, object]]:
    """Return the operators with different answers in two tables, each with both answers."""
    return {op: (one(op), other(op)) for op in operators if one(op) != other(op)}


def rule_of(rules: Mapping[tuple[str, str, int], Rule], domain: str, op: str, since: int | None) -> Rule:
    """Return the rule for the sizes of an operator. An AssertionError names the file without one for the version."""
    found = rules.get((domain, op, since or 0))
    assert found is not None, f"{file_of(VERIFIER, (domain, op))} has no rule for the sizes of {op} of version {since}"
    return found


def with_row(table: Mapping[Key, Any], row: Any) -> dict[Key, Any]:
    """Return a table with a row added or replaced."""
    return {**table, (row.domain, row.op): row}
