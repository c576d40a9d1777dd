"""What holds of every plan that is put to work, and of every file that a run leaves or somebody has changed."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.support.full_trace import untimed
from tests.support.text_models import text_model
from tmmu.core import canonical
from tmmu.core import records as sequence
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import ArenaConfiguration, Model
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans import file
from tmmu.plans.sections import Plan
from tmmu.runtime import checkpoint, journal
from tmmu.runtime.apply import apply_plan
from tmmu.runtime.commit import commit_execution
from tmmu.runtime.execution import Execution
from tmmu.runtime.memory import MappedMemory
from tmmu.runtime.recording import RunRecords
from tmmu.runtime.records import metrics
from tmmu.runtime.records import trace as traces
from tmmu.runtime.records.ledger import Ledger, of_steps
from tmmu.runtime.records.trace import Trace
from tmmu.testing.strategies.models import arenas, models

LAYOUTS = ("packed", "slots", "pools", "hashed")
layouts = st.sampled_from(LAYOUTS)


def planned(model: Model, config: tuple[ArenaConfiguration, ...], layout: str) -> Plan:
    """A plan that fits its arenas, and this machine."""
    try:
        made = plan_memory(
            model, config, PlanOptions(layout=layout, address_token=bytes(64) if layout == "hashed" else None)
        ).plan
    except TmmuError as error:
        assume(error.code_id not in ("ARENA_TOO_SMALL", "ADDRESS_COLLISION", "ALLOCATION_OVERFLOW", "INVALID_BINDING"))
        raise
    assume(sum(usage.footprint for usage in made.usage) < 1 << 26)
    return made


def run(execution: Execution, batches: int = 1) -> None:
    """Every step in turn; what lives is written over."""
    t = execution.plan.allocation.tensors
    for _ in range(batches):
        execution.begin()
        for step in range(len(execution.plan.allocation.steps)):
            execution.step(step)
            for row in np.flatnonzero((t.birth <= step) & (t.death >= step)).tolist():
                execution.memory.tensor(row)[:] = 1 + row % 255
        commit_execution(execution)


@given(models(), arenas(), layouts)
def test_every_view_lies_in_its_arena_and_they_reach_to_the_footprint(
    model: Model, config: tuple[ArenaConfiguration, ...], layout: str
) -> None:
    """spec: U1.2, U1.4, U1.7, U1.9"""
    made = planned(model, config, layout)
    with MappedMemory.map(made) as memory:
        for row in range(len(made.allocation.tensors)):
            arena = memory.arenas[int(made.allocation.storages.arena[made.allocation.tensors.storage[row]])]
            view = memory.tensor(row)
            at = view.__array_interface__["data"][0]
            assert arena.base <= at
            assert at + len(view) <= arena.base + arena.extent.size
            assert (
                memory.pointer(row) % int(made.allocation.tensors.alignment[row]) == 0
                or made.allocation.tensors.shares[row]
            )
        for k in range(len(made.allocation.storages)):
            memory.bytes(
                int(made.allocation.storages.arena[k]),
                int(made.allocation.storages.offset[k]),
                int(made.allocation.storages.bytes[k]),
            )
        if layout != "hashed":
            assert [memory.high_water(a) for a in range(len(config))] == [usage.footprint for usage in made.usage]
        assert all(arena.high_water <= usage.footprint for arena, usage in zip(memory.arenas, made.usage, strict=True))


@given(models(), arenas(), layouts)
def test_whatever_is_born_is_zero_in_every_batch(
    model: Model, config: tuple[ArenaConfiguration, ...], layout: str
) -> None:
    """spec: U2.8, U2.9"""
    made = planned(model, config, layout)
    s, t = made.allocation.storages, made.allocation.tensors
    reused = np.array([arena.reuse for arena in config])[s.arena]
    with apply_plan(made) as execution:
        for _ in range(2):
            execution.begin()
            for step in range(len(made.allocation.steps)):
                execution.step(step)
                for k in np.flatnonzero((s.birth == step) & reused).tolist():
                    assert not execution.memory.bytes(int(s.arena[k]), int(s.offset[k]), int(s.bytes[k])).any()
                for row in np.flatnonzero((t.birth <= step) & (t.death >= step)).tolist():
                    execution.memory.tensor(row)[:] = 0xEE
            commit_execution(execution)


@given(models(), arenas(), layouts)
def test_two_runs_leave_the_same_records(model: Model, config: tuple[ArenaConfiguration, ...], layout: str) -> None:
    """spec: U4.4, U5.8, U5.9, U5.12"""
    made = planned(model, config, layout)
    left = []
    for _ in range(2):
        trace, ledger = Trace(), Ledger()
        with apply_plan(made, records=RunRecords(trace=trace, ledger=ledger, hash_contents=True)) as execution:
            run(execution, 2)
            records = trace.end()
            left.append((untimed(records), ledger.records, execution.state))
    assert left[0] == left[1]
    traces.check(records)
    data = b"".join(map(canonical.encode, records))
    assert [item.value for item in sequence.read_items(data)] == records


@given(models(), arenas(), layouts)
def test_the_ledger_ends_with_the_metrics_of_the_plan(
    model: Model, config: tuple[ArenaConfiguration, ...], layout: str
) -> None:
    """spec: U5.4, U5.7"""
    made = planned(model, config, layout)
    counters = list(of_steps(made, 0))
    assert counters[-1]["internal_fragmentation_ratio"] == metrics.fragmentation(made)
    s = made.allocation.storages
    live = [
        int(s.bytes[(s.birth <= step) & (s.death >= step)].sum()) for step in range(max(1, len(made.allocation.steps)))
    ]
    assert [record["peak_bytes"] for record in counters] == np.maximum.accumulate(live).tolist()


@given(models(), arenas(), layouts)
def test_a_checkpoint_gives_back_what_it_was_made_of(
    model: Model, config: tuple[ArenaConfiguration, ...], layout: str
) -> None:
    """spec: U6.1, U6.2, U6.3, U6.5, U6.6"""
    made = planned(model, config, layout)
    with apply_plan(made) as execution:
        run(execution)
        data = checkpoint.encode(made, execution.state, execution.memory)
        found = checkpoint.decode(data, made)
        assert (found.plan, found.state) == (made, execution.state)
        assert checkpoint.encode(found.plan, found.state, execution.memory) == data
        with checkpoint.resume(found) as restored:
            for one, other in zip(execution.memory.arenas, restored.memory.arenas, strict=True):
                assert (one.content == other.content).all()


# Files that somebody has changed: a refusal or a right answer, and never anything else.

PLAN = plan_memory(
    text_model("node add Add x w -> a", "node relu Relu a -> b", "node relu2 Relu b -> y", parameters="w")
).plan
PLAN_HASH = file.compute_hashes(PLAN)["plan_hash"]


def files() -> tuple[bytes, bytes, bytes]:
    """A trace, a journal and a checkpoint."""
    trace = Trace()
    with tempfile.TemporaryDirectory() as folder:
        with apply_plan(PLAN, records=RunRecords(trace=trace, journal=Path(folder) / "j")) as execution:
            run(execution, 3)
            saved = checkpoint.encode(PLAN, execution.state, execution.memory)
        return b"".join(map(canonical.encode, trace.end())), (Path(folder) / "j").read_bytes(), saved


TRACE, JOURNAL, CHECKPOINT = files()
edits = st.lists(st.tuples(st.integers(0, 1 << 16), st.binary(max_size=12), st.integers(0, 12)), min_size=1, max_size=4)


def edited(data: bytes, changes: list[tuple[int, bytes, int]]) -> bytes:
    """`data` with some bytes replaced by others, of other numbers."""
    for at, new, gone in changes:
        at %= len(data) + 1
        data = data[:at] + new + data[at + gone :]
    return data


@given(edits)
def test_a_changed_trace_is_refused_or_is_the_same(changes: list[tuple[int, bytes, int]]) -> None:
    """spec: U5.2, U5.14"""
    data = edited(TRACE, changes)
    try:
        traces.check([item.value for item in sequence.read_items(data)])
    except TmmuError as error:
        assert error.code_id == "INVALID_RECORD"  # noqa: PT017
    else:
        assert data == TRACE


@given(edits)
def test_a_changed_journal_is_refused_or_gives_a_state_that_was_sealed(changes: list[tuple[int, bytes, int]]) -> None:
    """spec: U4.7, U4.8, U4.9"""
    data = edited(JOURNAL, changes)
    sealed = [item.value["state_hash"] for item in sequence.read_items(JOURNAL)]
    try:
        state, end = journal.replay(data, PLAN_HASH)
    except TmmuError as error:
        assert error.code_id in ("INVALID_RECORD", "REPLAY_DIVERGENCE")  # noqa: PT017
    else:
        assert state.state_hash == sealed[state.batches]
        assert data[:end] == JOURNAL[:end]


@given(edits)
def test_a_changed_checkpoint_is_refused_or_is_the_same(changes: list[tuple[int, bytes, int]]) -> None:
    """spec: U6.2, U6.3"""
    data = edited(CHECKPOINT, changes)
    try:
        checkpoint.decode(data)
    except TmmuError as error:
        assert error.code_id in ("INVALID_RECORD", "REPLAY_DIVERGENCE")  # noqa: PT017
    else:
        assert data == CHECKPOINT


@given(st.binary(max_size=300))
def test_bytes_of_anybody_are_refused_with_a_code(data: bytes) -> None:
    """spec: U5.2"""
    for read in (lambda: list(sequence.read_items(data)), lambda: journal.replay(data, PLAN_HASH)):
        try:
            read()
        except TmmuError as error:
            assert error.code_id in ("INVALID_RECORD", "REPLAY_DIVERGENCE")  # noqa: PT017
