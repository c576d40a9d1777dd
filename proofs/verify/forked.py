"""A computation in a separate process, beside the work of this one.

The naive checker and the solvers' rows take about the same time, and share only the plan. The process is
forked, so that it has the plan without reading it again; what it works out is sent through a pipe. Where it ends
without an answer, killed or out of memory, this process does the work itself: no answer depends on it. spec: V4.4, V4.6
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import select
import signal
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Generic, Self, TypeVar

from tmmu.core import children

Value = TypeVar("Value")

CAN_FORK = sys.platform == "linux"
"""Elsewhere libraries do not survive a fork, or there is none."""


class Forked(Generic[Value]):
    """What `work` returns, worked out in a forked process where `is_forked`, else at once, in this one.

    `work` must not print, and must return an object that pickle can write. The process ends with the block.
    """

    def __init__(self, work: Callable[[], Value], *, is_forked: bool) -> None:
        self._work, self._found, self._pid, self._pipe = work, list[Value](), 0, -1
        if is_forked and CAN_FORK:
            self._start()
        else:
            self._found.append(work())

    @property
    def is_known(self) -> bool:
        """Whether `result` returns without waiting for the whole work."""
        return bool(self._found) or bool(select.select([self._pipe], [], [], 0)[0])

    def result(self) -> Value:
        """Wait for the work, and return its result or raise its error."""
        if not self._found:
            with contextlib.suppress(Exception), os.fdopen(os.dup(self._pipe), "rb") as answer:
                self._found.append(pickle.loads(answer.read()))  # written by the fork of this very process
            self._end()
        if not self._found:
            self._found.append(self._work())
        return self._found[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()

    def _start(self) -> None:
        self._pipe, answer = os.pipe()
        self._lifeline = children.Lifeline()
        gc.freeze()  # else either collector would walk, and so copy, every page of the plan
        self._pid = os.fork()
        if self._pid:
            self._lifeline.hold()
            os.close(answer)
            return
        try:
            # Who waits for this process's end by a pipe or a connection does not wait for the fork's too.
            kept = sorted((answer, self._lifeline.read))
            for first, end in zip((3, *(k + 1 for k in kept)), (*kept, os.sysconf("SC_OPEN_MAX")), strict=True):
                os.closerange(first, end)
            self._lifeline.depend()
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            gc.disable()
            with os.fdopen(answer, "wb") as stream:
                stream.write(pickle.dumps(self._work()))
            os._exit(0)
        finally:
            os._exit(1)

    def _end(self) -> None:
        """End the process, if one runs, and wait for it."""
        if self._pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._lifeline.release()
            gc.unfreeze()
            os.close(self._pipe)
            self._pid = 0
