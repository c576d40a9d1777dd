"""Locks whose sections are checked for data races at run time: the document's lock sets and its Inv_3.

Each access to bytes is recorded with its thread, its line of code and the locks that were held. Two accesses to one
byte race if different threads make them, one of them writes, no lock was held at both (shared locks of two readers do
not count), and no start or join of a thread orders one before the other. Every pair of accesses is checked, whenever
the two were made. So a race is found in whatever order the threads happened to run.

Of Eraser's algorithm this keeps the lock sets. Eraser's states let a thread initialize bytes without a lock, which
hides races in some orders. Its single candidate set for each byte also reports lock sets that intersect pairwise, such
as {a, b}, {b, c} and {a, c}. Here starts and joins order initialization, and lock sets are compared in pairs.

A section takes all its locks at once, in ascending order, and each lock is granted in the order of requests. So no
circle of waiting threads can form. `tla/mnemosyne/WriteLocks.tla` is the model. spec: MN7.2 to MN7.8
"""

from __future__ import annotations

import fcntl
import os
import sys
import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tmmu.core.errors import TmmuError
from tmmu.mnemosyne.failures import OPERATOR, NoAddressSpace
from tmmu.runtime.events import EventLog

_HERE = os.path.dirname(os.path.abspath(__file__))


class ByteAccess(NamedTuple):
    """An access to bytes: its thread, the thread's time, whether it writes, the locks held, and its line of code."""

    thread: int
    time: int
    name: str
    is_write: bool
    owned: frozenset[str]
    shared: frozenset[str]
    site: str

    def __str__(self) -> str:
        locks = sorted(self.owned) + [f"{name} as a reader" for name in sorted(self.shared)]
        return f"{'written' if self.is_write else 'read'} at {self.site} by {self.name} under {{{', '.join(locks)}}}"


class DataRace(TmmuError):
    """Two threads access one byte, one of them writes, and neither a lock nor a start or join orders them.

    `first` is the access that was made earlier.
    """

    def __init__(self, subject: str, start: int, stop: int, first: ByteAccess, second: ByteAccess) -> None:
        self.first, self.second = first, second
        super().__init__(
            "DATA_RACE", f"bytes {start} to {stop} are {first}, and {second}", file=subject,
            fix="hold one lock at both, or join the thread", operator=OPERATOR, first=first.site, second=second.site,
        )  # fmt: skip


def _are_excluded(one: ByteAccess, other: ByteAccess) -> bool:
    """Return whether a lock excludes the two accesses from overlapping."""
    return not one.owned.isdisjoint(other.owned | other.shared) or not one.shared.isdisjoint(other.owned)


def _subsumes(one: ByteAccess, other: ByteAccess) -> bool:
    """Return whether every access that races with `other` also races with `one`, made at the same time or later."""
    return (
        one.is_write >= other.is_write
        and one.owned <= other.owned
        and one.shared <= (other.owned | other.shared)
    )  # fmt: skip


class Lock:
    """A named lock of a `RaceDetector`. With a file it excludes other processes as well."""

    def __init__(self, name: str, file: str | None) -> None:
        self.name, self.file = name, file
        self._queue: deque[object] = deque()
        self._holders = 0
        self._has_writer = False

    def __repr__(self) -> str:
        return f"Lock({self.name!r})"


@dataclass
class _Thread:
    """The state of a thread: its number, its locks, and its vector clock.

    `clock` maps each thread to the last of its times that happens before the current action of this thread.
    """

    number: int
    clock: dict[int, int]
    locks: tuple[str, ...] = ()
    is_reader: bool = False

    @property
    def time(self) -> int:
        """The thread's own time. It advances at each start of another thread."""
        return self.clock[self.number]


@dataclass
class _Bytes:
    """The bytes of one subject, split into ranges with equal accesses; the last range has no end."""

    starts: list[int] = field(default_factory=lambda: [0])
    accesses: list[tuple[ByteAccess, ...]] = field(default_factory=lambda: [()])

    def split(self, at: int) -> int:
        """Split the range that contains byte `at`, and return the index of the range that begins there."""
        i = bisect_right(self.starts, at) - 1
        if self.starts[i] < at:
            i += 1
            self.starts.insert(i, at)
            self.accesses.insert(i, self.accesses[i - 1])
        return i


