"""The records of a store, taken one after the other: blocks of puts, and between puts the index and deletions.

`StoreBlocks` checks each record against those before it and keeps the contents and the index. `StoreWriter` appends
puts and deletions to a log, and the index after them.
spec: MN8.2, MN8.4, MN8.5, MN8.14, MN10.1, MN10.4, MN11.1, MN11.3, MN11.4
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tmmu.mnemosyne import store_index as form
from tmmu.mnemosyne.failures import InvalidLog, InvalidVectors
from tmmu.mnemosyne.keys import MasterKey
from tmmu.mnemosyne.log_scan import LogBytes, LogScan
from tmmu.mnemosyne.mapped_file import open_mapped_file
from tmmu.mnemosyne.npy_files import VectorSource
from tmmu.mnemosyne.placed_records import PlacedRecords, find_root
from tmmu.mnemosyne.regions import RegionStore
from tmmu.mnemosyne.sealed_format import Frame
from tmmu.mnemosyne.sealed_log import LogLook, RecordPlace, SealedLog
from tmmu.mnemosyne.store_index import StoreContents, StoreIndex
from tmmu.mnemosyne.vector_blocks import (
    VectorBlock,
    VectorLayout,
    check_size,
    decode_block,
    default_block,
    encode_block,
    encode_blocks,
)
from tmmu.runtime.events import EventLog
from tmmu.runtime.ram import total_ram

KEPT = (1 << 25) - (1 << 16)
"""The size of an array that is freed to raise glibc's trim threshold: nearly the largest size that it learns from.

Otherwise glibc returns each freed block to the system, which then clears each page of the next one, and a put takes
twice as long.
"""

AT_A_TIME = 1 << 20
"""About how many bytes of vectors are sealed and written at a time."""

Consume = Callable[[int, VectorBlock], None]
"""Called with the number of a block's first vector, and the block."""


@dataclass(frozen=True)
class PutOptions:
    """How vectors are stored: the mode (default: the store's, or lossless), the vectors of a block, Zstandard."""

    mode: str | None = None
    block: int | None = None
    compress: bool = False


AS_BEFORE = PutOptions()
"""The options of the store itself."""


