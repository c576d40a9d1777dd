"""`tmmu mnemosyne put|get|verify|rekey|stat`, in processes of their own.

spec: MN8.1, MN8.4, MN8.6 to MN8.13, MN8.15, MN5.16
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from proofs.model_check.following import follow
from tests.support.killed_puts import COMMAND, ENVIRONMENT, KilledStore
from tmmu.cli.entry import run
from tmmu.core.errors import REGISTRY
from tmmu.mnemosyne.keys import MasterKey

VECTORS = np.random.default_rng(5).standard_normal((300, 16)).astype(np.float16)


def test_commands_killed_wherever_they_are_leave_what_was_acknowledged(tmp_path: Path) -> None:
    """30 kills of puts and rotations; no pair of key and vector comes twice. spec: MN8.4, MN8.8, MN8.10, MN5.16"""
    store = KilledStore(tmp_path, 1)
    ended = [store.kill() for _ in range(30)]
    assert ended.count("killed") > 9
    assert len(store.sealed) > 200


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two keys, vectors, and a store of them under the first."""
    monkeypatch.chdir(tmp_path)
    for name in ("k", "other"):
        MasterKey.create(name)
    np.save("v.npy", VECTORS)
    assert run(["mnemosyne", "put", "S", "v.npy", "--key", "k", "--block", "50"]) == 0
    return tmp_path


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_vectors_and_token_ids_come_back_across_processes(folder: Path) -> None:
    """The file of NumPy itself. spec: MN8.6, MN8.8"""
    np.save("ids.npy", np.arange(300)[::-1])
    more = [*COMMAND, "put", "S", "v.npy", "--key", "k", "--append", "--ack", "--token-ids", "ids.npy", "--zstd"]
    done = subprocess.run(more, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("300\n", "")
    command = [*COMMAND, "get", "S", "--key", "k", "-o", "w.npy", "--token-ids", "i.npy"]
    subprocess.run(command, cwd=folder, env=ENVIRONMENT, check=True, capture_output=True)
    np.save("both.npy", np.concatenate([VECTORS, VECTORS]))
    assert Path("w.npy").read_bytes() == Path("both.npy").read_bytes()
    assert np.load("i.npy").tolist() == [*range(300), *range(299, -1, -1)]


def test_stat_states_what_there_is(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """spec: MN8.12"""
    with open("S", "ab") as file:
        file.write(b"R torn")
    capsys.readouterr()
    assert run(["mnemosyne", "stat", "S", "--key", "k", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "vectors": 300, "width": 16, "type": "float16", "mode": "lossless", "puts": 1, "records": 6,
        "compressed_records": 0, "records_with_token_ids": 0, "bytes": 9600, "stored_bytes": 9600,
        "unfinished_records": 0, "index_records": 1, "segments": 1, "has_trailer": True, "torn_bytes": 6,
        "acknowledged_records": 7, "numbers": 300, "deleted": 0, "deleted_in_file": 0,
    }  # fmt: skip


def flip(folder: Path) -> None:
    data = bytearray((folder / "S").read_bytes())
    data[len(data) // 2] ^= 1
    (folder / "S").write_bytes(data)


def cut(folder: Path) -> None:
    os.truncate(folder / "S", (folder / "S").stat().st_size - 100)


def older(folder: Path) -> None:
    (folder / "S").write_bytes((folder / "old").read_bytes())


def moved(folder: Path) -> None:
    data = (folder / "S").read_bytes()
    middle = data.index(b"TMMU-LOG", 8)
    (folder / "S").write_bytes(data[middle:])


TAMPERED: list[tuple[str, Callable[[Path], None], str, str]] = [
    ("k", flip, "NOT_AUTHENTIC", "changed"),
    ("k", cut, "LOG_TRUNCATED", "cut off: expected at least 14 records, got 13"),
    ("k", older, "ROLLED_BACK", "rolled back: expected at least 14 records, got 7"),
    ("k", moved, "NOT_AUTHENTIC", "moved or repeated, or another was removed"),
    ("k", lambda folder: (folder / "S").unlink(), "ROLLED_BACK", "rolled back: expected at least 14 records, got 0"),
    ("other", lambda _: None, "WRONG_KEY", "sealed under another key"),
]


@pytest.mark.parametrize(("key", "tamper", "code", "message"), TAMPERED, ids=[str(i) for i in range(6)])
def test_what_was_tampered_with_is_refused_with_its_own_code(
    key: str, tamper: Callable[[Path], None], code: str, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """verify exits with 1, all others with 4, and nothing is written.

    A put does not read what is before the last root: it succeeds, and the others still find what was changed.

    spec: MN8.7, MN8.11, MN8.13, MN10.3
    """
    shutil.copy("S", "old")
    assert run(["mnemosyne", "put", "S", "v.npy", "--key", "k", "--append", "--block", "50"]) == 0
    assert run(["mnemosyne", "verify", "S", "--key", "k"]) == 0
    assert "AUTHENTIC S" in capsys.readouterr().out.splitlines()
    tamper(folder)
    before = content(folder)
    is_before_the_root = tamper in (flip, moved)
    puts = [] if is_before_the_root else [["put", "v.npy", "--append"], ["get", "-o", "w.npy", "--index", "599"]]
    for arguments in (["verify"], ["stat"], ["get", "-o", "w.npy"], *puts, ["rekey", "--new-key", "third"]):
        if arguments[0] == "rekey":
            MasterKey.create("third")
            before |= content(folder)
        command = ["mnemosyne", arguments[0], "S", *arguments[1:], "--key", key]
        assert run(command) == (1 if arguments == ["verify"] else 4)
        said = capsys.readouterr()
        assert (said.out, said.err.count("\n")) == ("", 1)
        assert said.err.endswith(f"[{code}]\n")
        assert message in said.err
        assert content(folder) == before
    assert code in REGISTRY
    if is_before_the_root:
        assert run(["mnemosyne", "put", "S", "v.npy", "--key", "k", "--append"]) == 0
        assert run(["mnemosyne", "get", "S", "--key", "k", "--index", "899", "-o", "w.npy"]) == 0
        assert run(["mnemosyne", "verify", "S", "--key", "k"]) == 1
        assert capsys.readouterr().err.endswith(f"[{code}]\n")


def limited(size: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@pytest.mark.parametrize("size", [100, 3000])
def test_a_disk_without_room_is_one_line_and_leaves_all_as_it_was(size: int, folder: Path) -> None:
    """Of the store, of a new one, of its anchor, of a rotation, of what is read. spec: MN8.13"""
    MasterKey.create("new")
    Path("anchors").mkdir()
    before = content(folder)
    there = Path("S").stat().st_size
    for arguments, room in (
        (["put", "S", "v.npy", "--append"], there + size),
        (["put", "T", "v.npy"], size),
        (["get", "S", "-o", "w.npy"], size),
        (["rekey", "S", "--new-key", "new"], size),
    ):
        command = [*COMMAND, *arguments, "--key", "k"]
        done = subprocess.run(
            command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, preexec_fn=limited(room)
        )
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (4, "", 1), done.stderr
        assert "File too large" in done.stderr
        named = "make room, or choose another place" if arguments[0] == "get" else "[TMMU_ALLOCATION_FAILURE]"
        assert done.stderr.endswith(f"{named}\n")
        assert content(folder) == before


@pytest.fixture
def read_only() -> Iterator[Path]:
    """A folder in which files may be written and none made, for a user who is not root."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        is_root = os.geteuid() == 0
        if is_root:
            os.chown(folder, 65534, 65534)
            os.seteuid(65534)
        try:
            with_key = MasterKey.create(folder / "k")
            assert with_key is not None
            np.save(folder / "v.npy", VECTORS)
            assert run(["mnemosyne", "put", f"{name}/S", f"{name}/v.npy", "--key", f"{name}/k"]) == 0
            os.chmod(folder, 0o555)
            yield folder
        finally:
            os.chmod(folder, 0o755)
            if is_root:
                os.seteuid(0)


def test_a_folder_that_cannot_be_written_is_one_line_and_leaves_all_as_it_was(
    read_only: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A put into the store that is there too: its anchor cannot be replaced. spec: MN8.13"""
    before, name = content(read_only), str(read_only)
    capsys.readouterr()
    for arguments in (["put", f"{name}/S", f"{name}/v.npy", "--append"], ["put", f"{name}/T", f"{name}/v.npy"],
                      ["get", f"{name}/S", "-o", f"{name}/w.npy"]):  # fmt: skip
        assert run(["mnemosyne", *arguments, "--key", f"{name}/k"]) == 4
        said = capsys.readouterr()
        assert (said.out, said.err.count("\n")) == ("", 1)
        assert said.err.endswith("[TMMU_ALLOCATION_FAILURE]\n")
        assert content(read_only) == before
    assert run(["mnemosyne", "verify", f"{name}/S", "--key", f"{name}/k"]) == 0


def test_output_that_cannot_be_written_loses_nothing(folder: Path) -> None:
    """A closed pipe and a full device behind --ack: the vectors are there. spec: MN8.8, MN8.13"""
    command = [*COMMAND, "put", "S", "v.npy", "--key", "k", "--append", "--ack"]
    end, pipe = os.pipe()
    os.close(end)
    with open(pipe, "wb") as closed, open("/dev/full", "wb") as full:
        codes = [
            subprocess.run(command, cwd=folder, env=ENVIRONMENT, stdout=out, stderr=subprocess.PIPE).returncode
            for out in (closed, full)
        ]
    assert codes == [0, 70]
    assert run(["mnemosyne", "get", "S", "--key", "k", "-o", "w.npy"]) == 0
    assert np.array_equal(np.load("w.npy"), np.concatenate([VECTORS] * 3))


def test_a_key_that_others_may_read_and_none_at_all_exit_with_2(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """spec: MN8.1"""
    before = content(folder)
    os.chmod("k", 0o644)
    Path("short").write_bytes(b"short")
    os.chmod("short", 0o600)
    for command, named in (
        (["stat", "S", "--key", "k"], "mode 0644"),
        (["verify", "S", "--key", "short"], "32 bytes"),
        (["verify", "S", "--key", "none"], "No such file"),
        (["verify", "S"], "--key"),
        (["get", "S", "--key", "other", "-o", "S"], "named twice"),
        (["get", "S", "--key", "other", "-o", "S.anchor"], "named twice"),
        (["put", "S", "v.npy", "--key", "other", "--anchor", "v.npy"], "named twice"),
        (["rekey", "S", "--key", "other", "--new-key", "other"], "named twice"),
        (["put", "S", "v.npy", "--key", "other", "--mode", "pq"], "pq"),
        (["put", "S", "none.npy", "--key", "other"], "none.npy"),
    ):
        capsys.readouterr()
        assert run(["mnemosyne", *command]) == 2
        said = capsys.readouterr()
        assert (said.out, said.err.count("\n")) == ("", 1)
        assert named in said.err
        assert content(folder).keys() - {"short"} == before.keys()


@pytest.mark.parametrize(
    "ids", [np.zeros(299, np.int64), np.zeros((300, 1), np.int64), np.zeros(300), np.full(300, -1), None]
)
def test_token_ids_that_are_none_are_refused(
    ids: np.ndarray | None, folder: Path, capsys: pytest.CaptureFixture[str]  # type: ignore[type-arg]
) -> None:  # fmt: skip
    """spec: MN8.2, MN8.5"""
    Path("ids.npy").write_bytes(b"none") if ids is None else np.save("ids.npy", ids)
    before = content(folder)
    assert run(["mnemosyne", "put", "S", "v.npy", "--key", "k", "--append", "--token-ids", "ids.npy"]) == 4
    assert capsys.readouterr().err.endswith("[INVALID_VECTORS]\n")
    assert content(folder) == before


def test_a_store_without_vectors_gives_none(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty file, as a put leaves that was killed at once. spec: MN8.7"""
    Path("T").touch()
    assert run(["mnemosyne", "stat", "T", "--key", "k"]) == 0
    assert "no vectors" in capsys.readouterr().out
    assert run(["mnemosyne", "get", "T", "--key", "k", "-o", "w.npy"]) == 4
    assert capsys.readouterr().err.endswith("[INVALID_LOG]\n")
    assert not Path("w.npy").exists()


def test_commands_write_one_event_log_in_which_each_store_and_log_is_a_path(folder: Path) -> None:
    """TLC follows such logs in `tests/nightly/test_mnemosyne_events.py`. spec: MN8.15"""
    keyed = ["--key", "k", "--events", "e.log"]
    for command in (
        ["put", "S", "v.npy", "--append", *keyed], ["get", "S", "-o", "w.npy", *keyed], ["verify", "S", *keyed],
        ["rekey", "S", "--new-key", "other", *keyed], ["stat", "S", "--key", "other", "--events", "e.log"],
    ):  # fmt: skip
        subprocess.run([*COMMAND, *command], cwd=folder, env=ENVIRONMENT, check=True, capture_output=True)
    events, paths = follow.read_log(folder / "e.log")
    assert {path.module for path in paths} == {"MappedRegions", "Eviction", "SealedLog"}
    assert sum(path.module == "SealedLog" for path in paths) == 1
    assert len({event.fields["store"] for event in events if event.kind == "store made"}) >= 5
    assert run(["mnemosyne", "stat", "S", "--key", "other", "--events", "S"]) == 2


def with_shape(path: Path, shape: str, data: bytes) -> None:
    """A file of NumPy of float16 whose header states a shape, whatever it has."""
    header = f"{{'descr': '<f2', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header = header.ljust(117) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data)


@pytest.mark.parametrize(
    ("shape", "data", "said"),
    [
        ("(-1, 64)", bytes(128), "its header is not a map of texts"),
        ("(True, 64)", bytes(128), "its header has True in place of a size"),
        ("(4611686018427387904, 0)", b"", "NumPy has no array of its shape"),
        ("(2, 4)", bytes(17), "1 bytes follow after its vectors"),
        ("(2, 4)", bytes(15), "it is cut off"),
    ],
)
def test_a_header_that_is_not_of_the_vectors_in_the_file_is_refused(
    shape: str, data: bytes, said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """spec: MN8.13, MN4.9"""
    with_shape(folder / "w.npy", shape, data)
    before = content(folder)
    for arguments in (["put", "new"], ["put", "S", "--append", "--ack"]):
        assert run(["mnemosyne", *arguments, "w.npy", "--key", "k"]) == 4
        captured = capsys.readouterr()
        assert (captured.out, said in captured.err) == ("", True), captured.err
    assert content(folder) == before


def test_a_store_has_one_anchor_under_all_its_names(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """spec: MN8.1, MN8.9"""
    Path("link").symlink_to("S")
    assert run(["mnemosyne", "put", "link", "v.npy", "--key", "k", "--append"]) == 0
    assert run(["mnemosyne", "rekey", "link", "--key", "k", "--new-key", "other"]) == 0
    assert "anchor" not in capsys.readouterr().err
    assert not Path("link.anchor").exists()
    for name in ("S", "link"):
        assert run(["mnemosyne", "verify", name, "--key", "other"]) == 0
        assert run(["mnemosyne", "verify", name, "--key", "k"]) == 1


def test_a_key_that_is_a_pipe_is_refused_and_not_waited_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """spec: MN5.1"""
    os.mkfifo("pipe", 0o600)
    assert run(["mnemosyne", "stat", "S", "--key", "pipe"]) == 2
    assert "INVALID_KEY" in capsys.readouterr().err


def test_an_anchor_that_is_none_or_says_two_things_under_one_key_is_no_anchor(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """spec: MN5.14, MN8.11"""
    anchor = Path("S.anchor")
    old = anchor.read_bytes()
    assert run(["mnemosyne", "put", "S", "v.npy", "--key", "k", "--append"]) == 0
    new = anchor.read_bytes()
    for wrong in (b"", new[:-1], b"x" + new[1:], old + new, new + new):
        anchor.write_bytes(wrong)
        assert run(["mnemosyne", "verify", "S", "--key", "k"]) == 1
        assert "NOT_AUTHENTIC" in capsys.readouterr().err
    anchor.write_bytes(new)
    assert run(["mnemosyne", "verify", "S", "--key", "k"]) == 0


def test_an_empty_file_is_not_authentic(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """spec: MN8.11"""
    Path("nothing").touch()
    assert run(["mnemosyne", "verify", "nothing", "--key", "k"]) == 4
    captured = capsys.readouterr()
    assert ("AUTHENTIC" in captured.out, "nothing was put into it" in captured.err) == (False, True)
