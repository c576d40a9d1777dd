"""Runs that are recorded: batches of the runtime, sealed and traced; the same run leaves the same trace.

spec: SIM8.1 to SIM8.9, U4.11, U6.9
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.commands import ran
from tests.support.full_trace import untimed
from tests.support.text_models import text_model
from tmmu import examples
from tmmu.core import records as sequence
from tmmu.core.vocabulary import ArenaConfiguration, Role
from tmmu.examples.broken.editing import changed
from tmmu.planner import DEFAULT, PlanOptions, plan_memory
from tmmu.plans import file
from tmmu.plans.sections import Plan
from tmmu.runtime import checkpoint, journal
from tmmu.runtime.apply import apply_plan
from tmmu.runtime.memory import MappedMemory
from tmmu.runtime.recording import RunRecords
from tmmu.runtime.records import trace as traces
from tmmu.runtime.records.trace import Trace
from tmmu.simulator import Batches, HashKernels, PlanProgram
from tmmu.simulator.memories import PATTERN, Raw

Captured = pytest.CaptureFixture[str]
ROOT = Path(__file__).resolve().parents[2]
CHAIN = ("node matmul Matmul x w -> a", "node matmul2 Matmul a -> b", "node matmul3 Matmul b -> y")


def chain(arenas: tuple[ArenaConfiguration, ...] = DEFAULT, **options: Any) -> Plan:
    return plan_memory(text_model(*CHAIN, parameters="w"), arenas, PlanOptions(**options)).plan


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    examples.write("mico-mlp", "m.onnx")
    file.save(chain(), "p.plan.cbor")
    return tmp_path


def traced(capsys: Captured, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
    """The trace of a run."""
    assert ran(capsys, "run", *arguments, "--random-weights", "--trace", "t")[0] == code
    return traces.load("t")


def compared(capsys: Captured, first: tuple[str, ...], second: tuple[str, ...]) -> tuple[int, str]:
    """How two runs' traces compare."""
    assert ran(capsys, "run", *first, "--random-weights", "--trace", "one")[0] == 0
    assert ran(capsys, "run", *second, "--random-weights", "--trace", "two")[0] == 0
    code, out, _ = ran(capsys, "trace", "diff", "one", "two")
    return code, out


# What kernels find.


class Peeking(HashKernels):
    """Kernels that look at the bytes of their results in the arenas before they write them, and keep what they saw."""

    def __init__(self, program: PlanProgram, memory: MappedMemory, seed: int = 0) -> None:
        super().__init__(program, seed)
        self.memory, self.seen = memory, [bytearray() for _ in program.steps]
        self.calls = 0

    def compute(self, n: int, operands: Sequence[Raw]) -> list[Raw]:
        self.calls += 1
        if self.calls % 2 == 0:  # each step is computed in private memory first, where there is nothing to see
            for t in self.program.steps[n].results:
                self.seen[n] += self.memory.tensor(t).tobytes()
        return super().compute(n, operands)


def seen(batches: Batches, number: int) -> set[int]:
    """The bytes that the kernels of a batch found where they were to write, in the arenas."""
    kernels = Peeking(batches.program, batches.memory, number)
    assert batches.run(kernels).identical
    return set(b"".join(kernels.seen))


@pytest.mark.parametrize("layout", ["packed", "slots", "hashed"])
def test_a_kernel_that_reads_its_uninitialised_result_finds_zeros_in_every_batch(layout: str) -> None:
    """Also where another tensor has had the bytes, in this batch or the one before. spec: SIM8.1, SIM8.2"""
    plan = chain(layout=layout, address_token=bytes(64) if layout == "hashed" else None)
    assert len(plan.allocation.storages) > len(plan.slots)
    for recorded in (False, True):
        with apply_plan(plan) if recorded else MappedMemory.map(plan) as where:
            batches = Batches(PlanProgram(plan), where)
            assert [seen(batches, number) for number in range(3)] == [{0}] * 3


