"""`tmmu run`: its answers, its exit codes, its files, and what it says of bad input."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.support.commands import ran
from tests.support.onnx_files import model_of, written
from tests.support.text_models import text_model
from tmmu import examples
from tmmu.cli import run_loop
from tmmu.core.columns import build_column
from tmmu.examples.broken.editing import changed
from tmmu.ir import files
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans import file
from tmmu.plans.columns import Terms
from tmmu.plans.shapes import at_shape

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model, its plan, a plan of an IR model and a wrong plan, in which the commands are given."""
    monkeypatch.chdir(tmp_path)
    examples.write("mico-mlp", "m.onnx")
    examples.write("broken/in-place-read-later", "wrong.cbor")
    model = text_model("node matmul Matmul x -> a", "node add Add a w -> y", parameters="w")
    files.save(model, "i.ir.cbor")
    file.save(plan_memory(model).plan, "i.plan.cbor")
    return tmp_path


def test_a_model_is_run_in_the_plan_that_is_given(folder: Path, capsys: Captured) -> None:
    assert ran(capsys, "plan", "m.onnx", "-o", "m.plan.cbor", "--layout", "slots")[0] == 0
    code, out, _ = ran(capsys, "run", "--random-weights", "m.onnx", "--plan", "m.plan.cbor", "--format", "json")
    answer = json.loads(out)
    assert (code, answer["file"], answer["verdict"], answer["kernels"]) == (0, "m.plan.cbor", "IDENTICAL", "onnx")
    assert (answer["exit"], answer["witness"], answer["batches"], answer["sanitize"]) == (0, None, 1, False)
    assert all(arena["used_bytes"] == arena["footprint_bytes"] for arena in answer["arenas"])


def test_stand_ins_run_four_seeds_where_a_branch_depends_on_them_and_else_one(folder: Path, capsys: Captured) -> None:
    """spec: SIM4.3, SIM6.10"""
    lines = (
        "begin if If x -> a", "arm then -> b", "  node matmul1 Matmul x -> b", "arm else -> c",
        "  node matmul2 Matmul x -> c", "end if", "node matmul3 Matmul a -> y",
    )  # fmt: skip
    file.save(plan_memory(text_model(*lines)).plan, "branches.cbor")

    def seeds(*arguments: str) -> str:
        code, out, _ = ran(capsys, "run", *arguments)
        assert code == 0
        return out.splitlines()[0].rpartition("kernels ")[2]

    assert seeds("branches.cbor", "--seed", "5") == "hash, seeds 5 to 8"
    assert seeds("i.plan.cbor", "--seed", "5") == seeds("branches.cbor", "--seed", "5", "--batches", "1")
    assert seeds("i.plan.cbor", "--batches", "2") == "hash, seeds 0 to 1"
    assert seeds("m.onnx", "--kernels", "hash") == "hash, seed 0"


def test_the_seed_that_shows_a_corruption_is_named(folder: Path, capsys: Captured) -> None:
    """Only one branch is wrong, and only one of two seeds takes it. spec: SIM6.6"""
    lines = (
        "begin if If x -> a", "arm then -> b", "  node matmul1 Matmul x -> p", "  node matmul2 Matmul p x -> b",
        "arm else -> c", "  node matmul3 Matmul x -> c", "end if", "node matmul4 Matmul a -> y",
    )  # fmt: skip
    plan = plan_memory(text_model(*lines), options=PlanOptions(layout="slots")).plan
    names = plan.allocation.tensors.name.list()
    homes = [int(plan.allocation.tensors.storage[names.index(name)]) for name in ("x", "p")]
    plan = changed(plan, "storages", homes[1], offset=int(plan.allocation.storages.offset[homes[0]]))
    file.save(plan, "half.cbor")
    _, out, _ = ran(capsys, "run", "half.cbor", "--format", "json")
    seed = json.loads(out)["witness"]["seed"]
    other = 1 - seed
    assert ran(capsys, "run", "half.cbor", "--seed", str(other), "--batches", "1")[0] == 0
    assert ran(capsys, "run", "half.cbor", "--seed", str(seed), "--batches", "1")[0] == 1


