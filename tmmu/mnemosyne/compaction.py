"""Copy the vectors of a store that were not deleted: over the store, which compacts it, or as a snapshot.

The copy is a log of its own, with new salts. Vectors keep their numbers and, bit for bit, the values that a reader
returns; blocks without a deleted vector are copied as they are. A copy takes the place of the store like one under
another key (`rotation`), with one statement of the anchor about both logs in between: wherever this is interrupted, the
store opens with the anchor as it is, with all its records or compacted, and the next writer ends it.
`tla/mnemosyne/Compaction.tla` is the model. spec: MN11.4 to MN11.8
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tmmu.core.canonical import remove
from tmmu.core.errors import TmmuError
from tmmu.mnemosyne import anchors
from tmmu.mnemosyne.failures import InvalidLog
from tmmu.mnemosyne.keys import MasterKey
from tmmu.mnemosyne.open_store import OpenStore
from tmmu.mnemosyne.placed_records import PlacedRecords
from tmmu.mnemosyne.rotation import name_beside, name_log, open_beside
from tmmu.mnemosyne.sealed_log import SealedLog, SealedReader, log_failure
from tmmu.mnemosyne.store_blocks import AT_A_TIME, StoreBlocks, StoreWriter
from tmmu.mnemosyne.store_index import Pairs, StoreContents, keep_last_of_each
from tmmu.mnemosyne.vector_blocks import VectorBlock, keep_vectors, pack_block


def compact(path: str, key: MasterKey, anchor: str, old: StoreWriter) -> StoreContents:
    """Write the store anew without its deleted vectors, and return its contents. O(store), and room for a second one.

    Nothing is written if no deleted vector is left in it. Raises the errors of `get`, `InvalidLog` if nothing was put,
    and TMMU_ALLOCATION_FAILURE if the store cannot be written. Then the store is unchanged.
    """
    found = old.blocks.found()
    if found.layout is None:
        raise InvalidLog("nothing was put into it", path, "record 0")
    old.log.sync()
    if not found.marked:
        return found
    with open_beside(path, key) as log:
        contents = _copy(OpenStore.of(path, old.blocks, old.records), log, key)
        log.end()
        anchors.store(anchor, anchors.encode_pair(key, old.log.anchor(), log.anchor()))
        old.log.log_compaction(log)
        name_log(log, path, path)
        anchors.store(anchor, log.statement())
    return contents


def write_snapshot(source: OpenStore, key: MasterKey, path: str, anchor: str) -> StoreContents:
    """Write the vectors of a store that is open for reading to a new store at `path`, and return its contents.

    Raises as `compact` does, and TMMU_ALLOCATION_FAILURE if there is a store already, or an anchor that an interrupted
    call has not left. Then nothing is written.
    """
    source.layout  # noqa: B018  # refuses a store without any
    if os.path.lexists(path):
        raise log_failure(path, "there is a file already", "choose a new name for the snapshot")
    if (stated := anchors.read(anchor)) is not None and not _is_interrupted(path, key, stated):
        what = "there is an anchor already, of another store"
        raise log_failure(anchor, what, "choose a new name for the snapshot")
    with open_beside(path, key) as log:
        contents = _copy(source, log, key)
        log.end()
        try:
            anchors.store(anchor, log.statement())
            name_log(log, path, source.path, is_new=True)
        except BaseException:
            if not os.path.lexists(path):
                remove(anchor)
            raise
    return contents


def _is_interrupted(path: str, key: MasterKey, stated: bytes) -> bool:
    """Return whether an anchor is about the new log that an interrupted snapshot has left beside its name."""
    beside = name_beside(path)
    try:
        with SealedReader.open(beside, key) as left:
            own = anchors.decode_statements(key, stated)
            return [each.log for each in own if each is not None] == [left.salt]
    except TmmuError:
        return False


def _copy(source: OpenStore, log: SealedLog, key: MasterKey) -> StoreContents:
    """Copy the vectors that were not deleted into an empty log, with their numbers, and return its contents."""
    target = StoreWriter(log, StoreBlocks(log.path, key), PlacedRecords(log.path, log.descriptor, key, 0))
    shadows = _Shadows(source)
    batch: list[VectorBlock] = []
    size, following = 0, 0
    for first, block, places in source.blocks():
        shadows.see(block, first, places)
        for part in _parts(block, first, places, following):
            batch.append(part)
            following = (following if part.first is None else part.first) + part.span
            size += len(part.content)
        if size >= AT_A_TIME:
            _put(target, batch)
            batch, size = [], 0
    if batch or not following:
        _put(target, batch or [VectorBlock(source.layout, 0, 0, 0, None, False, memoryview(b""))])
    numbers = source.contents.vectors
    if following < numbers:  # no other vector gets the numbers of the last ones
        target.delete(np.array([following], np.uint64), np.array([numbers], np.uint64))
    target.blocks.index.recent += shadows.cast()
    target.write_index()
    return target.blocks.found()


def _parts(block: VectorBlock, first: int, places: NDArray[np.int64], following: int) -> Iterator[VectorBlock]:
    """Yield the blocks of the vectors at these places. They state their numbers if these do not follow."""
    if len(places) == block.vectors and block.offsets is None and first == following:
        yield block
        return
    for part in keep_vectors(block, first, places):
        assert part.first is not None
        if part.first == following and part.span == part.vectors and not part.is_wide:
            part = part._replace(first=None, offsets=None)
        yield part
        following = following + part.span if part.first is None else part.first + part.span


def _put(target: StoreWriter, batch: list[VectorBlock]) -> None:
    """Put blocks."""
    left = sum(block.vectors for block in batch)
    encoded = []
    for number, block in enumerate(batch):
        left -= block.vectors
        encoded.append(pack_block(block._replace(number=number, left=left)))
    target.append_blocks(encoded)
    target.end_put()


class _Shadows:
    """Token ids whose last vector was deleted: an earlier vector with the id must not come back by it.

    The index of the copy has them as pairs with the number of the deleted vector. Memory: a byte for each number, and
    24 bytes for each such id, if the store has token ids.
    """

    def __init__(self, source: OpenStore) -> None:
        self._ids, self._numbers = (np.zeros(0, np.uint64) for _ in range(2))
        if any(True for _ in source.token_pairs()):
            self._collect(source)
        self._seen = np.full(len(self._ids), -1)

    def _collect(self, source: OpenStore) -> None:
        is_there = np.zeros(source.contents.vectors, np.bool_)
        for first, end in source.ranges():
            is_there[first:end] = True
        parts: list[Pairs] = [
            (ids[gone], of[gone]) for ids, of in source.token_pairs() if (gone := ~is_there[of]).any()
        ]
        for first, end in source.ranges_without_ids():
            implicit = np.uint64(first) + np.flatnonzero(~is_there[first:end]).astype(np.uint64)
            parts.append((implicit, implicit))
        if parts:
            self._ids, self._numbers = keep_last_of_each(parts)

    def see(self, block: VectorBlock, first: int, places: NDArray[np.int64]) -> None:
        """Take note of the vectors at these places of a block, which are copied."""
        if not len(self._ids):
            return
        numbers = block.numbers(first)[places]
        ids = numbers.astype(np.uint64) if block.ids is None else block.ids[places]
        at = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        is_one = self._ids[at] == ids
        np.maximum.at(self._seen, at[is_one], numbers[is_one])

    def cast(self) -> list[Pairs]:
        """Return the ids of which an earlier vector was copied and no later one, with the number that was deleted."""
        needed = (self._seen >= 0) & (self._seen < self._numbers.astype(np.int64))
        return [(self._ids[needed], self._numbers[needed])] if needed.any() else []
