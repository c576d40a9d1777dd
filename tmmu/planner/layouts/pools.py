"""Layout `pools`: MiCo's memory pools, ranges of addresses that storages occupy in turn (004).

Storages are taken largest first; among equal ones the one that is made first, inputs before all. Each joins the first
pool in which nothing is live at one of its steps, or opens a new pool. A pool is as large as its largest member, and
pools are laid out in sequence. No result is in place. Pools are not the logical slots: there may be more pools than
storages live at once, because a large storage may open a pool before the two storages that it fits between are reached.
spec: A9.1, A9.2, A9.3
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tmmu.core.alignment import align_up
from tmmu.core.vocabulary import UINT64_END
from tmmu.planner.layouts import slots as by_slots
from tmmu.planner.layouts.addresses import Addresses, overflow_error
from tmmu.planner.layouts.boxes import Boxes, build_boxes
from tmmu.planner.problem import AllocationProblem
from tmmu.planner.slots import MoveObserver, SlotAssignment

IN_PLACE = False


def place(problem: AllocationProblem, slots: SlotAssignment, observer: MoveObserver | None = None) -> Addresses:
    """Return the offset of each storage, that of its pool, and the footprint of each arena, the end of its last pool.

    `observer` is called with each move in arenas that reuse bytes and have no conflicts. O(n²) for n storages of an
    arena, in NumPy scans. Raises ALLOCATION_OVERFLOW if an end does not fit into 64 bits.
    """
    of_slots, footprint = by_slots.prefix_sums(slots, len(problem.arenas))
    offset = [of_slots[slot] for slot in slots.slot]
    for a, members in enumerate(problem.members(slots.arena_of_storages())):
        arena = problem.arenas[a]
        if members and arena.reuse:
            boxes = build_boxes(problem, members, arena.alignment)
            made = sorted(range(len(members)), key=lambda i: problem.made[members[i]])
            order = sorted(made, key=lambda i: -boxes.size[i])
            if observer is None or not problem.conflicts.keys().isdisjoint(members):
                pool = assign_pools(boxes, order)
            else:
                listed = [[members[i], boxes.birth[i], boxes.death[i], boxes.size[i]] for i in made]
                observer("pools", arena=arena.name, storages=listed)
                pool = assign_pools(boxes, order, observer, members)
                observer("pooled", pools=max(pool) + 1)
            starts, footprint[a] = _in_sequence(boxes, order, pool)
            for k, p in zip(members, pool, strict=True):
                offset[k] = starts[p]
        if footprint[a] >= UINT64_END:
            raise overflow_error("the last pool", arena.name, footprint[a], 0)
    return Addresses(offset, footprint)


def assign_pools(
    boxes: Boxes, order: list[int], observer: MoveObserver | None = None, storages: Sequence[int] = ()
) -> list[int]:
    """Assign a pool to each box: in `order`, the first pool without a box that is live at one of its steps. spec: A9.1

    `observer` is called with each move and the storage of the box.
    """
    in_order = boxes.part(order)
    pools = np.zeros(len(order), np.int64)  # in placing order
    result = [0] * len(order)
    opened = 0
    placed: set[int] = set()
    for k, i in enumerate(order):
        taken = np.zeros(opened + 1, np.bool_)
        taken[pools[:k][in_order.overlap_in_time(k, slice(k))]] = True
        taken[[result[j] for j in boxes.apart.get(i, ()) if j in placed]] = True
        pools[k] = result[i] = int(taken.argmin())
        if observer is not None:
            observer("open pool" if result[i] == opened else "join", storage=storages[i], pool=result[i])
        opened = max(opened, result[i] + 1)
        placed.add(i)
    return result


def _in_sequence(boxes: Boxes, order: list[int], pool: list[int]) -> tuple[list[int], int]:
    """Return the start of each pool, and the end of the last."""
    count = max(pool) + 1
    size, alignment = [0] * count, [1] * count
    for i in order:
        size[pool[i]] = max(size[pool[i]], boxes.size[i])
        alignment[pool[i]] = max(alignment[pool[i]], boxes.alignment[i])
    starts, end = [], 0
    for extent, strictest in zip(size, alignment, strict=True):
        starts.append(align_up(end, strictest))
        end = starts[-1] + extent
    return starts, end
