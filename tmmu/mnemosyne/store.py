"""The whole loop: vectors → differences → sealed records → a file → mapped → opened → the same vectors.

A store is a sealed log whose records are blocks of vectors and their index, and its anchor. A put is stored as a whole
or not at all: its blocks count once the last of them is there, and the next put cuts off the blocks of an unfinished
one. `read` scans all of a store. `get` reads single vectors by the index (`open_store`), and a put begins at the last
root that the anchor covers. No function keeps more in memory than a block, a window of a file, and a tuple for each
block that it scans or puts. spec: MN8.1 to MN8.8, MN10.7, MN11.2, MN11.9
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tmmu.core.errors import TmmuError
from tmmu.core.extras import require_package
from tmmu.mnemosyne.compaction import compact, write_snapshot
from tmmu.mnemosyne.failures import InvalidLog, InvalidVectors
from tmmu.mnemosyne.keys import MasterKey
from tmmu.mnemosyne.mapped_file import open_mapped_file
from tmmu.mnemosyne.npy_files import VectorSource
from tmmu.mnemosyne.open_store import OpenStore
from tmmu.mnemosyne.placed_records import PlacedRecords
from tmmu.mnemosyne.rotation import rotate
from tmmu.mnemosyne.sealed_log import LogLook, LogState, SealedReader, log_failure
from tmmu.mnemosyne.store_blocks import AS_BEFORE, Consume, PutOptions, StoreBlocks, StoreWriter, open_regions
from tmmu.mnemosyne.store_index import StoreContents
from tmmu.mnemosyne.vector_blocks import VectorBlock, VectorLayout
from tmmu.runtime.events import EventLog


def default_anchor(path: str) -> str:
    """Return the default anchor of a store: beside the file itself, whatever name or link led to it."""
    return f"{os.path.realpath(path)}.anchor"


class VectorStore:
    """The vectors in the log at `path`, under a key or the key in a file, with its anchor (`default_anchor`).

    `events` is an event log of the operations on the log and on the regions through which it is read.

    A context manager: within it, single vectors are read and added.

        with VectorStore("store", key="key") as store:
            first, last, some = store.get(0), store.get(token_id=17), store[10:20]
            store.append(vectors)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        key: MasterKey | str | os.PathLike[str],
        anchor: str | os.PathLike[str] | None = None,
        events: EventLog | None = None,
    ) -> None:
        self.path, self.events = os.fspath(path), events
        self.key = key if isinstance(key, MasterKey) else MasterKey.load(key)
        self.anchor = default_anchor(self.path) if anchor is None else os.fspath(anchor)
        self._open_store: OpenStore | None = None

    def __enter__(self) -> Self:
        self._open_store = OpenStore(self.path, self.key, self.anchor, self.events)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        opened, self._open_store = self._opened(), None
        opened.close(has_failed=kind is not None)

    def _opened(self) -> OpenStore:
        if self._open_store is None:
            raise RuntimeError("single vectors are read and added within `with VectorStore(...) as store:`")
        return self._open_store

    def __len__(self) -> int:
        return self._opened().contents.there

    @property
    def layout(self) -> VectorLayout:
        """The properties that all vectors share. Raises `InvalidLog` if nothing was put yet."""
        return self._opened().layout

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return self._opened().iterate()

    def __getitem__(self, index: int | slice | Sequence[int]) -> NDArray[Any]:
        return self.get(index)

    def get(
        self, index: int | slice | Sequence[int] | NDArray[Any] | None = None, *, token_id: int | None = None
    ) -> NDArray[Any]:
        """Return a vector by its number, the last one with a token id, or several [k, width] by numbers or a slice.

        A slice has the vectors that were not deleted. All have the type that the layout returns; bfloat16 is returned
        as its bit patterns (uint16). Only the blocks that have them are read and decrypted. Raises `InvalidVectors` if
        there is no such vector; `NotAuthentic` and `LogTruncated` if a record that is read is not the one that was
        written there. spec: MN10.2, MN10.7, MN10.8
        """
        opened = self._open_store or self._opened()
        if token_id is None and type(index) is int:
            return opened.get_one(index)
        return opened.get(index, token_id)

    def append(
        self, rows: NDArray[Any], token_ids: Sequence[int] | NDArray[Any] | None = None, *, commit: bool = True
    ) -> int:
        """Add vectors [k, width], or one [width], and return how many were ever put: the number of the next one.

        When it returns, they survive a loss of power: the log was synced once. With `commit=False` they only do so
        after the next append, `flush` or the end of the `with`. The first call makes this process the only writer until
        then. Raises the errors of `put`. spec: MN10.9, MN10.10
        """
        return self._opened().append(rows, token_ids, commit)

    def delete(
        self, index: int | slice | Sequence[int] | NDArray[Any] | None = None, *, token_id: int | None = None
    ) -> int:
        """Delete vectors by their numbers, those of a slice that are there, or the last one with a token id.

        Returns how many were deleted. When it returns, that is acknowledged. No get returns them, other vectors keep
        their numbers, and the token id has no vector until one is put with it. The bytes are in the file until
        `compact`. Raises `InvalidVectors` if one is not there, and the errors of `put`. Then nothing is deleted.
        spec: MN11.1 to MN11.3
        """
        return self._opened().delete(index, token_id)

    def numbers(self, start: int = 0, end: int | None = None) -> NDArray[np.int64]:
        """Return the numbers from `start` on and before `end` that have a vector: those that were not deleted."""
        return self._opened().numbers(start, self._opened().contents.vectors if end is None else end)

    def compact(self) -> StoreContents:
        """Write the store anew without the vectors that were deleted, and return its contents. O(store) time.

        Readers that have it open go on reading it as it was. See `compaction`.
        """
        if not os.path.lexists(self.path):
            raise log_failure(
                self.path, "cannot be opened (No such file or directory)", "name the store that was meant"
            )
        writer = StoreWriter.open(self.path, self.key, self.anchor, self.events)
        with writer.log:
            return compact(self.path, self.key, self.anchor, writer)

    def snapshot(self, path: str | os.PathLike[str], anchor: str | os.PathLike[str] | None = None) -> StoreContents:
        """Write the vectors that are there to a new store at `path` under the same key; return its contents.

        It has them whatever becomes of this store; a writer need not wait for it. O(store) time. See `compaction`.
        """
        name = os.fspath(path)
        source = OpenStore(self.path, self.key, self.anchor, None)
        try:
            return write_snapshot(source, self.key, name, default_anchor(name) if anchor is None else os.fspath(anchor))
        finally:
            source.close(has_failed=False)

    def flush(self) -> None:
        """Sync what was added, and then the anchor: it is acknowledged."""
        self._opened().flush()

    def check_index(self) -> None:
        """Check that the index leads to every vector and every token id; see `OpenStore.check_index`."""
        self._opened().check_index()

    def read(self, consume: Consume | None = None, *, is_checked: bool = False) -> tuple[StoreContents, LogState]:
        """Read the whole store and return its contents once all of it was found authentic. O(store) time.

        With `is_checked` it is also checked that the index leads to all of it: see `OpenStore.check_index`.

        `consume` is called with each block before that is known, and with the blocks of an unfinished put: only vectors
        up to the returned `there` count. It is called with how many vectors were before the block, and the block, whose
        `kept` are the places of the vectors that were not deleted. It starts again at 0 if a writer intervened. The
        calls are made one after the other in another thread, while the next block is read and opened.

        Raises the errors of `SealedReader.open`, `InvalidLog` for a log that is not a store, and `RegionLost`.
        """
        while True:
            kept = _KeptVectors(self, consume)
            with _call_in_thread(None if consume is None else kept.take) as calls, open_regions(self.events) as regions:
                blocks = StoreBlocks(self.path, self.key, calls)
                look = LogLook(blocks.visit, partial(open_mapped_file, regions), blocks.begin_at_the_start)
                with SealedReader.open(self.path, self.key, self.anchor, look) as reader:
                    found, state = blocks.found(), reader.state
                    if is_checked:
                        records = PlacedRecords(self.path, reader.descriptor, self.key, len(reader))
                        OpenStore.of(self.path, blocks, records).check_index()
            if kept.is_of(found):
                return found, state

    def put(
        self,
        vectors: VectorSource,
        options: PutOptions = AS_BEFORE,
        ids: NDArray[np.uint64] | None = None,
        *,
        append: bool = True,
        acknowledged: Callable[[int], None] | None = None,
    ) -> StoreContents:
        """Add vectors after the existing ones, all or none, and return the contents of the store.

        `acknowledged` is called with their number once they survive a loss of power. O(vectors) time, and O(store) if
        the store has no index.

        Raises the errors of `SealedLog.open`; `InvalidVectors` if the layout differs from the store's, if a mode does
        not accept the vectors, if the number of ids differs from that of vectors, and for a store that has vectors if
        `append` is False; MISSING_PACKAGE if the vectors are to be compressed and zstandard is not installed;
        TMMU_ALLOCATION_FAILURE if it cannot be written. Then the store is unchanged.
        """
        if options.compress:
            require_package("zstandard", "--zstd", "mnemosyne")
        writer = StoreWriter.open(self.path, self.key, self.anchor, self.events)
        with writer.log:
            there = writer.blocks.found()
            if there.puts and not append:
                what = f"the store already has {there.vectors} vectors"
                raise InvalidVectors(what, "store", "append to it, or choose another name").in_file(self.path)
            writer.put(vectors, options, ids)
            writer.log.sync()
            if acknowledged is not None:
                acknowledged(vectors.count)
        return writer.blocks.found()

    def rotate(self, new: MasterKey) -> int:
        """Seal the store under another key, which opens it from then on; return the number of blocks.

        See `rotation`.
        """
        count = rotate(
            self.path, self.key, new, self.anchor,
            lambda key: StoreWriter.open(self.path, key, self.anchor, self.events, is_whole=True).log,
        )  # fmt: skip
        self.key = new
        return count


