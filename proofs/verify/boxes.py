"""Where the tensors of a witness lie in a plan. spec: C1.11"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from tmmu.plans.sections import BufferPlan, Plan


class Box(NamedTuple):
    """Where one tensor lies: steps and bytes, both ends included."""

    tensor: str
    arena: str
    birth: int
    death: int
    first_byte: int
    last_byte: int


def boxes(plan: Plan | BufferPlan, names: Sequence[str], *, of_storages: bool = False) -> list[Box]:
    """The boxes of those tensors that the plan has, in the order of `names`, or of their storages. O(tensors)."""
    storages, found = plan.placement.storages, {}
    of_rows: Iterable[int] = range(len(storages))
    rows = {name: row for row, name in enumerate(plan.placement.storage_names())}
    born, gone, low, size = storages.birth, storages.death, storages.offset, storages.bytes
    if isinstance(plan, Plan):
        tensors = plan.allocation.tensors
        rows, of_rows = {name: row for row, name in enumerate(tensors.name)}, tensors.storage.tolist()
        if of_storages:
            k = tensors.storage
            born, gone, low, size = born[k], gone[k], low[k], size[k]
        else:
            born, gone, low, size = tensors.birth, tensors.death, plan.allocation.addresses(), tensors.bytes
    arena_of = storages.arena[np.fromiter(of_rows, np.int64)]
    for name in names:
        if (row := rows.get(name)) is not None:
            arena, first = plan.placement.arenas[int(arena_of[row])].name, int(low[row])
            found[name] = Box(name, arena, int(born[row]), int(gone[row]), first, first + max(1, int(size[row])) - 1)
    return list(found.values())
