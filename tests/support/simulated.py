"""Plans in the simulator, alone or beside their model, and what running them does not show."""

from __future__ import annotations

from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Model
from tmmu.examples.broken.faults.entries import Change
from tmmu.plan.sections import Plan
from tmmu.runtime.memory import MappedMemory
from tmmu.simulator import Batches, Corrupted, HashKernels, PlanProgram, SimulationReport
from tmmu.simulator.onnx_kernels import OnnxKernels
from tmmu.simulator.onnx_model import OnnxModel
from tmmu.simulator.operators import VIEWS


def ran(plan: Plan, model: Model, seed: int, *, sanitize: bool = True) -> SimulationReport:
    """The last of two batches with stand-in kernels in the same arenas, or the first that shows a corruption."""
    program = PlanProgram(plan, frozenset(model.bindings.donated))
    with MappedMemory.map(plan) as memory:
        batches = Batches(program, memory, sanitize=sanitize)
        report = batches.run(HashKernels(program, seed))
        return batches.run(HashKernels(program, seed + 1)) if report.identical else report


def ran_beside(plan: Plan, model: OnnxModel, kernels: str, seed: int) -> bool:
    """Do four batches of stand-in kernels, or two of ONNX kernels, show a corruption under the sanitizer?"""
    try:
        program = PlanProgram(plan)
        model.bind(program)
        with MappedMemory.map(plan) as memory:
            batches = Batches(program, memory, sanitize=True)
            if kernels == "hash":
                return not all(batches.run(HashKernels(program, seed + k)).identical for k in range(4))
            return not all(batches.run(OnnxKernels(program, model, None, seed + k)).identical for k in range(2))
    except Corrupted:
        return True
    except TmmuError:
        return True  # the arenas cannot be had, or what is computed has another size than was planned


def is_no_corruption(change: Change, right: Plan, plan: Plan) -> bool:
    """Is a change one that a run does not show, for a reason that `spec/simulator.md` gives? spec: SIM7.2

    Which step writes a tensor is what the steps state, not the column of writers; and a result of an operator that is a
    view by the simulator's table is a copy of its operand, which is what it finds where it is written in place.
    """
    a = plan.allocation
    changed = (a.steps.op != right.allocation.steps.op).nonzero()[0].tolist() if change.column == "op" else []
    return change.column == "writer" or any(a.ops[int(a.steps.op[n])] in {("", op) for op in VIEWS} for n in changed)
