"""The usage of MiCo's document, as it is written, and modules of torch: names, fusion, layers of 8 bits.

Without torch all is left out: pip install '.[torch]' brings it in. spec: MC8.2, MC8.3, MC8.5, MC8.6, MC8.9
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from proofs.verify import entry as verify_entry
from tmmu.core.errors import TmmuError
from tmmu.tasks.mico_codegen import MiCoCodeGen

ROOT = Path(__file__).resolve().parents[2]

HERE = importlib.util.find_spec("torch") is not None
pytestmark = pytest.mark.skipif(not HERE, reason="torch is not installed")  # it takes a gigabyte

USAGE = """
import torch
from MiCoCodeGen import MiCoCodeGen
from models import LeNet
from MiCoUtils import fuse_model

# Create and prepare model
model = LeNet(1)
model.set_qscheme([[8]*model.n_layers, [8]*model.n_layers])
model = fuse_model(model)
model.eval()

# Generate optimized C code
codegen = MiCoCodeGen(model, align_to=32)
codegen.forward(torch.randn(1, 1, 28, 28))
codegen.convert("output_dir", "model_name")
"""
"""004, Usage, with `import torch` before it."""


@pytest.mark.parametrize("bits", [8, 32])
def test_the_usage_of_the_document_runs_as_it_is_written(bits: int, tmp_path: Path) -> None:
    """With 8 bits as it stands there, and with 32, which are float32. spec: MC8.7, MC8.8, MC8.9"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tmmu" / "mico" / "modules")])}
    command = [sys.executable, "-W", "error", "-c", USAGE.replace("[8]", f"[{bits}]")]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment, timeout=300
    )
    assert (done.returncode, done.stderr) == (0, "")
    folder = tmp_path / "output_dir"
    assert verify_entry.run([str(folder / "model_name.plan.cbor"), "--model", str(folder / "model_name.onnx")]) == 0
    model = onnx.load(folder / "model_name.onnx")
    assert sum(node.op_type.startswith("QLinear") for node in model.graph.node) == (5 if bits == 8 else 0)
    subprocess.run(["make", "-s", "-C", folder], check=True)
    x = np.random.default_rng(0).normal(size=(1, 1, 28, 28)).astype(np.float32)
    x.tofile(tmp_path / "x")
    subprocess.run([folder / "model_name", "x", "y"], check=True, cwd=tmp_path)
    expected = ReferenceEvaluator(model).run(None, {"x": x})[0].ravel()
    found = np.fromfile(tmp_path / "y", np.float32)
    np.testing.assert_allclose(found, expected, atol=1e-5 * float(np.abs(expected).max()))


def networks() -> Any:
    from tmmu.mico.modules import models

    return models


def lenet() -> Any:
    import torch

    torch.manual_seed(0)
    return networks().LeNet(1).eval(), torch.randn(1, 1, 28, 28)


def test_a_module_has_the_names_times_and_pools_of_the_document() -> None:
    """spec: MC8.3, MC8.4"""
    module, x = lenet()
    codegen = MiCoCodeGen(module)
    with pytest.raises(TmmuError, match="call forward"):
        codegen.compute_tensor_lifetimes()
    result = codegen.forward(x)
    assert tuple(result.shape) == (1, 10)
    lifetimes = codegen.compute_tensor_lifetimes()
    assert lifetimes == {
        "x": (0, 1), **{f"layers_{k}": (k + 1, k + 2) for k in range(12)}, "output": (13, 13),
    }  # fmt: skip
    pools, _ = codegen.allocate_memory_pools()
    assert [pool["size"] for pool in pools] == [18816, 18816, 4704]


