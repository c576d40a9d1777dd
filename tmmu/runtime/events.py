"""The event log of a run, if one is wanted: what happened, line after line, as it happened.

Traces, ledgers and journals are hashed and hold no more than a commit needs. Here is what lies between two commits:
arenas mapped one by one, what was zeroed at which birth, a checkpoint written, synced, renamed. `check-models
--follow` takes the lines through the TLA+ modules of `tla/`. Nothing else reads them. spec: U5.17, U5.18, U5.21
"""

from __future__ import annotations

import fcntl
import os
import stat
from typing import Any

from tmmu.core.errors import TmmuError
from tmmu.core.output import json_text

FORMAT = "tmmu-events"
BLOCK = 1 << 16
OPERATOR = "UML_OS.TMMU.CommitExecution_v1"


class EventLog:
    """Events in memory (`lines`), or a file of a JSON object a line if a `path` is given.

    Each line is handed to the system in one write, so that a process that dies leaves whole lines and at most one
    torn one behind; the next log at the same path drops that and goes on. One log is of one run: what a process does
    with one plan after the other, the processes that go on with it, and those that write it beside each other.

    Raises TMMU_ALLOCATION_FAILURE where the file cannot be written, INVALID_RECORD where there is one that is no log.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = None if path is None else os.fspath(path)
        self.lines: list[str] = []
        if self.path is not None:
            self._drop_torn_line()
        self("start", format=FORMAT)

    def __call__(self, event: str, **fields: Any) -> None:
        """Something has happened."""
        line = json_text({"event": event, **fields}, indent=None)
        if self.path is None:
            self.lines.append(line)
            return
        data = f"{line}\n".encode()
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)  # not while another process drops a torn line
                while data:
                    data = data[os.write(descriptor, data) :]
            finally:
                os.close(descriptor)
        except OSError as error:
            raise _failure(self.path, error) from error

    def _drop_torn_line(self) -> None:
        assert self.path is not None
        tail = b""
        begin = b'{"event": "start", "format": "%s"' % FORMAT.encode()
        try:
            with open(self.path, "rb+") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    return
                fcntl.flock(file, fcntl.LOCK_EX)
                head = file.read(len(begin))
                if not begin.startswith(head):
                    raise TmmuError(
                        "INVALID_RECORD", "there is another file, and no event log, which would be lost",
                        file=self.path, place="the first line", fix="choose another path", operator=OPERATOR,
                    )  # fmt: skip
                end = file.seek(0, os.SEEK_END)
                while end and not tail:
                    first = max(end - BLOCK, 0)
                    file.seek(first)
                    tail = file.read(end - first)
                    tail = tail[: tail.rfind(b"\n") + 1]
                    end = first
                file.truncate(end + len(tail))
        except FileNotFoundError:
            pass
        except OSError as error:
            raise _failure(self.path, error) from error


def _failure(path: str, error: OSError) -> TmmuError:
    return TmmuError(
        "TMMU_ALLOCATION_FAILURE",
        f"the event log cannot be written ({error.strerror})",
        file=path,
        fix="choose a file that you may write to",
        operator=OPERATOR,
        arena="",
        peak_required_bytes=0,
    )
