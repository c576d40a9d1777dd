"""CommitExecution: barriers, one record that seals a batch, visibility; and the journal's damage.

What a killed process leaves is in `test_runtime_crashes`. spec: U4.1 to U4.10
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import cbor2
import pytest

from tests.support.refusals import refused
from tests.support.text_models import text_model
from tmmu.core import records as sequence
from tmmu.core.errors import TmmuError
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans import file
from tmmu.plans.sections import Plan
from tmmu.runtime import journal as journals
from tmmu.runtime.apply import apply_plan
from tmmu.runtime.commit import commit_execution
from tmmu.runtime.execution import Execution
from tmmu.runtime.journal import MARK, MARK_END, Journal, JournalState, genesis
from tmmu.runtime.recording import RunRecords
from tmmu.runtime.records.trace import Trace


def plan(token: int = 0) -> Plan:
    return plan_memory(
        text_model("node add Add x w -> a", "node relu Relu a -> y", parameters="w"),
        options=PlanOptions(replay_token=bytes([token]) * 32),
    ).plan


@cache
def hash_of(token: int) -> bytes:
    return plan_hash(plan(token))


def plan_hash(made: Plan) -> bytes:
    return file.compute_hashes(made)["plan_hash"]


def batch(execution: Execution, value: int = 1) -> JournalState:
    execution.begin()
    for step in range(len(execution.plan.allocation.steps)):
        execution.step(step)
    execution.memory.tensor(execution.tensor_map.row("y"))[:] = value
    return commit_execution(execution)


def test_a_state_hash_is_the_commitment_of_the_record_and_chains_the_states() -> None:
    made, trace = plan(), Trace()
    with apply_plan(made, records=RunRecords(trace=trace)) as execution:
        batch(execution)
        batch(execution)
    commits = [record for record in trace.records if record["kind"] == "commit"]
    previous = genesis(plan_hash(made)).state_hash
    for t, record in enumerate(commits):
        assert (record["t"], record["previous_state_hash"]) == (t, previous)
        rest = {key: value for key, value in record.items() if key != "state_hash"}
        encoded = cbor2.dumps(["tmmu_state_v1", rest], canonical=True)
        previous = record["state_hash"]
        assert previous == hashlib.sha256(encoded).digest()
    assert execution.state == JournalState(3, previous)


def test_the_state_is_the_same_in_every_run_and_another_for_another_plan_or_content() -> None:
    def run(made: Plan, value: int, contents: bool) -> JournalState:
        with apply_plan(made, records=RunRecords(hash_contents=contents)) as execution:
            return batch(execution, value)

    assert run(plan(), 1, True) == run(plan(), 1, True)
    assert run(plan(), 1, True) != run(plan(), 2, True)
    assert run(plan(), 1, False) == run(plan(), 2, False)
    assert run(plan(), 1, False) != run(plan(1), 1, False)


def test_a_commit_without_a_batch_changes_nothing(tmp_path: Path) -> None:
    trace = Trace()
    with apply_plan(plan(), records=RunRecords(trace=trace, journal=tmp_path / "j")) as execution:
        state, size, records = execution.state, (tmp_path / "j").stat().st_size, len(trace.records)
        for _ in range(3):
            assert commit_execution(execution) == state
        assert ((tmp_path / "j").stat().st_size, len(trace.records)) == (size, records)
        execution.begin()
        assert commit_execution(execution) != state


def test_pending_operations_are_run_arena_by_arena_in_the_plans_order() -> None:
    done: list[str] = []
    with apply_plan(plan()) as execution:
        execution.begin()
        for arena in ("gradients", "activations", "parameters", "activations"):
            execution.enqueue(arena, lambda arena=arena: done.append(arena))  # type: ignore[misc]  # a default binds it
        assert done == []
        commit_execution(execution)
        assert done == ["parameters", "activations", "activations", "gradients"]
        with refused("CONTRACT_VIOLATION", "outside of a batch"):
            execution.enqueue("activations", lambda: None)
        execution.begin()
        with refused("INVALID_ADDRESS", "there is no arena"):
            execution.enqueue("heap", lambda: None)


def test_where_an_operation_fails_nothing_is_sealed_and_the_commit_can_be_made_again(tmp_path: Path) -> None:
    done: list[str] = []
    broken = [OSError("the device is gone")]

    def write() -> None:
        if broken:
            raise broken[0]
        done.append("written")

    with apply_plan(plan(), records=RunRecords(journal=tmp_path / "j")) as execution:
        state, size = execution.state, (tmp_path / "j").stat().st_size
        execution.begin()
        execution.enqueue("parameters", lambda: done.append("first"))
        execution.enqueue("activations", write)
        for _ in range(2):
            with refused("TMMU_ALLOCATION_FAILURE", "the device is gone", "nothing was committed"):
                commit_execution(execution)
            assert (execution.state, execution.is_open) == (state, True)
            assert (tmp_path / "j").stat().st_size == size
        broken.clear()
        assert commit_execution(execution).batches == state.batches + 1
        assert done == ["first", "written"]


def test_what_a_batch_writes_is_visible_once_it_is_committed() -> None:
    with apply_plan(plan()) as execution:
        assert execution.visible == dict.fromkeys(("parameters", "optimizer", "activations", "gradients"), 1)
        execution.begin()
        with refused("CONTRACT_VIOLATION", "'y' cannot be read while a batch is open"):
            execution.view_published("y")
        execution.memory.tensor(execution.tensor_map.row("y"))[:] = 8
        assert execution.visible["activations"] == 1
        commit_execution(execution)
        assert execution.visible["activations"] == 2
        view = execution.view_published("y")
        assert (view == 8).all()
        with pytest.raises(ValueError, match="read-only"):
            view[:] = 0
        execution.memory.tensor(execution.tensor_map.row("y"))[:1] = 9  # the owner's views stay writable
        with refused("INVALID_ADDRESS", "no tensor 'z'"):
            execution.view_published("z")


# The journal.


def test_a_journal_goes_on_where_it_ended(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with apply_plan(plan(), records=RunRecords(journal=path)) as execution:
        state = batch(execution)
    with Journal.open(path, hash_of(0)) as journal:
        assert journal.state == state == JournalState(2, state.state_hash)
    assert journals.load(path, hash_of(0)) == state
    with apply_plan(plan(), records=RunRecords(journal=path)) as execution:
        assert execution.state.batches == 3
        assert batch(execution).batches == 4
    records = sequence.read(path)
    assert [record.get("t") for record in records] == [None, 0, 1, 2, 3]


def test_one_process_at_a_time_has_a_journal(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with (
        apply_plan(plan(), records=RunRecords(journal=path)),
        refused("TMMU_ALLOCATION_FAILURE", "another process has it open"),
    ):
        apply_plan(plan(), records=RunRecords(journal=path))
    apply_plan(plan(), records=RunRecords(journal=path)).close()


def test_a_journal_of_another_plan_or_state_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "j"
    apply_plan(plan(), records=RunRecords(journal=path)).close()
    before = path.read_bytes()
    with refused("REPLAY_DIVERGENCE", str(path), "another plan"):
        apply_plan(plan(1), records=RunRecords(journal=path))
    with refused("REPLAY_DIVERGENCE", "not the one to continue from"):
        Journal.open(path, hash_of(0), genesis(hash_of(0)))
    assert path.read_bytes() == before


def test_a_journal_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    with refused("TMMU_ALLOCATION_FAILURE", "cannot be opened"):
        apply_plan(plan(), records=RunRecords(journal=tmp_path))
    with refused("TMMU_ALLOCATION_FAILURE", "cannot be opened"):
        apply_plan(plan(), records=RunRecords(journal=tmp_path / "no" / "j"))


def test_a_closed_journal_takes_no_commit(tmp_path: Path) -> None:
    execution = apply_plan(plan(), records=RunRecords(journal=tmp_path / "j"))
    execution.close()
    execution.begin()
    with refused("TMMU_ALLOCATION_FAILURE", "closed"):
        assert execution.journal is not None
        execution.journal.append({})


@pytest.mark.parametrize("call", ["pwrite", "fsync"])
def test_where_the_disk_fails_the_old_state_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def fail(*_: object) -> int:
        raise OSError(28, "No space left on device")

    path = tmp_path / "j"
    execution = apply_plan(plan(), records=RunRecords(journal=path))
    state = execution.state
    execution.begin()
    with monkeypatch.context() as patched:
        patched.setattr(os, call, fail)
        with refused("TMMU_ALLOCATION_FAILURE", "No space left"):
            commit_execution(execution)
    assert (execution.state, execution.is_open) == (state, True)
    with refused("TMMU_ALLOCATION_FAILURE", "or a write to it failed"):
        commit_execution(execution)
    assert journals.load(path, hash_of(0)) == state


def test_a_commit_is_synced_before_it_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    pwrite, fsync = os.pwrite, os.fsync
    with apply_plan(plan(), records=RunRecords(journal=tmp_path / "j")) as execution:
        execution.begin()
        monkeypatch.setattr(os, "pwrite", lambda *given: (calls.append("write"), pwrite(*given))[1])
        monkeypatch.setattr(os, "fsync", lambda f: (calls.append(f"sync at {execution.state.batches}"), fsync(f))[1])
        commit_execution(execution)
    assert calls == ["write", "sync at 1"]


def test_a_short_write_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda f, data, at: pwrite(f, data[: max(1, len(data) // 2)], at))
    with apply_plan(plan(), records=RunRecords(journal=tmp_path / "j")) as execution:
        state = batch(execution)
    assert journals.load(tmp_path / "j", hash_of(0)) == state


def written(path: Path, batches: int = 3) -> tuple[bytes, list[int], list[JournalState]]:
    """A journal's bytes, where each of its commits ends, and the states."""
    with apply_plan(plan(), records=RunRecords(journal=path)) as execution:
        states = [genesis(hash_of(0)), execution.state, *(batch(execution) for _ in range(batches - 1))]
    data = path.read_bytes()
    return data, [item.end for item in sequence.read_items(data)], states


