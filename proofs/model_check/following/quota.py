"""Extract applied plans, for Quota: one path for each time that ApplyPlan asked for memory.

An arena of the module is a mapping here: an arena by itself, or all those of a device's memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd

from proofs.model_check.following.lines import Path, format_value
from proofs.model_check.following.log import Event

MODULE = "Quota"


def paths(events: Sequence[Event]) -> Iterator[Path]:
    """Yield a path from each `asked`, for all later events about it."""
    path: Path | None = None
    asked: Event | None = None
    former: tuple[Path, Event, int] | None = None  # of the plan that stands by while a new one is applied
    is_replanned = False
    unit = 1
    for event in events:
        if event.kind in ("asked", "start"):
            if is_replanned and event.kind == "asked" and path is not None and asked is not None:
                former = path, asked, unit
            else:
                yield from (each for each in (former and former[0], path) if each is not None)
                former = None
            path, asked, is_replanned = None, None, False
        if event.kind == "replan":
            is_replanned = True
        elif event.kind == "released" and former is not None:
            former[0].add(event.line, "Release")
            yield former[0]
            former = None
        elif event.kind == "asked":
            asked, path = event, Path(MODULE, f"plan of line {event.line}", event.line)
            unit = _begin(path, event)
        elif path is None or asked is None:
            continue
        elif event.kind in ("mapped", "unmapped"):
            path.add(event.line, "Map" if event.kind == "mapped" else "Unmap", arena=event.fields["mapping"] + 1)
        elif event.kind == "refused":
            path.add(event.line, "Refuse")
        elif event.kind == "failed" and is_replanned:
            is_replanned = False  # refused before it asked for memory
        elif event.kind == "failed":
            failures = event.fields["allocation_failures"] - asked.fields["allocation_failures"]
            if asked.fields["granted"]:
                path.add(event.line, "Fail", failures=failures)
            else:
                path.ends(event.line, phase="failed", failures=failures)
            if former is not None:
                yield path
                (path, asked, unit), former = former, None
        elif event.kind == "ready":
            units, rest = divmod(event.fields["bytes_allocated"], unit)
            path.add(event.line, "Commit", allocated=-1 if rest else units)
        elif event.kind == "closed":
            path.add(event.line, "Release")
            yield path
            path = asked = None
    yield from (each for each in (former and former[0], path) if each is not None)


def _begin(path: Path, event: Event) -> int:
    """Set constants and the first line. Return the unit of bytes."""
    sizes = event.fields["mappings"]
    unit = gcd(*sizes) or 1
    need = [size // unit for size in sizes]
    budget = event.fields["budget"]
    # A budget above the total request changes nothing, because it is only compared with that.
    most = sum(need) if budget is None else min(budget // unit, sum(need))
    path.constants = {
        "Clients": "{1}", "Arenas": "{" + ", ".join(str(n + 1) for n in range(len(sizes))) + "}",
        "MaxBytes": format_value(max(need, default=0), event.line), "Budget": format_value(most, event.line),
        "Refusals": "1",
    }  # fmt: skip
    format_value(sum(need), event.line)
    path.add(event.line, "Ask", need=need, granted=event.fields["granted"])
    return unit
