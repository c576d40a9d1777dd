"""Stores for tests, and a second reader of them, from the pages alone: the sealed log's, and sums of patterns."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.support.sealed_logs import key, second_reader
from tmmu.mnemosyne.npy_files import ArrayVectors
from tmmu.mnemosyne.store import VectorStore, decoded, token_ids
from tmmu.mnemosyne.store_blocks import PutOptions
from tmmu.mnemosyne.store_index import StoreContents
from tmmu.mnemosyne.vector_blocks import VectorBlock

KINDS = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "bfloat16", "f4", "f8")


def store(folder: Path) -> VectorStore:
    return VectorStore(folder / "log", key(), folder / "anchor")


def put(folder: Path, vectors: NDArray[Any], ids: NDArray[Any] | None = None, **options: Any) -> StoreContents:
    return store(folder).put(ArrayVectors(vectors), PutOptions(**options), ids)


def got(opened: VectorStore) -> tuple[NDArray[Any], NDArray[np.uint64], StoreContents]:
    """The vectors (of bfloat16 the patterns), their token ids, and what else there is."""
    rows: list[NDArray[Any]] = []
    ids: list[NDArray[np.uint64]] = []

    def consume(first: int, block: VectorBlock) -> None:
        if first == 0:  # at the beginning, or once more
            rows.clear()
            ids.clear()
        assert first == sum(map(len, rows))
        rows.append(decoded(block, "store", first))
        ids.append(token_ids(block, first))

    found, _ = opened.read(consume)
    whole = np.concatenate(rows)[: found.there] if rows else np.zeros((0, 0))
    return whole, np.concatenate(ids)[: found.there] if ids else np.zeros(0, np.uint64), found


def second_vectors(log: bytes) -> tuple[NDArray[Any], list[int], list[tuple[int, int]]]:
    """Patterns of a lossless store without compression, token ids (-1 where none are stated), and places of blocks.

    A place is the number of a block within its put, and how many vectors are left after it.
    """
    rows: list[NDArray[Any]] = []
    ids: list[int] = []
    places: list[tuple[int, int]] = []
    for part in second_reader(log):
        if part.record is None:
            continue
        data = part.record.data
        if data[0] == 2:  # of the index
            continue
        version, mode, flags, kind, width, count, number, left = struct.unpack(">BBBBIIIQ", data[:24])
        assert (version, mode, flags & 2) == (1, 0, 0)
        at = 24
        first = [-1] * count
        if flags & 1:
            first, at = list(struct.unpack(f"<{count}Q", data[at : at + 8 * count])), at + 8 * count
            assert not count or part.record.token == first[0]
        else:
            assert part.record.token == len(ids)
        size = {"bfloat16": 2}.get(KINDS[kind]) or np.dtype(KINDS[kind]).itemsize
        assert len(data) == at + count * width * size
        pattern = np.zeros(width, object)
        for i in range(count):
            row = np.frombuffer(data, f"<u{size}", width, at + i * width * size).astype(object)
            pattern = (pattern + row) % (1 << 8 * size)
            rows.append(pattern.astype(f"u{size}"))
        ids += first
        places.append((number, left))
    return np.array(rows), ids, places
