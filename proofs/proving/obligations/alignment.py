"""Show that every address is a multiple of the alignment that its tensor, storage, slot and arena require.

An address in memory is the base of its arena plus an offset. If a plan states the alignment of a base, that must be a
multiple of what the arena and each of its storages require; `at_aligned_bases` states that every address in memory is
then aligned.

Alignments are powers of two, so that the stricter of two is a multiple of the other. A slot is at least as strict as
its arena and as every storage in it, and a storage as every tensor in it. A base address that suits the strictest slot
therefore suits every tensor. spec: V1.2, V1.17, T2.3, T6.3
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from proofs.proving.obligations.context import Context, StorageContext
from proofs.proving.obligations.rows import Batch, Column, Place, call_for_each_distinct_row, call_for_each_row
from tmmu.core.columns import find_distinct

SENTENCE = "Every address is a multiple of the alignment that its tensor, storage, slot and arena require."
LEMMAS: tuple[str, ...] = ("at_aligned_bases_every_address_is_aligned",)
DEFINITIONS = """
(define-fun power_of_two ((alignment Int)) Bool (and (<= 1 alignment) (= 0 (mod 18446744073709551616 alignment))))
(define-fun storage_aligned ((offset Int) (alignment Int) (slot_alignment Int)) Bool
  (and (= 0 (mod offset alignment)) (= 0 (mod slot_alignment alignment))))
(define-fun tensor_aligned ((offset Int) (window Int) (alignment Int) (storage_alignment Int)) Bool
  (and (= 0 (mod (+ offset window) alignment)) (= 0 (mod storage_alignment alignment))))
(define-fun slot_aligned ((offset Int) (alignment Int) (arena_alignment Int)) Bool
  (and (= 0 (mod offset alignment)) (= 0 (mod alignment arena_alignment))))
(define-fun aligned_in_arena ((offset Int) (arena_alignment Int)) Bool (= 0 (mod offset arena_alignment)))
(define-fun base_aligned ((base Int) (alignment Int)) Bool (= 0 (mod base alignment)))
"""


def rows(context: StorageContext) -> Iterator[Batch]:
    """Yield a row for each distinct case of storages, tensors and occupied slots, and one for each alignment."""
    s, slots = context.placement.storages, None if context.claims is None else context.claims.slots
    tensors = context.plan.allocation.tensors if isinstance(context, Context) else None
    arena_alignment = np.array([arena.alignment for arena in context.placement.arenas], np.uint64)
    of_tensors = np.zeros(0, np.uint64) if tensors is None else tensors.alignment
    of_slots = np.zeros(0, np.uint64) if slots is None else slots.alignment
    stated = np.array([arena.stated_base for arena in context.placement.arenas], np.uint64)
    found = [of_tensors, s.alignment, of_slots, arena_alignment, stated[stated > 0]]
    occurring, _ = find_distinct(np.concatenate(found))

    def with_alignment(i: int) -> Place:
        value = occurring[i]
        return Place(
            np.flatnonzero(of_tensors == value)[:1].tolist(), np.flatnonzero(s.alignment == value)[:1].tolist()
        )

    yield from call_for_each_row("power_of_two", [occurring], with_alignment)
    columns = [s.offset, s.alignment, s.alignment if slots is None else slots.alignment[slots.of]]
    yield from call_for_each_distinct_row("storage_aligned", columns, lambda i: Place(storages=(i,)))
    yield from _bases(context, arena_alignment, stated)
    if tensors is not None:
        home = tensors.storage
        columns = [s.offset[home], tensors.window, tensors.alignment, s.alignment[home]]
        yield from call_for_each_distinct_row("tensor_aligned", columns, lambda i: Place((i,)))
    if slots is not None:
        evidence = context.certificate
        used = np.flatnonzero(np.diff(evidence.tenants_at))
        first = evidence.tenants[evidence.tenants_at[used]]
        # If slots have no addresses, each storage must satisfy the arena's alignment instead.
        start = evidence.slot_offset[used] if context.by_slots else np.zeros(len(used), np.uint64)
        columns = [start, slots.alignment[used], arena_alignment[slots.arena[used]]]
        yield from call_for_each_distinct_row("slot_aligned", columns, lambda i: Place(storages=(int(first[i]),)))
    if not context.by_slots:
        columns = [s.offset, arena_alignment[s.arena]]
        yield from call_for_each_distinct_row("aligned_in_arena", columns, lambda i: Place(storages=(i,)))


def _bases(context: StorageContext, required: Column, stated: Column) -> Iterator[Batch]:
    """Yield a row for each arena with a stated base, and one for each alignment in it, strictest first."""
    s, bases = context.placement.storages, np.flatnonzero(stated)
    yield from call_for_each_row("base_aligned", [stated[bases], required[bases]], lambda i: Place())
    for a in bases.tolist():
        held = np.flatnonzero(s.arena == a)
        alignment, first = find_distinct(s.alignment[held])
        columns = [np.full(len(alignment), stated[a]), alignment[::-1]]
        yield from call_for_each_row("base_aligned", columns, _place(held[first[::-1]]))


def _place(storages: Column) -> Callable[[int], Place]:
    return lambda i: Place(storages=(int(storages[i]),))
