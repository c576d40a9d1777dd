"""Examples with weights through onnxruntime: results are numbers that neither vanish nor grow. spec: MC7.4, MC7.6"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from tmmu import examples

HERE = importlib.util.find_spec("onnxruntime") is not None
SHAPES = {"gpt2": (1, 32), "resnet50": (1, 3, 224, 224), "unet": (1, 1, 256, 256)}
"""Inputs of the models whose shapes are not numbers."""


with_onnxruntime = pytest.mark.skipif(not HERE, reason="onnxruntime is not installed")  # CI does without


@with_onnxruntime
@pytest.mark.parametrize("name", sorted(examples.MODELS.keys() - {"llama-block", "detector", "chain"}))
def test_onnxruntime_runs_an_example_with_its_weights(name: str, tmp_path: Path) -> None:
    """The Llama block is bfloat16, for which it has no MatMul; the detector is bound by values; the chain has none."""
    import onnxruntime

    path = tmp_path / "model.onnx"
    examples.write(name, path, 7)
    session = onnxruntime.InferenceSession(path)
    rng = np.random.default_rng(0)
    given = {}
    for value in session.get_inputs():
        shape = SHAPES.get(name, value.shape)
        whole = value.type == "tensor(int64)"
        given[value.name] = rng.integers(0, 50, shape) if whole else rng.random(shape, np.float32)
    for result in session.run(None, given):
        assert 0.05 < float(np.abs(result).max()) < 5000
