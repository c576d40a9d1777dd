"""The resource ledger: counters for each step of a run, the same in every run of one plan (001 II.J, R4).

`bytes_allocated` are the bytes of real memory that the arenas take. `peak_bytes` is the largest sum of bytes of
storages live at one step so far. `internal_fragmentation_ratio` is the part of the bytes of occupied slots that was not
used so far. spec: U5.7, U5.8
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from tmmu.core import canonical
from tmmu.plans.sections import Plan
from tmmu.runtime.records.ratios import ratio


class Ledger:
    """The records of one run, in their order."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self.allocation_failures = 0
        self._sealed = 0

    def failed(self, t: int = 0) -> None:
        """Count a refused allocation, and record that nothing is allocated."""
        self.allocation_failures += 1
        self._add(t, None, 0, 0, [0, 1])

    def applied(self, t: int, bytes_allocated: int) -> None:
        """Record that the arenas were made; no step has run."""
        self._add(t, None, bytes_allocated, 0, [0, 1])

    def stepped(self, t: int, counters: dict[str, Any]) -> None:
        """Record that a step has begun; `counters` is an item of `of_steps`."""
        self.records.append({"kind": "ledger", "t": t, "allocation_failures": self.allocation_failures, **counters})

    def digest(self) -> bytes:
        """Return the digest of the records that no commit has sealed yet."""
        return canonical.digest(self.records[self._sealed :])

    def seal(self) -> None:
        """Mark all records so far as sealed by a commit."""
        self._sealed = len(self.records)

    def _add(self, t: int, step: int | None, allocated: int, peak: int, fragmentation: list[int]) -> None:
        self.stepped(
            t,
            {
                "step": step, "bytes_allocated": allocated, "peak_bytes": peak,
                "internal_fragmentation_ratio": fragmentation,
            },
        )  # fmt: skip


def of_steps(plan: Plan, bytes_allocated: int) -> Iterator[dict[str, Any]]:
    """Yield the counters of each step of a plan. O(storages + steps)."""
    s, count = plan.allocation.storages, max(1, len(plan.allocation.steps))
    live, held = [0] * (count + 1), [0] * (count + 1)
    claimed = None if plan.claims is None else plan.claims.slots
    taken = s.bytes if claimed is None else claimed.bytes[claimed.of]
    rows = zip(s.birth.tolist(), s.death.tolist(), s.bytes.tolist(), taken.tolist(), strict=True)
    for birth, death, size, slot in rows:
        live[birth] += size
        held[birth] += slot
        live[min(death, count - 1) + 1] -= size
        held[min(death, count - 1) + 1] -= slot
    peak = used = occupied = 0
    for step, (now, slots) in enumerate(zip(accumulate(live[:-1]), accumulate(held[:-1]), strict=True)):
        peak, used, occupied = max(peak, now), used + now, occupied + slots
        yield {
            "step": step,
            "bytes_allocated": bytes_allocated,
            "peak_bytes": peak,
            "internal_fragmentation_ratio": ratio(max(0, occupied - used), occupied),
        }
