"""A file of records under AES-256-GCM that is appended to, and what was acknowledged of it is there after a crash.

`SealedLog` writes, `SealedReader` reads. A record is acknowledged when the log is synced, and after that its anchor,
which is kept outside of it. Opening for writing drops what a crash has torn and syncs what is left; the first record
then begins a segment of its own, so that no state of an earlier writer, and no copy of the file, can make a pair of key
and initialization vector come again. `tla/mnemosyne/SealedLog.tla` is the model. spec: MN5.6, MN5.9 to MN5.18, MN7.1
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import stat
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Self, TypeVar

from tmmu.core.errors import TmmuError
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


def _named(salt: bytes) -> str:
    """How a segment is named in an event log."""
    return salt[:8].hex()


def log_failure(path: str, what: str, fix: str) -> TmmuError:
    """The system refuses something of the log at `path`."""
    return TmmuError(
        "TMMU_ALLOCATION_FAILURE", what, file=path, fix=fix, operator="Mnemosyne.E", arena="", peak_required_bytes=0
    )


class _Preads:
    """The bytes of an open file."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor, self.size = descriptor, os.fstat(descriptor).st_size

    def read(self, offset: int, length: int) -> bytes:
        """See `LogBytes`."""
        return os.pread(self.descriptor, length, offset)


Opened = Callable[[str, int], contextlib.AbstractContextManager[LogBytes]]
"""How the bytes of a log are had, of its name and its descriptor."""


def _by_reads(_: str, descriptor: int) -> contextlib.AbstractContextManager[LogBytes]:
    return contextlib.nullcontext(_Preads(descriptor))


def _checked(
    descriptor: int, name: str, key: MasterKey, anchor: bytes | None, visit: Visit | None, opened: Opened
) -> tuple[LogScan, LogState]:
    with opened(name, descriptor) as file:
        try:
            found = log_scan.scan(file, name, key, visit)
        except WrongKey as wrong:
            raise _of_a_rotation(wrong, name, key, anchor) from None
    stated = _compared(found, name, key, anchor)
    dropped = found.size - found.end
    if dropped:
        _LOG.warning("%s: %d bytes after %d records are torn and not read", name, dropped, len(found.records))
    if stated is None and found.records:
        _LOG.warning("%s: there is no anchor: an older copy, or a cut between records, looks like a crash", name)
    return found, LogState(len(found.records), len(found.segments), found.is_closed, dropped, stated)


def _compared(found: LogScan, name: str, key: MasterKey, anchor: bytes | None) -> int | None:
    """How many records the anchor states; None without one."""
    if anchor is None:
        return None
    by_key = anchors.under(key, anchor)
    own = [each for each in by_key if each is not None]
    if not own:
        raise NotAuthentic("the anchor was changed, or made under another key", name, "anchor")
    if len(own) > 1:
        what = "the anchor has two statements under one key, as no rotation writes them"
        raise NotAuthentic(what, name, "anchor", anchors.FIX)
    stated = own[-1]
    anchors.compare(stated, found, name)
    if len(by_key) > 1:
        when = "after" if by_key[1] is not None else "before"
        _LOG.warning(
            "%s: a rotation of keys was interrupted; this is the key %s it. Rotate again to end it", name, when
        )
    return stated.records


def _of_a_rotation(wrong: WrongKey, name: str, key: MasterKey, anchor: bytes | None) -> WrongKey:
    """The same refusal; where a rotation from or to this key was interrupted, it says which key opens the log."""
    by_key = anchors.under(key, anchor) if anchor is not None else []
    if len(by_key) < 2 or by_key == [None, None]:
        return wrong
    which = "after" if by_key[0] is not None else "before"
    what = f"a rotation of keys was interrupted, and the log is under the key {which} it, not under this one"
    return WrongKey(what, name, "header at byte 0", f"name the key {which} the rotation, or rotate again to end it")


Found = TypeVar("Found")


def _unless_changed(anchor: str | None, look: Callable[[bytes | None], Found]) -> Found:
    """Compare a log with its anchor; once more where the anchor was replaced meanwhile, by a writer or a rotation."""
    while True:
        before = anchors.read(anchor)
        try:
            return look(before)
        except TmmuError:
            if anchors.read(anchor) == before:
                raise


