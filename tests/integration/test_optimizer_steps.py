"""The examples of training steps with an optimizer: planned, proved, run, and sharded by each stage of ZeRO.

spec: M2.10, T3.1, V1.10, R7.12, R7.13, R7.14
"""

from __future__ import annotations

from pathlib import Path

import pytest

from proofs.verify import entry as verifier
from tests.support.commands import ran
from tmmu import examples
from tmmu.core.vocabulary import Phase, Role
from tmmu.examples.broken.editing import changed
from tmmu.ir import files
from tmmu.plans import file

Captured = pytest.CaptureFixture[str]
STATES = {"sgd": 1, "adam": 2}


@pytest.fixture(params=STATES)
def name(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """One of the examples; a folder with it as `m.ir.txt` and the shard spec `s.toml` is the working directory."""
    monkeypatch.chdir(tmp_path)
    examples.write(f"training-{request.param}", "m.ir.txt")
    examples.write("training-shards", "s.toml")
    return str(request.param)


def planned(capsys: Captured, *flags: str) -> None:
    assert ran(capsys, "plan", "m.ir.txt", "-o", "p.cbor", "--mode", "backward", *flags)[0] == 0


def verified(capsys: Captured, *arguments: str) -> int:
    code = verifier.run([*arguments, "--model", "m.ir.txt", "--donate", "*"])
    capsys.readouterr()
    return code


@pytest.mark.parametrize("layout", ["packed", "slots"])
def test_an_update_changes_parameters_and_state_where_they_are(name: str, layout: str, capsys: Captured) -> None:
    model = files.load("m.ir.txt")
    updates = [node for node in model.nodes if node.phase is Phase.OPTIMIZER]
    held = {t.name for t in model.tensors if t.role in (Role.PARAMETER, Role.OPTIMIZER)}
    assert {model.tensors[t].name for node in updates for t in node.mutates} == held == set(model.bindings.donated)
    assert len(held) == 4 * (1 + STATES[name])
    planned(capsys, "--layout", layout)
    assert verified(capsys, "p.cbor", "--require", "model,slot-count") == 0
    assert ran(capsys, "run", "p.cbor", "--donate", "*", "--sanitize")[0] == 0


def test_what_is_not_given_up_may_not_be_changed(name: str, capsys: Captured) -> None:
    """spec: V1.10, V5.5"""
    planned(capsys)
    assert verifier.run(["p.cbor", "--model", "m.ir.txt"]) == 1
    assert "w1" in capsys.readouterr().out
    code, out, _ = ran(capsys, "run", "p.cbor")
    assert (code, out.startswith("CORRUPTED")) == (1, True)


def test_state_that_shares_bytes_with_another_is_refuted_and_corrupts(name: str, capsys: Captured) -> None:
    planned(capsys)
    plan = file.load("p.cbor").plan
    names, storage = plan.allocation.tensors.name.list(), plan.allocation.tensors.storage
    states = ("w1.mean", "w1.momentum", "w2.square", "w2.momentum")
    one, other = (int(storage[row]) for row, each in enumerate(names) if each in states)
    file.save(changed(plan, "storages", one, offset=int(plan.allocation.storages.offset[other])), "p.cbor")
    assert verified(capsys, "p.cbor") == 1
    assert ran(capsys, "run", "p.cbor", "--donate", "*", "--sanitize")[0] == 1


def test_an_update_that_the_model_does_not_make_is_refuted(name: str, capsys: Captured) -> None:
    """The plan is that of the example; in the model one update leaves the state as it is. spec: V3.1"""
    planned(capsys)
    lines = Path("m.ir.txt").read_text().splitlines()
    at = next(k for k, line in enumerate(lines) if line.startswith("node b2.update"))
    lines[at] = f"{lines[at].partition(' -> ')[0]} -> b2 changes b2 optimizer"
    Path("m.ir.txt").write_text("\n".join(lines) + "\n")
    assert verified(capsys, "p.cbor") == 1


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_each_stage_of_zero_is_proved_for_all_ranks_together(name: str, stage: int, capsys: Captured) -> None:
    """Optimizer state is held in parts from stage 1 on, parameters in stage 3. spec: R7.12, R7.27"""
    spec = Path("s.toml").read_text()
    assert "stage = 3" in spec
    Path("s.toml").write_text(spec.replace("stage = 3", f"stage = {stage}"))
    planned(capsys)
    whole = file.load("p.cbor").plan
    planned(capsys, "--shard", "s.toml")
    ranks = [f"p.rank{rank}.cbor" for rank in range(4)]
    assert verified(capsys, *ranks, "--require", "ranks,model") == 0
    plan = file.load(ranks[0]).plan
    used, all_ = ([usage.peak_live_bytes or 0 for usage in each.usage] for each in (plan, whole))
    assert 4 * used[1] <= all_[1] + 3 * 4 * 2 * STATES[name], "padding apart, a quarter"
    assert (used[0] == all_[0], 4 * used[0] <= all_[0] + 3 * 4 * 2) == ((True, False) if stage < 3 else (False, True))
    assert ran(capsys, "run", ranks[0], "--donate", "*")[0] == 0
    # A rank that is missing, and one that was planned for another stage.
    assert verified(capsys, *ranks[:3]) == 3
    Path("s.toml").write_text(spec.replace("stage = 3", f"stage = {stage % 3 + 1}"))
    assert ran(capsys, "plan", "m.ir.txt", "-o", "q.cbor", "--mode", "backward", "--shard", "s.toml")[0] == 0
    assert verified(capsys, *ranks[:3], "q.rank3.cbor") == 1
