"""Fixed offsets: the bytes where tensors must begin in their arenas, because a device or another program relies on it.

A model declares them for its tensors (`at N`), or the user with --fix. The user may name the arena, and has to if
several may hold the tensor. Here they become offsets of storages. Contradictions are refused before a placement is
searched for: two tensors that share bytes with different fixed offsets, an offset that is not aligned or ends beyond
its arena, two storages that are live at one step and overlap. spec: A10.1, A10.2, A10.3, A10.8
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from tmmu.core.errors import TmmuError
from tmmu.core.output import suggest_names
from tmmu.core.vocabulary import UINT64_END, FixedByte, Tensor
from tmmu.planner.layouts.boxes import build_boxes
from tmmu.planner.problem import AllocationProblem, Choices, Fixed
from tmmu.plans.sections import Plan

HOW = "fix one of them elsewhere, or none"
ABSENT, LISTED = "no tensor has this name", "tmmu show lists them with --tensors"


class RequestedPlace(NamedTuple):
    """The offset at which a tensor must begin, its arena if one is named, and whether the user requests it."""

    byte: int
    arena: str | None = None
    by_user: bool = False

    def agrees(self, other: RequestedPlace | None) -> bool:
        """Return whether tensors with these two places can begin at one byte of one arena."""
        return (
            other is not None
            and self.byte == other.byte
            and (self.arena == other.arena or None in (self.arena, other.arena))
        )


def fixed_offsets(
    tensors: Sequence[Tensor], asked: Mapping[str, FixedByte], *, partly: bool
) -> dict[int, RequestedPlace]:
    """Return the place at which each fixed tensor begins, by the model or by the user. O(tensors).

    `partly` states that the model may lack tensors that the user names. Raises INVALID_BINDING for a missing tensor
    otherwise, and for one that the model fixes elsewhere.
    """
    found = {
        t: RequestedPlace(tensor.fixed_offset) for t, tensor in enumerate(tensors) if tensor.fixed_offset is not None
    }
    rows = {tensor.name: t for t, tensor in enumerate(tensors)} if asked else {}
    for name, place in asked.items():
        if name not in rows:
            if partly:
                continue
            raise _bad(name, ABSENT, suggest_names(name, sorted(rows), LISTED))
        arena, at = place if isinstance(place, tuple) else (None, place)
        if not 0 <= at < UINT64_END or found.get(rows[name], RequestedPlace(at)).byte != at:
            stated = found.get(rows[name], RequestedPlace(at)).byte
            raise _bad(name, f"byte {at} is requested, the model fixes it at {stated}", "state one offset for it")
        found[rows[name]] = RequestedPlace(at, arena, by_user=True)
    return found


def check_found(asked: Mapping[str, FixedByte], plans: Iterable[Plan]) -> None:
    """Raise INVALID_BINDING for a tensor that the user fixes and that none of the plans of a model has."""
    if asked:
        found = {name for plan in plans for name in plan.origin.fixed}
        for name in sorted(asked.keys() - found):
            raise _bad(name, ABSENT, LISTED)


def add_fixed(
    problem: AllocationProblem,
    tensors: Sequence[Tensor],
    storage: Sequence[int],
    window: Sequence[int],
    fixed: Mapping[int, RequestedPlace],
) -> AllocationProblem:
    """Return the problem with the offsets of storages that follow from those of tensors, each in one of its arenas.

    The arena is the one that is named, else the first that may hold the storage. If the user requests the offset and
    several arenas may hold the storage, one has to be named. O(fixed x log fixed), plus the number of arenas. Raises as
    `check_fixed`, and INVALID_BINDING for two tensors of one storage and for an arena that may not hold it.
    """
    if not fixed:
        return problem
    found: dict[int, Fixed] = {}
    choices = list(problem.choices)
    for t, place in sorted(fixed.items()):
        k, name, at = storage[t], tensors[t].name, place.byte
        if at < window[t]:
            raise _bad(name, f"byte {at} is requested, but it begins at byte {window[t]} of its storage", HOW)
        one = found.setdefault(k, Fixed(at - window[t], name))
        if one.offset != at - window[t]:
            what = f"byte {at} is requested, but it shares bytes with {one.tensor!r}, which puts it at "
            raise _bad(name, what + str(one.offset + window[t]), HOW)
        if place.arena is not None:
            choices[k] = _named(problem, k, name, place.arena, choices[k])
    for t, place in sorted(fixed.items()):
        k = storage[t]
        if place.by_user and len(choices[k]) > 1:
            several = [problem.arenas[a].name for a in choices[k]]
            what = f"byte {place.byte} is requested without an arena; it may be in {', '.join(several)}"
            raise _bad(tensors[t].name, what, f"name one, as in --fix {tensors[t].name}={several[0]}:{place.byte}")
    for k in found:
        choices[k] = choices[k][:1]
    made = replace(problem, choices=choices, fixed=found)
    check_fixed(made)
    return made


def _named(problem: AllocationProblem, storage: int, name: str, arena: str, choices: Choices) -> Choices:
    """Return the one choice of a storage whose arena is named. Raises INVALID_BINDING if it is not one of `choices`."""
    names = [problem.arenas[a].name for a in choices]
    if arena in names:
        return (choices[names.index(arena)],)
    may = "it may be in" if choices == problem.choices[storage] else "it shares bytes with a tensor that is fixed in"
    what = f"the arena {arena!r} is requested; {may} {', '.join(names)}"
    raise _bad(name, what, f"name {' or '.join(names)}, or allow another arena with --arenas")


def check_fixed(problem: AllocationProblem) -> None:
    """Check that the fixed offsets can be kept.

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
            what = f"its fixed byte {at} of arena {arena.name!r} is not aligned to {widest}"
            raise TmmuError("ALIGNMENT_VIOLATION", what, place=place, fix=f"fix it at a multiple of {widest}", **facts)
        if end > arena.capacity:
            what = f"fixed at byte {at} of arena {arena.name!r}, it ends at {end}, its capacity is {arena.capacity}"
            raise TmmuError(
                "ARENA_TOO_SMALL", what, place=place, fix="fix it lower, or raise the capacity",
                arena=arena.name, capacity=arena.capacity, required=end,
            )  # fmt: skip
        of_arena.setdefault(a, []).append(k)
    for a, members in of_arena.items():
        if (pair := _find_overlap(problem, members, problem.arenas[a].reuse)) is not None:
            raise _collision(problem, a, *pair)