def test_without_zeroing_it_would_find_what_was_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above can fail. spec: SIM8.1"""
    monkeypatch.setattr("tmmu.runtime.births.zero_tensor", lambda *_: None)
    with MappedMemory.map(chain()) as memory:
        batches = Batches(PlanProgram(chain()), memory)
        seen(batches, 0)
        assert len(seen(batches, 1)) > 1


def test_with_the_sanitizer_it_finds_the_pattern() -> None:
    """spec: SIM8.2"""
    with MappedMemory.map(chain()) as memory:
        batches = Batches(PlanProgram(chain()), memory, sanitize=True)
        assert [seen(batches, number) for number in range(2)] == [{PATTERN}] * 2


def test_a_birth_that_is_stated_too_late_destroys_what_was_written() -> None:
    """spec: SIM8.1"""
    plan = chain(layout="slots")
    names = plan.allocation.tensors.name.list()
    late = changed(plan, "storages", int(plan.allocation.tensors.storage[names.index("b")]), birth=2)
    for sanitize, owner in ((True, "whose bytes hold the zeros of a birth"), (False, "is 0x00, expected")):
        with MappedMemory.map(late) as memory:
            report = Batches(PlanProgram(late), memory, sanitize=sanitize).run(HashKernels(PlanProgram(late)))
        assert report.corruption is not None
        assert owner in report.corruption.text


def test_a_storage_to_be_zeroed_outside_of_its_arena_is_a_witness() -> None:
    """spec: SIM8.1"""
    plan = chain(layout="slots")
    k = int(plan.allocation.tensors.storage[plan.allocation.tensors.name.list().index("y")])
    beyond = changed(plan, "storages", k, bytes=1 << 40)
    with MappedMemory.map(beyond) as memory:
        batches = Batches(PlanProgram(beyond), memory)
        corruption = batches.run(HashKernels(batches.program)).corruption
    assert corruption is not None
    assert "zeroes a storage" in corruption.text


# Batches.


def test_what_the_caller_keeps_in_persistent_arenas_is_written_once() -> None:
    """spec: SIM8.4"""
    given: list[str] = []

    class Counted(HashKernels):
        def given(self, t: int) -> Raw:
            given.append(self.program.names[t])
            return super().given(t)

    program = PlanProgram(chain())
    with MappedMemory.map(program.plan) as memory:
        batches = Batches(program, memory)
        for number in range(2):
            assert batches.run(Counted(program, number)).identical
    assert given == ["x", "w", "x"]


def test_weights_that_something_has_changed_between_two_batches_are_noticed() -> None:
    """spec: SIM8.4"""
    program = PlanProgram(chain())
    with MappedMemory.map(program.plan) as memory:
        batches = Batches(program, memory)
        assert batches.run(HashKernels(program)).identical
        memory.tensor(program.names.index("w"))[5] ^= 1
        corruption = batches.run(HashKernels(program)).corruption
    assert corruption is not None
    assert (corruption.tensors, corruption.step) == (("w",), None)


def test_weights_in_an_arena_that_reuses_are_written_again() -> None:
    """spec: SIM8.3, SIM8.4"""
    plan = chain(arenas=(ArenaConfiguration("all", tuple(Role)),))
    with MappedMemory.map(plan) as memory:
        batches = Batches(PlanProgram(plan), memory, sanitize=True)
        assert all(batches.run(HashKernels(batches.program, number)).identical for number in range(3))


def test_what_a_batch_leaves_is_no_value_of_the_next(folder: Path) -> None:
    """spec: SIM8.3"""
    plan = chain()
    names = plan.allocation.tensors.name.list()
    program = PlanProgram(changed(plan, "steps", 0, reads=names.index("b")))
    with MappedMemory.map(plan) as memory:
        batches = Batches(program, memory)
        batches.count = 1
        batches.private.content[names.index("w")] = memory.tensor(names.index("w")).copy()
        batches.private.content[names.index("b")] = np.zeros(64, np.uint8)
        corruption = batches.run(HashKernels(program)).corruption
    assert corruption is not None
    assert "reads b, which nothing has written" in corruption.text


# Traces.


def test_a_trace_holds_the_values_of_each_batch_and_its_commit(folder: Path, capsys: Captured) -> None:
    """spec: SIM8.3, SIM8.5, SIM8.6, U4.11"""
    records = traced(capsys, "p.plan.cbor", "--batches", "2", "--journal", "j", "--ledger", "l")
    events = [record for record in records if record["kind"] in ("value", "commit", "error")]
    told = [(r["kind"], r["t"], r.get("tensor_id"), r.get("access")) for r in events]
    assert told == [
        ("commit", 0, None, None),
        ("value", 1, "x", "given"), ("value", 1, "w", "given"), ("value", 1, "y", "returned"),
        ("commit", 1, None, None),
        ("value", 2, "x", "given"), ("value", 2, "y", "returned"),
        ("commit", 2, None, None),
    ]  # fmt: skip
    assert (events[0]["values_hash"], len({record["content"] for record in events if "content" in record})) == (None, 5)
    plan_hash = file.compute_hashes(chain())["plan_hash"]
    assert journal.load("j", plan_hash) == journal.JournalState(3, events[-1]["state_hash"])
    assert [record["step"] for record in sequence.read("l")] == [None, 0, 1, 2, 0, 1, 2]


def test_a_value_cannot_be_recorded_outside_of_a_batch() -> None:
    """spec: U4.11"""
    from tests.support.refusals import refused

    with apply_plan(chain()) as execution, refused("CONTRACT_VIOLATION", "outside of a batch"):
        execution.record_value("y", "returned", np.zeros(1, np.uint8))


def test_two_runs_of_the_same_inputs_have_the_same_chain(folder: Path, capsys: Captured) -> None:
    """In this process, and in others with other hash seeds and other addresses. spec: SIM8.8"""
    command = ("m.onnx", "--batches", "2", "--seed", "3")
    code, out = compared(capsys, command, (*command, "--sanitize"))
    assert (code, out.startswith("comparable, and the same: ")) == (0, True)
    chain_ = traces.load("one")[-1]["trace_final_hash"]
    for seed in ("1", "77"):
        environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed}
        arguments = [sys.executable, "-m", "tmmu.cli.entry", "run", *command, "--random-weights", "--trace", "other"]
        subprocess.run(arguments, env=environment, check=True, capture_output=True)
        assert traces.load("other")[-1]["trace_final_hash"] == chain_
    assert untimed(traces.load("other")) == untimed(traces.load("one"))


def test_another_base_address_gives_the_same_chain() -> None:
    """spec: SIM8.8"""
    chains, bases = set(), set()
    plan = chain()
    for shift in (0, 128, 4096):
        whole = np.zeros(plan.usage[2].footprint + (1 << 15), np.uint8)
        buffer = whole[-whole.ctypes.data % (1 << 14) + shift :][: plan.usage[2].footprint]
        trace = Trace()
        with apply_plan(
            plan, records=RunRecords(trace=trace, hash_contents=True), base={"activations": buffer}
        ) as execution:
            batches = Batches(PlanProgram(plan), execution)
            assert batches.run(HashKernels(batches.program)).identical
            bases.add(execution.memory.arena("activations").base % (1 << 14))
        chains.add(trace.end()[-1]["trace_final_hash"])
    assert (len(chains), len(bases)) == (1, 3)


def test_whatever_else_is_run_has_another_chain_and_the_difference_is_named(folder: Path, capsys: Captured) -> None:
    """Another seed, input, weight or number of batches. spec: SIM8.8, U5.16"""
    np.savez("x.npz", x=np.zeros((1, 256), np.float32))
    one = ("m.onnx",)
    code, out = compared(capsys, one, ("m.onnx", "--inputs", "x.npz"))
    assert (code, "value 'x': content: " in out, "'x'" in out.splitlines()[-1]) == (1, True, True)
    code, out = compared(capsys, one, ("m.onnx", "--seed", "1"))
    assert (code, "different values of 'x'" in out) == (1, True)
    code, out = compared(capsys, one, ("m.onnx", "--batches", "2"))
    assert (code, "one of the runs continues" in out) == (1, True)
    code, out = compared(capsys, one, ("m.onnx", "--contents"))
    assert (code, ": arenas: " in out) == (1, True)
    for layout in ("slots", "packed"):
        ran(capsys, "plan", "m.onnx", "-o", f"{layout}.plan.cbor", "--layout", layout)
    plans = [("m.onnx", "--plan", f"{layout}.plan.cbor") for layout in ("slots", "packed")]
    code, out = compared(capsys, *plans)
    assert (code, "made with different layouts" in out) == (1, True)
    assert compared(capsys, one, ("p.plan.cbor",))[0] == 3


def test_one_byte_that_a_kernel_computes_otherwise_gives_another_chain(folder: Path, capsys: Captured) -> None:
    """spec: SIM8.6, U4.11"""

    class Flipped(HashKernels):
        def compute(self, n: int, operands: Sequence[Raw]) -> list[Raw]:
            made = super().compute(n, operands)
            if n == 2:
                made[0] = made[0] ^ np.eye(1, len(made[0]), 7, np.uint8)[0]
            return made

    states = []
    for name, kernels in (("one", HashKernels), ("two", Flipped)):
        trace = Trace()
        with apply_plan(chain(), records=RunRecords(trace=trace)) as execution:
            batches = Batches(PlanProgram(chain()), execution)
            assert batches.run(kernels(batches.program)).identical
            states.append(execution.state.state_hash)
        trace.save(name)
    assert states[0] != states[1]
    code, out, _ = ran(capsys, "trace", "diff", "one", "two")
    assert (code, out.splitlines()[-1].endswith(" a different 'y'")) == (1, True)


# Failures.


def test_a_corruption_is_recorded_and_its_batch_not_sealed(folder: Path, capsys: Captured) -> None:
    """spec: SIM8.7"""
    examples.write("broken/in-place-read-later", "w.cbor")
    records = traced(capsys, "w.cbor", "--errors", "e", "--journal", "j", "--checkpoint", "c", code=1)
    assert [record["kind"] for record in records[-3:]] == ["commit", "error", "end"]
    assert (records[-3]["t"], records[-2]["t"], records[-2]["failure_code"]) == (0, 1, "CONTRACT_VIOLATION")
    assert len(sequence.read("j")) == 2
    assert not (folder / "c").exists()
    [record] = sequence.read("e")
    assert (record["diagnostics"]["step"], record["diagnostics"]["tensors"]) == (2, "a")


def test_a_plan_that_cannot_be_applied_is_run_for_its_witness_alone(folder: Path, capsys: Captured) -> None:
    """spec: SIM8.9"""
    tensors = chain().allocation.tensors
    beyond = changed(chain(), "storages", int(tensors.storage[tensors.name.list().index("b")]), offset=1 << 40)
    file.save(beyond, "b.cbor")
    records = traced(capsys, "b.cbor", "--ledger", "l", code=1)
    assert [record["kind"] for record in records] == ["allocation_header", "error", "end"]
    assert records[1]["failure_code"] == "INVALID_ADDRESS"
    assert sequence.read("l")[0]["allocation_failures"] == 1
    outlives = changed(chain(), "storages", int(chain().allocation.tensors.storage[0]), death=99)
    file.save(outlives, "o.cbor")
    assert ran(capsys, "run", "o.cbor")[0] == 0
    code, out, err = ran(capsys, "run", "o.cbor", "--trace", "t")
    assert (code, out) == (4, "")
    assert "[CONTRACT_VIOLATION]" in err


def test_a_kernel_that_refuses_is_recorded(folder: Path, capsys: Captured) -> None:
    """spec: SIM8.7"""
    from onnx import TensorProto, helper

    node = helper.make_node("Gather", ["w", "i"], ["y"], name="pick")
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("w", TensorProto.FLOAT, [2, 3]),
                      helper.make_tensor_value_info("i", TensorProto.INT64, [1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    (folder / "g.onnx").write_bytes(model.SerializeToString())
    np.savez("i.npz", i=np.array([9]))
    assert ran(capsys, "run", "g.onnx", "--inputs", "i.npz", "--trace", "t", "--errors", "e")[0] == 4
    assert [record["kind"] for record in traces.load("t")[-2:]] == ["error", "end"]
    assert sequence.read("e")[0]["message"].startswith("Contract violation")


# Checkpoints.


def test_a_checkpoint_of_a_run_gives_the_arenas_back_at_another_address(folder: Path, capsys: Captured) -> None:
    """spec: U6.6, U6.9"""
    first = traced(capsys, "m.onnx", "--batches", "2", "--contents", "--checkpoint", "c")
    found = checkpoint.load("c")
    assert found.memory is not None
    assert found.state.state_hash == [record for record in first if record["kind"] == "commit"][-1]["state_hash"]
    contents = [each["content"] for each in [r for r in first if r["kind"] == "commit"][-1]["arenas"]]
    bases = set()
    for shift in (128, 640):
        buffers, kept = {}, []
        for arena, data in zip(found.plan.allocation.arenas, found.memory, strict=True):
            whole = np.zeros(len(data) + 4096, np.uint8)
            kept.append(whole)
            buffers[arena.name] = whole[-whole.ctypes.data % 1024 + shift :][: len(data)]
        with checkpoint.restore("c", base=buffers) as restored:
            for each, data in zip(restored.memory.arenas, found.memory, strict=True):
                assert each.content.tobytes() == data
                if data:
                    bases.add(each.base % 1024)
            row = restored.tensor_map.row("output")
            assert restored.memory.tensor(row).tobytes() == restored.view_published("output").tobytes()
    assert bases == {128, 640}
    code, out, _ = ran(capsys, "restore", "c", "--contents", "--trace", "r")
    assert (code, "restored" in out) == (0, True)
    again = [record for record in traces.load("r") if record["kind"] == "commit"][-1]
    assert [each["content"] for each in again["arenas"]] == contents


def test_bytes_of_arenas_are_not_written_in_confidential_and_regulated_mode(folder: Path, capsys: Captured) -> None:
    """spec: U6.9, U3.3"""
    for mode in ("confidential", "regulated"):
        code, out, err = ran(capsys, "run", "p.plan.cbor", "--mode", mode, "--checkpoint", "c")
        assert (code, out, (folder / "c").exists()) == (4, "", False)
        assert err.endswith("[MODE_VIOLATION]\n")
        assert "[MODE_VIOLATION]" in ran(capsys, "run", "p.plan.cbor", "--mode", mode, "--sanitize")[2]
        assert ran(capsys, "run", "p.plan.cbor", "--mode", mode, "--trace", "t")[0] == 0
    for mode in ("local", "managed"):
        assert ran(capsys, "run", "p.plan.cbor", "--mode", mode, "--checkpoint", "c", "--sanitize")[0] == 0
