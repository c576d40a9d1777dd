"""The partial order of storages: one may give its bytes to another if all its accesses end first.

A storage needs two rows: how many steps of each stream have ended whenever its first access begins, and how many must
have ended before its last access has. One storage is before another if no entry of its second row exceeds the other's
first row. A last entry is about lifetimes in the list of steps. It keeps a storage while the caller or a loop may still
access it, and makes the order of a single stream that of lifetimes, exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tmmu.planner.streams.steps import Integers, StepOrder

CHUNK = 1 << 22
"""How many pairs of storages are compared at once."""


@dataclass(frozen=True)
class StoragePrecedence:
    """What has ended when each storage begins, and what must have ended when it is given up.

    `begins` and `ends` have a row for each storage: a number of steps for each stream, and a last entry, which is the
    birth or the step after the death. `home` is the stream of all accesses of a storage, or -1 if there are several.
    """

    begins: Integers
    ends: Integers
    home: Integers

    def __len__(self) -> int:
        return len(self.begins)

    @property
    def streams(self) -> int:
        """The number of streams."""
        return int(self.begins.shape[1]) - 1

    def is_before(self, first: int, second: int) -> bool:
        """Return whether every access of `first` happens before every access of `second`."""
        return bool((self.ends[first] <= self.begins[second]).all())

    def overlaps(self, storage: int, others: NDArray[Any] | slice = slice(None)) -> NDArray[np.bool_]:
        """Return for each of `others` whether neither it nor `storage` is before the other."""
        before: NDArray[np.bool_] = (self.ends[storage] <= self.begins[others]).all(1)
        before |= (self.ends[others] <= self.begins[storage]).all(1)
        return ~before

    def part(self, rows: Sequence[int] | NDArray[Any]) -> StoragePrecedence:
        """Return the order of some storages, renumbered."""
        return StoragePrecedence(self.begins[rows], self.ends[rows], self.home[rows])

    def widen_deaths(self) -> Integers:
        """Return for each storage the birth of the last one that it is not before, at least its own death.

        Storages whose lifetimes do not overlap after this are ordered. O(n (log n + streams)).
        """
        birth, found = self.begins[:, -1], self.ends[:, -1] - 1
        for needed, known in zip(self.ends.T[:-1], self.begins.T[:-1], strict=True):
            by_known = np.argsort(known, kind="stable")
            latest = np.maximum.accumulate(birth[by_known])
            failing = np.searchsorted(known[by_known], needed)
            found = np.where(failing > 0, np.maximum(found, latest[failing - 1]), found)
        return found

    def followers(self) -> list[int]:
        """Return for each storage the set of storages that it is before, as the bits of an integer.

        O(n² x streams), and n²/8 bytes.
        """
        found: list[int] = []
        lines = max(1, CHUNK // max(1, len(self)))
        columns = [np.ascontiguousarray(column) for column in self.begins.T]
        for low in range(0, len(self), lines):
            is_before = np.ones((len(self.ends[low : low + lines]), len(self)), np.bool_)
            for needed, known in zip(self.ends[low : low + lines].T, columns, strict=True):
                is_before &= needed[:, None] <= known[None, :]
            packed = np.packbits(is_before, axis=1, bitorder="little")
            found.extend(int.from_bytes(row.tobytes(), "little") for row in packed)
        return found

    def is_antichain(self, storages: Sequence[int]) -> bool:
        """Return whether no storage of the list is before another of it.

        O(n² x streams) for those that do not live from before all others end until after all others begin.
        """
        part = self.part(np.asarray(storages, np.int64))
        birth, end = part.begins[:, -1], part.ends[:, -1]
        part = part.part(np.flatnonzero((end <= birth.max(initial=-1)) | (birth >= end.min(initial=1 << 62))))
        return all(bool(part.overlaps(k).all()) for k in range(len(part)))


def order_storages(
    steps: StepOrder,
    accesses: tuple[NDArray[Any], NDArray[Any]],
    birth: Sequence[int] | NDArray[Any],
    death: Sequence[int] | NDArray[Any],
) -> StoragePrecedence:
    """Return the order of storages with these accesses.

    Parameters
    ----------
    steps
        The order of the steps.
    accesses
        Two columns of equal length: a storage, and a step that reads or writes it.
    birth, death
        The first step and the last, both included, at which each storage holds something. They include every access.
        A birth of -1 is before all steps, a death of `len(steps)` after all.

    Notes
    -----
    O((accesses + storages) x streams). What is born before its first access was filled by the caller or a loop: it has
    only those steps before it that have ended at its birth.
    """
    born, died = np.asarray(birth, np.int64), np.asarray(death, np.int64)
    n, streams = len(born), steps.streams
    storage, step = (np.asarray(column, np.int64) for column in accesses)
    key = storage * streams + steps.stream[step]
    first, last = np.full((n, streams), len(steps), np.int64), np.full((n, streams), -1, np.int64)
    np.minimum.at(first.reshape(-1), key, step)
    np.maximum.at(last.reshape(-1), key, step)
    is_used = last >= 0
    begins, ends = np.full((n, streams + 1), len(steps), np.int64), np.zeros((n, streams + 1), np.int64)
    begins[:, -1], ends[:, -1] = born, died + 1
    for t in range(streams):
        rows = np.flatnonzero(is_used[:, t])
        begins[rows, :-1] = np.minimum(begins[rows, :-1], steps.clocks(first[rows, t]))
        ends[rows, t] = steps.position[last[rows, t]] + 1
    if len(steps):
        # Before its first access it is the caller's, or a loop's: nothing but its birth says what has ended then.
        early = np.flatnonzero(born < first.min(axis=1, initial=len(steps)))
        known = np.where(born[early, None] < 0, 0, steps.clocks(np.maximum(born[early], 0)))
        begins[early, :-1] = np.minimum(begins[early, :-1], known)
        late = np.flatnonzero((died > last.max(axis=1, initial=-1)) & (died < len(steps)))
        of = steps.stream[died[late]]
        ends[late, of] = np.maximum(ends[late, of], steps.position[died[late]] + 1)
    used = is_used.sum(1)
    home = np.where(used == 1, is_used.argmax(1) if streams else 0, -1)
    return StoragePrecedence(begins, ends, home)
