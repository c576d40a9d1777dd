"""Find the evidence that makes a proof of a plan linear: the order of its rows, and the row that shows each fact.

That no two of n storages collide is a statement about n² pairs. That each slot's storages, in order of birth, follow
one another is a statement about n rows. The orders and witnesses here are found by sorting and are *not trusted*: a
wrong one makes a row false or leaves a row out, and `proofs.proving.obligations` checks that none is left out. Nothing
is concluded here. spec: V1.1, V5.1, V2.3
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from tmmu.plans.allocation import Placement
from tmmu.plans.sections import Claims

Rows = NDArray[np.int64]
"""Row numbers of a table."""


@dataclass(frozen=True)
class Changes:
    """The allocations and frees of one arena, in order.

    A storage that dies at step s - 1 is freed before step s allocates.

    `step` and `storage` have two entries for each storage of the arena; `frees` marks the one that frees it.
    """

    step: Rows
    storage: Rows
    frees: NDArray[np.bool_]


@dataclass(frozen=True)
class Certificate:
    """The evidence for one plan.

    `tenants` are the storages by slot, then by birth; those of slot k are `tenants[tenants_at[k]:tenants_at[k + 1]]`.
    `slot_offset` is the offset of slot k, as its first storage states it. `slots` are the slots of each arena by
    offset, and `changes` its allocations by step. `live` is a storage of each slot that is live at the arena's step of
    most live storages (-1: none). `widest` and `strictest` are the storages of each slot with the most bytes and the
    strictest alignment (-1: the slot holds none). If no slots are claimed, all but `changes` are empty.
    """

    tenants: Rows
    tenants_at: Rows
    slot_offset: NDArray[np.uint64]
    slots: tuple[Rows, ...]
    changes: tuple[Changes, ...]
    live: Rows
    widest: Rows
    strictest: Rows


def certificate(placement: Placement, claims: Claims | None) -> Certificate:
    """Sort a plan's rows. O(n log n) for n storages, with a few machine words for each."""
    s, arenas = placement.storages, len(placement.arenas)
    by_arena = np.argsort(s.arena, kind="stable")
    arenas_at = np.searchsorted(s.arena[by_arena], np.arange(arenas + 1))
    members = [by_arena[lo:hi] for lo, hi in pairwise(arenas_at.tolist())]
    changes = tuple(_changes(placement, rows) for rows in members)
    none = np.empty(0, np.int64)
    if claims is None or claims.slots is None:
        at = np.zeros(1, np.int64)
        return Certificate(none, at, np.empty(0, np.uint64), (none,) * arenas, changes, none, none, none)
    table, slot, count = claims.slots, claims.slots.of, len(claims.slots)
    tenants = np.lexsort((s.death, s.birth, slot)).astype(np.int64)
    tenants_at = np.searchsorted(slot[tenants], np.arange(count + 1)).astype(np.int64)
    slot_offset = np.zeros(count, np.uint64)
    slot_offset[slot[tenants[::-1]]] = s.offset[tenants[::-1]]  # the first remains
    by_offset = np.lexsort((slot_offset, table.arena)).astype(np.int64)
    slots_at = np.searchsorted(table.arena[by_offset], np.arange(arenas + 1))
    slots = tuple(by_offset[lo:hi] for lo, hi in pairwise(slots_at.tolist()))
    live = np.full(count, -1, np.int64)
    for rows, usage, changed in zip(members, claims.usage, changes, strict=True):
        step = (
            step_of_largest_total(changed, np.ones(len(s), np.uint64))
            if usage.max_live_step is None
            else usage.max_live_step
        )
        here = rows[(s.birth[rows] <= step) & (step <= s.death[rows])]
        live[slot[here]] = here
    return Certificate(
        tenants, tenants_at, slot_offset, slots, changes, live, _most(slot, s.bytes, count),
        _most(slot, s.alignment, count),
    )  # fmt: skip


def step_of_largest_total(changes: Changes, amount: NDArray[np.uint64]) -> int:
    """Return the first step whose live storages of an arena have the largest total amount. O(storages)."""
    sizes = amount[changes.storage].tolist()
    total = running_totals([-x if frees else x for x, frees in zip(sizes, changes.frees.tolist(), strict=True)])[1:]
    if not total:
        return 0
    # Frees of a step precede its allocations, so that the total after a step's last change is that of the step.
    steps = changes.step.tolist()
    last: dict[int, int] = dict(zip(steps, total, strict=True))
    return max(last, key=lambda step: (last[step], -step))


def _most(slot: NDArray[np.uint32], amount: NDArray[np.uint64], slots: int) -> Rows:
    """Return, for each slot, the storage with the largest amount, or -1 if it has none."""
    order = np.lexsort((amount, slot)).astype(np.int64)
    found = np.full(slots, -1, np.int64)
    found[slot[order]] = order  # assigned in order of size, so that the largest of each slot remains
    return found


def _changes(placement: Placement, rows: Rows) -> Changes:
    birth, death = (
        placement.storages.birth[rows].astype(np.int64),
        placement.storages.death[rows].astype(np.int64),
    )
    step, storage = np.concatenate([birth, death + 1]), np.concatenate([rows, rows]).astype(np.int64)
    frees = np.arange(len(step)) >= len(rows)
    order = np.lexsort((~frees, step))
    return Changes(step[order], storage[order], frees[order])


def running_totals(amounts: list[int]) -> list[int]:
    """Return the total before the first amount, after it, after the second, and so on, in exact integers.

    >>> running_totals([2, 3, -5])
    [0, 2, 5, 0]
    """
    return list(accumulate(amounts, initial=0))
