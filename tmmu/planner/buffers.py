"""Compute offsets for buffers known only by lifetime, size and alignment, such as another compiler's.

This is what `tmmu plan` does for the storages of one arena in the layout `packed`. It serves producers that have a
graph and need only addresses. spec: FP11.1
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from tmmu.core.alignment import align_up
from tmmu.core.vocabulary import UINT64_END
from tmmu.planner.layouts.boxes import Boxes, Packing
from tmmu.planner.layouts.packed import pack
from tmmu.planner.layouts.search import Effort, Search, run_searches


class LiveBuffer(NamedTuple):
    """Bytes that are live from the step `birth` to the step `death`, both included, at a multiple of `alignment`."""

    birth: int
    death: int
    bytes: int
    alignment: int = 1


def pack_buffers(buffers: Sequence[LiveBuffer], effort: int = 0) -> Packing:
    """Return the offset of each buffer in bytes, and the footprint. Buffers live at one step share no byte.

    A buffer of zero bytes gets one byte. `effort` is the number of looks at boxes that a search may spend beyond the
    greedy orders; equal effort gives an equal result. O(n log n + `packed.WORK` + effort). Raises ValueError for a
    lifetime that ends before it begins, a negative size, and an alignment that is not a power of two.

    >>> pack_buffers([LiveBuffer(0, 1, 64), LiveBuffer(1, 2, 32), LiveBuffer(2, 3, 64)])
    Packing(offsets=[0, 64, 0], height=96)
    """
    boxes, aligned = _boxes(buffers), [each.alignment for each in buffers]
    widest = max(aligned, default=1)
    stacked = list(accumulate((align_up(size, widest) for size in boxes.size), initial=0))
    found = pack(boxes, Packing(stacked[:-1], stacked[-1]))
    if effort:
        search = Search(boxes, found, UINT64_END - 1)
        run_searches([search], Effort(effort), lambda: False)
        found = search.best
    return found


def peak_bytes(buffers: Sequence[LiveBuffer]) -> int:
    """Return the most bytes live at one step, counting zero bytes as one. O(n log n). Raises as `pack_buffers`."""
    return _boxes(buffers).peak()


def _boxes(buffers: Sequence[LiveBuffer]) -> Boxes:
    for k, each in enumerate(buffers):
        if not (0 <= each.birth <= each.death and each.bytes >= 0):
            raise ValueError(f"buffer {k}: expected birth <= death and a size of at least 0, got {each}")
        if each.alignment < 1 or each.alignment & (each.alignment - 1):
            raise ValueError(f"buffer {k}: expected an alignment that is a power of two, got {each.alignment}")
    birth, death, size, alignment = ([each[k] for each in buffers] for k in range(4))
    return Boxes(birth, death, [max(1, each) for each in size], alignment, {})
