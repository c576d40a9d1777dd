"""A plan that gives way to another between two batches: what persists goes over, what cannot be changes nothing.

spec: R6.8, U8.1 to U8.6
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.recorded import batch
from tests.support.refusals import refused
from tests.support.text_models import text_model
from tmmu.planner import plan_memory
from tmmu.plans.replan import replan_key
from tmmu.plans.sections import Plan
from tmmu.runtime import checkpoint
from tmmu.runtime.apply import apply_plan
from tmmu.runtime.events import EventLog
from tmmu.runtime.execution import Execution
from tmmu.runtime.journal import Journal
from tmmu.runtime.recording import RunRecords
from tmmu.runtime.records.ledger import Ledger
from tmmu.runtime.records.trace import Trace
from tmmu.runtime.safepoint import exchange


def plan(size: int = 128, parameters: str = "w v", **sizes: int) -> Plan:
    model = text_model(
        f"node add Add x w v {'u' if 'u' in parameters else ''} -> a",
        "node relu Relu a -> y",
        parameters=parameters,
        sizes={"a": size, "w": 72, "v": 8, **sizes},
    )
    return plan_memory(model).plan


def ran(made: Plan, **recorded: Any) -> Execution:
    """Return an execution with a batch behind it, and something of their own in its parameters."""
    execution = apply_plan(made, records=RunRecords(**recorded))
    batch(execution)
    for name, value in (("w", 3), ("v", 5)):
        execution.memory.tensor(execution.tensor_map.row(name))[:] = value
    return execution


def held(execution: Execution, name: str) -> set[int]:
    return set(execution.view_published(name).tolist())


def test_what_persists_goes_over_and_the_chain_of_commits_goes_on(tmp_path: Path) -> None:
    """spec: U8.2, U8.4, U8.5"""
    trace = Trace()
    old = ran(plan(), trace=trace, hash_contents=True)
    before = old.state
    new = exchange(old, plan(4096), "a larger shape", shape={"seq": 9})
    assert (held(new, "w"), held(new, "v")) == ({3}, {5})
    assert not new.memory.arena("activations").content.any()
    assert new.plan_hash != old.plan_hash
    kinds = [record["kind"] for record in trace.records]
    at = kinds.index("replan")
    assert trace.records[at] == {
        "kind": "replan", "t": 2, "old_tmmu_plan_hash": old.plan_hash, "new_tmmu_plan_hash": new.plan_hash,
        "reason": "a larger shape", "shape": {"seq": 9}, "old_envelope": {}, "new_envelope": {},
        "old_replan_key": replan_key(old.plan), "new_replan_key": replan_key(new.plan),
    }  # fmt: skip
    assert kinds[at + 1] == "tensor"
    commit = trace.records[-1]
    assert (commit["kind"], commit["t"], commit["previous_state_hash"]) == ("commit", 2, before.state_hash)
    assert commit["tmmu_plan_hash"] == new.plan_hash
    assert new.state.batches == 3
    with refused("CONTRACT_VIOLATION", "closed"):
        old.memory.tensor(0)
    batch(new)
    checkpoint.save(new, tmp_path / "kept")
    with checkpoint.restore(tmp_path / "kept") as again:
        assert again.plan_hash == new.plan_hash


def test_the_commit_of_the_exchange_covers_what_went_over() -> None:
    """The same bytes, commit by commit, whether parameters came from an old plan or were there before."""
    contents = []
    for value in (3, 4):
        trace = Trace()
        old = ran(plan(), trace=trace, hash_contents=True)
        old.memory.tensor(old.tensor_map.row("w"))[:] = value
        exchange(old, plan(4096), "a larger shape").close()
        contents.append([seal["content"] for seal in trace.records[-1]["arenas"]])
    assert contents[0] != contents[1]


def test_a_plan_is_exchanged_between_batches_alone() -> None:
    """spec: U8.1"""
    old = ran(plan())
    old.begin()
    with refused("CONTRACT_VIOLATION", "the plan cannot be exchanged while a batch is open"):
        exchange(old, plan(4096), "why")
    old.close()


def test_the_same_plan_is_no_exchange() -> None:
    trace = Trace()
    with ran(plan(), trace=trace) as old:
        assert exchange(old, plan(), "why") is old
        assert "replan" not in [record["kind"] for record in trace.records]


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (plan(parameters="w"), "the new plan has no persistent tensor 'v'"),
        (plan(parameters="w v u"), "the old plan has no persistent tensor 'u'"),
        (plan(v=16), "the persistent tensor 'v' has 8 bytes in the old plan and 16 in the new one"),
    ],
)
def test_a_plan_of_other_persistent_tensors_is_refused_and_nothing_changes(other: Plan, says: str) -> None:
    """spec: U8.3"""
    trace = Trace()
    with ran(plan(), trace=trace) as old:
        count = len(trace.records)
        with refused("CONTRACT_VIOLATION", says):
            exchange(old, other, "why")
        assert len(trace.records) == count
        batch(old)


def test_a_plan_that_cannot_be_applied_leaves_the_old_one_at_work(tmp_path: Path) -> None:
    """spec: U8.6"""
    trace, ledger, log = Trace(), Ledger(), EventLog(tmp_path / "log")
    with ran(plan(), trace=trace, ledger=ledger, events=log) as old:
        state = old.state
        with refused("CONTRACT_VIOLATION", "the budget is 4096; nothing was allocated"):
            exchange(old, plan(1 << 20), "why", memory_bytes_budget=4096)
        with refused("TMMU_ALLOCATION_FAILURE", "cannot be opened"):
            exchange(old, plan(1 << 20), "why", journal=tmp_path / "none" / "journal")
        assert (old.state, held(old, "w"), ledger.allocation_failures) == (state, {3}, 2)
        replans = [record for record in trace.records if record["kind"] == "replan"]
        assert [record["new_tmmu_plan_hash"] == old.plan_hash for record in replans] == [False, True, False, True]
        batch(old)
        assert trace.end()[-1]["kind"] == "end"
    kinds = [json.loads(line)["event"] for line in (tmp_path / "log").read_text().splitlines()]
    assert (kinds.count("replan"), kinds.count("failed"), kinds.count("released"), kinds.count("closed")) == (
        2,
        2,
        0,
        1,
    )


def test_a_run_with_a_journal_goes_on_in_another(tmp_path: Path) -> None:
    """spec: U8.5, U4.9"""
    old = ran(plan(), journal=tmp_path / "one")
    with refused("CONTRACT_VIOLATION", "the run has a journal, which belongs to the old plan"):
        exchange(old, plan(4096), "why")
    with refused("REPLAY_DIVERGENCE", "one"):
        exchange(old, plan(4096), "why", journal=copied(tmp_path))
    state = old.state
    with exchange(old, plan(4096), "why", journal=tmp_path / "two") as new:
        batch(new)
        after = new.state
    with Journal.open(tmp_path / "two", new.plan_hash) as journal:
        assert (journal.state, journal.state.batches) == (after, state.batches + 2)


def copied(folder: Path) -> Path:
    """A journal of the old plan that nobody has open."""
    (folder / "copy-of-one").write_bytes((folder / "one").read_bytes())
    return folder / "copy-of-one"


def test_buffers_of_the_callers_are_filled_like_mappings() -> None:
    old, wider = ran(plan()), plan(4096)
    sizes = {arena.name: 1 << 14 for arena in wider.allocation.arenas}
    base = {name: np.full(size + 256, 9, np.uint8) for name, size in sizes.items()}
    aligned = {name: whole[-whole.ctypes.data % 128 :][: sizes[name]] for name, whole in base.items()}
    with exchange(old, wider, "why", base=aligned) as new:
        assert (held(new, "w"), held(new, "v")) == ({3}, {5})
        assert not new.memory.arena("activations").content.any()
