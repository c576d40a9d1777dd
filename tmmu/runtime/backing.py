"""The bytes behind arenas: a fresh mapping, or a buffer of the caller's. spec: U1.1, U1.3, U1.8, U2.10"""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tmmu.core.errors import TmmuError
from tmmu.runtime.divided import Mapping
from tmmu.runtime.extents import OPERATOR

Bytes = NDArray[np.uint8]

HUGE_PAGE = 1 << 21
"""What the base of an arena with huge pages is aligned to."""


def _failed(where: Mapping, size: int, why: str) -> TmmuError:
    return TmmuError(
        "TMMU_ALLOCATION_FAILURE",
        f"{size} bytes cannot be had ({why})",
        place=where.place,
        fix="free memory, or plan smaller shapes",
        operator=OPERATOR,
        arena=where.name,
        peak_required_bytes=size,
    )


def mapped(where: Mapping, huge_pages: bool) -> Bytes:
    """Fresh bytes, all zero, in whole pages and aligned. They are unmapped with the last view of them."""
    size, alignment = where.reserved, max(where.alignment, HUGE_PAGE if huge_pages else 1)
    if not size:
        return np.empty(0, np.uint8)
    slack = max(0, alignment - mmap.PAGESIZE)
    try:
        pages = mmap.mmap(-1, size + slack, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if huge_pages:
            pages.madvise(mmap.MADV_HUGEPAGE)
    except (OSError, OverflowError, ValueError) as error:
        raise _failed(where, size, getattr(error, "strerror", None) or str(error)) from error
    except AttributeError as error:
        raise _failed(where, size, "this system has no huge pages") from error
    content = np.frombuffer(pages, np.uint8)
    first = -content.ctypes.data % alignment
    return content[first : first + size]


def given(where: Mapping, buffer: Any) -> Bytes:
    """A caller's buffer as bytes: writable, contiguous and large enough, or INVALID_ADDRESS."""
    try:
        content = np.frombuffer(buffer, np.uint8) if memoryview(buffer).nbytes else np.empty(0, np.uint8)
        if not content.flags.writeable:
            raise ValueError("it is read-only")
        if len(content) < where.size:
            raise ValueError(f"it has {len(content)} bytes, {where.size} are needed")
    except (ValueError, TypeError, BufferError) as error:
        raise TmmuError(
            "INVALID_ADDRESS",
            f"the buffer that was given cannot hold it ({error})",
            place=where.place,
            fix="give a writable, contiguous buffer as large as the footprint",
            operator=OPERATOR,
            arena=where.name,
            offset=0,
        ) from error
    return content[: where.size]