def test_inputs_are_read_and_outputs_written(folder: Path, capsys: Captured) -> None:
    """spec: SIM5.3, SIM6.2"""
    np.savez("x.npz", x=np.zeros((1, 256), np.float32))
    code, _, err = ran(capsys, "run", "--random-weights", "m.onnx", "--inputs", "x.npz", "-o", "y.npz")
    assert (code, err) == (0, "wrote y.npz\n")
    first = np.load("y.npz")["output"]
    assert first.shape == (1, 10)
    assert ran(capsys, "run", "--random-weights", "m.onnx", "-o", "z.npz")[0] == 0
    assert np.load("z.npz")["output"].tolist() != first.tolist()
    assert ran(capsys, "run", "--random-weights", "m.onnx", "--inputs", "x.npz", "-o", "y.npz")[0] == 0
    assert np.load("y.npz")["output"].tobytes() == first.tobytes()


@pytest.mark.parametrize("change", ["another producer", "weights that were written", "nothing"])
def test_a_model_without_its_weights_is_not_run_unless_that_is_asked_for(
    change: str, folder: Path, capsys: Captured
) -> None:
    """Stand-in kernels need none, and an example has none unless they were drawn. spec: SIM5.10"""
    if change == "weights that were written":
        examples.write("mico-vgg", "m.onnx", 1)
        Path("m.onnx.data").unlink()
    elif change == "another producer":
        model = onnx.load("m.onnx", load_external_data=False)
        model.producer_name = "another"
        onnx.save(model, "m.onnx")
    code, out, err = ran(capsys, "run", "m.onnx", "--batches", "1")
    if change == "nothing":
        assert code == 0
        return
    assert (code, out) == (4, "")
    assert "does not exist; put the file beside the model" in err
    assert ran(capsys, "run", "m.onnx", "--random-weights", "--batches", "1")[0] == 0
    assert ran(capsys, "run", "m.onnx", "--kernels", "hash", "--batches", "1")[0] == 0


def test_no_outputs_are_written_where_the_run_was_not_identical(folder: Path, capsys: Captured) -> None:
    """spec: SIM6.2"""
    plan, model = examples.write("broken/operator-renamed", "renamed.cbor")
    code, out, err = ran(capsys, "run", model, "--plan", plan, "-o", "y.npz", "--random-weights")
    assert (code, err) == (1, "")
    assert "computes changed over first" in out
    assert not (folder / "y.npz").exists()


def test_what_is_donated_may_be_overwritten(folder: Path, capsys: Captured) -> None:
    """spec: V5.5"""
    model = text_model(
        "node update test::Update w x -> w changes w", "node matmul Matmul w -> y", "tensor w u8 64 donated",
        parameters="w",
    )  # fmt: skip
    file.save(plan_memory(model).plan, "d.plan.cbor")
    assert ran(capsys, "run", "d.plan.cbor")[0] == 1
    assert ran(capsys, "run", "d.plan.cbor", "--donate", "w")[0] == 0
    assert ran(capsys, "run", "d.plan.cbor", "--donate", "w*")[0] == 0
    for wrong in ("v", "v*", "y"):
        code, _, err = ran(capsys, "run", "d.plan.cbor", "--donate", wrong)
        assert (code, "[INVALID_BINDING]" in err, f"--donate {wrong}: no graph input" in err) == (2, True, True)


def test_a_training_plan_is_run_alone(folder: Path, capsys: Captured) -> None:
    """spec: SIM6.3"""
    assert ran(capsys, "plan", "m.onnx", "-o", "t.plan.cbor", "--mode", "backward")[0] == 0
    code, out, err = ran(capsys, "run", "m.onnx", "--plan", "t.plan.cbor")
    assert (code, out, "[MODE_VIOLATION]" in err) == (4, "", True)
    assert ran(capsys, "run", "t.plan.cbor", "--sanitize")[0] == 0


