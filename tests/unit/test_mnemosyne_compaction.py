"""Deleted vectors: what no reader gets, what is gone after a compaction, and what cannot be put back.

spec: MN11.1 to MN11.8
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests.support.sealed_logs import key, second_reader
from tests.support.stored_vectors import got, put, store
from tmmu.core.errors import TmmuError
from tmmu.mnemosyne import VectorStore, anchors, store_index
from tmmu.mnemosyne.keys import MasterKey
from tmmu.mnemosyne.sealed_log import SealedLog
from tmmu.mnemosyne.store_blocks import StoreWriter
from tmmu.mnemosyne.store_index import NO_PAIRS, encode_deletion, encode_root

ROWS = np.random.default_rng(3).integers(0, 1 << 16, (60, 8)).astype(np.uint16)
SOME = [3, 4, 5, 17, 40, 59]
REST = [number for number in range(60) if number not in SOME]


def code(call: Callable[[], object]) -> str:
    with pytest.raises(TmmuError) as refused:
        call()
    return refused.value.code_id


def deleted(folder: Path) -> tuple[bytes, bytes]:
    """Make a store of which some vectors were deleted; return its bytes before, and with the deletion."""
    put(folder, ROWS, block=8)
    before = (folder / "log").read_bytes()
    with store(folder) as opened:
        assert opened.delete(SOME) == len(SOME)
    return before, (folder / "log").read_bytes()


def contents(log: Path) -> list[bytes]:
    """The content of each record of a log, by a second reader."""
    return [part.record.data for part in second_reader(log.read_bytes()) if part.record]


def traces(numbers: list[int]) -> list[bytes]:
    """The vectors themselves, and their differences to their neighbours."""
    found = []
    for number in numbers:
        found.append(ROWS[number].tobytes())
        for one, other in ((number - 1, number), (number, number + 1)):
            if one >= 0 and other < len(ROWS):
                found.append((ROWS[other] - ROWS[one]).tobytes())
    return found


def test_deleted_bytes_are_in_the_log_until_it_is_compacted_and_a_snapshot_keeps_its_own(tmp_path: Path) -> None:
    """Neither the vectors nor differences that would give them back. spec: MN11.4, MN11.5, MN11.8"""
    put(tmp_path, ROWS, block=8)
    store(tmp_path).snapshot(tmp_path / "whole")
    with store(tmp_path) as opened:
        opened.delete(SOME)
    found = b"".join(contents(tmp_path / "log"))
    assert sum(trace in found for trace in traces(SOME)) > len(SOME)
    store(tmp_path).snapshot(tmp_path / "rest")
    store(tmp_path).compact()
    for name in ("log", "rest"):
        found = b"".join(contents(tmp_path / name))
        assert not any(trace in found for trace in traces(SOME))
        assert all(ROWS[number].tobytes() in found for number in (0, 8, 16))
    rows, ids, _ = got(VectorStore(tmp_path / "whole", key()))
    assert np.array_equal(rows, ROWS)
    rows, ids, _ = got(store(tmp_path))
    assert (ids.tolist(), np.array_equal(rows, ROWS[REST])) == (REST, True)
    assert sorted(os.listdir(tmp_path)) == ["anchor", "log", "rest", "rest.anchor", "whole", "whole.anchor"]


def test_nothing_is_written_where_nothing_was_deleted(tmp_path: Path) -> None:
    """spec: MN11.5"""
    deleted(tmp_path)
    store(tmp_path).compact()
    before = (tmp_path / "log").read_bytes(), (tmp_path / "anchor").read_bytes()
    assert store(tmp_path).compact().there == len(REST)
    assert before == ((tmp_path / "log").read_bytes(), (tmp_path / "anchor").read_bytes())
    missing = VectorStore(tmp_path / "missing", key())
    assert code(missing.compact) == "TMMU_ALLOCATION_FAILURE"
    assert code(lambda: missing.snapshot(tmp_path / "copy")) == "INVALID_LOG"
    assert sorted(os.listdir(tmp_path)) == ["anchor", "log"]


def test_what_was_deleted_cannot_be_put_back_while_the_anchor_is_there(tmp_path: Path) -> None:
    """The log before the deletion, with its end cut off, before the compaction, a snapshot. spec: MN11.1, MN11.7"""
    before, marked = deleted(tmp_path)
    log = tmp_path / "log"
    cut = [part.start for part in second_reader(marked) if part.record and part.record.data[1:2] == b"\5"]
    assert len(cut) == 1
    for old, refusal in ((before, "ROLLED_BACK"), (marked[: cut[0]], "LOG_TRUNCATED")):
        log.write_bytes(old)
        assert code(lambda: got(store(tmp_path))) == refusal
        assert code(lambda: store(tmp_path).__enter__()) == refusal
    log.write_bytes(marked)
    store(tmp_path).snapshot(tmp_path / "snapshot")
    store(tmp_path).compact()
    compacted = log.read_bytes()
    for old in (before, marked, (tmp_path / "snapshot").read_bytes()):
        log.write_bytes(old)
        assert code(lambda: got(store(tmp_path))) == "NOT_AUTHENTIC"
        assert code(lambda: store(tmp_path).__enter__()) == "NOT_AUTHENTIC"
        assert code(lambda: put(tmp_path, ROWS)) == "NOT_AUTHENTIC"
        (tmp_path / "snapshot").write_bytes(compacted)
        assert code(lambda: got(VectorStore(tmp_path / "snapshot", key()))) == "NOT_AUTHENTIC"
    log.write_bytes(compacted)
    assert got(store(tmp_path))[1].tolist() == REST


def test_a_deletion_is_acknowledged_when_it_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is synced, then the anchor, then its folder. spec: MN11.1"""
    put(tmp_path, ROWS)
    synced: list[str] = []
    sync = os.fsync

    def noting(descriptor: int) -> None:
        synced.append(os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")).split(" ")[0])
        sync(descriptor)

    with store(tmp_path) as opened:
        opened.append(ROWS[:1])
        monkeypatch.setattr(os, "fsync", noting)
        opened.delete(7)
        assert synced[0] == "log"
        assert len(synced) == 3  # the anchor, whose file has no name yet, and its folder
        assert synced[-1] == tmp_path.name
        [stated] = anchors.decode_statements(key(), (tmp_path / "anchor").read_bytes())
    _, state = store(tmp_path).read()
    assert stated is not None
    assert stated.records == state.records


def test_a_deletion_of_what_is_not_there_deletes_nothing(tmp_path: Path) -> None:
    """spec: MN11.1, MN11.2"""
    deleted(tmp_path)
    with store(tmp_path) as opened:
        for call in (lambda: opened.delete([0, 3]), lambda: opened.delete([1, 60]), lambda: opened.delete(-61),
                     lambda: opened.delete(token_id=99), lambda: opened.delete(token_id=17)):  # fmt: skip
            assert code(call) == "INVALID_VECTORS"
        for wrong in ({}, {"index": 1, "token_id": 1}, {"index": [0.5]}):
            with pytest.raises(TypeError):
                opened.delete(**wrong)
        assert opened.delete(slice(3, 6)) == 0
        assert opened.numbers().tolist() == REST
        assert opened.append(ROWS[0]) == 61  # not the number of a deleted one
        assert np.array_equal(opened.get(60), ROWS[0])
        assert np.array_equal(opened.get(token_id=60), ROWS[0])


def test_an_earlier_vector_does_not_come_back_by_the_token_id_of_a_deleted_one(tmp_path: Path) -> None:
    """Before a compaction, after it, after two, and until the id is put again. spec: MN11.2, MN11.4"""
    put(tmp_path, ROWS[:3], np.array([7, 8, 7], np.uint64))
    with store(tmp_path) as opened:
        opened.delete(token_id=7)
    for _ in range(3):
        with store(tmp_path) as opened:
            assert code(lambda: opened.get(token_id=7)) == "INVALID_VECTORS"
            assert np.array_equal(opened.get(0), ROWS[0])
            opened.append(ROWS[5], [9])
            opened.delete(token_id=9)
        store(tmp_path).compact()
    with store(tmp_path) as opened:
        opened.append(ROWS[4], [7])
        assert np.array_equal(opened.get(token_id=7), ROWS[4])


def test_a_reader_goes_on_with_the_store_as_it_was(tmp_path: Path) -> None:
    """spec: MN11.9"""
    put(tmp_path, ROWS, block=8)
    with store(tmp_path) as reader:
        with store(tmp_path) as writer:
            writer.delete(SOME)
        assert np.array_equal(reader[:], ROWS)
        store(tmp_path).compact()
        assert np.array_equal(reader[:], ROWS)
        assert np.array_equal(np.array(list(reader)), ROWS)
    with store(tmp_path) as reader:
        assert reader.numbers().tolist() == REST


def test_a_compaction_that_was_interrupted_is_ended_by_the_next_writer(tmp_path: Path) -> None:
    """With either log; neither is taken for the other's anchor afterwards. spec: MN11.6, MN11.7"""
    _, marked = deleted(tmp_path)
    log, anchor = tmp_path / "log", tmp_path / "anchor"
    of_marked = anchor.read_bytes()
    store(tmp_path).compact()
    compacted, of_compacted = log.read_bytes(), anchor.read_bytes()
    [before], [after] = (anchors.decode_statements(key(), each) for each in (of_marked, of_compacted))
    assert before is not None
    assert after is not None
    pair = anchors.encode_pair(key(), before, after)
    for name, other in ((marked, compacted), (compacted, marked)):
        log.write_bytes(name)
        anchor.write_bytes(pair)
        assert got(store(tmp_path))[1].tolist() == REST
        with store(tmp_path) as opened:
            assert opened.numbers().tolist() == REST
        assert anchor.read_bytes() == pair  # readers write nothing
        put(tmp_path, ROWS[:1])
        assert len(anchor.read_bytes()) == anchors.SIZE
        log.write_bytes(other)
        assert code(lambda: got(store(tmp_path))) == "NOT_AUTHENTIC"
    log.write_bytes(marked)
    anchor.write_bytes(pair[:-1] + bytes([pair[-1] ^ 1]))
    assert code(lambda: got(store(tmp_path))) == "NOT_AUTHENTIC"
    anchor.write_bytes(pair)
    assert code(lambda: got(VectorStore(log, MasterKey(bytes(32)), anchor))) == "WRONG_KEY"
    anchor.write_bytes(pair[:8] + b"\0\1" + pair[10:])
    assert code(lambda: got(store(tmp_path))) == "INVALID_LOG"
    anchor.write_bytes(pair)
    store(tmp_path).rotate(MasterKey(bytes(range(32))))
    assert got(VectorStore(log, MasterKey(bytes(range(32))), anchor))[1].tolist() == REST


def test_a_snapshot_is_refused_where_there_is_a_store_or_the_anchor_of_one(tmp_path: Path) -> None:
    """spec: MN11.8"""
    deleted(tmp_path)
    (tmp_path / "other").write_bytes(b"")
    (tmp_path / "third.anchor").write_bytes((tmp_path / "anchor").read_bytes())
    before = sorted(os.listdir(tmp_path))
    for name in ("other", "third", "log"):
        assert code(partial(store(tmp_path).snapshot, tmp_path / name)) == "TMMU_ALLOCATION_FAILURE"
    assert sorted(os.listdir(tmp_path)) == before
    with SealedLog.open(tmp_path / ".fourth.new", key()):  # another process makes it
        assert code(lambda: store(tmp_path).snapshot(tmp_path / "fourth")) == "TMMU_ALLOCATION_FAILURE"


@pytest.mark.parametrize("content", ["beyond", "order", "empty", "count", "marks", "first"])
def test_deletions_that_do_not_belong_to_the_store_are_no_store(content: str, tmp_path: Path) -> None:
    """Which only another program under the key can have written. spec: MN8.14, MN11.1, MN11.3"""

    def ranges(*pairs: int) -> bytes:
        columns = np.array(pairs, np.uint64).reshape(-1, 2)
        return encode_deletion(columns[:, 0], columns[:, 1])

    if content != "first":
        put(tmp_path, ROWS[:40], block=8)
    writer = StoreWriter.open(str(tmp_path / "log"), key(), str(tmp_path / "anchor"), None)
    with writer.log as log:
        given = writer.blocks.found(), writer.blocks.index
        if content in ("count", "marks"):
            writer.delete(np.array([3], np.uint64), np.array([5], np.uint64))
            given[0].deleted += content == "count"
            given[1].deleted, given[1].marks = [], NO_PAIRS
            log.append(store_index.ROOT_TOKEN, encode_root(*given))
        else:
            data = {
                "beyond": ranges(38, 41),
                "order": ranges(9, 11, 5, 6),
                "empty": ranges(7, 7),
                "first": ranges(0, 9),
            }
            log.append(0, data[content])

    def checked() -> None:
        got(store(tmp_path))
        with store(tmp_path) as opened:
            opened.check_index()

    assert code(checked) == "INVALID_LOG"
