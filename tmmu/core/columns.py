"""Columns of a table: read-only NumPy arrays of unsigned integers, and columns of text.

A table is a set of columns of one length. `NONE` marks an absent index. spec: P1.1
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

U8 = NDArray[np.uint8]
U32 = NDArray[np.uint32]
U64 = NDArray[np.uint64]

Value = TypeVar("Value")

NONE = 0xFFFFFFFF
"""The index that stands for: no such row."""


def column(values: Sequence[int] | NDArray[Any], dtype: type[np.unsignedinteger[Any]]) -> NDArray[Any]:
    """A read-only column of `values`; raises OverflowError where one does not fit `dtype`."""
    array: NDArray[Any]
    array = np.array(values, dtype) if isinstance(values, np.ndarray) else np.fromiter(values, dtype, len(values))
    array.flags.writeable = False
    return array


class Names(Sequence[str]):
    """A column of text, kept as one NUL-joined string of UTF-8 bytes and split when first asked for."""

    def __init__(self, blob: bytes, count: int) -> None:
        self.blob, self._count, self._list = blob, count, None

    _list: list[str] | None

    @classmethod
    def of(cls, names: Sequence[str]) -> Names:
        """The column that holds `names`; a name with a NUL in it is a ValueError."""
        blob = "\0".join(names).encode()
        if blob.count(b"\0") != max(0, len(names) - 1):
            raise ValueError("a name contains a NUL character")
        return cls(blob, len(names))

    def list(self) -> list[str]:
        """All names, in row order."""
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
    """Columns of one length. Equal where every column is."""

    def __len__(self) -> int:
        first = getattr(self, fields(self)[0].name)
        return len(first)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(
            bool(np.array_equal(a, b)) if isinstance(a, np.ndarray) else a == b
            for a, b in ((getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        )

    __hash__ = None  # type: ignore[assignment]  # a table compares by content and is never a key


def ragged(rows: Sequence[Sequence[int]], dtype: type[np.unsignedinteger[Any]] = np.uint32) -> tuple[Any, Any]:
    """Rows of different lengths as bounds (`len(rows) + 1` of them) and one flat column."""
    bounds = np.zeros(len(rows) + 1, np.uint32)
    np.cumsum(np.fromiter(map(len, rows), np.int64, len(rows)), out=bounds[1:])
    flat = np.fromiter(chain.from_iterable(rows), dtype, int(bounds[-1]))
    for made in (bounds, flat):
        made.flags.writeable = False
    return bounds, flat


def index_of(values: Sequence[Value]) -> tuple[list[Value], list[int]]:
    """The distinct `values` in order of first appearance, and the position of each value among them."""
    distinct = list(dict.fromkeys(values))
    place = {value: i for i, value in enumerate(distinct)}
    return distinct, [place[value] for value in values]
