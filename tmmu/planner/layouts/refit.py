"""Local search over orders: place each box at the lowest free offset, and move obstructing boxes forward in the order.

The box that first fails to end below the height to beat moves halfway forward among the boxes that overlap it in time
and were placed before it. Boxes after that position are placed again. Boxes with a fixed offset come first in every
order, at that offset. Work is counted in looks, and the search can stop and resume at any count. `refit` is one
function for lists of Python integers and, compiled, for int64 arrays.
"""

from __future__ import annotations

from typing import NamedTuple

SPENT, HELD, NEXT, BEST, ENOUGH, TURNS, STAYING = range(7)
"""The registers in `register`.

Looks; placed boxes; next in order; heights to beat and enough; moves; number of fixed boxes. Enough is never below the
end of a fixed box.
"""

STEPS = 64
"""The height to beat is below the best by this part of the distance from the best to enough."""

FOUND, STUCK, PAUSED = 1, 0, -1
"""The results of `refit`: `found` is below the best; nothing can be moved; the budget is spent."""


class Intervals(NamedTuple):
    """Births, deaths (included), sizes, alignments, and fixed offsets or -1."""

    birth: list[int]
    death: list[int]
    size: list[int]
    alignment: list[int]
    fixed: list[int]


class Reordering(NamedTuple):
    """An order and its placed boxes: `held_*` by offset, the lowest first."""

    register: list[int]
    order: list[int]
    place: list[int]
    offset: list[int]
    found: list[int]
    held_birth: list[int]
    held_death: list[int]
    held_from: list[int]
    held_to: list[int]
    held_box: list[int]


def start_order(order: list[int], staying: int = 0) -> Reordering:
    """Create the state of an order with nothing placed; its first `staying` boxes are fixed."""
    n = len(order)
    return Reordering(
        [0] * STAYING + [staying], list(order), [0] * n, [0] * n, [0] * n,
        [0] * n, [0] * n, [0] * n, [0] * n, [0] * n,
    )  # fmt: skip


def refit(boxes: Intervals, s: Reordering, budget: int) -> int:
    """Place and move boxes until a placement below the best is found, or `budget` looks are spent. O(n) a box."""
    birth, death, size, alignment, fixed = boxes
    register, order, place, offset, found, held_birth, held_death, held_from, held_to, held_box = s
    spent, held, q, best, turns = register[SPENT], register[HELD], register[NEXT], register[BEST], register[TURNS]
    staying = register[STAYING]
    below = best - max(1, (best - register[ENOUGH]) // STEPS) + 1
    n = len(order)
    outcome = PAUSED
    while spent < budget:
        i = n
        while q < n and spent < budget:
            i = order[q]
            first, last, bytes_, at, k = birth[i], death[i], size[i], max(0, fixed[i]), 0
            while k < held and fixed[i] < 0:
                if held_birth[k] <= last and held_death[k] >= first:
                    if held_from[k] - at >= bytes_:
                        break
                    if held_to[k] > at:
                        at = (held_to[k] + alignment[i] - 1) // alignment[i] * alignment[i]
                k += 1
            spent += k + 1
            if at + bytes_ >= below:
                break
            low, high = 0, held
            while low < high:
                k = (low + high) // 2
                if held_from[k] <= at:
                    low = k + 1
                else:
                    high = k
            spent += held - low
            for k in range(held, low, -1):
                held_birth[k], held_death[k], held_box[k] = held_birth[k - 1], held_death[k - 1], held_box[k - 1]
                held_from[k], held_to[k] = held_from[k - 1], held_to[k - 1]
            held_birth[low], held_death[low], held_box[low] = first, last, i
            held_from[low], held_to[low] = at, at + bytes_
            offset[i], place[i] = at, q
            held += 1
            q += 1
            i = n
        if q == n:
            # All are placed: continue with the first box that is not below the next height to beat.
            outcome, best = FOUND, 0
            for k in range(n):
                found[k] = offset[k]
                best = max(best, offset[k] + size[k])
            below = best - max(1, (best - register[ENOUGH]) // STEPS) + 1
            for k in range(n):
                if offset[k] + size[k] >= below:
                    q = min(q, place[k])
            i = order[q]
        elif i == n:
            break
        # Move box i forward.
        turns += 1
        met = 0
        for k in range(staying, q):
            if birth[order[k]] <= death[i] and death[order[k]] >= birth[i]:
                met += 1
        spent += q + held
        if met == 0:
            held = q = 0
            if outcome == PAUSED:
                outcome = STUCK
            break
        to = q
        half = met // 2
        for k in range(staying, q):
            if birth[order[k]] <= death[i] and death[order[k]] >= birth[i]:
                if half == 0:
                    to = k
                    break
                half -= 1
        for k in range(q, to, -1):
            order[k] = order[k - 1]
            place[order[k]] = k
        order[to], place[i] = i, to
        kept = 0
        for k in range(held):
            j = held_box[k]
            if place[j] < to:
                held_birth[kept], held_death[kept], held_box[kept] = held_birth[k], held_death[k], j
                held_from[kept], held_to[kept] = held_from[k], held_to[k]
                kept += 1
        held, q = kept, to
        if outcome == FOUND:
            break
    register[SPENT], register[HELD], register[NEXT], register[BEST], register[TURNS] = spent, held, q, best, turns
    return outcome
