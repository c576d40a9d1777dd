"""The anchor of a sealed log: how many records were acknowledged, kept outside of the log.

AES-GCM cannot notice that a whole file was replaced by an older copy of itself; this small file can, as long as it is
not replaced together with the log. It states the log (its first salt), the number of records, and the salt of the
segment that has the last of them, all under a code of the master key. spec: MN5.12 to MN5.14
"""

from __future__ import annotations

import hmac
import os
import struct
from typing import NamedTuple

from tmmu.core.canonical import write_atomically
from tmmu.mnemosyne.failures import InvalidLog, NotAuthentic, RolledBack
from tmmu.mnemosyne.keys import MasterKey
from tmmu.mnemosyne.log_scan import LogScan

MAGIC = b"TMMUANCH"
FIELDS = struct.Struct(">8sHH32s32sQ")
CODE = 32


class Anchor(NamedTuple):
    """What was acknowledged: of which log, by which segment's writer last, and how many records."""

    log: bytes
    segment: bytes
    records: int


def store(path: str, key: MasterKey, anchor: Anchor) -> None:
    """Write the anchor beside `path`, sync it, rename it, sync the folder. TMMU_ALLOCATION_FAILURE where that fails."""
    fields = FIELDS.pack(MAGIC, 1, 0, *anchor)
    write_atomically(path, fields + key.code(anchor.log, fields))


def load(path: str, key: MasterKey) -> Anchor | None:
    """The anchor at `path`; None where there is no such file."""
    try:
        with open(path, "rb") as file:
            data = file.read(FIELDS.size + CODE + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidLog(f"the anchor cannot be read ({error.strerror})", os.fspath(path), "anchor") from error
    if len(data) != FIELDS.size + CODE or not data.startswith(MAGIC):
        raise InvalidLog("it is not an anchor", path, "anchor")
    fields, code = data[: FIELDS.size], data[FIELDS.size :]
    _, version, _, log, segment, count = FIELDS.unpack(fields)
    if version != 1:
        raise InvalidLog(f"version {version} of an anchor is not known, only 1", path, "anchor")
    if not hmac.compare_digest(code, key.code(log, fields)):
        raise NotAuthentic("the anchor was changed, or made under another key", path, "anchor")
    return Anchor(log, segment, count)


def compare(anchor: Anchor, found: LogScan, name: str) -> None:
    """`RolledBack`, or `NotAuthentic`, unless the log has what the anchor states."""
    if found.segments and found.segments[0].header.salt != anchor.log:
        raise NotAuthentic("the anchor is of another log", name, "anchor", "name the anchor of this log")
    count = len(found.records)
    if count < anchor.records and found.damage and found.damage != "it is cut off":
        raise NotAuthentic(
            f"{found.damage}; {anchor.records} records were acknowledged", name, f"record {count} at byte {found.end}"
        )
    if count < anchor.records:
        raise RolledBack(
            f"rolled back: {count} records, of which {anchor.records} were acknowledged", name, anchor.records, count
        )
    if anchor.records and found.writer_of(anchor.records - 1) != anchor.segment:
        raise RolledBack(
            f"rolled back: record {anchor.records - 1} is not the one that was acknowledged, but was written after an "
            "older copy", name, anchor.records, count,
        )  # fmt: skip
