"""Read single records of a sealed log at their places, and find the last root of its index from the anchor.

A place names a segment by its salt and a record by its number. Under this pair at most one record was ever sealed,
because the salt of each segment is new and its numbers never repeat. So a record that is opened under a place which is
itself authentic is the record that was written there: the place is as good as a hash of it. The first place comes from
the anchor, which states the segment and the number of the last acknowledged record. spec: MN10.1 to MN10.3
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator
from zlib import crc32

from tmmu.mnemosyne import anchors
from tmmu.mnemosyne import sealed_format as form
from tmmu.mnemosyne.failures import LogTruncated, NotAuthentic
from tmmu.mnemosyne.keys import TAG, MasterKey, SegmentKey
from tmmu.mnemosyne.log_scan import PIECE, LogBytes, LogScan, Segment
from tmmu.mnemosyne.sealed_format import Frame, Header
from tmmu.mnemosyne.store_index import ROOT_TOKEN, TAIL, is_root

KEYS = 256
"""The most keys of segments that are kept. Each is derived again when it is needed again."""

AROUND = form.FRAME + TAG
"""The bytes of a record besides its content."""

WHOLE_FRAME = struct.Struct(f"{form.FRAME_FIELDS.format}I").unpack_from
"""Unpacks a frame and its CRC: a get takes about ten microseconds, so that each call counts."""


class PlacedRecords:
    """The records of an open log, by their places. `records` is the number of those that are there."""

    def __init__(self, path: str, descriptor: int, master: MasterKey, records: int) -> None:
        self.path, self.records = path, records
        self._descriptor, self._master = descriptor, master
        self._keys: dict[bytes, SegmentKey] = {}

    def read(self, salt: bytes, number: int, offset: int, length: int) -> bytes:
        """Return the content of a record, `length` bytes.

        Raises `NotAuthentic` if the bytes at its offset are not that record, and `LogTruncated` if they are missing.
        """
        data = os.pread(self._descriptor, length + AROUND, offset)
        if len(data) == length + AROUND:
            kind, stated, prefix, sequence, token, check = WHOLE_FRAME(data)
            if (kind, stated, sequence, check) == (form.RECORD, length, number, crc32(data[:25])):
                key = self._keys.get(salt) or self._derive(salt)
                bound = form.BOUND.pack(form.VERSION, salt, token, number)
                found = key.open(prefix + data[9:17], memoryview(data)[form.FRAME :], bound)
                if found is not None:
                    return found
        place = f"record {number} at byte {offset}"
        if len(data) < length + AROUND:
            raise LogTruncated(self.path, place, max(self.records, number + 1), number)
        raise NotAuthentic("the record was changed, or is not the one that was written there", self.path, place)

    def advise(self, access: int) -> None:
        """Advise the system how records are read: `os.POSIX_FADV_RANDOM` or `os.POSIX_FADV_SEQUENTIAL`."""
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):  # it is advice
                os.posix_fadvise(self._descriptor, 0, 0, access)

    def _derive(self, salt: bytes) -> SegmentKey:
        if len(self._keys) >= KEYS:
            self._keys.clear()
        key = self._keys[salt] = self._master.segment(salt)
        return key


def find_root(file: LogBytes, key: MasterKey, anchor: bytes | None) -> tuple[LogScan, bytes] | None:
    """Find the last root that the anchor covers: the state of a scan that goes on behind it, and its content.

    Returns None if the anchor has no statement about this log under this key, the log has no such root, or the record
    that the anchor states is not there: then only a whole scan says why. Usually reads the last 64 KiB of the file;
    O(file) time if much was written after the last acknowledgement.
    """
    stated = [each for each in anchors.decode_statements(key, anchor) if each is not None] if anchor else []
    if len(stated) > 1:
        header = form.decode_header(bytes(file.read(0, form.HEADER)))
        stated = [each for each in stated if header is not None and each.log == header.salt]
    if len(stated) != 1 or not stated[0].records:
        return None
    [last] = stated
    segment = Segment(Header(last.segment, b"", 0, b""), key.segment(last.segment))
    found = next(_records(file, segment, form.COUNT.pack(last.records - 1), file.size, 0), None)
    if found is None:
        return None
    end, frame, data = found
    if not is_root(frame.token, data):
        earlier = _records(file, segment, frame.prefix, end, max(0, end - 2 * TAIL), ROOT_TOKEN)
        found = next((each for each in earlier if is_root(each[1].token, each[2])), None)
        if found is None:
            return None
    offset, frame, data = found
    segment.header = Header(last.segment, b"", 0, frame.prefix)
    scan = LogScan(
        segments=[segment], records=[(0, offset, frame)], end=offset + AROUND + len(data), size=file.size,
        base=frame.sequence, log=last.log,
    )  # fmt: skip
    return scan, data


def _records(
    file: LogBytes, segment: Segment, sought: bytes, end: int, least: int, token: int | None = None
) -> Iterator[tuple[int, Frame, bytes]]:
    """Yield authentic records of a segment that begin before `end` and not before `least`, the last first.

    Only those whose frame contains `sought`, the number or the prefix, and that have the token if one is given.
    """
    shift = 9 if len(sought) == form.COUNT.size else 5  # where it is in a frame
    size = TAIL
    while end > least:
        start = max(least, end - size)
        piece = bytes(file.read(start, end - start + form.FRAME))
        at = piece.rfind(sought, 0, end - start + shift + len(sought) - 1)
        while at >= shift:
            offset = start + at - shift
            frame = form.decode_frame(piece[at - shift : at - shift + form.FRAME])
            if frame is not None and frame.kind == form.RECORD and frame.length <= form.LARGEST:
                data = _open(file, segment, frame, offset) if token in (None, frame.token) else None
                if data is not None:
                    yield offset, frame, data
            at = piece.rfind(sought, 0, at + len(sought) - 1)
        end, size = start, PIECE


def _open(file: LogBytes, segment: Segment, frame: Frame, offset: int) -> bytes | None:
    sealed = bytes(file.read(offset + form.FRAME, frame.length + TAG))
    header = Header(segment.header.salt, b"", 0, frame.prefix)
    return form.decrypt_record(segment.key, header, frame, sealed) if len(sealed) >= TAG else None
