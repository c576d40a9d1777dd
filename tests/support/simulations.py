"""Running ONNX models in the simulator, and whole in the reference evaluator, from the same inputs and weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from tmmu.core.vocabulary import Bindings
from tmmu.importers.onnx import import_onnx
from tmmu.ir import order
from tmmu.onnx import resolve
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans.sections import Plan
from tmmu.simulator import PlanProgram, SimulationReport, simulate
from tmmu.simulator.elements import Array, decode
from tmmu.simulator.onnx_kernels import OnnxKernels
from tmmu.simulator.onnx_model import OnnxModel
from tmmu.simulator.onnx_node import NodeKernel


class Simulated:
    """One run of a model: its report, its outputs by name, and all that the caller wrote."""

    def __init__(
        self,
        model: onnx.ModelProto,
        folder: Path,
        *,
        plan: Plan | None = None,
        inputs: dict[str, Array] | None = None,
        seed: int = 0,
        sanitize: bool = True,
        bindings: dict[str, Any] | None = None,
        make: Callable[..., NodeKernel] = NodeKernel,
        **options: Any,
    ) -> None:
        path = folder / "model.onnx"
        path.write_bytes(model.SerializeToString())
        bound = Bindings(**(bindings or {}))
        graph = order.sort_topologically(import_onnx(path, bound))
        self.plan = plan or plan_memory(graph, options=PlanOptions(**options)).plan
        program = PlanProgram(self.plan)
        source = OnnxModel(resolve(path, bound))
        source.bind(program)
        kernels = OnnxKernels(program, source, inputs, seed, make)
        self.report: SimulationReport = simulate(program, kernels, sanitize=sanitize)
        arrays = kernels.arrays(self.report.outputs)
        self.outputs = {name: arrays[name] for name in source.outputs if name in arrays}
        rows = {name: t for t, name in enumerate(program.names)}
        self.written = {
            name: decode(kernels.given(rows[name]), source.sizes[name]) for name in (*source.inputs, *source.stored)
        }


def evaluated(model: onnx.ModelProto, written: dict[str, Array]) -> dict[str, Array]:
    """The outputs of the whole model by onnx's own loop over its nodes, with the values that a run used."""
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    for tensor in whole.graph.initializer:
        tensor.CopyFrom(onnx.numpy_helper.from_array(np.array(written[tensor.name]), tensor.name))
    stored = {tensor.name for tensor in whole.graph.initializer}
    feeds = {each.name: written[each.name] for each in whole.graph.input if each.name not in stored}
    with np.errstate(all="ignore"):
        made = ReferenceEvaluator(whole).run(None, feeds)
    return {each.name: array for each, array in zip(whole.graph.output, made, strict=True)}


def same(one: dict[str, Array], other: dict[str, Array]) -> bool:
    """Are outputs equal in shape, type and every bit, NaN payloads included?"""
    return one.keys() == other.keys() and all(
        (a.shape, a.dtype, a.tobytes()) == (b.shape, b.dtype, b.tobytes())
        for a, b in ((one[name], other[name]) for name in one)
    )
