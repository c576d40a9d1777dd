"""MiCo's class on ONNX models: the document's lifetimes and pools, and what it refuses. spec: MC8.1 to MC8.9"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import tmmu
from proofs.verify import entry as verify_entry
from tmmu import examples
from tmmu.cli.entry import run
from tmmu.core.errors import TmmuError
from tmmu.examples import weights
from tmmu.examples.graph import OnnxGraph
from tmmu.mico import CodeOptions
from tmmu.mico.modules.MiCoUtils import fuse_model
from tmmu.plans import file
from tmmu.plans.sections import Plan, amend_plan
from tmmu.tasks import mico_codegen
from tmmu.tasks.mico_codegen import MiCoCodeGen, prove

TABLE = {
    "mlp": (2640, 1280, 2), "lenet": (60720, 42336, 3), "vgg": (1241168, 589824, 3), "resnet8": (3225680, 786432, 3),
}  # fmt: skip
"""004's table in bytes, and its pools."""


def dynamic() -> onnx.ModelProto:
    """A layer on a batch of any size, and its normalization."""
    graph = OnnxGraph("dynamic")
    value = graph.node("Conv", graph.input("x", ("batch", 2, 4, 4)), graph.weight("w", (4, 2, 3, 3)), result="conv")
    parts = [graph.weight(name, (4,)) for name in ("scale", "shift", "mean", "variance")]
    graph.node("Relu", graph.node("BatchNormalization", value, *parts, result="normal"), result="y")
    graph.output("y", ("batch", 4, 2, 2))
    return weights.with_weights(graph.model(), 1, "")[0]


X = np.random.default_rng(0).normal(size=(3, 2, 4, 4)).astype(np.float32)


@pytest.mark.parametrize("name", TABLE)
def test_the_documents_table_comes_out_of_its_own_class(name: str) -> None:
    """spec: MC8.1, MC8.4"""
    codegen = MiCoCodeGen(examples.model(f"mico-{name}"), align_to=32)
    pools, tensor_to_pool = codegen.allocate_memory_pools()
    sizes = dict(zip(codegen.plan.allocation.tensors.name, codegen.plan.allocation.tensors.bytes.tolist(), strict=True))
    before = sum(sizes[tensor] for pool in pools for tensor in pool["tensors"])
    assert (before, sum(pool["size"] for pool in pools), len(pools)) == TABLE[name]
    assert tensor_to_pool == codegen.tensor_to_pool
    assert {tensor: (k, 0) for k, pool in enumerate(pools) for tensor in pool["tensors"]} == tensor_to_pool
    lifetimes = codegen.compute_tensor_lifetimes()
    for pool in pools:
        assert [tensor for tensor, _, _ in pool["intervals"]] == pool["tensors"]
        assert pool["size"] == max(sizes[tensor] for tensor in pool["tensors"])
        for tensor, first, last in pool["intervals"]:
            assert first == lifetimes[tensor][0] <= lifetimes[tensor][1] <= last
        ends = [-1, *(last for _, _, last in pool["intervals"])]
        assert all(first > end for (_, first, _), end in zip(pool["intervals"], ends, strict=False))


@pytest.mark.parametrize(("bits", "offset"), [(8, 100), (32, 100), (64, 104), (1024, 128)])
def test_everything_is_aligned_to_so_many_bits(bits: int, offset: int) -> None:
    """spec: MC8.1"""
    graph = OnnxGraph("aligned")
    graph.node("Relu", graph.input("x", (25,)), result="y")
    graph.output("y", (25,))
    plan = MiCoCodeGen(graph.model(), align_to=bits).plan
    assert sorted(plan.allocation.storages.offset.tolist()) == [0, offset]


@pytest.mark.parametrize("bits", [0, 4, 24, -32])
def test_bits_that_are_no_alignment_are_refused(bits: int) -> None:
    """spec: MC8.1"""
    with pytest.raises(TmmuError) as refused:
        MiCoCodeGen(dynamic(), align_to=bits)
    assert (refused.value.code_id, refused.value.place) == ("INVALID_ARENA_CONFIG", "align_to")


def test_what_is_no_network_is_refused() -> None:
    """spec: MC8.1"""
    with pytest.raises(TmmuError, match="int is not a network"):
        MiCoCodeGen(7)


def test_forward_runs_the_network_and_binds_its_shapes(tmp_path: Path) -> None:
    """spec: MC8.2"""
    path = tmp_path / "m.onnx"
    onnx.save(dynamic(), path)
    codegen = MiCoCodeGen(path)
    with pytest.raises(TmmuError, match="batch"):
        codegen.compute_tensor_lifetimes()
    expected = ReferenceEvaluator(dynamic()).run(None, {"x": X})[0]
    np.testing.assert_array_equal(codegen.forward(X), expected)
    np.testing.assert_array_equal(codegen(X), expected)
    assert codegen.allocate_memory_pools()[0][0]["size"] == 3 * 2 * 4 * 4 * 4
    codegen.forward(X[:1])
    assert codegen.allocate_memory_pools()[0][0]["size"] == 2 * 4 * 4 * 4


