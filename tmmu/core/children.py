"""Start programs and processes that end when this process ends, however it ends: SIGKILL gives it no time to end them.

A program inherits the read end of a pipe whose write end this process alone holds. When that end closes, Linux kills
the program's process group, in which is what the program has started itself. So the program need not know of any of
this, and cannot take precautions. The end closes too when the program is released, which ends what it has left behind.

Programs are in groups of their own, so that a terminal does not interrupt them; `end_at_interrupt` does.

Only the standard library is imported: the kernel is built before anything is installed.
spec: RE2.1 to RE2.4, RE2.7 to RE2.9
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from tmmu.core import folders

CAN_SIGNAL = sys.platform == "linux"
"""Elsewhere a program that is left ends when it notices that its input is closed."""
LOOK_S = 0.5
"""Seconds between two looks at whether the parent runs, where the system does not report it."""
Stream = int | IO[bytes] | IO[str] | None
Word = str | os.PathLike[str]


class _WriteEnd:
    """A write end that this process holds open. It is closed once: the system gives its number to another one then."""

    def __init__(self, number: int) -> None:
        self._number = number
        _held.add(self)

    def close(self) -> None:
        """Close it, unless that is done."""
        try:
            _held.remove(self)
        except KeyError:
            return
        with contextlib.suppress(OSError):
            os.close(self._number)


_held: set[_WriteEnd] = set()
_groups: weakref.WeakKeyDictionary[subprocess.Popen[bytes], _WriteEnd] = weakref.WeakKeyDictionary()
"""The write end of each program that was not released."""
_is_ending = False


def _let_go() -> None:
    """Close what a forked process has inherited: with it, programs of its parent would outlive the parent."""
    _groups.clear()
    for end in list(_held):
        end.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


def start(
    command: Sequence[Word],
    *,
    stdin: Stream = subprocess.DEVNULL,
    stdout: Stream = subprocess.PIPE,
    stderr: Stream = subprocess.DEVNULL,
    folder: Path | str | None = None,
    environment: Mapping[str, str] | None = None,
    is_leader: bool = False,
) -> subprocess.Popen[bytes]:
    """Start a program that ends with this process. Raises OSError if it cannot be started.

    A name without a folder is searched for as `folders.find_program` does. The program runs in `folder`, by default in
    the current one, with `environment`, by default this process's. It leads a session of its own if `is_leader`, else a
    process group.
    """
    name = os.fspath(command[0])
    found = name if os.path.dirname(name) else folders.find_program(name)
    if found is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    if _is_ending:
        raise InterruptedError(errno.EINTR, "the command is ending")
    line = [found, *(os.fspath(word) for word in command[1:])]
    read, write = os.pipe()
    try:
        process = subprocess.Popen(
            line, stdin=stdin, stdout=stdout, stderr=stderr, cwd=folder, env=environment, pass_fds=(read,),
            start_new_session=is_leader, process_group=None if is_leader else 0,
        )  # fmt: skip
        _kill_at_end(read, -process.pid)
    except BaseException:
        os.close(write)
        raise
    finally:
        os.close(read)
    _groups[process] = end = _WriteEnd(write)
    weakref.finalize(process, end.close)
    if _is_ending:  # it was interrupted since
        release(process)
    return process


def release(process: subprocess.Popen[bytes]) -> None:
    """End a program and what it has started, as far as they still run. It may have been waited for."""
    if process.returncode is None:  # its number cannot be another's yet
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    end = _groups.pop(process, None)
    if end is not None:
        end.close()


def end_at_interrupt() -> None:
    """Let an interrupt from the terminal end all programs at once, and no other be started: threads may wait for them.

    Call it in the main thread of a command. An interrupt that is ignored or handled otherwise stays so.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)


def _interrupt(_number: int, _frame: object) -> None:
    global _is_ending
    _is_ending = True
    for process in list(_groups):
        release(process)
    raise KeyboardInterrupt


def _kill_at_end(read: int, pid: int) -> None:
    """Let the system kill the process `pid`, or the group `-pid`, when the write end of a pipe closes."""
    if not CAN_SIGNAL:
        return
    with contextlib.suppress(OSError):  # the process has ended already
        fcntl.fcntl(read, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(read, fcntl.F_SETOWN, pid)
        fcntl.fcntl(read, fcntl.F_SETFL, fcntl.fcntl(read, fcntl.F_GETFL) | os.O_ASYNC)


def run(
    command: Sequence[Word],
    *,
    timeout: float | None = None,
    stdin: Stream = subprocess.DEVNULL,
    stdout: Stream = subprocess.PIPE,
    stderr: Stream = subprocess.PIPE,
    folder: Path | str | None = None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run a program that ends with this process, and wait for it, at most `timeout` seconds.

    Raises OSError if it cannot be started, and `subprocess.TimeoutExpired`. Afterwards nothing that it started runs.
    """
    with start(command, stdin=stdin, stdout=stdout, stderr=stderr, folder=folder, environment=environment) as process:
        try:
            printed, errors = process.communicate(timeout=timeout)
        finally:
            release(process)
        return subprocess.CompletedProcess(list(command), process.returncode, printed, errors)


class Lifeline:
    """A pipe by which a fork of this process ends when this process ends. Make it before the fork."""

    def __init__(self) -> None:
        self.read, self.write = os.pipe()
        self._end: _WriteEnd | None = None

    def hold(self) -> None:
        """Hold it, in the process that forked."""
        os.close(self.read)
        self._end = _WriteEnd(self.write)

    def release(self) -> None:
        """Let it go, in the process that forked. The fork ends, if it still runs."""
        if self._end is not None:
            self._end.close()

    def depend(self) -> None:
        """End with the other process, in the fork. Descriptors other than `read` may be closed."""
        with contextlib.suppress(OSError):
            os.close(self.write)
        _kill_at_end(self.read, os.getpid())
        if select.select([self.read], [], [], 0)[0]:  # it has ended since the fork
            os._exit(1)


def begin_worker(parent: int, further: bytes = b"") -> None:
    """Prepare a worker of this parent: it ends with it, and ignores an interrupt from the terminal.

    `further` is a pickled function with its arguments, which is called then. Workers begin here because this module
    takes no time to import: one that still imports when its parent ends would stay until it has done.
    """
    end_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if further:
        function, arguments = pickle.loads(further)  # written by the parent
        function(*arguments)


def end_with_parent(parent: int) -> None:
    """End this process when its parent ends, whose number is `parent`: for workers that another package starts."""
    if os.getppid() != parent:
        os._exit(1)
    threading.Thread(target=_watch, args=(parent,), daemon=True, name="parent").start()


def _watch(parent: int) -> None:
    if hasattr(os, "pidfd_open"):
        with contextlib.suppress(OSError):
            descriptor = os.pidfd_open(parent)
            if os.getppid() == parent:
                select.select([descriptor], [], [])
            os._exit(1)
    while os.getppid() == parent:
        time.sleep(LOOK_S)
    os._exit(1)
