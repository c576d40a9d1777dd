"""The planner's scans, for LinearScan: one path for each arena that reuses its bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from proofs.model_check.following.lines import Path, value
from proofs.model_check.following.log import Event, WrongLog

MODULE = "LinearScan"
ACTIONS = {"advance": "Advance", "expire": "Expire", "reuse": "Reuse", "open": "Open"}


def paths(events: Sequence[Event]) -> Iterator[Path]:
    """A path from each `scan` to its `scanned`; scans of no storages have nothing to follow."""
    path: Path | None = None
    number: dict[int, int] = {}
    for event in events:
        fields = event.fields
        if event.kind == "scan":
            path, number = _begun(event)
        elif event.kind in ACTIONS or event.kind == "scanned":
            if path is None:
                raise WrongLog(event.line, f"{event.kind!r} outside of a scan")
            if event.kind == "scanned":
                path.ends(event.line, slots=fields["slots"])
                if number or path.lines:
                    yield path
                path = None
                continue
            observed: dict[str, int] = {key: fields[key] for key in ("step", "death") if key in fields}
            if "slot" in fields:
                observed["slot"] = fields["slot"] + 1  # the module counts from 1
            if "storage" in fields:
                if fields["storage"] not in number:
                    raise WrongLog(event.line, f"storage {fields['storage']} is not one of this scan")
                observed["storage"] = number[fields["storage"]]
            path.add(event.line, ACTIONS[event.kind], **observed)


def _begun(event: Event) -> tuple[Path, dict[int, int]]:
    """A path that has not begun, and the number that the module gives each storage: its place by name."""
    rows = sorted(event.fields["storages"], key=lambda row: (row[1], row[0]))
    number = {row[0]: n for n, row in enumerate(rows, 1)}
    if len(number) != len(rows):
        raise WrongLog(event.line, "a storage is listed twice")
    rank = {size: n for n, size in enumerate(sorted({row[4] for row in rows}), 1)}
    path = Path(MODULE, f"arena {event.fields['arena']}", event.line)
    last = max((max(row[2], row[3]) for row in rows), default=0)
    path.constants = {"Count": str(len(rows)), "LastStep": value(last, event.line), "MaxSize": str(max(1, len(rank)))}
    path.given = {
        "birth": value([row[2] for row in rows]),
        "death": value([row[3] for row in rows]),
        "size": value([rank[row[4]] for row in rows]),
    }
    return path, number
