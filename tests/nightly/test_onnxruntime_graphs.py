"""Graphs that ONNX Runtime has optimized: every size that both sides work out is that of a run, at each level.

Random models lead it to write its fused, quantized and blocked operators; the runs compute each node by ONNX Runtime.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from proofs.readers.models.onnx import reference_of
from tests.support import runtime_models
from tests.support.runtime_models import BLOCKS, KINDS, MS
from tmmu.cli.entry import run
from tmmu.core.dims.expressions import evaluate
from tmmu.core.vocabulary import Bindings, RuntimeGraph
from tmmu.onnx import resolve

HERE = importlib.util.find_spec("onnxruntime") is not None
with_onnxruntime = pytest.mark.skipif(  # CI does without the extra
    not HERE, reason="onnxruntime is not installed (pip install '.[judges]')"
)
DIMS = {"batch": 2, "length": 7}
SEEDS = {"convolve": 24, "quantize": 8}
"""How many models of a kind are tried, if not three."""

WRITTEN = {
    ("", "LayerNormalization"), ("", "SimplifiedLayerNormalization"),
    *((MS, op) for op in (
        "BiasGelu", "DynamicQuantizeMatMul", "FastGelu", "FusedConv", "FusedGemm", "FusedMatMul", "Gelu",
        "MatMulIntegerToFloat", "MatMulNBits", "NhwcMaxPool", "QGemm", "QLinearAdd", "QLinearAveragePool",
        "QLinearConcat", "QLinearConv", "QLinearGlobalAveragePool", "QLinearLeakyRelu", "QLinearMul", "QLinearSigmoid",
        "QLinearSoftmax", "QLinearWhere", "QuickGelu", "SkipLayerNormalization",
    )),
    *((BLOCKS, op) for op in (
        "AveragePool", "Conv", "GlobalAveragePool", "GlobalMaxPool", "MaxPool", "ReorderInput", "ReorderOutput",
        "Upsample",
    )),
}  # fmt: skip
"""What ONNX Runtime 1.32 writes of these models on an x86-64 CPU, apart from operators of ONNX."""


def computed(graph: onnx.ModelProto, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """Every value of a run, without further optimization."""
    import onnxruntime

    model = onnx.ModelProto()
    model.CopyFrom(graph)
    named = {value.name for value in model.graph.output}
    more = [name for node in model.graph.node for name in node.output if name and name not in named]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in more)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip([value.name for value in session.get_outputs()], session.run(None, feeds), strict=True))


def given(model: onnx.ModelProto, seed: int) -> dict[str, Any]:
    numbers = np.random.default_rng(seed)
    feeds = {}
    for value in model.graph.input:
        shape = [DIMS.get(dim.dim_param, dim.dim_value) for dim in value.type.tensor_type.shape.dim]
        whole = value.type.tensor_type.elem_type == onnx.TensorProto.INT64
        feeds[value.name] = numbers.integers(0, 9, shape) if whole else numbers.normal(size=shape).astype(np.float32)
    return feeds


@with_onnxruntime
@pytest.mark.parametrize("level", ["basic", "extended", "all"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_size_is_that_of_a_run(kind: Callable[[int], onnx.ModelProto], level: str, tmp_path: Path) -> None:
    """At one shape, and over ranges. spec: T10.15, T10.16, V3.7"""
    from tmmu.onnx.optimized import optimize

    path, asked = str(tmp_path / "m.onnx"), RuntimeGraph("onnxruntime", level)
    for seed in range(SEEDS.get(kind.__name__, 3)):
        model = kind(seed)
        onnx.save(model, path)
        graph, _, _ = optimize(path, asked)
        names = {dim.dim_param for value in model.graph.input for dim in value.type.tensor_type.shape.dim} - {""}
        real = computed(graph, given(model, seed))
        for bindings in (
            Bindings(dims={name: DIMS[name] for name in names}, runtime=asked),
            Bindings(ranges=dict.fromkeys(names, (1, 9)), runtime=asked),
        ):
            found = resolve(path, bindings)
            reference = reference_of(found)
            assert (reference.size_differences, reference.assumed_sizes) == ((), {}), (seed, bindings)
            for name, value in real.items():
                shape, dtype = found.sizes[name]
                assert (tuple(evaluate(dim, DIMS) for dim in shape), dtype) == (value.shape, value.dtype.name), name


@with_onnxruntime
def test_the_models_lead_it_to_write_each_of_its_operators(tmp_path: Path) -> None:
    from tmmu.onnx.optimized import optimize

    seen = set()
    for kind in KINDS:
        for seed in range(SEEDS.get(kind.__name__, 3)):
            onnx.save(kind(seed), tmp_path / "m.onnx")
            graph, _, _ = optimize(tmp_path / "m.onnx", RuntimeGraph("onnxruntime", "all"))
            seen.update((node.domain, node.op_type) for node in graph.graph.node)
            graph, made, _ = optimize(tmp_path / "m.onnx", RuntimeGraph("onnxruntime", "extended"))
            seen.update((node.domain, node.op_type) for node in graph.graph.node)
    without_blocks = {key for key in WRITTEN if key[0] == BLOCKS and not made.block}
    assert seen >= WRITTEN - without_blocks, WRITTEN - seen


@with_onnxruntime
def test_every_session_gives_one_digest(tmp_path: Path) -> None:
    """In other processes, whose hash tables have other orders. spec: T10.17"""
    path = str(tmp_path / "m.onnx")
    onnx.save(runtime_models.convolve(0), path)  # two sessions in four wrote it with other names
    code = (
        "from tmmu.onnx.optimized import optimize; from tmmu.core.vocabulary import RuntimeGraph; import sys;"
        "print(optimize(sys.argv[1], RuntimeGraph('onnxruntime', 'all'))[1].digest)"
    )
    found = {
        subprocess.run([sys.executable, "-c", code, path], capture_output=True, check=True).stdout for _ in range(6)
    }
    assert len(found) == 1


@with_onnxruntime
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_plans_are_proved_and_run_with_its_own_kernels(
    kind: Callable[[int], onnx.ModelProto], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: T10.16, T3.13, SIM5.9"""
    monkeypatch.chdir(tmp_path)
    for seed in range(3):
        model = kind(seed)
        onnx.save(model, "m.onnx")
        names = {dim.dim_param for value in model.graph.input for dim in value.type.tensor_type.shape.dim} - {""}
        at = [word for name in names for word in ("--dim", f"{name}=1..4")]
        shape = [word for name in names for word in ("--dim", f"{name}=3")]
        assert run(["plan", "m.onnx", "--as", "onnxruntime", *at, "-o", "p.cbor"]) == 0
        assert run(["verify", "p.cbor", "--model", "m.onnx", "--as", "onnxruntime", "--require", "sizes"]) == 0
        assert run(["run", "m.onnx", "--plan", "p.cbor", "--kernels", "onnxruntime", "--sanitize", *shape]) == 0


@with_onnxruntime
def test_a_model_that_it_does_not_load_is_refused_with_its_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """spec: T10.16"""
    (tmp_path / "m.onnx").write_bytes(b"no model")
    assert run(["plan", str(tmp_path / "m.onnx"), "--as", "onnxruntime"]) == 4
    assert "onnxruntime cannot load it: " in capsys.readouterr().err


@with_onnxruntime
def test_its_own_figures_are_of_two_runs(tmp_path: Path) -> None:
    """What it holds is never less than what is in use, and the second run is no smaller. spec: C3.4"""
    from tmmu.tasks.models import load
    from tmmu.tasks.runtime_figures import measure

    path = str(tmp_path / "m.onnx")
    onnx.save(runtime_models.convolve(4), path)
    bindings = Bindings(ranges={"batch": (1, 3)}, runtime=RuntimeGraph("onnxruntime", "all"))
    found = measure(path, load(path, bindings))
    assert found is not None
    assert len(found.runs) == 2
    assert all(0 < run.in_use_peak <= run.arena_held for run in found.runs)
    assert found.runs[0].arena_held <= found.runs[1].arena_held
