"""The loop: vectors → differences → sealed records → a file → mapped → opened → the same vectors.

A store is a sealed log whose records are blocks of vectors, and its anchor. A put is there as a whole or not at all:
its blocks count once the last of them is there, and what a put has left that did not come to its end is cut off by
the next. Nothing here keeps more than a block and a window of a file in memory, and a tuple for each block.
spec: MN8.1 to MN8.8
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tmmu.mnemosyne.failures import InvalidLog, InvalidVectors
from tmmu.mnemosyne.keys import MasterKey
from tmmu.mnemosyne.mapped_file import mapped_file
from tmmu.mnemosyne.npy_files import VectorSource
from tmmu.mnemosyne.regions import RegionStore
from tmmu.mnemosyne.rotation import rotate
from tmmu.mnemosyne.sealed_format import Frame
from tmmu.mnemosyne.sealed_log import LogState, SealedLog, SealedReader
from tmmu.mnemosyne.vector_blocks import VectorBlock, VectorLayout, check_size, default_block, packed, parsed
from tmmu.runtime.events import EventLog
from tmmu.runtime.ram import total_ram

KEPT = (1 << 25) - (1 << 16)
"""glibc gives blocks back to the system, which clears each page of the next one, unless a larger one was freed before:
this is nearly the largest that it learns from. Without it a put takes twice as long."""

Consume = Callable[[int, VectorBlock], None]
"""What is called with each block and the number of its first vector."""


@dataclass
class StoreContents:
    """What a store has.

    Attributes
    ----------
    layout
        None where there is no vector, nor was there an empty put.
    vectors, blocks, puts
        How many there are.
    content
        The bytes of the differences of these vectors, as they are stored.
    compressed, with_ids
        The blocks that are compressed, and those that state token ids.
    unfinished
        The blocks of a put that did not come to its end, which are not read.
    """

    layout: VectorLayout | None = None
    vectors: int = 0
    blocks: int = 0
    puts: int = 0
    content: int = 0
    compressed: int = 0
    with_ids: int = 0
    unfinished: int = 0

    @property
    def raw(self) -> int:
        """The bytes of the vectors as they were put."""
        layout = self.layout
        return 0 if layout is None else self.vectors * layout.width * layout.given.itemsize


@dataclass(frozen=True)
class PutOptions:
    """How vectors are stored: the mode (the store's, or lossless, if not given), the vectors of a block, Zstandard."""

    mode: str | None = None
    block: int | None = None
    compress: bool = False


def default_anchor(path: str) -> str:
    """The anchor of a store where none is named: beside the file itself, under whatever name it was reached."""
    return f"{os.path.realpath(path)}.anchor"


class VectorStore:
    """The vectors in the log at `path`, under a key, with its anchor (`default_anchor`).

    `events` is an event log, in which what is done to the log and to the regions through which it is read is written.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        key: MasterKey,
        anchor: str | os.PathLike[str] | None = None,
        events: EventLog | None = None,
    ) -> None:
        self.path, self.key, self.events = os.fspath(path), key, events
        self.anchor = default_anchor(self.path) if anchor is None else os.fspath(anchor)

    def read(self, consume: Consume | None = None) -> tuple[StoreContents, LogState]:
        """What there is, once all of it was found authentic; O(store) time.

        `consume` is called with each block before that is known, and with those of a put that did not come to its end:
        what it was given counts up to `vectors` alone. It is called from vector 0 on again where a writer came between.
        The calls come one after the other, in another thread, while the next block is read and opened.
        Errors: those of `SealedReader.open`, `InvalidLog` for a log that is no store, `RegionLost`.
        """
        with _behind(consume) as calls, self._regions() as regions:
            blocks, opened = _Blocks(self.path, calls), partial(mapped_file, regions)
            with SealedReader.open(self.path, self.key, self.anchor, blocks.visit, opened) as reader:
                state = reader.state
        return blocks.found(), state

    def put(
        self,
        vectors: VectorSource,
        options: PutOptions = PutOptions(),
        ids: NDArray[np.uint64] | None = None,
        *,
        append: bool = True,
        acknowledged: Callable[[int], None] | None = None,
    ) -> StoreContents:
        """Add vectors after those that there are, all of them or none, and return what there is then.

        `acknowledged` is called with their number once they survive a loss of power. O(store + vectors) time.

        Errors: those of `SealedLog.open`; `InvalidVectors` for vectors of another layout than the store's, which a mode
        does not take, or with more or fewer ids than vectors, and for a store that has vectors where nothing is to be
        appended; TMMU_ALLOCATION_FAILURE where it cannot be written. Then the store is as it was.
        """
        blocks = _Blocks(self.path, None)
        with self._opened(self.key, blocks) as log:
            there = blocks.found()
            if there.puts and not append:
                what = f"it has {there.vectors} vectors already"
                raise InvalidVectors(what, "store", "append to it, or choose another name").in_file(self.path)
            layout = _same(there.layout, vectors, options.mode)
            block = options.block or default_block(layout)
            check_size(layout, block)
            if ids is not None and ids.shape != (vectors.count,):
                what = f"{ids.shape} token ids of {vectors.count} vectors"
                raise InvalidVectors(what, "token ids", "give one for each vector").in_file(vectors.name)
            for number, start in enumerate(range(0, max(vectors.count, 1), block)):
                stop = min(start + block, vectors.count)
                some = None if ids is None else ids[start:stop]
                token = there.vectors + start if some is None or not len(some) else int(some[0])
                data = packed(
                    layout, vectors.rows(start, stop), number, vectors.count - stop, some, compress=options.compress,
                    first=start,
                )  # fmt: skip
                log.append(token, data)
                blocks.visit(Frame(b"R", len(data), b"", log.records - 1, token), data)
            log.sync()
            if acknowledged is not None:
                acknowledged(vectors.count)
        return blocks.found()

    def rotate(self, new: MasterKey) -> int:
        """Seal it under another key, under which it is opened from then on, and return its blocks. See `rotation`."""
        count = rotate(self.path, self.key, new, self.anchor, lambda key: self._opened(key, _Blocks(self.path, None)))
        self.key = new
        return count

    def _opened(self, key: MasterKey, blocks: _Blocks) -> SealedLog:
        """The log, open for writing, without what a put has left that did not come to its end."""
        with self._regions() as regions:
            opened = partial(mapped_file, regions)
            log = SealedLog.open(self.path, key, self.anchor, blocks.visit, opened, events=self.events)
        try:
            log.discard(log.records - blocks.found().unfinished)
        except BaseException:
            log.abandon()
            raise
        blocks.discard()
        return log

    def _regions(self) -> RegionStore:
        """A store of regions for one pass over a file, within the memory that there is as it begins."""
        np.empty(KEPT, np.uint8)
        memory = total_ram()
        return RegionStore(lambda: memory, events=self.events)


@contextlib.contextmanager
def _behind(consume: Consume | None) -> Iterator[Consume | None]:
    """Calls that are made in a thread, in order, at most two behind; all of them once the `with` ends."""
    if consume is None:
        yield None
        return
    calls: deque[Future[None]] = deque()
    with ThreadPoolExecutor(1) as thread:

        def call(first: int, block: VectorBlock) -> None:
            if len(calls) == 2:
                calls.popleft().result()
            calls.append(thread.submit(consume, first, block))

        yield call
        for each in calls:
            each.result()


def _same(there: VectorLayout | None, vectors: VectorSource, mode: str | None) -> VectorLayout:
    """The layout of what is put, which must be that of the store."""
    given = VectorLayout(mode or (there.mode if there else "lossless"), vectors.kind, vectors.width)
    if there is not None and there != given:
        what = f"vectors of {given} do not fit into a store of {there}"
        raise InvalidVectors(what, "vectors", "put them into another store").in_file(vectors.name)
    return given


class _Blocks:
    """The records of a log as blocks of vectors, each checked against those before it."""

    def __init__(self, name: str, consume: Consume | None) -> None:
        self._name, self._consume = name, consume
        self._begin()

    def _begin(self) -> None:
        self._whole, self._put = StoreContents(), StoreContents()
        self._left: int | None = None  # of the put that goes on; None between two

    def found(self) -> StoreContents:
        """What there is by now."""
        self._whole.unfinished = self._put.blocks
        return self._whole

    def discard(self) -> None:
        """The blocks of a put that did not come to its end are gone."""
        self._put, self._left = StoreContents(), None

    def visit(self, frame: Frame, data: bytes | memoryview) -> None:
        """The next record; number 0 begins anew."""
        if frame.sequence == 0:
            self._begin()
        block, put = parsed(data, self._name, f"record {frame.sequence}"), self._put
        expected = (put.blocks, block.vectors + block.left if self._left is None else self._left)
        layout = self._whole.layout or put.layout or block.layout
        if (block.number, block.vectors + block.left, block.layout) != (*expected, layout):
            raise InvalidLog("its blocks do not follow each other", self._name, f"record {frame.sequence}")
        if self._consume is not None:
            self._consume(self._whole.vectors + put.vectors, block)
        self._left = block.left
        put.layout, put.vectors, put.blocks = block.layout, put.vectors + block.vectors, put.blocks + 1
        put.content += len(block.content)
        put.compressed += block.is_compressed
        put.with_ids += block.ids is not None
        if not block.left:
            whole = self._whole
            whole.layout, whole.puts = put.layout, whole.puts + 1
            whole.vectors, whole.blocks, whole.content = (
                whole.vectors + put.vectors, whole.blocks + put.blocks, whole.content + put.content,
            )  # fmt: skip
            whole.compressed, whole.with_ids = whole.compressed + put.compressed, whole.with_ids + put.with_ids
            self.discard()


def token_ids(block: VectorBlock, first: int) -> NDArray[np.uint64]:
    """The token ids of a block: those that were put, or the numbers of its vectors."""
    if block.ids is not None:
        return block.ids
    return np.arange(first, first + block.vectors, dtype=np.uint64)


def decoded(block: VectorBlock, name: str, first: int, out: NDArray[Any] | None = None) -> NDArray[Any]:
    """The vectors of a block, in `out` if it is given. `InvalidLog` where its bytes are not those of so many."""
    try:
        return block.decoded(out)
    except ValueError as error:
        raise InvalidLog(f"it is no block of vectors ({error})", name, f"vectors from {first} on") from error
