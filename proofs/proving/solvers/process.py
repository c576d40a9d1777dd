"""Run a solver in a child process that is replaced after any fault.

A solver is a large program that may crash, hang or print nonsense. None of that may reach a verdict or this process.
The two communicate through pipes with a deadline. A child that died, raised, printed an error or answered too late is
discarded with its context, and the next evaluation starts a new one with the same prelude. spec: V4.6, RE2.5

A child that is closed without such a fault starts a new context and is kept for the next solver of its command.
"""

from __future__ import annotations

import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterable
from typing import Self

from proofs.proving.smt.unfold import Scope
from proofs.proving.solvers import END, Answer, kept
from proofs.proving.solvers.child import read_frame, write_frame
from proofs.proving.solvers.kept import command_of
from tmmu.core import children
from tmmu.core.extras import require_package

START_S = 60.0
"""The time limit for a child to import its solver, long enough for a slow disk."""
_OF_THE_PROCESS = re.compile(r"\(\s*set-option\s+(?!:produce-models\s)")
"""Options that outlast a context, such as seeds. A child that has read one is not kept."""


class SolverProcess:
    """A solver's child process. It is started at the first request and evaluates `prelude` before anything else.

    A start may take `start_s` seconds, and within a request no more than the request.
    """

    def __init__(
        self, prelude: str = "", command: tuple[str, ...] = command_of("z3"), *, start_s: float = START_S
    ) -> None:
        self.prelude, self._command, self._start_s = prelude, command, min(start_s, START_S)
        self._process: subprocess.Popen[bytes] | None = None
        self._version = ""
        self._can_be_kept = False

    @property
    def version(self) -> str:
        """The solver's name and full version, or "" if no child can be started."""
        if not self._version:
            self._start(self._start_s)
        return self._version

    @property
    def pid(self) -> int | None:
        """The child's process id, or None if none runs."""
        return self._process.pid if self._process is not None else None

    def evaluate(self, text: str, timeout_s: float) -> Answer:
        """Evaluate SMT-LIB commands. Never raises for a fault of the child. Costs one round trip on a pipe."""
        start = time.perf_counter()
        failure = self._start(min(self._start_s, timeout_s)) if self._process is None else None
        left = max(0.0, timeout_s - (time.perf_counter() - start))
        answer, failure = ("", failure) if failure else self._ask(text, left, timeout_s)
        if failure:
            self.end()
        return Answer(answer, failure, time.perf_counter() - start)

    def close(self) -> None:
        """Keep the child with a new context for the next solver of this command, or end it. Costs no round trip."""
        if self._process is None or not self._can_be_kept:
            self.end()
            return
        process, self._process = self._process, None
        kept.keep(self._command, process)

    def end(self) -> None:
        """End the child, if one runs, and wait for it."""
        process, self._process = self._process, None
        if process is not None:
            kept.end(process)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self, timeout_s: float) -> str | None:
        """Take a kept child or start one, and evaluate the prelude. Return the reason if that fails in this time."""
        end = time.perf_counter() + timeout_s

        def ask(text: str | None) -> tuple[str, str | None]:
            return self._ask(text, max(0.0, end - time.perf_counter()), timeout_s)

        self._process = kept.take(self._command)
        version, failure = ask(None) if self._process is not None else ("", "none is kept")
        if failure is not None:
            self.end()
            try:
                self._process = kept.start(self._command)
            except OSError as error:
                return f"the solver cannot be started: {error}"
            version, failure = ask(None)
        if failure is None:
            self._version, self._can_be_kept = version, True
            printed, failure = ask(self.prelude)
            if printed:
                failure = f"the solver answers the definitions with {printed[:200]!r}"
        if failure:
            self.end()
        return failure

    def _ask(self, text: str | None, left_s: float, timeout_s: float) -> tuple[str, str | None]:
        """Send a request and return the reply, or the reason why there is none in the seconds left of `timeout_s`.

        With None, nothing is sent: the child replies first.
        """
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        late = threading.Event()
        if text is not None and _OF_THE_PROCESS.search(text):
            self._can_be_kept = False

        def give_up() -> None:
            late.set()
            children.release(process)

        # Reading and writing block. Both end when the child is killed, with its own children, which may hold the pipe.
        timer = threading.Timer(left_s, give_up)
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


class Z3(SolverProcess):
    """Z3, the solver that verdicts are made with."""


class CVC5(SolverProcess):
    """cvc5, the second solver: it shares no code with Z3.

    It takes recursive functions as axioms with quantifiers, unfolds them slowly, and fails to find models. Therefore
    definitions are kept here and not sent. Calls in a refutation are unfolded. If some remain, the definitions are sent
    inside the refutation's scope. The vacuity check is outside of that scope, in the same context.
    """

    def __init__(
        self, prelude: str = "", command: tuple[str, ...] = command_of("cvc5"), *, start_s: float = START_S
    ) -> None:
        options = prelude if prelude.startswith("(set-option") else ""
        super().__init__(options, command, start_s=start_s)
        self._definitions = prelude.removeprefix(options)
        self._prepared: tuple[str, Scope] | None = None

    def evaluate(self, text: str, timeout_s: float) -> Answer:
        """Evaluate as Z3 does. A text without refutations is kept for those that follow, and its answer is empty."""
        if not text.startswith("(push)") or not text.endswith(END):
            self._definitions += text
            return Answer("", None, 0.0)
        if self._prepared is None or self._prepared[0] != self._definitions:
            self._prepared = self._definitions, Scope(self._definitions)
        asked = []
        for query in text.removesuffix(END).split(f"{END}(push)"):
            commands = query.removeprefix("(push)").removesuffix("(check-sat)")
            asked.append(f"(push){''.join(self._prepared[1].unfold(commands))}(check-sat){END}")
        return super().evaluate("".join(asked), timeout_s)


SOLVERS: dict[str, type[SolverProcess]] = {"z3": Z3, "cvc5": CVC5}
"""Every solver by its name, which is that of its package too."""

EXTRAS = {"cvc5": "second"}
"""The extras of solvers that are not installed with this package."""


def require_solvers(names: Iterable[str], doing: str) -> None:
    """Raise MISSING_PACKAGE for a solver that is not installed. spec: R5.4"""
    for name in names:
        if name in EXTRAS:
            require_package(name, doing, EXTRAS[name])


def _judge(reply: str) -> tuple[str, str | None]:
    """Return the text of a reply, or the failure.

    Some errors arrive as text. After any error, the context is unreliable.
    """
    kind, text = reply[:1], reply[1:].strip()
    if kind != "=":
        return "", f"the solver raised: {text[:200]}"
    if "(error" in text or "unsupported" in text:
        return "", f"the solver reports {text[:200]}"
    return text, None


def _death(process: subprocess.Popen[bytes]) -> str:
    """Describe how a child ended that sent no frame."""
    try:
        code = process.wait(timeout=1)
    except subprocess.TimeoutExpired:
        return "the solver's answer is not a frame"
    if code >= 0:
        return f"the solver ended with exit code {code}"
    known = {s.value: s.name for s in signal.Signals}
    return f"the solver died of {known.get(-code, f'signal {-code}')}"
