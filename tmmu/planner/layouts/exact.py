"""Decide whether boxes fill every section exactly up to a height: a search that learns from its failures.

If the boxes of each section add up to the height, no placement leaves a free byte. A *valley* is a longest range of
sections whose floors are equal, between higher floors or ends. Some box begins in its left corner and some box ends in
its right corner, both at its floor and within it. The search takes the corner that the fewest boxes fit, relative to
the failures seen there, and tries each of these boxes.

A corner that no box fits is explained by few placements: those of the box below, of the boxes that are the walls, and
of the boxes that would fit and are elsewhere. The search returns to the latest placement of an explanation, whatever it
placed since (conflict-directed backjumping: Prosser, "Hybrid Algorithms for the Constraint Satisfaction Problem",
Computational Intelligence 9, 1993). Explanations are kept as *nogoods*, each watched at one literal that does not hold
(Katsirelos and Bacchus, "Generalized NoGoods in CSPs", AAAI 2005), over restarts in the sequence of Luby, Sinclair and
Zuckerman (1993). After a restart a box is tried first where it was last. A literal states that some box of a kind has
an offset, or that all boxes of the kind are placed and none has this offset. The boxes of a kind are equal in all
respects, and are placed in order.

Two boxes with equal lives, one directly above the other, may be exchanged: only one of the two orders is tried. An
explanation that contains no placement proves that nothing fits. Work is counted in looks, never in time, and the search
can stop and resume at any count. `explore` is one function for lists of Python integers and, compiled, int64 arrays.
spec: A8.8, A8.11
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain
from typing import Any, NamedTuple

FOUND, NONE, PAUSED = 1, 0, -1
"""The results of `explore`: a placement is in `offset`; there is none; the budget is spent."""

SPENT, NODES, FAILED, RESTART_AT, RESTARTS, LITERALS, NOGOODS, REDUCED, PLACED, REASONS, TOPS = range(11)
"""The registers: looks; open nodes; failures, those at which the search restarts, and restarts.

Then the literals and nogoods that are kept, and how often some were dropped; placed boxes; the size of the present
explanation; and the height of the stack `under`.
"""

RESTART_UNIT = 100
"""The failures until the first restart."""
LONGEST = 60
"""The most literals of a nogood that is kept."""
KEPT, KEPT_MORE = 3_000, 500
"""How many nogoods are kept before the longer ones are dropped, and how many more after each time."""
MOST_NOGOODS, MOST_LITERALS = 1 << 15, 1 << 19
"""The limits of the nogoods that are kept, and of their literals."""
BUMP = 4
"""What a failure adds to the weight of its corner; restarts lower weights by a sixteenth."""
LOOK = 8
"""The looks of one step here: as many as take as long in the other searches."""
HERE, ELSEWHERE = 1, 2
"""The literals of boxes: it has this offset; it is placed, and has another offset than this."""


class ExactProblem(NamedTuple):
    """Boxes in sections in order of time. `x_at[i]:x_at[i+1]` are the rows of i in column x."""

    size: list[int]
    alignment: list[int]
    first: list[int]  # the first section, and the one after the last
    last: list[int]
    rank: list[int]  # of two boxes that may be exchanged, the smaller is below; -1 if it may not be exchanged
    twin: list[int]  # the box before it of the same kind, or -1
    kind: list[int]
    copy_at: list[int]  # the boxes of a kind
    copy: list[int]
    begin_at: list[int]  # the boxes whose first section this is
    begin: list[int]
    end_at: list[int]  # the boxes whose last section is the one before this
    end: list[int]
    member_at: list[int]  # the boxes in a section
    member: list[int]


class ExactPlacement(NamedTuple):
    """What is placed, in order of placing."""

    register: list[int]
    offset: list[int]  # of placed boxes, else -1
    saved: list[int]  # the offset that a box had last, or -1
    floor: list[int]  # of sections
    top: list[int]  # of sections: the highest placed box, or -1
    under: list[int]  # stack: the boxes that were highest before
    weight: list[int]  # of the borders of sections: the failures seen there


class OpenNodes(NamedTuple):
    """A row for each open node: the corner, and the boxes tried there. Rows of `why_*` explain those that failed."""

    is_right: list[int]
    low: list[int]
    high: list[int]
    floor: list[int]
    first: list[int]
    following: list[int]
    end: list[int]
    why_at: list[int]
    why_end: list[int]
    candidate: list[int]
    why_box: list[int]
    why_sign: list[int]
    why_offset: list[int]


class Explanation(NamedTuple):
    """The explanation of the present failure: boxes, and of each the literal."""

    box: list[int]
    sign: list[int]  # by box; 0 if it is not in the explanation
    offset: list[int]


class Nogoods(NamedTuple):
    """Literals that must not all hold; the first of each nogood is watched."""

    kind: list[int]
    offset: list[int]
    sign: list[int]
    first: list[int]
    end: list[int]
    following: list[int]  # in the list of those watched at a literal of the same kind
    watched: list[int]  # the head of this list, or -1


class ExactState(NamedTuple):
    """The state of a search, from which it resumes."""

    placement: ExactPlacement
    nodes: OpenNodes
    reasons: Explanation
    nogoods: Nogoods


def join_chains(sections: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return chains of boxes that have one offset: of one that ends where one begins, if no other ends or begins there.

    No byte is free before or after, so the second has all the bytes of the first. The chains are in order of their
    first boxes. O(n + sections).
    """
    begins: dict[int, list[int]] = {}
    ends: dict[int, list[int]] = {}
    for i, of in enumerate(sections):
        begins.setdefault(of[0], []).append(i)
        ends.setdefault(of[-1] + 1, []).append(i)
    following = {
        ended[0]: begins[border][0]
        for border, ended in ends.items()
        if len(ended) == 1 and len(begins.get(border, ())) == 1
    }
    chains = []
    for i in sorted({*range(len(sections))} - {*following.values()}):
        chains.append([i])
        while chains[-1][-1] in following:
            chains[-1].append(following[chains[-1][-1]])
    return chains


