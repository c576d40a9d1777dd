"""`tmmu run` and `tmmu apply` of a plan set: calls by name, the verdict, the log, and onnxruntime beside it.

spec: SIM9.4 to SIM9.7, U9.3
"""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from proofs.model_check.following import follow
from tests.support import set_programs
from tmmu.cli.entry import run
from tmmu.cli.run_set import parse_calls
from tmmu.plans.sets import PlanSet
from tmmu.report.set_map import ABSENT, STATE, set_maps

HERE = importlib.util.find_spec("onnxruntime") is not None
with_onnxruntime = pytest.mark.skipif(not HERE, reason="onnxruntime is not installed")  # CI does without
STEP = "step"
PREFILL = """tmmu-ir-text 1
tensor x f32 8x16 input
tensor w f32 16x16 parameter
tensor a f32 8x16
tensor kv f32 16x16 output
node first Gemm x w -> a
node fill my::Fill a -> kv
"""
DECODE = """tmmu-ir-text 1
tensor t f32 1x16 input
tensor w f32 16x16 parameter
tensor kv f32 16x16 input donated
tensor b f32 1x16
tensor kv1 f32 16x16 output
tensor y f32 1x16 output
node first Gemm t w -> b
node put my::Put b kv -> kv1 inplace kv1 kv
node last my::Attend b kv1 -> y
"""


def recurrent(path: Path, rows: int, seed: int) -> None:
    """A model of a state: its next value is what it was, with what some rows of input add."""
    random = np.random.default_rng(seed)
    weights = [
        numpy_helper.from_array(random.standard_normal(shape).astype(np.float32) * np.float32(0.3), name)
        for name, shape in (("W", (rows, 16)), ("U", (16, 16)), ("V", (16, 4)))
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "W"], ["a"]), helper.make_node("MatMul", ["h", "U"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["s"]), helper.make_node("Tanh", ["s"], ["h_next"]),
        helper.make_node("MatMul", ["h_next", "V"], ["y"]),
    ]  # fmt: skip
    ends = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, size]) for name, size in pairs]
        for pairs in ((("x", rows), ("h", 16)), (("y", 4), ("h_next", 16)))
    ]
    graph = helper.make_graph(nodes, "g", ends[0], ends[1], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("session")
    for name, text in (("prefill", PREFILL), ("decode", DECODE)):
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


@pytest.fixture(scope="module")
def recurrent_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recurrent")
    for name, rows in (("warm", 32), (STEP, 8)):
        recurrent(folder / f"{name}.onnx", rows, 1)
    models = [str(folder / "warm.onnx"), str(folder / f"{STEP}.onnx")]
    assert run(["plan", *models, "--share", "h", "--donate", "h", "-o", str(folder / "set")]) == 0
    return folder


@pytest.mark.skipif(HERE, reason="onnxruntime is installed")
def test_what_is_not_compared_is_said(recurrent_set: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models = [f"--model={name}={recurrent_set / name}.onnx" for name in ("warm", STEP)]
    assert run(["run", str(recurrent_set / "set"), "--calls", "warm,step*3", "--sanitize", *models]) == 0
    assert "not compared with onnxruntime: onnxruntime is not installed" in capsys.readouterr().out


@with_onnxruntime
def test_onnxruntime_computes_the_same_calls_with_its_outputs_fed_back(
    recurrent_set: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tmmu.simulator import onnxruntime_calls as calls

    models = [f"--model={name}={recurrent_set / name}.onnx" for name in ("warm", STEP)]
    asked = ["run", str(recurrent_set / "set"), "--calls", "warm,step*3", "--sanitize", "--format", "json", *models]
    capsys.readouterr()
    assert run(asked) == 0
    found = json.loads(capsys.readouterr().out)
    assert [call["onnxruntime"]["relative"] < 1e-5 for call in found["calls"]] == [True] * 4

    def forgets(self: Any, name: str, inputs: Any) -> Any:
        self.kept.clear()
        return whole(self, name, inputs)

    whole = calls.SessionCalls.call
    monkeypatch.setattr(calls.SessionCalls, "call", forgets)
    assert run(asked) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["verdict"], found["witness"]) == ("DIFFERENT", None)


@with_onnxruntime
def test_values_are_compared_up_to_rounding() -> None:
    from tmmu.simulator.onnxruntime_calls import compare

    one = np.array([1.0, 1000.0], np.float32)

    def agree(ours: Any, theirs: Any) -> bool:
        found = compare({"y": ours}, {"y": theirs})
        return found is not None and found.is_rounding

    assert compare({"y": one}, {"z": one}) is None
    assert agree(one, one)
    assert agree(one + np.float32(0.5), one)
    others = (one + np.float32(2), one[:1], np.array([np.nan, 1000.0], np.float32))
    assert [agree(other, one) for other in others] == [False] * 3
    assert not agree(np.array([1]), np.array([2]))


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
