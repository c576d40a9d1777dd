"""Keep children of solvers for the next solver of their command, as a start (0.2 s) costs more than most proofs.

A command starts its first child before it imports what it works with, so that both take place at once. Therefore this
module imports little.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import sys
from pathlib import Path

from proofs.proving.solvers.child import RESET, write_frame
from tmmu.core import children

CHILD = Path(__file__).with_name("child.py")
LIMIT = 4
"""The maximum number of children that are kept, of some 60 MiB each. A verdict uses three at once."""

_kept: list[tuple[tuple[str, ...], subprocess.Popen[bytes]]] = []
os.register_at_fork(after_in_child=_kept.clear)  # two processes that write to one child would read each other's answers


def command_of(name: str) -> tuple[str, ...]:
    """Return the command that runs the solver `name` ("z3" or "cvc5")."""
    return (sys.executable, "-P", str(CHILD), name)


def start_ahead(name: str) -> None:
    """Start a child of a solver and keep it for the first that needs one, unless one is kept.

    It imports the solver while this process imports its modules and reads a plan, which takes as long. One that cannot
    be started is not kept.
    """
    command = command_of(name)
    if all(kept != command for kept, _ in _kept):
        with contextlib.suppress(OSError):
            _kept.append((command, start(command)))


def start(command: tuple[str, ...]) -> subprocess.Popen[bytes]:
    """Start a child. Raises OSError."""
    return children.start(command, stdin=subprocess.PIPE)


def take(command: tuple[str, ...]) -> subprocess.Popen[bytes] | None:
    """Return a child of this command that was kept, and no longer keep it. Returns None if there is none."""
    for one in _kept:
        if one[0] == command:
            with contextlib.suppress(ValueError):  # another thread took it
                _kept.remove(one)
                return one[1]
    return None


def keep(command: tuple[str, ...], process: subprocess.Popen[bytes]) -> None:
    """Keep a child with a new context, or end it if enough are kept. Costs no round trip."""
    if len(_kept) >= LIMIT:
        end(process)
        return
    try:
        write_frame(process.stdin, RESET)  # type: ignore[arg-type]  # it was opened as a pipe
    except OSError:
        end(process)
    else:
        _kept.append((command, process))


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a child and wait for it."""
    children.release(process)
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(OSError):  # bytes that were still buffered for a dead child may be lost
            pipe.close()  # type: ignore[union-attr]  # both were opened as pipes
    process.wait()


@atexit.register
def end_kept() -> None:
    """End the kept children when this process ends."""
    while _kept:
        end(_kept.pop()[1])