def build_chains(
    sizes: Sequence[int], alignments: Sequence[int], sections: Sequence[Sequence[int]], chains: Sequence[Sequence[int]]
) -> ExactProblem:
    """Build the columns of chains: each is a box, and borders within chains are left out."""
    begins = sorted({sections[of[0]][0] for of in chains})
    number = {c: k for k, c in enumerate(begins)}
    number[1 + max(of[-1] for of in sections)] = len(begins)
    return build_problem(
        [sizes[of[0]] for of in chains], [max(alignments[i] for i in of) for of in chains],
        [range(number[sections[of[0]][0]], number[sections[of[-1]][-1] + 1]) for of in chains],
    )  # fmt: skip


def build_problem(sizes: Sequence[int], alignments: Sequence[int], sections: Sequence[Sequence[int]]) -> ExactProblem:
    """Build the columns from the size, the alignment and the sections of each box. Sections are consecutive.

    O(n log n + boxes live in each section).
    """
    n, count = len(sizes), 1 + max(of[-1] for of in sections)
    first, last = [of[0] for of in sections], [of[-1] + 1 for of in sections]
    alike = [(first[i], last[i], sizes[i], alignments[i]) for i in range(n)]
    larger_first = sorted(range(n), key=lambda i: (-len(sections[i]) * sizes[i], alike[i], i))
    strictest = max(alignments)
    rank = [-1] * n
    for k, i in enumerate(larger_first):
        if sizes[i] % strictest == 0:
            rank[i] = k
    numbers = {each: k for k, each in enumerate(dict.fromkeys(alike))}
    kind = [numbers[each] for each in alike]
    copies: list[list[int]] = [[] for _ in numbers]
    twin = [-1] * n
    for i in range(n):
        twin[i] = copies[kind[i]][-1] if copies[kind[i]] else -1
        copies[kind[i]].append(i)
    begins: list[list[int]] = [[] for _ in range(count + 1)]
    ends: list[list[int]] = [[] for _ in range(count + 1)]
    members: list[list[int]] = [[] for _ in range(count)]
    for i in larger_first:
        begins[first[i]].append(i)
        ends[last[i]].append(i)
        for c in sections[i]:
            members[c].append(i)
    return ExactProblem(
        [*sizes], [*alignments], first, last, rank, twin, kind,
        *_flatten(copies), *_flatten(begins), *_flatten(ends), *_flatten(members),
    )  # fmt: skip


