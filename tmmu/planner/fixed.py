"""Fixed offsets: bytes of their arenas at which tensors must begin, since a device or a partner looks for them there.

A model states them of its tensors (`at N`), or the user with --fix. Here they become offsets of storages, and what no
placement can keep is refused before one is looked for: two that share bytes and are fixed apart, one that is not
aligned or ends beyond its arena, two that are live at one step at the same bytes. spec: A10.1, A10.2, A10.3
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from tmmu.core.errors import TmmuError
from tmmu.core.output import did_you_mean
from tmmu.core.vocabulary import UINT64_END, Tensor
from tmmu.planner.layouts.boxes import boxes_of
from tmmu.planner.problem import AllocationProblem, Fixed
from tmmu.plans.sections import Plan

HOW = "fix one of them elsewhere, or none"
ABSENT, LISTED = "no tensor has this name", "tmmu show lists them with --tensors"


def of_tensors(tensors: Sequence[Tensor], asked: Mapping[str, int], *, partly: bool) -> dict[int, int]:
    """The byte at which each fixed tensor begins: by the model, and by the user. O(tensors).

    `partly` is whether the model may lack tensors of which the user states it. Raises INVALID_BINDING for one that it
    must have, and for one that the model fixes elsewhere.
    """
    found = {t: tensor.fixed_offset for t, tensor in enumerate(tensors) if tensor.fixed_offset is not None}
    rows = {tensor.name: t for t, tensor in enumerate(tensors)} if asked else {}
    for name, at in asked.items():
        if name not in rows:
            if partly:
                continue
            raise _bad(name, ABSENT, did_you_mean(name, sorted(rows), LISTED))
        if not 0 <= at < UINT64_END or found.setdefault(rows[name], at) != at:
            stated = found.get(rows[name], at)
            raise _bad(name, f"byte {at} is asked for, the model fixes it at {stated}", "state one offset of it")
    return found


def check_found(asked: Mapping[str, int], plans: Iterable[Plan]) -> None:
    """INVALID_BINDING for what the user fixes and none of the plans of a model has."""
    if asked:
        found = {name for plan in plans for name in plan.origin.fixed}
        for name in sorted(asked.keys() - found):
            raise _bad(name, ABSENT, LISTED)


def with_fixed(
    problem: AllocationProblem,
    tensors: Sequence[Tensor],
    storage: Sequence[int],
    window: Sequence[int],
    fixed: Mapping[int, int],
) -> AllocationProblem:
    """The problem with the offsets of storages that follow from those of tensors, in the first of their arenas.

    O(fixed x log fixed) and what the arenas are. Raises as `check`, and INVALID_BINDING for two tensors of one storage.
    """
    if not fixed:
        return problem
    found: dict[int, Fixed] = {}
    choices = list(problem.choices)
    for t, at in sorted(fixed.items()):
        k, name = storage[t], tensors[t].name
        if at < window[t]:
            raise _bad(name, f"byte {at} is asked for, and it begins at byte {window[t]} of what it shows", HOW)
        one = found.setdefault(k, Fixed(at - window[t], name))
        if one.offset != at - window[t]:
            what = f"byte {at} is asked for; it shares bytes with {one.tensor!r}, which puts it at "
            raise _bad(name, what + str(one.offset + window[t]), HOW)
        choices[k] = choices[k][:1]
    made = replace(problem, choices=choices, fixed=found)
    check(made)
    return made


def check(problem: AllocationProblem) -> None:
    """Refuse what no placement can keep.

    Raises ALIGNMENT_VIOLATION, ARENA_TOO_SMALL, ALLOCATION_OVERFLOW, or ADDRESS_COLLISION naming both tensors.
    """
    of_arena: dict[int, list[int]] = {}
    for k, (at, name) in problem.fixed.items():
        a = problem.choices[k][0]
        arena, end = problem.arenas[a], at + max(1, problem.bytes[k])
        place, facts = f"tensor {name!r}", {"arena": arena.name}
        if end >= UINT64_END:
            what = f"fixed at byte {at} of arena {arena.name!r}, it ends beyond 64 bits"
            raise TmmuError("ALLOCATION_OVERFLOW", what, place=place, fix="fix it at a lower byte", **facts)
        widest = max(arena.alignment, problem.alignment[k])
        if at % widest:
            what = f"byte {at} of arena {arena.name!r}, where it is fixed, is not aligned to {widest}"
            raise TmmuError("ALIGNMENT_VIOLATION", what, place=place, fix=f"fix it at a multiple of {widest}", **facts)
        if end > arena.capacity:
            what = f"fixed at byte {at} of arena {arena.name!r}, it ends at {end}, its capacity is {arena.capacity}"
            raise TmmuError(
                "ARENA_TOO_SMALL", what, place=place, fix="fix it lower, or raise the capacity",
                arena=arena.name, capacity=arena.capacity, required=end,
            )  # fmt: skip
        of_arena.setdefault(a, []).append(k)
    for a, members in of_arena.items():
        if (pair := _overlapping(problem, members, problem.arenas[a].reuse)) is not None:
            raise _collision(problem, a, *pair)


def _overlapping(problem: AllocationProblem, members: list[int], reuse: bool) -> tuple[int, int] | None:
    """Two fixed storages of an arena that have a byte in common and may not: live at one step, bound to be apart."""
    fixed, size = problem.fixed, problem.bytes
    for k in members:
        for o in sorted(problem.conflicts.get(k, ())):
            if o in fixed and problem.choices[o][0] == problem.choices[k][0] and o != k:
                low, high = max(fixed[k].offset, fixed[o].offset), [fixed[x].offset + max(1, size[x]) for x in (k, o)]
                if low < min(high):
                    return k, o
    # By birth; what is live lies apart, so that its ends are in the order of its beginnings.
    live: list[tuple[int, int, int]] = []  # offset, end, storage
    timed = boxes_of(problem, members, problem.arenas[problem.choices[members[0]][0]].alignment).pieces()
    pieces = sorted((first, last, members[i]) for i, first, last in timed)
    leaving = sorted((last, k) for _, last, k in pieces) if reuse else []
    gone = 0
    for first, _, k in pieces if reuse else [(0, 0, k) for k in members]:
        while gone < len(leaving) and leaving[gone][0] < first:
            o = leaving[gone][1]
            live.remove((fixed[o].offset, fixed[o].offset + max(1, size[o]), o))
            gone += 1
        mine = (fixed[k].offset, fixed[k].offset + max(1, size[k]), k)
        at = bisect.bisect_left(live, mine)
        for other in live[max(0, at - 1) : at + 1]:
            if other[0] < mine[1] and mine[0] < other[1]:
                return other[2], k
        live.insert(at, mine)
    return None


def _collision(problem: AllocationProblem, a: int, one: int, other: int) -> TmmuError:
    """ADDRESS_COLLISION for two storages, with their bytes and steps."""
    shown = [
        f"{problem.fixed[k].tensor!r} is fixed at bytes {problem.fixed[k].offset} to "
        f"{problem.fixed[k].offset + max(1, problem.bytes[k]) - 1} and live from step {problem.birth[k]} to "
        f"{problem.death[k]}"
        for k in sorted((one, other), key=lambda k: (problem.birth[k], k))
    ]
    name = problem.arenas[a].name
    what = f"{shown[0]}, {shown[1]}: they may not share a byte"
    return TmmuError("ADDRESS_COLLISION", what, place=f"arena {name!r}", fix=HOW, arena=name)


def misplaced(problem: AllocationProblem, arena: Sequence[int], offset: Sequence[int], layout: str) -> TmmuError | None:
    """INVALID_BINDING for a storage that a layout, whose addresses follow by a rule, has put elsewhere. spec: A10.4"""
    for k, (at, name) in problem.fixed.items():
        if offset[k] != at:
            what = f"byte {at} of arena {problem.arenas[arena[k]].name!r} is asked for, the layout {layout} puts it at "
            return _bad(name, what + str(offset[k]), "--layout packed, or --fallback packed with --layout slots")
    return None


def _bad(name: str, what: str, fix: str) -> TmmuError:
    return TmmuError("INVALID_BINDING", what, place=f"tensor {name!r}", fix=fix, binding=name)