def test_a_journal_cut_off_at_any_byte_gives_the_last_whole_commit(tmp_path: Path) -> None:
    """What a machine that lost its power may leave of bytes that were not synced yet."""
    data, ends, states = written(tmp_path / "j")
    for length in range(ends[0], len(data) + 1):
        whole = sum(end <= length for end in ends) - 1
        assert journals.replay(data[:length], hash_of(0)) == (states[whole], ends[whole])


def test_a_torn_end_is_cut_off_and_the_journal_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "j"
    data, ends, states = written(path)
    for length in (ends[-2] + 1, ends[-1] - 1):
        path.write_bytes(data[:length])
        with Journal.open(path, hash_of(0)) as journal:
            assert journal.state == states[-2]
        assert path.read_bytes() == data[: ends[-2]]
    garbage = bytes(100)
    path.write_bytes(data[: ends[-2]] + garbage)
    with Journal.open(path, hash_of(0)) as journal:
        assert journal.state == states[-2]


def test_a_whole_record_whose_kind_is_not_text_is_no_torn_end(tmp_path: Path) -> None:
    """Nothing is cut off, and the file stays as it is. spec: RE3.6"""
    path = tmp_path / "j"
    data, ends, states = written(path)
    for kind in ([], {}, 1, None, b"commit"):
        path.write_bytes(changed := data[: ends[-2]] + cbor2.dumps({"kind": kind}, canonical=True))
        with pytest.raises(TmmuError, match="its kind is missing or unknown"):
            Journal.open(path, hash_of(0))
        assert path.read_bytes() == changed
    path.write_bytes(data)
    assert journals.load(path, hash_of(0)) == states[-1]


