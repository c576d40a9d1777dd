"""ONNX models in the simulator, each node computed by onnxruntime, where that is installed (the extra `judges`)."""

from __future__ import annotations

import importlib.util
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.support import set_programs
from tests.support.commands import ran
from tests.support.onnx_files import model_of
from tests.support.simulations import Simulated
from tmmu import examples
from tmmu.cli.entry import run as command
from tmmu.core.errors import TmmuError
from tmmu.examples import gpt2, unet
from tmmu.plans import file

HERE = importlib.util.find_spec("onnxruntime") is not None
with_onnxruntime = pytest.mark.skipif(not HERE, reason="onnxruntime is not installed")  # CI does without

ONE_HOT = """main (float[2] i) => (int64[2, 2] y) <int64 n = {2}, int64[2] v = {1, 64}> { y = OneHot (i, n, v) }"""
"""Its indices are no integers; the text casts them to int64."""


def simulated(model: onnx.ModelProto, folder: Path, **options: Any) -> Simulated:
    from tmmu.simulator.onnxruntime_node import SessionKernel

    return Simulated(model, folder, make=partial(SessionKernel, sessions={}), **options)


def close(model: onnx.ModelProto, folder: Path, **options: Any) -> bool:
    """Is a run identical, and are its outputs nearly those of onnx's evaluator, with other orders of addition?"""
    other, run = Simulated(model, folder, **options).outputs, simulated(model, folder, **options)
    assert run.report.corruption is None
    assert run.report.touched == run.report.footprints
    return bool(other) and all(np.allclose(run.outputs[name], other[name], atol=1e-4) for name in other)


@with_onnxruntime
@pytest.mark.parametrize("name", ["chain", "loop", "mico-mlp", "mico-lenet"])
def test_small_examples_are_identical_and_nearly_what_onnx_makes_of_them(name: str, tmp_path: Path) -> None:
    """A Loop goes step by step. spec: SIM5.9, SIM1.7"""
    assert close(examples.model(name), tmp_path)


@with_onnxruntime
def test_a_result_smaller_than_its_bound_is_run_at_its_own_shape(tmp_path: Path) -> None:
    """spec: SIM5.11"""
    text = (
        "main (float[6] x) => (float[1, 6] y) <int64[1, 6] i> { i = NonZero (x)  f = Cast <to = 1> (i)  y = Neg (f) }"
    )
    x = {"x": np.array([0, 1, 0, 2, 0, 3], np.float32)}
    assert close(model_of(text), tmp_path, bindings={"trust_shapes": True}, inputs=x)


