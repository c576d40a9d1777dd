"""A trace of the runtime with a record of every kind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.support.text_models import text_model
from tmmu.core.errors import TmmuError
from tmmu.planner import plan_memory
from tmmu.plans.replan import ReplanRecord
from tmmu.plans.sections import Plan
from tmmu.runtime.apply import apply_plan
from tmmu.runtime.commit import commit_execution
from tmmu.runtime.recording import RunRecords
from tmmu.runtime.records.trace import Trace


def plan() -> Plan:
    lines = ("node add Add x w -> a", "node relu Relu a -> b", "node relu2 Relu b -> y")
    return plan_memory(text_model(*lines, "tensor a u8 64 saved", parameters="w")).plan


def change(t: int, reason: str = "why") -> ReplanRecord:
    """The record of a plan that takes the place of another."""
    return ReplanRecord.between(plan(), plan(), t, reason, {"seq": 9})


def untimed(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A trace without what was measured."""
    return [{key: value for key, value in record.items() if key != "allocation_time_ns"} for record in records]


def full() -> list[dict[str, Any]]:
    """A trace with a record of every kind."""
    trace = Trace()
    with apply_plan(plan(), records=RunRecords(trace=trace, hash_contents=True)) as execution:
        execution.begin()
        execution.record_value("x", "given", execution.memory.tensor(execution.tensor_map.row("x")))
        commit_execution(execution)
    trace.append_replan(replace(change(2, "another shape"), old_envelope={"seq": (1, 8)}))
    trace.allocated(plan())
    trace.failed(TmmuError("ARENA_TOO_SMALL", "full", arena="a", capacity=1, required=2), bytes(32), 2)
    return trace.end()