def test_a_torn_header_is_written_again(tmp_path: Path) -> None:
    path = tmp_path / "j"
    _, ends, states = written(path)
    header = path.read_bytes()[: ends[0]]
    for length in range(len(header)):
        path.write_bytes(header[:length])
        with Journal.open(path, hash_of(0)) as journal:
            assert journal.state == states[0]
        assert path.read_bytes() == header


def test_a_changed_bit_before_the_last_commit_is_damage(tmp_path: Path) -> None:
    data, ends, _ = written(tmp_path / "j")
    for at in range(ends[-2]):
        changed = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        with pytest.raises(Exception, match=r"INVALID_RECORD|REPLAY_DIVERGENCE"):
            journals.replay(changed, hash_of(0))


def test_a_changed_bit_in_the_last_commit_never_gives_another_state(tmp_path: Path) -> None:
    data, ends, states = written(tmp_path / "j")
    for at in range(ends[-2], len(data)):
        for bit in (1, 128):
            changed = data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :]
            assert journals.replay(changed, hash_of(0))[0] == states[-2]


def test_every_commit_begins_with_its_mark_and_holds_it_once(tmp_path: Path) -> None:
    data, ends, _ = written(tmp_path / "j")
    for first, end in pairwise(ends):
        assert data[first:end].count(MARK) == 1
        assert data.index(MARK, first) - first < MARK_END


