"""Z3 in a child process that is replaced whenever anything about it is in doubt.

A solver is a large program that may crash, hang or print nonsense; none of that may reach a verdict or this process.
So it is spoken to through pipes with a deadline, and a child that died, raised, printed an error or answered too
late is thrown away with its context. The next evaluation starts a new one, with the same prelude. spec: V4.6
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from proofs.solvers import Answer
from proofs.solvers.z3_child import read_frame, write_frame

CHILD = Path(__file__).with_name("z3_child.py")
START_S = 60.0
"""Seconds that a child may take to import Z3, on a slow disk."""


class Z3:
    """A Z3 child process that is started when first asked and evaluates `prelude` before anything else."""

    def __init__(self, prelude: str = "", command: tuple[str, ...] = (sys.executable, "-P", str(CHILD))) -> None:
        self.prelude, self._command = prelude, command
        self._process: subprocess.Popen[bytes] | None = None
        self._version = ""

    @property
    def version(self) -> str:
        """Z3's name and full version; "" where no child can be started."""
        if not self._version:
            self._start()
        return self._version

    @property
    def pid(self) -> int | None:
        """The child's process id, None where none runs."""
        return self._process.pid if self._process is not None else None

    def evaluate(self, text: str, timeout_s: float) -> Answer:
        """Evaluate SMT-LIB commands; never raises for what the child does. Costs one round trip on a pipe."""
        start = time.perf_counter()
        failure = self._start() if self._process is None else None
        answer, failure = ("", failure) if failure else self._ask(text, timeout_s)
        if failure:
            self.close()
        return Answer(answer, failure, time.perf_counter() - start)

    def close(self) -> None:
        """End the child, if one runs, and wait for it."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):  # what was still buffered for a dead child is lost, rightly
                    pipe.close()  # type: ignore[union-attr]  # both were opened as pipes
            process.wait()

    def __enter__(self) -> Z3:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> str | None:
        """Start a child and let it read the prelude; the reason where that fails."""
        try:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        except OSError as error:
            return f"the solver cannot be started: {error}"
        version, failure = self._ask(None, START_S)
        if failure is None:
            self._version = version
            printed, failure = self._ask(self.prelude, START_S)
            if failure is None and printed:
                failure = f"the solver answers the definitions with {printed[:200]!r}"
        if failure:
            self.close()
        return failure

    def _ask(self, text: str | None, timeout_s: float) -> tuple[str, str | None]:
        """Send a request (None: nothing, the child speaks first) and return what it prints, or why it does not."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        late = threading.Event()

        def give_up() -> None:
            late.set()
            process.kill()

        # Reading and writing block; a child that is killed ends both, which needs nothing of the platform.
        timer = threading.Timer(timeout_s, give_up)
        timer.daemon = True
        timer.start()
        try:
            if text is not None:
                write_frame(process.stdin, text.encode())
            reply = read_frame(process.stdout)
        except OSError:
            reply = None
        finally:
            timer.cancel()
            timer.join()
        if late.is_set():
            return "", f"the solver gave no answer within {timeout_s:g} s"
        if reply is None:
            return "", _death(process)
        return _judge(reply.decode(errors="replace"))


def _judge(reply: str) -> tuple[str, str | None]:
    """What a reply says: Z3 reports some errors as text, and after any of them its context cannot be relied on."""
    kind, text = reply[:1], reply[1:].strip()
    if kind != "=":
        return "", f"the solver raised: {text[:200]}"
    if "(error" in text or "unsupported" in text:
        return "", f"the solver reports {text[:200]}"
    return text, None


def _death(process: subprocess.Popen[bytes]) -> str:
    """How a child ended that sent no frame."""
    try:
        code = process.wait(timeout=1)
    except subprocess.TimeoutExpired:
        return "the solver answers garbage"
    if code >= 0:
        return f"the solver ended with exit code {code}"
    known = {s.value: s.name for s in signal.Signals}
    return f"the solver died of {known.get(-code, f'signal {-code}')}"
