"""Extract executions of a plan, for Zeroing: a path for each arena that reuses its bytes, each time a plan is applied.

The module is about slots that have separate bytes, zeros, and steps that run once each, one after the other. It does
not cover a plan that is packed, was restored, is filled with a pattern or has loops.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from proofs.model_check.following.lines import Path, format_value
from proofs.model_check.following.log import Event, WrongLog

MODULE = "Zeroing"
NO_BATCH, NO_STEP = -2, -1
"""The last step of a batch, if none is open, and if it has not begun a step."""


def paths(events: Sequence[Event]) -> Iterator[Path]:
    """Yield, for each plan that was applied, a path through each arena that the module covers."""
    first: int | None = None
    for at, event in enumerate(events):
        if event.kind in ("asked", "start", "closed", "failed"):
            if first is not None:
                yield from _of_plan(events[first], events[first + 1 : at])
            first = at if event.kind == "asked" else None
    if first is not None:
        yield from _of_plan(events[first], events[first + 1 :])


def reason_not_covered(asked: Event) -> str | None:
    """Return why the module does not cover a plan, or None if it does."""
    if asked.fields["is_restored"]:
        return "its arenas hold what a checkpoint held"
    if not asked.fields["is_fresh"]:
        return "its storages are filled with a pattern"
    return "its loops run steps again" if asked.fields["iterates"] else None


def shares_bytes(asked: Event, arena: int) -> bool:
    """Whether two slots of the arena share a byte, as in a packed plan."""
    reach: dict[int, tuple[int, int]] = {}
    for _, row, slot, offset, size, _, _ in asked.fields["storages"]:
        if row == arena and size:
            low, high = reach.get(slot, (offset, offset + size))
            reach[slot] = min(low, offset), max(high, offset + size)
    return any(one[1] > other[0] for one, other in pairwise(sorted(reach.values())))


def _of_plan(asked: Event, events: Sequence[Event]) -> Iterator[Path]:
    if reason_not_covered(asked) is not None or not any(event.kind == "ready" for event in events):
        return
    for a, arena in enumerate(asked.fields["arenas"]):
        rows = [(k, *row) for k, row in enumerate(asked.fields["storages"]) if row[1] == a]
        if arena["reuse"] and rows and not shares_bytes(asked, a):
            yield _of_arena(asked, arena["name"], rows, events)


def _of_arena(asked: Event, arena: str, rows: list[tuple[Any, ...]], events: Sequence[Event]) -> Path:
    path = Path(MODULE, f"arena {arena} of the plan of line {asked.line}", asked.line)
    number = {row[0]: n for n, row in enumerate(rows, 1)}
    slots = {slot: n for n, slot in enumerate(sorted({row[3] for row in rows}), 1)}
    steps = max(1, asked.fields["steps"])
    begun = sum(event.kind == "begun" for event in events)
    path.constants = {
        "Count": str(len(rows)), "LastStep": str(steps - 1), "SlotCount": str(len(slots)), "Executions": str(begun),
        "Applies": "1",
    }  # fmt: skip
    path.given = {
        "birth": format_value([row[6] for row in rows]),
        "death": format_value([row[7] for row in rows]),
        "slot": format_value([slots[row[3]] for row in rows]),
    }
    loaded, last = False, NO_BATCH
    for event in events:
        if event.kind == "ready":
            path.add(event.line, "Apply")
        elif event.kind == "begun":
            if not loaded:
                path.add(event.line, "Load")
            loaded, last = True, NO_STEP
            path.add(event.line, "Begin")
        elif event.kind == "step":
            if last != NO_STEP:
                path.add(event.line, "Proceed", step=event.fields["step"])
            elif event.fields["step"]:
                raise WrongLog(event.line, "a batch begins at step 0")
            last = event.fields["step"]
        elif event.kind == "born":
            storage = event.fields["storage"]
            if storage >= len(asked.fields["storages"]):
                raise WrongLog(event.line, f"storage {storage} is not one of the plan")
            if storage in number:
                observed = {key: event.fields[key] for key in ("zeroed", "is_zero")}
                path.add(event.line, "Bear", storage=number[storage], **observed)
                path.add(event.line, "Write", storage=number[storage])
        elif event.kind == "committed" and last != NO_BATCH:
            path.add(event.line, "End")
            last = NO_BATCH
    return path
