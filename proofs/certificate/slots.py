"""The evidence that makes a proof of a plan linear: in which order to look at its rows, and which row shows what.

That no two of n storages collide is a statement on n² pairs; that each slot's storages, in order of birth, follow one
another is one on n rows. The orders and witnesses here are found by sorting and are *not trusted*: a wrong one makes
a row false or leaves a row out, and `proofs.obligations` checks that none is left out. Nothing is concluded here.
spec: V1.1, V5.1, V2.3
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from tmmu.plan.columns import Plan

Rows = NDArray[np.int64]
"""Row numbers of a table."""


@dataclass(frozen=True)
class Changes:
    """What is allocated and freed in one arena, in order: what dies at step s - 1 is freed before step s allocates.

    `step` and `storage` have two entries for each storage of the arena; `frees` says which of the two each is.
    """

    step: Rows
    storage: Rows
    frees: NDArray[np.bool_]


@dataclass(frozen=True)
class Certificate:
    """The evidence for one plan.

    `tenants` are the storages by slot, then by birth; those of slot k are `tenants[tenants_at[k]:tenants_at[k + 1]]`.
    `slot_offset` is where slot k starts, by the word of its first storage. `slots` are the slots of each arena by
    offset, `changes` its allocations by step, `live` a storage of each slot that is live at the arena's
    `max_live_step` (-1: none). `widest` and `strictest` are the storages of each slot that ask the most bytes and the
    strictest alignment of it (-1: the slot holds none).
    """

    tenants: Rows
    tenants_at: Rows
    slot_offset: NDArray[np.uint64]
    slots: tuple[Rows, ...]
    changes: tuple[Changes, ...]
    live: Rows
    widest: Rows
    strictest: Rows


def certificate(plan: Plan) -> Certificate:
    """Sort a plan's rows. O(n log n) for n storages; a few machine words for each."""
    s, count = plan.storages, len(plan.slots)
    tenants = np.lexsort((s.death, s.birth, s.slot)).astype(np.int64)
    tenants_at = np.searchsorted(s.slot[tenants], np.arange(count + 1)).astype(np.int64)
    slot_offset = np.zeros(count, np.uint64)
    slot_offset[s.slot[tenants[::-1]]] = s.offset[tenants[::-1]]  # the first of each slot is written last
    slot_arena = plan.slots.arena
    by_offset = np.lexsort((slot_offset, slot_arena)).astype(np.int64)
    slots_at = np.searchsorted(slot_arena[by_offset], np.arange(len(plan.arenas) + 1))
    slots = tuple(by_offset[lo:hi] for lo, hi in pairwise(slots_at.tolist()))
    by_arena = np.argsort(s.arena, kind="stable")
    arenas_at = np.searchsorted(s.arena[by_arena], np.arange(len(plan.arenas) + 1))
    members = [by_arena[lo:hi] for lo, hi in pairwise(arenas_at.tolist())]
    live = np.full(count, -1, np.int64)
    for rows, usage in zip(members, plan.usage, strict=True):
        at = min(usage.max_live_step, np.iinfo(np.int64).max)
        alive = rows[(s.birth[rows] <= at) & (at <= s.death[rows])]
        live[s.slot[alive]] = alive
    return Certificate(
        tenants, tenants_at, slot_offset, slots, tuple(_changes(plan, rows) for rows in members), live,
        _most(s.slot, s.bytes, count), _most(s.slot, s.alignment, count),
    )  # fmt: skip


def _most(slot: NDArray[np.uint32], amount: NDArray[np.uint64], slots: int) -> Rows:
    """For each slot the storage with the largest amount; -1 where there is none."""
    order = np.lexsort((amount, slot)).astype(np.int64)
    found = np.full(slots, -1, np.int64)
    found[slot[order]] = order  # the largest of each slot is written last
    return found


def _changes(plan: Plan, rows: Rows) -> Changes:
    birth, death = plan.storages.birth[rows].astype(np.int64), plan.storages.death[rows].astype(np.int64)
    step, storage = np.concatenate([birth, death + 1]), np.concatenate([rows, rows]).astype(np.int64)
    frees = np.arange(len(step)) >= len(rows)
    order = np.lexsort((~frees, step))
    return Changes(step[order], storage[order], frees[order])


def running(amounts: list[int]) -> list[int]:
    """The total before the first amount, after it, after the second, and so on, in exact integers.

    >>> running([2, 3, -5])
    [0, 2, 5, 0]
    """
    return list(accumulate(amounts, initial=0))