class _KeptVectors:
    """Passes the blocks of a scan on, with the vectors that were not deleted before the scan began."""

    def __init__(self, store: VectorStore, consume: Consume | None) -> None:
        self._consume = consume
        self._opened: OpenStore | None = None
        self._error: TmmuError | None = None
        self._row, self._following = 0, 0
        if consume is not None and os.path.lexists(store.path):
            try:
                self._opened = OpenStore(store.path, store.key, store.anchor, None)
            except TmmuError as error:
                self._error = error  # usually the scan fails, and says more
        self._marked = self._opened.contents.marked if self._opened is not None else 0

    def take(self, first: int, block: VectorBlock) -> None:
        """Pass a block on."""
        assert self._consume is not None
        if first < self._following or not first:
            self._row = 0  # from the beginning
        block = block._replace(first=first)
        if self._marked:
            places = self._find_kept(block)
            if len(places) < block.vectors:
                block = block._replace(kept=places)
        self._consume(self._row, block)
        self._row += block.vectors if block.kept is None else len(block.kept)
        self._following = first + block.span

    def _find_kept(self, block: VectorBlock) -> NDArray[np.int64]:
        assert self._opened is not None
        assert block.first is not None
        numbers = block.numbers(block.first)
        is_kept = np.ones(len(numbers), np.bool_)
        at, end = block.first, block.first + block.span
        while at < end:
            is_deleted, until = self._opened.is_deleted(at)
            if is_deleted:
                is_kept[(at <= numbers) & (numbers < until)] = False
            at = until
        return np.flatnonzero(is_kept)

    def is_of(self, found: StoreContents) -> bool:
        """Return whether these are the deletions of the scan. Close the store."""
        if self._error is not None and found.marked:
            raise self._error
        if self._opened is None:
            return self._consume is None or not found.marked
        self._opened.close(has_failed=False)
        return self._opened.contents.deleted == found.deleted


