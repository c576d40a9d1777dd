"""Layout `packed`: byte offsets, as low as a portfolio of greedy placements makes them.

The slots layout is the first candidate, so that packed never needs more. An allocator run over the steps is the second.
Then come greedy orders, each improved by moving the obstructing box forward; chains from both ends; and in larger
arenas, long-lived boxes separated from short-lived ones. The smallest footprint wins, the earlier candidate on a tie
(R9). Effort is counted in looks at boxes, never in time, so that the result is the same on every machine. Logical slots
are kept beside it. With an effort, `search_lower` continues the search.
spec: A8.1, A8.2, A8.3, A8.6, A8.8, A8.9, X6.11, R9.1
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from tmmu.core.alignment import align_up
from tmmu.core.vocabulary import UINT64_END
from tmmu.planner.layouts import around
from tmmu.planner.layouts import slots as by_slots
from tmmu.planner.layouts.addresses import Addresses, overflow_error
from tmmu.planner.layouts.boxes import (
    FIXED,
    HEAVIEST,
    MANY,
    Boxes,
    Neighbours,
    Packing,
    build_boxes,
    place_best_fit,
    place_by_length,
    place_from_both_ends,
    place_lowest_fit,
)
from tmmu.planner.layouts.compiled import compile_loop
from tmmu.planner.layouts.ordered import OrderedSearch
from tmmu.planner.layouts.search import Effort, Search, run_searches
from tmmu.planner.layouts.skyline import is_near, place_below
from tmmu.planner.problem import AllocationProblem
from tmmu.planner.slots import SlotAssignment
from tmmu.plans.allocation import Allocation
from tmmu.plans.sections import PlacementBound

IN_PLACE = True

WORK = 4_000_000
"""How many neighbours the greedy orders of one arena may visit together: well under a second."""
FEW = WORK // 4
"""The most neighbours in an arena whose boxes get lists of neighbours."""
SPARSE = WORK
"""The most neighbours in a larger arena that tries one order by such lists."""
SCANS = 60_000
"""For larger arenas, how many boxes may be placed by scanning all others; a thousand overlaps count as one box."""
SPLITS = 3
"""How many ways larger arenas are split into long-lived and short-lived boxes."""
FITS = 300_000
"""How many boxes of larger arenas may be placed by these splits."""

Key = Callable[[Boxes, int], tuple[int, ...]]

ORDERS: tuple[Key, ...] = (
    lambda x, i: (-x.size[i], x.birth[i] - x.death[i]),  # larger first, then longer
    lambda x, i: (-x.size[i] * (x.death[i] - x.birth[i] + 1),),  # larger bytes x steps first
    lambda x, i: (x.birth[i] - x.death[i], -x.size[i]),  # longer first, then larger
    lambda x, i: (x.birth[i], -x.size[i]),  # earlier birth first
    lambda x, i: (-x.death[i], -x.size[i]),  # later death first
    lambda x, i: (-x.size[i].bit_length(), x.birth[i] - x.death[i], -x.size[i]),  # by power of two, then longer
)
"""The greedy orders; ties between them go to the earlier one."""


def place(problem: AllocationProblem, slots: SlotAssignment) -> Addresses:
    """Return the offset of each storage and the footprint of each arena.

    O(n log n) for arenas whose storages overlap many others, plus at most `WORK` looks for small ones. Raises
    ALLOCATION_OVERFLOW if an end does not fit into 64 bits.
    """
    of_slots, footprint = by_slots.prefix_sums(slots, len(problem.arenas))
    offset = array("Q", [0]) * len(problem)  # 8 bytes each, as in a plan
    for a, members in enumerate(problem.members(slots.arena_of_storages())):
        arena = problem.arenas[a]
        packing = first = Packing([of_slots[slots.slot[k]] for k in members], footprint[a])
        if arena.reuse or not problem.fixed.keys().isdisjoint(members):
            boxes = build_boxes(problem, members, arena.alignment)
            packing = pack(boxes, first) if arena.reuse else around.place_in_sequence(boxes, first)
        footprint[a] = packing.height
        if footprint[a] >= UINT64_END:
            raise overflow_error("the last storage", arena.name, footprint[a], 0)
        for k, at in zip(members, packing.offsets, strict=True):
            offset[k] = at
    return Addresses(offset, footprint)


def search_lower(
    problem: AllocationProblem, arena: Sequence[int], found: Addresses, effort: Effort, stopped: Callable[[], bool]
) -> tuple[Addresses, tuple[PlacementBound, ...]]:
    """Search on from a placement, until `effort` is spent, no lower placement exists, or `stopped` returns True.

    `arena` is that of each storage. Returns the best placement and a lower bound for each arena. `effort.found` is the
    effort spent when the last of either was found; that effort gives the same result. An arena's capacity is tried
    first.
    """
    offset, footprint = list(found.offset), list(found.footprint)
    searches: dict[int, Search] = {}
    ordered: dict[int, OrderedSearch] = {}
    bounds: dict[int, PlacementBound] = {}
    members = problem.members(list(arena))
    for a, each in enumerate(problem.arenas):
        boxes = build_boxes(problem, members[a], each.alignment)
        first = Packing([offset[k] for k in members[a]], footprint[a])
        if not each.reuse:
            bounds[a] = _bound(boxes, footprint[a])
        elif boxes.order is None:
            searches[a] = Search(boxes, first, each.capacity)
        elif _looks(boxes) <= SPARSE:
            ordered[a] = OrderedSearch(boxes, first, [_sorted(boxes, key) for key in ORDERS])
        if each.reuse and boxes.order is not None:
            bounds[a] = _bound_of_order(boxes)
    run_searches([*searches.values(), *ordered.values()], effort, stopped)
    for a, search in searches.items():
        bounds[a] = PlacementBound(search.bound, search.bound_origin)
    found_by = {a: search.best for a, search in searches.items()} | {a: each.best for a, each in ordered.items()}
    for a, best in found_by.items():
        footprint[a] = best.height
        for k, at in zip(members[a], best.offsets, strict=True):
            offset[k] = at
    return Addresses(offset, footprint), tuple(bounds[a] for a in range(len(problem.arenas)))


def bound_arena(allocation: Allocation, arena: int) -> int:
    """Return a number of bytes that no placement of an arena's storages is below. Without streams. O(n log n)."""
    s = allocation.storages
    here = s.arena == arena
    alignment = np.maximum(s.alignment[here], allocation.arenas[arena].alignment)
    sizes = np.maximum(s.bytes[here], 1)  # zero bytes count as one
    return Boxes(s.birth[here].tolist(), s.death[here].tolist(), sizes.tolist(), alignment.tolist(), {}).least()


