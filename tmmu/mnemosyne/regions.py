"""Regions of files in memory, and the store that keeps them within 7/10 of it.

A region is a range of a file mapped to addresses that begin at a multiple of 16384. It is mapped and released by tiles.
Arrays of it (`view`) refer straight to the file; while one is held, its tiles are pinned. Mapped tiles never exceed
7/10 of the memory that this process may use: before they would, the tiles with the least value (`replacement`) are
released, and a request that does not fit beside pinned tiles is refused. If memory has shrunk below what is mapped, the
tiles of least weight are released before anything else is admitted. The models are `tla/mnemosyne/MappedRegions.tla`
and `Eviction.tla`; the event log of a store is validated against them.

One lock guards a store. Arrays are collected at any moment, even in a thread that is inside the store. So their tiles
go to a queue, which is processed under the lock.
spec: MN1.1 to MN1.8, MN2.1 to MN2.9, MN3.3, MN3.5, MN3.6, MN9.1, MN9.3, MN9.4
"""

from __future__ import annotations

import contextlib
import itertools
import operator
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from tmmu.core.reading import NotRegular, open_descriptor
from tmmu.mnemosyne.address_space import PAGE, TILE, AddressSpace, resident_bytes
from tmmu.mnemosyne.failures import MemoryBound, NoAddressSpace, RegionClosed, RegionInUse, RegionLost, RegionRefused
from tmmu.mnemosyne.faults import WatchedRange, unwatch, watch
from tmmu.mnemosyne.locks import RaceDetector
from tmmu.mnemosyne.replacement import ONE, SemanticReplacement
from tmmu.runtime.events import EventLog
from tmmu.runtime.leases import lease_array
from tmmu.runtime.ram import total_ram

MAX_REGION_SIZE = 1 << 30
"""The default size of the largest region in bytes."""

_stores = itertools.count(1)


class TileState(Enum):
    """σ of a tile: not mapped; mapped; mapped with all its pages in memory."""

    UNMAPPED = "Unmapped"
    MAPPED = "Mapped"
    RESIDENT = "Resident"


@dataclass(frozen=True)
class Relief:
    """The tiles that a store released because memory had shrunk.

    `excess` is the number of tiles above the bound. `released` were unmapped; `skipped` would have been, but are
    pinned. `resident_before` and `resident_after` are the measured bytes of the store in memory.
    """

    excess: int
    released: int
    skipped: int
    resident_before: int
    resident_after: int


@dataclass(eq=False)
class _Bytes:
    """Bytes at an address, in NumPy's array interface."""

    address: int
    size: int
    __array_interface__: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.__array_interface__ = {
            "version": 3, "typestr": "|u1", "shape": (self.size,), "data": (self.address, False),
        }  # fmt: skip