def test_anything_unexpected_is_no_answer(folder: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """spec: SIM6.1"""

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(run_loop, "Batches", broken)
    code, out, err = ran(capsys, "run", "i.plan.cbor")
    assert (code, out) == (70, "")
    assert "internal error" in err


def test_odd_names_are_printed_on_one_line(folder: Path, capsys: Captured) -> None:
    model = text_model("node matmul Matmul x -> a", "node add Add a x -> y")
    tensors = tuple(replace(t, name=f"{t.name}\nIDENTICAL") for t in model.tensors)
    plan = plan_memory(replace(model, tensors=tensors), options=PlanOptions(layout="slots")).plan
    homes = [int(plan.allocation.tensors.storage[t]) for t in range(len(plan.allocation.tensors))]
    plan = changed(plan, "storages", homes[2], offset=int(plan.allocation.storages.offset[homes[1]]))
    file.save(plan, "odd.cbor")
    _, out, _ = ran(capsys, "run", "odd.cbor", "--sanitize")
    assert [line for line in out.splitlines() if line.startswith("IDENTICAL")] == []
    assert "a\\nIDENTICAL" in out


OPEN = """g (float[b, 4] x) => (float[b, 4] y) { t = Tanh (x) u = Relu (t) y = Add (t, u) }"""


def test_a_plan_for_an_envelope_is_run_at_its_largest_or_at_a_size_inside(folder: Path, capsys: Captured) -> None:
    """spec: SIM6.7"""
    Path(written(folder, model_of(OPEN))).rename("e.onnx")
    assert ran(capsys, "plan", "e.onnx", "-o", "e.plan.cbor", "--dim", "b=2..8")[0] == 0
    for flags, used in (((), 256), (("--dim", "b=8"), 256), (("--dim", "b=3"), 176)):
        code, out, err = ran(capsys, "run", "e.onnx", "--plan", "e.plan.cbor", "--sanitize", *flags)
        assert (code, err) == (0, "")
        assert out.splitlines()[0].startswith("IDENTICAL e.plan.cbor: ")
        assert f"  activations: {used} bytes used of a footprint of 256" in out.splitlines()
    for size in (1, 9):
        code, out, err = ran(capsys, "run", "e.onnx", "--plan", "e.plan.cbor", "--dim", f"b={size}")
        assert (code, out) == (4, "")
        assert f"b is {size}, the envelope holds 2 to 8; nothing was run with it" in err
    assert ran(capsys, "run", "e.onnx", "--plan", "e.plan.cbor", "--dim", "c=3")[0] == 2


def test_a_wrong_size_inside_an_envelope_is_corrupted(folder: Path, capsys: Captured) -> None:
    """At `b` of 8 the plan is right, and run; at 3 a term says less than the model. spec: SIM6.7"""
    Path(written(folder, model_of(OPEN))).rename("e.onnx")
    assert ran(capsys, "plan", "e.onnx", "-o", "e.plan.cbor", "--dim", "b=2..8")[0] == 0
    plan = file.load("e.plan.cbor").plan
    assert plan.envelope is not None
    assert at_shape(plan, {"b": 3}).allocation.tensors.bytes.tolist() == [48] * 4
    rows = len(plan.envelope.terms.op)
    numbers = Terms(*(build_column([x] * rows, d) for x, d in ((0, "u1"), (0, "u4"), (0, "u4"), (128, "u8"))))
    file.save(replace(plan, envelope=replace(plan.envelope, terms=numbers)), "wrong.cbor")
    assert ran(capsys, "run", "e.onnx", "--plan", "wrong.cbor")[0] == 0
    code, out, _ = ran(capsys, "run", "e.onnx", "--plan", "wrong.cbor", "--dim", "b=3")
    assert (code, "128 bytes of float32, the model has 48" in out) == (1, True)
