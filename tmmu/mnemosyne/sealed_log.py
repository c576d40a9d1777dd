"""An append-only file of records under AES-256-GCM. Acknowledged records survive a crash.

`SealedLog` writes, `SealedReader` reads. A record is acknowledged once the log has been synced and then its anchor,
which is kept outside of the log. Opening for writing drops the torn end that a crash has left, and syncs the rest. The
first record then begins a new segment, so that no state of an earlier writer, and no copy of the file, can repeat a
pair of key and initialization vector. `tla/mnemosyne/SealedLog.tla` is the model.
spec: MN5.6, MN5.9 to MN5.18, MN7.1, RE5.2
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Self, TypeVar

from tmmu.core.errors import TmmuError
from tmmu.core.reading import NotRegular, open_descriptor
from tmmu.mnemosyne import anchors, log_scan
from tmmu.mnemosyne import sealed_format as form
from tmmu.mnemosyne.failures import NotAuthentic, WrongKey
from tmmu.mnemosyne.keys import TAG, MasterKey, SegmentKey, sync_folder
from tmmu.mnemosyne.log_scan import LogBytes, LogScan, Visit
from tmmu.mnemosyne.sealed_format import Frame, Header
from tmmu.runtime.events import EventLog

_LOG = logging.getLogger("tmmu.mnemosyne")
Path = str | os.PathLike[str]


class Record(NamedTuple):
    """A record as it was sealed: its place in the log, its token id, its bytes."""

    sequence: int
    token: int
    data: bytes


class RecordPlace(NamedTuple):
    """Where a record is: the salt of its segment, its number, and the offset of its frame."""

    salt: bytes
    number: int
    offset: int


COMMITS = 64
"""After how many commits an anchor that is written in place is synced."""


class LogState(NamedTuple):
    """The state of a log when it was opened.

    `dropped` are the bytes after the longest good prefix. `anchored` is the number of records that the anchor states.
    Without an anchor (None), a log cut between two records, or an older copy, looks like one that a crash has left.
    """

    records: int
    segments: int
    is_closed: bool
    dropped: int
    anchored: int | None


def _segment_name(salt: bytes) -> str:
    """Return the name of a segment in an event log."""
    return salt[:8].hex()


def log_failure(path: str, what: str, fix: str) -> TmmuError:
    """Return the error for a call on the log at `path` that the system refused."""
    return TmmuError(
        "TMMU_ALLOCATION_FAILURE", what, file=path, fix=fix, operator="Mnemosyne.E", arena="", peak_required_bytes=0
    )


class _Preads:
    """The bytes of an open file, read by `pread`."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor, self.size = descriptor, os.fstat(descriptor).st_size

    def read(self, offset: int, length: int) -> bytes:
        """Return bytes of the file; see `LogBytes`."""
        return os.pread(self.descriptor, length, offset)


Opened = Callable[[str, int], contextlib.AbstractContextManager[LogBytes]]
"""Provides the bytes of a log from its name and its descriptor."""


def _by_reads(_: str, descriptor: int) -> contextlib.AbstractContextManager[LogBytes]:
    return contextlib.nullcontext(_Preads(descriptor))


Begin = Callable[[LogBytes, bytes | None], LogScan]
"""Returns the state from which a log is scanned, from its bytes and those of its anchor."""


def begin_at_the_start(file: LogBytes, _: bytes | None) -> LogScan:
    """Return the state of a scan that has seen nothing: see `Begin`."""
    return LogScan(size=file.size)


class LogLook(NamedTuple):
    """How a log is scanned: what is called with each record, what reads the file, and where the scan begins."""

    visit: Visit | None = None
    opened: Opened = _by_reads
    begin: Begin = begin_at_the_start


WHOLE = LogLook()
"""Scans the whole log."""


