"""Extract the calls of a run of a plan set, for PlanSet: one path for each run.

A byte of the module is a range of addresses between the ends of any two tensors. Therefore a log of tensors of any size
needs no more bytes than twice its tensors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from proofs.model_check.following.lines import Path, format_value
from proofs.model_check.following.log import Event, WrongLog

MODULE = "PlanSet"
ACTIONS = {"set load": "Load", "set call": "Call", "set read": "Read", "set write": "Store", "set return": "Return"}


def paths(events: Sequence[Event]) -> Iterator[Path]:
    """Yield a path from each `set opened` to the next, or to the end of the log."""
    path: Path | None = None
    for event in events:
        if event.kind == "set opened":
            if path is not None:
                yield path
            path = _begin(event, sum(each.kind == "set call" for each in events))
        elif event.kind in ACTIONS:
            if path is None:
                raise WrongLog(event.line, f"{event.kind!r} before 'set opened'")
            path.add(event.line, ACTIONS[event.kind], **_numbered(event.fields))
    if path is not None:
        yield path


def _numbered(fields: dict[str, int]) -> dict[str, int]:
    """Return the fields of an event; the module counts programs, tensors and regions from 1."""
    return {key: value if key == "call" else value + 1 for key, value in fields.items()}


def _begin(event: Event, calls: int) -> Path:
    """Return the path of a set, with its programs, regions and places given."""
    fields = event.fields
    tensors, programs = fields["tensors"], fields["programs"]
    _check(event)
    ends = sorted({end for _, address, size, _ in tensors for end in (address, address + size)})
    rank = {end: n for n, end in enumerate(ends)}
    path = Path(MODULE, f"set of line {event.line}", event.line)
    path.constants = {"Memory": str(max(1, len(ends) - 1)), "Calls": str(calls)}
    accesses: list[list[tuple[str, int]]] = [[] for _ in programs]
    for program, writes, tensor in fields["accesses"]:
        accesses[program].append(("write" if writes else "read", tensor + 1))
    path.given = {
        "accesses": format_value(accesses),
        "home": format_value([home + 1 for *_, home in tensors]),
        "weights": _set(fields["weights"]),
        "states": _set(fields["states"]),
        "provided": _set(fields["provided"]),
        "place": format_value([(rank[first], rank[first + size] - rank[first]) for _, first, size, _ in tensors]),
    }
    path.add(event.line, "Open")
    return path


def _check(event: Event) -> None:
    """Raise `WrongLog` if a set names a program, tensor or home that it does not have."""
    fields = event.fields
    tensors, programs = fields["tensors"], fields["programs"]
    regions = {home for *_, home in tensors}
    for program, writes, tensor in fields["accesses"]:
        if program >= len(programs) or writes > 1 or tensor >= len(tensors) or tensors[tensor][0] != program:
            raise WrongLog(event.line, f"the access {[program, writes, tensor]} is not one of a tensor of its program")
    for kind in ("weights", "states", "provided"):
        if strange := sorted(set(fields[kind]) - regions):
            raise WrongLog(event.line, f"{kind} names the home {strange[0]}, which no tensor has")
    if both := sorted(set(fields["weights"]) & set(fields["states"])):
        raise WrongLog(event.line, f"the home {both[0]} is a weight and a state")
    if lacking := sorted({*fields["provided"]} - {*fields["weights"], *fields["states"]}):
        raise WrongLog(event.line, f"the home {lacking[0]} is provided, but is neither a weight nor a state")


def _set(regions: Sequence[int]) -> str:
    return "{" + ", ".join(str(home + 1) for home in regions) + "}"
