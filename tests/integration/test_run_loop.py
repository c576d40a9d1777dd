"""The loop of `tmmu run`: a safepoint before each batch, where a shape outside the envelope is refused or planned for.

spec: R6.7, R6.8, R6.10, R6.13, SIM6.7 to SIM6.9, U8.4, U8.5, U8.7
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import onnx
import pytest

from proofs.model_check.following import lifecycle, log
from proofs.verify.judge import verify
from proofs.verify.options import Options
from proofs.verify.verdict import PROVED
from tests.support.commands import ran
from tests.support.onnx_files import model_of
from tmmu.cli import run_loop
from tmmu.core.errors import TmmuError
from tmmu.examples.broken.editing import changed
from tmmu.plans import file
from tmmu.runtime import checkpoint
from tmmu.runtime.memory import MappedMemory
from tmmu.runtime.records import trace as traces
from tmmu.simulator import Batches, Corrupted, HashKernels, PlanProgram

Captured = pytest.CaptureFixture[str]
OPEN = """main (float[b, n] x) => (float[b, n] y) <float[1] w = {2}> { a = Tanh (x) c = Mul (a, w) d = Add (a, c)
    y = Relu (d) }"""
RUN = ("run", "m.onnx", "--plan", "p.cbor")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> Path:
    """A folder with a model and its plan for `n` of 4 to 8, which is replanned, and another, which is not."""
    monkeypatch.chdir(tmp_path)
    onnx.save(model_of(OPEN), "m.onnx")
    for name, policy in (("p.cbor", "replan_at_safepoint"), ("strict.cbor", "abort")):
        flags = ("--dim", "b=1", "--dim", "n=4..8", "--replan-policy", policy)
        assert ran(capsys, "plan", "m.onnx", "-o", name, *flags)[0] == 0
    return tmp_path


def answer(capsys: Captured, *arguments: str) -> dict[str, Any]:
    """What an identical run says."""
    code, out, err = ran(capsys, *arguments, "--format", "json")
    assert (code, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    return found


def of(records: list[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    return [record for record in records if record["kind"] in kinds]


def hash_of(path: str) -> bytes:
    return file.plan_identity(file.load(path).plan)


def test_batches_take_their_sizes_in_turn(folder: Path, capsys: Captured) -> None:
    """spec: SIM6.7, SIM8.4"""
    for flags, shapes in (
        ((), [8]),
        (("--batches", "2"), [8, 8]),
        (("--dim", "n=4,8,5"), [4, 8, 5]),
        (("--dim", "n=4,8,5", "--batches", "4"), [4, 8, 5, 4]),
        (("--dim", "n=4,8,5", "--batches", "2", "--dim", "b=1"), [4, 8]),
        (("--dim", "n=4,6", "--dim", "b=1,1,1"), [4, 6, 4]),
    ):
        said = answer(capsys, *RUN, "--sanitize", "--trace", "t", *flags)
        assert ([shape["n"] for shape in said["shapes"]], said["replans"]) == (shapes, [])
        records = traces.load("t")
        assert records[0]["tmmu_plan_hash"] == hash_of("p.cbor"), "the plan in force is that of the file"
        weights = [record["t"] for record in of(records, "value") if record["tensor_id"] == "w"]
        assert weights == [1], "the caller writes it once, whatever the shapes"


def test_stand_ins_run_at_every_shape_too(folder: Path, capsys: Captured) -> None:
    said = answer(capsys, *RUN, "--kernels", "hash", "--sanitize", "--dim", "n=4,8,9")
    assert [len(said["shapes"]), len(said["replans"])] == [3, 1]


@pytest.mark.parametrize("wrong", ["n=4,,8", "n=4,", "n=1..3", "n=4,x"])
def test_what_is_no_list_of_sizes_is_an_error_of_the_command_line(wrong: str, folder: Path, capsys: Captured) -> None:
    code, out, err = ran(capsys, *RUN, "--dim", wrong)
    assert (code, out, "expected a size" in err) == (2, "", True)


def test_under_abort_a_shape_outside_ends_the_run(folder: Path, capsys: Captured) -> None:
    """The batches before it stay sealed, nothing of the one that is refused is. spec: R6.7, SIM6.8"""
    for sizes, sealed in (("n=9", 1), ("n=4,8,3", 3)):
        run = ("run", "m.onnx", "--plan", "strict.cbor", "--dim", sizes, "--trace", "t", "--errors", "e")
        code, out, err = ran(capsys, *run, "--checkpoint", "c")
        assert (code, out) == (4, "")
        assert f"n is {sizes[-1]}, the envelope holds 4 to 8; nothing was run with it" in err
        assert "[CONTRACT_VIOLATION]" in err
        records = traces.load("t")
        assert len(of(records, "commit")) == sealed
        assert [each["failure_code"] for each in of(records, "error", "replan")] == ["CONTRACT_VIOLATION"]
        assert b"CONTRACT_VIOLATION" in Path("e").read_bytes()
        assert not Path("c").exists()


def test_a_dimension_that_the_plan_does_not_have_is_an_error_of_the_command_line(
    folder: Path, capsys: Captured
) -> None:
    code, out, err = ran(capsys, *RUN, "--dim", "m=4")
    assert (code, out, "[INVALID_BINDING]" in err) == (2, "", True)


def test_a_shape_outside_leads_to_a_new_plan_that_is_traced_and_kept(folder: Path, capsys: Captured) -> None:
    """spec: R6.8, R6.10, SIM6.8, U8.4, U8.5, U8.7"""
    files = ("--trace", "t", "--checkpoint", "c", "--journal", "j", "--ledger", "l", "--contents")
    said = answer(capsys, *RUN, "--sanitize", "--dim", "n=4,9,6,12,3", *files)
    assert [each["batch"] for each in said["replans"]] == [2, 4, 5]
    records = traces.load("t")
    replans = of(records, "replan")
    assert [each["shape"] for each in replans] == [{"n": 9}, {"n": 12}, {"n": 3}]
    chain = [hash_of("p.cbor"), *(each["new_tmmu_plan_hash"] for each in replans)]
    assert [each["old_tmmu_plan_hash"] for each in replans] == chain[:-1]
    assert replans[-1]["new_envelope"] == {"b": [1, 1], "n": [3, 12]}
    # Every commit is of the plan in force, and goes on from the state before.
    in_force, commits = chain[0], []
    for record in records:
        in_force = record["new_tmmu_plan_hash"] if record["kind"] == "replan" else in_force
        if record["kind"] == "commit":
            assert record["tmmu_plan_hash"] == in_force
            commits.append(record)
    assert all(after["previous_state_hash"] == before["state_hash"] for before, after in pairwise(commits))
    assert len(commits) == 4 + 5
    # The weights have gone over: the caller wrote them before the first batch alone.
    assert [record["t"] for record in of(records, "value") if record["tensor_id"] == "w"] == [1]
    # A journal for each plan, named by the batches before it.
    assert sorted(path.name for path in folder.glob("j*")) == ["j", "j.2", "j.5", "j.7"]
    # What is kept is the last plan; it is the one that `tmmu plan` would make, and it is proved.
    assert checkpoint.load("c").plan_hash == chain[-1]
    assert ran(capsys, "restore", "c", "-o", "kept.cbor")[0] == 0
    flags = ("--dim", "b=1", "--dim", "n=3..12", "--replan-policy", "replan_at_safepoint")
    assert ran(capsys, "plan", "m.onnx", "-o", "wide.cbor", *flags)[0] == 0
    assert Path("kept.cbor").read_bytes() == Path("wide.cbor").read_bytes()
    assert verify("kept.cbor", Options(model="m.onnx")).verdict == PROVED


def test_the_checkpoint_is_of_the_new_plan_before_its_first_batch(
    folder: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: U8.7"""
    kept: list[bytes | None] = []
    real = Batches.run

    def run(batches: Batches, *arguments: Any) -> Any:
        kept.append(checkpoint.load("c").plan_hash if Path("c").exists() else None)
        return real(batches, *arguments)

    monkeypatch.setattr(Batches, "run", run)
    said = answer(capsys, *RUN, "--dim", "n=4,9,5", "--checkpoint", "c")
    new = bytes.fromhex(said["replans"][0]["new_tmmu_plan_hash"])
    assert kept == [None, new, new]


