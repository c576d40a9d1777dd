"""Files of several records: a CBOR sequence (RFC 8742), each item in canonical form.

spec: U5.1, U5.2
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from tmmu.core import canonical, kind
from tmmu.core.errors import TmmuError

LIMIT = 1 << 32
"""The largest file of records that is read, in bytes."""

RECORD_LIMIT = 1 << 24
"""The largest single record, in bytes."""


class Item(NamedTuple):
    """A record, and the bytes [start, end) of the file that hold it."""

    value: Any
    start: int
    end: int


def record_error(place: str, what: str, fix: str = "write it again with the tool that made it") -> TmmuError:
    """Return INVALID_RECORD, naming the place."""
    return TmmuError("INVALID_RECORD", what, place=place, fix=fix, operator="UML_OS.TMMU.CommitExecution_v1")


def find_item_end(data: bytes, at: int) -> int | None:
    """Return the end of the item that begins at `at`; None if the data ends before it.

    Builds nothing and does not recurse. Raises ValueError for an indefinite length or a reserved head, and for an item
    larger than `RECORD_LIMIT`.
    """
    pending, first = 1, at
    while pending:
        if at >= len(data):
            return None
        kind, extra = data[at] >> 5, data[at] & 31
        if extra > 27:
            raise ValueError("an indefinite or reserved length")
        width = 1 << (extra - 24) if extra >= 24 else 0
        if at + 1 + width > len(data):
            return None
        value = int.from_bytes(data[at + 1 : at + 1 + width], "big") if width else extra
        at += 1 + width
        pending -= 1
        if kind in (2, 3):
            at += value
        elif kind in (4, 5):
            pending += value << (kind == 5)
        elif kind == 6:
            pending += 1
        if at - first + pending > RECORD_LIMIT:
            raise ValueError(f"a record of more than {RECORD_LIMIT} bytes")
    return at if at <= len(data) else None


def read_items(data: bytes) -> Iterator[Item]:
    """Yield each record of a sequence. Raises INVALID_RECORD for the first that is torn or not canonical."""
    at = number = 0
    while at < len(data):
        place = f"record {number}"
        try:
            end = find_item_end(data, at)
        except ValueError as error:
            raise record_error(place, f"not a record ({error})") from error
        if end is None:
            raise record_error(place, f"it is cut off at byte {len(data)}")
        try:
            value = canonical.decode(data[at:end], "record")
        except TmmuError as error:
            raise record_error(place, error.what) from error
        yield Item(value, at, end)
        at, number = end, number + 1


def read(path: str | os.PathLike[str]) -> list[Any]:
    """Read the records of a file. INVALID_RECORD names the file and the record."""
    try:
        data = canonical.read_bounded(path, LIMIT, "INVALID_RECORD")
        kind.check_record(os.fspath(path), data[: kind.HEAD], "a file of records")
        return [item.value for item in read_items(data)]
    except TmmuError as error:
        error.in_file(os.fspath(path))
        raise


def write(records: list[dict[str, Any]], path: str | os.PathLike[str]) -> None:
    """Write a file of records atomically."""
    canonical.write_atomically(path, b"".join(map(canonical.encode, records)))
