"""PrepareMemory: plan a model and apply the plan, in one call. spec: U5.20, U7.8"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tmmu.core.vocabulary import ANYWHERE, ArenaConfiguration, ArenaPolicy, Model
from tmmu.planner import DEFAULT, Planned, PlanOptions, plan_memory
from tmmu.planner.options import DEFAULT_OPTIONS
from tmmu.runtime.apply import apply_plan
from tmmu.runtime.execution import Execution
from tmmu.runtime.handles import TensorMap
from tmmu.runtime.recording import RunRecords
from tmmu.runtime.records import metrics
from tmmu.runtime.records.schema import STATUS
from tmmu.runtime.records.trace import Trace


@dataclass(frozen=True)
class Prepared:
    """What PrepareMemory returns: handles of zeroed tensors, metrics, and the plan and the execution behind them.

    It is returned on success: `status` and `allocation_time_ns`, the time of the call, complete 001's outputs (0.I).
    """

    tensor_map: TensorMap
    metrics: dict[str, Any]
    planned: Planned
    execution: Execution
    allocation_time_ns: int
    status: str = STATUS[0]


def prepare_memory_v2(
    model: Model,
    arenas: tuple[ArenaConfiguration, ...] = DEFAULT,
    options: PlanOptions = DEFAULT_OPTIONS,
    *,
    policy: ArenaPolicy = ANYWHERE,
    execution_mode: str = "local",
    memory_bytes_budget: int | None = None,
    base: Mapping[str, Any] | None = None,
    trace: Trace | None = None,
) -> Prepared:
    """PlanMemory, then ApplyPlan: the documents' wrapper, with the results that they state.

    The nodes of `model` are in execution order. Parameters, errors and costs are those of `plan_memory` and
    `apply_plan`. Nothing measured is in the metrics.
    """
    begun = time.perf_counter_ns()
    planned = plan_memory(model, arenas, options, policy=policy)
    execution = apply_plan(
        planned.plan,
        execution_mode=execution_mode,
        memory_bytes_budget=memory_bytes_budget,
        base=base,
        records=RunRecords(trace=trace),
    )
    found = metrics.of_plan(planned.plan)
    return Prepared(execution.tensor_map, found, planned, execution, time.perf_counter_ns() - begun)
