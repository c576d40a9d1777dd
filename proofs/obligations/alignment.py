"""Every address is a multiple of the alignment that its tensor, its storage, its slot and its arena require.

Alignments are powers of two, so that the stricter of two is a multiple of the other: a slot is at least as strict as
its arena and as every storage in it, a storage as every tensor in it. A base address that suits the strictest slot
then suits every tensor. spec: V1.2, T2.3, T6.3
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from proofs.checker.layouts import BY_SLOTS
from proofs.obligations.context import Context
from proofs.obligations.rows import Batch, Place, distinct, table

NAME = "alignment"
SENTENCE = "Every address is a multiple of the alignment that its tensor, storage, slot and arena require."
LEMMAS: tuple[str, ...] = ()
DEFINITIONS = """
(define-fun power_of_two ((alignment Int)) Bool (and (<= 1 alignment) (= 0 (mod 18446744073709551616 alignment))))
(define-fun storage_aligned ((offset Int) (alignment Int) (slot_alignment Int)) Bool
  (and (= 0 (mod offset alignment)) (= 0 (mod slot_alignment alignment))))
(define-fun tensor_aligned ((offset Int) (window Int) (alignment Int) (storage_alignment Int)) Bool
  (and (= 0 (mod (+ offset window) alignment)) (= 0 (mod storage_alignment alignment))))
(define-fun slot_aligned ((offset Int) (alignment Int) (arena_alignment Int)) Bool
  (and (= 0 (mod offset alignment)) (= 0 (mod alignment arena_alignment))))
(define-fun aligned_in_arena ((offset Int) (arena_alignment Int)) Bool (= 0 (mod offset arena_alignment)))
"""


def rows(context: Context) -> Iterator[Batch]:
    """A row for each different case among storages, tensors and occupied slots, and for each alignment that occurs."""
    plan, evidence = context.plan, context.certificate
    t, s, slots = plan.tensors, plan.storages, plan.slots
    arena_alignment = np.array([arena.alignment for arena in plan.arenas], np.uint64)
    used = np.flatnonzero(np.diff(evidence.tenants_at))
    occurring = np.unique(np.concatenate([t.alignment, s.alignment, slots.alignment, arena_alignment]))

    def with_alignment(i: int) -> Place:
        value = occurring[i]
        return Place(
            np.flatnonzero(t.alignment == value)[:1].tolist(), np.flatnonzero(s.alignment == value)[:1].tolist()
        )

    yield from table("power_of_two", [occurring], with_alignment)
    columns = [s.offset, s.alignment, slots.alignment[s.slot]]
    yield from distinct("storage_aligned", columns, lambda i: Place(storages=(i,)))
    home = t.storage
    columns = [s.offset[home], t.window, t.alignment, s.alignment[home]]
    yield from distinct("tensor_aligned", columns, lambda i: Place((i,)))
    first = evidence.tenants[evidence.tenants_at[used]]
    # Where a slot has no address of its own, the arena's alignment is asked of each storage instead.
    start = evidence.slot_offset[used] if plan.layout in BY_SLOTS else np.zeros(len(used), np.uint64)
    columns = [start, slots.alignment[used], arena_alignment[slots.arena[used]]]
    yield from distinct("slot_aligned", columns, lambda i: Place(storages=(int(first[i]),)))
    if plan.layout not in BY_SLOTS:
        columns = [s.offset, arena_alignment[s.arena]]
        yield from distinct("aligned_in_arena", columns, lambda i: Place(storages=(i,)))
