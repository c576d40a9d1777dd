"""Single entries of a right plan changed, to values that look like others of their column.

A change names a column, a row, and the kind of the change: to the value of another row, by a little, or to nothing. The
result is a plan that the reader accepts, or None; checker and oracles decide whether it is still right.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tmmu.core.columns import NONE
from tmmu.core.errors import TmmuError
from tmmu.examples.broken.editing import changed
from tmmu.plans import file
from tmmu.plans.columns import PARTS, ROLES, SHARES
from tmmu.plans.sections import Plan

COLUMNS = (
    ("storages", "offset"), ("tensors", "storage"), ("tensors", "window"), ("storages", "death"),
    ("storages", "birth"), ("tensors", "death"), ("tensors", "birth"), ("tensors", "shares"), ("tensors", "of"),
    ("tensors", "bytes"), ("tensors", "writer"), ("tensors", "role"), ("tensors", "flags"), ("tensors", "alignment"),
    ("tensors", "dtype"), ("storages", "arena"), ("storages", "slot"), ("storages", "bytes"), ("storages", "alignment"),
    ("slots", "arena"), ("slots", "bytes"), ("slots", "alignment"), ("steps", "op"), ("steps", "part"),
    ("steps", "body"), ("steps", "reads"), ("steps", "writes"), ("steps", "mutates"), ("bodies", "parent"),
    ("bodies", "enter"), ("bodies", "leave"), ("bodies", "iterates"), ("bodies", "exclusive"),
)  # fmt: skip
"""The columns that are changed, most significant first: all except the names and the bounds of lists."""

PLACES = COLUMNS[:7]
"""The columns that state the place and the lifetime of bytes."""

WAYS = ("other", "more", "less", "nothing")


class Change(NamedTuple):
    """An entry to change; `row` and `by` are taken modulo the number of rows and values."""

    table: str
    column: str
    row: int
    how: str
    by: int


def corrupted(plan: Plan, wanted: Sequence[Change]) -> Plan | None:
    """Return the plan with all changes made, or None if they change nothing or the result is not a valid plan."""
    result = plan
    for change in wanted:
        result = _apply(result, change)
    if result == plan:
        return None
    try:
        return file.require_steps(file.decode(file.encode(result))).plan
    except TmmuError:
        return None


def some_change(chance: random.Random, columns: Sequence[tuple[str, str]], ways: Sequence[str] = WAYS) -> Change:
    """Return a random change of one of the columns."""
    table, name = chance.choice(columns)
    return Change(table, name, chance.randrange(64), chance.choice(ways), chance.randrange(1, 32))


def _apply(plan: Plan, change: Change) -> Plan:
    where, which = ("slots", "of") if change[:2] == ("storages", "slot") else change[:2]
    old = getattr(plan.slots if where == "slots" else getattr(plan.allocation, where), which)
    if not len(old):
        return plan
    values, row = old.tolist(), change.row % len(old)
    others = sorted(set(values) - {values[row]}) or values[row : row + 1]
    end = _find_end(plan, change.column) or int(np.iinfo(old.dtype).max) + 1
    value = {
        "other": others[change.by % len(others)],
        "more": (values[row] + change.by) % end,
        "less": (values[row] - change.by) % end,
        "nothing": NONE if change.column in ("of", "writer", "parent", "enter", "leave") else 0,
    }[change.how]
    return changed(plan, change.table, row, **{change.column: value})


def _find_end(plan: Plan, name: str) -> int | None:
    """Return the exclusive bound of a column of rows, words or steps; None for other columns."""
    a = plan.allocation
    tensors, steps, bodies = len(a.tensors), len(a.steps), len(a.bodies)
    return {
        "storage": len(a.storages), "slot": len(plan.slots), "arena": len(a.arenas), "of": tensors, "reads": tensors,
        "writes": tensors, "mutates": tensors, "writer": steps, "birth": steps, "death": steps, "enter": steps,
        "leave": steps, "body": bodies, "parent": bodies, "op": len(a.ops), "dtype": len(a.dtypes),
        "part": len(PARTS), "role": len(ROLES), "shares": len(SHARES), "flags": 16, "iterates": 2, "exclusive": 2,
    }.get(name)  # fmt: skip
