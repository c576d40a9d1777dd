"""Two batches of a plan in the simulator, with kernels that hash their operands."""

from __future__ import annotations

from tmmu.core.vocabulary import Model
from tmmu.plan.sections import Plan
from tmmu.runtime.memory import Memory
from tmmu.simulator import Batches, HashKernels, Program, Report


def ran(plan: Plan, model: Model, seed: int, *, sanitize: bool = True) -> Report:
    """The last of two batches in the same arenas, or the first that shows a corruption."""
    program = Program(plan, frozenset(model.bindings.donated))
    with Memory.map(plan) as memory:
        batches = Batches(program, memory, sanitize=sanitize)
        report = batches.run(HashKernels(program, seed))
        return batches.run(HashKernels(program, seed + 1)) if report.identical else report