class StoreBlocks:
    """The records of a log as blocks of vectors and their index. Each is checked against those before it.

    Attributes
    ----------
    index
        The index of all whole puts.
    tail
        The bytes of records since its last root.
    segment
        The salt of the segment of that root.
    """

    def __init__(self, name: str, key: MasterKey, consume: Consume | None = None) -> None:
        self._name, self._key, self._consume = name, key, consume
        self._scan = LogScan()
        self._begin(StoreContents(), StoreIndex())

    def _begin(self, contents: StoreContents, index: StoreIndex, segment: bytes = b"") -> None:
        self.index, self.tail, self.segment = index, 0, segment
        self._whole, self._put = contents, StoreContents()
        self._blocks: list[tuple[form.PlacedBlock, form.Pairs | None]] = []  # of the put in progress, with token ids
        self._left: int | None = None  # vectors left of the put in progress; None between two puts

    def begin_at_the_start(self, file: LogBytes, _: bytes | None = None) -> LogScan:
        """Begin a scan of the whole log."""
        self._scan = LogScan(size=file.size)
        self._begin(StoreContents(), StoreIndex())
        return self._scan

    def begin_at_a_root(self, file: LogBytes, anchor: bytes | None) -> LogScan:
        """Begin a scan behind the last root that the anchor covers, or at the start if there is none."""
        found = find_root(file, self._key, anchor)
        if found is None:
            return self.begin_at_the_start(file)
        self._scan, data = found
        root = f"record {self._scan.base}"
        self._begin(*form.decode_root(data, self._name, root), self._scan.segments[0].header.salt)
        return self._scan

    def found(self) -> StoreContents:
        """Return the contents so far."""
        self._whole.unfinished = self._put.blocks
        return self._whole

    def index_is_due(self, segment: bytes) -> bool:
        """Return whether a root is written next, in the segment of this salt."""
        return segment != self.segment or self.tail > form.TAIL

    def discard(self) -> None:
        """Drop the blocks of an unfinished put."""
        self._put, self._left, self._blocks = StoreContents(), None, []

    def visit(self, frame: Frame, data: bytes | memoryview) -> None:
        """Take the record that a scan has come to."""
        salt = self._scan.segments[-1].header.salt
        self.take(RecordPlace(salt, frame.sequence, self._scan.end), frame.token, data)

    def take(self, place: RecordPlace, token: int, data: bytes | memoryview) -> None:
        """Check and count the next record."""
        name = f"record {place.number}"
        if form.is_of_an_index(data):
            self.tail += len(data) + form.AROUND
            self._take_index(place, token, bytes(data), name)
            return
        block, put = decode_block(data, self._name, name), self._put
        expected = (put.blocks, block.vectors + block.left if self._left is None else self._left)
        layout = self._whole.layout or put.layout or block.layout
        first = self.next if block.first is None else block.first
        if (block.number, block.vectors + block.left, block.layout) != (*expected, layout) or first < self.next:
            raise InvalidLog("the block does not follow the one before", self._name, name)
        if self._consume is not None:
            self._consume(first, block)
        self.count(place, len(data), block)

    @property
    def next(self) -> int:
        """The number of the next vector, unless its block states it."""
        return self._whole.vectors + self._put.vectors

    def count(self, place: RecordPlace, length: int, block: VectorBlock) -> None:
        """Count the next block of a put, in a record of `length` bytes."""
        put, first = self._put, self.next if block.first is None else block.first
        placed = form.PlacedBlock(
            *place, length, first, block.span, block.vectors, block.is_compressed, block.ids is not None,
            block.offsets is not None,
        )  # fmt: skip
        numbers = block.numbers(first).astype(np.uint64) if block.ids is not None and len(block.ids) else None
        self._blocks.append((placed, None if numbers is None or block.ids is None else (block.ids, numbers)))
        self.tail += length + form.AROUND
        self._left = block.left
        skipped = first - self.next
        put.layout, put.vectors, put.blocks = block.layout, put.vectors + skipped + block.span, put.blocks + 1
        put.deleted += skipped + block.span - block.vectors
        put.content += len(block.content)
        put.compressed += block.is_compressed
        put.with_ids += block.ids is not None
        if not block.left:
            self._end_put()

    def _end_put(self) -> None:
        whole, put = self._whole, self._put
        whole.layout, whole.puts = put.layout, whole.puts + 1
        whole.vectors, whole.blocks, whole.content = (
            whole.vectors + put.vectors, whole.blocks + put.blocks, whole.content + put.content,
        )  # fmt: skip
        whole.compressed, whole.with_ids = whole.compressed + put.compressed, whole.with_ids + put.with_ids
        whole.deleted += put.deleted
        assert whole.layout is not None
        for placed, ids in self._blocks:
            self.index.add(whole.layout, placed)
            if ids is not None:
                self.index.recent.append(ids)
        self.discard()

    def delete(self, firsts: NDArray[np.uint64], ends: NDArray[np.uint64]) -> None:
        """Count ranges of vectors that are deleted; the last one may skip numbers from the next one on."""
        whole, count = self._whole, int((ends - firsts).sum())
        if int(ends[-1]) > whole.vectors:
            whole.vectors, skipped = int(ends[-1]), int(ends[-1] - firsts[-1])
            firsts, ends = firsts[:-1], ends[:-1]
        else:
            skipped = 0
        whole.deleted, whole.marked = whole.deleted + count, whole.marked + count - skipped
        self.index.delete(firsts, ends)

    def _take_index(self, place: RecordPlace, token: int, data: bytes, name: str) -> None:
        if self._left is not None or not form.NODE <= data[1] <= form.DELETION:
            raise InvalidLog("not a block of vectors, and no part of an index there", self._name, name)
        if data[1] == form.DELETION:
            firsts, ends = form.decode_deletion(data, self._name, name)
            after = self._whole.vectors
            if int(ends[-1]) > after != int(firsts[-1]) or self._whole.layout is None:
                raise InvalidLog("a deletion of vectors that are not there", self._name, name)
            self.delete(firsts, ends)
        if not form.is_root(token, data):
            return
        contents, index = form.decode_root(data, self._name, name)
        if contents != self.found():
            raise InvalidLog("the root of the index does not state what is before it", self._name, name)
        self.index, self.tail, self.segment = index, 0, place.salt


