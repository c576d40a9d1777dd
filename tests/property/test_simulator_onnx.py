"""Random models of real operators: run in a plan's arenas, they give what onnx gives for all of it, bit for bit."""

from __future__ import annotations

import tempfile
from pathlib import Path

import onnx
from hypothesis import given
from hypothesis import strategies as st

from tests.support.onnx_models import models
from tests.support.simulations import Simulated, evaluated, same

layouts = st.sampled_from(("packed", "slots", "pools"))
orders = st.sampled_from(("given", "memory"))
seeds = st.integers(0, 1 << 16)


@given(models, layouts, orders, seeds)
def test_a_run_in_the_arenas_gives_what_the_model_gives(
    model: onnx.ModelProto, layout: str, order: str, seed: int
) -> None:
    """spec: SIM1.1, SIM5.1, SIM5.5, SIM7.1"""
    with tempfile.TemporaryDirectory() as folder:
        run = Simulated(model, Path(folder), seed=seed, layout=layout, order=order)
    assert run.report.corruption is None
    assert same(run.outputs, evaluated(model, run.written))
    assert all(used <= footprint for used, footprint in zip(run.report.touched, run.report.footprints, strict=True))
