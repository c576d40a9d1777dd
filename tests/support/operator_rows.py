"""The three tables of operators side by side: in which file a row is, and in which file one is missing.

Each table is asked by itself; what is here belongs to none of them.
"""

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
"""The family in which a row is to be looked for if no table has one."""


def _families(modules: Iterable[ModuleType]) -> dict[Key, str]:
    """The name of the file in which each row is."""
    return {(row.domain, row.op): Path(str(module.__file__)).stem for module in modules for row in module.ROWS}


IN_FAMILY: Mapping[Key, str] = {**_families(planned.FAMILIES), **_families(known.FAMILIES)}


def file_of(folder: str, key: Key) -> str:
    """The file of a side in which the row of an operator is, or belongs: one of the same name on both sides."""
    return folder if folder.endswith(".py") else f"{folder}/{IN_FAMILY.get(key, ELSEWHERE)}.py"


def missing_rows(
    verifier: Mapping[Key, KnownOperator],
    planner: Mapping[Key, PlannedOperator],
    simulator: Mapping[Key, SimulatedOperator],
) -> list[str]:
    """Which file lacks a row that another has: a sentence for each, that names both files and the operator.

    A verifier's row that says no more than sizes asks for no other. An operator that may run its bodies again needs no
    row, and of another domain than ai.onnx none but one that branches: there a model declares what is shared.
    """
    has: dict[str, set[Key]] = {
        VERIFIER: {key for key, row in verifier.items() if row.says_more_than_sizes and _is_shared(key, row)},
        PLANNER: {key for key, row in planner.items() if not key[0] or row.branches},
        SIMULATOR: {key for key, row in simulator.items() if _means_sharing(row)},
    }
    needs = {
        VERIFIER: has[PLANNER] | has[SIMULATOR],
        PLANNER: has[VERIFIER] | has[SIMULATOR],
        SIMULATOR: {key for key, row in verifier.items() if _is_shared(key, row) and _shares(row)},
    }
    said = []
    for side, keys in needs.items():
        for key in sorted(keys - has[side]):
            there = next(other for other in (VERIFIER, PLANNER, SIMULATOR) if key in has[other])
            said.append(f"{key[1]} has a row in {file_of(there, key)} and none in {file_of(side, key)}")
    return said


def _is_shared(key: Key, row: KnownOperator) -> bool:
    """Whether planner and simulator ask about the operator: collectives are written by the planner itself."""
    return not key[0] or (row.bodies is not None and row.bodies.branches)


def _shares(row: KnownOperator) -> bool:
    of_gradient = row.gradient is not None and (row.gradient.in_place or row.gradient.passes)
    branches = row.bodies is not None and row.bodies.branches
    return row.view is not None or bool(row.in_place) or of_gradient or branches


def _means_sharing(row: SimulatedOperator) -> bool:
    return row.shows or bool(row.bytewise) or row.gradient_shows or row.gradient_bytewise or row.branches


def differing(
    operators: Iterable[str], one: Callable[[str], object], other: Callable[[str], object]
) -> dict[str, tuple[object, object]]:
    """The operators of which two tables differ, each with both answers."""
    return {op: (one(op), other(op)) for op in operators if one(op) != other(op)}


def rule_of(rules: Mapping[tuple[str, str, int], Rule], domain: str, op: str, since: int | None) -> Rule:
    """The rule for the sizes of an operator; an AssertionError names the file that has none of this version."""
    found = rules.get((domain, op, since or 0))
    assert found is not None, f"{file_of(VERIFIER, (domain, op))} has no rule for the sizes of {op} of version {since}"
    return found


def with_row(table: Mapping[Key, Any], row: Any) -> dict[Key, Any]:
    """A table with one row more, or another one."""
    return {**table, (row.domain, row.op): row}
