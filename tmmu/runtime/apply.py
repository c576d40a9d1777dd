"""ApplyPlan: put the arenas of a plan into memory, all of them or none.

spec: U2.1 to U2.5, U2.8, U2.10, U5.20 and U7.8
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from tmmu.core.errors import TmmuError
from tmmu.plans import file
from tmmu.plans.gate import StatedBuffers, StatedPlan
from tmmu.plans.sections import Plan
from tmmu.runtime import extents
from tmmu.runtime.addresses import check_addresses
from tmmu.runtime.commit import commit_execution
from tmmu.runtime.divided import mappings
from tmmu.runtime.events import EventLog
from tmmu.runtime.execution import APPLY, Execution
from tmmu.runtime.filling import check_fill, check_mode, debug_fill
from tmmu.runtime.journal import Journal, genesis
from tmmu.runtime.memory import MappedMemory
from tmmu.runtime.recording import UNRECORDED, Contents, Continuation, RunRecords
from tmmu.runtime.records.ledger import Ledger
from tmmu.runtime.records.schema import END
from tmmu.runtime.records.trace import Trace, header


class LoadedPlan(Protocol):
    """A plan that was read from a file: the result of `tmmu.load` and `tmmu.plan`."""

    @property
    def stated(self) -> StatedPlan | StatedBuffers:
        """The plan, with the hashes that its file states."""


def apply_plan(
    plan: Plan | LoadedPlan,
    *,
    execution_mode: str = "local",
    memory_bytes_budget: int | None = None,
    base: Mapping[str, Any] | None = None,
    huge_pages: bool = False,
    debug_seed: int | None = None,
    records: RunRecords = UNRECORDED,
    start: Continuation | None = None,
) -> Execution:
    """Put the arenas of a plan into memory, zero those that are reused, and commit.

    Parameters
    ----------
    plan
        A plan, or the result of `tmmu.load`, that `verify-plan` has proved: only its addresses are checked here.
    execution_mode
        "local", "managed", "confidential" or "regulated".
    memory_bytes_budget
        The most bytes of memory that all arenas may take together, pages included.
    base
        Buffers to use instead of mappings, by arena, or by `device/memory` for the arenas of a memory. A reused arena
        is zeroed; a persistent arena keeps its content, which its maker has written.
    huge_pages
        Ask for huge pages.
    debug_seed
        Write the pattern of this seed, instead of zeros, to storages of reused arenas, now and at their birth
        (diagnostics; refused in confidential and regulated mode).
    records
        The records of the run.
    start
        The sealed state from which the run continues: that of a checkpoint, or of another plan.

    Returns
    -------
    Execution
        The execution, ready for its first batch.

    Raises
    ------
    TmmuError
        INVALID_PLAN for lifetimes without steps; CONTRACT_VIOLATION over budget; MODE_VIOLATION; INVALID_ADDRESS,
        ALIGNMENT_VIOLATION, ADDRESS_COLLISION or ARENA_TOO_SMALL for a plan with impossible addresses;
        TMMU_ALLOCATION_FAILURE if memory or the journal cannot be allocated; the exceptions of `MappedMemory.map` and
        `Journal.open`. Then nothing is mapped or written to the journal.

    Notes
    -----
    O(plan) and the bytes of reused buffers that were given; fresh mappings are zero without being touched.
    """
    begun = time.perf_counter_ns()
    plan = plan if isinstance(plan, Plan) else file.require_steps(plan.stated).plan
    ledger, trace, events = records.ledger or Ledger(), records.trace, records.events
    contents = None if start is None else start.contents
    with (
        _add_time(trace, begun),
        _record_failures(plan, ledger, trace, events, 0 if start is None else start.state.batches),
    ):
        check_mode(execution_mode, APPLY)
        if debug_seed is not None:
            check_fill(execution_mode, debug_seed)
        check_addresses(plan)
        found = mappings(plan, extents.of_plan(plan))
        needed = sum(each.reserved for each in found)
        is_zeroed = contents is None or callable(contents)
        if events is not None:
            is_fresh = is_zeroed and debug_seed is None
            sizes = [each.reserved for each in found]
            asked = _describe_request(
                plan, sizes, memory_bytes_budget,
                is_fresh=is_fresh, is_restored=start is not None, failures=ledger.allocation_failures,
            )  # fmt: skip
            events("asked", **asked)
        if memory_bytes_budget is not None and needed > memory_bytes_budget:
            raise TmmuError(
                "CONTRACT_VIOLATION",
                f"its arenas need {needed} bytes of memory, but the budget is "
                f"{memory_bytes_budget}; nothing was allocated",
                fix="raise the budget, or plan smaller shapes",
                operator=APPLY,
                failure_operator=APPLY,
                memory_bytes_budget=memory_bytes_budget,
                required=needed,
            )
        plan_hash = file.plan_identity(plan)
        memory = MappedMemory.map(plan, huge_pages=huge_pages, base=base, events=events)
        opened = None
        try:
            if events is not None:
                events("applied", plan_hash=plan_hash.hex())
            _fill(memory, contents)
            if debug_seed is not None and is_zeroed:
                debug_fill(plan, memory, debug_seed, execution_mode)
            state = genesis(plan_hash) if start is None else start.state
            if records.journal is not None:
                opened = Journal.open(records.journal, plan_hash, None if start is None else state)
                state = opened.state
            execution = Execution(
                plan, memory, plan_hash=plan_hash, execution_mode=execution_mode, state=state, debug_seed=debug_seed,
                records=replace(records, ledger=ledger), journal=opened,
            )  # fmt: skip
            ledger.applied(state.batches, execution.bytes_allocated)
            if trace is not None:
                trace.allocated(plan, execution.tensor_map)
            commit_execution(execution)
            execution.applied(is_fresh=is_zeroed)
            execution.allocation_time_ns = time.perf_counter_ns() - begun
            if events is not None:
                events("ready", t=execution.state.batches, bytes_allocated=execution.bytes_allocated)
        except BaseException:
            if events is not None:
                events("refused")
            memory.close()
            if events is not None:
                for number in range(len(found)):
                    events("unmapped", mapping=number)
            if opened is not None:
                opened.close()
            raise
        return execution


@contextmanager
def _add_time(trace: Trace | None, begun: int) -> Iterator[None]:
    """Add the time since `begun` to a trace, even if applying failed. spec: U5.20"""
    try:
        yield
    finally:
        if trace is not None:
            trace.allocation_time_ns += time.perf_counter_ns() - begun


@contextmanager
def _record_failures(
    plan: Plan, ledger: Ledger, trace: Trace | None, events: EventLog | None, t: int
) -> Iterator[None]:
    """Record a TmmuError in the ledger, the log and the trace, and raise it again."""
    try:
        yield
    except TmmuError as error:
        ledger.failed(t)
        if events is not None:
            events("failed", allocation_failures=ledger.allocation_failures)
        if trace is not None and (not trace.records or trace.records[-1]["kind"] != END):
            if not trace.records:
                trace.add(header(plan))
            trace.failed(error, plan.origin.replay_token, t, plan.origin.rank)
        raise


def _describe_request(
    plan: Plan, sizes: list[int], budget: int | None, *, is_fresh: bool, is_restored: bool, failures: int
) -> dict[str, Any]:
    """Return the log fields of a plan to apply: the memory that it needs, and the storages of each arena."""
    return {
        "plan_hash": file.plan_identity(plan).hex(),
        "arenas": [{"name": arena.name, "reuse": arena.reuse} for arena in plan.allocation.arenas],
        "mappings": sizes,
        "budget": budget,
        "granted": budget is None or sum(sizes) <= budget,
        "allocation_failures": failures,
        "is_fresh": is_fresh,
        "is_restored": is_restored,
        "steps": len(plan.allocation.steps),
        "iterates": bool(plan.allocation.bodies.iterates.any()),
        "storages": list_storages(plan),
    }


def list_storages(plan: Plan) -> list[list[Any]]:
    """Return a row for each storage as events state it.

    A row has the first tensor of the storage, its arena, slot, offset and bytes, and its birth and death.
    """
    s = plan.allocation.storages
    names = plan.allocation.tensors.name.list()
    first: dict[int, str] = {}
    for row, storage in enumerate(plan.allocation.tensors.storage.tolist()):
        first.setdefault(storage, names[row])
    columns = (s.arena, plan.slots.of, s.offset, s.bytes, s.birth, s.death)
    return [[first[k], *row] for k, row in enumerate(zip(*(column.tolist() for column in columns), strict=True))]


def _fill(memory: MappedMemory, contents: Contents | None) -> None:
    """Write the bytes of a checkpoint, or zeros to reused arenas in given buffers (fresh mappings are zero)."""
    for a, found in enumerate(memory.arenas):
        if contents is not None and not callable(contents):
            if len(contents[a]) != len(found.content):
                raise TmmuError(
                    "INVALID_RECORD",
                    f"expected {len(found.content)} bytes, got {len(contents[a])}",
                    place=f"memory of arena {found.arena.name!r}",
                    fix="restore a checkpoint of this plan",
                    operator=APPLY,
                )
            found.content[:] = np.frombuffer(contents[a], np.uint8)
        elif found.is_given and found.arena.reuse:
            found.content[:] = 0
    if callable(contents):
        contents(memory)
