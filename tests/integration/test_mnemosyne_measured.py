"""What an access takes on this machine: nothing about how long, all about what was measured. spec: MN6.10 to MN6.13"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tmmu.cli.entry import run
from tmmu.core.errors import TmmuError
from tmmu.mnemosyne import hardware, measured, plots
from tmmu.mnemosyne.measured import KIB, MIB, VECTOR, MeasurementSizes

SMALL = MeasurementSizes(file=4 * MIB, reads=40, cold=6)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Vectors on the disk, synced, each with its number in every element."""
    path = tmp_path / "vectors"
    rows = np.repeat(np.arange(4 * MIB // VECTOR, dtype=np.float16), measured.ELEMENTS)
    with open(path, "wb") as out:
        rows.tofile(out)
        out.flush()
        measured.os.fsync(out.fileno())
    return path


def test_a_chase_of_pointers_is_slower_in_dram_than_in_the_first_cache(tmp_path: Path) -> None:
    """Half of each cache and four times the last one are chased; no two orders of magnitude are alike. spec: MN6.10"""
    lines = list(measured.measure_levels(tmp_path, [("L1", 32 * KIB), ("L2", 16 * MIB)]))
    assert [line.name for line in lines] == ["L1 (16 KiB)", "L2 (8192 KiB)", "DRAM (65536 KiB)"]
    assert [(line.document, line.p99) for line in lines] == [("0.5 ns", None), ("7 ns", None), ("100 ns", None)]
    assert 0 < 3 * lines[0].p50 < lines[2].p50


def test_caches_are_those_of_data_as_the_system_has_them(tmp_path: Path) -> None:
    """spec: MN6.10"""
    for at, (level, kind, size) in enumerate(
        [("1", "Data", "48K"), ("1", "Instruction", "32K"), ("2", "Unified", "1024K"), ("3", "Unified", "many")]
    ):
        folder = tmp_path / f"devices/system/cpu/cpu0/cache/index{at}"
        folder.mkdir(parents=True)
        for name, text in (("level", level), ("type", kind), ("size", size)):
            (folder / name).write_text(f"{text}\n")
    assert measured.data_caches(tmp_path) == [("L1", 48 * KIB), ("L2", 1024 * KIB)]
    assert measured.data_caches(tmp_path / "none") == []


@pytest.mark.parametrize("compiler", ["none-such-compiler", "false"])
def test_without_a_compiler_nothing_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], compiler: str
) -> None:
    """spec: MN6.10"""
    monkeypatch.setenv("CC", compiler)
    monkeypatch.setattr(measured, "MeasurementSizes", lambda: SMALL)
    assert run(["mnemosyne", "check", str(tmp_path), "--measure"]) == 2
    assert capsys.readouterr().err.endswith("[INVALID_SETTING]\n")
    assert list(tmp_path.iterdir()) == []


def test_a_cold_read_is_of_pages_that_were_absent(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they stay in memory there is no figure. spec: MN6.11"""
    into = np.empty(measured.ELEMENTS, np.float16)
    assert len(measured.measure_cold_reads(file, [0, 3, 5], into)) > 0
    assert (into == 5).all()
    monkeypatch.setattr(measured, "drop_pages", lambda path: path.read_bytes())
    with pytest.raises(TmmuError, match="stay in memory") as refused:
        measured.measure_cold_reads(file, [0, 3, 5], into)
    assert refused.value.code_id == "INVALID_SETTING"


def test_a_fault_is_counted_in_each_of_sixteen_regions(file: Path) -> None:
    """spec: MN6.10"""
    times = measured.measure_page_faults(file)
    assert (len(times), bool((times > 0).all())) == (16, True)


def test_the_disk_is_read_past_the_cache_with_and_without_direct_access(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: MN6.10"""
    speed, times = measured.measure_disk(file, 8)
    assert (speed > 0, len(times)) == (True, 8)
    monkeypatch.setattr(measured.os, "O_DIRECT", 1 << 31)  # no flag that a file is opened with
    dropped: list[Path] = []
    monkeypatch.setattr(measured, "drop_pages", dropped.append)
    monkeypatch.setattr(measured.os, "open", refusing(measured.os.open))
    assert len(measured.measure_disk(file, 8)[1]) == 8
    assert len(dropped) == 1 + 8


def refusing(opened: object) -> object:
    def once(path: object, flags: int) -> int:
        if flags & 1 << 31:
            raise OSError(22, "Invalid argument")
        return int(opened(path, flags))  # type: ignore[operator]

    return once


def test_one_vector_is_read_in_four_ways_beside_the_targets(file: Path) -> None:
    """spec: MN6.12"""
    lines = list(measured.measure_vectors(file, SMALL))
    ways = ["warm", "cold", "decrypted", "decrypted and decoded (block of 64)"]
    assert [line.name for line in lines] == [f"vector, {way}" for way in ways]
    assert all(0 < line.p50 <= (line.p99 or 0) for line in lines)
    assert {line.document for line in lines} == {"P50 20 µs, P99 100 µs"}


def test_percentiles_are_those_of_the_reads(tmp_path: Path) -> None:
    """The least time that half of them, or 99 of 100, do not exceed. spec: MN6.12"""
    line = measured._line("x", np.arange(200, 0, -1.0), "")
    assert (line.p50, line.p99) == (100, 198)


def test_the_command_prints_draws_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """spec: MN6.4, MN6.13"""
    monkeypatch.setattr(measured, "MeasurementSizes", lambda: SMALL)
    monkeypatch.setattr(measured, "data_caches", lambda: [("L1", 32 * KIB), ("L2", 64 * KIB)])
    here, picture = tmp_path / "here", tmp_path / "a.svg"
    here.mkdir()
    given = ["mnemosyne", "check", str(here), "--measure", "--plot", str(picture)]
    assert run([*given, "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    [speed] = [line for line in answer["checks"] if line["name"] == "read speed"]
    assert speed["verdict"] in (hardware.PASS, hardware.SHORTFALL)
    assert len(answer["measured"]) == 9
    assert all(text in picture.read_text() for text in ("<svg", "P99"))
    assert list(here.iterdir()) == []
    assert run(given) == 0
    assert "vector, cold" in capsys.readouterr().out
    assert run(["mnemosyne", "check", "--plot", "b.svg"]) == 2


def test_a_picture_of_another_kind_is_refused(tmp_path: Path) -> None:
    """spec: MN6.13"""
    with pytest.raises(TmmuError, match=r"end.* with \.svg"):
        plots.plot_latencies([], tmp_path / "a.txt")


def test_rates_of_hits_are_drawn_for_each_trace(tmp_path: Path) -> None:
    """spec: MN3.7"""
    rates = {"LRU": {8: 0.5, 16: 0.75}, "semantic": {8: 0.5, 16: 0.8}}
    for traces in ({"one": rates}, {"one": rates, "other": rates}):
        plots.plot_hit_rates(traces, tmp_path / "a.svg")
        drawn = (tmp_path / "a.svg").read_text()
        assert all(f"<!-- {name} -->" in drawn for name in (*traces, "LRU", "semantic"))
