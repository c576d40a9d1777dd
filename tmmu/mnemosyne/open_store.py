"""A store that is open for reading and adding single vectors.

Opening reads the anchor, the last root and what follows it. A vector is read by its extent: the place of its block is
computed, the block is read, authenticated and decrypted, and its differences are summed up to the vector. The first
append locks the log for writing. spec: MN10.2, MN10.7 to MN10.10
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
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
from tmmu.mnemosyne.vector_blocks import HEAD, IDS, KINDS, MODES, VERSION, VectorLayout, decode_block
from tmmu.runtime.events import EventLog


class _Extent(NamedTuple):
    """An extent with what is computed once: for each of its blocks, and for the last one."""

    first: int
    end: int
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
    def of(cls, path: str, key: MasterKey, blocks: StoreBlocks, reader: SealedReader) -> Self:
        """Return a store that was scanned, for reading; it is not closed."""
        opened = cls.__new__(cls)
        opened.path, opened._blocks, opened._extent, opened._writer = path, blocks, None, None
        opened._records = PlacedRecords(path, reader.descriptor, key, len(reader))
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
            self._blocks.discard()

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
        count = self._blocks.found().vectors
        if isinstance(index, slice):
            wanted: Sequence[int] | NDArray[Any] = range(*index.indices(count))
        else:
            wanted = np.asarray(index).reshape(-1)
            if wanted.size and wanted.dtype.kind not in "iu":
                raise TypeError(f"expected whole numbers of vectors, got {wanted.dtype}")
        layout = self.layout
        rows = np.empty((len(wanted), layout.width), _returned(layout))
        for at, each in enumerate(wanted):
            rows[at] = self.get_one(int(each))
        return rows

    def iterate(self) -> Iterator[NDArray[Any]]:
        """Yield all vectors, a block at a time."""
        at = 0
        while at < self._blocks.found().vectors:
            extent = self._find(at)
            block = (at - extent.first) // extent.block
            data, vectors = self._read(extent, block)
            yield from self._decode(data, vectors, at)
            at += vectors

    def check_index(self) -> None:
        """Check that the index leads to every vector and every token id, without reading all blocks again.

        The extents follow each other, the first and the last block of each are where it says, and each id is that of
        the vector that its run names. Raises the errors of `get`, and `InvalidLog` for a gap.
        """
        end = 0
        for entry in self._blocks.index.extents(self._records):
            if entry.first != end:
                raise InvalidLog("the index has a gap, or states a vector twice", self.path, f"vector {entry.first}")
            end += entry.vectors
            extent = _prepare(entry, self.layout)
            for block in {0, extent.last}:
                data, vectors = self._read(extent, block)
                self._decode(data, vectors, entry.first + block * entry.block)
        if end != self._blocks.found().vectors:
            raise InvalidLog("the index has a gap, or states a vector twice", self.path, f"vector {end}")
        for run in self._blocks.index.runs:
            for ids, of in read_pages(self._records, run):
                for token, vector in {(int(ids[at]), int(of[at])) for at in (0, -1)}:
                    extent = self._find(vector)
                    block, place = divmod(vector - extent.first, extent.block)
                    stated = decode_block(self._read(extent, block)[0], self.path, f"vector {vector}").ids
                    if stated is None or int(stated[place]) != token:
                        raise InvalidLog("the index states another token id", self.path, f"vector {vector}")

    def append(self, rows: NDArray[Any], token_ids: Sequence[int] | NDArray[Any] | None, commit: bool) -> int:
        """Add vectors; see `VectorStore.append`."""
        rows = np.asarray(rows)
        source = ArrayVectors(rows[None] if rows.ndim == 1 else rows)
        ids = None if token_ids is None else np.asarray(token_ids, np.uint64).reshape(-1)
        writer = self._writer or self._write()
        try:
            writer.put(source, AS_BEFORE, ids)
            if commit:
                writer.log.commit()
        except BaseException:
            writer.log.withdraw()
            self._writer = None
            self._load()
            raise
        return writer.blocks.found().vectors

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
        if extent is None or not extent.first <= index < extent.end:
            extent = self._find(index)
            if index < 0:
                index += self._blocks.found().vectors
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
        vectors = extent.block if block != extent.last else extent.last_vectors
        found: NDArray[Any] = self._decode(data, vectors, index - place)[place]
        return found

    def _read(self, extent: _Extent, block: int) -> tuple[bytes, int]:
        """Return the content of the record of a block, and how many vectors it has."""
        is_last = block == extent.last
        data = self._records.read(
            extent.salt, extent.number + block, extent.offset + block * extent.step,
            extent.last_length if is_last else extent.length,
        )  # fmt: skip
        return data, extent.last_vectors if is_last else extent.block

    def _decode(self, data: bytes, vectors: int, first: int) -> NDArray[Any]:
        block = decode_block(data, self.path, f"vectors from {first} on")
        if (block.layout, block.vectors) != (self.layout, vectors):
            raise InvalidLog("the block is not the one that the index states", self.path, f"vectors from {first} on")
        try:
            return block.decode()
        except ValueError as error:
            raise InvalidLog(f"not a block of vectors ({error})", self.path, f"vectors from {first} on") from error

    def _find(self, index: int) -> _Extent:
        count = self._blocks.found().vectors
        if not -count <= index < count:
            what = f"vector {index} was requested, there are {count}"
            raise InvalidVectors(what, "range", "request a vector that there is").in_file(self.path)
        entry = self._blocks.index.find(self._records, index % count)
        layout = self.layout
        self._width, self._given = layout.width, layout.given
        self._patterns = np.dtype(f"u{self._given.itemsize}")
        self._extent = extent = _prepare(entry, layout)
        return extent

    def _find_token(self, token: int) -> int:
        """Return the number of the last vector with a token id: one that was put, or its number if none was."""
        count = self._blocks.found().vectors
        put = self._blocks.index.find_token(self._records, token) if 0 <= token < 1 << 64 else None
        numbered = token if 0 <= token < count and not self._has_ids(token) else None
        found = [each for each in (put, numbered) if each is not None]
        if not found:
            what = f"no vector has the token id {token}"
            raise InvalidVectors(what, "token id", "request one that was put").in_file(self.path)
        return max(found)

    def _has_ids(self, index: int) -> bool:
        return self._blocks.index.find(self._records, index).has_ids


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
        entry.first, entry.first + entry.vectors, entry.block, entry.number, entry.offset, entry.salt, length + AROUND,
        length, head, blocks - 1, entry.length or block_length(layout, last_vectors, entry.has_ids), last_vectors,
        is_plain,
    )  # fmt: skip
