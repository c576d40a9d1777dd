"""ApplyPlan and PrepareMemory: all arenas or none, zeros where something is born, handles counted from the plan.

spec: U2.1 to U2.12, U5.7 and U5.8
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tmmu
from tests.support.refusals import refused
from tests.support.text_models import text_model
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import ArenaConfiguration, Lifetime, Role
from tmmu.examples.broken.editing import changed
from tmmu.planner import DEFAULT, PlanOptions, plan_memory
from tmmu.plans import file
from tmmu.plans.sections import Plan, amend_plan
from tmmu.runtime import apply as module
from tmmu.runtime.apply import apply_plan
from tmmu.runtime.commit import commit_execution
from tmmu.runtime.handles import Handle, TensorMap, generations
from tmmu.runtime.memory import MappedMemory
from tmmu.runtime.recording import RunRecords
from tmmu.runtime.records import metrics
from tmmu.runtime.records.ledger import Ledger, of_steps
from tmmu.runtime.records.trace import Trace
from tmmu.tasks.prepare import prepare_memory_v2


def model() -> Any:
    return text_model(
        "node add Add x w -> a", "node relu Relu a -> b scratch 32 align 8", "node relu2 Relu b -> c",
        "node relu3 Relu c -> y", parameters="w",
    )  # fmt: skip


def plan(layout: str = "packed") -> Plan:
    return plan_memory(
        model(), options=PlanOptions(layout=layout, address_token=bytes(64) if layout == "hashed" else None)
    ).plan


def row(made: Plan, name: str) -> int:
    return made.allocation.tensors.name.list().index(name)


# A plan, or what was read from a file.


def test_what_is_loaded_is_applied_as_its_plan_is(tmp_path: Path) -> None:
    """The execution of a loaded plan, or of one that the library made, is that of the record itself."""
    file.save(plan(), tmp_path / "p.cbor")
    (tmp_path / "p.plan.txt").write_text(
        "tmmu-plan-text 1\narena act 512\ntensor x 256 act 0 input\ntensor y 256 act 256 output\nstep s Relu x -> y\n"
    )
    with apply_plan(plan()) as own, apply_plan(tmmu.load(tmp_path / "p.cbor")) as loaded:
        assert loaded.state == own.state
        assert loaded.tensor_map.row("y") == own.tensor_map.row("y")
    with apply_plan(tmmu.load(tmp_path / "p.plan.txt")) as of_text:
        assert of_text.bytes_allocated > 0


def test_lifetimes_without_steps_are_not_applied(tmp_path: Path) -> None:
    path = tmp_path / "buffers.plan.txt"
    path.write_text("tmmu-plan-text 1\narena a 256\nbuffer x 256 a 0 live 0 1\n")
    with refused("INVALID_PLAN", "lifetimes without steps"):
        apply_plan(tmmu.load(path))


# All or none.


def never(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is mapped from now on."""
    mapped: list[str] = []
    original = MappedMemory.map.__func__  # type: ignore[attr-defined]  # a class method has one

    def map_(cls: Any, made: Plan, **more: Any) -> MappedMemory:
        mapped.append(made.origin.model)
        return original(cls, made, **more)  # type: ignore[no-any-return]  # it is MappedMemory.map itself

    monkeypatch.setattr(MappedMemory, "map", classmethod(map_))
    return mapped


def test_over_budget_nothing_is_mapped_and_the_ledger_counts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    mapped, ledger, trace = never(monkeypatch), Ledger(), Trace()
    with refused("CONTRACT_VIOLATION", "8192 bytes", "budget is 8191"):
        apply_plan(plan(), memory_bytes_budget=8191, records=RunRecords(ledger=ledger, trace=trace))
    assert mapped == []
    [failed] = ledger.records
    assert (failed["allocation_failures"], failed["bytes_allocated"], failed["step"]) == (1, 0, None)
    assert [record["kind"] for record in trace.end()] == ["allocation_header", "error", "end"]
    assert trace.records[1]["failure_code"] == "CONTRACT_VIOLATION"
    with apply_plan(plan(), memory_bytes_budget=8192, records=RunRecords(ledger=ledger)) as execution:
        assert execution.bytes_allocated == 8192
    assert mapped == ["small"]
    assert (ledger.records[1]["allocation_failures"], ledger.records[1]["bytes_allocated"]) == (1, 8192)


def test_the_pages_of_an_arena_count_against_the_budget() -> None:
    huge = tuple(replace(arena, page_size=1 << 21) for arena in DEFAULT)
    made = plan_memory(model(), huge).plan
    with refused("CONTRACT_VIOLATION", str(2 << 21)):
        apply_plan(made, memory_bytes_budget=(2 << 21) - 1)
    apply_plan(made, memory_bytes_budget=2 << 21).close()