def _bound(boxes: Boxes, end: int) -> PlacementBound:
    """Return the lower bound of a persistent arena: its footprint without the bytes lost around fixed boxes."""
    if not boxes.fixed:
        return PlacementBound(end, "sequence")
    total, fixed = sum(boxes.size), boxes.fixed_end()
    return PlacementBound(max(total, fixed), "live" if total >= fixed else "fixed")


def _bound_of_order(boxes: Boxes) -> PlacementBound:
    """Return the lower bound of an arena whose storages are accessed on several streams."""
    live, fixed = boxes.least(is_fixed=False), boxes.fixed_end()
    if fixed > live:
        return PlacementBound(fixed, "fixed")
    return PlacementBound(live, "antichain" if len(boxes) <= HEAVIEST else "live")


def pack(boxes: Boxes, first: Packing) -> Packing:
    """Return the best placement of the portfolio. `first` is a placement that is right except for fixed boxes."""
    bound = boxes.least()
    best = around.place_above_fixed(boxes, first) if boxes.fixed else first
    for candidates in PORTFOLIO if boxes.order is None else OVERLAPPING:
        if best.height <= bound:
            break
        for found in candidates(boxes, best, bound):
            if found.height < best.height and boxes.is_disjoint(found.offsets):
                best = found
    return best


