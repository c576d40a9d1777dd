"""Plans in the simulator, alone or beside their model, and what running them does not show."""

from __future__ import annotations

from tmmu.core.columns import NONE
from tmmu.core.dtypes import BITS
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Model, Shares
from tmmu.plans.columns import SHARES
from tmmu.plans.sections import Plan
from tmmu.runtime.memory import MappedMemory
from tmmu.simulator import Batches, Corrupted, HashKernels, PlanProgram, SimulationReport
from tmmu.simulator.onnx_kernels import OnnxKernels
from tmmu.simulator.onnx_model import OnnxModel
from tmmu.simulator.operators import row_of
from tmmu.testing.catalogue.entries import PLACES, Change


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


def is_no_corruption(change: Change, plan: Plan) -> bool:
    """Is a changed plan wrong in a way that a run does not show, for a reason that `spec/simulator.md` gives?

    Which step writes a tensor is what the steps state, not the column of writers. Of what is in place, the result of an
    operator that is a view by the simulator's table is a copy of its operand, which is what it finds there, and one
    element is written when all of it is computed. spec: SIM7.2
    """
    a, t = plan.allocation, plan.allocation.tensors
    in_place: dict[int, list[int]] = {}
    for w in (t.shares == SHARES.index(Shares.IN_PLACE)).nonzero()[0].tolist():
        in_place.setdefault(int(t.writer[w]), []).append(w)
    in_place.pop(NONE, None)
    copies = any(row_of(*a.ops[int(a.steps.op[n])]).shows for n in in_place)
    single = any(
        max(int(t.bytes[w]) for w in results) <= max(BITS[a.dtypes[int(t.dtype[w])]] // 8 for w in results)
        for results in in_place.values()
    )
    return change.column == "writer" or (change[:2] not in PLACES and (copies or single))
