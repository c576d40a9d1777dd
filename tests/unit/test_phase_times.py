"""The time that is left of a phase that cannot count: by the last time, or nothing. spec: C5.12, RE1.4"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tmmu.core import phase_times
from tmmu.core.phase_times import MOST, PhaseTime, find_record, load_times, name_phase, save_times
from tmmu.core.progress import progress


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of the record of a user without one."""
    home = tmp_path / "cache"
    home.mkdir(0o700)
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    monkeypatch.setattr("sys.argv", ["/usr/bin/tmmu", "plan", "m.onnx"])
    monkeypatch.setattr("sys.stderr", None)
    path = find_record()
    assert path is not None
    return path


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which a test sets."""
    found = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: found[0])
    return found


def test_a_phase_is_estimated_by_the_last_time_and_the_size_of_its_file(
    record: Path, now: list[float], tmp_path: Path
) -> None:
    small, large = tmp_path / "small.onnx", tmp_path / "large.onnx"
    small.write_bytes(bytes(1000))
    large.write_bytes(bytes(3000))
    with progress(str(small)) as doing:
        doing("planning")
        now[0] += 20
        assert doing.times() == "0:20 passed", "nothing is known yet"
        doing("checking", 1, 2)
        now[0] += 20
    assert load_times() == {"tmmu plan planning": PhaseTime(20.0, 1000)}, "checking counts, and is not remembered"
    with progress(str(large)) as doing:
        doing("planning")
        now[0] += 10
        assert doing.times() == "0:10 passed, about 0:50 left, as the last time"
        now[0] += 60
        assert doing.times() == "1:10 passed", "it takes longer than the last time"
    assert load_times() == {"tmmu plan planning": PhaseTime(70.0, 3000)}
    with progress("no file") as doing:
        doing("planning")
        now[0] += 10
        assert doing.times() == "0:10 passed, about 1:00 left, as the last time"


def test_short_and_failed_work_is_not_remembered(record: Path, now: list[float]) -> None:
    with progress("a") as doing:
        doing("planning")
        now[0] += 1

    def fail() -> None:
        with progress("a") as doing:
            doing("planning")
            now[0] += 20
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        fail()
    assert not record.exists()


@pytest.mark.parametrize(
    "content",
    [
        b"", b"[]", b"{", b'{"tmmu plan planning": 3}', b'{"tmmu plan planning": [1]}', b"\xff",
        b'{"tmmu plan planning": ["3", 4]}', b'{"tmmu plan planning": [-3, 4]}', b'{"tmmu plan planning": [3, -4]}',
        b'{"tmmu plan planning": [NaN, 4]}', b'{"tmmu plan planning": [1e999, 4]}', b"[" * 100_000,
    ],
)  # fmt: skip
def test_a_damaged_record_counts_as_none_and_is_replaced(record: Path, now: list[float], content: bytes) -> None:
    record.parent.mkdir(0o700)
    record.write_bytes(content)
    with progress("a") as doing:
        doing("planning")
        now[0] += 20
        assert doing.times() == "0:20 passed"
    assert load_times() == {"tmmu plan planning": PhaseTime(20.0, 0)}


def test_a_record_that_others_can_write_counts_as_none(record: Path) -> None:
    save_times({"tmmu plan planning": PhaseTime(20.0, 0)})
    assert load_times()
    record.chmod(0o666)
    assert load_times() == {}


def test_a_user_without_a_cache_has_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tmmu.core.folders.cache_folder", lambda: None)
    save_times({"a": PhaseTime(20.0, 0)})
    assert load_times() == {}


def test_the_latest_phases_are_kept(record: Path) -> None:
    for number in range(MOST + 10):
        save_times({f"phase {number}": PhaseTime(20.0, number)})
    found = load_times()
    assert len(found) == MOST
    assert list(found)[-1] == f"phase {MOST + 9}"
    assert "phase 9" not in found
    save_times({"phase 10": PhaseTime(30.0, 0)})
    assert list(load_times())[-1] == "phase 10"
    assert len(json.loads(record.read_bytes())) == MOST
    assert os.stat(record).st_size < phase_times.LIMIT


def test_a_phase_is_named_after_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    for argv, expected in (
        (["/usr/bin/tmmu", "plan", "m.onnx"], "tmmu plan planning"),
        (["/usr/bin/verify-plan", "/home/me/p.cbor"], "verify-plan planning"),
        (["/usr/bin/tmmu", "--version"], "tmmu planning"),
        ([], "planning"),
    ):
        monkeypatch.setattr("sys.argv", argv)
        assert name_phase("planning") == expected
