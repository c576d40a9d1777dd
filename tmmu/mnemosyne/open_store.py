"""A store that is open for reading, adding and deleting single vectors.

Opening reads the anchor, the last root and what follows it. A vector is read by its extent: the place of its block is
computed, the block is read, authenticated and decrypted, and its differences are summed up to the vector. The first
append or deletion locks the log for writing. spec: MN10.2, MN10.7 to MN10.10, MN11.1 to MN11.3
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tmmu.core.errors import TmmuError
from tmmu.mnemosyne.failures import InvalidLog, InvalidVectors
from tmmu.mnemosyne.keys import MasterKey
from tmmu.mnemosyne.npy_files import ArrayVectors
from tmmu.mnemosyne.placed_records import PlacedRecords
from tmmu.mnemosyne.sealed_log import LogLook, SealedReader
from tmmu.mnemosyne.store_blocks import AS_BEFORE, StoreBlocks, StoreWriter
from tmmu.mnemosyne.store_index import AROUND, IndexEntry, StoreContents, block_length, read_pages
from tmmu.mnemosyne.vector_blocks import HEAD, IDS, KINDS, MODES, VERSION, VectorBlock, VectorLayout, decode_block
from tmmu.runtime.events import EventLog


class _Extent(NamedTuple):
    """An extent with what is computed once: for each of its blocks, and for the last one.

    No vector from `low` on and before `high` was deleted, unless a block of it states its numbers.
    """

    first: int
    low: int
    high: int
    block: int
    number: int
    offset: int
    salt: bytes
    step: int
    length: int
    head: bytes
    last: int
    last_length: int
    last_vectors: int
    is_plain: bool


class OpenStore:
    """A store as it was opened, with what this process has added since."""

    def __init__(self, path: str, key: MasterKey, anchor: str, events: EventLog | None) -> None:
        self.path, self._key, self._anchor, self._events = path, key, anchor, events
        self._reader: SealedReader | None = None
        self._writer: StoreWriter | None = None
        self._load()

    @classmethod
    def of(cls, path: str, blocks: StoreBlocks, records: PlacedRecords) -> Self:
        """Return a store that was scanned, for reading; it is not closed."""
        opened = cls.__new__(cls)
        opened.path, opened._blocks, opened._records = path, blocks, records
        opened._extent, opened._writer = None, None
        return opened

    def _load(self) -> None:
        self._blocks = StoreBlocks(self.path, self._key)
        self._extent: _Extent | None = None
        look = LogLook(self._blocks.visit, begin=self._blocks.begin_at_a_root)
        try:
            self._reader = SealedReader.open(self.path, self._key, self._anchor, look)
        except TmmuError as error:
            if error.code_id != "TMMU_ALLOCATION_FAILURE" or os.path.lexists(self.path):
                raise
            self._records = PlacedRecords(self.path, -1, self._key, 0)  # of a store that the first append makes
        else:
            self._records = PlacedRecords(self.path, self._reader.descriptor, self._key, len(self._reader))
            self._records.advise(os.POSIX_FADV_RANDOM)
            self._blocks.discard()

    def is_deleted(self, number: int) -> tuple[bool, int]:
        """Return whether a vector was deleted, and a number up to which the same is true."""
        found, _, end = self._blocks.index.find_deleted(self._records, number)
        return found, end

    def token_pairs(self) -> Iterator[tuple[NDArray[np.uint64], NDArray[np.uint64]]]:
        """Yield all pairs of token ids and numbers of the index, a part at a time."""
        for run in self._blocks.index.runs:
            yield from read_pages(self._records, run)
        yield from self._blocks.index.recent

    @property
    def contents(self) -> StoreContents:
        """What the store has."""
        return self._blocks.found()

    def close(self, *, has_failed: bool) -> None:
        """Acknowledge what was added and close the log; if the caller failed, what was not committed is cut off."""
        if self._reader is not None:
            self._reader.close()
        if self._writer is not None:
            self._writer.log.end_with(has_failed=has_failed)

    def get(self, index: int | slice | Sequence[int] | NDArray[Any] | None, token_id: int | None) -> NDArray[Any]:
        """Return one vector or several; see `VectorStore.get`."""
        if token_id is not None:
            if index is not None:
                raise TypeError("expected an index or a token id, got both")
            return self.get_one(self._find_token(token_id))
        if isinstance(index, int):
            return self.get_one(index)
        if index is None:
            raise TypeError("expected an index or a token id, got neither")
        wanted, layout = self._numbers_of(index), self.layout
        rows = np.empty((len(wanted), layout.width), _returned(layout))
        for at, each in enumerate(wanted):
            rows[at] = self.get_one(int(each))
        return rows

    def _numbers_of(self, index: slice | Sequence[int] | NDArray[Any]) -> NDArray[Any]:
        """Return the numbers that are stated, or those of a slice that have a vector."""
        if isinstance(index, slice):
            wanted = range(*index.indices(self._blocks.found().vectors))
            there: NDArray[Any] = self.numbers(min(wanted), max(wanted) + 1) if wanted else np.zeros(0, np.int64)
            there = there[(there - wanted.start) % wanted.step == 0]
            return there if wanted.step > 0 else there[::-1]
        stated: NDArray[Any] = np.asarray(index).reshape(-1)
        if stated.size and stated.dtype.kind not in "iu":
            raise TypeError(f"expected whole numbers of vectors, got {stated.dtype}")
        return stated

    def numbers(self, start: int, end: int) -> NDArray[np.int64]:
        """Return the numbers from `start` on and before `end` that have a vector; see `VectorStore.numbers`."""
        parts = [np.arange(first, stop) for first, stop in self.ranges(start, end)]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)

    def ranges(self, start: int = 0, end: int = 1 << 63) -> Iterator[tuple[int, int]]:
        """Yield the ranges of numbers from `start` on and before `end` that have vectors."""
        for entry in self._blocks.index.extents(self._records, start, end):
            runs = [(entry.first, entry.first + entry.vectors)]
            if entry.length and entry.vectors > 1:
                offsets = self._block(_prepare(entry, self.layout), 0).numbers(entry.first)
                breaks = np.flatnonzero(np.diff(offsets) > 1)
                firsts, ends = offsets[np.append(0, breaks + 1)], offsets[np.append(breaks, -1)] + 1
                runs = list(zip(firsts.tolist(), ends.tolist(), strict=True))
            for low, high in runs:
                at, stop = max(low, start), min(high, end)
                while at < stop:
                    is_deleted, _, until = self._blocks.index.find_deleted(self._records, at)
                    if not is_deleted:
                        yield at, min(until, stop)
                    at = until

    def ranges_without_ids(self) -> Iterator[tuple[int, int]]:
        """Yield the ranges of numbers of blocks without token ids; some of the vectors may have been deleted."""
        for entry in self._blocks.index.extents(self._records):
            if not entry.has_ids:
                yield entry.first, entry.first + entry.vectors

    def blocks(self) -> Iterator[tuple[int, VectorBlock, NDArray[np.int64]]]:
        """Yield each block that has vectors: its first number, and the places of those that were not deleted."""
        self._records.advise(os.POSIX_FADV_SEQUENTIAL)
        for entry in self._blocks.index.extents(self._records):
            extent = _prepare(entry, self.layout)
            for at in range(extent.last + 1):
                first = entry.first + at * entry.block
                numbers = self.numbers(first, min(first + entry.block, entry.first + entry.vectors))
                if len(numbers):
                    block = self._block(extent, at)
                    yield first, block, np.searchsorted(block.numbers(first), numbers)
        self._records.advise(os.POSIX_FADV_RANDOM)

    def iterate(self) -> Iterator[NDArray[Any]]:
        """Yield all vectors, a block at a time."""
        for first, block, places in self.blocks():
            yield from self._decoded(block, first)[places]

    def check_index(self) -> None:
        """Check that the index leads to every vector and every token id, without reading all blocks again.

        The extents follow each other with as many vectors as there are, the first and the last block of each are where
        it says, and each id is that of the vector that its run names, or of one that was deleted. Raises the errors of
        `get`, and `InvalidLog` for a gap.
        """
        end, vectors, found = 0, 0, self._blocks.found()
        for entry in self._blocks.index.extents(self._records):
            if entry.first < end:
                raise InvalidLog("the index states a vector twice", self.path, f"vector {entry.first}")
            end = entry.first + entry.vectors
            extent = _prepare(entry, self.layout)
            for at in {0, extent.last}:
                block, first = self._block(extent, at), entry.first + at * entry.block
                self._decoded(block, first)
                vectors += block.vectors - block.span
            vectors += entry.vectors
        if vectors != found.there + found.marked or end > found.vectors:
            raise InvalidLog("the index has a gap", self.path, f"vector {end}")
        if len(self.numbers(0, end)) != found.there:
            raise InvalidLog("the index states other deletions", self.path, f"vector {end}")
        for run in self._blocks.index.runs:
            for ids, of in read_pages(self._records, run):
                for token, vector in {(int(ids[at]), int(of[at])) for at in (0, -1)}:
                    if (number := self._place(vector)) is None:
                        continue
                    block, place = number
                    if block.ids is None or int(block.ids[place]) != token:
                        raise InvalidLog("the index states another token id", self.path, f"vector {vector}")

    def _place(self, number: int) -> tuple[VectorBlock, int] | None:
        """Return the block that has a vector, and its place there; None if it was deleted."""
        extent = self._find(number)
        if extent is None:
            return None
        at = (number - extent.first) // extent.block
        block = self._block(extent, at)
        place = block.place_of(number - extent.first - at * extent.block)
        return None if place is None else (block, place)

    def delete(self, index: int | slice | Sequence[int] | NDArray[Any] | None, token_id: int | None) -> int:
        """Delete vectors; see `VectorStore.delete`."""
        writer = self._writer or self._write()  # locks the store, so that no vector is deleted twice
        if token_id is not None:
            if index is not None:
                raise TypeError("expected an index or a token id, got both")
            index = self._find_token(token_id)
        if index is None:
            raise TypeError("expected an index or a token id, got neither")
        stated = self._numbers_of([index] if isinstance(index, int) else index)
        if not isinstance(index, slice):
            for each in stated:
                if not self._has(int(each)):
                    raise self._missing(int(each))
        numbers = np.unique(stated.astype(np.int64) % max(1, self._blocks.found().vectors)).astype(np.uint64)
        if not len(numbers):
            return 0
        is_apart = np.diff(numbers) > 1
        firsts, ends = numbers[np.append(True, is_apart)], numbers[np.append(is_apart, True)] + np.uint64(1)
        self._commit(lambda: writer.delete(firsts, ends), writer.log.sync)
        self._extent = None
        return len(numbers)

    def append(self, rows: NDArray[Any], token_ids: Sequence[int] | NDArray[Any] | None, commit: bool) -> int:
        """Add vectors; see `VectorStore.append`."""
        rows = np.asarray(rows)
        source = ArrayVectors(rows[None] if rows.ndim == 1 else rows)
        ids = None if token_ids is None else np.asarray(token_ids, np.uint64).reshape(-1)
        writer = self._writer or self._write()
        self._commit(lambda: writer.put(source, AS_BEFORE, ids), writer.log.commit if commit else None)
        return writer.blocks.found().vectors

    def _commit(self, write: Callable[[], None], commit: Callable[[], int] | None) -> None:
        """Write records and commit them; if that fails, they are cut off and the store is opened again for reading."""
        assert self._writer is not None
        try:
            write()
            if commit is not None:
                commit()
        except BaseException:
            self._writer.log.withdraw()
            self._writer = None
            self._load()
            raise

    def flush(self) -> None:
        """Acknowledge what was added; see `VectorStore.flush`."""
        if self._writer is not None:
            self._writer.log.sync()

    def _write(self) -> StoreWriter:
        writer = self._writer = StoreWriter.open(self.path, self._key, self._anchor, self._events)
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        self._blocks, self._records, self._extent = writer.blocks, writer.records, None
        return writer

    @property
    def layout(self) -> VectorLayout:
        """The properties that all vectors share. Raises `InvalidLog` if nothing was put yet."""
        layout = self._blocks.found().layout
        if layout is None:
            raise InvalidLog("nothing was put into it", self.path, "record 0")
        return layout

    def get_one(self, index: int) -> NDArray[Any]:
        """Return one vector; see `VectorStore.get`."""
        extent = self._extent
        if extent is None or not extent.low <= index < extent.high:
            count = self._blocks.found().vectors
            if -count <= index < 0:
                index += count
            extent = self._find(index)
            if extent is None:
                raise self._missing(index)
        block, place = divmod(index - extent.first, extent.block)
        data = self._records.read(
            extent.salt, extent.number + block, extent.offset + block * extent.step,
            extent.length if block != extent.last else extent.last_length,
        )  # fmt: skip
        if extent.is_plain and data.startswith(extent.head):  # lossless, neither compressed nor with ids
            width, kind = self._width, self._patterns
            rows = np.frombuffer(data, kind, (place + 1) * width, HEAD.size)
            if not place:
                return rows.view(self._given).copy()
            summed: NDArray[Any] = np.add.reduce(rows.reshape(place + 1, width), 0, kind)
            return summed.view(self._given)
        found = self._decode(data, extent, block)
        row = found.place_of(place)
        if row is None:
            raise self._missing(index)
        vector: NDArray[Any] = self._decoded(found, index - place)[row]
        return vector

    def _block(self, extent: _Extent, block: int) -> VectorBlock:
        """Return a block of an extent."""
        data = self._records.read(
            extent.salt, extent.number + block, extent.offset + block * extent.step,
            extent.last_length if block == extent.last else extent.length,
        )  # fmt: skip
        return self._decode(data, extent, block)

    def _decode(self, data: bytes, extent: _Extent, at: int) -> VectorBlock:
        first = extent.first + at * extent.block
        block = decode_block(data, self.path, f"vectors from {first} on")
        span = extent.last_vectors if at == extent.last else extent.block
        if (block.layout, block.span) != (self.layout, span) or block.first not in (None, first):
            raise InvalidLog("the block is not the one that the index states", self.path, f"vectors from {first} on")
        return block

    def _decoded(self, block: VectorBlock, first: int) -> NDArray[Any]:
        try:
            return block.decode()
        except ValueError as error:
            raise InvalidLog(f"not a block of vectors ({error})", self.path, f"vectors from {first} on") from error

    def _find(self, number: int) -> _Extent | None:
        """Return the extent that has a vector, for the next vectors as well; None if it is known to be deleted."""
        found, index = self._blocks.found(), self._blocks.index
        entry = index.find(self._records, number) if 0 <= number < found.vectors else None
        if entry is None:
            if 0 <= number < found.vectors and not found.deleted:
                raise InvalidLog("the index does not have the vector", self.path, f"vector {number}")
            return None
        low, high = entry.first, entry.first + entry.vectors
        if found.marked:
            is_deleted, least, end = index.find_deleted(self._records, number)
            if is_deleted:
                return None
            low, high = max(low, least), min(high, end)
        layout = self.layout
        self._width, self._given = layout.width, layout.given
        self._patterns = np.dtype(f"u{self._given.itemsize}")
        self._extent = extent = _prepare(entry, layout)._replace(low=low, high=high)
        return extent

    def _has(self, number: int) -> bool:
        """Return whether there is a vector with this number."""
        count = self._blocks.found().vectors
        return -count <= number < count and self._place(number % count) is not None

    def _missing(self, number: int) -> InvalidVectors:
        """Return the error for a vector that there is not."""
        count = self._blocks.found().vectors
        what = f"vector {number} was requested, there are {count}"
        if -count <= number < count:
            what = f"vector {number % count} was deleted"
        return InvalidVectors(what, "range", "request a vector that there is").in_file(self.path)

    def _find_token(self, token: int) -> int:
        """Return the number of the last vector with a token id: one that was put, or its number if none was.

        It may have been deleted.
        """
        count = self._blocks.found().vectors
        put = self._blocks.index.find_token(self._records, token) if 0 <= token < 1 << 64 else None
        numbered = token if 0 <= token < count and self._is_numbered(token) else None
        found = [each for each in (put, numbered) if each is not None]
        if not found:
            what = f"no vector has the token id {token}"
            raise InvalidVectors(what, "token id", "request one that was put").in_file(self.path)
        return max(found)

    def _is_numbered(self, number: int) -> bool:
        """Return whether a vector was put without a token id, as far as its block is still there."""
        entry = self._blocks.index.find(self._records, number)
        return entry is not None and not entry.has_ids


def _returned(layout: VectorLayout) -> np.dtype[Any]:
    return layout.given if layout.mode == "lossless" else np.dtype(np.float32)


def _prepare(entry: IndexEntry, layout: VectorLayout) -> _Extent:
    blocks = -(-entry.vectors // entry.block)
    last_vectors = entry.vectors - (blocks - 1) * entry.block
    length = entry.length or block_length(layout, entry.block, entry.has_ids)
    flags = IDS if entry.has_ids else 0
    head = HEAD.pack(VERSION, MODES.index(layout.mode), flags, KINDS.index(layout.kind), layout.width, 0, 0, 0)[:8]
    is_plain = layout.mode == "lossless" and not entry.length and not entry.has_ids and layout.width > 0
    return _Extent(
        entry.first, entry.first, entry.first + entry.vectors, entry.block, entry.number, entry.offset, entry.salt,
        length + AROUND, length, head, blocks - 1,
        entry.length or block_length(layout, last_vectors, entry.has_ids), last_vectors, is_plain,
    )  # fmt: skip