@pytest.mark.parametrize("mode", ["local", "managed", "confidential", "regulated"])
def test_every_execution_mode_that_is_known_runs(mode: str) -> None:
    apply_plan(plan(), execution_mode=mode).close()


@pytest.mark.parametrize("mode", ["", "inference", "Local", "train"])
def test_another_execution_mode_is_refused(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mapped = never(monkeypatch)
    with refused("MODE_VIOLATION", repr(mode)):
        apply_plan(plan(), execution_mode=mode)
    assert mapped == []


WRONG: list[tuple[str, Any, str, str]] = [
    ("a storage beyond its arena", lambda p: changed(p, "storages", 1, bytes=1 << 20), "INVALID_ADDRESS", "not within"),
    ("a storage far away", lambda p: changed(p, "storages", 1, offset=1 << 63), "INVALID_ADDRESS", "not within"),
    ("an odd storage", lambda p: changed(p, "storages", 2, offset=64), "ALIGNMENT_VIOLATION", "is at 64"),
    ("a tensor beyond its storage", lambda p: changed(p, "tensors", "a", window=8), "INVALID_ADDRESS", "tensor 'a'"),
    ("a huge tensor", lambda p: changed(p, "tensors", "a", bytes=(1 << 64) - 1), "INVALID_ADDRESS", "tensor 'a'"),
    ("a death after the end", lambda p: changed(p, "storages", 1, death=4), "CONTRACT_VIOLATION", "to 4 of a run"),
    ("a birth after death", lambda p: changed(p, "storages", 1, birth=3, death=2), "CONTRACT_VIOLATION", "from step 3"),
    ("a tensor after the end", lambda p: changed(p, "tensors", "a", death=4), "CONTRACT_VIOLATION", "tensor 'a' lives"),
    (
        "no power of two",
        lambda p: changed(p, "storages", 1, alignment=100),
        "ALIGNMENT_VIOLATION",
        "not a power of two",
    ),
    (
        "an arena beyond its capacity",
        lambda p: amend_plan(
            p,
            arenas=tuple(
                replace(arena, capacity=5) if arena.name == "activations" else arena for arena in p.allocation.arenas
            ),
        ),
        "ARENA_TOO_SMALL",
        "its capacity of 5",
    ),
]


@pytest.mark.parametrize(("wrong", "code_id", "text"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_a_plan_whose_addresses_cannot_be_is_not_applied(
    wrong: Any, code_id: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mapped = never(monkeypatch)
    with refused(code_id, text):
        apply_plan(wrong(plan()))
    assert mapped == []


def test_where_an_arena_cannot_be_had_the_others_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    made = plan()
    buffers = {"activations": np.zeros(1 << 16, np.uint8)[1:]}
    closed: list[str] = []
    monkeypatch.setattr("tmmu.runtime.memory.ArenaMemory.close", lambda self: closed.append(self.arena.name))
    with refused("ALIGNMENT_VIOLATION"):
        apply_plan(made, base=buffers)
    assert sorted(closed) == ["optimizer", "parameters"]


def test_where_the_commit_fails_the_memory_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise TmmuError("TMMU_ALLOCATION_FAILURE", "no", arena="", peak_required_bytes=0)

    closed: list[MappedMemory] = []
    monkeypatch.setattr(MappedMemory, "close", lambda self: closed.append(self))
    monkeypatch.setattr(module, "commit_execution", fail)
    with refused("TMMU_ALLOCATION_FAILURE"):
        apply_plan(plan())
    assert len(closed) == 1


# Zeros.


def aligned(size: int) -> Any:
    whole = np.zeros(size + 256, np.uint8)
    return whole[-whole.__array_interface__["data"][0] % 128 :][:size]


@pytest.mark.parametrize("layout", ["packed", "slots", "hashed"])
def test_a_reused_buffer_is_zeroed_whole_and_a_persistent_one_is_taken_as_it_is(layout: str) -> None:
    made = plan(layout)
    weights, activations = aligned(64), aligned(4096)
    weights[:], activations[:] = 3, 9
    with apply_plan(made, base={"parameters": weights, "activations": activations}) as execution:
        size = execution.memory.arenas[2].extent.size
        assert not activations[:size].any()
        assert (activations[size:] == 9).all()
        for _ in range(2):
            execution.begin()
            for step in range(len(made.allocation.steps)):
                execution.step(step)
            commit_execution(execution)
        assert (weights == 3).all()


def test_what_is_mapped_is_zero_without_being_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    zeroed: list[Any] = []
    monkeypatch.setattr("tmmu.runtime.births.zero_tensor", lambda *given: zeroed.append(given))
    made = plan()
    with apply_plan(made) as execution:
        assert not any(arena.content.any() for arena in execution.memory.arenas)
        execution.begin()
        execution.step(0)
        assert zeroed == []
        execution.step(1)  # x has died: its bytes were used
        assert zeroed
        commit_execution(execution)
        zeroed.clear()
        execution.begin()
        assert [given[1][0] for given in zeroed] == ["activations"] * len(zeroed)
        assert zeroed


def dirtied(execution: Any, step: int) -> None:
    """Write over everything that lives at a step."""
    t = execution.plan.allocation.tensors
    for k in range(len(t)):
        if t.birth[k] <= step <= t.death[k]:
            execution.memory.tensor(k)[:] = 0xEE


@pytest.mark.parametrize("layout", ["packed", "slots", "pools", "hashed"])
def test_every_byte_of_a_storage_is_zero_at_its_birth_in_every_batch(layout: str) -> None:
    made = plan(layout)
    s = made.allocation.storages
    with apply_plan(made) as execution:
        for _ in range(3):
            execution.begin()
            for step in range(len(made.allocation.steps)):
                execution.step(step)
                for k in np.flatnonzero((s.birth == step) & (s.arena == 2)).tolist():
                    assert not execution.memory.bytes(2, int(s.offset[k]), int(s.bytes[k])).any(), (layout, step, k)
                dirtied(execution, step)
            commit_execution(execution)


def test_the_second_batch_of_a_single_step_finds_zeros() -> None:
    """Nothing dies before the end of the first batch, but it has used everything."""
    with apply_plan(plan_memory(text_model("node relu Relu x -> y")).plan) as execution:
        for _ in range(2):
            execution.begin()
            assert not execution.memory.arenas[2].content.any()
            execution.step(0)
            dirtied(execution, 0)
            commit_execution(execution)


def test_a_step_that_runs_again_finds_zeros_again() -> None:
    """The body of a loop: its first iteration has used what the second one bears."""
    looped = text_model(
        "begin loop1 Loop x -> y", "arm body i -> o loop", "  node relu Relu i -> a", "  node relu2 Relu a -> o",
        "end loop1",
    )  # fmt: skip
    made = plan_memory(looped).plan
    s = made.allocation.storages
    with apply_plan(made) as execution:
        execution.begin()
        execution.step(0)
        for _ in range(2):
            for step in (1, 2):
                execution.step(step)
                for k in np.flatnonzero(s.birth == step).tolist():
                    assert not execution.memory.bytes(2, int(s.offset[k]), int(s.bytes[k])).any()
                dirtied(execution, step)


def test_a_persistent_arena_that_is_mapped_is_zero_and_keeps_what_is_written() -> None:
    made = plan()
    with apply_plan(made) as execution:
        weights = execution.memory.tensor(row(made, "w"))
        assert not weights.any()
        weights[:] = 4
        for _ in range(2):
            execution.begin()
            execution.step(0)
            commit_execution(execution)
        assert (weights == 4).all()


# Batches and steps.


def test_batches_and_steps_come_in_their_order() -> None:
    with apply_plan(plan()) as execution:
        with refused("CONTRACT_VIOLATION", "outside of a batch"):
            execution.step(0)
        assert execution.begin() == 1
        with refused("CONTRACT_VIOLATION", "while another is open"):
            execution.begin()
        for step in (-1, 4):
            with refused("CONTRACT_VIOLATION", "the plan has 4 steps"):
                execution.step(step)


def test_an_empty_plan_runs() -> None:
    made = plan_memory(text_model(inputs="", outputs="")).plan
    with apply_plan(made, memory_bytes_budget=0) as execution:
        execution.begin()
        assert commit_execution(execution).batches == 2
        with refused("CONTRACT_VIOLATION"):
            execution.begin()
            execution.step(0)


def test_a_step_is_given_the_scratch_that_it_declares_and_no_other() -> None:
    made = plan()
    with apply_plan(made) as execution:
        assert [[len(view) for view in execution.scratch(step)] for step in range(4)] == [[], [32], [], []]
        [view] = execution.scratch(1)
        arena = execution.memory.arenas[2]
        at = view.__array_interface__["data"][0]
        assert arena.base <= at <= arena.base + arena.extent.size - 32


# Handles.


def test_a_handle_holds_what_the_documents_say() -> None:
    made = plan_memory(text_model("node relu Relu x -> a", "node relu2 Relu a -> b", "node relu3 Relu b -> y")).plan
    handles = TensorMap(made)
    assert handles["b"] == Handle(("activations", 128), "activations", 1, 64, Lifetime(1, 2), 128, 1)
    assert handles["x"] == Handle(("activations", 128), "activations", 1, 64, Lifetime(0, 0), 128, 0)
    assert list(handles) == ["a", "b", "x", "y"]
    assert (len(handles), "z" in handles) == (4, False)


def test_handles_are_in_the_order_of_the_names_utf_8_bytes() -> None:
    lines = ("node r Relu x -> \U0001f600", "node s Relu \U0001f600 -> \uffee", "node t Relu \uffee -> y")
    made = plan_memory(text_model(*lines)).plan
    assert list(TensorMap(made)) == ["x", "y", "\uffee", "\U0001f600"]


def test_generations_count_the_tenants_of_a_slot() -> None:
    made = plan_memory(
        text_model(
            "node relu Relu x -> a", "node relu2 Relu a -> b", "node relu3 Relu b -> c", "node relu4 Relu c -> y"
        )
    ).plan
    found = dict(
        zip(made.allocation.tensors.name, generations(made)[made.allocation.tensors.storage].tolist(), strict=True)
    )
    slot = dict(
        zip(
            made.allocation.tensors.name,
            made.slots.of[made.allocation.tensors.storage].tolist(),
            strict=True,
        )
    )
    for name, generation in found.items():
        birth = made.allocation.tensors.birth[row(made, name)]
        earlier = [n for n in found if slot[n] == slot[name] and made.allocation.tensors.birth[row(made, n)] < birth]
        assert generation == len(earlier)
    assert max(found.values()) == 2
    assert generations(plan_memory(text_model(inputs="", outputs="")).plan).tolist() == []


def test_slots_are_numbered_within_their_arena() -> None:
    arenas = (ArenaConfiguration("one", (Role.INPUT,)), ArenaConfiguration("rest", tuple(set(Role) - {Role.INPUT})))
    made = plan_memory(text_model("node relu Relu x -> a", "node relu2 Relu a -> y"), arenas).plan
    assert {name: handle.logical_slot for name, handle in TensorMap(made).items()} == {"x": 0, "a": 0, "y": 1}


# PrepareMemory.


def test_prepare_is_plan_and_apply() -> None:
    prepared = prepare_memory_v2(model(), options=PlanOptions(replay_token=bytes(32)))
    planned = plan_memory(model(), options=PlanOptions(replay_token=bytes(32)))
    assert prepared.planned.plan == planned.plan
    assert dict(prepared.tensor_map) == dict(TensorMap(planned.plan))
    assert prepared.metrics == metrics.of_plan(planned.plan)
    assert (prepared.status, prepared.allocation_time_ns > prepared.execution.allocation_time_ns > 0) == (
        "success",
        True,
    )
    assert not any(arena.content.any() for arena in prepared.execution.memory.arenas)
    assert commit_execution(prepared.execution) == prepared.execution.state
    with refused("CONTRACT_VIOLATION", "budget"):
        prepare_memory_v2(model(), memory_bytes_budget=1)
    with refused("MODE_VIOLATION"):
        prepare_memory_v2(model(), execution_mode="fast")


# The ledger.


def test_the_ledger_has_a_record_for_each_step_and_is_the_same_in_every_run() -> None:
    made = plan("slots")

    def run() -> list[dict[str, Any]]:
        ledger = Ledger()
        with apply_plan(made, records=RunRecords(ledger=ledger)) as execution:
            execution.begin()
            for step in range(len(made.allocation.steps)):
                execution.step(step)
            commit_execution(execution)
        return ledger.records

    records = run()
    assert records == run()
    assert [record["step"] for record in records] == [None, 0, 1, 2, 3]
    assert [record["t"] for record in records] == [0, 1, 1, 1, 1]
    assert {record["bytes_allocated"] for record in records} == {8192}
    # x and w and a, then a, b and 32 bytes of scratch beside w, and so on: 192, 224, 192, 192 bytes.
    assert [record["peak_bytes"] for record in records] == [0, 192, 224, 224, 224]
    assert records[-1]["internal_fragmentation_ratio"] == metrics.fragmentation(made)


def test_the_ledgers_fragmentation_is_that_of_the_steps_so_far() -> None:
    made = plan_memory(
        text_model("node relu Relu x -> a", "node relu2 Relu a -> y", sizes={"x": 100, "y": 60}),
        options=PlanOptions(layout="slots"),
    ).plan
    # Slot 0 (100 bytes) holds x and then y (60 bytes), slot 1 holds a (64): of 2 x 164 bytes 40 are not used.
    first, second = of_steps(made, 0)
    assert first["internal_fragmentation_ratio"] == [0, 1]
    assert second["internal_fragmentation_ratio"] == [5, 41]
