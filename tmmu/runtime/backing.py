"""The bytes of arenas: a fresh mapping, or a buffer of the caller. spec: U1.1, U1.3, U1.8, U2.10"""

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
"""The alignment of the base of an arena with huge pages."""


def _make_allocation_failure(where: Mapping, size: int, why: str) -> TmmuError:
    return TmmuError(
        "TMMU_ALLOCATION_FAILURE",
        f"{size} bytes cannot be allocated ({why})",
        place=where.place,
        fix="free memory, or plan smaller shapes",
        operator=OPERATOR,
        arena=where.name,
        peak_required_bytes=size,
    )


def map_bytes(where: Mapping, huge_pages: bool) -> Bytes:
    """Map fresh bytes, all zero, in whole pages and aligned. The last view of them unmaps them.

    Raises TMMU_ALLOCATION_FAILURE if the system does not provide them.
    """
    size, alignment = where.reserved, max(where.alignment, HUGE_PAGE if huge_pages else 1)
    if not size:
        return np.empty(0, np.uint8)
    slack = max(0, alignment - mmap.PAGESIZE)
    try:
        pages = mmap.mmap(-1, size + slack, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if huge_pages:
            pages.madvise(mmap.MADV_HUGEPAGE)
    except (OSError, OverflowError, ValueError) as error:
        raise _make_allocation_failure(where, size, getattr(error, "strerror", None) or str(error)) from error
    except AttributeError as error:
        raise _make_allocation_failure(where, size, "this system has no huge pages") from error
    content = np.frombuffer(pages, np.uint8)
    first = -content.ctypes.data % alignment
    return content[first : first + size]


def view_buffer(where: Mapping, buffer: Any) -> Bytes:
    """Return the buffer of a caller as bytes.

    Raises INVALID_ADDRESS unless it is writable, contiguous and large enough.
    """
    try:
        content = np.frombuffer(buffer, np.uint8) if memoryview(buffer).nbytes else np.empty(0, np.uint8)
        if not content.flags.writeable:
            raise ValueError("it is read-only")
        if len(content) < where.size:
            raise ValueError(f"expected at least {where.size} bytes, got {len(content)}")
    except (ValueError, TypeError, BufferError) as error:
        raise TmmuError(
            "INVALID_ADDRESS",
            f"the given buffer cannot hold it ({error})",
            place=where.place,
            fix="give a writable, contiguous buffer as large as the footprint",
            operator=OPERATOR,
            arena=where.name,
            offset=0,
        ) from error
    return content[: where.size]
