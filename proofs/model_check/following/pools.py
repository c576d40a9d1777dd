"""Extract the planner's memory pools, for Pools: one path for each arena that reuses its bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from proofs.model_check.following.lines import Path, path_of_storages, unended
from proofs.model_check.following.log import Event, WrongLog

MODULE = "Pools"
OUTSIDE = ("start", "pools", "planned", "asked")
"""Events that are in no pools."""
ACTIONS = {"join": "Join", "open pool": "Open"}


def paths(events: Sequence[Event]) -> Iterator[Path]:
    """Yield a path from each `pools` to its `pooled`. Raises `WrongLog` for pools without an end."""
    path: Path | None = None
    number: dict[int, int] = {}
    for event in events:
        fields = event.fields
        if path is not None and event.kind in OUTSIDE:
            raise unended(path)
        if event.kind == "pools":
            path, number = path_of_storages(MODULE, event, fields["storages"], folder="mico")
        elif event.kind in ACTIONS or event.kind == "pooled":
            if path is None:
                raise WrongLog(event.line, f"{event.kind!r} outside of an arena's pools")
            if event.kind == "pooled":
                path.ends(event.line, pools=fields["pools"])
                yield path
                path = None
                continue
            if fields["storage"] not in number:
                raise WrongLog(event.line, f"storage {fields['storage']} is not one of these")
            at = {"storage": number[fields["storage"]], "pool": fields["pool"] + 1}  # the module counts from 1
            path.add(event.line, ACTIONS[event.kind], **at)
    if path is not None:
        raise unended(path)
