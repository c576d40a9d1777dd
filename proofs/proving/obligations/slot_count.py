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

from proofs.proving.certificate.slots import most_at, running
from proofs.proving.lemmas.plan import chains
from proofs.proving.obligations import levels, no_live_overlap
from proofs.proving.obligations.arms import Rows
from proofs.proving.obligations.context import StorageContext
from proofs.proving.obligations.rows import Batch, Place, distinct, listed, table
from tmmu.plans.columns import Slots
from tmmu.plans.sections import Usage

SENTENCE = "Slots are as many as stated, and as the most storages live where that is claimed, and none is too large."
LEMMAS: tuple[str, ...] = (
    "at_most_one_tenant", "tenancies_join", *chains.lemmas_of("tenancy"), "no_assignment_has_fewer_slots_than_are_live",
    *levels.LEMMAS,
)  # fmt: skip
DEFINITIONS = """
(define-fun lives_at ((birth Int) (death Int) (step Int)) Bool (and (<= birth step) (<= step death)))
(define-fun slots_as_stated ((counted Int) (stated Int) (most_live Int)) Bool
  (and (= counted stated) (<= most_live stated)))
(define-fun slot_as_large ((slot_bytes Int) (bytes Int)) Bool (= slot_bytes (ite (= 0 bytes) 1 bytes)))
(define-fun slot_as_strict ((slot_alignment Int) (alignment Int) (arena_alignment Int)) Bool
  (or (= slot_alignment alignment) (= slot_alignment arena_alignment)))
"""


def rows(context: StorageContext) -> Iterator[Batch]:
    """Up to three rows for each claimed slot; two cells for each storage where minimality is not shown by slots."""
    if context.claims is None:
        return
    slots = context.claims.slots
    if slots is not None:
        if not context.by_slots:
            yield from no_live_overlap.tenancies(context)
        yield from no_live_overlap.never_reused(context)
        yield from _just_enough(context, slots)
    unit = np.ones(len(context.placement.storages), np.uint64)
    for arena, usage in enumerate(context.claims.usage):
        step = usage.max_live_step
        at = most_at(context.certificate.changes[arena], unit) if step is None else step
        if slots is not None:
            yield from _counted(context, slots, arena, usage, at)
        elif usage.slots is not None:
            yield from _sufficient(context, arena, usage, at)
        if usage.max_live is not None and (slots is None or not usage.minimal):
            yield from levels.reached(context, arena, unit, usage.max_live, at)


def _sufficient(context: StorageContext, arena: int, usage: Usage, step: int) -> Iterator[Batch]:
    """A number of slots without their table: as many as live at `step`, and never more, or from that to one each."""
    changes = context.certificate.changes[arena]
    unit = np.ones(len(context.placement.storages), np.uint64)
    most = max(running([-1 if frees else 1 for frees in changes.frees.tolist()]))
    yield from levels.reached(context, arena, unit, most, step)
    count = int((context.placement.storages.arena == arena).sum())
    yield from listed([(f"(<= {most} {usage.slots} {most if usage.minimal else count})", Place(step=step))])


def _counted(context: StorageContext, slots: Slots, arena: int, usage: Usage, step: int) -> Iterator[Batch]:
    """The slots of the table are as many as stated; where it is claimed, one of each is live at `step`."""
    s, live = context.placement.storages, context.certificate.live
    mine = np.flatnonzero(slots.arena == arena)
    stated = len(mine) if usage.slots is None else usage.slots
    most = stated if usage.max_live is None else usage.max_live
    yield from listed([(f"(slots_as_stated {len(mine)} {stated} {most})", Place(step=step))])
    if not usage.minimal:
        return
    witness = live[mine]
    witness = witness[witness >= 0]
    lacking = mine[~np.isin(mine, slots.of[witness])]
    if len(lacking):
        tenants = np.flatnonzero(slots.of == lacking[0])[:1].tolist()
        yield from listed([("false", Place(storages=tenants, step=step))])
    yield from listed([(f"(= {stated} {most})", Place(step=step))])
    at = np.full(len(witness), step, np.uint64)
    yield from table("lives_at", [s.birth[witness], s.death[witness], at], _tenant(witness, step))


def _just_enough(context: StorageContext, slots: Slots) -> Iterator[Batch]:
    """Each slot holds a storage that needs all of its bytes, and what needs its alignment."""
    s = context.placement.storages
    widest, strictest = context.certificate.widest, context.certificate.strictest
    own = np.arange(len(slots))
    for tenant in (widest, strictest):
        if not np.array_equal(slots.of[tenant[tenant >= 0]], own):
            yield from listed([("false", Place())])
            return
    arena_alignment = np.array([arena.alignment for arena in context.placement.arenas], np.uint64)[slots.arena]
    columns = [slots.bytes, s.bytes[widest]]
    yield from distinct("slot_as_large", columns, lambda i: Place(storages=(int(widest[i]),)))
    columns = [slots.alignment, s.alignment[strictest], arena_alignment]
    yield from distinct("slot_as_strict", columns, lambda i: Place(storages=(int(strictest[i]),)))


def _tenant(witness: Rows, step: int) -> Callable[[int], Place]:
    return lambda i: Place(storages=(int(witness[i]),), step=step)
