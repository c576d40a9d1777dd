"""No byte belongs to two live storages, for plans that pack: shown by the edges between neighbours.

For each storage, the edges above it and the edges below it tile its lifetime (`tiling`), and each edge leads up
(`stacked`). Why that is enough: take a step and the storages that are live at it, each with the edge below it, of
which there is exactly one (`one_edge_at_each_step`). An edge is listed at both of its ends, so what it comes from is
live too, and no two storages rest on the same one, because that has exactly one edge above it. Such a column has no
two storages with a byte in common (`live_storages_are_apart_in_bytes`). Storages of zero bytes have no byte, and no
edges. spec: V1.1, V1.12, T7.2
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from proofs.certificate.edges import Edges, edges, lives
from proofs.certificate.slots import Rows
from proofs.lemmas.plan import chains
from proofs.obligations.context import StorageContext
from proofs.obligations.rows import Batch, Chain, Place, calls, distinct, false, number, walk

LEMMAS: tuple[str, ...] = (
    "one_edge_at_each_step", "no_edge_at_another_step", "tilings_join", "one_storage_rests_on_each",
    "what_is_live_is_stacked", "live_storages_are_apart_in_bytes", *chains.lemmas_of("tiling"),
)  # fmt: skip
DEFINITIONS = """
(define-fun leads_up ((offset_below Int) (bytes_below Int) (offset Int) (bytes Int)) Bool
  (stacked (+ offset_below bytes_below) offset (+ offset bytes)))
"""


def rows(context: StorageContext) -> Iterator[Batch]:
    """A row for each different pair of neighbours, two cells for each edge: O(storages)."""
    for a, arena in enumerate(context.placement.arenas):
        yield from of_arena(context, edges(context.placement, a, not arena.reuse), a)


def of_arena(context: StorageContext, found: Edges, arena: int) -> Iterator[Batch]:
    """The rows of one arena, for any edges whatever."""
    s = context.placement.storages
    having = np.flatnonzero((s.arena == arena) & (s.bytes > 0))
    lower, upper = found.below, found.above
    nodes = np.arange(len(having))
    if not np.array_equal(found.storages, having) or not _ends(lower, found.floor) or not _ends(upper, found.floor, 1):
        yield from false(Place())  # the evidence is about other storages, or about none
        return
    yield from _leading_up(context, found, arena)
    for side, extra in ((lower, found.floor), (upper, found.roof)):
        yield from _tilings(context, found, side, np.append(nodes, extra), not context.placement.arenas[arena].reuse)


def _ends(side: Rows, floor: int, roof: int = 0) -> bool:
    """Whether a side of edges names storages, the floor (of what lies below) or the roof (of what lies above) alone."""
    return bool(((side >= 0) & (side <= floor + roof) & (side != floor + 1 - roof)).all())


def _leading_up(context: StorageContext, found: Edges, arena: int) -> Iterator[Batch]:
    """Each edge leads up. The floor is at byte 0 and has no bytes; the roof begins where the arena ends, as is claimed.

    Where addresses are scattered the roof is at no byte: what ends within 64 bits is asked by `capacity`.
    """
    arena_ = context.placement.arenas[arena]
    claimed = None if context.claims is None else context.claims.usage[arena].footprint
    roof = arena_.capacity if claimed is None else claimed
    s = context.placement.storages
    offset = np.append(s.offset[found.storages], np.array([0, roof], np.uint64))
    size = np.append(s.bytes[found.storages], np.array([0, 1], np.uint64))
    between = (found.below != found.floor) | (found.above != found.roof)
    if arena_.scattered:
        between = found.above != found.roof
    below, above = found.below[between], found.above[between]

    def place(i: int) -> Place:
        ends = (int(below[i]), int(above[i]))
        return Place(storages=[int(found.storages[node]) for node in ends if node < found.floor])

    yield from distinct("leads_up", [offset[below], size[below], offset[above], size[above]], place)


def _tilings(context: StorageContext, found: Edges, side: Rows, nodes: Rows, always: bool) -> Iterator[Batch]:
    """For each node, its edges on one side, in order of their steps: they tile the steps at which it is live."""
    last = context.last
    order = np.lexsort((found.first, side))
    bounds = np.append(np.searchsorted(side[order], nodes), len(order))
    rows = found.storages
    births, deaths = lives(context.placement, rows, always)
    birth, death = [*births.tolist(), 0], [*deaths.tolist(), last]
    empty = np.flatnonzero(np.diff(bounds) == 0)
    if len(empty):
        yield from false(Place(storages=rows[empty[empty < len(rows)]][:1].tolist()))
        return
    first, final, ends = found.first[order], found.last[order], set(bounds[1:].tolist())
    group = np.repeat(np.arange(len(nodes)), np.diff(bounds))

    def states(at: Rows) -> list[str]:
        return [
            str(death[g] if i + 1 in ends else step)
            for i, g, step in zip(at.tolist(), group[at].tolist(), final[at].tolist(), strict=True)
        ]

    yield from walk(
        Chain(
            "tiling", bounds.astype(np.int64),
            cells=lambda lo, hi: calls("%d %d", [first[lo:hi], final[lo:hi]]),
            states=states,
            initial=lambda g: number(birth[g] - 1),
            constants=lambda _: "",
        ),
        lambda lo, hi: Place(storages=rows[np.unique(group[lo:hi][group[lo:hi] < len(rows)])].tolist()),
    )  # fmt: skip
