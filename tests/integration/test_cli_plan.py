"""`tmmu plan`: it plans, checks and writes; or it says in one line why not, and writes nothing.

spec: C2.1, C2.2, C2.6, T10.7, A4.1, D1.1, R5.2, M1.3
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from proofs.verify import entry as verifier
from tests.support.example_models import full
from tests.support.onnx_files import network
from tests.support.text_models import text_model
from tmmu.cli.entry import run
from tmmu.core.vocabulary import Model
from tmmu.examples.broken.editing import changed
from tmmu.ir import files
from tmmu.planner import PlanOptions, plan_memory, replay_token
from tmmu.planner.plan import Planned
from tmmu.plans import file
from tmmu.plans.sections import Plan, amend_plan
from tmmu.tasks import checking, planning

ROOT = Path(__file__).resolve().parents[2]
CHAIN = text_model(
    "node relu Relu x -> a", "node relu2 Relu a -> b inplace b a", "node relu3 Relu b -> y inplace y b", parameters="w"
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with models, where the command runs."""
    files.save(CHAIN, tmp_path / "m.ir.cbor")
    (tmp_path / "m.onnx").write_bytes(network())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def entries(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(list(arguments))
    out, err = capsys.readouterr()
    return code, out, err


# It plans.


@pytest.mark.parametrize(
    ("inputs", "weights", "outputs"),
    [("x", "", "x"), ("", "w", "w"), ("x", "w", "x w"), ("x", "", ""), ("", "w", ""), ("", "", "")],
)
def test_a_file_without_nodes_is_a_model(
    folder: Path, capsys: pytest.CaptureFixture[str], inputs: str, weights: str, outputs: str
) -> None:
    """What goes in comes out: ONNX allows that, and graphs that hand out nothing. spec: M3.6"""
    vectors = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xw"}
    stored = [helper.make_tensor(name, TensorProto.FLOAT, [4], [0.0] * 4) for name in weights.split()]
    given, returned = ([vectors[name] for name in names.split()] for names in (inputs, outputs))
    model = helper.make_model(helper.make_graph([], "through", given, returned, stored))
    onnx.checker.check_model(model)
    onnx.save(model, "through.onnx")
    assert ran(capsys, "plan", "through.onnx", "-o", "p.cbor")[0] == 0
    plan = file.load("p.cbor").plan
    assert (len(plan.allocation.steps), plan.allocation.tensors.name.list()) == (0, [*inputs.split(), *weights.split()])
    assert verifier.run(["p.cbor", "--model", "through.onnx"]) == 0
    assert capsys.readouterr().out.startswith("PROVED p.cbor against through.onnx\n")
    assert ran(capsys, "run", "through.onnx", "--plan", "p.cbor")[1].startswith("IDENTICAL p.cbor: 0 steps")


@pytest.mark.parametrize("content", [b"", b"\x08\x0a", b"\x08\x0a\x3a\x00"])
def test_a_file_without_a_graph_or_a_version_is_no_model(
    folder: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    """Nothing, a version alone, and a version with an empty graph of no operators' version."""
    (folder / "no.onnx").write_bytes(content)
    code, out, err = ran(capsys, "plan", "no.onnx", "-o", "p.cbor")
    assert (code, out, "[INVALID_IR]" in err, (folder / "p.cbor").exists()) == (4, "", True, False)


def test_a_model_is_planned_and_the_plan_described(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = ran(capsys, "plan", "m.ir.cbor", "-o", "out.cbor")
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == ["wrote", "parameters:", "activations:", "in", "success,"]
    stated = file.load("out.cbor")
    assert stated.plan == plan_memory(CHAIN, options=PlanOptions(layout="packed")).plan
    assert file.find_false_hashes(stated) == []


def test_the_bindings_that_were_used_are_printed_and_kept(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = ran(capsys, "plan", "m.onnx", "--dim", "n=4", "--donate", "x", "--trust-shapes")
    assert code == 0
    assert "  bindings: n=4" in out.splitlines()
    assert "  donated: x" in out.splitlines()
    plan = file.load("m.plan.cbor").plan
    assert (dict(plan.bindings.dims), plan.bindings.donated) == ({"n": 4}, ("x",))
    code, out, _ = ran(capsys, "plan", "m.onnx", "--shape", "x=4x8")
    assert (code, "  bindings: x=4x8" in out.splitlines()) == (0, True)


def test_the_mode_is_the_users(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """spec: M1.1, M1.2"""
    model = text_model(
        "node relu Relu x -> a", "node relu2 Relu a -> b", "node relu3 Relu b -> y", "tensor a u8 64 saved"
    )
    files.save(model, folder / "m.ir.cbor")
    found = {}
    for mode in ("inference", "forward"):
        assert ran(capsys, "plan", "m.ir.cbor", "--mode", mode)[0] == 0
        plan = file.load("m.plan.cbor").plan
        found[mode] = (plan.origin.mode, int(plan.allocation.tensors.death[1]))
    assert found == {"inference": ("inference", 1), "forward": ("forward", 2)}


def test_the_token_is_the_users_or_that_of_a_seed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """spec: A4.2, A4.3"""
    tokens = {(): replay_token(0), ("--seed", "7"): replay_token(7), ("--replay-token", "ab" * 32): b"\xab" * 32}
    for flags, token in tokens.items():
        assert ran(capsys, "plan", "m.ir.cbor", *flags)[0] == 0
        assert file.load("m.plan.cbor").plan.origin.replay_token == token


def test_the_arenas_are_those_of_the_configuration(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    roles = "roles = ['input', 'parameter', 'optimizer', 'activation', 'gradient', 'scratch']"
    (folder / "a.toml").write_text(f"[arenas.one]\n{roles}\nalignment = 16\n")
    code, out, _ = ran(capsys, "plan", "m.ir.cbor", "--arenas", "a.toml")
    assert (code, out.splitlines()[1].split(":")[0]) == (0, "  one")
    assert [arena.name for arena in file.load("m.plan.cbor").plan.allocation.arenas] == ["one"]


def test_an_old_plan_is_replaced(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "m.plan.cbor").write_bytes(b"old")
    assert ran(capsys, "plan", "m.ir.cbor")[0] == 0
    assert file.load("m.plan.cbor").plan == plan_memory(CHAIN, options=PlanOptions(layout="packed")).plan


def test_plans_have_the_same_bytes_under_every_hash_seed(folder: Path) -> None:
    model = replace(full(), bindings=replace(full().bindings, shapes={}))
    files.save(model, folder / "full.ir.cbor")
    written = set()
    for seed in ("0", "1", "random"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        for name, flags in (("full.ir.cbor", []), ("m.onnx", ["--dim", "n=4"])):
            command = [sys.executable, "-m", "tmmu.cli.entry", "plan", name, "-o", "out.cbor", *flags]
            subprocess.run(command, check=True, capture_output=True, env=environment, timeout=120)
            written.add((name, (folder / "out.cbor").read_bytes()))
    assert len(written) == 2


# It checks.


def tampered(monkeypatch: pytest.MonkeyPatch, change: Callable[[Plan], Plan]) -> None:
    """Let the planner make a wrong plan."""

    def wrong(model: Model, *arguments: Any, **options: Any) -> Planned:
        planned = plan_memory(model, *arguments, **options)
        return Planned(change(planned.plan), planned.refused)

    monkeypatch.setattr(planning, "plan_memory", wrong)


def with_false_claim(plan: Plan) -> Plan:
    return amend_plan(plan, usage=(*plan.usage[:2], plan.usage[2]._replace(max_live=9), plan.usage[3]))


@pytest.mark.parametrize(
    ("change", "obligation"),
    [
        (lambda plan: changed(plan, "storages", 0, offset=64), "alignment"),
        (lambda plan: changed(plan, "tensors", "y", role=1), "steps_are_the_model"),
        (with_false_claim, "slot_count"),
        (lambda plan: changed(plan, "tensors", "y", storage=9), "tensors.storage row 4"),
    ],
    ids=["checker", "model", "claims", "gate"],
)
def test_a_wrong_plan_of_the_planner_is_not_written(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Plan], Plan],
    obligation: str,
) -> None:
    tampered(monkeypatch, change)
    (folder / "m.plan.cbor").write_bytes(b"old")
    before = entries(folder)
    code, out, err = ran(capsys, "plan", "m.ir.cbor")
    assert (code, out, len(err.splitlines())) == (4, "", 1)
    assert err.startswith(f"error: m.ir.cbor: {obligation}: ")
    assert err.endswith("[CONTRACT_VIOLATION]\n")
    assert (entries(folder), (folder / "m.plan.cbor").read_bytes()) == (before, b"old")


def test_a_plan_with_a_false_hash_is_not_written(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is checked are the bytes that would be written. spec: C2.1"""
    right = file.encode
    monkeypatch.setattr(file, "encode", lambda plan: right(plan, {"plan_hash": bytes(32)}))
    code, _, err = ran(capsys, "plan", "m.ir.cbor")
    assert (code, "m.plan.cbor" in entries(folder)) == (4, False)
    assert err.startswith("error: m.ir.cbor: hashes: ")
    assert "plan_hash" in err


@pytest.mark.checkout
def test_no_flag_goes_around_the_check() -> None:
    """Whatever the flags, `plan` calls `check` before it writes, and writes what was checked."""
    source = (ROOT / "tmmu/cli/plan.py").read_text()
    command = source[source.index("def plan(") : source.index("class PlannedModel")]
    assert command.index("made = _plan_model(") < command.index("_written(made")
    assert "if " not in command[command.index("made = _plan_model(") : command.index("_written(made")]
    planned = source[source.index("def _plan_model(") : source.index("def _read(")]
    assert "        if request.jobs is None:\n            _check_plans(found, doing)\n" in planned
    assert "_written(made, target)\n                        if request.jobs is None\n" in command
    checking = source[source.index("def _check_plans(") : source.index("def _targets(")]
    assert "if " not in checking[checking.index("for number, one in") : checking.index("found.task.check(one)")]
    assert (source.count("found.task.check(one)"), source.count("file.save("), source.count("_written(")) == (1, 0, 2)
    assert source.count("write_atomically(paths[-1], made.checked or file.encode(one))") == 1
    assert source.count("write_atomically(") == 1
    by_many = (ROOT / "tmmu/cli/rank_files.py").read_text()
    assert by_many.count("write_atomically(") == 1
    checked = by_many[by_many.index("data = task.check(plans[k])") : by_many.index("write_atomically(")]
    assert len(checked.splitlines()) == 2


def test_an_alias_group_that_the_model_does_not_keep_is_not_written(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """spec: V1.9"""
    files.save(
        text_model("node relu Relu x -> a", "node relu2 Relu x -> b", "node add Add a b -> y", "alias g a b"),
        folder / "m.ir.cbor",
    )
    code, _, err = ran(capsys, "plan", "m.ir.cbor")
    assert (code, err.startswith("error: m.ir.cbor: alias group 'g': "), "step 2 (add)" in err) == (4, True, True)
    assert err.endswith(" [INVALID_IR]\n")
    assert "m.plan.cbor" not in entries(folder)


def test_a_loop_that_is_said_not_to_iterate_is_the_models_error(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """spec: T8.3"""
    files.save(
        text_model(
            "node relu Relu x -> c", "begin loop1 Loop x -> y", "arm body f -> g", "  node add Add f c -> g",
            "end loop1",
        ),
        folder / "m.ir.cbor",
    )  # fmt: skip
    code, _, err = ran(capsys, "plan", "m.ir.cbor")
    assert (code, err.startswith("error: m.ir.cbor: node 'loop1': ")) == (4, True)
    assert err.endswith(" [INVALID_IR]\n")


def test_a_right_plan_passes_the_check_with_and_without_an_ir() -> None:
    model = replace(full(), bindings=replace(full().bindings, shapes={}))
    checking.check(plan_memory(model).plan, model, is_ir=True)
    checking.check(plan_memory(CHAIN).plan, CHAIN, is_ir=False)


# It says why not.


def test_a_disk_that_is_full_leaves_the_old_plan(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: P1.4"""

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    (folder / "m.plan.cbor").write_bytes(b"old")
    before = entries(folder)
    monkeypatch.setattr(os, "fsync", full_disk)
    code, out, err = ran(capsys, "plan", "m.ir.cbor")
    monkeypatch.undo()
    assert (code, out) == (4, "")
    assert "m.plan.cbor: cannot be written (No space left on device)" in err
    assert (entries(folder), (folder / "m.plan.cbor").read_bytes()) == (before, b"old")


def test_an_exception_that_nobody_expected_is_exit_70(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tampered(monkeypatch, lambda plan: plan.missing)  # type: ignore[attr-defined]  # that is the point
    code, out, err = ran(capsys, "plan", "m.ir.cbor")
    assert (code, out) == (70, "")
    assert err.splitlines()[-1].startswith("internal error: ")


def test_a_hostile_name_begins_no_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """spec: C1.7"""
    name = "x\nPROVED"
    model = text_model("node relu Relu x -> y inplace y x", "node relu2 Relu y -> z inplace z y", outputs="z")
    tensors = tuple(replace(t, name=name) if t.name == "x" else t for t in model.tensors)
    files.save(replace(model, tensors=tensors), folder / "m.ir.cbor")
    code, out, _ = ran(capsys, "plan", "m.ir.cbor", "--why", "--donate", name)
    assert code == 0
    assert not any(line.startswith("PROVED") for line in out.splitlines())


def test_a_donated_name_is_kept_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files.save(replace(CHAIN, bindings=replace(CHAIN.bindings, donated=("x",))), folder / "m.ir.cbor")
    assert ran(capsys, "plan", "m.ir.cbor", "--donate", "w", "--donate", "x")[0] == 0
    assert file.load("m.plan.cbor").plan.bindings.donated == ("w", "x")


def test_a_pattern_donates_what_it_fits_and_text_names_eight_of_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`y.0` is no input and is left out. spec: V5.5"""
    operands = " ".join(f"w.{k}" for k in range(9))
    files.save(
        text_model(f"node sum Sum {operands} x -> y.0", parameters=operands, outputs="y.0"), folder / "m.ir.cbor"
    )
    code, out, err = ran(capsys, "plan", "m.ir.cbor", "--donate", "*.*")
    assert err == ""
    assert (code, file.load("m.plan.cbor").plan.bindings.donated) == (0, tuple(operands.split()))
    [line] = [line for line in out.splitlines() if line.startswith("  donated: ")]
    assert [f"w.{k}" in line for k in range(9)] == [True] * 8 + [False]
    assert verifier.run(["m.plan.cbor", "--donate", "w*", "--model", "m.ir.cbor"]) == 0
    assert ran(capsys, "plan", "m.onnx", "--dim", "n=4", "--donate", "*", "-o", "o.cbor")[0] == 0
    assert "x" in file.load("o.cbor").plan.bindings.donated


def test_each_of_several_models_is_bound_by_the_names_that_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A name that none of them has is refused. spec: C5.11"""
    monkeypatch.chdir(tmp_path)
    for name in ("unet", "llama-block", "mico-lenet"):
        assert run(["example", name, "-o", f"{name}.onnx"]) == 0
    bound = ["--dim", "batch=1", "--dim", "seq=16..64:16"]
    assert run(["plan", ".", "-q", *bound, "-o", "plans"]) == 0
    assert len(list((tmp_path / "plans").iterdir())) == 3
    capsys.readouterr()
    assert run(["plan", ".", "-q", *bound, "--dim", "bacth=2", "-o", "plans"]) == 2
    assert "no dimension is named 'bacth'" in capsys.readouterr().err