class RaceDetector:
    """The locks, threads and accesses of a program, which it checks for data races.

    Every thread may use it. A thread that was not created by `thread` counts as concurrent with all others.

    Parameters
    ----------
    events
        Records sections, locks and accesses.

    Attributes
    ----------
    races
        The data races found so far.
    """

    def __init__(self, events: EventLog | None = None) -> None:
        self.races: list[DataRace] = []
        self._events = events
        self._state = threading.Condition()
        self._locks: dict[str, Lock] = {}
        self._bytes: dict[str, _Bytes] = {}
        self._local = threading.local()
        self._threads = 0

    def lock(self, name: str, file: str | os.PathLike[str] | None = None) -> Lock:
        """Return the lock of that name, created at the first call.

        A section takes its locks in the order of their names.

        With a `file`, which is created, the lock excludes every process that names the same file. The system releases
        it when the process ends. Raises ValueError if the name was used with another file.
        """
        with self._state:
            lock = self._locks.setdefault(name, Lock(name, None if file is None else os.fspath(file)))
            if file is not None and lock.file != os.fspath(file):
                raise ValueError(f"the lock {name!r} was created with another file")
            return lock

    @contextmanager
    def hold(self, *locks: Lock, as_reader: bool = False) -> Iterator[None]:
        """Hold locks exclusively, or shared with other readers. A section takes all its locks at once.

        Raises ValueError inside another section or without locks, and `NoAddressSpace` if the file of a lock cannot be
        opened.
        """
        me, taken = self._me(), list[tuple[Lock, int | None]]()
        if me.locks or not locks:
            raise ValueError("expected one call of `hold` with all locks of the section")
        ordered = sorted(set(locks), key=lambda lock: lock.name)
        self._log("lock section", me, locks=[lock.name for lock in ordered], as_reader=as_reader)
        try:
            for lock in ordered:
                taken.append((lock, self._take(me, lock, as_reader)))
            me.locks, me.is_reader = tuple(lock.name for lock in ordered), as_reader
            yield
        finally:
            me.locks = ()
            for lock, descriptor in reversed(taken):
                self._release(me, lock, descriptor)

    def access(self, subject: str, start: int, stop: int, *, is_write: bool) -> None:
        """Record that bytes `start` to `stop` of `subject` are about to be read or written.

        Raises `DataRace` if another thread accesses one of these bytes and nothing orders the two accesses; the race is
        added to `races` as well. O(log n) plus the recorded ranges within these bytes.
        """
        if not 0 <= start <= stop:
            raise ValueError(f"expected 0 <= start <= stop, got bytes {start} to {stop} of {subject}")
        me = self._me()
        held, none = frozenset(me.locks), frozenset[str]()
        owned, shared = (none, held) if me.is_reader else (held, none)
        new = ByteAccess(me.number, me.time, threading.current_thread().name, is_write, owned, shared, _site())
        with self._state:
            of = self._bytes.setdefault(subject, _Bytes())
            ranges = range(of.split(start), of.split(stop))
            for i in ranges:
                for old in of.accesses[i]:
                    if (
                        old.thread != new.thread
                        and (old.is_write or new.is_write)
                        and me.clock.get(old.thread, 0) < old.time
                        and not _are_excluded(old, new)
                    ):
                        end = of.starts[i + 1]
                        race = DataRace(subject, max(start, of.starts[i]), min(stop, end), old, new)
                        self.races.append(race)
                        raise race
            for i in ranges:
                of.accesses[i] = _add_access(of.accesses[i], new, me.clock)
            self._log("access", me, subject=subject, start=start, stop=stop, is_write=is_write)

    def thread(self, target: Callable[..., object], *args: Any, name: str | None = None) -> threading.Thread:
        """Create a thread to start and join.

        Its actions are ordered after its start and before the return of its join.
        """
        return _OrderedThread(self, target, args, name)

    # Threads.

    def _me(self) -> _Thread:
        me: _Thread | None = getattr(self._local, "thread", None)
        return self._register({}) if me is None else me

    def _register(self, clock: dict[int, int]) -> _Thread:
        """Register the current thread; it begins after all that is in `clock`."""
        with self._state:
            self._threads += 1
            self._local.thread = me = _Thread(self._threads, {**clock, self._threads: 1})
        return me

    def _fork_clock(self) -> dict[int, int]:
        """Return the clock that a thread started now begins with, and advance this thread's time."""
        me = self._me()
        before = dict(me.clock)
        me.clock[me.number] += 1
        return before

    def _merge_clock(self, clock: dict[int, int]) -> None:
        mine = self._me().clock
        for number, time in clock.items():
            mine[number] = max(mine.get(number, 0), time)

    # Locks.

    def _take(self, me: _Thread, lock: Lock, as_reader: bool) -> int | None:
        """Acquire the lock in the order of requests within this process.

        Returns the descriptor of its file, or None.
        """
        ticket = object()
        with self._state:
            if lock.file is None:
                self._log("lock asked", me, lock=lock.name)
            lock._queue.append(ticket)
            try:
                while lock._queue[0] is not ticket or lock._has_writer or (lock._holders and not as_reader):
                    self._state.wait()
                if lock.file is None:
                    self._log("lock taken", me, lock=lock.name, as_reader=as_reader)
                lock._holders, lock._has_writer = lock._holders + 1, not as_reader
            finally:
                lock._queue.remove(ticket)
                self._state.notify_all()
        if lock.file is None:
            return None
        descriptor = None
        try:
            descriptor = _file_lock(lock.file, as_reader)
            with self._state:
                self._log("lock taken", me, lock=lock.name, as_reader=as_reader)
        except BaseException:
            self._drop(lock, descriptor)
            raise
        return descriptor

    def _release(self, me: _Thread, lock: Lock, descriptor: int | None) -> None:
        with self._state:
            try:
                self._log("lock released", me, lock=lock.name)
            finally:
                self._drop(lock, descriptor)

    def _drop(self, lock: Lock, descriptor: int | None) -> None:
        with self._state:
            if descriptor is not None:
                os.close(descriptor)
            lock._holders, lock._has_writer = lock._holders - 1, False
            self._state.notify_all()

    def _log(self, event: str, me: _Thread, **fields: Any) -> None:
        if self._events is not None:
            self._events(event, process=os.getpid(), thread=me.number, **fields)


