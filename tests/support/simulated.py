"""Two batches of a plan in the simulator, with kernels that hash their operands."""

from __future__ import annotations

from tmmu.core.vocabulary import Model
from tmmu.plan.sections import Plan
from tmmu.runtime.memory import MappedMemory
from tmmu.simulator import Batches, HashKernels, PlanProgram, SimulationReport


def ran(plan: Plan, model: Model, seed: int, *, sanitize: bool = True) -> SimulationReport:
    """The last of two batches in the same arenas, or the first that shows a corruption."""
    program = PlanProgram(plan, frozenset(model.bindings.donated))
    with MappedMemory.map(plan) as memory:
        batches = Batches(program, memory, sanitize=sanitize)
        report = batches.run(HashKernels(program, seed))
        return batches.run(HashKernels(program, seed + 1)) if report.identical else report
