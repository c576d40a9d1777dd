"""The place and the lifetime of each tensor of a plan, for everything that shows a plan. spec: P2.6"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tmmu.core.columns import U32, U64, Names
from tmmu.core.vocabulary import FixedByte
from tmmu.plans.sections import BufferPlan, Plan


class TensorPlaces(NamedTuple):
    """Columns of equal length: a row for each tensor, or for each buffer, in the order of the plan.

    `arena` is a row of the plan's arenas; `offset` and `bytes` are of that arena; lifetimes include both ends.
    """

    name: Names
    arena: U32
    offset: U64
    bytes: U64
    birth: U32
    death: U32


def tensor_places(plan: Plan | BufferPlan, *, of_storages: bool = False) -> TensorPlaces:
    """Return the places of the tensors, or with `of_storages` the whole storage of each. O(tensors)."""
    storages = plan.placement.storages
    if not isinstance(plan, Plan):
        name, row = plan.buffers.name, np.arange(len(storages))
    else:
        tensors = plan.allocation.tensors
        name, row = tensors.name, tensors.storage.astype(np.int64)
        if not of_storages:
            return TensorPlaces(
                name, storages.arena[row], plan.allocation.addresses(), tensors.bytes, tensors.birth, tensors.death
            )
    return TensorPlaces(
        name, storages.arena[row], storages.offset[row], storages.bytes[row], storages.birth[row], storages.death[row]
    )


def fixed_places(plan: Plan) -> dict[str, FixedByte]:
    """Return the bytes at which tensors are fixed by the plan's provenance, each with the arena that has the tensor.

    A name that the plan does not have is without an arena. O(tensors).
    """
    if plan.provenance is None or not plan.provenance.fixed:
        return {}
    asked, (names, arenas) = plan.provenance.fixed, tensor_places(plan)[:2]
    arena_of = {
        name: plan.placement.arenas[a].name for name, a in zip(names, arenas.tolist(), strict=True) if name in asked
    }
    return {name: (arena_of[name], byte) if name in arena_of else byte for name, byte in asked.items()}
