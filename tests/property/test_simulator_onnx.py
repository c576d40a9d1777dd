"""Random models of real operators: run in a plan's arenas, they give what onnx gives for all of it, bit for bit."""

from __future__ import annotations

import tempfile
from pathlib import Path

import onnx
from hypothesis import given
from hypothesis import strategies as st

from tests.support.onnx_files import written
from tests.support.onnx_models import build, models
from tests.support.simulations import Simulated, evaluated, same
from tmmu.importers.onnx import import_onnx
from tmmu.planner import plan_memory
from tmmu.plans.metrics import compute_footprints

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


@given(st.integers(0, 215), st.lists(st.integers(0, (1 << 16) - 1), max_size=10))
def test_constants_are_planned_as_if_they_were_stored(first: int, numbers: list[int]) -> None:
    """Whether an exporter writes `Constant` nodes or initializers. spec: T10.12, T10.13"""
    found = []
    for nodes in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            model = import_onnx(written(Path(folder), build([first + 216 * nodes, *numbers])))
        assert all(node.op != "Constant" for node in model.nodes)
        plan = plan_memory(model).plan
        names = [arena.name for arena in plan.allocation.arenas]
        sizes = dict(zip(names, compute_footprints(plan.allocation), strict=True))
        found.append(([node.op for node in model.nodes], sizes["activations"]))
    assert found[0] == found[1]