def _find_overlap(problem: AllocationProblem, members: list[int], reuse: bool) -> tuple[int, int] | None:
    """Return two fixed storages that overlap but may not: they are live at one step, or must not alias.

    None if there are none.
    """
    fixed, size = problem.fixed, problem.bytes
    for k in members:
        for o in sorted(problem.conflicts.get(k, ())):
            if o in fixed and problem.choices[o][0] == problem.choices[k][0] and o != k:
                low, high = max(fixed[k].offset, fixed[o].offset), [fixed[x].offset + max(1, size[x]) for x in (k, o)]
                if low < min(high):
                    return k, o
    # Sweep by birth. Live storages do not overlap, so that their ends are in the order of their beginnings.
    live: list[tuple[int, int, int]] = []  # offset, end, storage
    timed = build_boxes(problem, members, problem.arenas[problem.choices[members[0]][0]].alignment).pieces()
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
    """Return ADDRESS_COLLISION for two storages, with their bytes and steps."""
    shown = [
        f"{problem.fixed[k].tensor!r} is fixed at bytes {problem.fixed[k].offset} to "
        f"{problem.fixed[k].offset + max(1, problem.bytes[k]) - 1} and live from step {problem.birth[k]} to "
        f"{problem.death[k]}"
        for k in sorted((one, other), key=lambda k: (problem.birth[k], k))
    ]
    name = problem.arenas[a].name
    what = f"{shown[0]}, {shown[1]}: they may not share a byte"
    return TmmuError("ADDRESS_COLLISION", what, place=f"arena {name!r}", fix=HOW, arena=name)


def misplaced_error(
    problem: AllocationProblem, arena: Sequence[int], offset: Sequence[int], layout: str
) -> TmmuError | None:
    """Return INVALID_BINDING if a rule-based layout puts a fixed storage elsewhere, otherwise None. spec: A10.4"""
    for k, (at, name) in problem.fixed.items():
        if offset[k] != at:
            what = f"byte {at} of arena {problem.arenas[arena[k]].name!r} is requested, the layout {layout} puts it at "
            return _bad(name, what + str(offset[k]), "--layout packed, or --fallback packed with --layout slots")
    return None


def _bad(name: str, what: str, fix: str) -> TmmuError:
    return TmmuError("INVALID_BINDING", what, place=f"tensor {name!r}", fix=fix, binding=name)
