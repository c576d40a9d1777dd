"""Locks whose sections are checked for data races: what the document calls lock sets, and its Inv_3, at run time.

Each access to bytes is recorded with its thread, its line of code and the locks that were held. Two accesses to one
byte race where two threads make them, one of them writes, no lock was held at both (at one of them not as a reader),
and neither came before the other because a thread was started or joined in between. That is asked of every pair,
whenever the two were made: so a race is found in whatever order the threads happened to run. Of the algorithm of Eraser
this keeps the lock sets; its states, by which a thread may initialize bytes without a lock, hide races in some orders,
and a single candidate set for each byte accuses sets of which any two meet, {a, b}, {b, c} and {a, c}. Here starts and
joins order initialization, and sets are compared in pairs.

A section takes all its locks at once, in ascending order, and each lock is given in the order in which it was asked
for: no circle of waiting threads can close. `tla/mnemosyne/WriteLocks.tla` is the model. spec: MN7.2 to MN7.8
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
    """An access to bytes: by which thread, at which time of its, how, under which locks, and where in the code."""

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
    """Two threads access one byte, one of them writes, and nothing keeps the two apart. `first` was made before."""

    def __init__(self, subject: str, start: int, stop: int, first: ByteAccess, second: ByteAccess) -> None:
        self.first, self.second = first, second
        super().__init__(
            "DATA_RACE", f"bytes {start} to {stop} are {first}, and {second}", file=subject,
            fix="hold one lock at both, or join the thread", operator=OPERATOR, first=first.site, second=second.site,
        )  # fmt: skip


def _apart(one: ByteAccess, other: ByteAccess) -> bool:
    """Is there a lock that keeps them apart?"""
    return not one.owned.isdisjoint(other.owned | other.shared) or not one.shared.isdisjoint(other.owned)


def _stands_for(one: ByteAccess, other: ByteAccess) -> bool:
    """Whatever races with `other` races with `one`, which is made at the same time of the thread or after it."""
    return (
        one.is_write >= other.is_write
        and one.owned <= other.owned
        and one.shared <= (other.owned | other.shared)
    )  # fmt: skip


class Lock:
    """A lock of a `RaceDetector`, by its name; with a file it excludes other processes as well."""

    def __init__(self, name: str, file: str | None) -> None:
        self.name, self.file = name, file
        self._queue: deque[object] = deque()
        self._holders = 0
        self._has_writer = False

    def __repr__(self) -> str:
        return f"Lock({self.name!r})"


@dataclass
class _Thread:
    """A thread: its number, what it holds, and of each thread the last time of which all comes before what it does."""

    number: int
    clock: dict[int, int]
    locks: tuple[str, ...] = ()
    is_reader: bool = False

    @property
    def time(self) -> int:
        """Its own time, which begins anew at each thread that it starts."""
        return self.clock[self.number]


@dataclass
class _Bytes:
    """The bytes of one subject in ranges, each with its accesses; the last range has no end."""

    starts: list[int] = field(default_factory=lambda: [0])
    accesses: list[tuple[ByteAccess, ...]] = field(default_factory=lambda: [()])

    def split(self, at: int) -> int:
        """The range that begins at this byte."""
        i = bisect_right(self.starts, at) - 1
        if self.starts[i] < at:
            i += 1
            self.starts.insert(i, at)
            self.accesses.insert(i, self.accesses[i - 1])
        return i


class RaceDetector:
    """Locks, threads and accesses of a program, among which it looks for data races.

    Every thread may use it. Threads that were not made by `thread` are taken for ones that run beside all others.

    Parameters
    ----------
    events
        Records sections, locks and accesses.

    Attributes
    ----------
    races
        What was refused so far.
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
        """The lock of that name; those of a section are taken in the order of their names.

        With a `file`, which is made, it excludes every process that names the same file, until the process has ended.
        """
        with self._state:
            lock = self._locks.setdefault(name, Lock(name, None if file is None else os.fspath(file)))
            if file is not None and lock.file != os.fspath(file):
                raise ValueError(f"the lock {name!r} was made with another file")
            return lock

    @contextmanager
    def holding(self, *locks: Lock, as_reader: bool = False) -> Iterator[None]:
        """Hold locks, together with other readers or alone. All of a section's at once: ValueError inside another one.

        `NoAddressSpace` where the file of a lock cannot be opened.
        """
        me, taken = self._me(), list[tuple[Lock, int | None]]()
        if me.locks or not locks:
            raise ValueError("a section holds locks, and takes all of them at once")
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
        """The bytes from `start` to `stop` of `subject` are about to be read, or written.

        `DataRace` where another thread accesses one of them so that no lock keeps the two apart; it is in `races` as
        well. O(log n) and the ranges of bytes that were distinguished so far within these.
        """
        if not 0 <= start <= stop:
            raise ValueError(f"bytes {start} to {stop} of {subject}")
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
                        and not _apart(old, new)
                    ):
                        end = of.starts[i + 1]
                        race = DataRace(subject, max(start, of.starts[i]), min(stop, end), old, new)
                        self.races.append(race)
                        raise race
            for i in ranges:
                of.accesses[i] = _with(of.accesses[i], new, me.clock)
            self._log("access", me, subject=subject, start=start, stop=stop, is_write=is_write)

    def thread(self, target: Callable[..., object], *args: Any, name: str | None = None) -> threading.Thread:
        """A thread, to be started and joined: what is before its start comes before it, and it before what is after."""
        return _Watched(self, target, args, name)

    # Of threads.

    def _me(self) -> _Thread:
        me: _Thread | None = getattr(self._local, "thread", None)
        return self._began({}) if me is None else me

    def _began(self, clock: dict[int, int]) -> _Thread:
        """This thread begins after all that is in `clock`."""
        with self._state:
            self._threads += 1
            self._local.thread = me = _Thread(self._threads, {**clock, self._threads: 1})
        return me

    def _starts(self) -> dict[int, int]:
        """What is before a thread that this one starts."""
        me = self._me()
        before = dict(me.clock)
        me.clock[me.number] += 1
        return before

    def _joined(self, clock: dict[int, int]) -> None:
        mine = self._me().clock
        for number, time in clock.items():
            mine[number] = max(mine.get(number, 0), time)

    # Of locks.

    def _take(self, me: _Thread, lock: Lock, as_reader: bool) -> int | None:
        """Wait for the lock, first among the threads of this process; the descriptor of its file, if it has one."""
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
            self._give_back(lock, descriptor)
            raise
        return descriptor

    def _release(self, me: _Thread, lock: Lock, descriptor: int | None) -> None:
        with self._state:
            try:
                self._log("lock released", me, lock=lock.name)
            finally:
                self._give_back(lock, descriptor)

    def _give_back(self, lock: Lock, descriptor: int | None) -> None:
        with self._state:
            if descriptor is not None:
                os.close(descriptor)
            lock._holders, lock._has_writer = lock._holders - 1, False
            self._state.notify_all()

    def _log(self, event: str, me: _Thread, **fields: Any) -> None:
        if self._events is not None:
            self._events(event, process=os.getpid(), thread=me.number, **fields)


