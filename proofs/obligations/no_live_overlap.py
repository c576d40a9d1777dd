"""No byte of an arena belongs to two storages that live at one step.

How that is shown depends on the layout. In `slots` the storages of a slot take turns in time (`tenancy`), and the
slots of an arena lie one behind the other (`layout`): two storages that live at one step are in two slots then, and
two slots have no byte in common. A storage of zero bytes is counted as one, as the planner does. spec: V1.1, T7.1, A1.2
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from proofs.obligations.context import Context
from proofs.obligations.rows import Batch, Chain, Place, Unprovable, calls, distinct, false, walk

NAME = "no_live_overlap"
SENTENCE = "No byte of an arena belongs to two storages that live at one step."
LEMMAS: tuple[str, ...] = (
    "tenants_are_apart_in_time", "tenants_fit", "tenancies_join", "slots_are_apart_in_bytes", "slots_end_in_time",
    "layouts_join", "storages_of_two_slots_are_apart",
)  # fmt: skip
DEFINITIONS = """
(define-fun in_arena ((storage_arena Int) (slot_arena Int)) Bool (= storage_arena slot_arena))
"""


def rows(context: Context) -> Iterator[Batch]:
    """The rows of the plan's layout; `Unprovable` where there is no proof for it."""
    if context.plan.layout not in LAYOUTS:
        raise Unprovable(f"there is no proof for the layout {context.plan.layout!r}")
    yield from LAYOUTS[context.plan.layout](context)


def by_slots(context: Context) -> Iterator[Batch]:
    """Each slot's storages by birth, each arena's slots by offset: O(storages + slots) cells."""
    plan, evidence = context.plan, context.certificate
    s, slots, order = plan.storages, plan.slots, evidence.tenants
    if not np.array_equal(np.sort(order), np.arange(len(s))) or not _grouped(context):
        yield from false(Place())  # the evidence leaves a storage out, or puts one into another's slot
        return
    yield from distinct("in_arena", [s.arena, slots.arena[s.slot]], lambda i: Place(storages=(i,)))
    start, size = evidence.slot_offset, slots.bytes

    def tenants(lo: int, hi: int) -> list[str]:
        at = order[lo:hi]
        extent = np.maximum(s.bytes[at], np.uint64(1))
        return calls("(tenant %d %d %d %d %d ", [s.birth[at], s.death[at], s.offset[at], extent, s.alignment[at]])

    yield from walk(
        Chain(
            "tenancy", "vacant", evidence.tenants_at, tenants,
            states=lambda at: [str(death) for death in s.death[order[at]].tolist()],
            initial=lambda _: "(- 1)",
            constants=lambda slot: f" {int(start[slot])} {int(size[slot])}",
        ),
        lambda lo, hi: Place(storages=order[lo:hi].tolist()),
    )  # fmt: skip
    yield from _slots(context)


def _grouped(context: Context) -> bool:
    """Whether the evidence lists under each slot just the storages that the plan puts there."""
    evidence, slots = context.certificate, len(context.plan.slots)
    counts = np.diff(evidence.tenants_at)
    held = np.repeat(np.arange(slots), counts)
    return bool(np.array_equal(held, context.plan.storages.slot[evidence.tenants]))


def _slots(context: Context) -> Iterator[Batch]:
    plan, evidence = context.plan, context.certificate
    slots, offset = plan.slots, evidence.slot_offset
    # A slot that holds no storage has no address, and no byte of it is used.
    used = np.diff(evidence.tenants_at) > 0
    lists = [rows[used[rows]] for rows in evidence.slots]
    order = np.concatenate([np.empty(0, np.int64), *lists])
    if not np.array_equal(np.sort(order), np.flatnonzero(used)):
        yield from false(Place())
        return
    if any((slots.arena[rows] != arena).any() for arena, rows in enumerate(lists)):
        yield from false(Place())
        return

    def cells(lo: int, hi: int) -> list[str]:
        at = order[lo:hi]
        return calls("(slot %d %d %d ", [offset[at], slots.bytes[at], slots.alignment[at]])

    def ends(at: np.ndarray) -> list[str]:
        rows = order[at]
        return [str(o + z) for o, z in zip(offset[rows].tolist(), slots.bytes[rows].tolist(), strict=True)]

    yield from walk(
        Chain(
            "layout", "no_slots", np.cumsum([0, *map(len, lists)]), cells,
            states=ends, initial=lambda _: "0", constants=lambda _: "",
        ),
        lambda lo, hi: Place(storages=evidence.tenants[evidence.tenants_at[order[lo:hi]]].tolist()),
    )  # fmt: skip


LAYOUTS: dict[str, Callable[[Context], Iterator[Batch]]] = {"slots": by_slots}
"""How the absence of overlap is shown in each layout; to prove another is to add a file and an entry."""