class SealedLog:
    """A log that is open for appending, by one process at a time. A context manager, which closes it.

    Attributes
    ----------
    found
        What was there when it was opened.
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
        self._scan, self._end, self._count = scan, scan.end, len(scan.records)
        self._kept = scan.end  # what is left where what is appended has to be withdrawn
        self._stated = anchors.read(anchor)
        self._acknowledged = self._count if anchor is None else found.anchored or 0
        self._first = scan.segments[0].header.salt if scan.segments else b""
        self._before = scan.segments[-1].header.salt if scan.segments else bytes(form.SALT)
        self._writer = scan.writer_of(-1) if scan.records else b""
        self._segment: tuple[SegmentKey, Header] | None = None

    @classmethod
    def open(
        cls,
        path: Path,
        key: MasterKey,
        anchor: Path | None = None,
        visit: Visit | None = None,
        opened: Opened = _by_reads,
        events: EventLog | None = None,
    ) -> Self:
        """Open the log at `path`, or begin one. O(log) time.

        What a crash has torn is cut off. `NotAuthentic`, `WrongKey`, `LogTruncated`, `RolledBack` and `InvalidLog`
        leave the file as it is; TMMU_ALLOCATION_FAILURE where it cannot be written, or another process has it. `visit`
        is called with each record that there is; `events` records what is done to the file.
        """
        name, beside = os.fspath(path), None if anchor is None else os.fspath(anchor)
        if not os.path.lexists(name):
            _unless_changed(beside, lambda stated: _compared(_absent(), name, key, stated))
        descriptor, is_new = _locked(name)
        try:
            _refuse_no_file(descriptor, name)
            scan, found = _unless_changed(beside, lambda stated: _checked(descriptor, name, key, stated, visit, opened))
            try:
                if found.dropped:
                    os.ftruncate(descriptor, scan.end)
                os.fsync(descriptor)
                sync_folder(name)
                if beside is not None and found.anchored is not None and not _are_neighbours(name, beside):
                    sync_folder(beside)  # or a loss of power could undo what a writer renamed before it was killed
            except OSError as error:
                raise log_failure(
                    name, f"cannot be synced ({error.strerror})", "make room, then open it again"
                ) from error
            log = cls(name, descriptor, key, beside, scan, found, is_new, events)
            log._log(
                "log opened", is_new=is_new, records=found.records, end=scan.end, dropped=found.dropped,
                size=scan.size, anchored=found.anchored or 0, has_anchor=anchor is not None,
                segment=_named(log._writer),
            )  # fmt: skip
            return log
        except BaseException:
            os.close(descriptor)
            raise

    @property
    def records(self) -> int:
        """How many records there are, synced or not."""
        return self._count

    def append(self, token: int, data: bytes | memoryview) -> int:
        """Seal a record after the last, and return its number. It is acknowledged by the next `sync` alone.

        Where that fails the log is closed: its key seals nothing more. ValueError for a token id of more than 64 bits
        and more than `sealed_format.LARGEST` bytes. O(data).
        """
        if not 0 <= token < 1 << 64 or len(data) > form.LARGEST:
            raise ValueError(f"a record of token {token} with {len(data)} bytes")
        with self._closed_by_failure():
            key, header = self._segment or self._begun()
            frame = Frame(form.RECORD, len(data), header.prefix, self._count, token)
            sealed = form.packed(key, header, frame, data)
            self._log(
                "log append", record=self._count, segment=_named(header.salt), offset=self._end,
                length=sum(map(len, sealed)),
            )  # fmt: skip
            self._write(*sealed)
        self._count += 1
        return self._count - 1

    def sync(self) -> int:
        """Sync the log, then its anchor, and acknowledge: how many records are there whatever happens."""
        if self._acknowledged < self._count or self._descriptor < 0:
            with self._closed_by_failure():
                os.fsync(self._descriptor)
                self._log("log synced", records=self._count)
                if self._anchor is not None:
                    statement = self.statement()
                    anchors.store(self._anchor, statement, observe=self._of_anchor)
                    self._stated = statement
                self._acknowledged, self._kept = self._count, self._end
                self._log("log acknowledged", records=self._count)
        return self._acknowledged

    def statement(self) -> bytes:
        """What an anchor says of all records that there are."""
        return anchors.sealed(self._master, anchors.Anchor(self._first, self._writer, self._count))

    def replaced_by(self, other: SealedLog) -> None:
        """Record that another log, with the same records, takes the name of this one next: when keys are rotated."""
        self._log("log replaced", records=other._count, end=other._end, segment=_named(other._writer))

    def discard(self, count: int) -> None:
        """Cut off the records from `count` on, which a writer has left that did not come to its end.

        ValueError for records that were acknowledged, and once there are new ones.
        """
        if not self._acknowledged <= count <= self._count or self._segment is not None:
            raise ValueError(f"record {count} of {self._count}, of which {self._acknowledged} are acknowledged")
        if count == self._count:
            return
        with self._closed_by_failure():
            self._end = self._kept = self._scan.records[count][1]
            os.ftruncate(self._descriptor, self._end)
            os.fsync(self._descriptor)
            self._log("log discarded", records=count, end=self._end)
        self._count = count
        self._writer = self._scan.writer_of(count - 1) if count else b""

    def end(self) -> None:
        """Acknowledge all records, and seal their number where there are new ones. The log stays locked."""
        self.sync()
        if self._segment is not None:
            key, header = self._segment
            with self._closed_by_failure():
                frame = Frame(form.TRAILER, form.COUNT.size, header.prefix, form.OF_TRAILER, 0)
                sealed = form.packed(key, header, frame, form.COUNT.pack(self._count))
                self._log("log trailer", records=self._count, offset=self._end, length=sum(map(len, sealed)))
                self._write(*sealed)
                os.fsync(self._descriptor)
            self._segment = None
            self._kept = self._end

    def close(self) -> None:
        """`end`, and give the file and its lock up. A second time does nothing."""
        if self._descriptor >= 0:
            self.end()
            self.abandon()

    def withdraw(self) -> None:
        """Cut off what was appended since the last acknowledgement, and give the file and its lock up.

        A log that was new and has nothing is removed. Where it is not known whether the anchor was replaced, or the
        system refuses, what was appended stays: whole records that were not acknowledged.
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
        self._give_up(has_failed)

    def abandon(self) -> None:
        """Give the file and its lock up as they are, without a trailer."""
        self._give_up()

    def _give_up(self, has_failed: bool = False) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            try:  # before the lock is given up
                self._log("log failed") if has_failed else self._log("log closed", end=self._end)
            finally:
                os.close(descriptor)

    def _log(self, event: str, **fields: Any) -> None:
        if self._events is not None:
            self._events(event, log=os.path.abspath(self.path), process=os.getpid(), **fields)

    def _of_anchor(self, what: str) -> None:
        self._log("log anchor", what=what, records=self._count, segment=_named(self._writer))

    def _begun(self) -> tuple[SegmentKey, Header]:
        """A segment with a new salt, whose header is synced before there is anything in it."""
        header = Header(os.urandom(form.SALT), self._before, self._count, os.urandom(4))
        key = self._master.segment(header.salt)
        sealed = form.packed_header(key, header)
        self._log("log segment", segment=_named(header.salt), first=self._count, offset=self._end, length=len(sealed))
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
    def _closed_by_failure(self) -> Iterator[None]:
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
        if kind is None:
            self.close()
        else:
            self.withdraw()


