"""Show that no byte of an arena belongs to two storages that live at one step.

The rows depend on the layout. In `slots` and `hashed` the storages of a slot take turns in time (`tenancy`), and the
slots of an arena follow one behind the other (`layout`). Two storages that live at one step are then in two slots, and
two slots have no byte in common. A storage of zero bytes is counted as one byte, as the planner does. In every other
layout the edges between neighbours show it (`proofs.proving.obligations.by_edges`).
spec: V1.1, T7.1, A1.2, A2.3
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from proofs.proving.lemmas.plan import chains
from proofs.proving.obligations import by_edges
from proofs.proving.obligations.context import StorageContext
from proofs.proving.obligations.rows import (
    Batch,
    Chain,
    Place,
    batch_rows,
    call_for_each_distinct_row,
    false_rows,
    format_calls,
    walk_chain,
)
from tmmu.core.columns import find_distinct
from tmmu.plans.columns import Slots

SENTENCE = "No byte of an arena belongs to two storages that live at one step."
LEMMAS: tuple[str, ...] = (
    "tenants_are_apart_in_time", "tenants_fit", "tenancies_join", "slots_are_apart_in_bytes", "slots_end_in_time",
    "layouts_join", "storages_of_two_slots_are_apart", *chains.lemmas_of("tenancy"), *chains.lemmas_of("layout"),
    *by_edges.LEMMAS,
)  # fmt: skip
DEFINITIONS = """
(define-fun slots_of_their_own ((storages Int) (occupied Int)) Bool (= storages occupied))
(define-fun in_arena ((storage_arena Int) (slot_arena Int)) Bool (= storage_arena slot_arena))
"""


def rows(context: StorageContext) -> Iterator[Batch]:
    """Yield the rows that show it: by slots if slots have addresses, otherwise by edges."""
    if context.by_slots:
        yield from tenancy_rows(context)
        yield from _slots(context)
        yield from separate_slot_rows(context)
    else:
        yield from by_edges.rows(context)


def tenancy_rows(context: StorageContext) -> Iterator[Batch]:
    """Show that the storages of each slot take turns in it and fit: O(storages) cells.

    If slots have no addresses, each slot, and each storage in it, is taken to begin at byte 0.
    """
    evidence, addressed = context.certificate, context.by_slots
    s, slots, order = context.placement.storages, slots_of(context), evidence.tenants
    if not np.array_equal(np.sort(order), np.arange(len(s))) or not _grouped(context):
        yield from false_rows(Place())  # the evidence omits a storage, or puts one into another's slot
        return
    yield from call_for_each_distinct_row("in_arena", [s.arena, slots.arena[slots.of]], lambda i: Place(storages=(i,)))
    size = slots.bytes
    start = evidence.slot_offset if addressed else np.zeros(len(slots), np.uint64)
    offset = s.offset if addressed else np.zeros(len(s), np.uint64)

    def tenants(lo: int, hi: int) -> list[str]:
        at = order[lo:hi]
        extent = np.maximum(s.bytes[at], np.uint64(1))
        return format_calls("%d %d %d %d %d", [s.birth[at], s.death[at], offset[at], extent, s.alignment[at]])

    yield from walk_chain(
        Chain(
            "tenancy", evidence.tenants_at, tenants,
            states=lambda at: [str(death) for death in s.death[order[at]].tolist()],
            initial=lambda _: "(- 1)",
            constants=lambda slot: f" {int(start[slot])} {int(size[slot])}",
        ),
        lambda lo, hi: Place(storages=order[lo:hi].tolist()),
    )  # fmt: skip


def separate_slot_rows(context: StorageContext) -> Iterator[Batch]:
    """Show, with a row for each arena without reuse, that each of its storages has a separate slot. spec: P2.4"""
    slots = slots_of(context)
    for a, arena in enumerate(context.placement.arenas):
        if not arena.reuse:
            tenants = np.flatnonzero(slots.arena[slots.of] == a)
            row = f"(slots_of_their_own {len(tenants)} {len(find_distinct(slots.of[tenants])[0])})"
            yield from batch_rows([(row, Place(storages=tenants[:2].tolist()))])


def slots_of(context: StorageContext) -> Slots:
    """Return the claimed slots. Call it only if slots are claimed."""
    claimed = None if context.claims is None else context.claims.slots
    assert claimed is not None  # checked by the callers
    return claimed


def _grouped(context: StorageContext) -> bool:
    """Whether the evidence lists under each slot exactly the storages that the plan puts there."""
    evidence, slots = context.certificate, len(slots_of(context))
    counts = np.diff(evidence.tenants_at)
    held = np.repeat(np.arange(slots), counts)
    return bool(np.array_equal(held, slots_of(context).of[evidence.tenants]))


def _slots(context: StorageContext) -> Iterator[Batch]:
    """Show that the slots of each arena, by offset, follow one behind the other: O(slots) cells."""
    evidence = context.certificate
    slots, offset = slots_of(context), evidence.slot_offset
    # A slot without a storage has no address, and none of its bytes is used.
    used = np.diff(evidence.tenants_at) > 0
    lists = [rows[used[rows]] for rows in evidence.slots]
    order = np.concatenate([np.empty(0, np.int64), *lists])
    if not np.array_equal(np.sort(order), np.flatnonzero(used)):
        yield from false_rows(Place())
        return
    if any((slots.arena[rows] != arena).any() for arena, rows in enumerate(lists)):
        yield from false_rows(Place())
        return

    def cells(lo: int, hi: int) -> list[str]:
        at = order[lo:hi]
        return format_calls("%d %d %d", [offset[at], slots.bytes[at], slots.alignment[at]])

    def ends(at: np.ndarray) -> list[str]:
        rows = order[at]
        return [str(o + z) for o, z in zip(offset[rows].tolist(), slots.bytes[rows].tolist(), strict=True)]

    yield from walk_chain(
        Chain(
            "layout", np.cumsum([0, *map(len, lists)]), cells,
            states=ends, initial=lambda _: "0", constants=lambda _: "",
        ),
        lambda lo, hi: Place(storages=evidence.tenants[evidence.tenants_at[order[lo:hi]]].tolist()),
    )  # fmt: skip
