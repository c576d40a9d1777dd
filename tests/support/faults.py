"""Faults at the system calls of a command: the process is killed there, or the call is refused or done in part.

Linux hands every call that may change a file to this process before it happens (seccomp's user notification). Calls
that concern the folder under test are counted, in the order in which they are made, and a fault is at one of them:

    kill       the process is killed before the call
    torn       half of the bytes are written, then the process is killed
    short      one byte is written, as the system may do at any write; the command must go on
    error      the call fails with EIO, once: a failed fsync, a failed rename
    full       from the call on there is no room; the first write is done in half
    read-only  from the call on nothing can be changed

Work is a function that runs in a fork of this process, so that nothing is imported again. Its descendants are watched
with it. No library is loaded into it, no mount is needed, and no right.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import select
import shutil
import signal
import struct
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import NamedTuple

# Each call that may change a file: its number on x86-64, its kind, and its arguments that name files. A number stands
# for a descriptor, a pair for a folder and a path in it; -1 is the working folder.
CALLS: dict[str, tuple[int, str, tuple[int | tuple[int, int], ...]]] = {
    "write": (1, "write", (0,)), "pwrite64": (18, "write", (0,)), "writev": (20, "write", (0,)),
    "pwritev": (296, "write", (0,)), "pwritev2": (328, "write", (0,)), "sendfile": (40, "copy", (0,)),
    "copy_file_range": (326, "copy", (2,)), "fsync": (74, "sync", (0,)), "fdatasync": (75, "sync", (0,)),
    "msync": (26, "sync", ()), "truncate": (76, "size", ((-1, 0),)), "ftruncate": (77, "size", (0,)),
    "fallocate": (285, "size", (0,)), "open": (2, "open", ((-1, 0),)), "openat": (257, "open", ((0, 1),)),
    "rename": (82, "name", ((-1, 0), (-1, 1))), "renameat": (264, "name", ((0, 1), (2, 3))),
    "renameat2": (316, "name", ((0, 1), (2, 3))), "link": (86, "name", ((-1, 1),)), "linkat": (265, "name", ((2, 3),)),
    "symlink": (88, "name", ((-1, 1),)), "symlinkat": (266, "name", ((1, 2),)), "mkdir": (83, "name", ((-1, 0),)),
    "mkdirat": (258, "name", ((0, 1),)), "unlink": (87, "remove", ((-1, 0),)), "unlinkat": (263, "remove", ((0, 1),)),
    "rmdir": (84, "remove", ((-1, 0),)), "chmod": (90, "mode", ((-1, 0),)), "fchmod": (91, "mode", (0,)),
    "fchmodat": (268, "mode", ((0, 1),)), "fchmodat2": (452, "mode", ((0, 1),)),
}  # fmt: skip
BY_NUMBER = {number: (name, kind, places) for name, (number, kind, places) in CALLS.items()}
CHANGES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
"""Of the ways to open a file, those that may change it."""
CONCERNS = {
    "kill": {"write", "copy", "sync", "size", "open", "name", "remove", "mode"},
    "error": {"write", "copy", "sync", "size", "open", "name", "remove", "mode"},
    "torn": {"write"},
    "short": {"write"},
    "full": {"write", "copy", "size", "open", "name"},
    "read-only": {"write", "copy", "size", "open", "name", "remove", "mode"},
}
"""The kinds of calls at which each fault can be."""
REFUSED = {"error": errno.EIO, "full": errno.ENOSPC, "read-only": errno.EROFS}
LASTING = ("full", "read-only")
"""The faults that last."""

NEW_LISTENER, NOTIFY, ALLOW = 8, 0x7FC00000, 0x7FFF0000
RECEIVE, SEND = 0xC0502100, 0xC0182101
SECCOMP, PIDFD_GETFD, NO_NEW_PRIVILEGES = 317, 438, 38
GO_ON = 1
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Fault:
    """A fault at one of the calls that concern the folder, by its number."""

    kind: str
    at: int

    def __str__(self) -> str:
        return f"{self.kind}-{self.at}"


class Ended(NamedTuple):
    """How the work ended: its exit code or -9, its output, the kinds of its calls, and whether it had the fault."""

    code: int
    output: str
    calls: list[str]
    is_reached: bool


class Left(NamedTuple):
    """A folder after the work, which had this fault, and how it ended."""

    fault: Fault
    folder: Path
    ended: Ended


Work = Callable[[], int]
"""Runs in the folder under test and returns an exit code."""


class _Call(NamedTuple):
    """A call that waits for an answer."""

    number: int
    thread: int
    name: str
    kind: str
    places: tuple[int | tuple[int, int], ...]
    arguments: tuple[int, ...]

    def memory(self, address: int, length: int) -> bytes:
        """Return bytes of the caller."""
        with open(f"/proc/{self.thread}/mem", "rb", buffering=0) as memory:
            return os.pread(memory.fileno(), length, address)

    def text(self, address: int) -> str:
        """Return the path at an address, which ends within its page or the next."""
        found = b""
        while b"\0" not in found and len(found) < 4096:
            at = address + len(found)
            found += self.memory(at, 4096 - at % 4096)
        return os.fsdecode(found.partition(b"\0")[0])

    def concerned(self) -> Iterator[str]:
        """Yield the paths that the call is about."""
        for place in self.places:
            folder = place if isinstance(place, int) else place[0]
            descriptor = -1 if folder < 0 else ctypes.c_int(self.arguments[folder]).value
            link = f"/proc/{self.thread}/" + ("cwd" if descriptor < 0 else f"fd/{descriptor}")
            base = os.readlink(link)
            yield base if isinstance(place, int) else os.path.join(base, self.text(self.arguments[place[1]]))

    def is_about(self, folder: str) -> bool:
        """Whether it may change a file in a folder."""
        if self.kind == "open" and not self.arguments[1 if self.name == "open" else 2] & CHANGES:
            return False
        return not self.places or any(path == folder or path.startswith(f"{folder}/") for path in self.concerned())

    def data(self) -> bytes:
        """Return the bytes that it would write."""
        address, count = self.arguments[1], self.arguments[2]
        if self.name in ("write", "pwrite64"):
            return self.memory(address, count)
        parts = struct.iter_unpack("QQ", self.memory(address, 16 * count))
        return b"".join(self.memory(*part) for part in parts)

    def write(self, data: bytes) -> None:
        """Write in its place."""
        pidfd = os.pidfd_open(_process_of(self.thread))
        descriptor = _libc.syscall(PIDFD_GETFD, pidfd, ctypes.c_int(self.arguments[0]), 0)
        os.close(pidfd)
        try:
            if self.name in ("write", "writev"):
                os.write(descriptor, data)
            else:
                os.pwrite(descriptor, data, self.arguments[3])
        finally:
            os.close(descriptor)


def _process_of(thread: int) -> int:
    for line in Path(f"/proc/{thread}/status").read_text().splitlines():
        if line.startswith("Tgid:"):
            return int(line.split()[1])
    raise ProcessLookupError(thread)


@dataclass
class _Watch:
    """Answers the calls of some work, and counts those that concern a folder."""

    folder: str
    fault: Fault | None
    process: int
    calls: list[str] = field(default_factory=list)
    is_reached: bool = False
    has_been_torn: bool = False

    def answer(self, call: _Call) -> tuple[int, int, int]:
        """Return the value, the error and the flags of the answer."""
        goes_on = 0, 0, GO_ON
        try:
            if not call.is_about(self.folder):
                return goes_on
        except OSError:  # the caller is gone, or the call names no file
            return goes_on
        number = len(self.calls)
        self.calls.append(call.kind)
        fault = self.fault
        if fault is None or call.kind not in CONCERNS[fault.kind]:
            return goes_on
        if not (number >= fault.at if fault.kind in LASTING else number == fault.at):
            return goes_on
        self.is_reached = True
        data = call.data() if call.kind == "write" else b""
        part = 1 if fault.kind == "short" else len(data) // 2
        if part and fault.kind in ("torn", "short", "full") and not self.has_been_torn:
            call.write(data[:part])
            self.has_been_torn = True
            if fault.kind != "torn":
                return part, 0, 0
        if fault.kind in ("kill", "torn"):
            os.kill(self.process, signal.SIGKILL)
            return 0, -errno.EIO, 0
        return (0, -REFUSED[fault.kind], 0) if fault.kind in REFUSED else goes_on


def run(work: Work, folder: Path, fault: Fault | None = None) -> Ended:
    """Run work in a folder with a fault, to its end. Costs milliseconds, and some 30 µs for each call."""
    output = os.memfd_create("output")
    ready, answer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if process == 0:
        _work(work, folder, output, answer)
    os.close(answer)
    listener_there = int.from_bytes(os.read(ready, 4), "little")
    os.close(ready)
    pidfd = os.pidfd_open(process)
    listener = -1
    while listener < 0:  # until the filter is installed
        listener = _libc.syscall(PIDFD_GETFD, pidfd, listener_there, 0)
        if select.select([pidfd], [], [], 0.0005)[0]:
            break
    watch = _Watch(os.path.realpath(folder), fault, process)
    if listener >= 0:
        _serve(listener, pidfd, watch)
        os.close(listener)
    os.close(pidfd)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    with os.fdopen(output, "rb") as file:
        file.seek(0)
        return Ended(code, file.read().decode(errors="replace"), watch.calls, watch.is_reached)


def _serve(listener: int, pidfd: int, watch: _Watch) -> None:
    """Answer calls until the process has ended. A descendant that goes on then has its calls refused."""
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    poll.register(pidfd, select.POLLIN)
    while True:
        found = dict(poll.poll())
        if not found.get(listener, 0) & select.POLLIN:
            return
        given = bytearray(80)
        try:
            fcntl.ioctl(listener, RECEIVE, given)
        except FileNotFoundError:  # who made the call has been killed
            continue
        key, thread, _, number, _, _ = struct.unpack_from("QIIiIQ", given)
        call = _Call(key, thread, *BY_NUMBER[number], struct.unpack_from("6Q", given, 32))
        value, error, flags = watch.answer(call)
        try:
            fcntl.ioctl(listener, SEND, struct.pack("QqiI", key, value, error, flags))
        except FileNotFoundError:
            continue


def _work(work: Work, folder: Path, output: int, answer: int) -> None:
    """Run the work in the fork, and do not return."""
    try:
        os.chdir(folder)
        empty = os.open(os.devnull, os.O_RDONLY)
        os.dup2(empty, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.stdout, sys.stderr = (open(number, "w", closefd=False) for number in (1, 2))  # noqa: SIM115  # till it ends
        free = fcntl.fcntl(empty, fcntl.F_DUPFD, 3)
        os.close(free)  # the listener will have this number
        os.write(answer, free.to_bytes(4, "little"))
        if _listen() != free:
            os._exit(99)
        code = work()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(70)


def _listen() -> int:
    """Install the filter in this process. Return the listener, which its parent takes."""
    steps = [struct.pack("HBBI", 0x20, 0, 0, 0)]  # load the number of the call
    for number in BY_NUMBER:
        steps += [struct.pack("HBBI", 0x15, 0, 1, number), struct.pack("HBBI", 6, 0, 0, NOTIFY)]
    steps.append(struct.pack("HBBI", 6, 0, 0, ALLOW))
    code = ctypes.create_string_buffer(b"".join(steps))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(code)))
    if _libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        return -1
    return int(_libc.syscall(SECCOMP, 1, NEW_LISTENER, ctypes.byref(program)))


def faults_of(calls: Sequence[str], kinds: Sequence[str] = tuple(CONCERNS)) -> list[Fault]:
    """Return each fault that work with these calls can have."""
    return [Fault(kind, at) for kind in kinds for at, call in enumerate(calls) if call in CONCERNS[kind]]


def explore(
    work: Work, root: Path, count: int | None = None, seed: int = 0, kinds: Sequence[str] = tuple(CONCERNS)
) -> Iterator[Left]:
    """Run work with each of its faults, or with `count` of each kind, each in a copy of `root/before`.

    The work is first run without a fault, in a copy that is called `after`.
    """
    shutil.copytree(root / "before", root / "after")
    whole = run(work, root / "after")
    assert whole.code == 0, whole.output
    choose = Random(seed)
    for kind in kinds:
        found = faults_of(whole.calls, [kind])
        for fault in found if count is None else choose.sample(found, min(count, len(found))):
            folder = root / str(fault)
            shutil.copytree(root / "before", folder)
            yield Left(fault, folder, run(work, folder, fault))


def _can_watch() -> bool:
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    try:
        return run(lambda: 0, Path("/"), None).code == 0
    except OSError:
        return False


CAN_WATCH = _can_watch()
"""Whether this system hands calls to another process."""
WHY_NOT = "system calls can be watched on Linux for x86-64 from 5.9 on, if nothing forbids seccomp"
