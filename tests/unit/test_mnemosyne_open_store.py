"""Single vectors: read by the index under the anchored root, and added with one sync.

spec: MN10.1 to MN10.10
"""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.sealed_logs import SECRET, Part, key, second_reader
from tests.support.stored_vectors import got, put, store
from tmmu.core.errors import TmmuError
from tmmu.mnemosyne import VectorStore, sealed_log, store_index
from tmmu.mnemosyne.npy_files import ArrayVectors
from tmmu.mnemosyne.sealed_log import SealedLog
from tmmu.mnemosyne.store_blocks import StoreWriter
from tmmu.mnemosyne.store_index import StoreContents, StoreIndex, encode_root
from tmmu.mnemosyne.vector_blocks import VectorLayout, encode_block

ROWS = (np.arange(4000).reshape(500, 8) * 7919 % 65521).astype(np.uint16)
LAYOUT = VectorLayout("lossless", "uint16", 8)


def code(call: Callable[[], object]) -> str:
    with pytest.raises(TmmuError) as refused:
        call()
    return refused.value.code_id


def one(folder: Path, index: int | None = None, token: int | None = None) -> NDArray[Any]:
    with store(folder) as opened:
        return opened.get(index, token_id=token)


def records(folder: Path) -> list[Part]:
    """The records of a log by a second reader, with their bytes' ranges."""
    return [part for part in second_reader((folder / "log").read_bytes()) if part.record]


def small_index(patch: pytest.MonkeyPatch) -> None:
    """An index of several levels, pages and fences for few vectors."""
    for name, value in {"TAIL": 300, "FANOUT": 3, "PAIRS": 4, "FENCES": 2, "MERGED": 64, "CACHED": 2}.items():
        patch.setattr(store_index, name, value)