def _scan_and_compare(
    descriptor: int, name: str, key: MasterKey, anchor: bytes | None, look: LogLook
) -> tuple[LogScan, LogState]:
    with look.opened(name, descriptor) as file:
        try:
            found = log_scan.scan(file, name, key, look.visit, look.begin(file, anchor))
        except WrongKey as wrong:
            raise _explain_rotation(wrong, name, key, anchor) from None
    stated = _check_anchor(found, name, key, anchor)
    dropped = found.size - found.end
    if dropped:
        _LOG.warning("%s: %d bytes after %d records are torn and not read", name, dropped, found.count)
    if stated is None and found.count:
        _LOG.warning("%s: there is no anchor: an older copy, or a cut between records, looks like a crash", name)
    return found, LogState(found.count, len(found.segments), found.is_closed, dropped, stated)


def _check_anchor(found: LogScan, name: str, key: MasterKey, anchor: bytes | None) -> int | None:
    """Check a scan against the anchor, and return how many records the anchor states; None without one."""
    if anchor is None:
        return None
    by_key = anchors.decode_statements(key, anchor)
    own = [each for each in by_key if each is not None]
    if not own:
        raise NotAuthentic("the anchor was changed, or made under another key", name, "anchor")
    if len(own) > 1 and not anchors.is_pair(anchor):
        what = "the anchor has two statements under one key, which no rotation writes"
        raise NotAuthentic(what, name, "anchor", anchors.FIX)
    stated = anchors.pick_statement(own, found.log)
    anchors.check_log(stated, found, name)
    if anchors.is_pair(anchor):
        _LOG.warning("%s: a compaction was interrupted. The next writer ends it", name)
    elif len(by_key) > 1:
        when = "after" if by_key[1] is not None else "before"
        _LOG.warning(
            "%s: a rotation of keys was interrupted; this is the key %s it. Rotate again to end it", name, when
        )
    return stated.records


def _explain_rotation(wrong: WrongKey, name: str, key: MasterKey, anchor: bytes | None) -> WrongKey:
    """Return the same refusal, or one that names the key to use if a rotation from or to this key was interrupted."""
    by_key = anchors.decode_statements(key, anchor) if anchor is not None else []
    if by_key.count(None) != 1 or len(by_key) < 2:
        return wrong
    which = "after" if by_key[0] is not None else "before"
    what = f"a rotation of keys was interrupted: the log is under the key {which} it, not under this one"
    return WrongKey(what, name, "header at byte 0", f"name the key {which} the rotation, or rotate again to end it")


Found = TypeVar("Found")


def _with_stable_anchor(name: str, anchor: str | None, look: Callable[[bytes | None], Found]) -> Found:
    """Compare a log with its anchor; repeat it if one of them was replaced meanwhile, or the anchor overwritten."""
    while True:
        before, file = anchors.read(anchor), _identify(name)
        try:
            return look(before)
        except TmmuError:
            if (anchors.read(anchor), _identify(name)) == (before, file):
                raise


def _identify(name: str) -> tuple[int, int] | None:
    """Return the device and the number of a file; None if there is none."""
    try:
        status = os.stat(name)
    except OSError:
        return None
    return status.st_dev, status.st_ino


