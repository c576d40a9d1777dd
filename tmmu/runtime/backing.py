"""The bytes behind one arena: a fresh mapping, or a buffer of the caller's. spec: U1.1, U1.3, U1.8, U2.10"""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tmmu.errors import TmmuError
from tmmu.runtime.extents import OPERATOR, Extents
from tmmu.vocabulary import Arena

Bytes = NDArray[np.uint8]

HUGE_PAGE = 1 << 21
"""What the base of an arena with huge pages is aligned to."""


def reserved(extent: Extents, arena: Arena) -> int:
    """The bytes of real memory that an arena takes: what its addresses need, in whole pages of the arena.

    >>> reserved(Extents("a", (0,), (100,), (0,), 100, 128), Arena("a", ()))
    4096
    """
    return -(-extent.size // arena.page_size) * arena.page_size


def _failed(arena: str, size: int, why: str) -> TmmuError:
    return TmmuError(
        "TMMU_ALLOCATION_FAILURE",
        f"{size} bytes cannot be had ({why})",
        place=f"arena {arena!r}",
        fix="free memory, or plan smaller shapes",
        operator=OPERATOR,
        arena=arena,
        peak_required_bytes=size,
    )


def mapped(arena: Arena, size: int, alignment: int, huge_pages: bool) -> Bytes:
    """`size` fresh bytes, all zero, at a multiple of `alignment`. They are unmapped with the last view of them."""
    alignment = max(alignment, HUGE_PAGE if huge_pages else 1)
    slack = max(0, alignment - mmap.PAGESIZE)
    try:
        pages = mmap.mmap(-1, size + slack, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if huge_pages:
            pages.madvise(mmap.MADV_HUGEPAGE)
    except (OSError, OverflowError, ValueError) as error:
        raise _failed(arena.name, size, getattr(error, "strerror", None) or str(error)) from error
    except AttributeError as error:
        raise _failed(arena.name, size, "this system has no huge pages") from error
    content = np.frombuffer(pages, np.uint8)
    first = -content.ctypes.data % alignment
    return content[first : first + size]


def given(extent: Extents, buffer: Any) -> Bytes:
    """A caller's buffer as bytes: writable, contiguous and large enough, or INVALID_ADDRESS."""
    try:
        content = np.frombuffer(buffer, np.uint8) if memoryview(buffer).nbytes else np.empty(0, np.uint8)
        if not content.flags.writeable:
            raise ValueError("it is read-only")
        if len(content) < extent.size:
            raise ValueError(f"it has {len(content)} bytes, {extent.size} are needed")
    except (ValueError, TypeError, BufferError) as error:
        raise TmmuError(
            "INVALID_ADDRESS",
            f"the buffer that was given cannot hold it ({error})",
            place=f"arena {extent.arena!r}",
            fix="give a writable, contiguous buffer as large as the arena's footprint",
            operator=OPERATOR,
            arena=extent.arena,
            offset=0,
        ) from error
    return content[: extent.size]