def _flatten(rows: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    """Return the start of each row, and all rows concatenated."""
    return list(accumulate(map(len, rows), initial=0)), list(chain.from_iterable(rows))


def start_state(p: ExactProblem) -> ExactState:
    """Create the initial state of a search: nothing is placed or known. O(n²) memory."""
    n, sections = len(p.size), len(p.member_at) - 1
    nogoods, literals = min(MOST_NOGOODS, 1 << n), min(MOST_LITERALS, LONGEST << n)
    register = [0] * 11
    register[RESTART_AT] = RESTART_UNIT

    def rows(names: str, count: int) -> dict[str, list[int]]:
        return {name: [0] * count for name in names.split()}

    return ExactState(
        ExactPlacement(
            register, [-1] * n, [-1] * n, [0] * sections, [-1] * sections, [0] * (len(p.member) + 1),
            [1] * (sections + 1),
        ),
        OpenNodes(
            **rows("is_right low high floor first following end why_at why_end", n + 2),
            **rows("candidate why_box why_sign why_offset", n * n + 2 * n),
        ),
        Explanation(**rows("box sign offset", n)),
        Nogoods(
            **rows("kind offset sign", literals), **rows("first end following", nogoods),
            watched=[-1] * (len(p.copy_at) - 1),
        ),
    )  # fmt: skip


def explore(p: Any, s: Any, height: int, budget: int) -> int:
    """Resume the search from `s`, until a placement is found, there is none, or `budget` is spent in all."""
    register = s[0][0]
    while True:
        if register[PLACED] == len(p[0]):
            return FOUND
        if register[SPENT] >= budget:
            return PAUSED
        if register[FAILED] >= register[RESTART_AT]:
            _restart(p, s)
        has_failed = not _open_node(p, s, height)
        while True:
            if has_failed and not _backjump(p, s):
                return NONE
            has_failed = not _place(p, s)
            if not has_failed:
                break


def _open_node(p: Any, s: Any, height: int) -> bool:
    """Open a node for the corner that the fewest boxes fit. Return False, and explain it, if one fits none."""
    _, _, first, last, _, _, _, _, _, begin_at, begin, end_at, end, member_at, _ = p
    register, _, saved, floor, top, _, weight = s[0]
    is_right, low, high, node_floor, node_first, following, node_end, why_at, why_end, candidate = s[1][:10]
    sections = len(member_at) - 1
    fewest, heaviest, best_side, best_low, best_high = len(first) + 1, 1, 0, 0, 0
    spent, start = sections, 0
    while start < sections and fewest > 0:
        at, stop = floor[start], start + 1
        while stop < sections and floor[stop] == at:
            stop += 1
        is_valley = (start == 0 or floor[start - 1] > at) and (stop == sections or floor[stop] > at)
        for side in range(2 if is_valley and at < height else 0):
            fitting = 0
            if side:
                for k in range(end_at[stop], end_at[stop + 1]):
                    i = end[k]
                    if first[i] >= start and _fits(p, s, i, at, top[stop - 1]):
                        fitting += 1
                spent += end_at[stop + 1] - end_at[stop] + 1
                seen = weight[stop]
            else:
                for k in range(begin_at[start], begin_at[start + 1]):
                    i = begin[k]
                    if last[i] <= stop and _fits(p, s, i, at, top[start]):
                        fitting += 1
                spent += begin_at[start + 1] - begin_at[start] + 1
                seen = weight[start]
            smaller, larger = fitting * heaviest, fewest * seen
            if smaller < larger or (smaller == larger and at < floor[best_low]):
                fewest, heaviest, best_side, best_low, best_high = fitting, seen, side, start, stop
            if fitting == 0:
                break
        start = stop
    register[SPENT] += LOOK * spent
    at = floor[best_low]
    if fewest == 0:
        register[REASONS] = 0
        weight[best_high if best_side else best_low] += BUMP
        _explain_corner(p, s, best_side, best_low, best_high)
        return False

    node = register[NODES]
    register[NODES] += 1
    is_right[node], low[node], high[node], node_floor[node] = best_side, best_low, best_high, at
    count = node_end[node - 1] if node else 0
    node_first[node] = following[node] = count
    why_at[node] = why_end[node] = why_end[node - 1] if node else 0
    if best_side:
        rows, row, row_end, below = end, end_at[best_high], end_at[best_high + 1], top[best_high - 1]
    else:
        rows, row, row_end, below = begin, begin_at[best_low], begin_at[best_low + 1], top[best_low]
    for k in range(row, row_end):
        i = rows[k]
        if first[i] >= best_low and last[i] <= best_high and _fits(p, s, i, at, below):
            place = count
            while place > node_first[node] and saved[i] == at and saved[candidate[place - 1]] != at:
                candidate[place] = candidate[place - 1]
                place -= 1
            candidate[place] = i
            count += 1
    node_end[node] = count
    return True


def _fits(p: Any, s: Any, i: int, at: int, below: int) -> bool:
    """Return whether a box is the next of its kind to be placed, and may be there above `below`, if that is no -1."""
    _, alignment, first, last, rank, twin = p[:6]
    offset = s[0][1]
    if offset[i] >= 0 or at % alignment[i] != 0 or (twin[i] >= 0 and offset[twin[i]] < 0):
        return False
    if below < 0 or first[below] != first[i] or last[below] != last[i]:
        return True
    return bool(rank[i] < 0 or rank[below] < rank[i])


def _explain_corner(p: Any, s: Any, side: int, low: int, high: int) -> None:
    """Add to the explanation why only the boxes that fit a corner can be there.

    Some box covers the free byte in the corner. None that is live before does, because of the wall; none that begins
    lower, because of the box below; none that lives longer, because of the opposite wall; and none that is elsewhere.
    """
    _, _, first, last, _, _, kind, copy_at, copy, begin_at, begin, end_at, end, member_at, _ = p
    register, offset, _, floor, top, _, _ = s[0]
    sections, at, is_walled = len(member_at) - 1, floor[low], True
    below = top[high - 1] if side else top[low]
    if below >= 0:
        _add_reason(s, below, HERE, 0)
    if side:
        if high < sections:
            _add_reason(s, _find_cover(p, s, high, at), HERE, 0)
        for k in range(end_at[high], end_at[high + 1]):
            i = end[k]
            if offset[copy[copy_at[kind[i] + 1] - 1]] >= 0:  # all of its kind are placed
                _add_reason(s, i, ELSEWHERE, at)
            elif first[i] < low and is_walled:
                is_walled = False
                _add_reason(s, _find_cover(p, s, low - 1, at), HERE, 0)
        register[SPENT] += LOOK * (end_at[high + 1] - end_at[high])
        return
    if low > 0:
        _add_reason(s, _find_cover(p, s, low - 1, at), HERE, 0)
    for k in range(begin_at[low], begin_at[low + 1]):
        i = begin[k]
        if offset[copy[copy_at[kind[i] + 1] - 1]] >= 0:  # all of its kind are placed
            _add_reason(s, i, ELSEWHERE, at)
        elif last[i] > high and is_walled:
            is_walled = False
            _add_reason(s, _find_cover(p, s, high, at), HERE, 0)
    register[SPENT] += LOOK * (begin_at[low + 1] - begin_at[low])


def _find_cover(p: Any, s: Any, section: int, at: int) -> int:
    """Return the placed box that covers byte `at` in a section."""
    size, member_at, member = p[0], p[13], p[14]
    register, offset = s[0][0], s[0][1]
    for k in range(member_at[section], member_at[section + 1]):
        i = member[k]
        if offset[i] >= 0 and offset[i] <= at < offset[i] + size[i]:
            register[SPENT] += LOOK * (k - member_at[section])
            return int(i)
    return -1


def _add_reason(s: Any, i: int, sign: int, at: int) -> None:
    """Add a literal to the explanation. Two different ones of a box become the one that implies both."""
    register, (box, signs, offset) = s[0][0], s[2]
    if signs[i] == 0:
        signs[i], offset[i] = sign, at
        box[register[REASONS]] = i
        register[REASONS] += 1
    elif signs[i] == ELSEWHERE and (sign == HERE or offset[i] != at):
        signs[i] = HERE


def _place(p: Any, s: Any) -> bool:
    """Place the next box of the latest node. Return False, and explain it, if that violates a nogood."""
    size, _, first, last, _, _, kind, copy_at, copy = p[:9]
    register, offset, _, floor, top, under, _ = s[0]
    literal_kind, literal_offset, literal_sign, nogood_first, nogood_end = s[3][:5]
    node = register[NODES] - 1
    i, at = s[1][9][s[1][5][node]], s[1][3][node]
    offset[i] = at
    register[PLACED] += 1
    height = register[TOPS]
    for c in range(first[i], last[i]):
        under[height] = top[c]
        height += 1
        floor[c], top[c] = at + size[i], i
    register[TOPS] = height
    register[SPENT] += LOOK * (1 + last[i] - first[i])
    violated = _find_violated(p, s, kind[i])
    if violated < 0:
        return True
    register[REASONS] = 0
    for k in range(nogood_first[violated], nogood_end[violated]):
        for m in range(copy_at[literal_kind[k]], copy_at[literal_kind[k] + 1]):
            j = copy[m]
            if literal_sign[k] == ELSEWHERE or offset[j] == literal_offset[k]:
                _add_reason(s, j, literal_sign[k], literal_offset[k])
    return False


def _find_violated(p: Any, s: Any, kind: int) -> int:
    """Return a nogood whose literals all hold since a box of this kind was placed, or -1. Others get another watch."""
    register = s[0][0]
    literal_kind, literal_offset, literal_sign, first, end, following, watched = s[3]
    before, nogood, spent = -1, watched[kind], 0
    while nogood >= 0:
        after, a = following[nogood], first[nogood]
        spent += 1
        if _holds(p, s, a):
            free = a + 1
            while free < end[nogood] and _holds(p, s, free):
                free += 1
            spent += free - a
            if free == end[nogood]:
                register[SPENT] += LOOK * spent
                return int(nogood)
            literal_kind[a], literal_kind[free] = literal_kind[free], literal_kind[a]
            literal_offset[a], literal_offset[free] = literal_offset[free], literal_offset[a]
            literal_sign[a], literal_sign[free] = literal_sign[free], literal_sign[a]
            if literal_kind[a] == kind:
                before = nogood
            else:
                if before < 0:
                    watched[kind] = after
                else:
                    following[before] = after
                following[nogood] = watched[literal_kind[a]]
                watched[literal_kind[a]] = nogood
        else:
            before = nogood
        nogood = after
    register[SPENT] += LOOK * spent
    return -1


def _holds(p: Any, s: Any, literal: int) -> bool:
    """Return whether a literal of a nogood holds."""
    copy_at, copy, offset = p[7], p[8], s[0][1]
    kind, at, is_here = s[3][0][literal], s[3][1][literal], s[3][2][literal] == HERE
    for k in range(copy_at[kind], copy_at[kind + 1]):
        if offset[copy[k]] == at:
            return bool(is_here)
        if offset[copy[k]] < 0:  # the copies after it are not placed either
            return False
    return not is_here


def _backjump(p: Any, s: Any) -> bool:
    """Take boxes away until one that is part of the explanation has an alternative. Return False if there is none."""
    register, (box, signs, offsets) = s[0][0], s[2]
    is_right, low, high, _, first, following, end, why_at, why_end, candidate, why_box, why_sign, why_offset = s[1]
    register[FAILED] += 1
    while register[NODES] > 0:
        node = register[NODES] - 1
        i = candidate[following[node]]
        _take_away(p, s)
        if signs[i] == 0:
            register[NODES] -= 1
            continue
        if end[node] - first[node] > 1:
            _keep_nogood(p, s, i)
        for k in range(why_at[node], why_end[node]):
            _add_reason(s, why_box[k], why_sign[k], why_offset[k])
        following[node] += 1
        is_exhausted = following[node] == end[node]
        if is_exhausted:
            _explain_corner(p, s, is_right[node], low[node], high[node])
        # Without box i, whose alternatives remain or have failed for these reasons.
        count = 0
        for k in range(register[REASONS]):
            j = box[k]
            if j != i:
                box[count] = j
                count += 1
        signs[i] = 0
        register[REASONS] = count
        register[SPENT] += LOOK * count
        if is_exhausted:
            register[NODES] -= 1
            continue
        for k in range(count):
            j, row = box[k], why_at[node] + k
            why_box[row], why_sign[row], why_offset[row] = j, signs[j], offsets[j]
            signs[j] = 0
        why_end[node] = why_at[node] + count
        register[REASONS] = 0
        return True
    return False


def _take_away(p: Any, s: Any) -> None:
    """Take the box of the latest node away."""
    first, last = p[2], p[3]
    register, offset, saved, floor, top, under, _ = s[0]
    node = register[NODES] - 1
    i, at = s[1][9][s[1][5][node]], s[1][3][node]
    height = register[TOPS] - (last[i] - first[i])
    register[TOPS] = height
    for c in range(first[i], last[i]):
        floor[c], top[c] = at, under[height]
        height += 1
    saved[i], offset[i] = at, -1
    register[PLACED] -= 1
    register[SPENT] += LOOK * (1 + last[i] - first[i])


def _keep_nogood(p: Any, s: Any, i: int) -> None:
    """Keep the explanation as a nogood, watched at the literal of box i, which was taken away last."""
    register, offset, saved = s[0][:3]
    box, signs, offsets = s[2]
    kind, literal_offset, literal_sign, first, end, following, watched = s[3]
    nogood, row, count = register[NOGOODS], register[LITERALS], register[REASONS]
    if count > LONGEST or nogood == len(first) or row + count > len(kind):
        return
    first[nogood] = row
    for k in range(-1, count):
        j = i if k < 0 else box[k]
        if k < 0 or j != i:
            kind[row], literal_sign[row], literal_offset[row] = p[6][j], signs[j], offsets[j]
            if signs[j] == HERE:
                literal_offset[row] = saved[j] if j == i else offset[j]
            row += 1
    end[nogood] = row
    following[nogood] = watched[p[6][i]]
    watched[p[6][i]] = nogood
    register[NOGOODS], register[LITERALS] = nogood + 1, row
    register[SPENT] += LOOK * count


def _restart(p: Any, s: Any) -> None:
    """Take all boxes away, lower the weights, and drop long nogoods if there are many."""
    register, weight = s[0][0], s[0][6]
    while register[NODES] > 0:
        _take_away(p, s)
        register[NODES] -= 1
    register[RESTARTS] += 1
    register[RESTART_AT] = register[FAILED] + RESTART_UNIT * _next_luby(register[RESTARTS])
    for c in range(len(weight)):
        weight[c] = max(1, weight[c] * 15 // 16)
    if register[NOGOODS] >= min(KEPT + KEPT_MORE * register[REDUCED], len(s[3][3]) * 3 // 4):
        _drop_nogoods(s)


def _drop_nogoods(s: Any) -> None:
    """Keep the nogoods that are not longer than the mean, and the latest fifth."""
    register = s[0][0]
    kind, offset, sign, first, end, following, watched = s[3]
    count, total = register[NOGOODS], register[LITERALS]
    for each in range(len(watched)):
        watched[each] = -1
    kept = row = 0
    for nogood in range(count):
        length = end[nogood] - first[nogood]
        if length * count * 4 > total * 3 and nogood < count - count // 5:
            continue
        a, first[kept] = first[nogood], row
        for k in range(a, a + length):
            kind[row], offset[row], sign[row] = kind[k], offset[k], sign[k]
            row += 1
        end[kept] = row
        following[kept] = watched[kind[first[kept]]]
        watched[kind[first[kept]]] = kept
        kept += 1
    register[NOGOODS], register[LITERALS] = kept, row
    register[REDUCED] += 1
    register[SPENT] += LOOK * total


def _next_luby(number: int) -> int:
    """Return an element of the sequence 1, 1, 2, 1, 1, 2, 4, 1, ...: `number` counts from 0."""
    number += 1
    while True:
        power = 1
        while 2 * power - 1 < number:
            power *= 2
        if 2 * power - 1 == number:
            return power
        number -= power - 1