def _looks(boxes: Boxes) -> int:
    """Return the cost of placing each box once beside its neighbours."""
    return boxes.meetings + FIXED * len(boxes)


def _try_allocator(boxes: Boxes, best: Packing, bound: int) -> Iterator[Packing]:
    yield around.place_best_fit(boxes) if boxes.fixed else place_best_fit(boxes)


def _try_improved_orders(boxes: Boxes, best: Packing, bound: int) -> Iterator[Packing]:
    """In small arenas, try every order, moving obstructing boxes forward."""
    if _looks(boxes) <= FEW:
        neighbours = Neighbours(boxes)
        for key in ORDERS:
            best = neighbours.improve(_sorted(boxes, key), best, bound, WORK // len(ORDERS))
            yield best


def _try_chain(boxes: Boxes, best: Packing, bound: int) -> Iterator[Packing]:
    if boxes.meetings < 2 * len(boxes) and not boxes.fixed:  # otherwise three overlap
        chain = place_from_both_ends(boxes)
        if chain is not None:
            yield chain


def _try_larger_first(boxes: Boxes, best: Packing, bound: int) -> Iterator[Packing]:
    """Try the larger boxes first: for short lives, as in inference, the result is often minimal."""
    if FEW < _looks(boxes) <= SPARSE:
        placed = Neighbours(boxes).place(_sorted(boxes, ORDERS[0]), best.height)
        if isinstance(placed, Packing):
            yield placed


def _try_splits(boxes: Boxes, best: Packing, bound: int) -> Iterator[Packing]:
    if _looks(boxes) > FEW and not boxes.fixed:
        yield from place_by_length(boxes, min(SPLITS, FITS // len(boxes)))


def _try_skylines(boxes: Boxes, best: Packing, bound: int) -> Iterator[Packing]:
    if _looks(boxes) > FEW and not boxes.is_wide:
        yield place_below(boxes, best, bound)


def _try_scans(boxes: Boxes, best: Packing, bound: int) -> Iterator[Packing]:
    if _looks(boxes) > FEW and not boxes.is_wide and not is_near(best.height, bound):
        for key in ORDERS[: SCANS // (len(boxes) + boxes.meetings // 1000)]:
            yield place_lowest_fit(boxes, _sorted(boxes, key))


def _try_widened(boxes: Boxes, best: Packing, bound: int) -> Iterator[Packing]:
    """Run the allocator with storages that live on until all later steps happen after them."""
    yield from _try_allocator(boxes.widened(), best, bound)


def _try_regions(boxes: Boxes, best: Packing, bound: int) -> Iterator[Packing]:
    """Place the storages of each stream in a region of its own, and those of several streams in another. O(n log n)."""
    if boxes.order is None or boxes.fixed:
        return
    offsets, top = [0] * len(boxes), 0
    compile_ = compile_loop if len(boxes) >= MANY else None  # `_try_widened` has loaded it
    for home in range(-1, boxes.order.streams):
        rows = np.flatnonzero(boxes.order.home == home).tolist()
        if rows:
            found = place_best_fit(boxes.part(rows).widened(), compile_)
            top = align_up(top, max(boxes.alignment[i] for i in rows))
            for i, at in zip(rows, found.offsets, strict=True):
                offsets[i] = top + at
            top += found.height
    yield Packing(offsets, top)


PORTFOLIO = (
    _try_allocator,
    _try_improved_orders,
    _try_chain,
    _try_larger_first,
    _try_splits,
    _try_skylines,
    _try_scans,
)
"""What is tried if steps run one after another, in this order."""
OVERLAPPING = (_try_improved_orders, _try_larger_first, _try_widened, _try_regions)
"""What is tried if steps of several streams may overlap."""


def _sorted(boxes: Boxes, key: Key) -> list[int]:
    return sorted(range(len(boxes)), key=lambda i: (i not in boxes.fixed, *key(boxes, i), boxes.birth[i], i))
