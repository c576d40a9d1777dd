"""The records of a store, taken one after the other: blocks of puts, and the index between puts.

`StoreBlocks` checks each record against those before it and keeps the contents and the index. `StoreWriter` appends
puts to a log, and the index after them. spec: MN8.2, MN8.4, MN8.5, MN8.14, MN10.1, MN10.4
"""

from __future__ import annotations

from collections.abc import Callable
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
    HEAD,
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
        self._blocks: list[tuple[int, form.PlacedBlock, NDArray[np.uint64] | None]] = []  # of the put in progress
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
        if (block.number, block.vectors + block.left, block.layout) != (*expected, layout):
            raise InvalidLog("the block does not follow the one before", self._name, name)
        if self._consume is not None:
            self._consume(self._whole.vectors + put.vectors, block)
        placed = form.PlacedBlock(*place, len(data), block.vectors, block.is_compressed, block.ids is not None)
        self.count(block.layout, placed, block.left, block.ids)

    def count(self, layout: VectorLayout, block: form.PlacedBlock, left: int, ids: NDArray[np.uint64] | None) -> None:
        """Count the next block of a put, after which `left` vectors follow."""
        put = self._put
        self._blocks.append((self._whole.vectors + put.vectors, block, ids))
        self.tail += block.length + form.AROUND
        self._left = left
        put.layout, put.vectors, put.blocks = layout, put.vectors + block.vectors, put.blocks + 1
        put.content += block.length - HEAD.size - (8 * block.vectors if block.has_ids else 0)
        put.compressed += block.is_compressed
        put.with_ids += block.has_ids
        if not left:
            self._end_put()

    def _end_put(self) -> None:
        whole, put = self._whole, self._put
        whole.layout, whole.puts = put.layout, whole.puts + 1
        whole.vectors, whole.blocks, whole.content = (
            whole.vectors + put.vectors, whole.blocks + put.blocks, whole.content + put.content,
        )  # fmt: skip
        whole.compressed, whole.with_ids = whole.compressed + put.compressed, whole.with_ids + put.with_ids
        assert whole.layout is not None
        for first, placed, ids in self._blocks:
            self.index.add(whole.layout, first, placed)
            if ids is not None and len(ids):
                self.index.recent.append((first, ids))
        self.discard()

    def _take_index(self, place: RecordPlace, token: int, data: bytes, name: str) -> None:
        if self._left is not None or data[1] not in (form.NODE, form.ROOT, form.PAGE, form.FENCE):
            raise InvalidLog("not a block of vectors, and no part of an index there", self._name, name)
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
        before, is_plain = there.vectors, layout.mode == "lossless" and ids is None and not options.compress
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
            tokens = [before + at if ids is None or not len(ids) else int(ids[at])
                      for at in range(start, max(stop, start + 1), block)]  # fmt: skip
            places = self.log.append_all(list(zip(tokens, encoded, strict=True)))
            for at, place, data in zip(range(start, max(stop, start + 1), block), places, encoded, strict=True):
                count = min(block, stop - at)
                placed = form.PlacedBlock(*place, len(data), count, options.compress, ids is not None)
                some = None if ids is None else ids[at : at + count]
                self.blocks.count(layout, placed, vectors.count - at - count, some)
        if places[-1].salt != self.blocks.segment or self.blocks.tail > form.TAIL:
            self.blocks.index.flush(self.blocks.found(), self.records, self._write)
        self.records.records = self.log.records

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
