"""The bytes of a shared storage that a strided tensor shows: the arithmetic for views of traced graphs.

A framework describes a tensor by its shape, its strides and its first element in a storage. A memory plan has windows:
contiguous ranges of bytes. A tensor that shows every byte of its range once, in any order (a transpose of a dense one,
a slice of rows), is that window. One that skips bytes or shows them twice (a slice of columns, an expansion) spans a
window. spec: T2.5
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tmmu.core.dtypes import BITS
from tmmu.core.errors import TmmuError


class Window(NamedTuple):
    """The bytes from `start` up to, but not including, `end` of a storage; `dense` if each is shown exactly once."""

    start: int
    end: int
    dense: bool

    @property
    def bytes(self) -> int:
        """The number of its bytes."""
        return self.end - self.start


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides, in elements, of a dense tensor whose last dimension varies fastest.

    >>> row_major((2, 3, 4)), row_major(())
    ((12, 4, 1), ())
    """
    strides, step = [], 1
    for dim in reversed(shape):
        strides.append(step)
        step *= max(1, dim)
    return tuple(reversed(strides))


def window(shape: Sequence[int], strides: Sequence[int], offset: int, dtype: str) -> Window:
    """Return the bytes of its storage that a tensor shows or spans.

    Parameters
    ----------
    shape, strides
        The elements along each dimension, and the distance between neighbours in elements of the storage.
    offset
        The element of the storage that is shown first.
    dtype
        A name of `tmmu.core.dtypes`; elements narrower than a byte have no strides in bytes.

    Raises
    ------
    TmmuError
        INVALID_IR_SHAPES for a stride or an offset below zero, strides of another rank, or elements below a byte that
        are not dense from byte 0.

    Notes
    -----
    O(rank log rank). `spec/tmmu.md` T2.5.

    >>> window((3, 4), (4, 1), 0, "float32"), window((4, 3), (1, 4), 0, "float32")
    (Window(start=0, end=48, dense=True), Window(start=0, end=48, dense=True))
    >>> window((3, 2), (4, 1), 2, "float32"), window((8, 3), (0, 1), 0, "float32")
    (Window(start=8, end=48, dense=False), Window(start=0, end=12, dense=False))
    """
    if len(strides) != len(shape) or offset < 0 or any(s < 0 for s in strides) or any(d < 0 for d in shape):
        what = f"shape {tuple(shape)} with strides {tuple(strides)} from element {offset} on shows no bytes"
        raise TmmuError("INVALID_IR_SHAPES", what, fix="make the tensor contiguous before the trace")
    bits = BITS[dtype]
    if 0 in shape:
        return Window(offset * bits // 8, offset * bits // 8, True)
    last = sum((dim - 1) * stride for dim, stride in zip(shape, strides, strict=True))
    dense, step = True, 1
    for stride, dim in sorted((stride, dim) for dim, stride in zip(shape, strides, strict=True) if dim > 1):
        dense &= stride == step
        step *= dim
    if bits < 8 and not (dense and offset == 0):
        what = f"elements of {bits} bits that are not consecutive from byte 0 on"
        raise TmmuError("INVALID_IR_SHAPES", what, fix="make the tensor contiguous before the trace")
    return Window(offset * bits // 8, ((offset + last + 1) * bits + 7) // 8, dense)
