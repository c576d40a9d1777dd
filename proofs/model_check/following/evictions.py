"""Extract stores of regions, for Eviction: one path for each store, with its maps, releases and accesses.

A page of the module is a tile of the store, numbered from 1. Weights are counted in the largest unit that divides them
all. spec: MN9.2, MN9.3
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd
from typing import Any

from proofs.model_check.following.lines import Path, format_value
from proofs.model_check.following.log import Event, WrongLog
from proofs.model_check.following.regions import Numbers, split_stores, tiles_within_bound

MODULE = "Eviction"
ONE = 1 << 16
"""The weight of attention 1."""


def paths(events: Sequence[Event]) -> Iterator[Path]:
    """Yield a path for each store."""
    yield from map(_path, split_stores(events))


def _path(events: Sequence[Event]) -> Path:
    made, *rest = events
    path, numbers = Path(MODULE, f"store of line {made.line}", made.line, folder="mnemosyne"), Numbers()
    unit = gcd(ONE, *(event.fields["weight"] for event in rest if "weight" in event.fields))
    rooms = [tiles_within_bound(made, made.fields["memory"])]
    path.given = {"room": format_value(rooms[0], made.line)}
    largest = 1
    for event in rest:
        fields = event.fields
        if event.kind == "store memory" and tiles_within_bound(made, fields["memory"]) != rooms[-1]:
            rooms.append(tiles_within_bound(made, fields["memory"]))
            path.add(event.line, "Limit", pages=rooms[-1], bound=fields["bound"])
        elif event.kind == "region mapped":
            count = numbers.add(event, made.fields["tile"])
            for k in range(count):
                clock = fields["clock"] - count + k + 1
                path.add(event.line, "Bring", page=fields["first"] + k + 1, clock=clock, weight=0)
        else:
            for action, observed in _steps(event, unit):
                path.add(event.line, action, **observed)
        wanted = fields["tiles"] if event.kind == "tiles wanted" else []
        largest = max(largest, numbers.next, *(tile + 1 for tile in wanted))
    path.constants = _constants(made, rest, unit, rooms, largest)
    return path


def _steps(event: Event, unit: int) -> Iterator[tuple[str, dict[str, Any]]]:
    fields = event.fields
    page = fields.get("tile", 0) + 1
    match event.kind:
        case "tiles wanted":
            pages = [tile + 1 for tile in fields["tiles"]]
            yield "Fault", {"pages": pages, "mapped": fields["mapped"], "pinned": fields["pinned"]}
        case "tiles refused":
            yield "Refuse", {"count": fields["tiles"], "bound": fields["bound"], "pinned": fields["pinned"]}
        case "tiles failed":
            yield "Fail", {}
        case "tile released":
            action = "Evict" if fields["why"] == "evicted" else "Relieve"
            yield action, {"page": page, "last": fields["last"], "weight": fields["weight"] // unit}
        case "tile mapped":
            yield "Bring", {"page": page, "clock": fields["clock"], "weight": fields["weight"] // unit}
        case "tile accessed":
            yield "Touch", {"page": page, "clock": fields["clock"]}
        case "tile attended":
            yield "Attend", {"page": page, "weight": fields["weight"] // unit}
        case "tile pinned" if fields["pins"] == 1:
            yield "Pin", {"page": page}
        case "tile unpinned" if fields["pins"] == 0:
            yield "Unpin", {"page": page}
        case "region closed":
            for tile in fields["tiles"]:
                yield "Drop", {"page": tile + 1}


def _constants(made: Event, rest: Sequence[Event], unit: int, rooms: Sequence[int], pages: int) -> dict[str, str]:
    part, parts = made.fields["factor"]
    clock = max((event.fields["clock"] for event in rest if "clock" in event.fields), default=0)
    if not part or not parts:
        raise WrongLog(made.line, "λ is positive")
    format_value((parts * clock + part * pages) * (ONE // unit), made.line)  # the largest number that TLC will reach
    return {
        "Pages": format_value(pages, made.line), "Rooms": "{" + ", ".join(map(str, sorted(set(rooms)))) + "}",
        "MaxWeight": str(ONE // unit), "Part": str(part), "Parts": str(parts),
        "Accesses": format_value(clock + pages, made.line),  # refused requests would have taken some more
    }  # fmt: skip
