"""NumPy's files of one array (`.npy`) and of several (`.npz`), read by a bounded reader of our own.

NumPy's reader evaluates the header as Python and asks for the memory that it states; its errors are of many kinds.
Here a header is a map of three keys, in any order and spacing, its size is compared with the bytes that are there
before memory is used, and every fault of a file is `NotAnArray`. spec: RE3.4, RE3.5
"""

from __future__ import annotations

import math
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Callable
from typing import IO, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tmmu.core.reading import open_file, read_file

MAGIC = b"\x93NUMPY"
HEADER_LIMIT = 1 << 16
"""The longest header that is read, in bytes. NumPy itself refuses more than 10,000."""
MAX_DIMS = 64
"""The most dimensions, as in NumPy."""
_TOKEN = re.compile(r"\s*('[^'\\]*'|\"[^\"\\]*\"|[0-9]{1,20}|[A-Za-z]+|[][{}():,])")
_ELEMENTS = re.compile(r"[<>|=]?[biufcV][0-9]{1,3}")
"""Numbers, booleans, and bytes without a type, as other programs write types that NumPy lacks."""


class NotAnArray(ValueError):
    """The bytes are not an array in NumPy's format, or hold fewer or more bytes than its header states."""


class ArrayHeader(NamedTuple):
    """The header of a file: the type of elements, the order, the shape, and the bytes before the first element."""

    dtype: np.dtype[Any]
    is_fortran: bool
    shape: tuple[int, ...]
    start: int

    @property
    def size(self) -> int:
        """The bytes of the elements. Computed exactly: shapes may be hostile."""
        return math.prod(self.shape) * self.dtype.itemsize


def parse_header(head: bytes) -> ArrayHeader:
    """Parse the header in the first bytes of a file; raises `NotAnArray`. O(`HEADER_LIMIT`).

    >>> import io
    >>> np.save(data := io.BytesIO(), np.zeros((2, 3), "<f4"))
    >>> parse_header(data.getvalue())
    ArrayHeader(dtype=dtype('float32'), is_fortran=False, shape=(2, 3), start=128)
    """
    if head[:6] != MAGIC or len(head) < 12:
        raise NotAnArray("it does not begin as a NumPy file")
    version = tuple(head[6:8])
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise NotAnArray(f"version {version[0]}.{version[1]} of the format is unknown")
    begin = 10 if version == (1, 0) else 12
    (length,) = struct.unpack_from("<H" if begin == 10 else "<I", head, 8)
    if length > HEADER_LIMIT or begin + length > len(head):
        raise NotAnArray("its header is cut off, or too long")
    try:
        text = head[begin : begin + length].decode("latin-1" if version < (3, 0) else "utf-8")
        stated = _HeaderParser(text).parse()
    except UnicodeDecodeError as error:
        raise NotAnArray("its header is not text") from error
    if set(stated) != {"descr", "fortran_order", "shape"}:
        raise NotAnArray("its header does not state descr, fortran_order and shape")
    descr, is_fortran, shape = stated["descr"], stated["fortran_order"], stated["shape"]
    if not isinstance(is_fortran, bool) or not isinstance(shape, tuple):
        raise NotAnArray("its header states no order or no shape")
    if not isinstance(descr, str) or _ELEMENTS.fullmatch(descr) is None:
        raise NotAnArray(f"elements of type {str(descr)[:40]!r} are not supported")
    try:
        header = ArrayHeader(np.dtype(descr), is_fortran, shape, begin + length)
    except (TypeError, ValueError) as error:
        raise NotAnArray(f"elements of type {descr!r} do not exist") from error
    try:  # an array without elements may have a shape that NumPy cannot address
        np.broadcast_to(np.empty((), header.dtype), shape)
    except (ValueError, OverflowError) as error:
        raise NotAnArray("NumPy has no array of its shape") from error
    return header