@pytest.mark.parametrize(("name", "before", "after"), [("MLP", 2640, 1280), ("VGG", 1241168, 589824)])
def test_the_other_networks_of_the_table_have_its_bytes(name: str, before: int, after: int) -> None:
    """spec: MC8.3, MC8.5"""
    import torch

    from tmmu.mico.modules.MiCoUtils import fuse_model

    made, shape = {
        "MLP": (lambda: networks().MLP(256, {"Layers": [64, 64, 64, 10]}), (1, 256)),
        "VGG": (lambda: networks().VGG(3, 10), (1, 3, 32, 32)),
    }[name]
    codegen = MiCoCodeGen(fuse_model(made().eval()))
    codegen.forward(torch.randn(*shape))
    pools, _ = codegen.allocate_memory_pools()
    sizes = dict(zip(codegen.plan.allocation.tensors.name, codegen.plan.allocation.tensors.bytes.tolist(), strict=True))
    assert sum(sizes[tensor] for pool in pools for tensor in pool["tensors"]) == before
    assert sum(pool["size"] for pool in pools) == after


def block() -> Any:
    """All that names depend on: functions, a module that becomes several nodes, one that is used twice."""
    import torch
    from torch import nn
    from torch.nn import functional

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.GELU())
            self.twice, self.norm = nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4)
            self.end = nn.Linear(4, 3)

        def forward(self, image: Any, scale: Any) -> Any:
            value = self.inner(image)
            value = functional.relu(self.norm(self.twice(value)) + functional.relu(self.twice(value * 2)))
            return self.end(torch.flatten(functional.adaptive_avg_pool2d(value, 1), 1)) * scale, value

    torch.manual_seed(1)
    made = Block()
    for norm in (made.inner[1], made.norm):
        norm.running_mean.uniform_(-1, 1)
        norm.running_var.uniform_(0.5, 2)
    return made.eval(), (torch.randn(2, 1, 6, 6), torch.randn(2, 1))


def test_an_exported_module_computes_what_the_module_does() -> None:
    """spec: MC8.2, MC8.3"""
    module, inputs = block()
    codegen = MiCoCodeGen(module)
    expected = codegen.forward(*inputs)
    tensors = list(codegen.compute_tensor_lifetimes())
    assert tensors[:2] == ["image", "scale"]
    assert tensors[-2:] == ["output_0", "output_1"]
    assert {"inner_0", "inner_2", "inner_2_erf", "twice", "mul", "relu", "relu_1", "add", "flatten", "end"} < set(
        tensors
    )
    graph = codegen._read()
    given = {"image": inputs[0].numpy(), "scale": inputs[1].numpy()}
    for one, other in zip(ReferenceEvaluator(graph).run(None, given), expected, strict=True):
        np.testing.assert_allclose(one, other.numpy(), rtol=1e-4, atol=1e-5)


def test_a_module_is_fused_where_the_graph_lets_it() -> None:
    """The convolution that is used twice keeps its normalization; the module that was given stays. spec: MC8.5"""
    import torch

    from tmmu.mico.modules.MiCoUtils import fuse_model

    module, inputs = block()
    fused = fuse_model(module)
    assert isinstance(fused.inner[1], torch.nn.Identity)
    assert isinstance(fused.norm, torch.nn.BatchNorm2d)
    assert isinstance(module.inner[1], torch.nn.BatchNorm2d)
    with torch.no_grad():
        for one, other in zip(module(*inputs), fused(*inputs), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_a_module_that_cannot_be_traced_or_exported_is_refused() -> None:
    """spec: MC8.2, MC8.5"""
    import torch

    from tmmu.mico.modules.MiCoUtils import fuse_model

    class Branch(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x if x.sum() > 0 else -x

    class Strange(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.linalg.svd(x)[1]

    with pytest.raises(TmmuError, match=r"torch\.fx does not trace it"):
        fuse_model(Branch())
    with pytest.raises(TmmuError, match="torch does not export it"):
        MiCoCodeGen(Strange()).forward(torch.randn(3, 3))


def test_a_scheme_has_a_number_for_each_layer_of_a_module() -> None:
    """spec: MC8.6"""
    module, x = lenet()
    with pytest.raises(TmmuError, match="of 5"):
        module.set_qscheme([[8] * 4] * 2)
    module.set_qscheme([[32, 8, 32, 8, 32]] * 2)
    codegen = MiCoCodeGen(module)
    codegen.forward(x)
    integers = {name for name in codegen.compute_tensor_lifetimes() if name.endswith(".product.q8")}
    assert integers == {"layers_3.product.q8", "layers_9.product.q8"}
