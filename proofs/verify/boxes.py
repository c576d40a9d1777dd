"""The places in a plan of the tensors of a witness. spec: C1.11"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tmmu.plans.places import tensor_places
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
    found, arenas = tensor_places(plan, of_storages=of_storages), plan.placement.arenas
    rows = {name: row for row, name in enumerate(found.name)}
    shown = []
    for name in dict.fromkeys(names):
        if (row := rows.get(name)) is not None:
            low, size = int(found.offset[row]), int(found.bytes[row])
            lifetime = int(found.birth[row]), int(found.death[row])
            shown.append(Box(name, arenas[int(found.arena[row])].name, *lifetime, low, low + max(1, size) - 1))
    return shown
