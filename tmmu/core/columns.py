"""Columns of a table: read-only NumPy arrays of unsigned integers, and columns of text.

A table is a set of columns of one length. `NONE` marks an absent index. spec: P1.1
"""

from __future__ import annotations

import gc
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass, fields
from itertools import chain, count
from operator import attrgetter
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

U8 = NDArray[np.uint8]
U32 = NDArray[np.uint32]
U64 = NDArray[np.uint64]

Value = TypeVar("Value")

NONE = 0xFFFFFFFF
"""The index that means: no row."""


def build_column(
    values: Iterable[int] | NDArray[Any], dtype: type[np.unsignedinteger[Any]], number: int = -1
) -> NDArray[Any]:
    """Return a read-only column of `values`. `number` is their count if they have no length.

    Raises OverflowError if a value does not fit `dtype`.
    """
    found: NDArray[Any]
    if isinstance(values, np.ndarray):
        found = np.array(values, dtype)
    elif isinstance(values, array):
        wide = np.asarray(values)
        if len(wide) and not 0 <= int(wide.min()) <= int(wide.max()) <= np.iinfo(dtype).max:
            raise OverflowError(f"not all of [{wide.min()}, {wide.max()}] fit {np.dtype(dtype)}")
        found = wide.astype(dtype)
    else:
        found = np.fromiter(values, dtype, len(values) if isinstance(values, Sized) else number)
    found.flags.writeable = False
    return found


def pack_integers(values: Iterable[int] | NDArray[Any], kind: Literal["i", "Q"] = "Q") -> array[int]:
    """Pack integers into an array: eight bytes each ("Q", below 2^64) or four ("i", below 2^31); a list takes up to 40.

    The array reads as a list does, and NumPy uses its bytes without a copy. Raises OverflowError for other values.
    """
    return array(kind, values.astype(kind, copy=False).tobytes() if isinstance(values, np.ndarray) else values)


def find_distinct(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the distinct values in ascending order, and the index at which each is first.

    NumPy's `unique` does the same, and imports all of `numpy.ma`, which takes as long as a small plan's proof.
    """
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    is_first = np.ones(len(values), bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    return ordered[is_first], order[is_first]


def are_among(values: NDArray[Any], others: NDArray[Any]) -> NDArray[np.bool_]:
    """Return for each value whether it is one of the others.

    NumPy's `isin` does the same, and imports `numpy.ma` if the others are far apart. O((values + others) log others).

    >>> are_among(np.array([3, 1, 7]), np.array([7, 3, 3])).tolist()
    [True, False, True]
    """
    if not len(others):
        return np.zeros(len(values), bool)
    ordered = np.sort(others)
    at = np.searchsorted(ordered, values)
    return np.asarray(ordered[np.minimum(at, len(ordered) - 1)] == values)


def attribute_values(rows: Sequence[Any], name: str) -> Iterator[Any]:
    """Yield the attribute `name` of each row."""
    return map(attrgetter(name), rows)


class Attribute(Sequence[Any]):
    """An attribute of each row as a column that takes no additional memory."""

    def __init__(self, rows: Sequence[Any], name: str) -> None:
        self.rows, self.name = rows, name

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: Any) -> Any:
        return getattr(self.rows[row], self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # like a list

    def __iter__(self) -> Iterator[Any]:
        return attribute_values(self.rows, self.name)


def rows_with(rows: Sequence[Any], name: str, absent: Any) -> list[tuple[int, Any]]:
    """Return (row, value) of the rows whose attribute is not `absent`, which are few."""
    values = list(attribute_values(rows, name))
    return [(i, value) for i, value in enumerate(values) if value != absent] if values.count(absent) < len(rows) else []


class Names(Sequence[str]):
    """A column of text, kept as one NUL-joined string of UTF-8 bytes and split at first use."""

    def __init__(self, blob: bytes, count: int) -> None:
        self.blob, self._count, self._list = blob, count, None

    _list: list[str] | None

    @classmethod
    def of(cls, names: Sequence[str]) -> Names:
        """Build the column of `names`. ValueError for a name that contains a NUL."""
        blob = "\0".join(names).encode()
        if blob.count(b"\0") != max(0, len(names) - 1):
            raise ValueError("a name contains a NUL character")
        return cls(blob, len(names))

    def list(self) -> list[str]:
        """Return all names, in row order."""
        if self._list is None:
            self._list = self.blob.decode().split("\0") if self._count else []
        return self._list

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, row: Any) -> Any:
        return self.list()[row]

    def __iter__(self) -> Iterator[str]:
        return iter(self.list())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Names) and (self.blob, self._count) == (other.blob, other._count)

    def __hash__(self) -> int:
        return hash(self.blob)


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of one length. Two tables are equal if all their columns are."""

    def __len__(self) -> int:
        first = getattr(self, fields(self)[0].name)
        return len(first)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(
            bool(np.array_equal(a, b)) if isinstance(a, np.ndarray) else a == b
            for a, b in ((getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        )

    __hash__ = None  # type: ignore[assignment]  # a table compares by content and is never a key


def flatten_rows(rows: Sequence[Sequence[int]], dtype: type[np.unsignedinteger[Any]] = np.uint32) -> tuple[Any, Any]:
    """Convert rows of different lengths to bounds (`len(rows) + 1` of them) and one flat column."""
    bounds = np.zeros(len(rows) + 1, np.uint32)
    np.cumsum(np.fromiter(map(len, rows), np.int64, len(rows)), out=bounds[1:])
    flat = np.fromiter(chain.from_iterable(rows), dtype, int(bounds[-1]))
    for made in (bounds, flat):
        made.flags.writeable = False
    return bounds, flat


@contextmanager
def disable_collector() -> Iterator[None]:
    """Turn the garbage collector off: while rows without cycles are created, it would walk all rows repeatedly."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def number_values(values: Iterable[Value]) -> tuple[list[Value], list[int]]:
    """Return the distinct `values` in order of first appearance, and the position of each value among them."""
    place = defaultdict[Value, int](count().__next__)
    rows = list(map(place.__getitem__, values))
    return list(place), rows
