"""Show that no byte belongs to two live storages, for packed plans: by the edges between neighbours.

For each storage, the edges above it and the edges below it tile its lifetime (`stacking` and `tiling`), and each edge
above it leads up (`stacked`). This suffices for the following reason. Take a step and the storages that are live at it.
Each has exactly one edge below it at that step (`one_edge_at_each_step`). An edge is listed at both of its ends, so the
node below it is live too. No two storages rest on the same node, because that node has exactly one edge above it. Such
a column has no two storages with a byte in common (`live_storages_are_apart_in_bytes`). Storages of zero bytes have no
byte and no edges. spec: V1.1, V1.12, T7.2
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from proofs.proving.certificate.edges import Edges, lifetimes
from proofs.proving.certificate.slots import Rows
from proofs.proving.lemmas.plan import chains
from proofs.proving.obligations.context import StorageContext
from proofs.proving.obligations.rows import (
    Batch,
    Chain,
    Place,
    call_for_each_distinct_row,
    false_rows,
    format_calls,
    format_integer,
    walk_chain,
)
from tmmu.core.columns import find_distinct

LEMMAS: tuple[str, ...] = (
    "one_edge_at_each_step", "no_edge_at_another_step", "tilings_join", "one_storage_rests_on_each",
    "what_is_live_is_stacked", "live_storages_are_apart_in_bytes", *chains.lemmas_of("tiling"),
    "what_is_stacked_is_tiled", "what_is_stacked_begins_above", "what_begins_above_is_stacked", "stackings_join",
    *chains.lemmas_of("stacking"),
)  # fmt: skip
BEYOND = 1 << 65
"""No storage ends beyond this byte, whatever its offset."""


def rows(context: StorageContext) -> Iterator[Batch]:
    """Yield two cells for each edge and a row for each size: O(storages)."""
    for a, found in enumerate(context.edges):
        yield from of_arena(context, found, a)


def of_arena(context: StorageContext, found: Edges, arena: int) -> Iterator[Batch]:
    """Yield the rows of one arena, for any edges whatever."""
    s = context.placement.storages
    having = np.flatnonzero((s.arena == arena) & (s.bytes > 0))
    lower, upper = found.below, found.above
    nodes = np.arange(len(having))
    if not np.array_equal(found.storages, having) or not _ends(lower, found.floor) or not _ends(upper, found.floor, 1):
        yield from false_rows(Place())  # the evidence is not about these storages
        return
    yield from call_for_each_distinct_row("has_bytes", [s.bytes[having]], lambda i: Place(storages=(int(having[i]),)))
    for side, extra in ((lower, found.floor), (upper, found.top)):
        yield from _tilings(context, found, side, np.append(nodes, extra), arena)


def _ends(side: Rows, floor: int, roof: int = 0) -> bool:
    """Whether a side of edges names only storages and one boundary node.

    The boundary node of a lower side is the bottom of the arena (`floor`), that of an upper side its top (`roof`).
    """
    return bool(((side >= 0) & (side <= floor + roof) & (side != floor + 1 - roof)).all())


def _roof(context: StorageContext, arena: int) -> int:
    """Return the top of an arena: its claimed end.

    If addresses are scattered, the top is beyond every byte; `capacity` asks whether storages end within 64 bits.
    """
    if context.placement.arenas[arena].scattered:
        return BEYOND
    claimed = None if context.claims is None else context.claims.usage[arena].footprint
    return context.placement.arenas[arena].capacity if claimed is None else claimed


def _tilings(context: StorageContext, found: Edges, side: Rows, nodes: Rows, arena: int) -> Iterator[Batch]:
    """Show that the edges of each node on one side, in order of their steps, tile the steps of its life.

    Each of the edges above a node must also lead up. The bottom of the arena is at byte 0 and has no bytes.
    """
    s, rows, last, is_up = context.placement.storages, found.storages, context.last, side is found.below
    order = np.lexsort((found.first, side))
    bounds = np.append(np.searchsorted(side[order], nodes), len(order))
    births, deaths = lifetimes(context.placement, rows, not context.placement.arenas[arena].reuse)
    birth, death = np.append(births.astype(np.int64), 0), np.append(deaths.astype(np.int64), last)
    empty = np.flatnonzero(np.diff(bounds) == 0)
    if len(empty):
        yield from false_rows(Place(storages=rows[empty[empty < len(rows)]][:1].tolist()))
        return
    first, final = found.first[order], found.last[order]
    group = np.repeat(np.arange(len(nodes)), np.diff(bounds))
    is_last = np.append(group[1:] != group[:-1], True)
    roof = _roof(context, arena)
    offset = np.concatenate([s.offset[rows], np.array([0, roof], object if roof == BEYOND else np.uint64)])
    size = np.append(s.bytes[rows], np.uint64(0))
    other = (found.above if is_up else found.below)[order]

    def states(at: Rows) -> list[str]:
        return [*map(str, np.where(is_last[at], death[group[at]], final[at]).tolist())]

    def cells(lo: int, hi: int) -> list[str]:
        if not is_up:
            return format_calls("%d %d", [first[lo:hi], final[lo:hi]])
        return format_calls("%d %d %d", [first[lo:hi], final[lo:hi], offset[other[lo:hi]]])

    def place(lo: int, hi: int) -> Place:
        about, _ = find_distinct(np.concatenate([group[lo:hi], other[lo:hi]]) if is_up else group[lo:hi])
        return Place(storages=rows[about[about < len(rows)]].tolist())

    yield from walk_chain(
        Chain(
            "stacking" if is_up else "tiling", bounds.astype(np.int64), cells,
            states=states,
            initial=lambda g: format_integer(int(birth[g]) - 1),
            constants=lambda g: f" (+ {offset[g]} {size[g]})" if is_up else "",
        ),
        place,
    )  # fmt: skip
