"""The whole loop: vectors → differences → sealed records → a file → mapped → opened → the same vectors.

A store is a sealed log whose records are blocks of vectors, and its anchor. A put is stored as a whole or not at all:
its blocks count once the last of them is there, and the next put cuts off the blocks of an unfinished one. No function
keeps more in memory than a block, a window of a file, and a tuple for each block. spec: MN8.1 to MN8.8
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

from tmmu.core.extras import require_package
from tmmu.mnemosyne.failures import InvalidLog, InvalidVectors
from tmmu.mnemosyne.keys import MasterKey
from tmmu.mnemosyne.mapped_file import open_mapped_file
from tmmu.mnemosyne.npy_files import VectorSource
from tmmu.mnemosyne.regions import RegionStore
from tmmu.mnemosyne.rotation import rotate
from tmmu.mnemosyne.sealed_format import Frame
from tmmu.mnemosyne.sealed_log import LogState, SealedLog, SealedReader
from tmmu.mnemosyne.vector_blocks import (
    VectorBlock,
    VectorLayout,
    check_size,
    decode_block,
    default_block,
    encode_block,
)
from tmmu.runtime.events import EventLog
from tmmu.runtime.ram import total_ram

KEPT = (1 << 25) - (1 << 16)
"""The size of an array that is freed to raise glibc's trim threshold: nearly the largest size that it learns from.

Otherwise glibc returns each freed block to the system, which then clears each page of the next one, and a put takes
twice as long.
"""

Consume = Callable[[int, VectorBlock], None]
"""Called with the number of a block's first vector, and the block."""


