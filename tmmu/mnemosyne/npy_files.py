"""Vectors in NumPy's files (.npy): read through a mapping, a block at a time, and written in order.

Such a file stores a matrix of bfloat16 as two bytes an element, without a name of the type (`V2`). spec: MN8.3, MN8.6
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from tmmu.core.canonical import open_atomically
from tmmu.core.errors import TmmuError
from tmmu.core.new_files import remove_leftovers
from tmmu.core.npy import HEADER_LIMIT, NotAnArray, parse_header
from tmmu.core.reading import NotRegular, open_descriptor
from tmmu.mnemosyne.failures import InvalidVectors
from tmmu.mnemosyne.mapped_file import MappedFile, open_mapped_file
from tmmu.mnemosyne.regions import RegionStore
from tmmu.mnemosyne.vector_blocks import KINDS

FIX = "save a matrix [vectors, elements] of numbers with numpy.save"


class VectorSource(Protocol):
    """Vectors that are read a block at a time: `count` vectors of `width` elements of type `kind`."""

    name: str
    kind: str
    width: int
    count: int

    def rows(self, start: int, stop: int) -> NDArray[Any]:
        """Return vectors `start` to `stop`; bfloat16 as its bit patterns."""


class ArrayVectors:
    """Vectors in memory, [count, width]."""

    def __init__(self, vectors: NDArray[Any]) -> None:
        if vectors.ndim != 2 or vectors.dtype.name not in KINDS or not vectors.dtype.isnative:
            raise InvalidVectors(
                f"expected 2 dimensions of a supported type, got {vectors.ndim} of {vectors.dtype!r}", "vectors", FIX
            )
        self.name, self.kind, (self.count, self.width) = "vectors", vectors.dtype.name, vectors.shape
        self._vectors = vectors.view(np.uint16) if self.kind == "bfloat16" else vectors

    def rows(self, start: int, stop: int) -> NDArray[Any]:
        """Return vectors `start` to `stop`; see `VectorSource`."""
        return self._vectors[start:stop]


class NpyVectors:
    """Vectors in a mapped file."""

    def __init__(self, name: str, file: MappedFile) -> None:
        self.name, self._file = name, file
        try:
            kind, is_fortran, shape, self._start = parse_header(bytes(file.read(0, HEADER_LIMIT)))
        except NotAnArray as error:
            raise self._refusal(f"it is not a NumPy file of numbers: {error}", FIX) from error
        if len(shape) != 2:
            raise self._refusal(f"expected 2 dimensions, got {len(shape)}", FIX)
        if is_fortran:
            raise self._refusal("it is stored by columns (Fortran order)", "save it in the order C")
        self.kind = "bfloat16" if kind.kind == "V" and kind.itemsize == 2 and not kind.fields else kind.name
        if self.kind not in KINDS or not kind.isnative:
            raise self._refusal(
                f"elements of type {kind!r} are not supported", "convert them to a type of this machine"
            )
        if not shape[1]:
            raise self._refusal(f"expected vectors with elements, got the shape {shape}", FIX)
        self.count, self.width = shape
        self._type = np.dtype("uint16") if self.kind == "bfloat16" else kind
        self._row = self.width * kind.itemsize
        if self._start + self.count * self._row > file.size:
            raise self._refusal("it is cut off", "save it again")
        if (more := file.size - self._start - self.count * self._row) > 0:
            raise self._refusal(f"{more} bytes follow after its vectors", "save the vectors as one array")

    def rows(self, start: int, stop: int) -> NDArray[Any]:
        """Return vectors `start` to `stop` without a copy: the array refers to the mapping. See `VectorSource`."""
        size = (stop - start) * self._row
        content = self._file.read(self._start + start * self._row, size)
        return np.frombuffer(content, self._type).reshape(stop - start, self.width)

    def _refusal(self, what: str, fix: str) -> TmmuError:
        return InvalidVectors(what, "vectors", fix).in_file(self.name)


@contextlib.contextmanager
def open_npy_vectors(path: str, regions: RegionStore) -> Iterator[NpyVectors]:
    """Open the vectors of a file. Raises `InvalidVectors` if it has none, `RegionLost` if it is truncated meanwhile."""
    try:
        descriptor = open_descriptor(path)
    except NotRegular as error:
        raise InvalidVectors(error.what, "vectors", FIX).in_file(path) from None
    except OSError as error:
        raise InvalidVectors(f"it cannot be read ({error.strerror})", "vectors", FIX).in_file(path) from None
    try:
        with open_mapped_file(regions, path, descriptor) as file:
            yield NpyVectors(path, file)
    finally:
        os.close(descriptor)


class NpyWriter:
    """Writes a file of vectors whose number is known only at the end."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._start = 0

    def write(self, first: int, rows: NDArray[Any], kind: str) -> None:
        """Write vectors [k, width] at their place, from number `first` on."""
        if not self._start:
            self._start = len(_header(0, rows.shape[1], kind))
        row = rows.shape[1] * rows.itemsize
        self._file.seek(self._start + first * row)
        self._file.write(np.ascontiguousarray(rows).reshape(-1).view(np.uint8).data)

    def end(self, count: int, width: int | None, kind: str) -> None:
        """Write the header for `count` vectors, and cut off the file after them.

        Without `width` the array has one dimension.
        """
        header = _header(count, width, kind)
        assert self._start in (0, len(header)), "NumPy leaves room in a header for any number of vectors"
        item = 2 if kind == "bfloat16" else np.dtype(kind).itemsize
        self._file.seek(0)
        self._file.write(header)
        self._file.truncate(len(header) + count * (1 if width is None else width) * item)


@contextlib.contextmanager
def open_npy_writer(path: str) -> Iterator[NpyWriter]:
    """Write a new file that replaces the one at `path` at the end; see `open_atomically`.

    What killed processes have left of such files is removed first, as it may be decrypted. spec: RE4.1, RE4.2
    """
    remove_leftovers(Path(os.path.realpath(path)).parent)
    with open_atomically(path) as file:
        yield NpyWriter(file)


def _header(count: int, width: int | None, kind: str) -> bytes:
    text = io.BytesIO()
    descr = "<V2" if kind == "bfloat16" else npy.dtype_to_descr(np.dtype(kind))
    shape = (count,) if width is None else (count, width)
    npy.write_array_header_1_0(text, {"descr": descr, "fortran_order": False, "shape": shape})
    return text.getvalue()
