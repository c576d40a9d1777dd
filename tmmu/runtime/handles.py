"""The tensor map: the data that a runtime needs about each tensor, by name in the order of its UTF-8 bytes.

The generation of a tensor is the number of its storage among those that share the slot, from 0: a handle of an older
generation points at bytes that another storage has used since. spec: U2.6, U2.7
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tmmu.core.vocabulary import Lifetime
from tmmu.plans.metrics import first_slot
from tmmu.plans.sections import Plan


class Handle(NamedTuple):
    """One tensor: `logical_address` is (arena, address), `logical_slot` the number of its slot in the arena, or None.

    `size` is in bytes; `alignment` is that of the arena, in bytes.
    """

    logical_address: tuple[str, int]
    arena: str
    logical_slot: int | None
    size: int
    lifetime: Lifetime
    alignment: int
    generation: int


def generations(plan: Plan) -> NDArray[np.int64]:
    """Count, for each storage, the earlier storages in its slot, or, without slots, at its address. O(N log N)."""
    s = plan.allocation.storages
    claimed = None if plan.claims is None else plan.claims.slots
    groups = (s.offset, s.arena) if claimed is None else (claimed.of,)
    order = np.lexsort((s.birth, *groups))
    first = np.ones(len(s), np.bool_)
    first[1:] = np.any([group[order][1:] != group[order][:-1] for group in groups], axis=0)
    rank = np.arange(len(s)) - np.maximum.accumulate(np.where(first, np.arange(len(s)), 0))
    result = np.empty(len(s), np.int64)
    result[order] = rank
    return result


class TensorMap(Mapping[str, Handle]):
    """The handles of a plan's tensors, each made when it is asked for. Iterates by name, UTF-8 bytes ascending."""

    def __init__(self, plan: Plan) -> None:
        names = plan.allocation.tensors.name.list()
        self._row = {names[row]: row for row in sorted(range(len(names)), key=lambda row: names[row].encode())}
        self._plan, self._generation = plan, generations(plan)
        self._slots = None if plan.claims is None else plan.claims.slots
        self._first = {} if self._slots is None else first_slot(self._slots)

    def row(self, name: str) -> int:
        """Return the row of a tensor in the plan's table. Raises KeyError for an unknown name."""
        return self._row[name]

    def __getitem__(self, name: str) -> Handle:
        row = self._row[name]
        t, s = self._plan.allocation.tensors, self._plan.allocation.storages
        k = int(t.storage[row])
        a = int(s.arena[k])
        arena = self._plan.allocation.arenas[a]
        return Handle(
            (arena.name, int(s.offset[k]) + int(t.window[row])),
            arena.name,
            None if self._slots is None else int(self._slots.of[k]) - self._first[a],
            int(t.bytes[row]),
            Lifetime(int(t.birth[row]), int(t.death[row])),
            arena.alignment,
            int(self._generation[k]),
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._row)

    def __len__(self) -> int:
        return len(self._row)
