"""Assign slots under a partial order: exactly, or along the list of steps by their clocks.

`find_antichain` gives the fewest slots, for up to `EXACT` storages without conflicts. Beyond that a storage takes the
slot that has been free for longest on its own stream, otherwise one of another stream whose steps have ended by its
clock. If that needs no more slots than storages are live at one step of the list, it is minimal as well, and these
storages are the antichain.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from operator import le
from typing import NamedTuple

import numpy as np

from tmmu.planner.streams.antichain import EXACT, find_antichain
from tmmu.planner.streams.storages import StoragePrecedence

TRIES = 8
"""How many slots of storages that several streams access are looked at, the oldest first."""
BITS = 32
"""A slot is less than 2^32."""
SLOT = (1 << BITS) - 1
ROWS = 1 << 16
"""How many rows of clocks are Python integers at once."""


class Chains(NamedTuple):
    """The slot of each storage, the number of slots, and the largest antichain that is known."""

    slot: list[int]
    slots: int
    antichain: list[int]

    @property
    def gap(self) -> int:
        """How many slots more there are than the antichain needs; 0 if they are the fewest."""
        return self.slots - len(self.antichain)


def assign_chains(
    order: StoragePrecedence, sequence: Sequence[int], conflicts: Mapping[int, set[int]], exact: int = EXACT
) -> Chains:
    """Assign each storage a slot such that those of one slot are ordered and have no conflict.

    Slots are numbered by their first storage in `sequence`, the storages by birth. Storages in `conflicts` must not
    share bytes with those that it maps them to. O(n² sqrt(n) / 64) words for up to `exact` storages without conflicts,
    otherwise O(n (log n + streams)).
    """
    if not conflicts and len(order) <= exact:
        found = find_antichain(order)
        of = [-1] * len(order)
        for number, chain in enumerate(found.chains()):
            for k in chain:
                of[k] = number
        number_of: dict[int, int] = {}
        slot = [0] * len(order)
        for k in sequence:
            slot[k] = number_of.setdefault(of[k], len(number_of))
        return Chains(slot, len(number_of), found.storages)
    slot, count = _scan(order, sequence, conflicts)
    return Chains(slot, count, find_live(order))


def find_largest(order: StoragePrecedence, exact: int = EXACT) -> list[int]:
    """Return a largest antichain of up to `exact` storages; of more, the storages that are live at one step."""
    return find_antichain(order).storages if len(order) <= exact else find_live(order)


def find_live(order: StoragePrecedence) -> list[int]:
    """Return the storages that are live at the fullest step of the list. They are an antichain. O(n log n)."""
    birth, end = order.begins[:, -1], order.ends[:, -1]
    if not len(order):
        return []
    live = np.searchsorted(np.sort(birth), birth, "right") - np.searchsorted(np.sort(end), birth, "right")
    at = birth[int(live.argmax())]
    found: list[int] = np.flatnonzero((birth <= at) & (at < end)).tolist()
    return found


def _scan(
    order: StoragePrecedence, sequence: Sequence[int], conflicts: Mapping[int, set[int]]
) -> tuple[list[int], int]:
    """Return the slot of each storage, and how many were opened."""
    streams = order.streams
    shared = streams  # the list of slots whose last storage several streams access
    home = np.where(order.home < 0, shared, order.home)
    end, opened, dead = order.ends[:, -1], 0, 0
    by_end = np.argsort(end, kind="stable")
    # The entry of its last storage that a slot waits for: the end on its stream, or in the list.
    waited = order.ends[np.arange(len(order)), home].tolist()
    ends, stream_of, dying = end.tolist(), home.tolist(), by_end.tolist()
    slot, held = [0] * len(order), dict[int, set[int]]()
    last = list[int]()  # the last storage of each slot
    # The free slots that wait for each stream, as integers: what a slot waits for, and below it the slot.
    free: list[list[int]] = [[] for _ in range(streams + 1)]

    def take(stream: int, k: int, clock: list[int]) -> int | None:
        """Remove and return a slot of a stream's list that storage `k` may take, or None."""
        entries, passed, chosen = free[stream], list[int](), None
        while len(passed) < TRIES and entries and chosen is None and entries[0] >> BITS <= clock[stream]:
            entry = heapq.heappop(entries)
            found = entry & SLOT
            is_apart = not conflicts or conflicts.get(k, set()).isdisjoint(held[found])
            if is_apart and (stream != shared or all(map(le, order.ends[last[found]].tolist(), clock))):
                chosen = found
            else:
                passed.append(entry)
        for entry in passed:
            heapq.heappush(entries, entry)
        return chosen

    lists = range(streams + 1)
    own_first = [(mine, *(stream for stream in lists if stream != mine)) for mine in lists]
    for low in range(0, len(sequence), ROWS):
        rows = sequence[low : low + ROWS]
        for k, clock in zip(rows, order.begins[np.asarray(rows, np.int64)].tolist(), strict=True):
            while ends[dying[dead]] <= clock[-1]:  # it was born before: births are in order
                gone = dying[dead]
                heapq.heappush(free[stream_of[gone]], waited[gone] << BITS | slot[gone])
                dead += 1
            chosen = None
            for stream in own_first[stream_of[k]]:
                if free[stream] and free[stream][0] >> BITS <= clock[stream]:
                    chosen = take(stream, k, clock)
                    if chosen is not None:
                        break
            if chosen is None:
                chosen = opened
                opened += 1
                last.append(k)
            last[chosen] = k
            if conflicts:
                held.setdefault(chosen, set()).add(k)
            slot[k] = chosen
    return slot, opened