class SealedLog:
    """A log that is open for appending, by one process at a time. A context manager, which closes it.

    Attributes
    ----------
    found
        The state when it was opened.
    """

    def __init__(
        self,
        path: str,
        descriptor: int,
        key: MasterKey,
        anchor: str | None,
        scan: LogScan,
        found: LogState,
        is_new: bool,
        events: EventLog | None,
    ) -> None:
        self.path, self.found, self._events = path, found, events
        self._descriptor, self._master, self._anchor, self._is_new = descriptor, key, anchor, is_new
        self._scan, self._end, self._count = scan, scan.end, scan.count
        self._kept = scan.end  # the length that `withdraw` restores
        self._durable = self._count
        self._commits = 0  # since the anchor was synced
        self._stated = anchors.read(anchor)
        self._acknowledged = self._count if anchor is None else found.anchored or 0
        self._first = scan.log
        self._before = scan.segments[-1].header.salt if scan.segments else bytes(form.SALT)
        self._writer = scan.writer_of(scan.count - 1) if scan.count else b""
        self._segment: tuple[SegmentKey, Header] | None = None

    @classmethod
    def open(
        cls,
        path: Path,
        key: MasterKey,
        anchor: Path | None = None,
        look: LogLook = WHOLE,
        events: EventLog | None = None,
    ) -> Self:
        """Open the log at `path`, or begin one. O(log) time, or of the part from where `look` begins.

        A torn end that a crash has left is cut off. `NotAuthentic`, `WrongKey`, `LogTruncated`, `RolledBack` and
        `InvalidLog` leave the file unchanged. Raises TMMU_ALLOCATION_FAILURE if the file cannot be written or another
        process has it open. `events` records the changes of the file.
        """
        name, beside = os.fspath(path), None if anchor is None else os.fspath(anchor)
        if not os.path.lexists(name):
            _with_stable_anchor(name, beside, lambda stated: _check_anchor(_absent(), name, key, stated))
        descriptor, is_new = open_and_lock(name)
        try:
            _check_is_file(descriptor, name)
            scan, found = _with_stable_anchor(
                name, beside, lambda stated: _scan_and_compare(descriptor, name, key, stated, look)
            )
            try:
                if found.dropped:
                    os.ftruncate(descriptor, scan.end)
                os.fsync(descriptor)
                sync_folder(name)
                if beside is not None and found.anchored is not None:
                    anchors.sync(beside)  # a loss of power could undo what a writer that was killed wrote in place
                    _end_compaction(beside, key, scan.log)
                    if not _are_neighbours(name, beside):
                        sync_folder(beside)  # and its rename
            except OSError as error:
                raise log_failure(
                    name, f"cannot be synced ({error.strerror})", "make room, then open it again"
                ) from error
            log = cls(name, descriptor, key, beside, scan, found, is_new, events)
            log._log(
                "log opened", is_new=is_new, records=found.records, end=scan.end, dropped=found.dropped,
                size=scan.size, anchored=found.anchored or 0, has_anchor=anchor is not None,
                segment=_segment_name(log._writer),
            )  # fmt: skip
            return log
        except BaseException:
            os.close(descriptor)
            raise

    @property
    def descriptor(self) -> int:
        """The descriptor of the file, for reading records that were appended; -1 once it is closed."""
        return self._descriptor

    @property
    def records(self) -> int:
        """The number of records, synced or not."""
        return self._count

    def append(self, token: int, data: bytes | memoryview) -> int:
        """Seal a record after the last, and return its number. See `append_all`."""
        return self.append_all(((token, data),))[0].number

    def append_all(self, records: Sequence[tuple[int, bytes | memoryview]]) -> list[RecordPlace]:
        """Seal records (token, data) after the last, and return their places. Only the next `sync` acknowledges them.

        If this fails, the log is closed: its key seals nothing more. Raises ValueError for a token id of more than 64
        bits and for more than `sealed_format.LARGEST` bytes. O(data), and memory for the sealed records.
        """
        for token, data in records:
            if not 0 <= token < 1 << 64 or len(data) > form.LARGEST:
                limits = f"a token of 64 bits and at most {form.LARGEST} bytes"
                raise ValueError(f"expected {limits}, got token {token} with {len(data)} bytes")
        places: list[RecordPlace] = []
        parts: list[bytes] = []
        with self._withdraw_on_failure():
            key, header = self._segment or self._begin_segment()
            end, number = self._end, self._count
            for token, data in records:
                frame = Frame(form.RECORD, len(data), header.prefix, number, token)
                sealed = form.encode_record(key, header, frame, data)
                size = len(sealed[0]) + len(sealed[1])
                self._log("log append", record=number, segment=_segment_name(header.salt), offset=end, length=size)
                places.append(RecordPlace(header.salt, number, end))
                parts += sealed
                end, number = end + size, number + 1
            self._write(b"".join(parts))
        self._count = number
        return places

    def sync(self) -> int:
        """Sync the log, then its anchor; return how many records are acknowledged and so survive a crash."""
        if self._acknowledged < self._count or self._descriptor < 0:
            with self._withdraw_on_failure():
                self._sync_records()
                if self._anchor is not None:
                    statement = self.statement()
                    if statement == self._stated:
                        anchors.sync(self._anchor)
                        self._log_anchor("kept")
                    else:
                        anchors.store(self._anchor, statement, observe=self._log_anchor)
                    self._stated = statement
                self._acknowledged, self._kept, self._commits = self._count, self._end, 0
                self._log("log acknowledged", records=self._count)
        return self._acknowledged

    def commit(self) -> int:
        """Sync the log once and write its anchor in place; return how many records survive a loss of power.

        Every process compares the log with that anchor from then on. The anchor itself is synced with every 64th
        commit (`COMMITS`), by `sync` and by `close`: what is before is acknowledged. If there is no anchor yet, or it
        has the two statements of a rotation, this is `sync`.
        """
        if self._stated is None or len(self._stated) != anchors.SIZE or self._commits + 1 >= COMMITS:
            return self.sync()
        if self._durable < self._count or self._descriptor < 0:
            with self._withdraw_on_failure():
                self._sync_records()
                statement = self.statement()
                self._log_anchor("overwriting")
                anchors.overwrite(str(self._anchor), statement)
                self._log_anchor("overwritten")
                self._stated, self._kept, self._commits = statement, self._end, self._commits + 1
        return self._durable

    def _sync_records(self) -> None:
        if self._durable < self._count:
            os.fsync(self._descriptor)
            self._durable = self._count
            self._log("log synced", records=self._count)

    @property
    def writer(self) -> bytes:
        """The salt of the segment that has the last record; empty if there is none."""
        return self._writer

    def anchor(self) -> anchors.Anchor:
        """Return what an anchor about all records of the log states."""
        return anchors.Anchor(self._first, self._writer, self._count)

    def statement(self) -> bytes:
        """Return the statement of an anchor about all records that the log has."""
        return anchors.encode_statement(self._master, self.anchor())

    def log_replacement(self, other: SealedLog) -> None:
        """Record that another log, with the same records, takes the name of this one next: when keys are rotated."""
        self._log("log replaced", records=other._count, end=other._end, segment=_segment_name(other._writer))

    def log_compaction(self, other: SealedLog) -> None:
        """Record that another log, with fewer records, takes the name of this one next."""
        self._log("log compacted", records=other._count, end=other._end, segment=_segment_name(other._writer))

    def discard(self, count: int) -> None:
        """Cut off the records from `count` on, which belong to an unfinished put.

        Raises ValueError for records that were acknowledged, and once there are new ones.
        """
        if not self._acknowledged <= count <= self._count or self._segment is not None:
            raise ValueError(
                f"expected a record between {self._acknowledged} and {self._count}, and no new ones, got {count}"
            )
        if count == self._count:
            return
        with self._withdraw_on_failure():
            self._end = self._kept = self._scan.records[count - self._scan.base][1]
            os.ftruncate(self._descriptor, self._end)
            os.fsync(self._descriptor)
            self._log("log discarded", records=count, end=self._end)
        self._count = self._durable = count
        self._writer = self._scan.writer_of(count - 1) if count else b""

    def end(self) -> None:
        """Acknowledge all records, and seal their number if there are new ones. The log stays locked."""
        self.sync()
        if self._segment is not None:
            key, header = self._segment
            with self._withdraw_on_failure():
                frame = Frame(form.TRAILER, form.COUNT.size, header.prefix, form.OF_TRAILER, 0)
                sealed = form.encode_record(key, header, frame, form.COUNT.pack(self._count))
                self._log("log trailer", records=self._count, offset=self._end, length=sum(map(len, sealed)))
                self._write(*sealed)
                os.fsync(self._descriptor)
            self._segment = None
            self._kept = self._end

    def close(self) -> None:
        """Call `end`, then release the file and its lock. A second call does nothing."""
        if self._descriptor >= 0:
            self.end()
            self.abandon()

    def withdraw(self) -> None:
        """Cut off the records since the last acknowledgement, and release the file and its lock.

        A new log without records is removed. If it is unknown whether the anchor was replaced, or the system refuses,
        the records stay: whole records that were not acknowledged.
        """
        has_failed = True
        with contextlib.suppress(OSError, TmmuError):
            if self._descriptor >= 0 and anchors.read(self._anchor) == self._stated:
                os.ftruncate(self._descriptor, self._kept)
                is_removed = self._is_new and not self._kept
                if is_removed:
                    os.unlink(os.path.realpath(self.path))
                    sync_folder(self.path)
                else:
                    os.fsync(self._descriptor)
                self._end = self._kept
                self._log("log withdrawn", end=self._end, is_removed=is_removed)
                has_failed = False
        self._release(has_failed)

    def abandon(self) -> None:
        """Release the file and its lock as they are, without a trailer."""
        self._release()

    def _release(self, has_failed: bool = False) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            try:  # before the lock is released
                self._log("log failed") if has_failed else self._log("log closed", end=self._end)
            finally:
                os.close(descriptor)

    def _log(self, event: str, **fields: Any) -> None:
        if self._events is not None:
            self._events(event, log=os.path.abspath(self.path), process=os.getpid(), **fields)

    def _log_anchor(self, what: str) -> None:
        self._log("log anchor", what=what, records=self._count, segment=_segment_name(self._writer))

    def _begin_segment(self) -> tuple[SegmentKey, Header]:
        """Begin a segment with a new salt. Its header is synced before a record is written."""
        header = Header(os.urandom(form.SALT), self._before, self._count, os.urandom(4))
        key = self._master.segment(header.salt)
        sealed = form.encode_header(key, header)
        self._log(
            "log segment", segment=_segment_name(header.salt), first=self._count, offset=self._end, length=len(sealed)
        )
        self._write(sealed)
        os.fsync(self._descriptor)
        self._segment, self._writer, self._before = (key, header), header.salt, header.salt
        self._first = self._first or header.salt
        return self._segment

    def _write(self, *parts: bytes) -> None:
        left = [memoryview(part) for part in parts]
        while left:
            written = os.pwritev(self._descriptor, left, self._end)
            self._end += written
            while left and written >= len(left[0]):
                written -= len(left.pop(0))
            left = [left[0][written:], *left[1:]] if left else []

    @contextlib.contextmanager
    def _withdraw_on_failure(self) -> Iterator[None]:
        if self._descriptor < 0:
            raise log_failure(self.path, "the log is closed, or a write to it failed", "open it again")
        try:
            yield
        except OSError as error:
            self.withdraw()
            what = f"cannot be written ({error.strerror})"
            raise log_failure(self.path, what, "make room, then open it again") from error
        except BaseException:
            self.withdraw()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.end_with(has_failed=kind is not None)

    def end_with(self, *, has_failed: bool) -> None:
        """Call `withdraw` after a failure, otherwise `close`."""
        if has_failed:
            self.withdraw()
        else:
            self.close()


