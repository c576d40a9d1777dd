"""A plan set for people and programs: shared tensors, arenas beside their lower bounds, and the order of first calls.

`tmmu plan` and `tmmu show` print it. spec: PS3.5, C2.2
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tmmu.cli.show_report import document as plan_document
from tmmu.core.output import format_size, list_names
from tmmu.plans import metrics
from tmmu.plans.sections import Plan
from tmmu.plans.sets import PlanSet, SharedTensor, SharedUse, live_peaks
from tmmu.plans.shapes import compute_peaks

LISTED = 8
"""The most shared tensors that are listed with their places."""


def document(plan_set: PlanSet, plans: Mapping[str, Plan]) -> dict[str, Any]:
    """Return a set for programs: its arenas, its shared tensors, and each plan with its tensors."""
    peaks = live_peaks(plan_set.agreement, plans)
    return {
        "layout": plan_set.layout,
        "arenas": [
            {
                "name": arena.name, "footprint_bytes": arena.bytes, "alignment": arena.alignment,
                "peak_live_bytes": peaks[arena.name],
            }
            for arena in plan_set.agreement.arenas
        ],
        "shared": [shared_record(one) for one in plan_set.agreement.shared],
        "programs": [
            {"name": name, **plan_document(plan), "tensors": metrics.tensor_records(plan)}
            for name, plan in plans.items()
        ],
    }  # fmt: skip


def shared_record(one: SharedTensor) -> dict[str, Any]:
    """Return a shared tensor for programs."""
    return {
        "name": one.name, "arena": one.arena, "offset": one.offset, "bytes": one.bytes, "alignment": one.alignment,
        "dtype": one.dtype, "initial": one.is_initial, "weight": one.is_weight,
        "uses": {program: use._asdict() for program, use in one.uses.items()},
    }  # fmt: skip


def lines(plan_set: PlanSet, plans: Mapping[str, Plan]) -> Iterator[str]:
    """Yield the shared tensors, each arena beside its bounds, and the state that is written first."""
    shared = plan_set.agreement.shared
    states = [one for one in shared if not one.is_weight]
    weights = [one for one in shared if one.is_weight]
    for what, found in (("state", states), ("weights", weights)):
        if found:
            names = list_names([one.name for one in found])
            yield f"  shared {what}: {names}, {format_size(sum(one.bytes for one in found))} once"
    for one in states[:LISTED]:
        ways = [f"{program} {describe_use(use)}" for program, use in one.uses.items()]
        yield f"    {one.name}: {one.bytes} bytes at {one.arena}:{one.offset}, {', '.join(ways)}"
    if len(states) > LISTED:
        yield f"    and {len(states) - LISTED} more"
    yield from _arenas(plan_set, plans)
    yield from _calls(shared)


def _arenas(plan_set: PlanSet, plans: Mapping[str, Plan]) -> Iterator[str]:
    """Yield each arena that holds anything, beside the least that the set, and that the programs one by one, need."""
    peaks, alone = live_peaks(plan_set.agreement, plans), Counter[str]()
    for plan in plans.values():
        places = plan.allocation
        found = compute_peaks(places.storages, len(places.arenas), max(1, len(places.steps)))
        alone.update({arena.name: peak for arena, (peak, _) in zip(places.arenas, found, strict=True)})
    for name, size, _ in plan_set.agreement.arenas:
        if size:
            ratio = f", peak live {peaks[name]}, ratio {size / peaks[name]:.3f}" if peaks[name] else ""
            own = f"; the programs one by one at least {alone[name]}" if len(plans) > 1 else ""
            yield f"  {name}: footprint {size} ({format_size(size)}){ratio}{own}"


def describe_use(use: SharedUse) -> str:
    """Return how a program uses a shared tensor.

    >>> from tmmu.plans.sets import SharedUse
    >>> describe_use(SharedUse("a", "b")), describe_use(SharedUse("a", "a"))
    ('reads a, returns b', 'changes a')
    >>> describe_use(SharedUse("a")), describe_use(SharedUse(None, "b"))
    ('reads a', 'writes b')
    """
    if use.entry is None:
        return f"writes {use.exit}"
    if use.exit is None:
        return f"reads {use.entry}"
    return f"changes {use.entry}" if use.entry == use.exit else f"reads {use.entry}, returns {use.exit}"


def _calls(shared: Sequence[SharedTensor]) -> Iterator[str]:
    """Yield which state the caller writes before the first call, and which program must be called before another."""
    initial = [one.name for one in shared if one.is_initial]
    if initial:
        yield f"  initial: {list_names(initial)} (the caller writes them before the first call)"
    late: Mapping[str, list[str]] = {
        one.name: [program for program, use in one.uses.items() if use.entry is None]
        for one in shared
        if not one.is_initial
    }
    for name, programs in late.items():
        yield f"  {name}: written by {list_names(programs)} before any other program reads it"