def test_the_loop_takes_the_steps_of_its_machine(folder: Path, capsys: Captured) -> None:
    """As `check-models --follow` reads its log: with TLC in `models/test_followed.py`. spec: U5.18"""
    assert answer(capsys, *RUN, "--dim", "n=9,4,12", "--events", "log", "--checkpoint", "c")
    [path] = lifecycle.paths(log.read(folder / "log"))
    apply, save, batch = ["Apply", "Zero"], ["WriteAside", "Sync", "Rename"], ["Begin", "Finish"]
    replan = ["Ask", "Replan", *apply, *save, *batch]
    assert [line.action for line in path.lines] == [
        "Plan", *apply, *replan, "Ask", *batch, *replan, *save, "Crash",
    ]  # fmt: skip


def test_a_new_plan_that_is_not_proved_is_not_run(
    folder: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: R6.13"""
    real = run_loop.replan_for

    def wrong(*arguments: Any, **more: Any) -> Any:
        """The new plan with two tensors at one place that are needed at once."""
        made, change = real(*arguments, **more)
        names, storage = made.allocation.tensors.name.list(), made.allocation.tensors.storage
        a, c = (int(storage[names.index(name)]) for name in ("a", "c"))
        return changed(made, "storages", c, offset=int(made.allocation.storages.offset[a])), change

    monkeypatch.setattr(run_loop, "replan_for", wrong)
    code, out, err = ran(capsys, *RUN, "--dim", "n=4,9", "--trace", "t", "--checkpoint", "c")
    assert (code, out) == (4, "")
    assert "the new plan is REFUTED, the old one stands" in err
    records = traces.load("t")
    assert (len(of(records, "commit")), of(records, "replan"), Path("c").exists()) == (2, [], False)


def test_a_plan_of_single_sizes_aborts(folder: Path, capsys: Captured) -> None:
    """It has no policy of its own. spec: R6.7"""
    assert ran(capsys, "plan", "m.onnx", "-o", "one.cbor", "--dim", "b=1", "--dim", "n=4")[0] == 0
    assert ran(capsys, "run", "m.onnx", "--plan", "one.cbor", "--dim", "n=4,4")[0] == 0
    code, _, err = ran(capsys, "run", "m.onnx", "--plan", "one.cbor", "--dim", "n=4,5")
    assert (code, "n is 5, the envelope holds 4 to 4" in err) == (4, True)


def test_without_a_plan_one_is_made_for_all_sizes(folder: Path, capsys: Captured) -> None:
    """spec: SIM6.9"""
    said = answer(capsys, "run", "m.onnx", "--dim", "b=2", "--dim", "n=4,9,4")
    assert ([shape["n"] for shape in said["shapes"]], said["replans"]) == ([4, 9, 4], [])
    assert answer(capsys, "run", "m.onnx", "--dim", "b=2", "--dim", "n=4,4")["shapes"] == []


def test_a_new_plan_that_cannot_be_applied_ends_the_run_with_the_old_one(
    folder: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: U8.6"""
    Path("j.2").write_bytes(b"no journal")
    code, _, err = ran(capsys, *RUN, "--dim", "n=4,9", "--trace", "t", "--journal", "j")
    assert (code, "j.2" in err) == (4, True)
    kinds = [record["kind"] for record in traces.load("t")]
    assert kinds[kinds.index("replan") :].count("replan") == 2
    assert "commit" not in kinds[kinds.index("replan") :]


def test_hashed_addresses_need_their_token_again(folder: Path, capsys: Captured) -> None:
    Path("token").write_bytes(bytes(range(64)))
    flags = ("--dim", "b=1", "--dim", "n=4..8", "--replan-policy", "replan_at_safepoint", "--layout", "hashed")
    assert ran(capsys, "plan", "m.onnx", "-o", "p.cbor", "--address-token", "token", *flags)[0] == 0
    code, _, err = ran(capsys, *RUN, "--dim", "n=4,9")
    assert (code, "it is not the token that the plan was made with" in err) == (2, True)
    assert len(answer(capsys, *RUN, "--dim", "n=4,9", "--address-token", "token")["replans"]) == 1


def test_a_weight_that_changes_between_two_shapes_is_noticed(folder: Path) -> None:
    """And one that another shape would give another size. spec: SIM8.4"""
    plan = file.load("p.cbor").plan
    four, eight = (PlanProgram(run_loop.at_shape(plan, {"n": n})) for n in (4, 8))
    with MappedMemory.map(plan) as memory:
        batches = Batches(four, memory)
        assert batches.run(HashKernels(four)).identical
        batches.switch_program(eight, memory)
        memory.tensor(eight.names.index("w"))[1] ^= 1
        corruption = batches.run(HashKernels(eight)).corruption
        assert corruption is not None
        assert corruption.tensors == ("w",)
        four.sizes[four.names.index("w")] += 4
        with pytest.raises(Corrupted, match="the caller keeps w, whose size differs at this shape"):
            batches.switch_program(four, memory)


def test_what_is_refused_in_the_loop_names_the_file(folder: Path, capsys: Captured) -> None:
    with pytest.raises(TmmuError, match=r"m\.onnx"):
        run_loop.prove(changed(file.load("p.cbor").plan, "storages", 0, offset=1 << 20), "m.onnx")
