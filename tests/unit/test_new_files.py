"""Files that have no name until they are complete, and what killed processes leave. spec: RE4.1, RE4.2"""

from __future__ import annotations

import fcntl
import os
import signal
from pathlib import Path

import pytest

from tmmu.core import canonical, new_files
from tmmu.mnemosyne.npy_files import open_npy_writer

NAMED = [False, True] if hasattr(os, "O_TMPFILE") else [True]


@pytest.fixture(params=NAMED, ids=lambda named: "with a temporary name" if named else "without a name")
def is_named(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if request.param:
        monkeypatch.setattr(new_files, "_open_unnamed", lambda _: -1)
    return bool(request.param)


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_a_killed_writer_leaves_nothing_or_what_the_next_removes(is_named: bool, tmp_path: Path) -> None:
    if (child := os.fork()) == 0:
        with open_npy_writer(str(tmp_path / "w.npy")) as written:
            written._file.write(b"secret")
            written._file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    assert [(tmp_path / name).read_bytes() for name in names(tmp_path)] == [b"secret"] * is_named
    with open_npy_writer(str(tmp_path / "w.npy")) as written:
        assert len(names(tmp_path)) == is_named
        written.end(0, None, "uint64")
    assert names(tmp_path) == ["w.npy"]


def test_a_writer_that_still_runs_keeps_its_file(is_named: bool, tmp_path: Path) -> None:
    with open_npy_writer(str(tmp_path / "a.npy")) as first:
        with open_npy_writer(str(tmp_path / "b.npy")) as second:
            second.end(0, None, "uint64")
        first.end(0, None, "uint64")
    assert names(tmp_path) == ["a.npy", "b.npy"]


def test_a_file_that_is_removed_before_it_is_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a process that takes it for a killed one's."""
    monkeypatch.setattr(new_files, "_open_unnamed", lambda _: -1)
    lock, removed = fcntl.flock, list[str]()

    def late(descriptor: int, kind: int) -> None:
        if not removed:
            removed.extend(names(tmp_path))
            new_files.remove_leftovers(tmp_path)
            assert names(tmp_path) == []
        lock(descriptor, kind)

    monkeypatch.setattr(fcntl, "flock", late)
    canonical.write_atomically(tmp_path / "a", b"content")
    assert removed
    assert names(tmp_path) == ["a"]


def test_only_files_of_that_kind_are_removed(tmp_path: Path) -> None:
    (tmp_path / "kept").write_bytes(b"kept")
    (tmp_path / ".tmmu.link.tmp").symlink_to(tmp_path / "kept")
    (tmp_path / ".tmmu.folder.tmp").mkdir()
    os.mkfifo(tmp_path / ".tmmu.pipe.tmp")
    (tmp_path / ".tmmu.left.tmp").touch()
    before = names(tmp_path)
    new_files.remove_leftovers(tmp_path)
    assert set(before) - set(names(tmp_path)) == {".tmmu.left.tmp"}
    assert (tmp_path / "kept").read_bytes() == b"kept"
    new_files.remove_leftovers(tmp_path / "missing")


def test_a_system_without_locks_writes_and_removes_nothing(
    is_named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", refuse)
    (tmp_path / ".tmmu.left.tmp").touch()
    with open_npy_writer(str(tmp_path / "w.npy")) as written:
        written.end(0, None, "uint64")
    assert names(tmp_path) == [".tmmu.left.tmp", "w.npy"]


def test_the_mode_is_that_of_any_new_file(is_named: bool, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        canonical.write_atomically(tmp_path / "a", b"content")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640
