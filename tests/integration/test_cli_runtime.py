"""`tmmu apply`, `checkpoint`, `restore`, `trace show` and `trace diff`, as a user types them.

spec: U7.1 to U7.7, U5.15, U5.16, C2.6
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.full_trace import change, full
from tests.support.text_models import text_model
from tmmu.cli.entry import run
from tmmu.core import records as sequence
from tmmu.core.vocabulary import ArenaConfiguration, Role
from tmmu.examples.broken.editing import changed
from tmmu.planner import DEFAULT, PlanOptions, plan_memory
from tmmu.plans import file
from tmmu.plans.sections import Plan
from tmmu.runtime.apply import apply_plan
from tmmu.runtime.recording import RunRecords
from tmmu.runtime.records import compare
from tmmu.runtime.records import trace as traces
from tmmu.runtime.records.trace import Trace

ROOT = Path(__file__).resolve().parents[2]


def plan(arenas: tuple[ArenaConfiguration, ...] = DEFAULT, **more: Any) -> Plan:
    return plan_memory(
        text_model("node add Add x w -> a", "node relu Relu a -> b", "node relu2 Relu b -> y", parameters="w"),
        arenas,
        PlanOptions(**more),
    ).plan


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file.save(plan(), tmp_path / "p.cbor")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """What a command prints, on the stream that its exit code says."""
    assert run(list(arguments)) == code
    out, err = capsys.readouterr()
    if code in (2, 4):
        assert (out, err.count("\n")) == ("", 1), err
        return err
    assert err == ""
    return re.sub(r"\d+\.\d+ s\b", "TIME s", out)


# apply


def test_apply_says_what_was_mapped_and_sealed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "apply", "p.cbor")
    hashes = file.compute_hashes(plan())
    assert f"  plan {hashes['plan_hash'].hex()}\n" in text
    with apply_plan(plan()) as execution:
        assert f"  1 batch, state {execution.state.state_hash.hex()}\n" in text
    assert text == said(capsys, "apply", "p.cbor")
    document = json.loads(said(capsys, "apply", "p.cbor", "--format", "json", "--mode", "regulated"))
    assert (document["bytes_allocated"], document["execution_mode"]) == (8192, "regulated")
    assert (document["status"], document["allocation_time_ns"] > 0, "  success, applied in TIME s\n" in text) == (
        "success",
        True,
        True,
    )
    assert [arena["bytes"] for arena in document["arenas"]] == [64, 0, 192, 0]


def test_apply_writes_what_it_is_asked_to_record(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ("--trace", "t", "--ledger", "l", "--journal", "j")
    said(capsys, "apply", "p.cbor", "--contents", *flags)
    records = traces.load("t")
    assert [record["kind"] for record in records[-3:]] == ["summary", "commit", "end"]
    assert records[-2]["arenas"][0]["content"] is not None
    assert [record["step"] for record in sequence.read("l")] == [None, 0, 1, 2]
    assert len(sequence.read("j")) == 2
    assert "2 batches" in said(capsys, "apply", "p.cbor", "--journal", "j")


def test_a_debug_fill_is_seen_in_the_state_and_refused_in_regulated_mode(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    states = [said(capsys, "apply", "p.cbor", "--contents", *fill) for fill in ((), ("--debug-fill", "1"))]
    assert states[0] != states[1]
    assert "filled with a pattern" in states[1]
    assert states[1] == said(capsys, "apply", "p.cbor", "--contents", "--debug-fill", "1")
    assert "[MODE_VIOLATION]" in said(capsys, "apply", "p.cbor", "--debug-fill", "1", "--mode", "regulated", code=4)


def test_over_budget_the_failure_is_recorded_and_nothing_is_sealed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--trace", "t", "--ledger", "l", "--journal", "j", "--errors", "e")
    said(capsys, "apply", "p.cbor", "--budget", "4KiB", *flags, code=4)
    assert not (folder / "j").exists()
    assert [record["kind"] for record in traces.load("t")] == ["allocation_header", "error", "end"]
    assert [record["allocation_failures"] for record in sequence.read("l")] == [1]
    [record] = sequence.read("e")
    assert (record["code_id"], record["numeric_code"]) == ("CONTRACT_VIOLATION", 1801)
    assert record["failure_operator"] == "UML_OS.TMMU.ApplyPlan_v1"
    assert record["replay_token"] == plan().origin.replay_token
    assert record["diagnostics"]["memory_bytes_budget"] == 4096
    said(capsys, "apply", "p.cbor", "--budget", "8KiB", *flags)


def test_a_false_hash_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = changed(plan(), "storages", "b", offset=0)
    (folder / "w.cbor").write_bytes(file.encode(wrong, file.compute_hashes(plan())))
    assert said(capsys, "apply", "w.cbor", "--errors", "e", code=4).startswith("error: w.cbor: plan_hash: ")
    assert sequence.read("e")[0]["numeric_code"] == 1901
    for command in (("checkpoint", "w.cbor", "-o", "c"), ("apply", "w.cbor")):
        assert "REPLAY_DIVERGENCE" in said(capsys, *command, code=4)
    assert not (folder / "c").exists()


def test_what_cannot_be_applied_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "no").write_bytes(b"no plan")
    assert "INVALID_PLAN" in said(capsys, "apply", "no", "--errors", "e", code=4)
    assert sequence.read("e")[0]["replay_token"] == bytes(32)
    huge = plan_memory(text_model("node relu Relu x -> y", sizes={"x": 1 << 50, "y": 1 << 50}))
    file.save(huge.plan, "huge.cbor")
    assert "TMMU_ALLOCATION_FAILURE" in said(capsys, "apply", "huge.cbor", code=4)
    beyond = changed(plan(), "storages", "b", offset=1 << 40)
    file.save(beyond, "beyond.cbor")
    assert "INVALID_ADDRESS" in said(capsys, "apply", "beyond.cbor", code=4)


def test_an_arena_without_reuse_is_named_persistent(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arenas = (ArenaConfiguration("odd\nname", tuple(Role), reuse=False),)
    file.save(plan(arenas=arenas), "odd.cbor")
    [line] = [line for line in said(capsys, "apply", "odd.cbor").splitlines() if line.startswith("  odd\\nname: ")]
    assert line.endswith(" persistent")


# checkpoint and restore


def test_a_checkpoint_goes_on_from_the_journal_and_gives_the_plan_back(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said(capsys, "apply", "p.cbor", "--journal", "j")
    text = said(capsys, "checkpoint", "p.cbor", "-o", "c", "--journal", "j")
    assert text.startswith("wrote c\n")
    assert ", 1 batch, state " in text
    text = said(capsys, "restore", "c", "--against", "p.cbor", "-o", "back.cbor", "--journal", "j", "--trace", "t")
    assert "2 batches" in text
    assert text.endswith("wrote back.cbor\n")
    assert (folder / "back.cbor").read_bytes() == (folder / "p.cbor").read_bytes()
    assert traces.load("t")[-2]["t"] == 1
    assert "0 batches" in said(capsys, "checkpoint", "p.cbor", "-o", "c")


def test_a_checkpoint_of_another_plan_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "checkpoint", "p.cbor", "-o", "c")
    file.save(plan(replay_token=bytes(32)), "other.cbor")
    said(capsys, "restore", "c", "--against", "other.cbor", "--errors", "e", "-o", "back.cbor", code=4)
    assert sequence.read("e")[0]["code_id"] == "REPLAY_DIVERGENCE"
    assert not (folder / "back.cbor").exists()


def test_what_is_no_checkpoint_or_journal_is_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "INVALID_RECORD" in said(capsys, "restore", "p.cbor", code=4)
    said(capsys, "checkpoint", "p.cbor", "-o", "good")
    said(capsys, "checkpoint", "p.cbor", "-o", "c")
    data = (folder / "c").read_bytes()
    (folder / "c").write_bytes(data[:-3] + b"abc")
    assert "[INVALID_RECORD]" in said(capsys, "restore", "c", code=4)
    assert "[INVALID_RECORD]" in said(capsys, "checkpoint", "p.cbor", "-o", "d", "--journal", "good", code=4)
    assert "[CONTRACT_VIOLATION]" in said(capsys, "restore", "good", "--budget", "1", code=4)


# trace show


def test_show_prints_a_line_for_each_record(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sequence.write(full(), "t")
    lines = said(capsys, "trace", "show", "t").splitlines()
    assert [line.split()[0] for line in lines] == [record["kind"] for record in full()]
    assert "failure_code=ARENA_TOO_SMALL" in lines[-2]
    records = [json.loads(line) for line in said(capsys, "trace", "show", "t", "--format", "json").splitlines()]
    assert records[-1]["trace_final_hash"] == full()[-1]["trace_final_hash"].hex()
    assert records[2]["logical_address"] == ["activations", 128]


def test_show_prints_nothing_of_a_trace_that_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = full()
    sequence.write([*records[:3], *records[4:]], "t")
    assert "t: record" in said(capsys, "trace", "show", "t", code=4)


def test_a_name_cannot_pass_for_a_line_of_output(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = Trace()
    trace.allocated(plan_memory(text_model("node relu Relu x -> a", "node relu2 Relu a -> y")).plan)
    trace.append_replan(change(1, "a shape\ncomparable, and the same"))
    trace.save("t")
    assert len(said(capsys, "trace", "show", "t").splitlines()) == len(trace.records) + 1


# trace diff


def written(name: str, made: Plan, *states: int) -> str:
    trace = Trace()
    with apply_plan(made, records=RunRecords(trace=trace)):
        pass
    for t in states:
        trace.append_replan(change(t))
    trace.save(name)
    return name


def test_the_first_difference_is_named_with_its_key_and_both_values(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written("a", plan(), 1, 2)
    written("b", plan(), 1, 3)
    assert "record 9, replan 2: t: 2 and 3\n" in said(capsys, "trace", "diff", "a", "b", code=1)
    written("b", plan(), 1)
    assert "record 9, replan 2: kind: replan and end\n" in said(capsys, "trace", "diff", "a", "b", code=1)
    layouts = plan(layout="hashed", address_token=bytes(64))
    written("b", layouts)
    text = said(capsys, "trace", "diff", "a", "b", code=1)
    assert ("record 0, allocation_header: layout: slots and hashed\n" in text, " 'a'\n" in text) == (True, True)


def test_a_tensor_that_lies_elsewhere_is_named() -> None:
    first, second = full(), full()
    second[2] = second[2] | {"logical_address": ["activations", 256]}
    found = compare.first_difference(first, second)
    assert found == compare.TraceDifference(
        2, "tensor 'b'", "logical_address", ["activations", 128], ["activations", 256]
    )
    assert compare.first_difference(first, full()) is None
    assert compare.first_difference(first, first[:-1]) == compare.TraceDifference(
        len(first) - 1, "end", "kind", "end", None
    )
    assert compare.first_difference(first[:-1], first) == compare.TraceDifference(
        len(first) - 1, "end", "kind", None, "end"
    )


INCOMPARABLE: list[tuple[str, Plan, str]] = [
    ("another token", plan(replay_token=bytes(32)), "replay_token_digest"),
    ("another arena configuration", plan(arenas=(ArenaConfiguration("all", tuple(Role)),)), "arena_config_hash"),
    ("another model", plan_memory(text_model("node relu Relu x -> a", "node relu2 Relu a -> y")).plan, "ir_hash"),
]


@pytest.mark.parametrize(("other", "key"), [row[1:] for row in INCOMPARABLE], ids=[row[0] for row in INCOMPARABLE])
def test_runs_of_another_context_are_not_comparable(
    other: Plan, key: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written("a", plan())
    written("b", other)
    text = said(capsys, "trace", "diff", "a", "b", code=3)
    assert text.startswith("not comparable: ")
    assert f"  {key}: " in text
    assert text == said(capsys, "trace", "diff", "a", "b", code=3)


@pytest.mark.parametrize("key", compare.CONTEXT)
def test_each_part_of_the_context_decides_on_its_own(key: str) -> None:
    first, second = full(), full()
    second[0] = second[0] | {key: bytes(32) if isinstance(second[0][key], bytes) else "other"}
    assert [found.key for found in compare.incomparable(first, second)] == [key]
    assert compare.incomparable(first, full()) == []
    second = full()
    second[0] = second[0] | {"tmmu_plan_hash": bytes(32), "layout": "slots", "mode": "forward"}
    assert compare.incomparable(first, second) == []


def test_the_commands_work_in_a_process_of_their_own(folder: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tmmu.cli.entry"]
    for name in "ab":
        done = subprocess.run(
            [*command, "apply", "p.cbor", "--trace", name], capture_output=True, check=False, env=environment
        )
        assert done.returncode == 0
    done = subprocess.run([*command, "trace", "diff", "a", "b"], capture_output=True, check=False, env=environment)
    assert (done.returncode, done.stdout[:24]) == (0, b"comparable, and the same")
