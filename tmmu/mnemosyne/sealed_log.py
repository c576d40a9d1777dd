"""A file of records under AES-256-GCM that is appended to, and what was acknowledged of it is there after a crash.

`SealedLog` writes, `SealedReader` reads. A record is acknowledged when the log is synced, and after that its anchor,
which is kept outside of it. Opening for writing drops what a crash has torn and syncs what is left; the first record
then begins a segment of its own, so that no state of an earlier writer, and no copy of the file, can make a pair of key
and initialization vector come again. `tla/mnemosyne/SealedLog.tla` is the model. spec: MN5.6, MN5.9 to MN5.17
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import stat
from collections.abc import Iterator
from typing import NamedTuple, Self

from tmmu.core.errors import TmmuError
from tmmu.mnemosyne import anchors, log_scan
from tmmu.mnemosyne import sealed_format as form
from tmmu.mnemosyne.failures import NotAuthentic
from tmmu.mnemosyne.keys import TAG, MasterKey, SegmentKey, sync_folder
from tmmu.mnemosyne.log_scan import LogScan
from tmmu.mnemosyne.sealed_format import Frame, Header

_LOG = logging.getLogger("tmmu.mnemosyne")
Path = str | os.PathLike[str]


class Record(NamedTuple):
    """A record as it was sealed: its place in the log, its token id, its bytes."""

    sequence: int
    token: int
    data: bytes


class LogState(NamedTuple):
    """What was found in a log.

    `dropped` are bytes after the longest good prefix; `anchored` are the records that the anchor states. Without one
    (None) a log that ends between two records, or is an older copy of itself, looks like one that a crash has left.
    """

    records: int
    segments: int
    is_closed: bool
    dropped: int
    anchored: int | None


def _failure(path: str, what: str, fix: str) -> TmmuError:
    return TmmuError(
        "TMMU_ALLOCATION_FAILURE", what, file=path, fix=fix, operator="Mnemosyne.E", arena="", peak_required_bytes=0
    )


def _checked(descriptor: int, name: str, key: MasterKey, anchor: str | None) -> tuple[LogScan, LogState]:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise _failure(name, "it is not a regular file", "choose another name")
    with open(descriptor, "rb", closefd=False) as file:
        found = log_scan.scan(file, name, key)
    stated = _compared(found, name, key, anchor)
    dropped = found.size - found.end
    if dropped:
        _LOG.warning("%s: %d bytes after %d records are torn and not read", name, dropped, len(found.records))
    if stated is None and found.records:
        _LOG.warning("%s: there is no anchor: an older copy or a cut between records would not be noticed", name)
    return found, LogState(len(found.records), len(found.segments), found.is_closed, dropped, stated)


def _compared(found: LogScan, name: str, key: MasterKey, anchor: str | None) -> int | None:
    """How many records the anchor states; None without one."""
    stated = anchors.load(anchor, key) if anchor is not None else None
    if stated is None:
        return None
    anchors.compare(stated, found, name)
    return stated.records


class SealedLog:
    """A log that is open for appending, by one process at a time. A context manager, which closes it.

    Attributes
    ----------
    found
        What was there when it was opened.
    """

    def __init__(self, path: str, descriptor: int, key: MasterKey, anchor: str | None, scan: LogScan, found: LogState):
        self.path, self.found = path, found
        self._descriptor, self._master, self._anchor = descriptor, key, anchor
        self._end, self._count = scan.end, len(scan.records)
        self._acknowledged = self._count if anchor is None else found.anchored or 0
        self._first = scan.segments[0].header.salt if scan.segments else b""
        self._before = scan.segments[-1].header.salt if scan.segments else bytes(form.SALT)
        self._writer = scan.writer_of(-1) if scan.records else b""
        self._segment: tuple[SegmentKey, Header] | None = None

    @classmethod
    def open(cls, path: Path, key: MasterKey, anchor: Path | None = None) -> Self:
        """Open the log at `path`, or begin one. O(log) time.

        What a crash has torn is cut off. `NotAuthentic`, `RolledBack` and `InvalidLog` leave the file as it is;
        TMMU_ALLOCATION_FAILURE where it cannot be written, or another process has it.
        """
        name, beside = os.fspath(path), None if anchor is None else os.fspath(anchor)
        if not os.path.lexists(name):
            _compared(LogScan(), name, key, beside)
        try:
            descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
        except OSError as error:
            raise _failure(name, f"cannot be opened ({error.strerror})", "choose a file that you may write") from error
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise _failure(name, "another process has it open", "wait for that process to end") from error
            scan, found = _checked(descriptor, name, key, beside)
            try:
                if found.dropped:
                    os.ftruncate(descriptor, scan.end)
                os.fsync(descriptor)
                sync_folder(name)
            except OSError as error:
                raise _failure(name, f"cannot be synced ({error.strerror})", "make room, then open it again") from error
        except BaseException:
            os.close(descriptor)
            raise
        return cls(name, descriptor, key, beside, scan, found)

    @property
    def records(self) -> int:
        """How many records there are, synced or not."""
        return self._count

    def append(self, token: int, data: bytes) -> int:
        """Seal a record after the last, and return its number. It is acknowledged by the next `sync` alone.

        Where that fails the log is closed: its key seals nothing more. ValueError for a token id of more than 64 bits
        and more than `sealed_format.LARGEST` bytes. O(data).
        """
        if not 0 <= token < 1 << 64 or len(data) > form.LARGEST:
            raise ValueError(f"a record of token {token} with {len(data)} bytes")
        with self._closed_by_failure():
            key, header = self._segment or self._begun()
            frame = Frame(form.RECORD, len(data), header.prefix, self._count, token)
            self._write(form.packed(key, header, frame, data))
        self._count += 1
        return self._count - 1

    def sync(self) -> int:
        """Sync the log, then its anchor, and acknowledge: how many records are there whatever happens."""
        if self._acknowledged < self._count or self._descriptor < 0:
            with self._closed_by_failure():
                os.fsync(self._descriptor)
                if self._anchor is not None:
                    anchors.store(self._anchor, self._master, anchors.Anchor(self._first, self._writer, self._count))
            self._acknowledged = self._count
        return self._acknowledged

    def close(self) -> None:
        """Acknowledge all records, and seal their number where there are new ones. A second time does nothing."""
        if self._descriptor < 0:
            return
        self.sync()
        if self._segment is not None:
            key, header = self._segment
            with self._closed_by_failure():
                frame = Frame(form.TRAILER, form.COUNT.size, header.prefix, form.OF_TRAILER, 0)
                self._write(form.packed(key, header, frame, form.COUNT.pack(self._count)))
                os.fsync(self._descriptor)
        self.abandon()

    def abandon(self) -> None:
        """Give the file and its lock up as they are, without a trailer."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _begun(self) -> tuple[SegmentKey, Header]:
        """A segment with a new salt, whose header is synced before there is anything in it."""
        header = Header(os.urandom(form.SALT), self._before, self._count, os.urandom(4))
        key = self._master.segment(header.salt)
        self._write(form.packed_header(key, header))
        os.fsync(self._descriptor)
        self._segment, self._writer = (key, header), header.salt
        self._first = self._first or header.salt
        return self._segment

    def _write(self, data: bytes) -> None:
        written = 0
        while written < len(data):
            written += os.pwrite(self._descriptor, data[written:], self._end + written)
        self._end += len(data)

    @contextlib.contextmanager
    def _closed_by_failure(self) -> Iterator[None]:
        if self._descriptor < 0:
            raise _failure(self.path, "the log is closed, or a write to it failed", "open it again")
        try:
            yield
        except OSError as error:
            self.abandon()
            what = f"cannot be written ({error.strerror})"
            raise _failure(self.path, what, "make room, then open it again") from error
        except BaseException:
            self.abandon()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()


