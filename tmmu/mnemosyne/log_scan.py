"""Scan a sealed log: find its longest prefix in which every record is authentic and in its place, and why it ends.

A crash leaves an end that is cut off, or in which some sectors are missing. So the scan distinguishes two kinds of
ends. The first is explained by a crash: nothing after it shows that the log once continued. The second is not: an
authentic record in the wrong place, a segment that does not follow, or damage before a trailer or a later header. The
first kind is dropped if the anchor permits it. The second is always refused. A scan may begin behind a record that
is known to be authentic and in its place (`log_roots`): what is before that is not looked at. spec: MN5.7 to MN5.11
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from tmmu.mnemosyne import sealed_format as form
from tmmu.mnemosyne.failures import InvalidLog, NotAuthentic, WrongKey
from tmmu.mnemosyne.keys import TAG, MasterKey, SegmentKey
from tmmu.mnemosyne.sealed_format import Frame, Header

PIECE = 1 << 20

Visit = Callable[[Frame, bytes], None]
"""Called with each record that is authentic and in its place, in order, before the whole log is known to be good."""


class LogBytes(Protocol):
    """The bytes of a file that does not become shorter while it is read."""

    size: int

    def read(self, offset: int, length: int) -> bytes | memoryview:
        """Return `length` bytes from `offset` on, or fewer at the end of the file."""


@dataclass
class Segment:
    """A segment of the log: its header and its key."""

    header: Header
    key: SegmentKey


@dataclass
class LogScan:
    """The result of a scan.

    Attributes
    ----------
    segments
        The segments in their order.
    records
        For each record from `base` on the index of its segment, the offset of its frame, and the frame.
    end
        The length of the longest good prefix in bytes; `size` is that of the file.
    is_closed
        Whether that prefix ends with a trailer.
    damage
        The damage after `end` if the file continues there; a crash explains it.
    base
        The number of the first record that was scanned.
    log
        The salt of the first segment of the log.
    """

    segments: list[Segment] = field(default_factory=list)
    records: list[tuple[int, int, Frame]] = field(default_factory=list)
    end: int = 0
    size: int = 0
    is_closed: bool = False
    damage: str = ""
    base: int = 0
    log: bytes = b""

    @property
    def count(self) -> int:
        """The number of records of the log up to `end`."""
        return self.base + len(self.records)

    def writer_of(self, record: int) -> bytes:
        """Return the salt of the segment that has the record, which was scanned."""
        return self.segments[self.records[record - self.base][0]].header.salt


CUT_OFF = "it is cut off"
"""The damage of a log whose end is missing."""


class _Torn(Exception):
    """The good prefix ends here, and a crash may be the reason."""


def scan(
    file: LogBytes, name: str, key: MasterKey, visit: Visit | None = None, begun: LogScan | None = None
) -> LogScan:
    """Scan a log from its beginning, or on from `begun`. O(file) time, and memory for frames and one record.

    Raises `InvalidLog` if the file is not a log, `WrongKey`, and `NotAuthentic` for damage that no crash explains.
    """
    found = begun or LogScan(size=file.size)
    try:
        while found.end < found.size:
            if not found.segments or file.read(found.end, 1) == form.MAGIC[:1]:
                _header(file, name, key, found)
            else:
                _frame(file, name, found, visit)
    except _Torn as torn:
        found.damage = str(torn)
        if _continues(file, found):
            raise NotAuthentic(
                f"{found.damage}, but the log continues after it: it was changed", name, _at(found)
            ) from None
    return found


def _at(found: LogScan) -> str:
    return f"record {found.count} at byte {found.end}"


def _read(file: LogBytes, found: LogScan, offset: int, length: int) -> bytes | memoryview:
    if offset + length > found.size:
        raise _Torn(CUT_OFF)
    return file.read(offset, length)


def _header(file: LogBytes, name: str, key: MasterKey, found: LogScan) -> None:
    start = bytes(file.read(found.end, len(form.MAGIC) + 2))
    if not found.segments and not form.MAGIC.startswith(start[: len(form.MAGIC)]) and any(start):
        raise InvalidLog("the file is not a sealed log", name, "byte 0")
    version = int.from_bytes(start[len(form.MAGIC) :], "big")
    if (
        start.startswith(form.MAGIC)
        and len(start) > len(form.MAGIC) + 1
        and version != form.VERSION
        and not found.segments
    ):
        raise InvalidLog(f"expected version {form.VERSION}, got {version}", name, "byte 8")
    data = bytes(_read(file, found, found.end, form.HEADER))
    header = form.decode_header(data)
    if header is None and not found.segments and found.size > form.HEADER:
        raise NotAuthentic("its header is damaged", name, "header at byte 0")
    if header is None:
        raise _Torn("its header is damaged")
    segment = Segment(header, key.segment(header.salt))
    if not form.is_authentic(segment.key, header, data):
        if not found.segments:
            raise WrongKey("the log was sealed under another key", name, "header at byte 0")
        raise NotAuthentic("its header was changed", name, _at(found))
    before = found.segments[-1].header.salt if found.segments else bytes(form.SALT)
    if (header.before, header.first) != (before, found.count):
        raise NotAuthentic(
            "a segment is not where it was written: it was moved or repeated, or another was removed", name, _at(found)
        )
    found.segments.append(segment)
    found.log = found.log or header.salt
    found.end, found.is_closed = found.end + form.HEADER, False


def _frame(file: LogBytes, name: str, found: LogScan, visit: Visit | None) -> None:
    segment, expected = found.segments[-1], found.count
    frame = form.decode_frame(bytes(_read(file, found, found.end, form.FRAME)))
    if frame is None or frame.length > form.LARGEST or frame.kind != form.kind_of(frame.sequence):
        raise _Torn("the record is damaged")
    if frame.prefix != segment.header.prefix:
        raise NotAuthentic(
            "the record belongs to another session: it was moved from another file or place", name, _at(found)
        )
    size = frame.length + TAG
    data = form.decrypt_record(segment.key, segment.header, frame, _read(file, found, found.end + form.FRAME, size))
    if data is None:
        raise _Torn("the record is damaged, or was changed")
    if found.is_closed:
        raise NotAuthentic("the record is after the end of its segment", name, _at(found))
    if frame.sequence == form.OF_TRAILER:
        count = int.from_bytes(data, "big")
        if count != expected:
            raise NotAuthentic(f"expected {count} records, got {expected}: some were removed", name, _at(found))
        found.is_closed = True
    elif frame.sequence != expected:
        how = "replayed" if frame.sequence < expected else "reordered, or a record was removed"
        raise NotAuthentic(f"expected record {expected}, got record {frame.sequence}: {how}", name, _at(found))
    else:
        if visit is not None:
            visit(frame, data)
        found.records.append((len(found.segments) - 1, found.end, frame))
    found.end += form.FRAME + size


def _continues(file: LogBytes, found: LogScan) -> bool:
    """Return whether the file ends with a trailer, or has a later segment's header: then no crash has cut it off here.

    A writer syncs everything before it writes either.
    """
    if found.size - form.TRAILER_SIZE > found.end:
        frame = form.decode_frame(bytes(file.read(found.size - form.TRAILER_SIZE, form.FRAME)))
        if frame is not None and frame.kind == form.TRAILER == form.kind_of(frame.sequence):
            return True
    offset = found.end + 1
    while offset < found.size:
        piece = bytes(file.read(offset, PIECE + form.HEADER))
        at = piece.find(form.MAGIC)
        while 0 <= at < PIECE:
            if form.decode_header(piece[at : at + form.HEADER]) is not None:
                return True
            at = piece.find(form.MAGIC, at + 1)
        offset += PIECE
    return False
