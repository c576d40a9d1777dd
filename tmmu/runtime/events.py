"""The optional event log of a run: its events, line by line, in their order.

Traces, ledgers and journals are hashed and contain only the data that a commit needs. The event log also contains
events between two commits: single mappings of arenas, zeroing at each birth, and writing, syncing and renaming a
checkpoint. `check-models --follow` checks the lines against the TLA+ modules of `tla/`. Nothing else reads them.
spec: U5.17, U5.18, U5.21
"""

from __future__ import annotations

import fcntl
import os
import stat
from typing import Any

from tmmu.core.errors import TmmuError
from tmmu.core.output import format_json

FORMAT = "tmmu-events"
BLOCK = 1 << 16
OPERATOR = "UML_OS.TMMU.CommitExecution_v1"


class EventLog:
    """Events in memory (`lines`), or, if a `path` is given, in a file with a JSON object on each line.

    Each line is written to the file in one write, so a process that dies leaves whole lines and at most one torn line;
    the next log at the same path drops that line and continues. One log belongs to one run: to everything that a
    process does with one plan after the other, and to the processes that continue the run or write to it concurrently.

    Raises TMMU_ALLOCATION_FAILURE if the file cannot be written, INVALID_RECORD if there is a file that is not a log.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = None if path is None else os.fspath(path)
        self.lines: list[str] = []
        if self.path is not None:
            self._drop_torn_line()
        self("start", format=FORMAT)

    def __call__(self, event: str, **fields: Any) -> None:
        """Log an event. Raises TMMU_ALLOCATION_FAILURE if the file cannot be written."""
        line = format_json({"event": event, **fields}, indent=None)
        if self.path is None:
            self.lines.append(line)
            return
        data = f"{line}\n".encode()
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)  # excludes a process that drops a torn line
                while data:
                    data = data[os.write(descriptor, data) :]
            finally:
                os.close(descriptor)
        except OSError as error:
            raise _make_failure(self.path, error) from error

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
                        "INVALID_RECORD", "the file is not an event log, and its content would be lost",
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
            raise _make_failure(self.path, error) from error


def _make_failure(path: str, error: OSError) -> TmmuError:
    return TmmuError(
        "TMMU_ALLOCATION_FAILURE",
        f"the event log cannot be written ({error.strerror})",
        file=path,
        fix="choose a file that you may write to",
        operator=OPERATOR,
        arena="",
        peak_required_bytes=0,
    )
