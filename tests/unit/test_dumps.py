"""Plans of other producers in `tmmu show`, `explain`, `diff` and `report`: added up, packed anew, found in a folder."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from proofs.readers.plans import formats
from tests.support.commands import ran
from tmmu.cli import dumps
from tmmu.plans.sections import BufferPlan, Plan
from tmmu.report.arena_map import arena_maps, find_released
from tmmu.report.overview import Repacking, find_obstacle, repack, sum_up

PROVED = Path(__file__).resolve().parents[1] / "corpus" / "foreign" / "proved"
STEP, BLOCK, TABLE = PROVED / "xla-train-step", PROVED / "inductor-block.inductor", PROVED / "vela-cnn.txt"
SEVERAL = (
    dumps.find_dump(str(STEP)),
    str(BLOCK),
    str(PROVED / "xla-cond-while"),
    str(TABLE),
    str(PROVED / "tflite-cnn.tflite"),
)


def loaded(path: str | Path) -> Plan | BufferPlan:
    return dumps.load(dumps.find_dump(str(path))).plan


@pytest.mark.parametrize("path", SEVERAL, ids=lambda path: Path(path).name[:24])
def test_all_arenas_at_one_time_are_what_is_live_step_by_step(path: str) -> None:
    """By a loop over storages and steps. spec: RP3.8"""
    plan = loaded(path)
    found = sum_up(arena_maps(plan, with_released=False))
    storages, released = plan.placement.storages, find_released(plan)
    columns = (storages.birth, storages.death, storages.bytes)
    every = zip(*(column.tolist() for column in columns), strict=True)
    rows = [row for row, is_released in zip(every, released.tolist(), strict=True) if not is_released]
    live = [sum(n for b, d, n in rows if b <= t <= d) for t in range(plan.placement.last_step + 1)]
    assert (found.peak, found.peak_step) == (max(live), live.index(max(live)))
    assert sum(one.bytes for one in found.live) == found.peak
    assert [one.bytes for one in found.live] == sorted((one.bytes for one in found.live), reverse=True)
    assert found.footprint >= found.peak


@pytest.mark.parametrize("path", SEVERAL, ids=lambda path: Path(path).name[:24])
def test_another_packing_is_between_the_bound_and_what_is_needed_now(path: str) -> None:
    """spec: RP3.9"""
    for one in repack(loaded(path)):
        assert one.bound <= one.then <= one.now


def test_the_packing_of_xla_is_bettered_by_a_few_bytes_and_bytes_given_back_are_not_live() -> None:
    """spec: RP3.8, RP3.9"""
    plan = loaded(STEP)
    assert isinstance(plan, Plan)
    names = plan.allocation.storage_names()
    assert [names[k] for k in np.flatnonzero(find_released(plan)).tolist()] == ["allocation 183 given back"]
    assert not find_released(loaded(BLOCK)).any()
    assert not find_released(loaded(TABLE)).any()
    assert repack(plan) == [
        Repacking("allocation 183", 1, 130 - 1, 1237504, 1237480, 1237480),
        Repacking("all in one arena", 61, len(names) - 1, 2645192, 2603748, 2603748),
    ]


def test_memory_spaces_are_not_packed_together() -> None:
    """spec: RP3.9"""
    found = repack(loaded(PROVED / "xla-async"))
    assert [(one.what, one.arenas) for one in found] == [("allocation 2", 1), ("all in one arena", 3)]
    assert len(loaded(PROVED / "xla-async").placement.arenas) == 4


def test_what_lifetimes_do_not_decide_is_not_packed(capsys: pytest.CaptureFixture[str]) -> None:
    """spec: RP3.9"""
    plan = loaded(STEP)
    assert isinstance(plan, Plan)
    assert find_obstacle(plan) is None
    for change, says in (
        ({"must_not_alias": ((0, 1),)}, "must not alias"),
        ({"streams": ("a", "b")}, "streams overlap"),
    ):
        other = replace(plan, allocation=replace(plan.allocation, **change))
        assert says in (find_obstacle(other) or "")
        assert [says in line for line in dumps.describe_repacking(other)] == [True]


def test_each_command_reads_a_dump_or_the_folder_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """spec: RP3.8, RP3.9, RP3.10, RP4.1"""
    monkeypatch.chdir(tmp_path)
    for path in (STEP, BLOCK, TABLE):
        code, out, _ = ran(capsys, "show", str(path))
        assert (code, "are live at once, at step " in out, len(out.splitlines()) < 20) == (0, True, True)
        code, out, _ = ran(capsys, "explain", str(path))
        assert (code, "not tried without --repack" in out) == (0, True)
        code, out, _ = ran(capsys, "explain", str(path), "--repack")
        assert (code, "bytes, saves " in out) == (0, True)
        code, out, _ = ran(capsys, "diff", str(path), str(path))
        assert (code, "no tensor is other than before" in out) == (0, True)
        code, out, _ = ran(capsys, "report", str(path), "-o", "m.csv")
        assert code == 0
    code, out, _ = ran(capsys, "show", str(STEP), "--steps", "--format", "json")
    assert (code, json.loads(out)["steps"][0]["op"]) == (0, "parameter")
    code, _, err = ran(capsys, "show", str(TABLE), "--tensors")
    assert (code, "lifetimes and no steps" in err) == (2, True)
    assert ran(capsys, "diff", str(STEP), str(PROVED / "xla-train-remat"))[0] == 0


def test_a_folder_with_no_plan_or_several_is_refused_with_their_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """spec: RP3.10"""
    for command in (["show"], ["explain"], ["report"], ["diff", str(BLOCK)]):
        code, _, err = ran(capsys, *command, str(tmp_path))
        assert (code, "no set.cbor and no plan in it" in err) == (2, True), err
    for name in ("a.inductor", "b.inductor"):
        shutil.copy(BLOCK, tmp_path / name)
    code, _, err = ran(capsys, "explain", str(tmp_path))
    assert (code, "a folder with 2 plans in it" in err) == (2, True)
    assert formats.is_plan(str(tmp_path / "a.inductor"))
