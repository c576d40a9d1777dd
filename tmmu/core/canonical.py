"""The project's one binary encoding: deterministic CBOR, and the two hashes over it (R1).

RFC 8949 deterministic form with text keys only, definite lengths and no floats. The decoder refuses everything that
this encoder would not have written, so that one object has one encoding and every hash one meaning. Columns are RFC
8746 typed arrays (little-endian unsigned integers). spec: R1.1, R1.2, R1.3, R1.4, R1.5, R1.6, R1.7
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, BinaryIO

import cbor2
import numpy as np

from tmmu.core import output, reading
from tmmu.core.errors import TmmuError
from tmmu.core.new_files import NewFile

TYPED_ARRAYS: dict[int, np.dtype[Any]] = {
    64: np.dtype("u1"), 69: np.dtype("<u2"), 70: np.dtype("<u4"), 71: np.dtype("<u8"),
}  # fmt: skip
"""The RFC 8746 tags, and the element type of each."""

_TAG_OF = {dtype: tag for tag, dtype in TYPED_ARRAYS.items()}

# Tags that the decoder would otherwise turn into special objects, found by trying every tag below 65536.
_FOREIGN_TAGS = (
    0, 1, 2, 3, 4, 5, 25, 28, 29, 30, 35, 36, 37, 52, 54, 100, 256, 258, 260, 261, 1004, 43000, 55799,
)  # fmt: skip

MAX_DEPTH = 12
"""The deepest nesting of a file; a plan needs far less."""


class Encoded:
    """A value encoded once, for use as a part of other values.

    >>> encode([Encoded({"a": 1}), Encoded(2)]) == encode([{"a": 1}, 2])
    True
    """

    __slots__ = ("data",)

    def __init__(self, value: Any) -> None:
        self.data = encode(value)


_AS_THEY_ARE = (str, bytes, bool, type(None), Encoded)


def _to_plain(value: Any) -> Any:
    """Convert `value` to the types that the encoder accepts; TypeError for anything else."""
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if isinstance(value, int):  # not a bool, which was handled above
        if not -(1 << 63) <= value < 1 << 64:
            raise OverflowError(f"{value} does not fit 64 bits")
        return int(value)
    if isinstance(value, (list, tuple)):
        return [_to_plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return _typed_array(value)
    if isinstance(value, (dict, Mapping)):
        if not all(isinstance(key, str) for key in value):
            raise TypeError("map keys must be text")
        return {str(key): _to_plain(item) for key, item in value.items()}
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return str(value)  # a StrEnum is written as its text
    if isinstance(value, float):
        raise TypeError("no float is allowed here")
    raise TypeError(f"no canonical encoding for {kind.__name__}")


def _typed_array(column: np.ndarray[Any, Any]) -> cbor2.CBORTag:
    """Convert a column to an RFC 8746 typed array."""
    tag = _TAG_OF.get(column.dtype)
    if tag is None:  # its bytes may have the other order
        column = column.astype(column.dtype.newbyteorder("<"))
        tag = _TAG_OF.get(column.dtype)
    if tag is None or column.ndim != 1:
        raise TypeError(f"no canonical encoding for {column.ndim} dimensions of {column.dtype}")
    # A column that was read from bytes is written from them, without a copy.
    base: Any = column.base
    whole = isinstance(base, bytes) and len(base) == column.nbytes
    return cbor2.CBORTag(tag, base if whole else column.tobytes())


def encode(value: Any) -> bytes:
    """Return the canonical CBOR of maps, lists, text, bytes, integers, booleans, None and unsigned columns.

    Raises TypeError for a float or any other type, OverflowError for an integer beyond 64 bits. O(size).

    >>> encode({"b": 1, "a": [True, None]}).hex()
    'a2616182f5f6616201'
    """
    return cbor2.dumps(_to_plain(value), canonical=True, encoders=_ENCODERS)


def dump(value: Any, stream: IO[bytes]) -> None:
    """Write the canonical CBOR of `value` to `stream`, without a copy of the whole."""
    cbor2.dump(_to_plain(value), stream, canonical=True, encoders=_ENCODERS)


def _put(encoder: Any, value: Encoded) -> None:
    encoder.write(value.data)


_ENCODERS: dict[type, Callable[[Any, Any], Any]] = {Encoded: _put}
"""The encoders beside the built-in ones. To use `default` instead, the library would import `email` and `ipaddress`."""


def _refuse(tag: Any, *_: Any) -> Any:
    raise cbor2.CBORDecodeError(f"tag {getattr(tag, 'tag', tag)} is not allowed")


def _column(tag: Any, *_: Any) -> Any:
    if tag.tag not in TYPED_ARRAYS or not isinstance(tag.value, bytes):
        _refuse(tag)
    dtype = TYPED_ARRAYS[tag.tag]
    if len(tag.value) % dtype.itemsize:
        raise cbor2.CBORDecodeError(f"a typed array of {len(tag.value)} bytes is not a multiple of {dtype.itemsize}")
    return np.frombuffer(tag.value, dtype)


ITEMS_LIMIT = 1_000_000
"""The most data items in a file; a column is one item, so that large plans need few."""


def _check_item_count(data: bytes) -> None:
    """Count the items from their heads, without building any, and stop at the limit: memory stays that of the input.

    Malformed input ends the count; the decoder reports its error.
    """
    if len(data) <= ITEMS_LIMIT:  # an item has at least one byte
        return
    at = count = 0
    while at < len(data):
        count += 1
        if count > ITEMS_LIMIT:
            raise cbor2.CBORDecodeError(f"more than {ITEMS_LIMIT} data items")
        kind, extra = data[at] >> 5, data[at] & 31
        width = 1 << (extra - 24) if 24 <= extra <= 27 else 0
        if extra > 27:
            return
        value = int.from_bytes(data[at + 1 : at + 1 + width], "big") if width else extra
        at += 1 + width + (value if kind in (2, 3) else 0)


def decode(data: bytes, what: str = "file") -> Any:
    """Return the value that `data` encodes if it is exactly what `encode` writes; INVALID_PLAN otherwise.

    Refused are trailing bytes, long or indefinite lengths, unsorted or repeated keys, keys that are not text, floats,
    foreign tags, and nesting beyond `MAX_DEPTH`. Memory is bounded by a small multiple of the input. spec: R1.3, R1.4
    """
    try:
        _check_item_count(data)
        value = cbor2.loads(
            data,
            max_depth=MAX_DEPTH,
            allow_indefinite=False,
            allow_duplicate_keys=False,
            strict_hashable_types=True,
            semantic_decoders=dict.fromkeys(_FOREIGN_TAGS, _refuse),
            tag_hook=_column,
        )
        is_canonical = digest(value) == hashlib.sha256(data).digest()  # without a second copy of a large file
    except Exception as error:  # the decoder raises many kinds; each means the same to the user
        detail = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise TmmuError("INVALID_PLAN", f"not a canonical CBOR {what} ({detail})", fix="write it again") from error
    if not is_canonical:
        again = encode(value)
        at = next((i for i, (a, b) in enumerate(zip(again, data, strict=False)) if a != b), min(len(again), len(data)))
        raise TmmuError(
            "INVALID_PLAN", f"not in canonical form from byte {at} on", fix="encode it deterministically (RFC 8949)"
        )
    return value


def digest(value: Any) -> bytes:
    """Return the object digest: SHA-256 of the canonical CBOR of `value`. spec: R1.6"""
    found = _Sha256()
    with io.BufferedWriter(found, 1 << 20) as stream:
        dump(value, stream)
    return found.digest


def commitment(tag: str, value: Any) -> bytes:
    """Return the commitment hash: SHA-256 of the canonical CBOR of `[tag, value]`. spec: R1.5

    >>> commitment("trace_chain_v1", []).hex()[:16]
    '882b5851e1a6c9de'
    """
    return digest([tag, value])


class _Sha256(io.RawIOBase):
    """A stream that keeps only the hash of the bytes written."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        self._hash.update(data)
        return len(data)

    @property
    def digest(self) -> bytes:
        """The hash of the bytes written so far."""
        return self._hash.digest()