HEADERS: list[tuple[str, Callable[[dict[str, Any]], object]]] = [
    ("another format", lambda h: h.update(format="tmmu-trace")),
    ("another version", lambda h: h.update(spec_version="9.0")),
    ("a key of another type", lambda h: h.update(batches="0")),
    ("a key too many", lambda h: h.update(comment="")),
    ("a key too few", lambda h: h.pop("batches")),
    ("another state at the beginning", lambda h: h.update(state_hash=bytes(32))),
]


@pytest.mark.parametrize("change", [row[1] for row in HEADERS], ids=[row[0] for row in HEADERS])
def test_a_header_that_is_none_is_refused(tmp_path: Path, change: Any) -> None:
    data, ends, _ = written(tmp_path / "j")
    header = cbor2.loads(data[: ends[0]])
    change(header)
    with refused("INVALID_RECORD", "record 0"):
        journals.replay(cbor2.dumps(header, canonical=True) + data[ends[0] :], hash_of(0))


def test_what_is_no_journal_is_refused(tmp_path: Path) -> None:
    for data in (b"\xa0", b"\x80", b"\xff" * 200, b"text that is no journal " * 20, b"\x00" * 300):
        (tmp_path / "j").write_bytes(data)
        with refused("INVALID_RECORD", str(tmp_path / "j")):
            apply_plan(plan(), records=RunRecords(journal=tmp_path / "j"))
        assert (tmp_path / "j").read_bytes() == data
    with refused("INVALID_RECORD", "empty"):
        journals.replay(b"", hash_of(0))


def test_a_commit_of_another_run_does_not_follow(tmp_path: Path) -> None:
    """Its number and its own hash are right, but not the state that it goes on from."""
    data, ends, _ = written(tmp_path / "one", 4)
    with apply_plan(plan(), records=RunRecords(journal=tmp_path / "other", hash_contents=True)) as execution:
        for _ in range(3):
            batch(execution)
    other = (tmp_path / "other").read_bytes()
    at = [item.end for item in sequence.read_items(other)]
    spliced = data[: ends[1]] + other[at[1] : at[2]] + data[ends[2] :]
    with refused("INVALID_RECORD", "its state does not follow from the state before it"):
        journals.replay(spliced, hash_of(0))


def test_commits_out_of_order_are_damage(tmp_path: Path) -> None:
    data, ends, _ = written(tmp_path / "j", 4)
    parts = [data[first:end] for first, end in zip([0, *ends], ends, strict=False)]
    for order in ([0, 2, 1, 3, 4], [0, 1, 1, 2, 3], [0, 1, 3, 4], [0, 2, 3]):
        with refused("INVALID_RECORD"):
            journals.replay(b"".join(parts[k] for k in order), hash_of(0))
