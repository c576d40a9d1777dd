"""The anchor of a sealed log: how many records were acknowledged, kept outside of the log.

AES-GCM cannot notice that a whole file was replaced by an older copy of itself; this small file can, as long as it is
not replaced together with the log. It states the log (its first salt), the number of records, and the salt of the
segment that has the last of them, all under a code of the master key. While keys are rotated it has two statements,
under the key before and under the next one, so that the log may be replaced in between. spec: MN5.12 to MN5.14
"""

from __future__ import annotations

import hmac
import os
import struct
from collections.abc import Callable
from typing import NamedTuple

from tmmu.core.canonical import write_atomically
from tmmu.mnemosyne.failures import InvalidLog, LogTruncated, NotAuthentic, RolledBack
from tmmu.mnemosyne.keys import MasterKey
from tmmu.mnemosyne.log_scan import CUT_OFF, LogScan

MAGIC = b"TMMUANCH"
FIELDS = struct.Struct(">8sHH32s32sQ")
CODE = 32
FIX = "put the anchor back that was written last; deleting it accepts what it does not state"
SIZE = FIELDS.size + CODE


class Anchor(NamedTuple):
    """What was acknowledged: of which log, by which segment's writer last, and how many records."""

    log: bytes
    segment: bytes
    records: int


def sealed(key: MasterKey, anchor: Anchor) -> bytes:
    """The bytes of a statement."""
    fields = FIELDS.pack(MAGIC, 1, 0, *anchor)
    return fields + key.code(anchor.log, fields)


def store(path: str, *statements: bytes, observe: Callable[[str], None] | None = None) -> None:
    """Write them beside `path`, sync them, rename, sync the folder. TMMU_ALLOCATION_FAILURE where that fails.

    `observe` is called as by `write_atomically`.
    """
    write_atomically(path, b"".join(statements), observe)


def read(path: str | None) -> bytes | None:
    """The bytes of the anchor at `path`; None where there is no such file.

    `NotAuthentic` for what is no anchor, `InvalidLog` for one of another version or that cannot be read.
    """
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            data = file.read(2 * SIZE + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidLog(f"the anchor cannot be read ({error.strerror})", os.fspath(path), "anchor") from error
    if len(data) not in (SIZE, 2 * SIZE) or not all(each.startswith(MAGIC) for each in statements(data)):
        raise NotAuthentic("it is not an anchor, or one that was changed", path, "anchor", FIX)
    version = max(FIELDS.unpack_from(each)[1] for each in statements(data))
    if version != 1:
        raise InvalidLog(f"version {version} of an anchor is not known, only 1", path, "anchor")
    return data


def statements(data: bytes) -> list[bytes]:
    """The one statement of an anchor, or the two of a rotation, that under the key before first."""
    return [data[at : at + SIZE] for at in range(0, len(data), SIZE)]


def under(key: MasterKey, data: bytes) -> list[Anchor | None]:
    """What each statement says; None for one that was not made under this key."""
    found: list[Anchor | None] = []
    for each in statements(data):
        fields, code = each[: FIELDS.size], each[FIELDS.size :]
        anchor = Anchor(*FIELDS.unpack(fields)[3:])
        found.append(anchor if hmac.compare_digest(code, key.code(anchor.log, fields)) else None)
    return found


def compare(anchor: Anchor, found: LogScan, name: str) -> None:
    """`RolledBack`, `LogTruncated` or `NotAuthentic`, unless the log has what the anchor states."""
    if found.segments and found.segments[0].header.salt != anchor.log:
        raise NotAuthentic("the anchor is of another log", name, "anchor", "name the anchor of this log")
    count, place = len(found.records), f"record {len(found.records)} at byte {found.end}"
    if count < anchor.records:
        if found.damage not in ("", CUT_OFF):
            raise NotAuthentic(f"{found.damage}; {anchor.records} records were acknowledged", name, place)
        if found.damage or not found.is_closed:
            raise LogTruncated(name, place, anchor.records, count)
        raise RolledBack(
            f"rolled back: {count} records, of which {anchor.records} were acknowledged", name, anchor.records, count
        )
    if anchor.records and found.writer_of(anchor.records - 1) != anchor.segment:
        raise RolledBack(
            f"rolled back: record {anchor.records - 1} is not the one that was acknowledged, but was written after an "
            "older copy", name, anchor.records, count,
        )  # fmt: skip