def test_forward_refuses_too_few_inputs_and_weights_that_are_not_there(tmp_path: Path) -> None:
    """spec: MC8.2"""
    with pytest.raises(TmmuError, match="0 inputs"):
        MiCoCodeGen(dynamic()).forward()
    examples.write("mico-vgg", tmp_path / "vgg.onnx")
    codegen = MiCoCodeGen(tmp_path / "vgg.onnx")
    assert len(codegen.allocate_memory_pools()[0]) == 3, "a plan needs no weights"
    with pytest.raises(TmmuError, match="file that was not read"):
        MiCoCodeGen(examples.model("mico-lenet")).forward(np.zeros((1, 1, 28, 28), np.float32))
    (tmp_path / "text.onnx").write_text("no model")
    for refuse in (
        lambda: codegen.forward(np.zeros((1, 3, 32, 32), np.float32)),
        lambda: fuse_model(tmp_path / "vgg.onnx"),
        lambda: fuse_model(tmp_path / "text.onnx"),
        lambda: fuse_model(tmp_path / "absent.onnx"),
    ):
        with pytest.raises(TmmuError, match="--weights") as refused:
            refuse()
        assert refused.value.code_id == "INVALID_IR"


def test_a_graph_can_be_fused() -> None:
    """spec: MC8.5"""
    codegen = MiCoCodeGen(dynamic())
    expected = codegen.forward(X)
    assert set(codegen.tensor_to_pool) == {"x", "conv", "normal", "y"}
    codegen.fuse_model()
    np.testing.assert_allclose(codegen.forward(X), expected, rtol=1e-5, atol=1e-6)
    assert set(codegen.tensor_to_pool) == {"x", "conv", "y"}
    assert fuse_model(dynamic()) == codegen._graph


def test_the_class_is_the_librarys_own() -> None:
    """spec: MC8.1"""
    assert tmmu.MiCoCodeGen is MiCoCodeGen
    with pytest.raises(AttributeError, match="CoMiGenCode"):
        tmmu.CoMiGenCode  # noqa: B018


def test_a_scheme_of_8_bits_needs_a_run_and_takes_integers() -> None:
    """spec: MC8.6, MC8.7, MC8.10"""
    codegen = MiCoCodeGen(dynamic())
    assert codegen.n_layers == 1
    with pytest.raises(TmmuError, match="of 1"):
        codegen.set_qscheme([[8, 8], [8, 8]])
    codegen.set_qscheme([[8]] * 2)
    with pytest.raises(TmmuError, match="call forward"):
        codegen.compute_tensor_lifetimes()
    codegen.forward(X)
    assert {"x", "x.q8", "conv.q8", "conv"} < codegen.compute_tensor_lifetimes().keys()
    codegen.set_qscheme([[32]] * 2)
    assert set(codegen.compute_tensor_lifetimes()) == {"x", "conv", "normal", "y"}


class Recorder:
    """Stands for `tmmu.mico.generate`: asks for the proof as it does, and writes one file."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.more: dict[str, Any] = {}

    def __call__(self, plan: Plan, model: str, folder: str, *, prove: Callable[..., Any], **more: Any) -> list[str]:
        answer = prove(plan, model)
        assert answer.verdict == "PROVED"
        self.lines.append(answer.line)
        self.more = more
        Path(folder).mkdir()
        (Path(folder) / "code.c").touch()
        return [str(Path(folder) / "code.c")]


@pytest.mark.parametrize("bits", [8, 32])
def test_what_is_written_can_be_proved_again(
    bits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """spec: MC8.8"""
    recorder = Recorder()
    monkeypatch.setattr(mico_codegen, "generate", recorder)
    codegen = MiCoCodeGen(dynamic())
    codegen.set_qscheme([[bits]] * 2)
    codegen.forward(X)
    written = codegen.convert(tmp_path / "out", "net", verbose=True, weights="file", static=True)
    assert [Path(name).name for name in written] == ["code.c", "net.onnx", "net.plan.cbor"]
    assert recorder.lines == ["PROVED net.plan.cbor against net.onnx"]
    assert recorder.more == {"options": CodeOptions("file", "static", "net")}
    assert "Memory without pooling" in capsys.readouterr().out
    plan, model = (str(tmp_path / "out" / name) for name in ("net.plan.cbor", "net.onnx"))
    assert verify_entry.run([plan, "--model", model]) == 0


def test_a_model_that_is_a_file_stays_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """spec: MC8.8"""
    recorder = Recorder()
    monkeypatch.setattr(mico_codegen, "generate", recorder)
    examples.write("mico-mlp", tmp_path / "mlp.onnx", 1)
    written = MiCoCodeGen(tmp_path / "mlp.onnx").convert(tmp_path / "out")
    assert [Path(name).name for name in written] == ["code.c", "model.plan.cbor"]
    assert recorder.lines == ["PROVED mlp.plan.cbor against mlp.onnx"]
    assert file.load(tmp_path / "out" / "model.plan.cbor").plan.origin.layout == "pools"


def test_a_wrong_plan_is_not_proved(tmp_path: Path) -> None:
    """spec: MC8.8"""
    examples.write("mico-mlp", tmp_path / "mlp.onnx")
    plan = MiCoCodeGen(tmp_path / "mlp.onnx").plan
    storages = plan.allocation.storages
    k = int(storages.offset.argmax())
    offset = storages.offset.copy()
    offset[k] -= 4
    wrong = amend_plan(plan, allocation=replace(plan.allocation, storages=replace(storages, offset=offset)))
    assert prove(plan, str(tmp_path / "mlp.onnx")).verdict == "PROVED"
    assert prove(wrong, str(tmp_path / "mlp.onnx")).verdict == "REFUTED"


def test_the_folder_for_pythonpath_has_the_documents_modules(capsys: pytest.CaptureFixture[str]) -> None:
    """spec: MC8.9"""
    assert run(["mico", "path"]) == 0
    folder = Path(capsys.readouterr().out.removesuffix("\n"))
    assert {"MiCoCodeGen.py", "MiCoUtils.py", "models.py"} <= {path.name for path in folder.iterdir()}
    assert run(["mico"]) == run(["mico", "path", "here"]) == 2
