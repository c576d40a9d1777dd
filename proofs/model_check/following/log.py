"""Read an event log: a JSON object a line, each of a known kind with known fields.

A last line without its end was being written when the process died, and is ignored. Any other error is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tmmu.core.reading import TooLarge, parse_json, read_file

FORMAT = "tmmu-events"
BYTES = 1 << 26
"""The maximum size of a log, in bytes."""

LARGEST = (1 << 31) - 1
"""The largest integer of TLC. Every number except bytes is compared with it."""


class WrongLog(Exception):
    """The file is not an event log, or cannot be validated. The message names the file, the line and the error."""

    def __init__(self, line: int | None, what: str) -> None:
        super().__init__(what if line is None else f"line {line}: {what}")


@dataclass(frozen=True)
class Event:
    """A line of a log: its number in the file, the kind of event, and the other fields."""

    line: int
    kind: str
    fields: dict[str, Any]


Check = Callable[[Any], bool]


def _count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= LARGEST


def _positive(value: Any) -> bool:
    return _size(value) and value > 0


def _size(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 64


def _budget(value: Any) -> bool:
    return value is None or (type(value) is int and 0 <= value < 1 << 128)


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_text, value))


def _truth(value: Any) -> bool:
    return isinstance(value, bool)


def _rows(*columns: Check) -> Check:
    def check(value: Any) -> bool:
        return isinstance(value, list) and all(
            isinstance(row, list)
            and len(row) == len(columns)
            and all(fits(x) for fits, x in zip(columns, row, strict=True))
            for row in value
        )

    return check


def _sizes(value: Any) -> bool:
    return isinstance(value, list) and all(map(_size, value))


def _natural(value: Any) -> bool:
    return type(value) is int and value >= 0


def _numbers(value: Any) -> bool:
    return isinstance(value, list) and all(map(_count, value))


def _integers(value: Any) -> bool:
    return isinstance(value, list) and all(type(number) is int and abs(number) <= LARGEST for number in value)


def _ascending(value: Any) -> bool:
    return _numbers(value) and value == sorted(set(value))


def _arenas(value: Any) -> bool:
    keys: dict[str, Check] = {"name": _text, "reuse": _truth}
    return isinstance(value, list) and all(
        isinstance(row, dict) and row.keys() == keys.keys() and all(fits(row[key]) for key, fits in keys.items())
        for row in value
    )


STORE: dict[str, Check] = {"store": _text}
"""The fields of each event of a store of regions."""
PLACE: dict[str, Check] = {"begin": _size, "end": _size, "offset": _size, "mapped": _count, "clock": _count}
"""The system's mapping of a region or a tile, and the store's count afterwards."""

SEALED: dict[str, Check] = {"log": _text, "process": _count}
ANCHORS = ("written", "synced", "renamed", "overwriting", "overwritten", "kept")
"""The fields of each event of a sealed log."""

THREAD: dict[str, Check] = {"process": _count, "thread": _count}
"""The fields of each event of a thread and its locks."""

EVENTS: dict[str, dict[str, Check]] = {
    "start": {"format": lambda value: value == FORMAT},
    "scan": {"arena": _text, "storages": _rows(_count, _text, _count, _count, _size)},
    "advance": {"step": _count},
    "expire": {"slot": _count, "death": _count},
    "reuse": {"storage": _count, "slot": _count},
    "open": {"storage": _count, "slot": _count},
    "scanned": {"slots": _count},
    "pools": {"arena": _text, "storages": _rows(_count, _count, _count, _size)},
    "join": {"storage": _count, "pool": _count},
    "open pool": {"storage": _count, "pool": _count},
    "pooled": {"pools": _count},
    "planned": {"plan": _text, "storages": _rows(_text, _count, _count, _size, _size, _count, _count)},
    "asked": {
        "plan_hash": _text, "arenas": _arenas, "mappings": _sizes, "budget": _budget, "granted": _truth,
        "allocation_failures": _count, "is_fresh": _truth, "is_restored": _truth, "steps": _count, "iterates": _truth,
        "storages": _rows(_text, _count, _count, _size, _size, _count, _count),
    },
    "mapped": {"mapping": _count},
    "refused": {},
    "unmapped": {"mapping": _count},
    "failed": {"allocation_failures": _count},
    "applied": {"plan_hash": _text},
    "ready": {"t": _count, "bytes_allocated": _size},
    "begun": {"t": _count},
    "born": {"storage": _count, "zeroed": _truth, "is_zero": _truth},
    "step": {"step": _count},
    "committed": {"t": _count},
    "checkpoint": {"what": lambda value: value in ("written", "synced", "renamed"), "t": _count},
    "restored": {"plan_hash": _text, "t": _count},
    "checkpoint refused": {},
    "replan": {"t": _count, "old_plan_hash": _text, "new_plan_hash": _text},
    "released": {},
    "damaged": {},
    "closed": {},
    "session open": {"session": _count, "buffers": _texts},
    "buffer made": {"session": _count, "buffer": _text, "made": _count},
    "buffer refused": {"session": _count, "buffer": _text},
    "buffer given back": {"session": _count, "buffer": _text, "made": _count},
    "session failed": {"session": _count},
    "weight staged": {"session": _count, "weight": _text, "number": _count},
    "weight copy submitted": {"session": _count, "weight": _text, "number": _count, "submitted": _count},
    "weight copied": {"session": _count, "weight": _text, "number": _count, "completed": _count},
    "session started": {"session": _count, "weights": _count},
    "pass submitted": {"session": _count, "step": _count, "rows": _count, "submitted": _count},
    "pass completed": {"session": _count, "step": _count, "completed": _count},
    "logits submitted": {"session": _count, "step": _count, "submitted": _count},
    "logits copied": {"session": _count, "step": _count, "completed": _count},
    "sampled": {"session": _count, "step": _count, "token": _count},
    "session closed": {"session": _count, "made": _count},
    "cache open": {
        "session": _count, "ledger": _count, "heads": _count, "token_bytes": _positive, "maximum": _count,
        "budget": _size, "strict": _truth,
    },
    "cache ask": {"session": _count, "required": _count},
    "cache grow": {"session": _count, "capacity": _count, "reserved": _size, "transient": _size},
    "cache refuse": {"session": _count, "reserved": _size, "transient": _size},
    "cache blit": {"session": _count, "head": _count, "start": _count, "at": _count, "count": _count},
    "cache copied": {"session": _count, "head": _count},
    "cache broken": {"session": _count, "head": _count},
    "cache switch": {"session": _count, "capacity": _count},
    "cache give back": {"session": _count, "reserved": _size, "transient": _size},
    "cache fail": {"session": _count, "capacity": _count, "reserved": _size, "transient": _size},
    "cache pass": {"session": _count, "number": _count, "first": _count, "count": _count, "capacity": _count},
    "cache passed": {"session": _count, "number": _count},
    "cache truncate": {"session": _count, "written": _count, "length": _count},
    "cache close": {"session": _count, "written": _count, "reserved": _size, "transient": _size},
    "pool made": {"pool": _text, "initial": _size, "limit": _size, "chunks": _count, "last": _natural},
    "pool take": {"pool": _text, "tensor": _count, "chunk": _count, "offset": _size, "bytes": _size, "used": _size},
    "pool grow": {
        "pool": _text, "tensor": _count, "chunk": _count, "offset": _size, "bytes": _size, "used": _size,
        "size": _size,
    },
    "pool lack": {"pool": _text, "bytes": _natural, "is_denied": _truth, "lacked": _count},
    "pool submit": {"pool": _text, "reads": _ascending, "writes": _ascending, "commands": _count},
    "pool complete": {
        "pool": _text, "reads": _ascending, "writes": _ascending, "is_whole": _truth, "commands": _count,
    },
    "pool lease": {"pool": _text, "tensor": _count, "leases": _count},
    "pool return": {"pool": _text, "tensor": _count, "leases": _count},
    "pool refuse": {"pool": _text, "tensor": _count, "generation": _count, "refused": _count},
    "pool ask": {"pool": _text, "user": _count},
    "pool reset": {"pool": _text, "user": _count, "generation": _count},
    "pool in use": {"pool": _text, "user": _count, "in_use": _count},
    "pool exhausted": {"pool": _text, "user": _count, "generation": _count},
    "pool closed": {
        "pool": _text, "user": _count, "generation": _count, "allocations": _count, "lacked": _count,
        "refused": _count, "in_use": _count,
    },
    "store made": {
        **STORE, "tile": _count, "page": _count, "max_region": _size, "memory": _size,
        "factor": lambda value: _numbers(value) and len(value) == 2,
    },
    "store memory": {**STORE, "memory": _size, "bound": _count},
    "tiles wanted": {**STORE, "tiles": _ascending, "mapped": _count, "pinned": _count},
    "tiles refused": {**STORE, "tiles": _count, "bound": _count, "pinned": _count},
    "tiles failed": STORE,
    "tile released": {
        **STORE, "tile": _count, "why": lambda value: value in ("evicted", "relieved"), "last": _count,
        "weight": _count, "mapped": _count, "is_reserved": _truth,
    },
    "region mapped": {**STORE, "first": _count, "size": _size, "asked": _size, **PLACE},
    "tile mapped": {**STORE, "tile": _count, "weight": _count, **PLACE},
    "tile pinned": {**STORE, "tile": _count, "pins": _count},
    "tile unpinned": {**STORE, "tile": _count, "pins": _count},
    "tile accessed": {**STORE, "tile": _count, "clock": _count},
    "tile attended": {**STORE, "tile": _count, "weight": _count},
    "region closed": {**STORE, "first": _count, "tiles": _ascending, "mapped": _count},
    "store closed": {**STORE, "mapped": _count},
    "log opened": {
        **SEALED, "is_new": _truth, "records": _count, "end": _size, "dropped": _size, "size": _size,
        "anchored": _count, "has_anchor": _truth, "segment": _text,
    },
    "log segment": {**SEALED, "segment": _text, "first": _count, "offset": _size, "length": _size},
    "log append": {**SEALED, "record": _count, "segment": _text, "offset": _size, "length": _size},
    "log synced": {**SEALED, "records": _count},
    "log anchor": {
        **SEALED, "what": lambda value: value in ANCHORS, "records": _count, "segment": _text,
    },
    "log acknowledged": {**SEALED, "records": _count},
    "log trailer": {**SEALED, "records": _count, "offset": _size, "length": _size},
    "log discarded": {**SEALED, "records": _count, "end": _size},
    "log replaced": {**SEALED, "records": _count, "end": _size, "segment": _text},
    "log compacted": {**SEALED, "records": _count, "end": _size, "segment": _text},
    "log withdrawn": {**SEALED, "end": _size, "is_removed": _truth},
    "log closed": {**SEALED, "end": _size},
    "log failed": SEALED,
    "lock section": {**THREAD, "locks": _texts, "as_reader": _truth},
    "lock asked": {**THREAD, "lock": _text},
    "lock taken": {**THREAD, "lock": _text, "as_reader": _truth},
    "lock released": {**THREAD, "lock": _text},
    "set opened": {
        "programs": _texts, "tensors": _rows(_count, _size, _size, _count), "accesses": _rows(_count, _count, _count),
        "weights": _ascending, "states": _ascending, "provided": _ascending,
    },
    "set load": {"home": _count},
    "set call": {"program": _count, "call": _count},
    "set read": {"tensor": _count, "call": _count},
    "set write": {"tensor": _count},
    "set return": {"program": _count},
    "streams opened": {
        "stream": _numbers, "waits": _rows(_count, _count), "values": _rows(_count, _count, _size, _positive),
        "reads": _rows(_count, _count, _size, _positive),
    },
    "step begun": {"step": _count},
    "value read": {"step": _count, "value": _count, "address": _size, "size": _size, "found": _integers},
    "value written": {"step": _count, "value": _count},
    "step ended": {"step": _count},
    "streams closed": {},
    "access": {**THREAD, "subject": _text, "start": _size, "stop": _size, "is_write": _truth},
}  # fmt: skip
"""Every event with its fields, and the check of each field."""


def read(path: Path) -> list[Event]:
    """Return the events of a log, in order.

    Raises `WrongLog`. Memory is at most a small multiple of the file's `BYTES`.
    """
    try:
        return list(parse(read_file(path, BYTES)))
    except TooLarge as error:
        raise WrongLog(None, f"it has more than {BYTES} bytes; log a shorter run") from error
    except OSError as error:
        raise WrongLog(None, f"it cannot be read ({error.strerror})") from error


def parse(data: bytes) -> Iterator[Event]:
    """Yield the events of a log's bytes."""
    *lines, _torn = data.split(b"\n")
    if not lines:
        raise WrongLog(None, "it has no event")
    for number, line in enumerate(lines, 1):
        try:
            value = parse_json(line)
        except ValueError as error:
            raise WrongLog(number, "it is not a JSON object") from error
        if not isinstance(value, dict) or not isinstance(value.get("event"), str) or value["event"] not in EVENTS:
            raise WrongLog(number, "it is not a known event")
        kind = value.pop("event")
        checks = EVENTS[kind]
        if value.keys() != checks.keys():
            raise WrongLog(number, f"{kind!r} has {', '.join(checks) or 'no fields'}")
        for key, fits in checks.items():
            if not fits(value[key]):
                raise WrongLog(number, f"{key} of {kind!r} has a wrong value")
        if number == 1 and kind != "start":
            raise WrongLog(1, f"a log begins with 'start', format {FORMAT!r}")
        yield Event(number, kind, value)
