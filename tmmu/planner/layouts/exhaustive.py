"""Decide whether boxes fit below a height: a complete search that finds a placement, proves there is none, or pauses.

The search is that of MiniMalloc (Moffitt, "MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated Machine
Learning", ASPLOS 2023), over *canonical* placements: boxes are placed in the order of their offsets, each at the lowest
offset above its neighbours that are placed already. A branch of the search ends if

- in some section (the boxes that are live at one moment) the rest does not fit between floor and height,
- the next box would leave a gap that another could fill (dominance),
- a box of equal size and life has not been placed yet, or
- a box failed that no remaining box overlaps in time: wherever others are placed, it fails again at its offset.

If at some moment no remaining box is live, the boxes before it do not overlap those after it in time. Both sides are
then searched independently. Work is counted in looks, never in time, and the search can stop and resume at any count.

`explore` is one function for two representations of `Problem` and `SearchState`: lists of Python integers of any size,
and int64 arrays, for which numba compiles it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

FOUND, NONE, PAUSED = 1, 0, -1
"""The results of `explore`: a placement is in `offset`; there is none; the budget is spent."""

SPENT, TOP, RAISED, CHANGED, PLACED, AGENDA, HEAD, FAILED = range(8)
"""The registers in `register`: looks; the open node; heights of the stacks; the first part; failures."""


TOTAL, AREA, COUNT, SIZE, LENGTH, WEIGHT = KEYS = range(6)
"""The keys of preference among boxes.