NO_ROOM = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
"""The system's errors for a folder that is writable but has no room."""


def write_atomically(
    path: str | os.PathLike[str], data: bytes | Iterable[bytes], observe: Callable[[str], None] | None = None
) -> None:
    """Write `data` as `open_atomically` does. Large data may be given in pieces, which are written as they come."""
    with open_atomically(path, observe) as file:
        for piece in (data,) if isinstance(data, bytes) else data:
            file.write(piece)


@contextlib.contextmanager
def open_atomically(path: str | os.PathLike[str], observe: Callable[[str], None] | None = None) -> Iterator[BinaryIO]:
    """Open a new file that is synced and renamed over `path` at the end: a crash leaves the old file whole.

    `observe` is called after each of the three stages: "written", "synced", "renamed".

    If `path` is a symbolic link, the link stays and its target is replaced. Raises TMMU_ALLOCATION_FAILURE (1302) if
    the folder cannot be written, or if `path` is a device or folder, and OSError with the name of the file if the disk
    is full. No file is left behind then, nor after another error. Within `output.take_standard_output`,
    `-` is the standard
    output, which is written at the end. spec: C5.4, C5.9, RE4.1, RE5.1
    """
    observe = observe or _silent
    if os.fspath(path) == output.STANDARD and output.is_taken():
        with io.BytesIO() as held:
            yield held
            output.write_bytes(held.getvalue())
        return
    target = Path(os.path.realpath(path))
    if os.path.exists(target) and not target.is_file():
        raise TmmuError(
            "TMMU_ALLOCATION_FAILURE", "the path is not a regular file", file=str(path), fix="choose another name"
        )
    try:
        with contextlib.closing(NewFile(target)) as new:
            with os.fdopen(new.descriptor, "wb") as file:
                yield file
                file.flush()
                observe("written")
                os.fsync(file.fileno())
                observe("synced")
                os.chmod(new.descriptor, 0o666 & ~_umask())
                new.replace()
            new.sync_folder()
        observe("renamed")
    except OSError as error:
        if error.errno in NO_ROOM:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise TmmuError(
            "TMMU_ALLOCATION_FAILURE", f"cannot be written ({error.strerror})", file=str(path),
            fix="choose a folder that exists and that you may write to",
        ) from error  # fmt: skip


