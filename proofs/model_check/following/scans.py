"""Extract the planner's scans, for LinearScan: one path for each arena that reuses its bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from proofs.model_check.following.lines import Path, path_of_storages, unended
from proofs.model_check.following.log import Event, WrongLog

MODULE = "LinearScan"
OUTSIDE = ("start", "scan", "planned", "asked")
"""Events that are in no scan."""
ACTIONS = {"advance": "Advance", "expire": "Expire", "reuse": "Reuse", "open": "Open"}


def paths(events: Sequence[Event]) -> Iterator[Path]:
    """Yield a path from each `scan` to its `scanned`. Scans without storages have no path.

    Raises `WrongLog` for a scan without an end: what the planner would have opened is not known.
    """
    path: Path | None = None
    number: dict[int, int] = {}
    for event in events:
        fields = event.fields
        if path is not None and event.kind in OUTSIDE:
            raise unended(path)
        if event.kind == "scan":
            rows = sorted(fields["storages"], key=lambda row: (row[1], row[0]))  # the module's names are the order
            path, number = path_of_storages(MODULE, event, [(row[0], *row[2:]) for row in rows])
        elif event.kind in ACTIONS or event.kind == "scanned":
            if path is None:
                raise WrongLog(event.line, f"{event.kind!r} outside of a scan")
            if event.kind == "scanned":
                if not number and fields["slots"]:
                    raise WrongLog(event.line, f"{fields['slots']} slots of no storage")
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
    if path is not None:
        raise unended(path)