@dataclass
class StoreContents:
    """The contents of a store.

    Attributes
    ----------
    layout
        None if there is neither a vector nor an empty put.
    vectors, blocks, puts
        Their numbers.
    content
        The bytes of the differences of these vectors, as they are stored.
    compressed, with_ids
        The number of blocks that are compressed, and of those that state token ids.
    unfinished
        The number of blocks of an unfinished put, which are not read.
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
    """How vectors are stored: the mode (default: the store's, or lossless), the vectors of a block, Zstandard."""

    mode: str | None = None
    block: int | None = None
    compress: bool = False


def default_anchor(path: str) -> str:
    """Return the default anchor of a store: beside the file itself, whatever name or link led to it."""
    return f"{os.path.realpath(path)}.anchor"


class VectorStore:
    """The vectors in the log at `path`, under a key, with its anchor (`default_anchor`).

    `events` is an event log of the operations on the log and on the regions through which it is read.
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
        """Read the whole store and return its contents once all of it was found authentic. O(store) time.

        `consume` is called with each block before that is known, and with the blocks of an unfinished put: only vectors
        up to the returned `vectors` count. It starts again at vector 0 if a writer intervened. The calls are made one
        after the other in another thread, while the next block is read and opened.

        Raises the errors of `SealedReader.open`, `InvalidLog` for a log that is not a store, and `RegionLost`.
        """
        with _call_in_thread(consume) as calls, self._regions() as regions:
            blocks, opened = _Blocks(self.path, calls), partial(open_mapped_file, regions)
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
        """Add vectors after the existing ones, all or none, and return the contents of the store.

        `acknowledged` is called with their number once they survive a loss of power. O(store + vectors) time.

        Raises the errors of `SealedLog.open`; `InvalidVectors` if the layout differs from the store's, if a mode does
        not accept the vectors, if the number of ids differs from that of vectors, and for a store that has vectors if
        `append` is False; MISSING_PACKAGE if the vectors are to be compressed and zstandard is not installed;
        TMMU_ALLOCATION_FAILURE if it cannot be written. Then the store is unchanged.
        """
        if options.compress:
            require_package("zstandard", "--zstd", "mnemosyne")
        blocks = _Blocks(self.path, None)
        with self._open(self.key, blocks) as log:
            there = blocks.found()
            if there.puts and not append:
                what = f"the store already has {there.vectors} vectors"
                raise InvalidVectors(what, "store", "append to it, or choose another name").in_file(self.path)
            layout = _check_layout(there.layout, vectors, options.mode)
            block = options.block or default_block(layout)
            check_size(layout, block)
            if ids is not None and ids.shape != (vectors.count,):
                what = f"expected {vectors.count} token ids, got an array of shape {ids.shape}"
                raise InvalidVectors(what, "token ids", "give one for each vector").in_file(vectors.name)
            for number, start in enumerate(range(0, max(vectors.count, 1), block)):
                stop = min(start + block, vectors.count)
                some = None if ids is None else ids[start:stop]
                token = there.vectors + start if some is None or not len(some) else int(some[0])
                data = encode_block(
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
        """Seal the store under another key, which opens it from then on; return the number of blocks.

        See `rotation`.
        """
        count = rotate(self.path, self.key, new, self.anchor, lambda key: self._open(key, _Blocks(self.path, None)))
        self.key = new
        return count

    def _open(self, key: MasterKey, blocks: _Blocks) -> SealedLog:
        """Open the log for writing, without the blocks of an unfinished put."""
        with self._regions() as regions:
            opened = partial(open_mapped_file, regions)
            log = SealedLog.open(self.path, key, self.anchor, blocks.visit, opened, events=self.events)
        try:
            log.discard(log.records - blocks.found().unfinished)
        except BaseException:
            log.abandon()
            raise
        blocks.discard()
        return log

    def _regions(self) -> RegionStore:
        """Create a store of regions for one pass over a file, within the memory available as it begins."""
        np.empty(KEPT, np.uint8)
        memory = total_ram()
        return RegionStore(lambda: memory, events=self.events)


@contextlib.contextmanager
def _call_in_thread(consume: Consume | None) -> Iterator[Consume | None]:
    """Make calls in a thread, in order, with at most two pending; all have returned once the `with` ends."""
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


def _check_layout(there: VectorLayout | None, vectors: VectorSource, mode: str | None) -> VectorLayout:
    """Return the layout of the vectors to put; raises `InvalidVectors` if it is not that of the store."""
    given = VectorLayout(mode or (there.mode if there else "lossless"), vectors.kind, vectors.width)
    if there is not None and there != given:
        what = f"vectors of {given} do not fit into a store of {there}"
        raise InvalidVectors(what, "vectors", "put them into another store").in_file(vectors.name)
    return given


class _Blocks:
    """The records of a log as blocks of vectors. Each is checked against those before it."""

    def __init__(self, name: str, consume: Consume | None) -> None:
        self._name, self._consume = name, consume
        self._begin()

    def _begin(self) -> None:
        self._whole, self._put = StoreContents(), StoreContents()
        self._left: int | None = None  # vectors left of the put in progress; None between two puts

    def found(self) -> StoreContents:
        """Return the contents so far."""
        self._whole.unfinished = self._put.blocks
        return self._whole

    def discard(self) -> None:
        """Drop the blocks of an unfinished put."""
        self._put, self._left = StoreContents(), None

    def visit(self, frame: Frame, data: bytes | memoryview) -> None:
        """Check and count the next record; number 0 starts again."""
        if frame.sequence == 0:
            self._begin()
        block, put = decode_block(data, self._name, f"record {frame.sequence}"), self._put
        expected = (put.blocks, block.vectors + block.left if self._left is None else self._left)
        layout = self._whole.layout or put.layout or block.layout
        if (block.number, block.vectors + block.left, block.layout) != (*expected, layout):
            raise InvalidLog("the block does not follow the one before", self._name, f"record {frame.sequence}")
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
    """Return the token ids of a block: those that were put, or the numbers of its vectors."""
    if block.ids is not None:
        return block.ids
    return np.arange(first, first + block.vectors, dtype=np.uint64)


def decoded(block: VectorBlock, name: str, first: int, out: NDArray[Any] | None = None) -> NDArray[Any]:
    """Decode the vectors of a block, into `out` if it is given.

    Raises `InvalidLog` if its bytes do not match its size.
    """
    try:
        return block.decode(out)
    except ValueError as error:
        raise InvalidLog(f"not a block of vectors ({error})", name, f"vectors from {first} on") from error
