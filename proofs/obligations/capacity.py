"""Every storage ends within its arena's footprint, which is the end of the last slot and within the capacity.

All sums are exact integers, so that an end beyond 64 bits is beyond every capacity instead of wrapping to a small
one. spec: V1.3, A3.1, A1.3
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from proofs.obligations.context import Context
from proofs.obligations.rows import Batch, Place, distinct, listed

NAME = "capacity"
SENTENCE = "Every storage ends within the footprint of its arena, and that within its capacity."
LEMMAS: tuple[str, ...] = ()
DEFINITIONS = """
(define-fun ends_within ((offset Int) (bytes Int) (footprint Int)) Bool (<= (+ offset bytes) footprint))
(define-fun ends_at ((offset Int) (bytes Int) (footprint Int)) Bool (= (+ offset bytes) footprint))
(define-fun holds_footprint ((footprint Int) (capacity Int)) Bool
  (and (<= footprint capacity) (< capacity 18446744073709551616)))
"""


def rows(context: Context) -> Iterator[Batch]:
    """A row for each different extent of a storage, and two for each arena."""
    plan, evidence = context.plan, context.certificate
    s, slots = plan.storages, plan.slots
    footprint = np.array([usage.footprint for usage in plan.usage], np.uint64)
    yield from distinct("ends_within", [s.offset, s.bytes, footprint[s.arena]], lambda i: Place(storages=(i,)))
    used = np.diff(evidence.tenants_at) > 0
    found = []
    for arena, usage, order in zip(plan.arenas, plan.usage, evidence.slots, strict=True):
        found.append((f"(holds_footprint {usage.footprint} {arena.capacity})", Place()))
        here = order[used[order]]
        if not len(here):
            found.append((f"(= 0 {usage.footprint})", Place()))
            continue
        # The last slot's storages start where it starts, and the slot is counted whole.
        last = int(here[-1])
        tenant = int(evidence.tenants[evidence.tenants_at[last]])
        row = f"(ends_at {int(s.offset[tenant])} {int(slots.bytes[last])} {usage.footprint})"
        found.append((row, Place(storages=(tenant,))))
    yield from listed(found)
