"""Extract memory pools with generations, for PoolGenerations: one path for each pool of a log, which has its own label.

Bytes are counted in units of the pools' alignment. Chunks are numbered from 0 in the log and from 1 in the module.
spec: FD9.1, FD9.2
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from proofs.model_check.following.lines import Path, format_value
from proofs.model_check.following.log import Event, WrongLog

MODULE = "PoolGenerations"
UNIT = 256


def paths(events: Sequence[Event]) -> Iterator[Path]:
    """Yield a path from each `pool made` to its `pool closed`, the next of that label, or the end of the process."""
    of_pool: dict[str, list[Event]] = {}
    for event in events:
        if event.kind == "start":
            yield from map(_path, of_pool.values())
            of_pool = {}
        elif event.kind.startswith("pool ") and "pool" in event.fields:
            label = event.fields["pool"]
            if event.kind == "pool made":
                yield from map(_path, [of_pool[label]] if label in of_pool else [])
                of_pool[label] = []
            elif label not in of_pool:
                raise WrongLog(event.line, f"{event.kind!r} of a pool that was not made")
            elif of_pool[label][-1].kind == "pool closed":
                raise WrongLog(event.line, f"{event.kind!r} of a pool that is closed")
            of_pool[label].append(event)
    yield from map(_path, of_pool.values())


def _path(events: Sequence[Event]) -> Path:
    made, *rest = events
    path = Path(MODULE, f"pool of line {made.line}", made.line, folder="foundry")
    limit = _units(made, "limit")
    for event in rest:
        fields, line = event.fields, event.line
        match event.kind:
            case "pool take" | "pool grow":
                where = {
                    "handle": fields["tensor"], "chunk": fields["chunk"] + 1, "first": _units(event, "offset"),
                    "bytes": _units(event, "bytes"), "used": _units(event, "used"),
                }  # fmt: skip
                if event.kind == "pool grow":
                    where["size"] = _units(event, "size")
                path.add(line, "Take" if event.kind == "pool take" else "Grow", **where)
            case "pool lack":
                size = min(-(-fields["bytes"] // UNIT), limit + 1)  # anything above the limit counts as one more
                path.add(line, "Lack", bytes=size, isDenied=fields["is_denied"], lacked=fields["lacked"])
            case "pool submit" | "pool complete":
                accesses = {key: fields[key] for key in ("reads", "writes", "commands")}
                is_whole = fields.get("is_whole", True)
                action = "Submit" if event.kind == "pool submit" else "Complete" if is_whole else "Fail"
                path.add(line, action, **accesses)
            case "pool lease" | "pool return":
                action = "Lease" if event.kind == "pool lease" else "Return"
                path.add(line, action, handle=fields["tensor"], leases=fields["leases"])
            case "pool refuse":
                path.add(
                    line, "Refuse", handle=fields["tensor"], generation=fields["generation"], refused=fields["refused"]
                )
            case "pool ask":
                path.add(line, "Ask", user=fields["user"])
            case "pool reset":
                path.add(line, "Reset", user=fields["user"], generation=fields["generation"])
            case "pool in use":
                path.add(line, "GiveUp", user=fields["user"], inUse=fields["in_use"])
            case "pool exhausted":
                path.add(line, "Exhaust", user=fields["user"], generation=fields["generation"])
            case "pool closed":
                counted = {"lacked": fields["lacked"], "stale": fields["refused"], "inUse": fields["in_use"]}
                closed = {"user": fields["user"], "generation": fields["generation"]}
                path.ends(line, **closed, handles=fields["allocations"], **counted)
    path.constants = _constants(made, rest, limit)
    return path


def _constants(made: Event, rest: Sequence[Event], limit: int) -> dict[str, str]:
    """Return the pool's own figures, and bounds of all that was logged."""

    def most(key: str) -> int:
        return max((event.fields[key] for event in rest if key in event.fields), default=0)

    firsts = sorted({0, *(_units(event, "offset") for event in rest if "offset" in event.fields)})
    return {
        "Initial": format_value(_units(made, "initial"), made.line), "Limit": format_value(limit, made.line),
        "MaxChunks": str(made.fields["chunks"]), "MaxRequest": "1", "Handles": str(max(1, most("tensor"))),
        "Users": "{" + ", ".join(str(n + 1) for n in range(max(1, most("user")))) + "}",
        "MaxCommands": str(most("commands")), "MaxLeases": str(most("leases")),
        "LastGeneration": str(min(made.fields["last"], most("generation") + 1)),
        "Looked": "{" + ", ".join(format_value(first, made.line) for first in firsts) + "}",
    }  # fmt: skip


def _units(event: Event, key: str) -> int:
    units, rest = divmod(event.fields[key], UNIT)
    if rest:
        raise WrongLog(event.line, f"{key} of {event.kind!r} is not a multiple of {UNIT}")
    return int(units)
