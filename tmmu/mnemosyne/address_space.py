"""Ranges of the address space, by system calls: Python's `mmap` does not offer `MAP_FIXED`.

A range is reserved first (no access, no memory). The reservation is one tile longer than needed and is then cut to
whole tiles. Files are mapped over it. A tile is released by mapping "no access" over it, and nothing inside the range
is ever unmapped, so that no other mapping of the process can be placed there. Linux, 64 bits.
spec: MN1.1, MN1.2, MN2.7, MN2.8
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tmmu.core.alignment import align_up
from tmmu.mnemosyne.failures import NoAddressSpace

TILE = 16384
"""Bytes of a tile: the unit of mapping, release and alignment."""

PAGE = os.sysconf("SC_PAGE_SIZE")

PROT_NONE = 0
MAP_FIXED = 0x10
MAP_NORESERVE = 0x4000
NOTHING = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE

_FAILED = ctypes.c_void_p(-1).value

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]


ADVICE = {"normal": 0, "random": 1, "sequential": 2, "will need": 3}
"""How a range is accessed, as madvise numbers it."""


def protection(is_writable: bool) -> int:
    """Return the protection flags of a mapping that is read, or read and written."""
    return mmap.PROT_READ | (mmap.PROT_WRITE if is_writable else 0)


class AddressSpace:
    """The memory calls of the system.

    Each raises `NoAddressSpace` if the system refuses it. Sizes and addresses in bytes.
    """

    def reserve(self, size: int) -> int:
        """Reserve enough whole tiles for `size` bytes, without access; return their address, a multiple of `TILE`."""
        size = align_up(size, TILE)
        start = self._mmap(None, size + TILE, PROT_NONE, NOTHING, -1, 0)
        base = align_up(start, TILE)
        for begin, end in ((start, base), (base + size, start + size + TILE)):
            if end > begin:
                self.unmap(begin, end - begin)
        return base

    def map_file(self, address: int, size: int, is_writable: bool, descriptor: int, offset: int) -> None:
        """Map bytes of a file over a reserved range, shared with every other mapping of it.

        On failure it stays reserved.
        """
        try:
            found = self._mmap(address, size, protection(is_writable), mmap.MAP_SHARED | MAP_FIXED, descriptor, offset)
        except NoAddressSpace:
            self.blank(address, size)  # the system may have unmapped it before it failed
            raise
        if found != address:
            self.unmap(found, size)
            raise NoAddressSpace(f"expected the mapping at {address:#x}, got {found:#x}")

    def advise(self, address: int, size: int, access: str) -> None:
        """Advise the system how the pages of a range are accessed (`ADVICE`). A system that refuses reads as usual."""
        begin = address - address % PAGE
        libc.madvise(begin, address + size - begin, ADVICE[access])

    def blank(self, address: int, size: int) -> None:
        """Map "no access" over a range: its pages are returned to the system, its addresses stay reserved."""
        self._mmap(address, size, PROT_NONE, NOTHING | MAP_FIXED, -1, 0)

    def unmap(self, address: int, size: int) -> None:
        """Return a range of addresses to the process."""
        if libc.munmap(address, size):
            raise NoAddressSpace(f"munmap: {os.strerror(ctypes.get_errno())}")

    def resident(self, address: int, size: int) -> NDArray[np.bool_]:
        """Return which pages of a mapped range are in memory, [pages].

        If the user may not write the file, all are reported.
        """
        pages = np.zeros(-(-size // PAGE), np.uint8)
        if libc.mincore(address, size, pages.ctypes.data):
            raise NoAddressSpace(f"mincore: {os.strerror(ctypes.get_errno())}")
        return np.asarray(pages & 1, np.bool_)

    def query_mapping(self, address: int, size: int) -> tuple[int, int, int]:
        """Return the part of a range that a file is mapped to: begin, end, and the byte of the file; zeros if none.

        The part ends before the first byte that is not mapped to a file, or not to the next byte of the same file.
        """
        found = (0, 0, 0)
        for begin, end, access, offset, file in _mappings():
            first, last = max(begin, address), min(end, address + align_up(size, PAGE))
            if first < last and file and access.endswith("s"):
                at = offset + first - begin
                if not found[1]:
                    found = (first, last, at)
                elif (first, at) == (found[1], found[2] + found[1] - found[0]):
                    found = (found[0], last, found[2])
        return found

    def is_blank(self, address: int, size: int) -> bool:
        """Return whether the system has all of a range mapped without access."""
        inside = (
            min(end, address + align_up(size, PAGE)) - max(begin, address)
            for begin, end, access, _, _ in _mappings()
            if begin < address + size and address < end and access == "---p"
        )
        return sum(inside) == align_up(size, PAGE)

    def _mmap(self, address: int | None, size: int, access: int, flags: int, descriptor: int, offset: int) -> int:
        found = libc.mmap(address, size, access, flags, descriptor, offset)
        if found in (_FAILED, None):
            raise NoAddressSpace(f"mmap of {size} bytes: {os.strerror(ctypes.get_errno())}")
        return int(found)


def _mappings() -> Iterator[tuple[int, int, str, int, int]]:
    """Yield the mappings of this process: begin, end, access, byte of the file, inode of the file."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        addresses, access, offset, _, file, *_ = line.split(maxsplit=5)
        begin, _, end = addresses.partition("-")
        yield int(begin, 16), int(end, 16), access, int(offset, 16), int(file)


def resident_bytes(ranges: Iterable[tuple[int, int]]) -> int:
    """Return the bytes in memory of the mappings that begin in `ranges` (begin, end), by the system's count."""
    ranges, total, counts = list(ranges), 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first = line.split(maxsplit=1)[0]
        if first == "Rss:":
            total += int(line.split()[1]) * 1024 if counts else 0
        elif not first.endswith(":"):
            start = int(first.partition("-")[0], 16)
            counts = any(begin <= start < end for begin, end in ranges)
    return total