@with_onnxruntime
def test_a_block_of_gpt2_and_a_small_unet_are_identical(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """spec: SIM5.9, SIM1.7"""
    monkeypatch.setattr(gpt2, "LAYERS", 1)
    monkeypatch.setattr(gpt2, "VOCABULARY", 100)
    assert close(gpt2.build(), tmp_path, bindings={"dims": {"batch": 1, "seq": 8}})
    for name, value in {"CHANNELS": (4, 8, 12, 16), "BOTTOM": 20, "SIDE": 32}.items():
        monkeypatch.setattr(unet, name, value)
    assert close(unet.build(), tmp_path, bindings={"dims": {"batch": 1}})


@with_onnxruntime
def test_where_onnxs_evaluator_is_wrong_the_two_runs_have_other_outputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Finding 79: it compares indices as they are. Both runs are identical in themselves. spec: SIM5.9"""
    monkeypatch.chdir(tmp_path)
    onnx.save(model_of(ONE_HOT), "m.onnx")
    np.savez("i.npz", i=np.float32([0.5, 1]))
    found = {}
    for kernels in ("onnx", "onnxruntime"):
        beside = ("--inputs", "i.npz", "--kernels", kernels, "--sanitize", "-o", f"{kernels}.npz")
        code, out, _ = ran(capsys, "run", "m.onnx", *beside)
        assert (code, out.startswith("IDENTICAL"), f"kernels {kernels}," in out) == (0, True, True)
        found[kernels] = np.load(f"{kernels}.npz")["y"].tolist()
    assert found == {"onnx": [[1, 1], [1, 64]], "onnxruntime": [[64, 1], [1, 64]]}


@with_onnxruntime
def test_a_wrong_plan_is_corrupted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two tensors that live at one step in the same bytes. spec: SIM3.1, SIM5.9"""
    from tmmu.examples.broken.editing import changed

    path, plan = tmp_path / "model.onnx", tmp_path / "wrong.cbor"
    text = "main (float[4] x) => (float[4] z) <int64 k = {0}> { a = Exp (x) b = CumSum (a, k) z = Sub (b, a) }"
    right = Simulated(model_of(text), tmp_path).plan
    t = right.allocation.tensors
    home = dict(zip(t.name, t.storage.tolist(), strict=True))
    file.save(changed(right, "storages", home["b"], offset=int(right.allocation.storages.offset[home["a"]])), str(plan))
    code, out, _ = ran(capsys, "run", str(path), "--plan", str(plan), "--kernels", "onnxruntime", "--sanitize")
    assert (code, out.startswith("CORRUPTED"), "reads a, whose bytes hold b" in out) == (1, True, True)


@with_onnxruntime
def test_what_onnxruntime_has_no_kernel_for_is_named_before_anything_is_run(tmp_path: Path) -> None:
    """spec: SIM5.8, SIM6.1"""
    custom = model_of("main (float[4] x) => (float[4] y) { y = com.example.Op (x) }", more=', "com.example" : 1')
    with pytest.raises(TmmuError, match="onnxruntime has no kernel for Op") as caught:
        simulated(custom, tmp_path, bindings={"trust_shapes": True})
    assert (caught.value.code_id, caught.value.place) == ("INVALID_IR", "node 'Op#0'")
    half = model_of("main (bfloat16[4] x) => (bfloat16[4] y) { y = Relu (x) }", opset=21, ir_version=10)
    with pytest.raises(TmmuError, match="onnxruntime has no kernel for Relu"):
        simulated(half, tmp_path)


@with_onnxruntime
@pytest.mark.parametrize("kind", ["FLOAT16", "BFLOAT16", "FLOAT8E5M2", "INT4", "UINT4"])
def test_elements_that_numpy_has_no_type_for_are_handed_over(kind: str, tmp_path: Path) -> None:
    """To onnxruntime, and back. spec: SIM5.2, SIM5.9"""
    to = TensorProto.DataType.Value(kind)
    text = "main (float[5] x) => (float[5] y) { a = Cast <to: int = TO> (x) y = Cast <to: int = 1> (a) }"
    model = model_of(text.replace("TO", str(to)), opset=21, ir_version=10)
    run = simulated(model, tmp_path, inputs={"x": np.float32([0, 1, 2, 3, 4])})
    assert run.report.corruption is None
    assert run.outputs["y"].tolist() == [0, 1, 2, 3, 4]


@with_onnxruntime
def test_random_operators_draw_the_same_in_both_memories_and_at_each_batch(tmp_path: Path) -> None:
    """Of onnxruntime each session goes on from the numbers that it has drawn. spec: SIM5.5"""
    text = "main (float[8] x) => (float[8] y) { a = RandomNormalLike (x) b = RandomNormalLike (x) y = Sub (a, b) }"
    one, other = (simulated(model_of(text), tmp_path) for _ in range(2))
    assert one.report.identical
    assert one.outputs["y"].tolist() == other.outputs["y"].tolist() != [0.0] * 8


@with_onnxruntime
def test_equal_nodes_share_a_session_and_a_kernel_that_fails_names_its_node() -> None:
    """spec: SIM5.9, SIM6.1"""
    from tmmu.simulator.onnxruntime_node import SessionKernel

    made: dict[bytes, Any] = {}
    opsets, size = [helper.make_opsetid("", 21)], ((4,), "float32")

    def kernel(name: str, op: str, *sizes: Any) -> SessionKernel:
        node = helper.make_node(op, [f"{name}{k}" for k in range(len(sizes))], ["y"], name=name)
        return SessionKernel(name, node, opsets, sizes, [size], sessions=made)

    one, _, _ = kernel("one", "Relu", size), kernel("two", "Relu", size), kernel("three", "Abs", size)
    assert len(made) == 2
    assert one.run([np.float32([-1, 2, -3, 4])])[0].tolist() == [0, 2, 0, 4]
    gather = kernel("gather", "Gather", size, ((4,), "int64"))
    with pytest.raises(TmmuError, match="the kernel fails") as caught:
        gather.run([np.zeros(4, np.float32), np.array([0, 1, 2, 9])])
    assert (caught.value.code_id, caught.value.place) == ("CONTRACT_VIOLATION", "node 'gather'")


def test_without_onnxruntime_the_command_that_installs_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is planned. spec: SIM6.1"""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.delitem(sys.modules, "tmmu.simulator.onnxruntime_node", raising=False)
    onnx.save(model_of(ONE_HOT), "m.onnx")
    code, out, err = ran(capsys, "run", "m.onnx", "--kernels", "onnxruntime")
    assert (code, out) == (2, "")
    assert "--kernels onnxruntime needs the package onnxruntime; " in err
    assert "pip install 'onnxruntime>=" in err


@with_onnxruntime
def test_onnxruntime_computes_the_same_calls_with_its_outputs_fed_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A set that forgets its state differs. spec: SIM9.6"""
    from tmmu.simulator import onnxruntime_calls as calls

    models = set_programs.plan_recurrent(tmp_path)
    asked = ["run", str(tmp_path / "set"), "--calls", "warm,step*3", "--sanitize", "--format", "json", *models]
    capsys.readouterr()
    assert command(asked) == 0
    found = json.loads(capsys.readouterr().out)
    assert [call["onnxruntime"]["relative"] < 1e-5 for call in found["calls"]] == [True] * 4

    def forgets(self: Any, name: str, inputs: Any) -> Any:
        self.kept.clear()
        return whole(self, name, inputs)

    whole = calls.SessionCalls.call
    monkeypatch.setattr(calls.SessionCalls, "call", forgets)
    assert command(asked) == 1
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


@with_onnxruntime
def test_onnxruntime_computes_what_onnx_has_no_kernel_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Unless the kernels are chosen; the answer names the node. spec: SIM5.12"""
    fused = model_of(
        "main (float[2,4] x) => (float[2,4] y) { y = com.microsoft.Gelu (x) }", more=', "com.microsoft" : 1'
    )
    path = tmp_path / "m.onnx"
    path.write_bytes(fused.SerializeToString())
    code, out, _ = ran(capsys, "run", str(path), "--trust-shapes")
    assert (code, "computed by onnxruntime, as onnx has no kernel: Gelu (Gelu#0)" in out) == (0, True)
    code, _, error = ran(capsys, "run", str(path), "--trust-shapes", "--kernels", "onnx")
    assert (code, "onnx has no kernel for Gelu" in error) == (4, True)