class StoreWriter:
    """A store that is open for puts.

    Attributes
    ----------
    log
        Its log, which is locked.
    blocks
        What it has.
    records
        Reads its records.
    """

    def __init__(self, log: SealedLog, blocks: StoreBlocks, records: PlacedRecords) -> None:
        self.log, self.blocks, self.records = log, blocks, records
        self._path = log.path

    @classmethod
    def open(cls, path: str, key: MasterKey, anchor: str, events: EventLog | None, *, is_whole: bool = False) -> Self:
        """Open the log for writing, without the blocks of an unfinished put.

        What is before the last root that the anchor covers is only read if `is_whole`.
        """
        blocks = StoreBlocks(path, key)
        with open_regions(events) as regions:
            begin = blocks.begin_at_the_start if is_whole else blocks.begin_at_a_root
            look = LogLook(blocks.visit, partial(open_mapped_file, regions), begin)
            log = SealedLog.open(path, key, anchor, look, events)
        try:
            log.discard(log.records - blocks.found().unfinished)
        except BaseException:
            log.abandon()
            raise
        blocks.discard()
        return cls(log, blocks, PlacedRecords(path, log.descriptor, key, log.records))

    def put(self, vectors: VectorSource, options: PutOptions, ids: NDArray[np.uint64] | None = None) -> None:
        """Append vectors, and the index if it is due. Only the log's next `sync` or `commit` makes them durable.

        Raises `InvalidVectors` if they do not fit.
        """
        there = self.blocks.found()
        layout = _check_layout(there.layout, vectors, options.mode)
        block = options.block or default_block(layout, options.compress)
        check_size(layout, block)
        if ids is not None and ids.shape != (vectors.count,):
            what = f"expected {vectors.count} token ids, got an array of shape {ids.shape}"
            raise InvalidVectors(what, "token ids", "give one for each vector").in_file(vectors.name)
        is_plain = layout.mode == "lossless" and ids is None and not options.compress
        step = max(1, AT_A_TIME // max(1, block * layout.width * layout.given.itemsize)) * block
        for start in range(0, max(vectors.count, 1), step):
            stop = min(start + step, vectors.count)
            rows, left = vectors.rows(start, stop), vectors.count - stop
            if is_plain and stop - start > block:
                encoded: list[bytes | memoryview] = [*encode_blocks(layout, rows, block, start // block, left)]
            else:
                encoded = [
                    encode_block(
                        layout, rows[at : at + block], (start + at) // block, max(0, len(rows) - at - block) + left,
                        None if ids is None else ids[start + at : min(start + at + block, stop)],
                        compress=options.compress, first=start + at,
                    )
                    for at in range(0, max(len(rows), 1), block)
                ]  # fmt: skip
            del rows
            self.append_blocks(encoded)
        self.end_put()

    def append_blocks(self, encoded: Sequence[bytes | memoryview]) -> None:
        """Append the next blocks of a put."""
        blocks, first, tokens = (
            [decode_block(data, self._path, "a new block") for data in encoded],
            self.blocks.next,
            [],
        )
        for block in blocks:
            first = first if block.first is None else block.first
            tokens.append(first if block.ids is None or not len(block.ids) else int(block.ids[0]))
            first += block.span
        places = self.log.append_all(list(zip(tokens, encoded, strict=True)))
        for place, data, block in zip(places, encoded, blocks, strict=True):
            self.blocks.count(place, len(data), block)

    def end_put(self) -> None:
        """Write the index if it is due."""
        if self.blocks.index_is_due(self.log.writer):
            self.write_index()
        self.records.records = self.log.records

    def write_index(self) -> None:
        """Write what the last root does not state, and a root."""
        self.blocks.index.flush(self.blocks.found(), self.records, self._write)
        self.records.records = self.log.records

    def delete(self, firsts: NDArray[np.uint64], ends: NDArray[np.uint64]) -> None:
        """Append a deletion of vectors that are there: ranges of their numbers, in order. See `put`."""
        self._write(int(firsts[0]), form.encode_deletion(firsts, ends))
        self.end_put()

    def _write(self, token: int, data: bytes) -> RecordPlace:
        """Append a record of the index."""
        [place] = self.log.append_all([(token, data)])
        self.blocks.take(place, token, data)
        return place


def _check_layout(there: VectorLayout | None, vectors: VectorSource, mode: str | None) -> VectorLayout:
    """Return the layout of the vectors to put; raises `InvalidVectors` if it is not that of the store."""
    given = VectorLayout(mode or (there.mode if there else "lossless"), vectors.kind, vectors.width)
    if there is not None and there != given:
        what = f"vectors of {given} do not fit into a store of {there}"
        raise InvalidVectors(what, "vectors", "put them into another store").in_file(vectors.name)
    return given


def open_regions(events: EventLog | None) -> RegionStore:
    """Create a store of regions for one pass over a file, within the memory available as it begins."""
    np.empty(KEPT, np.uint8)
    memory = total_ram()
    return RegionStore(lambda: memory, events=events)