def _end_compaction(anchor: str, key: MasterKey, log: bytes) -> None:
    """If an interrupted compaction left an anchor about two logs, state only the one with this first salt."""
    data = anchors.read(anchor)
    if data is not None and anchors.is_pair(data):
        own = [each for each in anchors.decode_statements(key, data) if each is not None]
        anchors.store(anchor, anchors.encode_statement(key, anchors.pick_statement(own, log)))


def _are_neighbours(one: str, other: str) -> bool:
    return os.path.dirname(os.path.realpath(one)) == os.path.dirname(os.path.realpath(other))


def _absent() -> LogScan:
    """Return the scan of a log that does not exist: no records, and no sign that it was cut off."""
    return LogScan(is_closed=True)


def open_and_lock(name: str) -> tuple[int, bool]:
    """Open the file at `name` for writing and lock it. Returns the descriptor, and whether the file was created.

    A rotation of keys replaces the file while it has both locked; so the name is looked up again.
    """
    target, flags = os.path.realpath(name), os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK
    while True:
        try:
            try:
                descriptor, is_new = os.open(target, flags), False
            except FileNotFoundError:
                descriptor, is_new = os.open(target, flags | os.O_CREAT | os.O_EXCL, 0o666), True
        except FileExistsError:
            continue
        except OSError as error:
            raise log_failure(
                name, f"cannot be opened ({error.strerror})", "choose a file that you may write"
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), os.stat(target)):
                return descriptor, is_new
            os.close(descriptor)
        except OSError as error:
            os.close(descriptor)
            if not isinstance(error, FileNotFoundError):
                raise log_failure(name, "another process has the log open", "wait for that process to end") from error