def remove(path: str | os.PathLike[str]) -> None:
    """Remove a file or a symbolic link, if it exists. Raises TMMU_ALLOCATION_FAILURE (1302) if it cannot be removed."""
    try:
        os.unlink(path)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        raise TmmuError(
            "TMMU_ALLOCATION_FAILURE", f"cannot be removed ({error.strerror})", file=str(path),
            fix="choose a folder that you may write to",
        ) from error  # fmt: skip


def _silent(what: str) -> None:
    """Observe nothing."""


def _umask() -> int:
    mask = os.umask(0o077)  # files that other threads create meanwhile are open to no other user
    os.umask(mask)
    return mask


def read_bounded(path: str | os.PathLike[str], limit: int, code_id: str = "INVALID_PLAN") -> bytes:
    """Read a regular file of at most `limit` bytes. A larger file or a device is refused before it is read.

    Raises OSError if the file cannot be opened. spec: RE3.1, RE3.2
    """
    try:
        return reading.read_file(path, limit)
    except reading.NotRegular as error:
        raise TmmuError(
            code_id, "the path is not a regular file", file=str(path), fix="copy its content to a file first"
        ) from error
    except reading.TooLarge as error:
        raise TmmuError(code_id, error.what, file=str(path), fix="use a smaller file") from error
