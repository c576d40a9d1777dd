"""The reasons for the size of an arena: its peak, the storages live there, and possible savings. spec: RP3.1, RP3.2"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tmmu.report.arena_map import ArenaMap


@dataclass(frozen=True)
class PeakSaving:
    """A storage, as a row of its map, and the bytes by which the peak would be lower without it."""

    row: int
    bytes: int


def savings(one: ArenaMap, most: int) -> list[PeakSaving]:
    """Return the `most` storages whose absence would lower the peak most, the best first; only those that lower it.

    The peak without a storage is the maximum of the live bytes outside of its lifetime, and of those inside it less its
    size. Only a storage that is live at every step of the peak counts. O(n + steps + candidates x lifetime); candidates
    smaller than the savings found so far are skipped.
    """
    if not len(one.live):
        return []
    peaks = np.flatnonzero(one.live == one.live.max())
    before, after = np.maximum.accumulate(one.live), np.maximum.accumulate(one.live[::-1])[::-1]
    candidates = np.flatnonzero((one.birth <= peaks[0]) & (one.death >= peaks[-1]) & (one.bytes > 0))
    found: list[PeakSaving] = []
    for k in candidates[np.argsort(-one.bytes[candidates], kind="stable")].tolist():
        size, birth, death = one.bytes[k], int(one.birth[k]), int(one.death[k])
        if len(found) >= most and size <= found[most - 1].bytes:
            break
        left = one.live[birth : death + 1].max() - size
        if birth > 0:
            left = max(left, before[birth - 1])
        if death + 1 < len(one.live):
            left = max(left, after[death + 1])
        if left < one.peak:
            found.append(PeakSaving(k, one.peak - int(left)))
            found.sort(key=lambda saving: -saving.bytes)
    return found[:most]
