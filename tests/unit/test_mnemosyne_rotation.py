"""A store under another key, and what is there wherever a rotation stops. spec: MN8.9, MN8.10"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.support import sealed_logs
from tests.support.sealed_logs import key, read, second_reader
from tests.support.stored_vectors import got, put, store
from tmmu.core.errors import TmmuError
from tmmu.mnemosyne import anchors, rotation
from tmmu.mnemosyne.keys import MasterKey
from tmmu.mnemosyne.npy_files import ArrayVectors
from tmmu.mnemosyne.sealed_log import SealedLog
from tmmu.mnemosyne.store import VectorStore

NEW = bytes(range(100, 132))
VECTORS = np.arange(60, dtype=np.int16).reshape(20, 3)


def under_new(folder: Path) -> VectorStore:
    return VectorStore(folder / "log", MasterKey(NEW), folder / "anchor")


def filled(folder: Path) -> Path:
    put(folder, VECTORS[:12], np.arange(12, dtype=np.uint64) + 70, block=5)
    put(folder, VECTORS[12:], block=5)
    return folder


def test_all_records_are_under_the_new_key_with_their_numbers_and_tokens(tmp_path: Path) -> None:
    """And no pair of key and vector comes twice; the mode of the file stays. spec: MN8.9"""
    before = read(filled(tmp_path) / "log")
    os.chmod(tmp_path / "log", 0o640)
    with sealed_logs.sealings() as pairs:
        opened = store(tmp_path)
        assert opened.rotate(MasterKey(NEW)) == 9
        put_again = got(opened)[0]
        opened.rotate(key())
        assert opened.rotate(MasterKey(NEW)) == 9
    assert len(set(pairs)) == len(pairs) == 3 * 11
    assert np.array_equal(put_again, VECTORS)
    after = [part.record for part in second_reader((tmp_path / "log").read_bytes(), NEW) if part.record]
    assert [record[:2] for record in after] == [record[:2] for record in before]
    for record, other in zip(after, before, strict=True):
        assert record.data[:2] == other.data[:2]
        assert (record.data == other.data) == (record.data[0] == 1 or record.data[1] > 2)  # roots have other places
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["anchor", "log"]
    assert len((tmp_path / "anchor").read_bytes()) == anchors.SIZE
    for call in (lambda: got(store(tmp_path)), lambda: put(tmp_path, VECTORS)):
        with pytest.raises(TmmuError, match="sealed under another key") as refused:
            call()
        assert refused.value.code_id == "WRONG_KEY"
    with under_new(tmp_path) as single:
        single.check_index()
        assert np.array_equal(single[:], VECTORS)
        assert np.array_equal(single.get(token_id=75), VECTORS[5])
    rows, ids, found = got(under_new(tmp_path))
    assert np.array_equal(rows, VECTORS)
    assert (ids[:12].tolist(), found.puts) == (list(range(70, 82)), 2)


def test_what_a_put_has_left_without_its_end_is_not_rotated_as_acknowledged(tmp_path: Path) -> None:
    """spec: MN8.4, MN8.9"""
    filled(tmp_path)
    whole = read(tmp_path / "log")
    with SealedLog.open(tmp_path / "log", key()) as log:
        log.append(20, read(tmp_path / "log")[0].data)
        log.sync()
        log.abandon()
    assert store(tmp_path).rotate(MasterKey(NEW)) == len(whole)
    rows, _, found = got(under_new(tmp_path))
    assert (len(rows), found.unfinished) == (20, 0)


class Stopped(Exception):
    pass


@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("step", range(4))
def test_wherever_it_stops_one_key_opens_it_and_the_other_is_refused_with_which(
    step: int, is_done: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Before and after the anchor of both, the rename, the sync of the folder, and the last anchor. spec: MN8.10"""
    filled(tmp_path)
    counted = 0

    def stopping(call: Callable[..., object]) -> Callable[..., object]:
        def stops(*given: object) -> object:
            nonlocal counted
            if given and str(given[0]).endswith(".tmp"):  # of an anchor, inside of `store`
                return call(*given)
            counted += 1
            if counted - 1 != step:
                return call(*given)
            if is_done:
                call(*given)
            raise Stopped

        return stops

    with monkeypatch.context() as patch:
        patch.setattr(rotation.anchors, "store", stopping(anchors.store))
        patch.setattr(rotation.os, "replace", stopping(os.replace))
        patch.setattr(rotation, "sync_folder", stopping(rotation.sync_folder))
        with pytest.raises(Stopped):
            store(tmp_path).rotate(MasterKey(NEW))
    both, has_new = len((tmp_path / "anchor").read_bytes()) == 2 * anchors.SIZE, step > 1 or (step == 1 and is_done)
    assert both == ((0, True) <= (step, is_done) < (3, True))
    opens, other = (under_new, store) if has_new else (store, under_new)
    caplog.clear()
    with caplog.at_level(logging.WARNING, "tmmu.mnemosyne"):
        assert np.array_equal(got(opens(tmp_path))[0], VECTORS)
    assert ("this is the key " + ("after" if has_new else "before") in caplog.text) == both
    with pytest.raises(TmmuError) as refused:
        got(other(tmp_path))
    assert refused.value.code_id == "WRONG_KEY"
    assert ("under the key " + ("after" if has_new else "before") in str(refused.value)) == both
    assert store(tmp_path).rotate(MasterKey(NEW)) == 9
    assert sorted(path.name for path in tmp_path.iterdir()) == ["anchor", "log"]
    assert len((tmp_path / "anchor").read_bytes()) == anchors.SIZE
    assert np.array_equal(got(under_new(tmp_path))[0], VECTORS)
    put_after = under_new(tmp_path).put
    assert put_after(ArrayVectors(VECTORS)).vectors == 40