def _are_neighbours(one: str, other: str) -> bool:
    return os.path.dirname(os.path.realpath(one)) == os.path.dirname(os.path.realpath(other))


def _absent() -> LogScan:
    """What is found where there is no log: nothing, and no sign that it was cut off."""
    return LogScan(is_closed=True)


def _locked(name: str) -> tuple[int, bool]:
    """The file at `name`, open for writing and locked, and whether it was made for that.

    A rotation of keys puts another file in its place, and has both locked; so the name is looked up again.
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
                raise log_failure(name, "another process has it open", "wait for that process to end") from error


def _refuse_no_file(descriptor: int, name: str) -> None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise log_failure(name, "it is not a regular file", "choose another name")


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
    def open(
        cls,
        path: Path,
        key: MasterKey,
        anchor: Path | None = None,
        visit: Visit | None = None,
        opened: Opened = _by_reads,
    ) -> Self:
        """Read the log at `path` through. O(log) time; nothing is changed.

        `NotAuthentic`, `WrongKey`, `LogTruncated`, `RolledBack`, `InvalidLog`; TMMU_ALLOCATION_FAILURE where it cannot
        be read. With an anchor, a log that is missing is as one without records. `visit` is called with each record
        before the whole log is known to be good.
        """
        name, beside = os.fspath(path), None if anchor is None else os.fspath(anchor)

        def look(stated: bytes | None) -> tuple[int, LogScan, LogState]:
            try:
                descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            except OSError as error:
                if isinstance(error, FileNotFoundError):
                    _compared(_absent(), name, key, stated)
                what, fix = f"cannot be opened ({error.strerror})", "name the log that was meant"
                raise log_failure(name, what, fix) from error
            try:
                _refuse_no_file(descriptor, name)
                return descriptor, *_checked(descriptor, name, key, stated, visit, opened)
            except BaseException:
                os.close(descriptor)
                raise

        return cls(name, *_unless_changed(beside, look))

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
