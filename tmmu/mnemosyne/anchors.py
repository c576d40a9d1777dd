"""The anchor of a sealed log: how many records were acknowledged, kept outside of the log.

AES-GCM cannot detect that a whole file was replaced by an older copy of itself. This small file can, if it is not
replaced together with the log. It states the log (its first salt), the number of records, and the salt of the segment
that has the last of them, authenticated by a code of the master key. While keys are rotated it has two statements, one
under the old key and one under the new, so that the log may be replaced in between. While a log is compacted it has
one statement about two logs: the one before and the one after. spec: MN5.12 to MN5.14, MN11.6
"""

from __future__ import annotations

import hmac
import os
import struct
from collections.abc import Callable
from typing import NamedTuple

from tmmu.core.canonical import write_atomically
from tmmu.core.reading import open_descriptor, read_head
from tmmu.mnemosyne.failures import InvalidLog, LogTruncated, NotAuthentic, RolledBack
from tmmu.mnemosyne.keys import MasterKey
from tmmu.mnemosyne.log_scan import CUT_OFF, LogScan

MAGIC = b"TMMUANCH"
FIELDS = struct.Struct(">8sHH32s32sQ")
CODE = 32
FIX = "put the anchor back that was written last; deleting it accepts what it does not state"
SIZE = FIELDS.size + CODE
PAIR = struct.Struct(">8sHH32s32sQ32s32sQ")
PAIR_SIZE = PAIR.size + CODE


class Anchor(NamedTuple):
    """What was acknowledged: the log, the segment of the last record, and the number of records."""

    log: bytes
    segment: bytes
    records: int


def encode_statement(key: MasterKey, anchor: Anchor) -> bytes:
    """Return the encoded statement of an anchor, with its code under `key`."""
    fields = FIELDS.pack(MAGIC, 1, 0, *anchor)
    return fields + key.code(anchor.log, fields)


def encode_pair(key: MasterKey, before: Anchor, after: Anchor) -> bytes:
    """Return the encoded statement about a log and the one that a compaction puts in its place."""
    fields = PAIR.pack(MAGIC, 2, 0, *before, *after)
    return fields + key.code(before.log, fields)


def store(path: str, *statements: bytes, observe: Callable[[str], None] | None = None) -> None:
    """Write the statements atomically to `path`. Raises TMMU_ALLOCATION_FAILURE if that fails.

    `observe` is passed to `write_atomically`.
    """
    write_atomically(path, b"".join(statements), observe)


def overwrite(path: str, statement: bytes) -> None:
    """Write a statement over the only one at `path`, without a sync: every process reads it from then on.

    All of it is in one sector, so that after a loss of power the file has this statement or one that was there before.
    A process that is killed leaves one of both, as no system ends it within a page that it writes. Raises OSError.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        written = 0
        while written < len(statement):
            written += os.pwrite(descriptor, statement[written:], written)
    finally:
        os.close(descriptor)


def sync(path: str) -> None:
    """Sync the anchor at `path`. Raises OSError."""
    descriptor = open_descriptor(path)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read(path: str | None) -> bytes | None:
    """Read the bytes of the anchor at `path`; None if there is no such file.

    Raises `NotAuthentic` if the file is not an anchor, and `InvalidLog` if it has another version or cannot be read.
    """
    if path is None:
        return None
    try:
        data = read_head(path, max(2 * SIZE, PAIR_SIZE) + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidLog(f"the anchor cannot be read ({error.strerror})", os.fspath(path), "anchor") from error
    statements, expected = ([data], 2) if is_pair(data) else (split_statements(data), 1)
    if len(data) not in (SIZE, 2 * SIZE, PAIR_SIZE) or not all(each.startswith(MAGIC) for each in statements):
        raise NotAuthentic("the file is not an anchor, or was changed", path, "anchor", FIX)
    for each in statements:
        version = int.from_bytes(each[len(MAGIC) : len(MAGIC) + 2], "big")
        if version != expected:
            raise InvalidLog(f"expected version {expected} of an anchor, got {version}", path, "anchor")
    return data


def is_pair(data: bytes) -> bool:
    """Return whether an anchor states two logs, as it does while a log is compacted."""
    return len(data) == PAIR_SIZE


def split_statements(data: bytes) -> list[bytes]:
    """Split an anchor into its statements: one, or the two of a rotation, the one under the old key first."""
    return [data[at : at + SIZE] for at in range(0, len(data), SIZE)]


def decode_statements(key: MasterKey, data: bytes) -> list[Anchor | None]:
    """Decode each statement, or that about two logs as two. None replaces one that was not made under this key."""
    if is_pair(data):
        fields, code = data[: PAIR.size], data[PAIR.size :]
        _, _, _, *stated = PAIR.unpack(fields)
        before, after = Anchor(*stated[:3]), Anchor(*stated[3:])
        return [before, after] if hmac.compare_digest(code, key.code(before.log, fields)) else [None, None]
    found: list[Anchor | None] = []
    for each in split_statements(data):
        fields, code = each[: FIELDS.size], each[FIELDS.size :]
        anchor = Anchor(*FIELDS.unpack(fields)[3:])
        found.append(anchor if hmac.compare_digest(code, key.code(anchor.log, fields)) else None)
    return found


def pick_statement(stated: list[Anchor], log: bytes) -> Anchor:
    """Return the statement about the log with this first salt, or the last one."""
    return next((each for each in stated if each.log == log), stated[-1])


def check_log(anchor: Anchor, found: LogScan, name: str) -> None:
    """Check that the log has the records that the anchor states.

    Raises `NotAuthentic`, `LogTruncated` or `RolledBack` otherwise.
    """
    if found.segments and found.log != anchor.log:
        raise NotAuthentic("the anchor belongs to another log", name, "anchor", "name the anchor of this log")
    count, place = found.count, f"record {found.count} at byte {found.end}"
    if count < anchor.records:
        if found.damage not in ("", CUT_OFF):
            raise NotAuthentic(f"{found.damage}; {anchor.records} records were acknowledged", name, place)
        if found.damage or not found.is_closed:
            raise LogTruncated(name, place, anchor.records, count)
        raise RolledBack(
            f"rolled back: expected at least {anchor.records} records, got {count}", name, anchor.records, count
        )
    if anchor.records and found.writer_of(anchor.records - 1) != anchor.segment:
        raise RolledBack(
            f"rolled back: record {anchor.records - 1} is not the one that was acknowledged, but was written after an "
            "older copy", name, anchor.records, count,
        )  # fmt: skip
