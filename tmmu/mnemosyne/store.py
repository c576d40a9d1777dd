"""The whole loop: vectors → differences → sealed records → a file → mapped → opened → the same vectors.

A store is a sealed log whose records are blocks of vectors and their index, and its anchor. A put is stored as a whole
or not at all: its blocks count once the last of them is there, and the next put cuts off the blocks of an unfinished
one. `read` scans all of a store. `get` reads single vectors by the index (`open_store`), and a put begins at the last
root that the anchor covers. No function keeps more in memory than a block, a window of a file, and a tuple for each
block that it scans or puts. spec: MN8.1 to MN8.8, MN10.7
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

from tmmu.core.extras import require_package
from tmmu.mnemosyne.failures import InvalidLog, InvalidVectors
from tmmu.mnemosyne.keys import MasterKey
from tmmu.mnemosyne.mapped_file import open_mapped_file
from tmmu.mnemosyne.npy_files import VectorSource
from tmmu.mnemosyne.open_store import OpenStore
from tmmu.mnemosyne.rotation import rotate
from tmmu.mnemosyne.sealed_log import LogLook, LogState, SealedReader
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
        return self._opened().contents.vectors

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

        They have the type that the layout returns; bfloat16 is returned as its bit patterns (uint16). Only the blocks
        that have them are read and decrypted. Raises `InvalidVectors` if there is no such vector; `NotAuthentic` and
        `LogTruncated` if a record that is read is not the one that was written there. spec: MN10.2, MN10.7, MN10.8
        """
        opened = self._open_store or self._opened()
        if token_id is None and type(index) is int:
            return opened.get_one(index)
        return opened.get(index, token_id)

    def append(
        self, rows: NDArray[Any], token_ids: Sequence[int] | NDArray[Any] | None = None, *, commit: bool = True
    ) -> int:
        """Add vectors [k, width], or one [width], and return how many there are now.

        When it returns, they survive a loss of power: the log was synced once. With `commit=False` they only do so
        after the next append, `flush` or the end of the `with`. The first call makes this process the only writer until
        then. Raises the errors of `put`. spec: MN10.9, MN10.10
        """
        return self._opened().append(rows, token_ids, commit)

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
        up to the returned `vectors` count. It starts again at vector 0 if a writer intervened. The calls are made one
        after the other in another thread, while the next block is read and opened.

        Raises the errors of `SealedReader.open`, `InvalidLog` for a log that is not a store, and `RegionLost`.
        """
        with _call_in_thread(consume) as calls, open_regions(self.events) as regions:
            blocks = StoreBlocks(self.path, self.key, calls)
            look = LogLook(blocks.visit, partial(open_mapped_file, regions), blocks.begin_at_the_start)
            with SealedReader.open(self.path, self.key, self.anchor, look) as reader:
                state = reader.state
                if is_checked:
                    OpenStore.of(self.path, self.key, blocks, reader).check_index()
        return blocks.found(), state

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
