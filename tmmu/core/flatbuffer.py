"""Read tables of a flatbuffer field by field within the bounds of the file; the formats provide the schemas.

A table begins with the distance to its vtable, which has for each field the distance of its value from the table, 0 if
absent. Strings, vectors and tables are at a distance from the field that refers to them. In a hostile file each
distance may be any number: it is checked before it is followed, and each visit counts. spec: FP2.2, FP2.4
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tmmu.core.source import Source

_VTABLE_HEAD = 4
TABLE_VISITS, NUMBER_VISITS = 31, 3
"""The visits that a table, and a number in a vector, count in addition to the visit itself, for their memory."""
_FORMATS = {"u8": "<B", "i8": "<b", "u16": "<H", "i32": "<i", "u32": "<I", "i64": "<q", "u64": "<Q"}
_TYPES = {name: np.dtype("<" + name[0] + str(int(name[1:]) // 8)) for name in _FORMATS}


class Vector(NamedTuple):
    """The position of the first element of a vector, and the number of elements."""

    at: int
    length: int


@dataclass(frozen=True)
class Flatbuffer:
    """A buffer: the part of the file from `start` on. All positions are in the file."""

    source: Source
    start: int = 0

    def root(self) -> TableAt:
        """Return the root table. Raises INVALID_PLAN with the byte."""
        return self.table(self.follow(self.start))

    def number(self, kind: str, at: int) -> int:
        """Return the integer at a position."""
        form = _FORMATS[kind]
        self.needs(at, struct.calcsize(form))
        found: int = struct.unpack_from(form, self.source.data, at)[0]
        return found

    def follow(self, at: int) -> int:
        """Follow the reference at a position: return the position that it refers to."""
        return at + self.number("u32", at)

    def table(self, at: int) -> TableAt:
        """Return the table at a position."""
        vtable = at - self.number("i32", at)
        size, span = self.number("u16", vtable), self.number("u16", vtable + 2)
        self.needs(vtable, size)
        self.needs(at, span)
        return TableAt(self, at, vtable, (size - _VTABLE_HEAD) // 2)

    def vector(self, at: int, width: int) -> Vector:
        """Return the vector at a position, of elements of `width` bytes; each element counts as a visit."""
        length = self.number("u32", at)
        self.source.count_work(length, f"byte {at}")
        self.needs(at + 4, length * width)
        return Vector(at + 4, length)

    def needs(self, at: int, size: int) -> None:
        """Check that `size` bytes at a position are in the file; counts one visit."""
        self.source.count_work(1)
        if not self.start <= at <= len(self.source.data) - size:
            what = f"expected {size} bytes there, the file has {len(self.source.data)}: it is cut off or damaged"
            raise self.source.refuse(what, f"byte {at}", "make it again")


@dataclass(frozen=True)
class TableAt:
    """A table; `fields` is the number of fields in its vtable. A field is known by its number in the schema, from 0."""

    of: Flatbuffer
    at: int
    vtable: int
    fields: int

    def place(self, field: int) -> int | None:
        """Return the position of a field's value, None if it is absent."""
        if field >= self.fields:
            return None
        distance = self.of.number("u16", self.vtable + _VTABLE_HEAD + 2 * field)
        return self.at + distance if distance else None

    def check_known(self, count: int, place: str) -> None:
        """Refuse a field beyond the first `count`, which are those that the schema has. spec: FP1.15"""
        self.of.source.count_work(self.fields // 8)
        for field in range(count, self.fields):
            if self.place(field) is not None:
                what = f"a table has the field {field}, and the schema that is read has {count}"
                fix, construct = "write the file by a version that is read", f"field {field}"
                raise self.of.source.refuse(what, place, fix, construct=construct)

    def number(self, field: int, kind: str, default: int = 0) -> int:
        """Return an integer, or its default if absent."""
        at = self.place(field)
        return default if at is None else self.of.number(kind, at)

    def table(self, field: int) -> TableAt | None:
        """Return a table, None if absent."""
        at = self.place(field)
        return None if at is None else self.of.table(self.of.follow(at))

    def tables(self, field: int) -> list[TableAt]:
        """Return a vector of tables. Each counts for several visits, since several vectors may be one in the file."""
        found = self._vector(field, 4)
        self.of.source.count_work(TABLE_VISITS * found.length)
        return [self.of.table(self.of.follow(found.at + 4 * k)) for k in range(found.length)]

    def numbers(self, field: int, kind: str) -> list[int]:
        """Return a vector of integers."""
        dtype = _TYPES[kind]
        found = self._vector(field, dtype.itemsize)
        self.of.source.count_work(NUMBER_VISITS * found.length)
        read: Any = np.frombuffer(self.of.source.data, dtype, found.length, found.at) if found.length else ()
        return [int(x) for x in read]

    def text(self, field: int) -> str:
        """Return a string; bytes that are not UTF-8 are shown as escapes."""
        found = self._vector(field, 1)
        return self.of.source.data[found.at : found.at + found.length].decode("utf-8", "backslashreplace")

    def content(self, field: int) -> Vector:
        """Return the place of a vector of bytes."""
        return self._vector(field, 1)

    def _vector(self, field: int, width: int) -> Vector:
        at = self.place(field)
        return Vector(0, 0) if at is None else self.of.vector(self.of.follow(at), width)