Most bytes left in one of their sections, bytes x steps, sections, bytes, steps, and the failures seen in their
sections.
"""


class Problem(NamedTuple):
    """Boxes, and sections in order of time. `x_at[i]:x_at[i+1]` are the rows of i in column x."""

    size: list[int]
    alignment: list[int]
    fixed: list[int]  # the fixed offset of a box, or -1
    twin: list[int]  # an earlier box that is equal in all respects, or -1
    first: list[int]  # the first section it is bound to, and the one after the last
    last: list[int]
    section_at: list[int]
    section: list[int]
    neighbour_at: list[int]
    neighbour: list[int]
    member_at: list[int]
    member: list[int]


class SearchState(NamedTuple):
    """The state of a search, from which it resumes."""

    register: list[int]
    key: list[int]  # for each of `KEYS` a row: larger is preferred; TOTAL is computed for each part
    order: list[int]  # the keys of preference, the most important first; if empty, parts keep the order of the whole
    offset: list[int]  # of placed boxes, else -1
    lowest: list[int]  # for boxes to be placed: the lowest offset above placed boxes
    floor: list[int]  # of sections: no more boxes are placed below
    rest: list[int]  # of sections: bytes still to be placed
    cut: list[int]  # boxes to be placed that are bound to this section and to the next
    weight: list[int]  # failures seen in each section
    touched: list[int]  # scratch: sections whose floor may rise
    # A row for each open node: its boxes and candidates in `pool`, its sections, and the heights of the stacks.
    parent: list[int]
    boxes_at: list[int]
    boxes_end: list[int]
    following: list[int]
    candidates_end: list[int]
    low: list[int]
    high: list[int]
    agenda: list[int]
    mark_raised: list[int]
    mark_changed: list[int]
    mark_placed: list[int]
    mark_agenda: list[int]
    pool: list[int]
    # Stacks of changes to be undone.
    raised_box: list[int]
    raised_from: list[int]
    changed_section: list[int]
    changed_from: list[int]
    placed: list[int]
    # Parts to be searched after the present one.
    part_at: list[int]
    part_end: list[int]
    part_low: list[int]
    part_high: list[int]
    part_parent: list[int]
    part_next: list[int]


NODE = tuple(SearchState._fields[SearchState._fields.index("parent") : SearchState._fields.index("pool")])
PART = tuple(SearchState._fields[SearchState._fields.index("part_at") :])
"""The columns with a row for each open node, and those with one for each part."""


def start_state(p: Problem) -> SearchState:
    """Create the initial state of a search: nothing is placed, and the whole is the first part.

    O(n (n + sections) + neighbours).
    """
    n, sections = len(p.size), len(p.member_at) - 1
    rest = [sum(p.size[i] for i in p.member[p.member_at[c] : p.member_at[c + 1]]) for c in range(sections)]
    cut = [0] * sections
    for i in range(n):
        for c in range(p.first[i], p.last[i] - 1):
            cut[c] += 1

    changes, parts = len(p.section) + n * sections, 2 * n + sections + 1
    rows = {
        "key": len(KEYS) * n, "order": 0, "lowest": n, "floor": sections, "weight": sections, "touched": sections,
        "placed": n, "pool": n * n + 4 * n,
        "raised_box": len(p.neighbour), "raised_from": len(p.neighbour), "changed_section": changes,
        "changed_from": changes, **dict.fromkeys(NODE, n + 2), **dict.fromkeys(PART, parts),
    }  # fmt: skip
    state = SearchState(
        register=[0, -1, 0, 0, 0, 1, 0, 0], offset=[-1] * n, rest=rest, cut=cut,
        **{name: [0] * count for name, count in rows.items()},
    )  # fmt: skip
    state.part_end[0], state.part_high[0], state.part_parent[0], state.part_next[0] = n, sections, -1, -1
    return state


def restart(state: SearchState, start: SearchState, preferred: list[int], keys: Sequence[Sequence[int]]) -> None:
    """Reset `state` to `start`, with an order of preference and the keys of boxes. O(n + sections)."""
    for column in ("register", "offset", "lowest", "floor", "rest", "cut", "weight", "touched"):
        getattr(state, column)[:] = getattr(start, column)
    for column in PART:
        getattr(state, column)[0] = getattr(start, column)[0]
    state.pool[: len(preferred)] = preferred
    state.key[:] = [value for key in keys for value in key]


def explore(p: Problem, s: SearchState, height: int, budget: int) -> int:
    """Resume the search from `s`, until a placement is found, there is none, or `budget` is spent in all."""
    (size, alignment, fixed, twin, first, last, section_at, section, neighbour_at, neighbour, member_at, member) = p
    (
        register, key, order, offset, lowest, floor, rest, cut, weight, touched, parent, boxes_at, boxes_end, following,
        candidates_end, low, high, agenda, mark_raised, mark_changed, mark_placed, mark_agenda, pool, raised_box,
        raised_from, changed_section, changed_from, placed, part_at, part_end, part_low, part_high, part_parent,
        part_next,
    ) = s  # fmt: skip
    spent, top, n_raised, n_changed, n_placed, n_parts, head = (
        register[SPENT], register[TOP], register[RAISED], register[CHANGED], register[PLACED], register[AGENDA],
        register[HEAD],
    )  # fmt: skip
    outcome = PAUSED
    opening = top < 0  # only at the start
    if opening:
        begin, end, pooled, node = part_at[head], part_end[head], part_end[n_parts - 1], -1
        start, stop, at, before, head = part_low[head], part_high[head], 0, 0, part_next[head]
    while True:
        if opening:
            # Node top + 1: boxes pool[begin:end], sections start to stop; the first `before` of them are not tried at
            # `at`.
            opening = False
            top += 1
            parent[top], boxes_at[top], boxes_end[top] = node, begin, end
            low[top], high[top], agenda[top] = start, stop, head
            mark_raised[top], mark_changed[top], mark_placed[top], mark_agenda[top] = (
                n_raised, n_changed, n_placed, n_parts,
            )  # fmt: skip
            j = pool[begin]
            full = max(lowest[j], fixed[j]) + size[j]
            for k in range(begin + 1, end):
                j = pool[k]
                full = min(full, max(lowest[j], fixed[j]) + size[j])
            # The rest of a section must fit above the next box that is placed, whichever it is.
            latest = height
            for c in range(start, stop):
                if rest[c] > 0:
                    latest = min(latest, height - rest[c])
            spent += stop - start + end - begin
            count = pooled
            for k in range(begin, end):
                j = pool[k]
                there = max(lowest[j], fixed[j])
                if there >= full or there > latest or there < at or (there == at and k - begin < before):
                    continue
                if twin[j] >= 0 and offset[twin[j]] < 0:
                    continue
                m = count
                while m > pooled and max(lowest[pool[m - 1]], fixed[pool[m - 1]]) > there:
                    pool[m] = pool[m - 1]
                    m -= 1
                pool[m] = j
                count += 1
            following[top], candidates_end[top] = pooled, count
        if top < 0:
            outcome = NONE
            break
        if spent >= budget:
            break
        # Undo the changes of this node's last candidate.
        while n_raised > mark_raised[top]:
            n_raised -= 1
            lowest[raised_box[n_raised]] = raised_from[n_raised]
        while n_changed > mark_changed[top]:
            n_changed -= 1
            floor[changed_section[n_changed]] = changed_from[n_changed]
        while n_placed > mark_placed[top]:
            n_placed -= 1
            i = placed[n_placed]
            offset[i] = -1
            for k in range(section_at[i], section_at[i + 1]):
                rest[section[k]] += size[i]
            for c in range(first[i], last[i] - 1):
                cut[c] += 1
        n_parts = mark_agenda[top]
        if following[top] == candidates_end[top]:
            top = parent[top]
            continue
        # Place the next candidate.
        node, i = top, pool[following[top]]
        following[top] += 1
        at = max(lowest[i], fixed[i])
        end = at + size[i]
        offset[i] = at
        placed[n_placed] = i
        n_placed += 1
        for k in range(section_at[i], section_at[i + 1]):
            c = section[k]
            changed_section[n_changed], changed_from[n_changed] = c, floor[c]
            n_changed += 1
            floor[c] = end
            rest[c] -= size[i]
            touched[c] = 1
        for c in range(first[i], last[i] - 1):
            cut[c] -= 1
        spent += 1 + section_at[i + 1] - section_at[i] + neighbour_at[i + 1] - neighbour_at[i]
        fits, alone = end <= height, True
        start, stop = first[i], last[i]
        for k in range(neighbour_at[i], neighbour_at[i + 1]):
            j = neighbour[k]
            if offset[j] < 0:
                alone = False
            if offset[j] < 0 and lowest[j] < end:
                raised_box[n_raised], raised_from[n_raised] = j, lowest[j]
                n_raised += 1
                there = (end + alignment[j] - 1) // alignment[j] * alignment[j]
                lowest[j] = there
                if there + size[j] > height or 0 <= fixed[j] < there:
                    fits = False
                for m in range(section_at[j], section_at[j + 1]):
                    touched[section[m]] = 1
                start, stop = min(start, first[j]), max(stop, last[j])
        if alone:  # it has this offset whatever comes next: no other candidate need be tried
            following[top] = candidates_end[top]
        # No floor is below the lowest offset of the boxes left there.
        for c in range(start, stop):
            if touched[c]:
                touched[c] = 0
                if fits and rest[c] > 0:
                    there = height
                    for m in range(member_at[c], member_at[c + 1]):
                        j = member[m]
                        if offset[j] < 0:
                            there = min(there, max(lowest[j], fixed[j]))
                    spent += member_at[c + 1] - member_at[c]
                    if floor[c] < there:
                        changed_section[n_changed], changed_from[n_changed] = c, floor[c]
                        n_changed += 1
                        floor[c] = there
                    if floor[c] + rest[c] > height:
                        weight[c] += 1
                        fits = False
        if not fits:
            register[FAILED] += 1
            continue
        # The boxes left: one part, or several that no remaining box connects.
        before, begin, pooled = 0, candidates_end[node], candidates_end[node]
        split = False
        for c in range(first[i], last[i] - 1):
            if cut[c] == 0:
                split = True
        spent += boxes_end[node] - boxes_at[node]
        head = agenda[node]
        if not split:
            for k in range(boxes_at[node], boxes_end[node]):
                j = pool[k]
                if j == i:
                    before = pooled - begin
                elif offset[j] < 0:
                    pool[pooled] = j
                    pooled += 1
            if pooled > begin:
                opening, end, start, stop = True, pooled, low[node], high[node]
                continue
        else:
            latest, after, start = -1, head, low[node]
            for c in range(first[i], last[i]):
                if c < last[i] - 1 and cut[c] > 0:
                    continue
                stop = c + 1 if c < last[i] - 1 else high[node]
                for k in range(boxes_at[node], boxes_end[node]):
                    j = pool[k]
                    if offset[j] < 0 and start <= first[j] < stop:
                        pool[pooled] = j
                        pooled += 1
                if pooled > begin:
                    if len(order) > 0:
                        for k in range(begin, pooled):
                            j = pool[k]
                            most = 0
                            for m in range(section_at[j], section_at[j + 1]):
                                most = max(most, rest[section[m]])
                            key[TOTAL * len(size) + j] = most
                            m = k
                            while m > begin:
                                b = pool[m - 1]
                                smaller = b > j
                                for z in range(len(order)):
                                    x, y = key[order[z] * len(size) + j], key[order[z] * len(size) + b]
                                    if x != y:
                                        smaller = x > y
                                        break
                                if not smaller:
                                    break
                                pool[m] = b
                                m -= 1
                            pool[m] = j
                            spent += section_at[j + 1] - section_at[j] + k - m
                    q = n_parts
                    n_parts += 1
                    part_at[q], part_end[q], part_low[q], part_high[q] = begin, pooled, start, stop
                    part_parent[q], part_next[q] = node, after
                    if latest < 0:
                        head = q
                    else:
                        part_next[latest] = q
                    latest, begin = q, pooled
                start = stop
        if head < 0:
            outcome = FOUND
            break
        opening, node, at, before = True, part_parent[head], 0, 0
        begin, end, start, stop, head = part_at[head], part_end[head], part_low[head], part_high[head], part_next[head]
    register[SPENT], register[TOP], register[RAISED], register[CHANGED] = spent, top, n_raised, n_changed
    register[PLACED], register[AGENDA], register[HEAD] = n_placed, n_parts, head
    return outcome