class _Watched(threading.Thread):
    """A thread whose start and end order what is before and after it."""

    def __init__(
        self, detector: RaceDetector, target: Callable[..., object], args: tuple[Any, ...], name: str | None
    ) -> None:
        super().__init__(name=name)
        self._detector, self._does, self._with = detector, target, args
        self._before: dict[int, int] = {}
        self._after: dict[int, int] = {}

    def start(self) -> None:
        """As of any thread."""
        self._before = self._detector._starts()
        super().start()

    def run(self) -> None:
        """Do what it was made for."""
        me = self._detector._began(self._before)
        try:
            self._does(*self._with)
        finally:
            self._after = me.clock

    def join(self, timeout: float | None = None) -> None:
        """As of any thread; one that has not ended in time orders nothing."""
        super().join(timeout)
        self._detector._joined(self._after)


def _with(accesses: tuple[ByteAccess, ...], new: ByteAccess, clock: dict[int, int]) -> tuple[ByteAccess, ...]:
    """The accesses to a byte and a new one, without those that another stands for."""
    for old in accesses:
        if (old.thread, old.time) == (new.thread, new.time) and _stands_for(old, new):
            return accesses
    kept = (old for old in accesses if not (clock.get(old.thread, 0) >= old.time and _stands_for(new, old)))
    return (*kept, new)


def _site() -> str:
    """The line of code that is outside of this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and (
        os.path.dirname(frame.f_code.co_filename) == _HERE or frame.f_code.co_filename.endswith("contextlib.py")
    ):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _file_lock(file: str, as_reader: bool) -> int:
    """Wait for the lock of a file; its descriptor holds it."""
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
