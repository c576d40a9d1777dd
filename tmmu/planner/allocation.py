"""From an allocation problem to its solution, arenas, slots and layout; or the refusal that names what would fit.

Where slots do not fit, `packed` is used if it was named as the fallback and fits; where it was not, the refusal states
that it would. spec: A3.2, A8.4, A8.5, M3.13
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tmmu.core.errors import TmmuError
from tmmu.planner.arenas.assignment import Solution, assign
from tmmu.planner.arenas.capacity import Shortfall, shortfalls
from tmmu.planner.layouts.addresses import Addresses
from tmmu.planner.layouts.packed import lower
from tmmu.planner.layouts.search import Effort
from tmmu.planner.problem import AllocationProblem
from tmmu.plans.sections import BOUNDS

NAMED = 4
"""How many arenas and memories one refusal names."""


def allocate(
    problem: AllocationProblem,
    layout: str,
    fallback: str | None = None,
    *,
    recorded: bool = False,
    effort: int | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> tuple[str, Solution]:
    """The layout that is used, and the solution with it: packed if that is the fallback, where slots do not fit, not
    even into 64 bits, or lie elsewhere than where they are fixed. spec: A8.5, A10.4

    `recorded` asks for the moves of the scan. With `effort`, lower placements are searched for, storages staying in
    their arenas, until it is spent, nothing is left to be found or `stopped` says so (A8.8, A8.9). Raises
    ARENA_TOO_SMALL, and what the layout raises.
    """
    if layout == "slots" and fallback == "packed":
        layout, found = _slots_or_packed(problem, recorded)
    else:
        found = assign(problem, layout, recorded=recorded)
    if effort is not None:
        found = _lowered(problem, found, Effort(effort), stopped)
    if found.short:
        raise too_small(problem, found, layout)
    return layout, found


def _slots_or_packed(problem: AllocationProblem, recorded: bool) -> tuple[str, Solution]:
    """Slots where they fit; else packed, unless that does not fit either."""
    try:
        slots = assign(problem, "slots", recorded=recorded)
    except TmmuError:
        return "packed", assign(problem, "packed", recorded=recorded)
    if slots.short:
        packed = assign(problem, "packed", recorded=recorded)
        if not packed.short:
            return "packed", packed
    return "slots", slots


def _lowered(problem: AllocationProblem, found: Solution, effort: Effort, stopped: Callable[[], bool]) -> Solution:
    """The solution with the placements that a search finds."""
    (offset, footprint), bounds = lower(problem, found.arena, Addresses(found.offset, found.footprint), effort, stopped)
    short = shortfalls(problem, found.slots, footprint)
    return replace(found, offset=offset, footprint=footprint, short=short, effort=effort.found, bounds=bounds)


def too_small(problem: AllocationProblem, found: Solution, layout: str) -> TmmuError:
    """ARENA_TOO_SMALL: what is too small and by how much, and what packed would need there. spec: A3.2, A8.4, M3.13"""
    first, *others = found.short
    rows = [a for a in first.arenas if found.footprint[a]]
    more = [f"{short.place}: {_needed(problem, found, short)}" for short in others[: NAMED - 1]]
    more += [f"and {len(found.short) - NAMED} more"] if len(found.short) > NAMED else []
    return TmmuError(
        "ARENA_TOO_SMALL",
        "; ".join([_needed(problem, found, first), *more]),
        place=first.place,
        fix=_fix(problem, layout, rows),
        arena=problem.arenas[rows[0]].name,
        capacity=first.capacity,
        required=first.required,
    )


def _needed(problem: AllocationProblem, found: Solution, short: Shortfall) -> str:
    """The bytes that an arena or a memory needs, and where they come from."""
    if short.is_memory:
        parts = ", ".join(
            f"{problem.arenas[a].name!r} {found.footprint[a]}" for a in short.arenas if found.footprint[a]
        )
        needed = f"its arenas need {short.required} bytes together ({parts}), its capacity is {short.capacity}"
        return needed + _answer(found, short)
    live = problem.live_bytes([k for k, a in enumerate(found.arena) if a in short.arenas])
    peak = max(live)
    at = f"({peak} live at step {live.index(peak)})"
    return f"{short.required} bytes are needed {at}, its capacity is {short.capacity}" + _answer(found, short)


def _answer(found: Solution, short: Shortfall) -> str:
    """After a search: that no placement fits, and what shows it, or that it is not known. spec: A8.11"""
    if found.effort is None:
        return ""
    bounds = [found.bounds[a] for a in short.arenas if found.footprint[a]]
    least = sum(bound.bytes for bound in bounds)
    if least > short.capacity:
        shown = ", ".join(sorted({BOUNDS[bound.by] for bound in bounds}))
        return f"; it does not fit: no placement is below {least} ({shown})"
    return "; whether a placement fits is unknown after this effort"


def _fix(problem: AllocationProblem, layout: str, rows: list[int]) -> str:
    """What packed would need in the arenas `rows`, and what helps besides."""
    more = "raise the capacity, or plan smaller shapes"
    if problem.policy.rules:
        more = "raise the capacity, let a rule list further arenas, or plan smaller shapes"
    if layout == "packed":
        return more
    try:
        tighter = assign(problem, "packed")
    except TmmuError:  # it does not fit 64 bits either
        return more
    needed = sum(tighter.footprint[a] for a in rows)
    if tighter.short:
        return f"packed would need {needed}, which does not fit either: {more}"
    instead = "--layout packed, or --fallback packed" if layout == "slots" else "--layout packed"
    return f"packed needs {needed}, which fits: {instead}"
