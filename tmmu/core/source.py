"""The file that a reader reads, with bounds on memory, work and depth. A file may be hostile.

A reader takes bytes from a `Source`, counts its work there, and raises the errors that `refuse` returns: one error with
file and place, INVALID_PLAN, exit 4. It refuses what it does not account for.
spec: FP1.15, FP2.1, FP2.2, FP2.3, FP2.4
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from tmmu.core import canonical
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import MAX_BODY_DEPTH

MAX_BYTES = 1 << 28
"""The largest file, or pipe, that is read."""
MAX_ROWS = 1 << 20
"""The most rows of a plan: tensors or buffers, and steps."""
MAX_WORK = 1 << 24
"""The most elementary visits of a reading: some ten seconds, as each runs a few lines of Python."""
NAME_PER_VISIT = 32
"""Characters of a name that count as a visit: names grow with nesting, and are copied."""
MAX_DEPTH = MAX_BODY_DEPTH
"""The deepest nesting of program calls and types."""
NO_DIMS: Mapping[str, int] = MappingProxyType({})
"""No sizes of open dimensions."""
PIPE = "-"
"""The name of standard input on a command line."""


@dataclass
class Source:
    """A file that is read: its bytes, its name in messages, and its path, unless it is a pipe.

    `capacity` is the bytes of the memory if the user gives them; only formats without capacities read it. `dims` are
    the sizes that the user gives to open dimensions. `spent` counts the visits to it and to the files beside it.
    """

    name: str
    data: bytes
    path: Path | None = None
    capacity: int | None = None
    dims: Mapping[str, int] = field(default_factory=dict)
    spent: list[int] = field(default_factory=lambda: [0], repr=False)

    @property
    def work(self) -> int:
        """The visits counted in this file and in those beside it."""
        return self.spent[0]

    @classmethod
    def opened(
        cls, path: str | os.PathLike[str], capacity: int | None = None, dims: Mapping[str, int] = NO_DIMS
    ) -> Source:
        """Open the file at `path`, `-` for standard input.

        Raises OSError, and INVALID_PLAN for more than `MAX_BYTES`.
        """
        name = os.fspath(path)
        if name != PIPE:
            return cls(name, canonical.read_bounded(path, MAX_BYTES), Path(path), capacity, dims)
        return cls(name, _read_pipe(), None, capacity, dims)

    def refuse(
        self, what: str, place: str | None = None, fix: str | None = None, *, construct: str = ""
    ) -> TmmuError:  # fmt: skip
        """Return the error that a reader raises; `place` is `line N`, `byte N`, or the name of an object in it.

        `construct` is the kind of construct that the reader does not know, such as `operation foo`; verdicts on several
        files are counted by it. spec: FP1.18
        """
        error = TmmuError("INVALID_PLAN", what, file=self.name, place=place, fix=fix)
        error.construct = construct
        return error

    def truncated_error(self, what: str, place: str | None = None) -> TmmuError:
        """Return the error for a file that was cut off. spec: FP1.12"""
        return self.refuse(f"the file is not whole: {what}", place, "make it again")

    def count_work(self, visits: int, place: str | None = None) -> None:
        """Count work; raises INVALID_PLAN beyond `MAX_WORK`."""
        self.spent[0] += visits
        if self.work > MAX_WORK:
            raise self.refuse(f"reading it takes more than {MAX_WORK} visits of its parts", place, "use a smaller file")

    def bound(self, rows: int, place: str | None = None) -> None:
        """Raise INVALID_PLAN for a plan of more than `MAX_ROWS` rows."""
        if rows > MAX_ROWS:
            raise self.refuse(f"more than {MAX_ROWS} tensors and steps", place, "use a smaller plan")

    def check_depth(self, depth: int, place: str | None = None) -> None:
        """Raise INVALID_PLAN for nesting deeper than `MAX_DEPTH`."""
        if depth > MAX_DEPTH:
            raise self.refuse(f"it nests deeper than {MAX_DEPTH}", place, "use a flatter program")

    def text(self) -> str:
        """Return the content as UTF-8, without a byte order mark; INVALID_PLAN names the byte if it is not UTF-8."""
        try:
            return self.data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise self.refuse("expected UTF-8", f"byte {error.start}", "save it as UTF-8") from error

    def beside(self, name: str) -> Source:
        """Open a file in the same folder, within the same bounds and counting its visits together; it must exist."""
        if self.path is None:
            raise self.refuse(f"{name} must be in its folder, but it comes from a pipe", None, "name the file itself")
        path = self.path.parent / name
        try:
            return Source(str(path), canonical.read_bounded(path, MAX_BYTES), path, spent=self.spent)
        except OSError as error:
            raise self.refuse(f"{name} is not beside it ({error.strerror})", None, "keep both in one folder") from error


def _read_pipe() -> bytes:
    """Read standard input, at most `MAX_BYTES` of it. spec: RE3.1"""
    if sys.stdin is None:  # the caller closed it
        raise TmmuError("INVALID_PLAN", "the standard input is closed", file=PIPE, fix="name a file, or give a pipe")
    try:
        data = sys.stdin.buffer.read(MAX_BYTES + 1)
    except OSError as error:  # a folder, or a descriptor that is open for writing only
        what = f"the standard input cannot be read ({error.strerror or error})"
        raise TmmuError("INVALID_PLAN", what, file=PIPE, fix="name a file, or give a pipe") from error
    if len(data) > MAX_BYTES:
        raise TmmuError("INVALID_PLAN", f"more than {MAX_BYTES} bytes", file=PIPE, fix="use a smaller file")
    return data
