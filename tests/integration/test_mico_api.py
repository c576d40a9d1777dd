"""MiCo's class on an ONNX model, down to the C that runs. spec: MC8.2, MC8.7, MC8.8"""

from __future__ import annotations

import subprocess
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.support.c_programs import CProgram, by_runtime, compilers, drawn_inputs, planned
from tests.support.integer_reference import reference
from tmmu import examples
from tmmu.mico.integers import quantize_example
from tmmu.tasks.mico_codegen import MiCoCodeGen


@pytest.mark.parametrize("bits", [32, 8])
def test_the_c_computes_what_forward_does(bits: int, tmp_path: Path) -> None:
    """In float32 to rounding; with layers of 8 bits as near as the steps of their scales. spec: MC8.7, MC8.8"""
    examples.write("mico-lenet", tmp_path / "lenet.onnx", 1)
    codegen = MiCoCodeGen(tmp_path / "lenet.onnx")
    codegen.set_qscheme([[bits] * codegen.n_layers] * 2)
    x = np.random.default_rng(0).normal(size=(1, 1, 28, 28)).astype(np.float32)
    expected = codegen.forward(x).ravel()
    codegen.convert(tmp_path / "c", "lenet")
    subprocess.run(["make", "-s", "-C", tmp_path / "c"], check=True)
    x.tofile(tmp_path / "x")
    subprocess.run([tmp_path / "c" / "lenet", "x", "y"], check=True, cwd=tmp_path)
    found = np.fromfile(tmp_path / "y", np.float32)
    largest = float(np.abs(expected).max())
    assert float(np.abs(found - expected).max()) <= (1e-5 if bits == 32 else 0.05) * largest
    assert (float(np.abs(found - expected).max()) > 1e-5 * largest) == (bits == 8)


@pytest.mark.parametrize("name", ["lenet", "resnet8"])
def test_a_network_of_int8_takes_a_quarter_of_the_memory(name: str, tmp_path: Path) -> None:
    """Results are those of the same graph in NumPy, or in ONNX Runtime if it is installed, to one step of the scale.

    spec: MC8.10 to MC8.12, MC4.8, MC4.9
    """
    bytes_of = {}
    for bits, convert in ((32, None), (8, partial(quantize_example, seed=1))):
        path = tmp_path / f"{bits}.onnx"
        examples.write(f"mico-{name}", path, 1, convert=convert)
        plan = planned(path)
        bytes_of[bits] = next(
            usage.footprint or 0
            for arena, usage in zip(plan.allocation.arenas, plan.usage, strict=True)
            if arena.name == "activations"
        )
    assert bytes_of[8] <= 0.26 * bytes_of[32]
    model = onnx.load(path)
    inputs = drawn_inputs(model)
    try:
        expected = by_runtime(model, inputs)[0]
    except NotImplementedError:  # onnx's evaluator has no QLinearAdd
        expected = reference(model).run(None, inputs)[0]
    made = CProgram(plan, path, tmp_path / "c", weights="file")
    (found,) = made.outputs(made.build(compilers()[0]), inputs, [expected])
    last = next(node for node in model.graph.node if node.op_type == "DequantizeLinear")
    step = next(numpy_helper.to_array(each) for each in model.graph.initializer if each.name == last.input[1])
    assert float(np.abs(found - expected).max()) <= 1.001 * float(step)
