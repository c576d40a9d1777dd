"""Checkpoints: whole, believed in nothing, and restored anywhere. Killed writers are in `test_runtime_crashes`.

spec: U6.1 to U6.8
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cbor2
import numpy as np
import pytest
from click.testing import CliRunner

from tests.support.refusals import refused
from tests.support.text_models import text_model
from tmmu.cli.restore import restore
from tmmu.core import canonical
from tmmu.core.columns import Names
from tmmu.examples.broken.editing import changed
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans import file
from tmmu.plans.sections import Plan, amend_plan
from tmmu.runtime import checkpoint
from tmmu.runtime import journal as journals
from tmmu.runtime.apply import apply_plan
from tmmu.runtime.commit import commit_execution
from tmmu.runtime.execution import Execution
from tmmu.runtime.handles import TensorMap
from tmmu.runtime.journal import JournalState, genesis
from tmmu.runtime.recording import RunRecords
from tmmu.runtime.records import metrics

LAYOUTS = ("packed", "slots", "pools", "hashed")


def plan(layout: str = "packed", token: bytes | None = None) -> Plan:
    model = text_model(
        "node add Add x w -> a", "node relu Relu a -> b", "node relu2 Relu b -> y", parameters="w", sizes={"a": 100}
    )
    address_token = bytes(64) if layout == "hashed" else None
    return plan_memory(model, options=PlanOptions(layout=layout, replay_token=token, address_token=address_token)).plan


def worked(made: Plan, **recorded: Any) -> Execution:
    """Return an execution with a batch behind it, and something in every byte."""
    execution = apply_plan(made, records=RunRecords(**recorded))
    execution.begin()
    generator = np.random.default_rng(7)
    for arena in execution.memory.arenas:
        arena.content[:] = generator.integers(0, 256, len(arena.content), np.uint8)
    commit_execution(execution)
    return execution


def contents(execution: Execution) -> list[bytes]:
    return [arena.content.tobytes() for arena in execution.memory.arenas]


def aligned(size: int) -> Any:
    whole = np.full(size + 256, 0xEE, np.uint8)
    return whole[-whole.__array_interface__["data"][0] % 128 :][:size]


def test_a_checkpoint_holds_slots_live_ranges_metrics_and_the_sealed_state(tmp_path: Path) -> None:
    made = plan()
    with worked(made) as execution:
        checkpoint.save(execution, tmp_path / "c")
        state = execution.state
    value = cbor2.loads((tmp_path / "c").read_bytes())
    assert set(value) == set(checkpoint.KEYS)
    assert (value["batches"], value["state_hash"]) == (state.batches, state.state_hash) == (2, state.state_hash)
    assert value["plan"] == file.encode(made)
    assert value["metrics"] == metrics.of_plan(made)
    names = value["tensors"]["tensor_id"].decode().split("\0")
    assert names == ["a", "b", "w", "x", "y"]
    columns = {
        key: np.frombuffer(tag.value, "<u4").tolist() for key, tag in value["tensors"].items() if key != "tensor_id"
    }
    for k, (name, handle) in enumerate(TensorMap(made).items()):
        assert name == names[k]
        assert made.allocation.arenas[columns["arena"][k]].name == handle.arena
        assert (columns["birth"][k], columns["death"][k]) == handle.lifetime
        assert (columns["logical_slot"][k], columns["generation"][k]) == (handle.logical_slot, handle.generation)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_checkpoint_is_restored_at_another_base_with_the_same_bytes(layout: str, tmp_path: Path) -> None:
    made = plan(layout)
    with worked(made) as execution:
        checkpoint.save(execution, tmp_path / "c")
        before, bases = contents(execution), [arena.base for arena in execution.memory.arenas]
        base = {arena.arena.name: aligned(arena.extent.size) for arena in execution.memory.arenas if arena.extent.size}
        for at in (None, base):
            with checkpoint.restore(tmp_path / "c", base=at) as restored:
                assert contents(restored) == before
                assert not {arena.base for arena in restored.memory.arenas if arena.base} & set(bases)
                assert restored.plan == made
                assert dict(restored.tensor_map) == dict(execution.tensor_map)
                for row in range(len(made.allocation.tensors)):
                    assert restored.memory.tensor(row).tobytes() == execution.memory.tensor(row).tobytes()


def test_a_restored_run_goes_on_from_the_state_and_zeroes_what_is_born(tmp_path: Path) -> None:
    made = plan()
    with worked(made) as execution:
        checkpoint.save(execution, tmp_path / "c")
        state = execution.state
    with checkpoint.restore(tmp_path / "c") as restored:
        assert restored.state.batches == state.batches + 1
        restored.begin()
        s = made.allocation.storages
        for step in range(len(made.allocation.steps)):
            restored.step(step)
            for k in np.flatnonzero((s.birth == step) & (s.arena == 2)).tolist():
                assert not restored.memory.bytes(2, int(s.offset[k]), int(s.bytes[k])).any()


def test_two_restored_runs_have_one_state(tmp_path: Path) -> None:
    with worked(plan()) as execution:
        checkpoint.save(execution, tmp_path / "c")

    def run() -> Any:
        with checkpoint.restore(tmp_path / "c", records=RunRecords(hash_contents=True)) as restored:
            restored.begin()
            return commit_execution(restored)

    assert run() == run()


def test_without_the_bytes_reused_arenas_are_zero(tmp_path: Path) -> None:
    with worked(plan()) as execution:
        checkpoint.save(execution, tmp_path / "c", memory=False)
    with checkpoint.restore(tmp_path / "c") as restored:
        assert not any(any(content) for content in contents(restored))


def test_a_journal_must_end_with_the_checkpoints_state(tmp_path: Path) -> None:
    with worked(plan(), journal=tmp_path / "j") as execution:
        checkpoint.save(execution, tmp_path / "c")
        old = execution.state
    with checkpoint.restore(tmp_path / "c", records=RunRecords(journal=tmp_path / "j")) as restored:
        assert restored.state.batches == old.batches + 1
    with refused("REPLAY_DIVERGENCE", "not the one to continue from"):
        checkpoint.restore(tmp_path / "c", records=RunRecords(journal=tmp_path / "j"))
    with checkpoint.restore(tmp_path / "c", records=RunRecords(journal=tmp_path / "new")) as restored:
        assert restored.state.batches == old.batches + 1


def test_one_model_and_token_give_the_checkpoints_layout_again(tmp_path: Path) -> None:
    token = bytes(range(32))
    (tmp_path / "c").write_bytes(checkpoint.encode(plan(token=token)))
    found = checkpoint.load(tmp_path / "c", plan(token=token))
    assert found.plan == plan(token=token)
    assert (found.state, found.memory) == (genesis(found.plan_hash), None)
    assert found.plan.allocation.addresses().tolist() == plan(token=token).allocation.addresses().tolist()
    for other in (
        plan(),
        plan("hashed", token),
        plan_memory(text_model("node relu Relu x -> y"), options=PlanOptions(replay_token=token)).plan,
    ):
        with refused("REPLAY_DIVERGENCE", "plan_hash of the current plan", str(tmp_path / "c")):
            checkpoint.restore(tmp_path / "c", current=other)


def test_other_bytes_or_another_state_than_were_sealed_are_refused(tmp_path: Path) -> None:
    """spec: U6.10, U4.9"""
    with worked(plan(), hash_contents=True, journal=tmp_path / "j") as execution:
        checkpoint.save(execution, tmp_path / "c")
    value = canonical.decode((tmp_path / "c").read_bytes())
    assert checkpoint.decode(sealed(value)).is_covered
    k = max(range(len(value["memory"])), key=lambda i: len(value["memory"][i]))
    other = bytearray(value["memory"][k])
    other[5] ^= 255
    memory = [bytes(other) if i == k else content for i, content in enumerate(value["memory"])]
    commit = value["commit"]
    arenas = [
        arena | {"content": hashlib.sha256(content).digest()}
        for arena, content in zip(commit["arenas"], memory, strict=True)
    ]
    for changes, code, place in (
        ({"memory": memory}, "REPLAY_DIVERGENCE", f"memory of arena {commit['arenas'][k]['arena']!r}"),
        ({"state_hash": bytes(32)}, "REPLAY_DIVERGENCE", "state_hash"),
        ({"memory": memory, "commit": commit | {"arenas": arenas}}, "REPLAY_DIVERGENCE", "state_hash"),
        ({"commit": commit | {"t": 7}}, "INVALID_RECORD", "not the commit of the last batch"),
        ({"commit": commit | {"arenas": arenas[1:]}}, "INVALID_RECORD", "not the commit of the last batch"),
        ({"commit": commit | {"tmmu_plan_hash": bytes(32)}}, "INVALID_RECORD", "not the commit of the last batch"),
        ({"commit": {}}, "INVALID_RECORD", "kind"),
        ({"commit": None}, "INVALID_RECORD", "commit"),
    ):
        with refused(code, place):
            checkpoint.decode(sealed(value | changes))
    # Every hash computed again: the file is whole, and the journal shows that it was not sealed so.
    rest = commit | {"arenas": arenas}
    made = rest | {"state_hash": journals.seal_commit(rest)}
    (tmp_path / "c").write_bytes(sealed(value | {"memory": memory, "commit": made, "state_hash": made["state_hash"]}))
    assert checkpoint.load(tmp_path / "c").is_covered
    with refused("REPLAY_DIVERGENCE", "not the one to continue from"):
        checkpoint.restore(tmp_path / "c", records=RunRecords(journal=tmp_path / "j"))


def test_bytes_that_the_state_does_not_cover_are_reported(tmp_path: Path) -> None:
    """spec: U6.11"""
    for covers in (False, True):
        with worked(plan(), hash_contents=covers) as execution:
            checkpoint.save(execution, tmp_path / "c")
        assert checkpoint.load(tmp_path / "c").is_covered is covers
        said = CliRunner().invoke(restore, [str(tmp_path / "c")], standalone_mode=False).stderr
        assert ("does not cover" in said) != covers


def test_a_state_without_its_commit_is_not_kept(tmp_path: Path) -> None:
    """A journal that goes on from a checkpoint and has no commit yet. spec: U6.10"""
    made = plan()
    with worked(made) as execution:
        state = execution.state
    with refused("CONTRACT_VIOLATION", "no commit of the state"):
        checkpoint.encode(made, JournalState(state.batches, state.state_hash))


def test_a_checkpoint_of_another_plan_is_refused(tmp_path: Path) -> None:
    """Also where the plan hash, which leaves operators, types and bodies out, is the same. spec: U6.4"""
    made = plan()
    (tmp_path / "c").write_bytes(checkpoint.encode(made))
    for change in ({"ops": (("", "Add"), ("", "Neg"))}, {"dtypes": ("int32",)}):
        other = amend_plan(made, **change)
        assert other != made
        assert file.plan_identity(other) == file.plan_identity(made)
        with refused("REPLAY_DIVERGENCE", "file_digest of the current plan"):
            checkpoint.load(tmp_path / "c", other)
    assert checkpoint.load(tmp_path / "c", made).plan == made


def test_no_checkpoint_is_made_of_an_open_batch(tmp_path: Path) -> None:
    with apply_plan(plan()) as execution:
        execution.begin()
        with refused("CONTRACT_VIOLATION", "while a batch is open"):
            checkpoint.save(execution, tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_over_budget_nothing_is_restored(tmp_path: Path) -> None:
    with worked(plan()) as execution:
        checkpoint.save(execution, tmp_path / "c")
    with refused("CONTRACT_VIOLATION", "budget"):
        checkpoint.restore(tmp_path / "c", memory_bytes_budget=1)


# What a checkpoint may say that is not true.


def body() -> dict[str, Any]:
    """A checkpoint's keys, as this project's own decoder reads them."""
    with worked(plan()) as execution:
        data = checkpoint.encode(execution.plan, execution.state, execution.memory)
    value: dict[str, Any] = canonical.decode(data)
    return value


def sealed(value: dict[str, Any]) -> bytes:
    """The bytes of a checkpoint whose own digest fits."""
    rest = {key: item for key, item in value.items() if key != "checkpoint_hash"}
    return canonical.encode(rest | {"checkpoint_hash": canonical.digest(rest)})


def put(key: str, item: Any) -> Callable[[dict[str, Any]], None]:
    return lambda value: value.update({key: item})


def column(key: str, at: int) -> Callable[[dict[str, Any]], None]:
    def change(value: dict[str, Any]) -> None:
        entries = value["tensors"][key].copy()
        entries[at] += 1
        value["tensors"] = value["tensors"] | {key: entries}

    return change


def other_plan(value: dict[str, Any]) -> None:
    value["plan"] = file.encode(plan(token=bytes(32)))


def false_plan(value: dict[str, Any]) -> None:
    """The plan with one offset moved, under its old hashes."""
    made = changed(plan(), "storages", "b", offset=0)
    value["plan"] = file.encode(made, file.compute_hashes(plan()))


def false_all(value: dict[str, Any]) -> None:
    """The plan with one death moved and its own hashes, but the live ranges of the old one."""
    made = changed(plan(), "tensors", "x", death=1)
    value["plan"] = file.encode(made)
    value["tmmu_plan_hash"] = file.compute_hashes(made)["plan_hash"]


DIVERGED: list[tuple[str, Any, str]] = [
    ("another plan", other_plan, "tmmu_plan_hash"),
    ("a plan with a false hash", false_plan, "plan_hash"),
    ("another plan hash", put("tmmu_plan_hash", bytes(32)), "tmmu_plan_hash"),
    ("live ranges of another plan", false_all, "tensors"),
    ("another birth", column("birth", 1), "tensors"),
    ("another death", column("death", 0), "tensors"),
    ("another slot", column("logical_slot", 2), "tensors"),
    ("another generation", column("generation", 4), "tensors"),
    ("another name", lambda v: v["tensors"].update(tensor_id=Names.of(list("abcde")).blob), "tensors"),
    ("a column left out", lambda v: v["tensors"].pop("birth"), "tensors"),
    ("other metrics", lambda v: v["metrics"].update(total_logical_slots=1), "metrics"),
]


@pytest.mark.parametrize(("change", "place"), [row[1:] for row in DIVERGED], ids=[row[0] for row in DIVERGED])
def test_what_does_not_follow_from_the_plan_aborts(change: Any, place: str, tmp_path: Path) -> None:
    value = body()
    change(value)
    (tmp_path / "c").write_bytes(sealed(value))
    with refused("REPLAY_DIVERGENCE", f"{tmp_path / 'c'}: {place}: expected "):
        checkpoint.restore(tmp_path / "c")


NO_RECORD: list[tuple[str, Any, str]] = [
    ("another format", put("format", "tmmu-plan"), "not a known format of checkpoints"),
    ("another version", put("spec_version", "3.0"), "not a known format of checkpoints"),
    ("a key too many", put("comment", ""), "its keys"),
    ("a key too few", lambda v: v.pop("metrics"), "its keys"),
    ("a plan that is none", put("plan", b"\xa0"), "plan: the key"),
    ("a plan of text", put("plan", "text"), "plan: the value has a wrong type"),
    ("batches of text", put("batches", "1"), "batches: the value has a wrong type"),
    ("a truth for a number", put("batches", True), "batches: the value has a wrong type"),
    ("fewer than no batches", put("batches", -1), "not a state of this plan"),
    ("a state at the beginning", put("batches", 0), "not a state of this plan"),
    ("a short state hash", put("state_hash", b""), "not a state of this plan"),
    ("memory of an arena too few", lambda v: v["memory"].pop(), "one byte string for each arena"),
    ("memory of numbers", put("memory", [1, 2, 3, 4]), "one byte string for each arena"),
    ("memory of another size", lambda v: v["memory"].__setitem__(2, b"12"), ", got 2"),
]


@pytest.mark.parametrize(("change", "text"), [row[1:] for row in NO_RECORD], ids=[row[0] for row in NO_RECORD])
def test_what_is_no_checkpoint_is_refused(change: Any, text: str, tmp_path: Path) -> None:
    value = body()
    change(value)
    (tmp_path / "c").write_bytes(sealed(value))
    with refused("INVALID_RECORD", text):
        checkpoint.restore(tmp_path / "c")


def test_a_checkpoint_that_is_what_it_should_be_is_restored(tmp_path: Path) -> None:
    (tmp_path / "c").write_bytes(sealed(body()))
    checkpoint.restore(tmp_path / "c").close()


def test_any_changed_byte_is_noticed() -> None:
    data = sealed(body())
    for at in range(0, len(data), 13):
        wrong = data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]
        with refused("INVALID_RECORD"):
            checkpoint.decode(wrong)
    for length in range(0, len(data), 97):
        with refused("INVALID_RECORD"):
            checkpoint.decode(data[:length])


def test_a_file_without_seal_is_damaged() -> None:
    value = body()
    value["checkpoint_hash"] = bytes(32)
    with refused("INVALID_RECORD", "the file is damaged"):
        checkpoint.decode(canonical.encode(value))