AT_A_TIME = 1 << 20
"""About how many bytes of blocks are passed to another thread at a time."""


@contextlib.contextmanager
def _call_in_thread(consume: Consume | None) -> Iterator[Consume | None]:
    """Make calls in a thread, in order, with about three MiB of blocks pending; all have returned at the end."""
    if consume is None:
        yield None
        return
    calls: deque[Future[None]] = deque()
    blocks: list[tuple[int, VectorBlock]] = []
    size = 0
    with ThreadPoolExecutor(1) as thread:

        def pass_on() -> None:
            nonlocal blocks, size
            if len(calls) == 2:
                calls.popleft().result()
            calls.append(thread.submit(_call_each, consume, blocks))
            blocks, size = [], 0

        def call(first: int, block: VectorBlock) -> None:
            nonlocal size
            blocks.append((first, block))
            size += len(block.content)
            if size >= AT_A_TIME:
                pass_on()

        yield call
        pass_on()
        for each in calls:
            each.result()


def _call_each(consume: Consume, blocks: list[tuple[int, VectorBlock]]) -> None:
    for first, block in blocks:
        consume(first, block)


def token_ids(block: VectorBlock, first: int) -> NDArray[np.uint64]:
    """Return the token ids of a block: those that were put, or the numbers of its vectors, of which `first` is one.

    `first` is not used if the block states its first number. Only of the vectors that were not deleted.
    """
    ids = block.ids
    if ids is None:
        ids = block.numbers(first if block.first is None else block.first).astype(np.uint64)
    return ids if block.kept is None else ids[block.kept]


def decoded(block: VectorBlock, name: str, first: int, out: NDArray[Any] | None = None) -> NDArray[Any]:
    """Decode the vectors of a block that were not deleted; all of them into `out` if it is given.

    Raises `InvalidLog` if its bytes do not match its size.
    """
    try:
        rows = block.decode(out)
        return rows if block.kept is None else rows[block.kept]
    except ValueError as error:
        raise InvalidLog(f"not a block of vectors ({error})", name, f"vectors from {first} on") from error
