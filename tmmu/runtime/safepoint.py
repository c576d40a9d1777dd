"""The safepoint between two batches: there another plan can replace the plan that runs.

A shape outside of the envelope requires a new plan (`tmmu.planner.replan`). Tensors that the caller keeps across
batches (parameters and optimizer state) are copied byte by byte, and the chain of commits continues. The old plan
remains until the new plan is in memory: if that fails, nothing has changed. spec: R6.8, U8.1 to U8.6
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from tmmu.plans import file
from tmmu.plans.replan import NO_SHAPE, ReplanRecord
from tmmu.plans.sections import Plan
from tmmu.runtime.apply import apply_plan
from tmmu.runtime.execution import APPLY, Execution, violation
from tmmu.runtime.memory import MappedMemory
from tmmu.runtime.recording import Continuation, RunRecords


def exchange(
    execution: Execution,
    plan: Plan,
    reason: str,
    *,
    shape: Mapping[str, int] = NO_SHAPE,
    memory_bytes_budget: int | None = None,
    base: Mapping[str, Any] | None = None,
    journal: str | os.PathLike[str] | None = None,
) -> Execution:
    """Return the execution that continues under `plan`; close the one before, and release its memory.

    Parameters
    ----------
    execution
        A run whose last batch is committed.
    plan
        The plan to continue with, which `verify-plan` proved.
    reason
        For the trace: why the plan is exchanged.
    shape
        For the trace: sizes of named dimensions, if a shape outside of the envelope of the old plan is the reason.
    memory_bytes_budget, base
        As in `apply_plan`. For a moment both plans are in memory; the budget only counts the new one.
    journal
        The file for the commits under the new plan: a journal belongs to one plan.

    Returns
    -------
    Execution
        `execution` itself if it already runs `plan`.

    Raises
    ------
    TmmuError
        CONTRACT_VIOLATION while a batch is open, if a persistent tensor is not in both plans with one size, and if the
        run has a journal but none is named for the new plan; the exceptions of `apply_plan`. The old plan then remains.

    Notes
    -----
    O(plan), and the bytes of the persistent tensors.
    """
    if execution.is_open:
        raise violation("the plan cannot be exchanged while a batch is open", "commit the batch first", APPLY)
    old, new = execution.plan_hash, file.plan_identity(plan)
    if old == new:
        return execution
    if execution.journal is not None and journal is None:
        raise violation("the run has a journal, which belongs to the old plan", "name another for the new one", APPLY)
    kept = _pair_persistent(execution.plan, plan)
    t, trace, events = execution.state.batches, execution.trace, execution.events

    def carry(memory: MappedMemory) -> None:
        for before, after in kept:
            memory.tensor(after)[:] = execution.memory.tensor(before)

    if trace is not None:
        trace.append_replan(ReplanRecord.between(execution.plan, plan, t, reason, shape))
    if events is not None:
        events("replan", t=t, old_plan_hash=old.hex(), new_plan_hash=new.hex())
    try:
        records = RunRecords(
            ledger=execution.ledger, trace=trace, journal=journal, events=events, hash_contents=execution.hash_contents
        )
        made = apply_plan(
            plan, execution_mode=execution.execution_mode, memory_bytes_budget=memory_bytes_budget, base=base,
            debug_seed=execution.debug_seed, records=records, start=Continuation(execution.state, carry),
        )  # fmt: skip
    except BaseException:
        if trace is not None:
            why = "the new plan could not be applied"
            trace.append_replan(ReplanRecord.between(plan, execution.plan, t, why, shape))
        raise
    execution.events = None  # the run does not end here
    execution.close()
    if events is not None:
        events("released")
    return made


def _pair_persistent(old: Plan, new: Plan) -> list[tuple[int, int]]:
    """Return the rows of each persistent tensor in both plans. Raises CONTRACT_VIOLATION if they differ."""
    before, after = _find_persistent(old), _find_persistent(new)
    for name in sorted(before.keys() ^ after.keys()):
        where = "new" if name in before else "old"
        raise violation(f"the {where} plan has no persistent tensor {name!r}", "plan the same model again", APPLY)
    for name, (_, size) in before.items():
        if after[name][1] != size:
            what = (
                f"the persistent tensor {name!r} has {size} bytes in the old plan and {after[name][1]} in the new one"
            )
            raise violation(what, "plan the same model again", APPLY)
    return [(before[name][0], after[name][0]) for name in before]


def _find_persistent(plan: Plan) -> dict[str, tuple[int, int]]:
    """Return row and bytes of each tensor of an arena that does not reuse its bytes, by name."""
    arena = plan.allocation.storages.arena
    return {
        name: (row, int(plan.allocation.tensors.bytes[row]))
        for row, name in enumerate(plan.allocation.tensors.name.list())
        if not plan.allocation.arenas[int(arena[int(plan.allocation.tensors.storage[row])])].reuse
    }
