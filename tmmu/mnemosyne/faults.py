"""Survive the truncation of a mapped file: the access reads zeros instead of ending the process; the region is lost.

The system answers an access beyond the end of the file with SIGBUS, in the thread and at the instruction of the access.
A handler of Python's `signal` runs later, between two instructions of Python, so that the access would be repeated for
ever. The system calls this handler directly. It marks the region, maps zeros from the page of the access to the end of
the region, and returns: the access is repeated and succeeds. Code that uses the bytes checks the mark afterwards.

The access is synchronous (a loop of NumPy, a copy of bytes), so no lock of the memory allocator is held, and the thread
takes the interpreter's lock as in every callback. Signals that are not caused by an access to a region go to the
handler that was installed before. spec: MN2.5
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from dataclasses import dataclass

from tmmu.mnemosyne.address_space import MAP_FIXED, NOTHING, PAGE, libc, protection
from tmmu.mnemosyne.failures import NoAddressSpace

SA_SIGINFO = 4
SA_NODEFER = 0x40000000


@dataclass(eq=False)
class WatchedRange:
    """Addresses from `begin` to `end` that files are mapped to. `is_lost` is set when an access to them fails."""

    begin: int
    end: int
    is_writable: bool
    is_lost: bool = False


class _Information(ctypes.Structure):
    """The fields of `siginfo_t` that are read. Linux, 64 bits."""

    _fields_ = (
        ("number", ctypes.c_int),
        ("error", ctypes.c_int),
        ("code", ctypes.c_int),
        ("address", ctypes.c_void_p),
    )


class _Action(ctypes.Structure):
    """The C library's `struct sigaction`."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ubyte * 128),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


libc.sigaction.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]

_lock = threading.Lock()
_watched: tuple[WatchedRange, ...] = ()  # replaced as a whole: the handler takes no lock
_previous = _Action()


def watch(watched: WatchedRange) -> None:
    """Mark this range from now on when an access to it fails. Installs the process's handler if needed."""
    global _watched
    with _lock:
        _install()
        _watched = (*(each for each in _watched if each.begin < each.end), watched)


def unwatch(watched: WatchedRange) -> None:
    """Stop watching; nothing may access the range any more. Takes no lock: a region may be collected at any moment."""
    watched.end = watched.begin


def _install() -> None:
    global _previous
    current = _Action()
    libc.sigaction(signal.SIGBUS, None, ctypes.byref(current))
    if current.handler == _ADDRESS:
        return
    ours = _Action(handler=_ADDRESS, flags=SA_SIGINFO | SA_NODEFER)
    _previous = current
    if libc.sigaction(signal.SIGBUS, ctypes.byref(ours), None):
        raise NoAddressSpace(f"sigaction: {os.strerror(ctypes.get_errno())}")


def _on_bus_error(number: int, information: int, context: int | None) -> None:
    """Handle SIGBUS in the thread of the access. It must not raise, or the access would be repeated for ever."""
    found = _Information.from_address(information)
    if found.code > 0:  # by an access, not by another process
        address = found.address or 0
        page = address - address % PAGE
        for watched in _watched:
            if watched.begin <= address < watched.end:
                watched.is_lost = True
                zeros = protection(watched.is_writable), NOTHING | MAP_FIXED, -1, 0
                if libc.mmap(page, watched.end - page, *zeros) == page:
                    return
    libc.sigaction(number, ctypes.byref(_previous), None)
    if found.code <= 0:
        os.kill(os.getpid(), number)


_HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(_on_bus_error)
_ADDRESS = ctypes.cast(_HANDLER, ctypes.c_void_p).value
