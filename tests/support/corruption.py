"""Wrong plans: single entries of a right plan changed, to values that look like ones of their column.

A change names a column, a row, and how the entry changes: to that of another row, by a little, to nothing. What comes
out passes the gate, or is nothing at all; whether it is still right is for the checker and the oracles to say.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from tmmu.core.columns import NONE, column
from tmmu.core.errors import TmmuError
from tmmu.plan import file
from tmmu.plan.columns import PARTS, ROLES, SHARES
from tmmu.plan.sections import Plan, amended

COLUMNS = (
    ("storages", "offset"), ("tensors", "storage"), ("tensors", "window"), ("storages", "death"),
    ("storages", "birth"), ("tensors", "death"), ("tensors", "birth"), ("tensors", "shares"), ("tensors", "of"),
    ("tensors", "bytes"), ("tensors", "writer"), ("tensors", "role"), ("tensors", "flags"), ("tensors", "alignment"),
    ("tensors", "dtype"), ("storages", "arena"), ("storages", "slot"), ("storages", "bytes"), ("storages", "alignment"),
    ("slots", "arena"), ("slots", "bytes"), ("slots", "alignment"), ("steps", "op"), ("steps", "part"),
    ("steps", "body"), ("steps", "reads"), ("steps", "writes"), ("steps", "mutates"), ("bodies", "parent"),
    ("bodies", "enter"), ("bodies", "leave"), ("bodies", "iterates"), ("bodies", "exclusive"),
)  # fmt: skip
"""What is changed, most telling first; every column but the names, and the bounds of lists."""

PLACES = COLUMNS[:7]
"""The columns that say where and when bytes are whose."""


class Change(NamedTuple):
    """An entry to be changed: `row` and `by` are taken modulo what there is."""

    table: str
    column: str
    row: int
    how: str
    by: int


def changes(columns: tuple[tuple[str, str], ...] = COLUMNS) -> st.SearchStrategy[list[Change]]:
    """One change, seldom two or three."""
    change = st.builds(
        lambda place, row, how, by: Change(place[0], place[1], row, how, by),
        st.sampled_from(columns), st.integers(0, 63), st.sampled_from(("other", "more", "less", "nothing")),
        st.integers(1, 31),
    )  # fmt: skip
    return st.one_of(st.lists(change, min_size=1, max_size=1), st.lists(change, min_size=1, max_size=3))


def corrupted(plan: Plan, wanted: list[Change]) -> Plan | None:
    """The plan with all changes made, or None where they change nothing or what they make is no plan."""
    result = plan
    for change in wanted:
        result = _changed(result, change)
    if file.encode(result) == file.encode(plan):
        return None
    try:
        return file.with_steps(file.decode(file.encode(result))).plan
    except TmmuError:
        return None


def _changed(plan: Plan, change: Change) -> Plan:
    where, column_ = ("slots", "of") if (change.table, change.column) == ("storages", "slot") else change[:2]
    table = plan.slots if where == "slots" else getattr(plan.allocation, where)
    old = getattr(table, column_)
    if not len(old):
        return plan
    values, row = old.tolist(), change.row % len(old)
    others = sorted(set(values) - {values[row]}) or values[row : row + 1]
    end = _end(plan, change.column) or int(np.iinfo(old.dtype).max) + 1
    values[row] = {
        "other": others[change.by % len(others)],
        "more": (values[row] + change.by) % end,
        "less": (values[row] - change.by) % end,
        "nothing": NONE if change.column in ("of", "writer", "parent", "enter", "leave") else 0,
    }[change.how]
    return amended(plan, **{where: replace(table, **{column_: column(values, old.dtype.type)})})


def _end(plan: Plan, name: str) -> int | None:
    """What the entries of a column stay below, where they are rows of a table, words or steps."""
    tensors, steps = len(plan.allocation.tensors), len(plan.allocation.steps)
    return {
        "storage": len(plan.allocation.storages), "slot": len(plan.slots), "arena": len(plan.allocation.arenas),
        "of": tensors, "reads": tensors, "writes": tensors, "mutates": tensors, "writer": steps, "birth": steps,
        "death": steps, "enter": steps, "leave": steps, "body": len(plan.allocation.bodies),
        "parent": len(plan.allocation.bodies), "op": len(plan.allocation.ops), "dtype": len(plan.allocation.dtypes),
        "part": len(PARTS), "role": len(ROLES), "shares": len(SHARES), "flags": 16,
        "iterates": 2, "exclusive": 2,
    }.get(name)  # fmt: skip
