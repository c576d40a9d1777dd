"""MiCo's class on an ONNX model, down to the C that runs. spec: MC8.2, MC8.7, MC8.8"""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from tmmu import examples
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