def _check_is_file(descriptor: int, name: str) -> None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise log_failure(name, "the path is not a regular file", "choose another name")


class SealedReader:
    """A log that was scanned and found good; its records are opened one by one. A context manager.

    Attributes
    ----------
    state
        The state found by the scan.
    """

    def __init__(self, path: str, descriptor: int, scan: LogScan, state: LogState) -> None:
        self.path, self.state = path, state
        self._descriptor, self._scan = descriptor, scan

    @classmethod
    def open(
        cls,
        path: Path,
        key: MasterKey,
        anchor: Path | None = None,
        look: LogLook = WHOLE,
    ) -> Self:
        """Scan the log at `path`. O(log) time, or of the part from where `look` begins; nothing is changed.

        Raises `NotAuthentic`, `WrongKey`, `LogTruncated`, `RolledBack`, `InvalidLog`, and TMMU_ALLOCATION_FAILURE if it
        cannot be read. With an anchor, a missing log counts as one without records. `look.visit` is called with each
        record before the whole log is known to be good.
        """
        name, beside = os.fspath(path), None if anchor is None else os.fspath(anchor)

        def compare(stated: bytes | None) -> tuple[int, LogScan, LogState]:
            try:
                descriptor = open_descriptor(name)
            except NotRegular as error:
                raise log_failure(name, "the path is not a regular file", "choose another name") from error
            except OSError as error:
                if isinstance(error, FileNotFoundError):
                    _check_anchor(_absent(), name, key, stated)
                what, fix = f"cannot be opened ({error.strerror})", "name the log that was meant"
                raise log_failure(name, what, fix) from error
            try:
                return descriptor, *_scan_and_compare(descriptor, name, key, stated, look)
            except BaseException:
                os.close(descriptor)
                raise

        return cls(name, *_with_stable_anchor(name, beside, compare))

    @property
    def descriptor(self) -> int:
        """The descriptor of the file, for reading its records; -1 once it is closed."""
        return self._descriptor

    @property
    def salt(self) -> bytes:
        """The salt of the first segment, by which anchors name the log; empty if there is none."""
        return self._scan.log

    def __len__(self) -> int:
        return self._scan.count

    def __getitem__(self, sequence: int) -> Record:
        """Return a record, authenticated again. IndexError if there is none, `NotAuthentic` if it has changed since."""
        at, offset, frame = self._scan.records[sequence - self._scan.base]
        segment = self._scan.segments[at]
        sealed = os.pread(self._descriptor, frame.length + TAG, offset + form.FRAME)
        data = form.decrypt_record(segment.key, segment.header, frame, sealed)
        if data is None:
            raise NotAuthentic("the record was changed after the log was opened", self.path, f"record {frame.sequence}")
        return Record(frame.sequence, frame.token, data)

    def close(self) -> None:
        """Close the file."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
