"""Solve an allocation problem: arenas, slots and layout; or refuse it and name a configuration that would fit.

If slots do not fit and `packed` is the fallback, `packed` is used if it fits. Without a fallback the refusal states
whether it would. spec: A3.2, A8.4, A8.5, M3.13
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tmmu.core.errors import TmmuError
from tmmu.planner.arenas.assignment import Solution, assign_arenas
from tmmu.planner.arenas.capacity import Shortfall, find_shortfalls
from tmmu.planner.layouts.addresses import Addresses
from tmmu.planner.layouts.packed import search_lower
from tmmu.planner.layouts.search import Effort
from tmmu.planner.problem import AllocationProblem
from tmmu.plans.sections import BOUNDS

NAMED = 4
"""The most arenas and memories that one refusal names."""


def allocate(
    problem: AllocationProblem,
    layout: str,
    fallback: str | None = None,
    *,
    recorded: bool = False,
    effort: int | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> tuple[str, Solution]:
    """Return the layout that is used, and its solution.

    `packed` is used as the fallback if slots do not fit, not even into 64 bits, or if they miss fixed offsets.
    spec: A8.5, A10.4

    With `recorded`, the moves of the scan are recorded. With `effort`, lower placements are searched for, with storages
    staying in their arenas, until it is spent, no lower placement exists or `stopped` returns True (A8.8, A8.9). Raises
    ARENA_TOO_SMALL, and the errors of the layout.
    """
    if layout == "slots" and fallback == "packed":
        layout, found = _slots_or_packed(problem, recorded)
    else:
        found = assign_arenas(problem, layout, recorded=recorded)
    if effort is not None:
        found = _search_lower(problem, found, Effort(effort), stopped)
    if found.short:
        raise too_small_error(problem, found, layout)
    return layout, found


def _slots_or_packed(problem: AllocationProblem, recorded: bool) -> tuple[str, Solution]:
    """Return slots if they fit; otherwise packed, unless it does not fit either."""
    try:
        slots = assign_arenas(problem, "slots", recorded=recorded)
    except TmmuError:
        return "packed", assign_arenas(problem, "packed", recorded=recorded)
    if slots.short:
        packed = assign_arenas(problem, "packed", recorded=recorded)
        if not packed.short:
            return "packed", packed
    return "slots", slots


def _search_lower(problem: AllocationProblem, found: Solution, effort: Effort, stopped: Callable[[], bool]) -> Solution:
    """Return the solution with the placements that a search finds."""
    (offset, footprint), bounds = search_lower(
        problem, found.arena, Addresses(found.offset, found.footprint), effort, stopped
    )
    short = find_shortfalls(problem, found.slots, footprint)
    return replace(found, offset=offset, footprint=footprint, short=short, effort=effort.found, bounds=bounds)


def too_small_error(problem: AllocationProblem, found: Solution, layout: str) -> TmmuError:
    """Return ARENA_TOO_SMALL: what is too small, by how much, and what packed would need. spec: A3.2, A8.4, M3.13"""
    first, *others = found.short
    rows = [a for a in first.arenas if found.footprint[a]]
    more = [f"{short.place}: {_describe_need(problem, found, short)}" for short in others[: NAMED - 1]]
    more += [f"and {len(found.short) - NAMED} more"] if len(found.short) > NAMED else []
    return TmmuError(
        "ARENA_TOO_SMALL",
        "; ".join([_describe_need(problem, found, first), *more]),
        place=first.place,
        fix=_fix(problem, layout, rows),
        arena=problem.arenas[rows[0]].name,
        capacity=first.capacity,
        required=first.required,
    )


def _describe_need(problem: AllocationProblem, found: Solution, short: Shortfall) -> str:
    """Describe the bytes that an arena or a memory needs, and their origin."""
    if short.is_memory:
        parts = ", ".join(
            f"{problem.arenas[a].name!r} {found.footprint[a]}" for a in short.arenas if found.footprint[a]
        )
        needed = f"its arenas need {short.required} bytes together ({parts}), its capacity is {short.capacity}"
        return needed + _describe_search(found, short)
    live = problem.live_bytes([k for k, a in enumerate(found.arena) if a in short.arenas])
    peak = max(live)
    at = f"({peak} live at step {live.index(peak)})"
    return f"{short.required} bytes are needed {at}, its capacity is {short.capacity}" + _describe_search(found, short)


def _describe_search(found: Solution, short: Shortfall) -> str:
    """Describe the result of a search: that no placement fits, with the reason, or that it is unknown. spec: A8.11"""
    if found.effort is None:
        return ""
    bounds = [found.bounds[a] for a in short.arenas if found.footprint[a]]
    least = sum(bound.bytes for bound in bounds)
    if least > short.capacity:
        shown = ", ".join(sorted({BOUNDS[bound.by] for bound in bounds}))
        return f"; no placement fits: none is below {least} ({shown})"
    return "; whether a placement fits is unknown after this effort"


def _fix(problem: AllocationProblem, layout: str, rows: list[int]) -> str:
    """Return the advice for the arenas `rows`: what packed would need there, and other remedies."""
    more = "raise the capacity, or plan smaller shapes"
    if problem.policy.rules:
        more = "raise the capacity, let a rule list further arenas, or plan smaller shapes"
    if layout == "packed":
        return more
    try:
        tighter = assign_arenas(problem, "packed")
    except TmmuError:  # it does not fit into 64 bits either
        return more
    needed = sum(tighter.footprint[a] for a in rows)
    if tighter.short:
        return f"packed would need {needed}, which does not fit either: {more}"
    instead = "--layout packed, or --fallback packed" if layout == "slots" else "--layout packed"
    return f"packed needs {needed}, which fits: {instead}"