class SealedReader:
    """A log that was read through and found good, whose records are opened one by one. A context manager.

    Attributes
    ----------
    state
        What was found.
    """

    def __init__(self, path: str, descriptor: int, scan: LogScan, state: LogState) -> None:
        self.path, self.state = path, state
        self._descriptor, self._scan = descriptor, scan

    @classmethod
    def open(cls, path: Path, key: MasterKey, anchor: Path | None = None) -> Self:
        """Read the log at `path` through. O(log) time; nothing is changed.

        `NotAuthentic`, `RolledBack`, `InvalidLog`; TMMU_ALLOCATION_FAILURE where it cannot be read. With an anchor, a
        log that is missing is as one without records.
        """
        name, beside = os.fspath(path), None if anchor is None else os.fspath(anchor)
        try:
            descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            if isinstance(error, FileNotFoundError):
                _compared(LogScan(), name, key, beside)
            raise _failure(name, f"cannot be opened ({error.strerror})", "name the log that was meant") from error
        try:
            return cls(name, descriptor, *_checked(descriptor, name, key, beside))
        except BaseException:
            os.close(descriptor)
            raise

    def __len__(self) -> int:
        return len(self._scan.records)

    def __getitem__(self, sequence: int) -> Record:
        """A record, authenticated anew. IndexError where there is none, `NotAuthentic` where it changed since."""
        at, offset, frame = self._scan.records[sequence]
        segment = self._scan.segments[at]
        sealed = os.pread(self._descriptor, frame.length + TAG, offset + form.FRAME)
        data = form.opened(segment.key, segment.header, frame, sealed)
        if data is None:
            raise NotAuthentic("it was changed after the log was opened", self.path, f"record {frame.sequence}")
        return Record(frame.sequence, frame.token, data)

    def close(self) -> None:
        """Give the file up."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