class MappedRegion:
    """`size` bytes of a file from byte `offset` on, at the address `base`; created by `RegionStore.map`.

    Tiles are numbered from 0; the last one may be shorter.
    """

    def __init__(self, store: RegionStore, path: Path, offset: int, size: int, is_writable: bool, first: int) -> None:
        self.store, self.path, self.offset, self.size, self.is_writable = store, path, offset, size, is_writable
        self.tiles = -(-size // TILE)
        self.is_closed = False
        self.base = 0
        self._first = first  # the number of its first tile in the store
        self._pins = [0] * self.tiles
        self._weights = [0] * self.tiles
        self._descriptor = -1
        self._access = "normal"
        self._watched = WatchedRange(0, 0, is_writable)
        self._give_back: Callable[[], object] = lambda: None

    def __repr__(self) -> str:
        return f"MappedRegion({str(self.path)!r}, {self.offset}, {self.size}, base={self.base:#x})"

    def view(self, start: int = 0, stop: int | None = None, dtype: DTypeLike = np.uint8) -> Any:
        """Return an array of bytes `start` to `stop` (default: the end), without a copy; writable if the region is.

        This accesses each of its tiles, and maps those that were released. The tiles are pinned until the last array
        derived from it is collected. O(log n) a tile. A detector of races records an access to those bytes: a write if
        the region is writable.

        Raises ValueError for bytes outside of the region or a fraction of an element, `MemoryBound`, `RegionLost` and
        `RegionClosed`.
        """
        return self._array(start, stop, dtype, self.is_writable)

    def _array(self, start: int, stop: int | None, dtype: DTypeLike, is_write: bool) -> Any:
        start, stop = self._range(start, stop)
        kind = np.dtype(dtype)
        if kind.hasobject or not kind.itemsize or (stop - start) % kind.itemsize:
            raise ValueError(f"{stop - start} bytes are not a whole number of elements of {kind}")
        self._record_access(start, stop, is_write)
        self.store._pin(self, start, stop)
        if self._access == "random" and start < stop:
            self.store.space.advise(self.base + start, stop - start, "will need")
        tiles = _tiles(start, stop)
        array = lease_array(
            _Bytes(self.base + start, stop - start),
            partial(self.store._ended.append, (self, tiles)),
            not is_write,
        )
        return array.view(kind)

    def _range(self, start: int, stop: int | None) -> tuple[int, int]:
        start, stop = operator.index(start), self.size if stop is None else operator.index(stop)
        if not 0 <= start <= stop <= self.size:
            raise ValueError(f"bytes {start} to {stop} were requested of {self.path}, {self.size} are mapped")
        return start, stop

    def _record_access(self, start: int, stop: int, is_write: bool) -> None:
        if self.store.races is not None:
            self.store.races.access(str(self.path), self.offset + start, self.offset + stop, is_write=is_write)

    def reading(
        self, start: int = 0, stop: int | None = None, dtype: DTypeLike = np.uint8, unchanged: bool = False
    ) -> AbstractContextManager[Any]:
        """Provide a read-only `view`, and raise `RegionLost` at the end of the `with` if the file is no longer there.

        A lost file reads as zeros, so results count only if the `with` ends without an error. With `unchanged`, for a
        file that no process may write, it is also an error if the file was written. Only this check detects a file that
        was truncated and extended again. A detector of races records an access at the beginning and one at the end.
        """
        return self._during(start, stop, dtype, False, unchanged)

    def write_checked(
        self, start: int = 0, stop: int | None = None, dtype: DTypeLike = np.uint8
    ) -> AbstractContextManager[Any]:
        """Provide a writable `view` with the checks of `reading`. Raises ValueError if the region is not writable."""
        if not self.is_writable:
            raise ValueError(f"{self.path} was not mapped for writing")
        return self._during(start, stop, dtype, True, False)

    @contextmanager
    def _during(self, start: int, stop: int | None, dtype: DTypeLike, is_write: bool, unchanged: bool) -> Iterator[Any]:
        array = self._array(start, stop, dtype, is_write)
        before = os.fstat(self._descriptor)
        try:
            yield array
        finally:
            del array
        self._record_access(*self._range(start, stop), is_write)
        self.check()
        after = os.fstat(self._descriptor)
        if unchanged and (before.st_ctime_ns, before.st_size) != (after.st_ctime_ns, after.st_size):
            raise RegionLost("the file was written while it was read", str(self.path))

    def check(self) -> None:
        """Raise `RegionLost` if the file is gone, replaced or too short, and `RegionClosed` if the region is closed."""
        with self.store._exclusive():
            self.store._check(self)

    def states(self) -> list[TileState]:
        """Return σ of each tile, as the system answers now."""
        with self.store._exclusive():
            self.store._check(self)
            return [self._state(tile) for tile in range(self.tiles)]

    def attend(self, weights: Iterable[int], first: int = 0) -> None:
        """Set the weights of the tiles from `first` on, 0 to 2^16 (`replacement.tile_weights`).

        They outlast a release.
        """
        given = [operator.index(weight) for weight in weights]
        if not 0 <= first <= first + len(given) <= self.tiles or not all(0 <= weight <= ONE for weight in given):
            raise ValueError(
                f"expected weights of 0 to {ONE} for {self.tiles} tiles, got {len(given)} from tile {first} on"
            )
        with self.store._exclusive():
            self.store._check(self)
            self._weights[first : first + len(given)] = given
            for tile, weight in enumerate(given, self._first + first):
                if tile in self.store._replacement:
                    self.store._replacement.attend(tile, weight)
                self.store._log("tile attended", tile=tile, weight=weight)

    @property
    def pinned_tiles(self) -> int:
        """The number of tiles that arrays are held of."""
        with self.store._exclusive():
            return self._count_pinned()

    def close(self) -> None:
        """Unmap the region. Raises `RegionInUse` while arrays of it are held; a second call does nothing."""
        with self.store._exclusive():
            self.store._close(self)

    # Under the lock of the store.

    def _count_pinned(self) -> int:
        return sum(count > 0 for count in self._pins)

    def _place(self, tile: int) -> tuple[int, int]:
        """Return the address and size of a tile."""
        return self.base + tile * TILE, min(TILE, self.size - tile * TILE)

    def _state(self, tile: int) -> TileState:
        if self._first + tile not in self.store._replacement:
            return TileState.UNMAPPED
        is_resident = bool(self.store.space.resident(*self._place(tile)).all())
        return TileState.RESIDENT if is_resident else TileState.MAPPED


class RegionStore:
    """The regions of a process that share a bound.

    Parameters
    ----------
    memory
        Returns the bytes of memory; called at each admission, since a limit may be lowered.
    max_region_size
        The bytes of the largest region.
    replacement
        Chooses the tiles to evict.
    space
        The calls of the system.
    events
        Log of the actions, with the mappings that the system then reports. Several stores and processes may share
        a log. It costs two reads of `/proc/self/maps` for each tile that is mapped or released.
    races
        Detects data races among the accesses to the regions' bytes.
    """

    def __init__(
        self,
        memory: Callable[[], int] = total_ram,
        max_region_size: int = MAX_REGION_SIZE,
        replacement: SemanticReplacement | None = None,
        space: AddressSpace | None = None,
        events: EventLog | None = None,
        races: RaceDetector | None = None,
    ) -> None:
        if sys.platform != "linux" or TILE % PAGE:
            raise NoAddressSpace(f"regions need Linux, and a page size that divides {TILE} bytes, got {PAGE}")
        self.space = space or AddressSpace()
        self.max_region_size = operator.index(max_region_size)
        self.races = races
        self.is_closed = False
        self.evicted = 0
        """The number of tiles released so far to make room."""
        self.reliefs: list[Relief] = []
        """The releases made because memory had shrunk."""
        self._memory = memory
        self._replacement = SemanticReplacement() if replacement is None else replacement
        self._regions: list[MappedRegion] = []
        self._of_tile: dict[int, MappedRegion] = {}  # the mapped tiles
        self._next = 0
        self._lock = threading.Lock()
        self._ended: deque[tuple[MappedRegion, range]] = deque()
        self._events = events
        if events is not None:
            self._label, self._seen = f"{os.getpid()}.{next(_stores)}", memory()
            self._log(
                "store made", tile=TILE, page=PAGE, max_region=self.max_region_size, memory=self._seen,
                factor=self._replacement.factor.as_integer_ratio(),
            )  # fmt: skip

    @property
    def bound(self) -> int:
        """The bytes that may be mapped: whole tiles within 7/10 of memory as it is now."""
        return _room(self._memory()) * TILE

    @property
    def mapped_bytes(self) -> int:
        """The document's working set: the bytes of all mapped tiles."""
        with self._exclusive():
            return len(self._replacement) * TILE

    @property
    def regions(self) -> tuple[MappedRegion, ...]:
        """The open regions, the oldest first."""
        with self._exclusive():
            return tuple(self._regions)

    def map(
        self,
        path: str | os.PathLike[str],
        offset: int = 0,
        size: int | None = None,
        is_writable: bool = False,
        access: str = "normal",
    ) -> MappedRegion:
        """Map `size` bytes of a file from byte `offset` on (default: to its end), shared with other processes.

        The file is opened read-only unless the region is writable. `access` is `random` if parts are read in no order:
        the disk then reads the pages of each array at once, and no others; `sequential` if they are read in their
        order: it reads more of them ahead; or `normal`.  spec: MN2.10

        Raises ValueError for another access; `RegionRefused` for an offset that is not a multiple of the page, for
        bytes that the file does not have, for no bytes or more than `max_region_size`, and if the path is not a regular
        file; `MemoryBound`; `NoAddressSpace` if the system refuses. Then no region is created, but tiles may have been
        released.
        """
        file, offset = Path(os.path.abspath(path)), operator.index(offset)
        if access not in ("normal", "random", "sequential"):
            raise ValueError(f"expected normal, random or sequential access, got {access!r}")
        with contextlib.ExitStack() as undo, self._exclusive():
            if self.is_closed:
                raise RegionClosed(str(file))
            descriptor = _open(file, is_writable)
            undo.callback(os.close, descriptor)
            there = os.fstat(descriptor).st_size
            size = there - offset if size is None else operator.index(size)
            self._check_request(str(file), offset, size, there)
            region = MappedRegion(self, file, offset, size, is_writable, self._next)
            region._descriptor, region._access = descriptor, access
            self._admit(region, range(region.tiles))
            undo.callback(self._log, "tiles failed")
            region.base = self.space.reserve(size)
            undo.callback(self.space.unmap, region.base, region.tiles * TILE)
            region._watched = WatchedRange(region.base, region.base + region.tiles * TILE, is_writable)
            watch(region._watched)
            undo.callback(unwatch, region._watched)
            self._map_file(region, region.base, size, offset)
            if region.base % TILE:
                raise NoAddressSpace(f"expected a region at a multiple of {TILE}, got {region.base:#x}", str(file))
            for tile in range(region.tiles):
                self._enter_tile(region, tile)
            self._next += region.tiles
            self._regions.append(region)
            region._give_back = _register_release(region)
            undo.pop_all()
            begin, end, found = self._query_mapping(region.base, size)
            self._log(
                "region mapped", first=region._first, size=size, asked=offset, begin=begin, end=end, offset=found,
                mapped=len(self._replacement), clock=self._replacement.clock,
            )  # fmt: skip
            return region

    def relieve(self) -> Relief | None:
        """Release the tiles of least weight if memory has shrunk below what is mapped; returns None if it has not."""
        with self._exclusive():
            return self._relieve(self._read_memory())

    def close(self) -> None:
        """Close all regions, or none: raises `RegionInUse` while arrays of one are held."""
        with self._exclusive():
            for region in self._regions:
                self._check_unused(region)
            for region in tuple(self._regions):
                self._close(region)
            if not self.is_closed:
                self._log("store closed", mapped=len(self._replacement))
            self.is_closed = True

    def __enter__(self) -> RegionStore:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        if kind is None:
            self.close()

    # These are called under the lock, except for those that take it.

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Take the lock, and first unpin the tiles of arrays that have been collected."""
        with self._lock:
            while self._ended:
                region, tiles = self._ended.popleft()
                self._unpin(region, tiles)
            yield

    def _read_memory(self) -> int:
        """Return the memory as it is now, and log a change."""
        memory = self._memory()
        if self._events is not None and memory != self._seen:
            self._seen = memory
            self._log("store memory", memory=memory, bound=_room(memory))
        return memory

    def _log(self, event: str, **fields: Any) -> None:
        """Write a line to the log, if there is one.

        If the log cannot be written, the error is raised once; then there is none.
        """
        if self._events is not None:
            log, self._events = self._events, None
            log(event, store=self._label, **fields)
            self._events = log

    def _query_mapping(self, address: int, size: int) -> tuple[int, int, int]:
        """Return what the system has mapped there, for the log."""
        return (0, 0, 0) if self._events is None else self.space.query_mapping(address, size)

    def _check_request(self, file: str, offset: int, size: int, there: int) -> None:
        if offset < 0 or offset % PAGE:
            raise RegionRefused(
                f"expected an offset that is a multiple of {PAGE}, got {offset}", file, "begin at a page of the file"
            )
        if size < 1 or offset + size > there:
            what = f"{size} bytes from byte {offset} on were requested, the file has {there}"
            raise RegionRefused(what, file, "map bytes that the file has")
        if size > self.max_region_size:
            what = f"{size} bytes were requested, a region has at most {self.max_region_size}"
            raise RegionRefused(what, file, "map several regions, or raise max_region_size")

    def _check(self, region: MappedRegion) -> None:
        if region.is_closed:
            raise RegionClosed(str(region.path))
        what = _lost(region)
        if what:
            region._watched.is_lost = True
            raise RegionLost(what, str(region.path))

    def _pin(self, region: MappedRegion, start: int, stop: int) -> None:
        tiles = _tiles(start, stop)
        with self._exclusive():
            self._check(region)
            present = [tile for tile in tiles if region._first + tile in self._replacement]
            absent = [tile for tile in tiles if region._first + tile not in self._replacement]
            held: list[int] = []
            try:
                self._hold(region, present, held)
                if absent:
                    self._admit(region, absent)
                    self._map_again(region, absent)
                    self._hold(region, absent, held)
                for tile in tiles:
                    self._replacement.access(region._first + tile)
                    self._log("tile accessed", tile=region._first + tile, clock=self._replacement.clock)
            except BaseException:
                self._unpin(region, held)
                raise

    def _hold(self, region: MappedRegion, tiles: Iterable[int], held: list[int]) -> None:
        for tile in tiles:
            region._pins[tile] += 1
            self._replacement.hold(region._first + tile)
            held.append(tile)
            self._log("tile pinned", tile=region._first + tile, pins=region._pins[tile])

    def _unpin(self, region: MappedRegion, tiles: Iterable[int]) -> None:
        for tile in tiles:
            region._pins[tile] -= 1
            if region._pins[tile] == 0:
                self._replacement.free(region._first + tile)
            self._log("tile unpinned", tile=region._first + tile, pins=region._pins[tile])

    def _map_file(self, region: MappedRegion, address: int, size: int, offset: int) -> None:
        self.space.map_file(address, size, region.is_writable, region._descriptor, offset)
        if region._access != "normal":
            self.space.advise(address, size, region._access)

    def _map_again(self, region: MappedRegion, tiles: Iterable[int]) -> None:
        """Map tiles that were released."""
        try:
            for tile in tiles:
                address, size = region._place(tile)
                offset = region.offset + tile * TILE
                self._map_file(region, address, size, offset)
                self._enter_tile(region, tile)
                begin, end, found = self._query_mapping(address, size)
                self._log(
                    "tile mapped", tile=region._first + tile, weight=region._weights[tile], begin=begin, end=end,
                    offset=found, mapped=len(self._replacement), clock=self._replacement.clock,
                )  # fmt: skip
        except BaseException:
            self._log("tiles failed")
            raise

    def _enter_tile(self, region: MappedRegion, tile: int) -> None:
        self._of_tile[region._first + tile] = region
        self._replacement.insert(region._first + tile, region._weights[tile])

    def _admit(self, region: MappedRegion, tiles: Sequence[int]) -> None:
        """Make room for more tiles. A request that cannot fit is refused before a tile is released."""
        memory = self._read_memory()
        numbers = [region._first + tile for tile in tiles] if self._events is not None else []
        self._log("tiles wanted", tiles=numbers, mapped=len(self._replacement), pinned=self._replacement.held)
        self._relieve(memory)
        room, pinned = _room(memory), self._replacement.held
        if pinned + len(tiles) > room:
            self._log("tiles refused", tiles=len(tiles), bound=room, pinned=pinned)
            raise MemoryBound(str(region.path), len(tiles) * TILE, room * TILE, pinned * TILE)
        while len(self._replacement) + len(tiles) > room:
            victim = self._replacement.victim()
            assert victim is not None  # fewer are pinned than there is room for
            self._release(victim, "evicted")
            self.evicted += 1

    def _release(self, tile: int, why: str) -> None:
        region = self._of_tile[tile]
        place = region._place(tile - region._first)
        self.space.blank(*place)
        del self._of_tile[tile]
        last, weight = self._replacement.remove(tile)
        self._log(
            "tile released", tile=tile, why=why, last=last, weight=weight, mapped=len(self._replacement),
            is_reserved=self._events is not None and self.space.is_blank(*place),
        )  # fmt: skip

    def _relieve(self, memory: int) -> Relief | None:
        over = 10 * len(self._replacement) * TILE - 7 * memory
        if over <= 0:
            return None
        excess, skipped = -(-over // (10 * TILE)), 0
        ranges = [(region.base, region.base + region.tiles * TILE) for region in self._regions]
        before = resident_bytes(ranges)
        chosen: list[int] = []
        for tile, is_held in self._replacement.by_weight():
            if len(chosen) == excess:
                break
            if is_held:
                skipped += 1
            else:
                chosen.append(tile)
        for tile in chosen:
            self._release(tile, "relieved")
        relief = Relief(excess, len(chosen), skipped, before, resident_bytes(ranges))
        self.reliefs.append(relief)
        return relief

    def _check_unused(self, region: MappedRegion) -> None:
        pinned = region._count_pinned()
        if pinned:
            raise RegionInUse(str(region.path), pinned)

    def _close(self, region: MappedRegion) -> None:
        if region.is_closed:
            return
        self._check_unused(region)
        region._give_back()
        gone = [tile for tile in range(region._first, region._first + region.tiles) if self._of_tile.pop(tile, None)]
        for tile in gone:
            self._replacement.remove(tile)
        self._regions.remove(region)
        region.is_closed = True
        self._log("region closed", first=region._first, tiles=gone, mapped=len(self._replacement))


def _register_release(region: MappedRegion) -> Callable[[], object]:
    """Return a callback that frees the region's addresses and file, once: when called, or when the region is collected.

    Collection may happen at any moment. No array of the region is left then, since each array keeps the region.
    """
    given = region.store.space, region.base, region.tiles * TILE, region._descriptor, region._watched
    last = weakref.finalize(region, _free, *given)
    last.atexit = False
    return last


def _free(space: AddressSpace, base: int, size: int, descriptor: int, watched: WatchedRange) -> None:
    unwatch(watched)
    space.unmap(base, size)
    os.close(descriptor)


def _room(memory: int) -> int:
    """Return the number of tiles that may be mapped."""
    return 7 * memory // (10 * TILE)


def _tiles(start: int, stop: int) -> range:
    """Return the tiles that have a byte between `start` and `stop`."""
    return range(start // TILE, -(-stop // TILE)) if stop > start else range(0)


def _open(file: Path, is_writable: bool) -> int:
    try:
        flags = os.O_RDWR if is_writable else os.O_RDONLY
        return open_descriptor(file, flags)
    except NotRegular:
        raise RegionRefused("the path is not a regular file", str(file), "map a regular file") from None
    except OSError as error:
        raise NoAddressSpace(error.strerror or str(error), str(file)) from None


def _lost(region: MappedRegion) -> str | None:
    """Return why the file of a region is not the one that was mapped, whole; None if it is."""
    if region._watched.is_lost:
        return "an access to the mapped file has failed"
    opened = os.fstat(region._descriptor)
    if opened.st_size < region.offset + region.size:
        return f"the file was truncated to {opened.st_size} bytes, {region.offset + region.size} are needed"
    try:
        named = os.stat(region.path)
    except OSError as error:
        return f"the file is gone: {error.strerror}"
    if (named.st_dev, named.st_ino) != (opened.st_dev, opened.st_ino):
        return "the file was replaced by another"
    return None
