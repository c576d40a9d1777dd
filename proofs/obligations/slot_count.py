"""The slots of each arena are as many as stated; where a plan claims that no fewer would do, they are.

A slot holds one storage at a time (`tenancy`, asked here where `no_live_overlap` is shown without slots), so that slots
are never fewer than the storages live at one step. Where at one step every slot holds a live storage, they are not
more either: no assignment has fewer slots (`clique_bound`). Where the claim is not made, the most live is counted. A
slot is as large as one storage in it, than which none is larger (`tenancy` again), and as strict as one of them or the
arena. An arena that does not reuse gives every storage a slot of its own. spec: V5.1, T5.2, T6.3, T6.4, M3.1
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from proofs.checker.layouts import BY_SLOTS
from proofs.obligations import levels, no_live_overlap
from proofs.obligations.arms import Rows
from proofs.obligations.context import Context
from proofs.obligations.rows import Batch, Place, distinct, listed, table

NAME = "slot_count"
SENTENCE = "Slots are as many as stated, and as the most storages live where that is claimed, and none is too large."
LEMMAS: tuple[str, ...] = (
    "at_most_one_tenant", "tenancies_join", "no_assignment_has_fewer_slots_than_are_live", *levels.LEMMAS,
)  # fmt: skip
DEFINITIONS = """
(define-fun lives_at ((birth Int) (death Int) (step Int)) Bool (and (<= birth step) (<= step death)))
(define-fun slots_as_stated ((counted Int) (stated Int) (most_live Int)) Bool
  (and (= counted stated) (<= most_live stated)))
(define-fun slots_of_their_own ((storages Int) (occupied Int)) Bool (= storages occupied))
(define-fun slot_as_large ((slot_bytes Int) (bytes Int)) Bool (= slot_bytes (ite (= 0 bytes) 1 bytes)))
(define-fun slot_as_strict ((slot_alignment Int) (alignment Int) (arena_alignment Int)) Bool
  (or (= slot_alignment alignment) (= slot_alignment arena_alignment)))
"""


def rows(context: Context) -> Iterator[Batch]:
    """Up to three rows for each slot; two cells for each storage where minimality is not claimed."""
    plan, live = context.plan, context.certificate.live
    s, unit = plan.storages, np.ones(len(plan.storages), np.uint64)
    if plan.layout not in BY_SLOTS:
        yield from no_live_overlap.tenancies(context)
    yield from _just_enough(context)
    for arena, usage in enumerate(plan.usage):
        mine = np.flatnonzero(plan.slots.arena == arena)
        most, step = usage.max_live, usage.max_live_step
        yield from listed([(f"(slots_as_stated {len(mine)} {usage.slots} {most})", Place(step=step))])
        if not plan.arenas[arena].reuse:
            tenants = np.flatnonzero(np.isin(s.slot, mine))
            row = f"(slots_of_their_own {len(tenants)} {len(np.unique(s.slot[tenants]))})"
            yield from listed([(row, Place(storages=tenants[:2].tolist()))])
        if not usage.minimal:
            yield from levels.reached(context, arena, unit, most, step)
            continue
        witness = live[mine]
        witness = witness[witness >= 0]
        lacking = mine[~np.isin(mine, s.slot[witness])]
        if len(lacking):
            tenants = np.flatnonzero(s.slot == lacking[0])[:1].tolist()
            yield from listed([("false", Place(storages=tenants, step=step))])
        yield from listed([(f"(= {usage.slots} {most})", Place(step=step))])
        at = np.full(len(witness), step, np.uint64)
        yield from table("lives_at", [s.birth[witness], s.death[witness], at], _tenant(witness, step))


def _just_enough(context: Context) -> Iterator[Batch]:
    """Each slot holds a storage that needs all of its bytes, and what needs its alignment."""
    slots, s = context.plan.slots, context.plan.storages
    widest, strictest = context.certificate.widest, context.certificate.strictest
    own = np.arange(len(slots))
    for tenant in (widest, strictest):
        if not np.array_equal(s.slot[tenant[tenant >= 0]], own):
            yield from listed([("false", Place())])
            return
    arena_alignment = np.array([arena.alignment for arena in context.plan.arenas], np.uint64)[slots.arena]
    columns = [slots.bytes, s.bytes[widest]]
    yield from distinct("slot_as_large", columns, lambda i: Place(storages=(int(widest[i]),)))
    columns = [slots.alignment, s.alignment[strictest], arena_alignment]
    yield from distinct("slot_as_strict", columns, lambda i: Place(storages=(int(strictest[i]),)))


def _tenant(witness: Rows, step: int) -> Callable[[int], Place]:
    return lambda i: Place(storages=(int(witness[i]),), step=step)
