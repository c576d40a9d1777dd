"""Extract caches of keys and values that grow, for CacheGrowth: one path for all sessions that share a budget.

spec: FD9.4
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import gcd

from proofs.model_check.following.lines import Path, format_value
from proofs.model_check.following.log import Event, WrongLog

MODULE = "CacheGrowth"
ACTIONS = {
    "cache ask": "Ask", "cache grow": "Grow", "cache refuse": "Refuse", "cache blit": "Blit", "cache copied": "Copy",
    "cache broken": "Break", "cache switch": "Switch", "cache give back": "GiveBack", "cache fail": "Fail",
    "cache pass": "Pass", "cache passed": "End", "cache truncate": "Truncate", "cache close": "Close",
}  # fmt: skip
BLOCK = 128
LEDGER = {"reserved", "transient"}
"""Fields in bytes. All others are in tokens, or numbers."""


def paths(events: Sequence[Event]) -> Iterator[Path]:
    """Yield, for each run and each budget of it, a path through all events of the caches that share it."""
    starts = [at for at, event in enumerate(events) if event.kind == "start"]
    for first, last in pairwise([*starts, len(events)]):
        ledgers: dict[int, list[Event]] = {}
        of: dict[int, int] = {}
        for event in events[first:last]:
            session = event.fields.get("session")
            if event.kind == "cache open":
                of[event.fields["session"]] = event.fields["ledger"]
            elif event.kind not in ACTIONS:
                continue
            elif session not in of:
                raise WrongLog(event.line, f"session {session} has no cache")
            ledgers.setdefault(of[event.fields["session"]], []).append(event)
        yield from map(_of_budget, ledgers.values())


def _of_budget(events: Sequence[Event]) -> Path:
    opened: dict[int, Event] = {}
    for event in events:
        if event.kind == "cache open":
            before, line = opened.setdefault(event.fields["session"], event), event.line
            for key, found in event.fields.items():
                same = before if key in ("heads", "token_bytes", "maximum") else events[0]
                if key != "session" and same.fields[key] != found:
                    raise WrongLog(line, f"its {key} is {found}, but line {same.line} has {same.fields[key]}")
    line, common, rows = events[0].line, events[0].fields, [event.fields for event in opened.values()]
    number = {session: n for n, session in enumerate(opened, 1)}
    unit = gcd(*(row["token_bytes"] for row in rows))
    heads, maximum = ([row[key] for row in rows] for key in ("heads", "maximum"))
    cost = [row["token_bytes"] // unit for row in rows]
    path = Path(MODULE, f"{len(rows)} sessions on the budget of line {line}", line, folder="foundry")
    path.constants = {
        "Sessions": str(len(rows)), "HeadCounts": _set(heads), "Costs": _set(cost), "Block": str(BLOCK),
        "Maximum": format_value(max(maximum), line), "Budget": format_value(common["budget"] // unit, line),
        "MostAtOnce": format_value(max(maximum), line), "LookAhead": "0", "InFlight": "1000", "Failures": "1000",
    }  # fmt: skip
    path.given = {
        "strict": format_value(common["strict"]), "heads": format_value(heads, line), "cost": format_value(cost, line),
        "maximum": format_value(maximum, line),
    }  # fmt: skip
    for event in events:
        if event.kind in ACTIONS:
            fields = {key: found for key, found in event.fields.items() if key != "session"}
            for key in LEDGER & fields.keys():
                units, rest = divmod(fields[key], unit)
                fields[key] = -1 if rest else units
            path.add(event.line, ACTIONS[event.kind], session=number[event.fields["session"]], **fields)
    return path


def _set(numbers: Sequence[int]) -> str:
    return "{" + ", ".join(map(str, sorted(set(numbers)))) + "}"
