"""Open files for reading: the one place where a path becomes bytes. A file, and what a path names, may be hostile.

Only a regular file is opened: a named pipe would block, a device may never end, and reading it may have effects. The
size is that of the opened file, so that a file that is replaced meanwhile cannot be larger than its bound. A test scans
the tree for any other way to open a file (`tests/unit/test_reading_is_in_one_place.py`). Nothing but the standard
library is imported. spec: RE3.1, RE3.2, RE3.3, RE6.2
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import re
import stat
from collections.abc import Callable
from typing import Any

MAX_NESTING = 32
"""The deepest nesting of JSON and TOML: brackets, and the parts of a dotted key."""
PIECE = 1 << 20
"""The bytes that are read at once of a file that states no size."""
_OPENED = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)


class NotRegular(OSError):
    """A path that is not a regular file: a named pipe, a device, a socket or a folder. `what` says which."""

    def __init__(self, path: str | os.PathLike[str], mode: int) -> None:
        code = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        self.what = "it is a folder" if stat.S_ISDIR(mode) else "it is not a regular file"
        super().__init__(code, self.what, os.fspath(path))


class TooLarge(OSError):
    """A file of more bytes than its reader accepts: its `size`, and `what` says both."""

    def __init__(self, path: str | os.PathLike[str], size: int, limit: int) -> None:
        self.size, self.what = size, f"{size} bytes, more than the limit of {limit}"
        super().__init__(errno.EFBIG, self.what, os.fspath(path))


def open_descriptor(path: str | os.PathLike[str], flags: int = os.O_RDONLY) -> int:
    """Open a regular file and return its descriptor; raises OSError, `NotRegular` for another kind of file.

    Its kind is looked up before it is opened, because opening a pipe already wakes its writer, and again afterwards.
    """
    try:
        _check_kind(path, os.stat(path).st_mode)
        descriptor = os.open(path, flags | _OPENED)
    except ValueError as error:  # a NUL in the name
        raise FileNotFoundError(errno.ENOENT, str(error), os.fspath(path)) from error
    try:
        _check_kind(path, os.fstat(descriptor).st_mode)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check_kind(path: str | os.PathLike[str], mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise NotRegular(path, mode)


def open_file(path: str | os.PathLike[str]) -> io.BufferedReader:
    """Open a regular file for reading, as `open(path, "rb")` does; raises OSError, `NotRegular` for any other."""
    return io.BufferedReader(io.FileIO(open_descriptor(path), "rb"))


def read_file(path: str | os.PathLike[str], limit: int) -> bytes:
    """Read a regular file of at most `limit` bytes; raises OSError, `NotRegular` and `TooLarge`.

    The size that the system states is compared before memory is used. A file of the system (`/proc`) states none.
    """
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit:
            raise TooLarge(path, size, limit)
        if size:
            return file.read(size)
        data = bytearray()
        while piece := file.read(PIECE):
            data += piece
            if len(data) > limit:
                raise TooLarge(path, len(data), limit)
        return bytes(data)


def read_head(path: str | os.PathLike[str], size: int) -> bytes:
    """Read the first `size` bytes of a regular file, or all if it has fewer; raises OSError."""
    with open_file(path) as file:
        return file.read(size)


def digest_file(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a regular file in hexadecimal; raises OSError. O(bytes), in pieces."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def parse_json(data: bytes | str, pairs: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """Parse JSON; raises ValueError also for another encoding, and for nesting beyond `MAX_NESTING`.

    `pairs` makes an object of its pairs, by default a dictionary.

    >>> parse_json(b'{"a": [1]}')
    {'a': [1]}
    """
    text = data if isinstance(data, str) else data.decode("utf-8")
    if text.count("[") + text.count("{") > MAX_NESTING:
        depth = 0
        for found in _JSON_BRACKETS.finditer(text):
            depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(found[0], 0)
            _check_nesting(depth)
    return json.loads(text, object_pairs_hook=pairs)


_JSON_BRACKETS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)
"""A string, or a bracket outside of strings."""


def parse_toml(data: bytes) -> dict[str, Any]:
    """Parse TOML; raises ValueError also for another encoding, and for nesting beyond `MAX_NESTING`.

    The time of Python's parser is quadratic in the parts of a dotted key, and it recurses into brackets; so both are
    counted first.

    >>> parse_toml(b"a.b = 1")
    {'a': {'b': 1}}
    """
    text = data.decode("utf-8")
    depth = dots = 0
    for found in _TOML_TOKENS.finditer(text):
        kind, token = found.lastgroup, found[0]
        if kind == "dot":
            dots += 1
        elif kind == "bracket":
            depth, dots = depth + (1 if token in "[{" else -1), 0
        elif kind == "other":  # the end of a key; a line break ends brackets of a header that is not closed too
            dots = 0
        _check_nesting(depth + dots)
    import tomllib  # most commands read none

    return tomllib.loads(text)


_TOML_TOKENS = re.compile(
    r"""(?P<skipped>\#[^\n]*+|\"{3}(?:[^\\"]|\\.|\"(?!\"\"))*+\"{3}|'{3}.*?'{3}|[ \t]++)"""
    r"""|(?P<part>"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"|'[^'\n]*+'|[A-Za-z0-9_-]++)"""
    r"""|(?P<dot>\.)|(?P<bracket>[\[\]{}])|(?P<other>.)""",
    re.DOTALL,
)  # fmt: skip
"""A comment, text of several lines or blanks; a part of a key, or a value; a dot; a bracket; anything else."""


def _check_nesting(depth: int) -> None:
    if depth > MAX_NESTING:
        raise ValueError(f"it nests deeper than {MAX_NESTING}")
