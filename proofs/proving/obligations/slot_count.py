"""Show that each arena has as many slots as stated and, if a plan claims so, that no fewer would do.

A slot holds one storage at a time, so that there are never fewer slots than storages live at one step. (This is
`tenancy`, which is asked here if `no_live_overlap` is shown without slots.) If every slot holds a live storage at some
step, there are not more slots either, because no assignment has fewer (`clique_bound`). Without that claim, the most
live storages are counted. A slot has exactly the bytes of one of its storages, and none of them is larger (`tenancy`
again). Its alignment is that of one of them or of the arena. An arena without reuse gives every storage a separate
slot. Of a plan with streams, `slots_of_streams` shows both. spec: V5.1, T5.2, T6.3, T6.4, M3.1, X5.10, X5.11
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from proofs.proving.certificate.slots import running_totals, step_of_largest_total
from proofs.proving.lemmas.plan import chains
from proofs.proving.obligations import levels, no_live_overlap, slots_of_streams
from proofs.proving.obligations.arms import Rows
from proofs.proving.obligations.context import Context, StorageContext
from proofs.proving.obligations.rows import Batch, Place, batch_rows, call_for_each_distinct_row, call_for_each_row
from tmmu.core.columns import are_among
from tmmu.plans.columns import Slots
from tmmu.plans.sections import Usage

SENTENCE = "The number of slots is as stated and, if claimed, equals the most storages live; no slot is too large."
LEMMAS: tuple[str, ...] = (
    "at_most_one_tenant", "tenancies_join", *chains.lemmas_of("tenancy"), "no_assignment_has_fewer_slots_than_are_live",
    *levels.LEMMAS, *slots_of_streams.LEMMAS,
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
    """Yield up to three rows for each claimed slot, and two cells for each storage if slots do not show minimality."""
    if context.claims is None:
        return
    slots = context.claims.slots
    if slots is not None:
        if not context.by_slots:
            yield from no_live_overlap.tenancy_rows(context)
        yield from no_live_overlap.separate_slot_rows(context)
        yield from _just_enough(context, slots)
        if isinstance(context, Context) and context.plan.allocation.streams:
            yield from slots_of_streams.turn_rows(context, slots)
    unit = np.ones(len(context.placement.storages), np.uint64)
    for arena, usage in enumerate(context.claims.usage):
        step = usage.max_live_step
        at = step_of_largest_total(context.certificate.changes[arena], unit) if step is None else step
        if slots is not None:
            yield from _counted(context, slots, arena, usage, at)
        elif usage.slots is not None:
            yield from _sufficient(context, arena, usage, at)
        if usage.max_live is not None and (slots is None or not usage.minimal or usage.antichain is not None):
            yield from levels.level_rows(context, arena, unit, usage.max_live, at)


def _sufficient(context: StorageContext, arena: int, usage: Usage, step: int) -> Iterator[Batch]:
    """Show that a number of slots, stated without a table, suffices.

    If the claim is minimal, the number is that of storages live at `step`, and never more are live. Otherwise it is
    between that and one slot for each storage.
    """
    changes = context.certificate.changes[arena]
    unit = np.ones(len(context.placement.storages), np.uint64)
    most = max(running_totals([-1 if frees else 1 for frees in changes.frees.tolist()]))
    yield from levels.level_rows(context, arena, unit, most, step)
    count = int((context.placement.storages.arena == arena).sum())
    yield from batch_rows([(f"(<= {most} {usage.slots} {most if usage.minimal else count})", Place(step=step))])


def _counted(context: StorageContext, slots: Slots, arena: int, usage: Usage, step: int) -> Iterator[Batch]:
    """Show that the table has the stated number of slots. If claimed, one storage of each slot is live at `step`."""
    s, live = context.placement.storages, context.certificate.live
    mine = np.flatnonzero(slots.arena == arena)
    stated = len(mine) if usage.slots is None else usage.slots
    most = stated if usage.max_live is None else usage.max_live
    if usage.antichain is not None and isinstance(context, Context):
        yield from slots_of_streams.antichain_rows(context, arena, usage, stated)
    yield from batch_rows([(f"(slots_as_stated {len(mine)} {stated} {most})", Place(step=step))])
    if not usage.minimal or usage.antichain is not None:
        return
    witness = live[mine]
    witness = witness[witness >= 0]
    lacking = mine[~are_among(mine, slots.of[witness])]
    if len(lacking):
        tenants = np.flatnonzero(slots.of == lacking[0])[:1].tolist()
        yield from batch_rows([("false", Place(storages=tenants, step=step))])
    yield from batch_rows([(f"(= {stated} {most})", Place(step=step))])
    at = np.full(len(witness), step, np.uint64)
    yield from call_for_each_row("lives_at", [s.birth[witness], s.death[witness], at], _tenant(witness, step))


def _just_enough(context: StorageContext, slots: Slots) -> Iterator[Batch]:
    """Show that each slot has exactly the bytes of one of its storages, and the alignment of one or of the arena."""
    s = context.placement.storages
    widest, strictest = context.certificate.widest, context.certificate.strictest
    own = np.arange(len(slots))
    for tenant in (widest, strictest):
        if not np.array_equal(slots.of[tenant[tenant >= 0]], own):
            yield from batch_rows([("false", Place())])
            return
    arena_alignment = np.array([arena.alignment for arena in context.placement.arenas], np.uint64)[slots.arena]
    columns = [slots.bytes, s.bytes[widest]]
    yield from call_for_each_distinct_row("slot_as_large", columns, lambda i: Place(storages=(int(widest[i]),)))
    columns = [slots.alignment, s.alignment[strictest], arena_alignment]
    yield from call_for_each_distinct_row("slot_as_strict", columns, lambda i: Place(storages=(int(strictest[i]),)))


def _tenant(witness: Rows, step: int) -> Callable[[int], Place]:
    return lambda i: Place(storages=(int(witness[i]),), step=step)
