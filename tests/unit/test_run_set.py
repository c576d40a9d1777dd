"""`tmmu run` and `tmmu apply` of a plan set: calls by name, the verdict, the log, and onnxruntime beside it.

spec: SIM9.4 to SIM9.7, U9.3
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from proofs.model_check.following import follow
from tests.support import set_programs
from tmmu.cli.entry import run
from tmmu.cli.run_set import parse_calls
from tmmu.plans.sets import PlanSet
from tmmu.report.set_map import ABSENT, STATE, set_maps


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("session")
    for name, text in set_programs.MODELS.items():
        (folder / f"{name}.ir.txt").write_text(text)
    models = [str(folder / f"{name}.ir.txt") for name in ("prefill", "decode")]
    assert run(["plan", *models, "--share", "kv", "--share", "w", "--donate", "kv", "-o", str(folder / "set")]) == 0
    return folder / "set"


def test_calls_are_names_with_counts() -> None:
    assert parse_calls("a, b*2,a", ["a", "b", "c*2"]) == ["a", "b", "b", "a"]
    assert parse_calls("c*2,c*2*2", ["a", "b", "c*2"]) == ["c*2"] * 3
    assert parse_calls(None, ["a", "b"]) == ["a", "b"]


@pytest.mark.parametrize(
    "text", ["", "x", "a,", "a*", "a*0", "a*-1", "a*1048577", "a*1048576,b", "a*1_0", "*3", f"a*{9**99}"]
)
def test_other_calls_are_refused(text: str) -> None:
    with pytest.raises(click.UsageError, match="--calls"):
        parse_calls(text, ["a", "b"])


def test_a_set_is_run_with_a_log_that_follows_its_module(
    session: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "run.events"
    asked = ["run", str(session), "--calls", "prefill,decode*3", "--format", "json", "--events", str(log)]
    assert run(asked) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["verdict"], found["sanitize"], found["witness"]) == ("IDENTICAL", True, None)
    assert [call["program"] for call in found["calls"]] == ["prefill", "decode", "decode", "decode"]
    assert all(call["compared"] for call in found["calls"])
    [path] = follow.read_log(log)[1]
    assert [line.action for line in path.lines].count("Call") == 4
    assert run(["run", str(session), "--sanitize"]) == 0
    assert "calls: prefill,decode\n" in capsys.readouterr().out


def test_a_program_that_is_not_ready_is_refused(session: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", str(session), "--calls", "decode"]) != 0
    assert "decode takes kv" in capsys.readouterr().err


def changed(session: Path, tmp_path: Path, change: Callable[[Path], None]) -> str:
    """A copy of the set with a change."""
    shutil.copytree(session, tmp_path / "copy")
    change(tmp_path / "copy")
    return str(tmp_path / "copy")


@pytest.mark.parametrize("command", ["run", "apply"])
@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda folder: (folder / "decode.cbor").unlink(), "INVALID_PLAN"),
        (lambda folder: shutil.copy(folder / "prefill.cbor", folder / "decode.cbor"), "INVALID_PLAN"),
        (lambda folder: (folder / "set.cbor").write_bytes(b"\xa0"), "INVALID_PLAN"),
    ],
    ids=["missing", "another's", "no manifest"],
)
def test_a_set_that_is_not_whole_is_neither_run_nor_applied(
    session: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str,
    change: Callable[[Path], None], code: str,
) -> None:  # fmt: skip
    assert run([command, changed(session, tmp_path, change)]) == 4
    assert code in capsys.readouterr().err


def test_one_memory_is_applied_for_the_set(session: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["apply", str(session), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["bytes_allocated"] < sum(found["programs"].values())
    assert run(["apply", str(session), "--budget", "4096"]) == 4
    assert run(["apply", str(session), "--debug-fill", "1"]) == 2
    assert "CONTRACT_VIOLATION" in capsys.readouterr().err


@pytest.mark.parametrize(
    "more",
    [
        ["--model", "prefill=no-file"], ["--model", "prefill"], ["--kernels", "onnx"], ["--batches", "2"],
        ["--trace", "t"], ["--calls", "x"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_what_does_not_go_with_a_set_is_refused(session: Path, more: list[str]) -> None:
    assert run(["run", str(session), *more]) == 2


def test_flags_of_sets_are_for_sets(session: Path, tmp_path: Path) -> None:
    assert run(["run", str(session / "decode.cbor"), "--calls", "decode"]) == 2
    assert run(["run", str(tmp_path)]) == 2
    assert run(["apply", str(tmp_path)]) == 2


def test_what_is_not_compared_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tmmu.simulator.onnxruntime_calls", None)
    models = set_programs.plan_recurrent(tmp_path)
    assert run(["run", str(tmp_path / "set"), "--calls", "warm,step*3", "--sanitize", *models]) == 0
    assert "not compared with onnxruntime: onnxruntime is not installed" in capsys.readouterr().out


def test_a_report_on_a_set_has_its_programs_on_one_address_axis(
    session: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Shared tensors are marked, and state that a program does not have is over all of its steps. spec: RP1.8"""
    assert run(["report", str(session), "-o", str(tmp_path / "set.json")]) == 0
    rows = json.loads((tmp_path / "set.json").read_text())
    arenas = {row["arena"] for row in rows}
    assert {"prefill: activations", "decode: activations"} <= arenas
    capsys.readouterr()
    assert run(["report", str(session), "-o", str(tmp_path / "set.h")]) == 2
    assert run(["report", str(session), "--donate", "kv"]) == 2
    made = set_programs.plans()
    agreed = set_programs.agreement()
    maps = set_maps(PlanSet(agreed, "packed"), made)
    acts = {name: next(one for one in of if one.name == "act") for name, of in maps.items()}
    assert [one.footprint for one in acts.values()] == [576] * 3
    roles = {name: dict(zip(one.names, one.role, strict=True)) for name, one in acts.items()}
    assert (roles["classify"]["cache"], roles["prefill"]["kv"]) == (ABSENT, STATE)
    row = acts["classify"].names.index("cache")
    assert (acts["classify"].birth[row], acts["classify"].death[row]) == (0, acts["classify"].last_step)


def test_a_set_is_explained_and_compared(session: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """spec: RP3.6, RP4.3"""
    assert run(["explain", str(session)]) == 0
    out = capsys.readouterr().out
    assert "needs most of its programs" in out
    assert "  decode: at most" in out
    assert run(["diff", str(session), str(session), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {arena["name"].partition(":")[0] for arena in found["arenas"]} == {"prefill", "decode"}
    assert found["tensors"] == []
    assert run(["diff", str(session), str(session / "decode.cbor")]) == 2
    assert run(["explain", str(tmp_path)]) == 2
