"""A trace of the runtime with a record of every kind."""

from __future__ import annotations

from typing import Any

from tests.support.small import small
from tmmu.core.errors import TmmuError
from tmmu.plan.sections import Plan
from tmmu.planner import plan_memory
from tmmu.runtime.apply import apply_plan
from tmmu.runtime.commit import commit_execution
from tmmu.runtime.records.trace import Trace


def plan() -> Plan:
    lines = ("add: x w -> a", "relu: a -> b", "relu2: b -> y")
    return plan_memory(small(*lines, parameters="w", like={"a": {"saved_for_backward": True}})).plan


def full() -> list[dict[str, Any]]:
    """A trace with a record of every kind."""
    trace = Trace()
    with apply_plan(plan(), trace=trace, hash_contents=True) as execution:
        execution.begin()
        execution.record_value("x", "given", execution.memory.tensor(execution.tensor_map.row("x")))
        commit_execution(execution)
    trace.replanned(2, bytes(32), bytes([1]) * 32, "another shape")
    trace.allocated(plan())
    trace.failed(TmmuError("ARENA_TOO_SMALL", "full", arena="a", capacity=1, required=2), bytes(32), 2)
    return trace.end()
