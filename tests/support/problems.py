"""Allocation problems as rows: birth, death and bytes of each storage, with its arena or its choices of arenas."""

from __future__ import annotations

from collections.abc import Sequence

from tmmu.core.vocabulary import ArenaConfiguration, Role
from tmmu.planner.problem import AllocationProblem

ONE = (ArenaConfiguration("activations", tuple(Role), alignment=1),)
Row = tuple[int, int, int] | tuple[int, int, int, int | tuple[int, ...]]


def problem(
    *rows: Row,
    arenas: tuple[ArenaConfiguration, ...] = ONE,
    names: Sequence[str] = "",
    alignment: Sequence[int] = (),
    **facts: object,
) -> AllocationProblem:
    """The problem of these storages, named in their order; `facts` are further fields of the problem."""
    whole = [(*row, 0)[:4] for row in rows]
    birth, death, size, choices = (list(column) for column in zip(*whole, strict=True)) if rows else ([], [], [], [])
    count = len(rows)
    stated = {
        "arenas": arenas, "name": list(names or (f"{k:06}" for k in range(count))), "bytes": size,
        "alignment": list(alignment or [1] * count), "birth": birth, "death": death, "made": birth,
        "choices": [(each,) if isinstance(each, int) else each for each in choices], "uses": [1] * count, **facts,
    }  # fmt: skip
    return AllocationProblem(**stated)