class _OrderedThread(threading.Thread):
    """A thread whose start and join order its actions with those of the other thread."""

    def __init__(
        self, detector: RaceDetector, target: Callable[..., object], args: tuple[Any, ...], name: str | None
    ) -> None:
        super().__init__(name=name)
        self._detector, self._does, self._with = detector, target, args
        self._before: dict[int, int] = {}
        self._after: dict[int, int] = {}

    def start(self) -> None:
        """Start the thread, after everything that the caller has done."""
        self._before = self._detector._fork_clock()
        super().start()

    def run(self) -> None:
        """Run the target."""
        me = self._detector._register(self._before)
        try:
            self._does(*self._with)
        finally:
            self._after = me.clock

    def join(self, timeout: float | None = None) -> None:
        """Join the thread. If it has not ended within the timeout, nothing is ordered."""
        super().join(timeout)
        self._detector._merge_clock(self._after)


def _add_access(accesses: tuple[ByteAccess, ...], new: ByteAccess, clock: dict[int, int]) -> tuple[ByteAccess, ...]:
    """Return the accesses to a byte with a new one, without accesses that another subsumes."""
    for old in accesses:
        if (old.thread, old.time) == (new.thread, new.time) and _subsumes(old, new):
            return accesses
    kept = (old for old in accesses if not (clock.get(old.thread, 0) >= old.time and _subsumes(new, old)))
    return (*kept, new)


def _site() -> str:
    """Return the calling line of code outside of this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and (
        os.path.dirname(frame.f_code.co_filename) == _HERE or frame.f_code.co_filename.endswith("contextlib.py")
    ):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _file_lock(file: str, as_reader: bool) -> int:
    """Wait for the lock of a file, and return the descriptor that holds it."""
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise NoAddressSpace(error.strerror or str(error), str(Path(file))) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH if as_reader else fcntl.LOCK_EX)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
