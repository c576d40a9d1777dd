"""Caches of keys and values that grow, for CacheGrowth: one path for all sessions of a log, which share a budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd

from proofs.model_check.following.lines import Path, value
from proofs.model_check.following.log import Event, WrongLog

MODULE = "CacheGrowth"
ACTIONS = {
    "cache ask": "Ask", "cache grow": "Grow", "cache refuse": "Refuse", "cache blit": "Blit", "cache copied": "Copy",
    "cache broken": "Break", "cache switch": "Switch", "cache give back": "GiveBack", "cache fail": "Fail",
    "cache pass": "Pass", "cache passed": "End", "cache truncate": "Truncate", "cache close": "Close",
}  # fmt: skip
BLOCK = 128
LEDGER = ("reserved", "transient")
"""Fields in bytes; all others are in tokens, or numbers."""


def paths(events: Sequence[Event]) -> Iterator[Path]:
    """A path through all that happens to the caches of a log."""
    opened = {event.fields["session"]: event for event in reversed(events) if event.kind == "cache open"}
    if not opened:
        return
    opening = list(reversed(opened.values()))
    number = {event.fields["session"]: n for n, event in enumerate(opening, 1)}
    for key in ("budget", "strict"):
        for event in opening:
            if event.fields[key] != opening[0].fields[key]:
                raise WrongLog(event.line, f"its {key} is not that of the sessions before; follow a log for each")
    unit = gcd(*(event.fields["token_bytes"] for event in opening)) or 1
    path = Path(MODULE, f"{len(opening)} sessions on one budget", opening[0].line, folder="foundry")
    line = opening[0].line
    columns = {key: [event.fields[key] for event in opening] for key in ("heads", "maximum")}
    columns["cost"] = [event.fields["token_bytes"] // unit for event in opening]
    longest = max(columns["maximum"])
    path.constants = {
        "Sessions": str(len(opening)), "HeadCounts": _set(columns["heads"]), "Costs": _set(columns["cost"]),
        "Block": str(BLOCK), "Maximum": value(longest, line),
        "Budget": value(opening[0].fields["budget"] // unit, line), "MostAtOnce": value(longest, line),
        "LookAhead": "0", "InFlight": "1000", "Failures": "1000",
    }  # fmt: skip
    path.given = {"strict": value(opening[0].fields["strict"])} | {
        key: value(rows, line) for key, rows in columns.items()
    }
    for event in events:
        if event.kind in ACTIONS:
            fields = dict(event.fields)
            session = fields.pop("session")
            if session not in number:
                raise WrongLog(event.line, f"session {session} has no cache")
            for key in LEDGER:
                if key in fields:
                    units, rest = divmod(fields[key], unit)
                    fields[key] = -1 if rest else units
            path.add(event.line, ACTIONS[event.kind], session=number[session], **fields)
    yield path


def _set(numbers: Sequence[int]) -> str:
    return "{" + ", ".join(map(str, sorted(set(numbers)))) + "}"
