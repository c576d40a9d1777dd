"""Every storage ends within its arena's footprint, which is just large enough and within the capacity.

The footprint is the end of the last slot; where slots have no address of their own, of the last storage. Where
addresses are scattered over 64 bits, storages end within those, and the footprint is the sum of all slots. All sums
are exact integers, so that an end beyond 64 bits is beyond every capacity instead of wrapping to a small one.
The arenas of a memory lie in it one behind the other.
spec: V1.3, A3.1, A1.3, A2.4, A8.6, M3.10
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from proofs.checker import arenas as homes
from proofs.checker.layouts import BY_SLOTS, scattered
from proofs.obligations.context import Context
from proofs.obligations.rows import Batch, Place, distinct, listed

NAME = "capacity"
SENTENCE = "Every storage ends within its arena's footprint, that within its capacity, and arenas within their memory."
LEMMAS: tuple[str, ...] = ()
TERMS = 50
"""The most sizes that one row adds up."""
DEFINITIONS = """
(define-fun ends_within ((offset Int) (bytes Int) (footprint Int)) Bool (<= (+ offset bytes) footprint))
(define-fun ends_in_64_bits ((offset Int) (bytes Int) (footprint Int)) Bool
  (<= (+ offset bytes) 18446744073709551616))
(define-fun ends_at ((offset Int) (bytes Int) (footprint Int)) Bool (= (+ offset bytes) footprint))
(define-fun holds_footprint ((footprint Int) (capacity Int)) Bool
  (and (<= footprint capacity) (< capacity 18446744073709551616)))
(define-fun lies_behind ((before Int) (needs Int) (base Int) (alignment Int) (footprint Int) (capacity Int)) Bool
  (and (<= (+ before needs) base) (= 0 (mod base alignment)) (<= (+ base footprint) capacity)))
"""


def rows(context: Context) -> Iterator[Batch]:
    """A row for each different extent of a storage, and two for each arena, three where it divides a memory."""
    plan, evidence = context.plan, context.certificate
    s, slots = plan.storages, plan.slots
    footprint = np.array([usage.footprint for usage in plan.usage], np.uint64)
    by_slots = plan.layout in BY_SLOTS
    # Where slots have no address, a storage of zero bytes counts as one byte (T7), as its slot does otherwise.
    extent = s.bytes if by_slots else np.maximum(s.bytes, np.uint64(1))
    wide = np.array([scattered(plan, a) for a in range(len(plan.arenas))], np.bool_)[s.arena]
    for macro, some in (("ends_within", np.flatnonzero(~wide)), ("ends_in_64_bits", np.flatnonzero(wide))):
        columns = [s.offset[some], extent[some], footprint[s.arena[some]]]
        yield from distinct(macro, columns, lambda i, some=some: Place(storages=(int(some[i]),)))  # type: ignore[misc]  # a default binds the loop's value
    used = np.diff(evidence.tenants_at) > 0
    found: list[tuple[str, Place]] = []
    for a, (arena, usage, order) in enumerate(zip(plan.arenas, plan.usage, evidence.slots, strict=True)):
        found.append((f"(holds_footprint {usage.footprint} {arena.capacity})", Place()))
        here = order[used[order]]
        if scattered(plan, a):
            found += _sum(slots.bytes[here].tolist(), usage.footprint)
            continue
        members = np.flatnonzero(s.arena == a).tolist()
        if not (len(here) if by_slots else members):
            found.append((f"(= 0 {usage.footprint})", Place()))
            continue
        if not by_slots:
            tenant = max(members, key=lambda k: int(s.offset[k]) + int(extent[k]))
            row = f"(ends_at {int(s.offset[tenant])} {int(extent[tenant])} {usage.footprint})"
            found.append((row, Place(storages=(tenant,))))
            continue
        # The last slot's storages start where it starts, and the slot is counted whole.
        last = int(here[-1])
        tenant = int(evidence.tenants[evidence.tenants_at[last]])
        row = f"(ends_at {int(s.offset[tenant])} {int(slots.bytes[last])} {usage.footprint})"
        found.append((row, Place(storages=(tenant,))))
    for at in homes.places(plan):
        needed = plan.usage[at.arena].footprint
        row = f"(lies_behind {at.before} {at.needs} {at.base} {at.alignment} {needed} {at.capacity})"
        found.append((row, Place(storages=np.flatnonzero(s.arena == at.arena)[:1].tolist())))
    yield from listed(found)


def _sum(sizes: list[int], total: int) -> Iterator[tuple[str, Place]]:
    """Rows that say that `sizes` add up to `total`, a few at a time."""
    so_far = 0
    for first in range(0, len(sizes), TERMS):
        some = sizes[first : first + TERMS]
        yield f"(= {so_far + sum(some)} (+ {so_far} {' '.join(map(str, some))}))", Place()
        so_far += sum(some)
    yield f"(= {so_far} {total})", Place()