@pytest.mark.parametrize("is_small", [False, True])
@pytest.mark.parametrize(
    ("kind", "options"),
    [("uint16", {}), ("float32", {"compress": True}), ("float32", {"mode": "int8"}), ("float32", {"mode": "float"})],
)
def test_each_vector_is_read_by_its_number_and_its_last_token_id(
    kind: str, options: dict[str, Any], is_small: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Puts of any size, with ids and without, and appends by a process that reads; also through several levels.

    spec: MN10.1, MN10.4, MN10.5, MN10.6, MN10.7, MN10.8
    """
    if is_small:
        small_index(monkeypatch)
    rows, choose = ROWS.astype(kind), np.random.default_rng(5)
    at, last = 0, dict[int, int]()
    for count, has_ids in ((40, False), (7, True), (0, False), (90, True), (1, False)):
        ids = choose.integers(30, 99, count).astype(np.uint64) if has_ids else None
        put(tmp_path, rows[at : at + count], ids, block=int(choose.integers(1, 9)), **options)
        last |= {int(token): at + n for n, token in enumerate(range(at, at + count) if ids is None else ids)}
        at += count
    with store(tmp_path) as opened:
        for n in range(25):
            ids = choose.integers(30, 99, n % 3).astype(np.uint64) if n % 2 else None
            opened.append(rows[at : at + n % 3], ids)
            last |= {int(token): at + k for k, token in enumerate(range(at, at + n % 3) if ids is None else ids)}
            at += n % 3
            assert len(opened) == at
        here = opened[:]
    whole, _, found = got(store(tmp_path))
    assert found.vectors == at
    assert np.array_equal(whole, here)
    if not options.get("mode"):
        assert np.array_equal(whole, rows[:at])
    with store(tmp_path) as opened:
        opened.check_index()
        for index in range(-at, at):
            assert np.array_equal(opened.get(index), whole[index])
        for token in range(100):
            if token in last:
                assert np.array_equal(opened.get(token_id=token), whole[last[token]]), token
            else:
                assert code(partial(opened.get, token_id=token)) == "INVALID_VECTORS"
        assert np.array_equal(opened[3:50:7], whole[3:50:7])
        assert np.array_equal(opened[[5, -1, 5]], whole[[5, -1, 5]])
        assert np.array_equal(np.array(list(opened)), whole)
    if is_small:
        kinds = {part.record.data[1] for part in records(tmp_path) if part.record and part.record.data[0] == 2}
        assert kinds == {store_index.NODE, store_index.ROOT, store_index.PAGE, store_index.FENCE}


def test_what_there_is_not_is_refused(tmp_path: Path) -> None:
    """spec: MN10.8"""
    put(tmp_path, ROWS[:5])
    with store(tmp_path) as opened:
        for call in (lambda: opened.get(5), lambda: opened.get(-6), lambda: opened.get([0, 9]),
                     lambda: opened.get(token_id=5), lambda: opened.get(token_id=-1)):  # fmt: skip
            assert code(call) == "INVALID_VECTORS"
        for wrong in ((), (1.5,)):
            with pytest.raises(TypeError):
                opened.get(*([wrong] if wrong else ()))
        with pytest.raises(TypeError, match="both"):
            opened.get(1, token_id=1)
        assert code(lambda: opened.append(ROWS[:2, :3])) == "INVALID_VECTORS"
        assert np.array_equal(opened.get(4), ROWS[4])  # it goes on
        assert opened.append(ROWS[5]) == 6
    with pytest.raises(RuntimeError, match="within"):
        store(tmp_path).get(0)
    (tmp_path / "log").unlink()
    with pytest.raises(TmmuError) as refused:
        one(tmp_path, 0)
    assert refused.value.code_id == "ROLLED_BACK"


class Counted:
    """The bytes that `os.pread` returns meanwhile."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.bytes, read = 0, os.pread

        def counting(descriptor: int, length: int, offset: int) -> bytes:
            data = read(descriptor, length, offset)
            self.bytes += len(data)
            return data

        patch.setattr(os, "pread", counting)


def measured(folder: Path, count: int, patch: pytest.MonkeyPatch) -> tuple[int, int, int]:
    """Bytes read to open a store of that many vectors and for one of them, and the peak of memory of both."""
    rows = np.broadcast_to(ROWS[:1], (count, 8))
    put(folder, rows, block=8)
    one(folder, 3)
    counted = Counted(patch)
    tracemalloc.start()
    with store(folder) as opened:
        to_open = counted.bytes
        opened.get(count * 2 // 3)
        peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return to_open, counted.bytes - to_open, peak


def test_a_get_takes_as_many_bytes_and_as_much_memory_of_a_store_a_hundred_times_as_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the block of the vector is read, and the last root with what is after it. spec: MN10.2, MN10.7"""
    results = []
    for count in (800, 80_000):
        (tmp_path / str(count)).mkdir()
        with monkeypatch.context() as patch:
            results.append(measured(tmp_path / str(count), count, patch))
    (small, block, memory), (large, of_large, of_more) = results
    assert block == of_large == 24 + 8 * 16 + 29 + 16
    assert large <= 2 * store_index.TAIL + 4096
    assert small <= large  # a small store is not as long as what is read at an end
    assert abs(of_more - memory) < 2 * store_index.TAIL


def flipped(path: Path, at: int) -> Iterator[None]:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    yield
    data[at] ^= 1
    path.write_bytes(data)


def test_every_byte_that_is_read_is_authenticated(tmp_path: Path) -> None:
    """The frame, the ciphertext and the tag of a block, of a root and of the anchor. spec: MN10.1, MN10.2"""
    put(tmp_path, ROWS[:40], np.arange(40, dtype=np.uint64), block=4)
    parts = records(tmp_path)
    block, root = parts[5], parts[-1]
    assert root.record is not None
    assert root.record.token == store_index.ROOT_TOKEN
    for at in (*range(block.start, block.start + 29), *range(block.start + 29, block.stop, 9), block.stop - 1):
        for _ in flipped(tmp_path / "log", at):
            assert code(lambda: one(tmp_path, 21)) == "NOT_AUTHENTIC", at
            assert np.array_equal(one(tmp_path, 19), ROWS[19])
    for at in range(root.start, root.stop, 19):
        for _ in flipped(tmp_path / "log", at):
            assert code(lambda: one(tmp_path, 21)) in ("NOT_AUTHENTIC", "LOG_TRUNCATED"), at
    for at in range(0, os.path.getsize(tmp_path / "anchor"), 3):
        for _ in flipped(tmp_path / "anchor", at):
            assert code(lambda: one(tmp_path, 21)) in ("NOT_AUTHENTIC", "INVALID_LOG"), at
    for page in parts[-3:-1]:
        for at in range(page.start, page.stop, 99):
            for _ in flipped(tmp_path / "log", at):
                assert code(lambda: one(tmp_path, token=21)) == "NOT_AUTHENTIC", at


def test_blocks_that_were_moved_and_files_that_are_older_or_of_others_are_refused(tmp_path: Path) -> None:
    """Exchanged in the file, or taken from another store under the same key. spec: MN10.2, MN10.3"""
    log, anchor = tmp_path / "log", tmp_path / "anchor"
    put(tmp_path, ROWS[:40], block=4)
    older, of_older = log.read_bytes(), anchor.read_bytes()
    put(tmp_path, ROWS[40:80], block=4)
    whole, of_whole = log.read_bytes(), anchor.read_bytes()
    one_part, other = records(tmp_path)[2:4]
    log.write_bytes(
        whole[: one_part.start] + whole[other.start : other.stop] + whole[one_part.start : one_part.stop]
        + whole[other.stop :]
    )  # fmt: skip
    for index in (9, 13):
        assert code(partial(one, tmp_path, index)) == "NOT_AUTHENTIC"
    assert np.array_equal(one(tmp_path, 17), ROWS[17])  # what is not read is not looked at
    assert code(lambda: got(store(tmp_path))) == "NOT_AUTHENTIC"
    log.write_bytes(older)
    assert code(lambda: one(tmp_path, 1)) == "ROLLED_BACK"
    log.write_bytes(whole[: len(older) + 500])
    assert code(lambda: one(tmp_path, 1)) == "LOG_TRUNCATED"
    log.write_bytes(older)
    anchor.write_bytes(of_older)
    put(tmp_path, ROWS[80:120], block=4)  # a second history of the same length
    assert np.array_equal(one(tmp_path, 41), ROWS[81])
    anchor.write_bytes(of_whole)
    assert code(lambda: one(tmp_path, 1)) == "ROLLED_BACK"
    log.write_bytes(whole)
    second = tmp_path / "second"
    second.mkdir()
    put(second, ROWS[:80], block=4)
    of_second = (second / "log").read_bytes()
    part = records(second)[2]
    log.write_bytes(whole[: one_part.start] + of_second[part.start : part.stop] + whole[one_part.stop :])
    assert code(lambda: one(tmp_path, 9)) == "NOT_AUTHENTIC"
    log.write_bytes(of_second)
    assert code(lambda: one(tmp_path, 9)) in ("NOT_AUTHENTIC", "ROLLED_BACK")


def test_a_file_that_is_cut_while_it_is_open_is_truncated(tmp_path: Path) -> None:
    """spec: MN10.2"""
    put(tmp_path, ROWS[:40], block=4)
    with store(tmp_path) as opened:
        os.truncate(tmp_path / "log", 300)
        assert code(lambda: opened.get(30)) == "LOG_TRUNCATED"


def test_a_store_without_an_index_is_read_by_a_scan_and_the_next_put_adds_one(tmp_path: Path) -> None:
    """As earlier versions wrote it; and with a put that did not come to its end. spec: MN10.6"""
    with SealedLog.open(tmp_path / "log", key(), tmp_path / "anchor") as log:
        for number, start in enumerate(range(0, 40, 8)):
            log.append(start, encode_block(LAYOUT, ROWS[start : start + 8], number, 32 - start))
        log.sync()
        log.append(40, encode_block(LAYOUT, ROWS[40:48], 0, 8))
        log.abandon()
    with store(tmp_path) as opened:
        assert np.array_equal(opened[:], ROWS[:40])
    assert put(tmp_path, ROWS[40:50]).vectors == 50
    assert records(tmp_path)[-1].record[1] == store_index.ROOT_TOKEN  # type: ignore[index]
    with store(tmp_path) as opened:
        opened.check_index()
        assert np.array_equal(opened[:], ROWS[:50])
    (tmp_path / "anchor").unlink()
    assert np.array_equal(one(tmp_path, 44), ROWS[44])


@pytest.mark.parametrize("content", ["counts", "gap", "kind", "cut", "within", "ids"])
def test_an_index_that_does_not_lead_to_the_vectors_is_no_store(content: str, tmp_path: Path) -> None:
    """Which only another program under the key can have written. spec: MN8.14, MN10.4"""
    put(tmp_path, ROWS[:40], np.arange(40, dtype=np.uint64), block=8)
    writer = StoreWriter.open(str(tmp_path / "log"), key(), str(tmp_path / "anchor"), None)
    with writer.log as log:
        contents, index = writer.blocks.found(), writer.blocks.index
        if content == "counts":
            contents = StoreContents(LAYOUT, 41, 5, 1, contents.content, 0, 5)
        if content == "gap":
            index = StoreIndex([[index.levels[0][0]._replace(first=8, vectors=32)]])
        if content == "ids":
            index.recent = [(np.array([7], np.uint64), np.array([3], np.uint64))]
            index.flush(contents, writer.records, lambda token, data: log.append_all([(token, data)])[0])
        if content == "within":
            log.append(40, encode_block(LAYOUT, ROWS[40:48], 0, 8, np.zeros(8, np.uint64)))
        data = encode_root(contents, index)
        log.append(store_index.ROOT_TOKEN, {"kind": b"\2\7", "cut": data[:-1]}.get(content, data))

    def checked() -> None:
        got(store(tmp_path))
        with store(tmp_path) as opened:
            opened.check_index()

    assert code(checked) == "INVALID_LOG"
    if content in ("gap", "kind", "cut"):
        assert code(lambda: (one(tmp_path, 0), one(tmp_path, 39))) == "INVALID_LOG"


def test_an_append_is_durable_after_one_sync_whatever_the_size_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the anchor is synced with every 64th, by `flush` and at the end. spec: MN10.9, MN10.10"""
    synced: list[str] = []
    sync = os.fsync

    def counting(descriptor: int) -> None:
        synced.append(os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")))
        sync(descriptor)

    commits = 8
    monkeypatch.setattr(sealed_log, "COMMITS", commits)
    monkeypatch.setattr(os, "fsync", counting)
    results = []
    for count in (10, 2000):
        (tmp_path / str(count)).mkdir()
        put(tmp_path / str(count), np.tile(ROWS, (4, 1))[:count], block=8)
        with monkeypatch.context() as patch, store(tmp_path / str(count)) as opened:
            counted = Counted(patch)
            opened.append(ROWS[0])
            read, synced[:] = counted.bytes, []
            for n in range(1, commits + 4):
                opened.append(ROWS[n])
                with store(tmp_path / str(count)) as other:  # every process reads it under the anchor
                    assert len(other) == count + n + 1
            assert synced.count("log") == commits + 3
            assert len(synced) == commits + 5  # a new anchor, and its folder
            opened.flush()
            assert synced[-1] == "anchor"
            synced.clear()
            opened.append(ROWS[:3], commit=False)
            assert synced == []
            opened.append(ROWS[3])
            assert synced == ["log"]
            results.append(read)
        assert synced[-1] == "log"
        assert got(store(tmp_path / str(count)))[2].vectors == count + commits + 8
    assert results[0] <= results[1] <= 4 * store_index.TAIL


def test_what_was_not_committed_goes_with_an_error_and_a_new_store_is_made_by_the_first_append(tmp_path: Path) -> None:
    """spec: MN10.9"""

    def fail() -> None:
        with store(tmp_path) as opened:
            assert opened.append(ROWS[:3], [7, 8, 7]) == 3
            opened.append(ROWS[3], commit=False)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    with store(tmp_path) as opened:
        assert np.array_equal(opened[:], ROWS[:3])
        assert np.array_equal(opened.get(token_id=7), ROWS[2])
        with store(tmp_path) as other:
            opened.append(ROWS[3])
            assert len(other) == 3  # as it was opened
            assert code(lambda: other.append(ROWS[4])) == "TMMU_ALLOCATION_FAILURE"  # one writer at a time
            assert np.array_equal(other.get(2), ROWS[2])


def test_a_key_may_be_named_by_its_file(tmp_path: Path) -> None:
    """spec: MN10.7"""
    (tmp_path / "key").write_bytes(SECRET)
    os.chmod(tmp_path / "key", 0o600)
    with VectorStore(tmp_path / "log", key=tmp_path / "key") as opened:
        opened.append(ROWS[:2])
    VectorStore(tmp_path / "log", str(tmp_path / "key")).put(ArrayVectors(ROWS[2:4]))
    with VectorStore(tmp_path / "log", key=tmp_path / "key") as opened:
        assert np.array_equal(opened[:], ROWS[:4])