class _HeaderParser:
    """The header's text: a map in Python's notation, of texts, truths and tuples of whole numbers."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text.rstrip(), 0

    def parse(self) -> dict[str, Any]:
        """Return the map. Raises `NotAnArray` for anything else, and for a key that occurs twice."""
        found: dict[str, Any] = {}
        self._expect("{")
        while (token := self._take()) != "}":
            key = token[1:-1] if token[0] in "'\"" else ""
            if not key or key in found:
                raise NotAnArray(f"its header has {token[:40]} in place of a new key")
            self._expect(":")
            found[key] = self._value()
            if (after := self._take()) == "}":
                break
            if after != ",":
                raise NotAnArray(f"its header has {after[:40]} in place of a comma")
        if self._at != len(self._text):
            raise NotAnArray("its header goes on after its end")
        return found

    def _value(self) -> str | bool | tuple[int, ...]:
        token = self._take()
        if token[0] in "'\"":
            return token[1:-1]
        if token in ("True", "False"):
            return token == "True"
        if token == "[":
            raise NotAnArray("elements of several fields are not supported")
        if token != "(":
            raise NotAnArray(f"its header has {token[:40]} in place of a value")
        sizes: list[int] = []
        while (token := self._take()) != ")":
            if not token.isdecimal() or len(sizes) == MAX_DIMS:
                raise NotAnArray(f"its header has {token[:40]} in place of a size")
            sizes.append(int(token))
            if (after := self._take()) == ")":
                if len(sizes) == 1:
                    raise NotAnArray("its header states a number in place of a shape")
                break
            if after != ",":
                raise NotAnArray(f"its header has {after[:40]} in place of a comma")
        return tuple(sizes)

    def _take(self) -> str:
        found = _TOKEN.match(self._text, self._at)
        if found is None:
            raise NotAnArray("its header is not a map of texts, truths and shapes")
        self._at = found.end()
        return found[1]

    def _expect(self, token: str) -> None:
        if (found := self._take()) != token:
            raise NotAnArray(f"its header has {found[:40]} in place of {token}")


def _check_size(header: ArrayHeader, there: int) -> None:
    """Raise `NotAnArray` unless the bytes that are there are those that the header states."""
    if header.start + header.size != there:
        raise NotAnArray(f"its header states {header.size} bytes of elements, and {there - header.start} are there")


def decode_array(data: bytes) -> NDArray[Any]:
    """Return the array that the bytes of a file hold, without a copy; raises `NotAnArray`."""
    header = parse_header(data)
    _check_size(header, len(data))
    flat = np.frombuffer(data, np.uint8, header.size, header.start)
    found = flat.view(header.dtype) if header.dtype.itemsize else np.empty(0, header.dtype)
    return found.reshape(header.shape, order="F" if header.is_fortran else "C")


def map_array(path: str | os.PathLike[str]) -> NDArray[Any]:
    """Map the array in a file for reading. Raises `NotAnArray`, and OSError if it cannot be read."""
    with open_file(path) as file:
        head, there = file.read(HEADER_LIMIT), os.fstat(file.fileno()).st_size
        header = parse_header(head)
        _check_size(header, there)
        if header.size == 0:
            return decode_array(head)
        order: Literal["F", "C"] = "F" if header.is_fortran else "C"
        return np.memmap(file, header.dtype, "r", header.start, header.shape, order)


def load_array(path: str | os.PathLike[str], limit: int) -> NDArray[Any]:
    """Read the array in a file of at most `limit` bytes. Raises `NotAnArray`, and OSError if it cannot be read."""
    return decode_array(read_file(path, limit))


def load_archive(path: str | os.PathLike[str], limit_of: Callable[[str], int]) -> dict[str, NDArray[Any]]:
    """Read the arrays of an `.npz` file by name. Raises `NotAnArray`, and OSError if it cannot be read.

    `limit_of` is asked for the most bytes of elements of an array before the array is read, and may raise an exception
    of its own for a name. Members are stored or deflated, as `numpy.savez` and `numpy.savez_compressed` write them.
    """
    found: dict[str, NDArray[Any]] = {}
    with open_file(path) as file:
        members = _open_archive(file)
        for info in members.infolist():
            name = info.filename.removesuffix(".npy")
            if name in found:
                raise NotAnArray(f"array {name!r} is in it twice")
            limit = limit_of(name) + HEADER_LIMIT
            if info.file_size > limit:
                raise NotAnArray(f"array {name!r} has {info.file_size} bytes, which are more than the expected {limit}")
            data = _read_member(members, info)
            try:
                found[name] = decode_array(data)
            except NotAnArray as error:
                raise NotAnArray(f"array {name!r}: {error}") from error
    return found


ZIP_ERRORS = (
    zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, struct.error, EOFError, ValueError, OverflowError, KeyError,
    IndexError, NotImplementedError, RuntimeError, TypeError, AttributeError, OSError,
)  # fmt: skip
"""What Python's reader of archives raises for bytes that are not one. (RuntimeError: a member is encrypted.)"""


def _open_archive(file: IO[bytes]) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(file)
    except ZIP_ERRORS as error:
        raise NotAnArray(f"it is not an archive ({error})") from error


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Read a member, in memory of the size that the archive states for it, which the caller has bounded."""
    name = info.filename.removesuffix(".npy")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise NotAnArray(f"array {name!r} is compressed by method {info.compress_type}, expected stored or deflated")
    try:
        with archive.open(info) as member:
            data = member.read(info.file_size)
    except ZIP_ERRORS as error:
        raise NotAnArray(f"array {name!r} cannot be read ({error})") from error
    if len(data) != info.file_size:
        raise NotAnArray(f"array {name!r} is cut off")
    return data
