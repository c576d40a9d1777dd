"""Read a file from beginning to end through mapped windows. spec: MN2.5, MN2.6, MN8.3"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from tmmu.mnemosyne.address_space import PAGE
from tmmu.mnemosyne.failures import RegionInUse
from tmmu.mnemosyne.regions import MappedRegion, RegionStore

WINDOW = 1 << 25
"""The bytes of a window, unless one read needs more."""


class MappedFile:
    """The bytes of a file of `size` bytes, straight from the page cache.

    A window is unmapped once no array or view of it is held. If the file was truncated or replaced during the reading,
    the bytes read may be zeros; `check` then raises `RegionLost` at the end.
    """

    def __init__(self, regions: RegionStore, path: str, size: int) -> None:
        self.size = size
        self._regions, self._path = regions, path
        self._start, self._bytes = 0, memoryview(b"")
        self._mapped: list[MappedRegion] = []

    def read(self, offset: int, length: int) -> memoryview:
        """Return `length` bytes from `offset` on, or fewer at the end of the file, without a copy.

        May raise `RegionLost`.
        """
        stop = min(offset + length, self.size)
        if offset >= stop:
            return memoryview(b"")
        if not self._start <= offset <= stop <= self._start + len(self._bytes):
            self._map(offset - offset % PAGE, stop)
        return self._bytes[offset - self._start : stop - self._start]

    def check(self) -> None:
        """Raise `RegionLost` if a file mapped now was truncated or replaced."""
        for region in self._mapped:
            region.check()

    def _map(self, start: int, stop: int) -> None:
        self.check()
        self.release()
        region = self._regions.map(
            self._path, start, min(max(WINDOW, stop - start), self.size - start), access="sequential"
        )
        self._mapped.append(region)
        self._start, self._bytes = start, memoryview(region.view())

    def release(self) -> None:
        """Unmap the windows that no view is held of."""
        self._bytes = memoryview(b"")
        for region in tuple(self._mapped):
            with contextlib.suppress(RegionInUse):
                region.close()
                self._mapped.remove(region)


@contextlib.contextmanager
def open_mapped_file(regions: RegionStore, path: str, descriptor: int) -> Iterator[MappedFile]:
    """Open a `MappedFile` on a descriptor.

    If the file was lost meanwhile, `RegionLost` replaces the error that followed.
    """
    file = MappedFile(regions, path, os.fstat(descriptor).st_size)
    try:
        yield file
    finally:
        try:
            file.check()
        finally:
            file.release()