def test_an_interrupted_rotation_is_also_ended_by_the_next_put(tmp_path: Path) -> None:
    """Under the key that opens it: the other statement is gone then. spec: MN8.10"""
    filled(tmp_path)
    with SealedLog.open(tmp_path / "log", key(), tmp_path / "anchor") as log:
        other = anchors.encode_statement(MasterKey(NEW), anchors.Anchor(bytes(32), bytes(32), 3))
        anchors.store(str(tmp_path / "anchor"), log.statement(), other)
    put(tmp_path, VECTORS)
    assert len((tmp_path / "anchor").read_bytes()) == anchors.SIZE
    with pytest.raises(TmmuError, match="sealed under another key"):
        got(under_new(tmp_path))


def test_what_cannot_be_rotated_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    """One key twice, no records, neither of the keys, a folder that takes no file. spec: MN8.10, MN8.13"""
    filled(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    stranger = VectorStore(tmp_path / "log", MasterKey(bytes(32)), tmp_path / "anchor")
    for call, code in (
        (lambda: store(tmp_path).rotate(key()), "INVALID_KEY"),
        (lambda: stranger.rotate(MasterKey(NEW)), "WRONG_KEY"),
    ):
        with pytest.raises(TmmuError) as refused:
            call()
        assert refused.value.code_id == code
    (tmp_path / ".log.new").mkdir()
    with pytest.raises(TmmuError, match="cannot be removed"):
        store(tmp_path).rotate(MasterKey(NEW))
    (tmp_path / ".log.new").rmdir()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "log").touch()
    with pytest.raises(TmmuError, match="no records") as refused:
        store(tmp_path / "empty").rotate(MasterKey(NEW))
    assert refused.value.code_id == "INVALID_LOG"


def test_a_rotation_that_cannot_be_written_leaves_the_store_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: MN8.13"""
    filled(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(rotation.os, "replace", full)
        with pytest.raises(OSError, match="No space left on device") as refused:  # of the anchor, by the same call
            store(tmp_path).rotate(MasterKey(NEW))
    assert refused.value.filename == str(tmp_path / "anchor")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_reader_between_whom_and_the_log_a_rotation_comes_looks_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has read the anchor of the key before. spec: MN8.10"""
    filled(tmp_path)
    looked = anchors.read
    seen: list[bytes | None] = []

    def reads(path: str | None) -> bytes | None:
        found = looked(path)
        if not seen:
            seen.append(found)
            store(tmp_path).rotate(MasterKey(NEW))
        return found

    monkeypatch.setattr(anchors, "read", reads)
    assert np.array_equal(got(under_new(tmp_path))[0], VECTORS)


def test_a_writer_that_had_the_log_open_does_not_write_into_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is replaced between its opening and its lock: the name is looked up again. spec: MN5.17"""
    filled(tmp_path)
    lock = fcntl.flock
    done: list[int] = []

    def locks(descriptor: int, how: int) -> None:
        if not done:
            done.append(descriptor)
            store(tmp_path).rotate(MasterKey(NEW))
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", locks)
    assert under_new(tmp_path).put(ArrayVectors(VECTORS)).vectors == 40
    assert len(got(under_new(tmp_path))[0]) == 40
