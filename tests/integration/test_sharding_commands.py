"""`tmmu plan --shard`: one plan for each rank, or one line that says what is wrong.

spec: R7.1, R7.2, R7.5, R7.8, R7.22, R7.23
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tmmu.planner.sharding
from proofs.verify import entry as verifier
from tests.support.sharded import LAYERS
from tmmu.cli import entry
from tmmu.examples.shards import GPT2
from tmmu.ir import files
from tmmu.plan import file
from tmmu.plan.columns import Shards
from tmmu.planner.sharding import shards_of
from tmmu.planner.sharding.spec import load

DATA = '[mesh]\ndata = 2\n[[rules]]\nroles = ["input"]\nsplit = ["data"]\n'
PIPELINE = '[mesh]\np = 2\ndata = 2\n[pipeline]\naxis = "p"\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the model `m.ir.cbor`, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    files.save(LAYERS, tmp_path / "m.ir.cbor")
    return tmp_path


def planned(capsys: pytest.CaptureFixture[str], spec: str, *flags: str) -> tuple[int, str, str]:
    Path("s.toml").write_text(spec)
    code = entry.run(["plan", "m.ir.cbor", "-o", "out.plan.cbor", "--shard", "s.toml", *flags])
    out, err = capsys.readouterr()
    return code, out, err


def test_every_rank_has_a_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """spec: R7.22"""
    code, out, _ = planned(capsys, PIPELINE)
    names = [f"out.plan.rank{rank}.cbor" for rank in range(4)]
    assert (code, [line for line in out.splitlines() if line.startswith("wrote")]) == (0, [f"wrote {n}" for n in names])
    assert "  mesh: p=2, data=2; 2 steps, 1 of them collectives" in out
    plans = [file.load(folder / name).plan for name in names]
    assert [(p.origin.rank, p.origin.world_size) for p in plans] == [(0, 4), (1, 4), (2, 4), (3, 4)]
    assert verifier.run([*names, "--model", "m.ir.cbor"]) == 0
    assert "PROVED ranks of small against m.ir.cbor" in capsys.readouterr().out
    assert entry.run(["show", names[3]]) == 0
    assert "rank 3 of 4: mesh p=2, data=2" in capsys.readouterr().out
    assert entry.run(["show", names[3], "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["rank"] == 3


def test_a_wrong_part_of_one_rank_leaves_every_file_unwritten(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: C2.1, R7.19"""

    def wrong(local: Any, spec: dict[str, Any], rank: int) -> Shards:
        right = shards_of(local, spec, rank)
        return replace(right, start=np.maximum(right.start, 1) - np.uint64(1))

    monkeypatch.setattr(tmmu.planner.sharding, "shards_of", wrong)
    code, _, err = planned(capsys, DATA)
    assert (code, list(folder.glob("out*"))) == (4, [])
    assert err.startswith("error: m.ir.cbor: shards: the planner made a wrong plan (")


def test_of_a_mesh_with_too_many_ranks_for_files_single_ranks_are_planned(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """spec: R7.22"""
    spec = "[mesh]\ndata = 65537\n"
    code, _, err = planned(capsys, spec)
    assert (code, list(folder.glob("out*"))) == (4, [])
    assert err.startswith("error: s.toml: shard spec: the mesh has 65537 ranks")
    assert err.endswith("plan single ranks with --rank [INVALID_SHARDING]\n")
    code, out, _ = planned(capsys, spec, "--rank", "65536")
    assert (code, out.splitlines()[0]) == (0, "wrote out.plan.rank65536.cbor")


def test_one_rank_alone_is_the_same_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    planned(capsys, PIPELINE)
    first = {path.name: path.read_bytes() for path in folder.glob("out.plan.rank*.cbor")}
    for path in folder.glob("out.plan.rank*.cbor"):
        path.unlink()
    assert planned(capsys, PIPELINE, "--rank", "2")[0] == 0
    assert {path.name: path.read_bytes() for path in folder.glob("out.*")} == {
        "out.plan.rank2.cbor": first["out.plan.rank2.cbor"]
    }


def test_a_mesh_of_one_rank_plans_what_no_mesh_does(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """spec: R7.2"""
    planned(capsys, "[mesh]\ndata = 1\n")
    assert entry.run(["plan", "m.ir.cbor", "-o", "alone.cbor"]) == 0
    one, alone = (file.load(folder / name).plan for name in ("out.plan.rank0.cbor", "alone.cbor"))
    assert (one.allocation.tensors, one.allocation.steps, one.allocation.storages, one.origin.ir_hash) == (
        alone.allocation.tensors, alone.allocation.steps, alone.allocation.storages, alone.origin.ir_hash,
    )  # fmt: skip
    assert one.shards is not None
    assert (len(one.shards), alone.shards, alone.origin.shard_spec) == (6, None, {})


WRONG = {
    "not TOML": ("mesh =", "s.toml: shard spec: not TOML"),
    "not UTF-8 at all": ("\udcff", "s.toml: shard spec: not TOML"),
    "an unknown key": ("[mesh]\na = 2\n[zeros]\n", "unknown key 'zeros' in the file"),
    "no mesh": ("pad = true", "the mesh has no axis"),
    "a size of zero": ("[mesh]\na = 0\n", "the size of the axis 'a': expected an integer from 1"),
    "a mesh that is no table": ("mesh = 3", "[mesh]: expected a table"),
    "rules that are no list": ("rules = 3\n[mesh]\na = 2\n", "rules: expected a list of tables"),
    "an unknown key of a rule": ('[mesh]\na = 2\n[[rules]]\nname = "x"\n', "unknown key 'name' in [[rules]]"),
    "an unknown axis": ('[mesh]\na = 2\n[[rules]]\nsplit = ["b"]\n', "splits by 'b': expected an axis"),
    "an unknown role": ('[mesh]\na = 2\n[[rules]]\nroles = ["weight"]\n', "expected a role, got 'weight'"),
    "a role that is no text": ("[mesh]\na = 2\n[[rules]]\nroles = [[1]]\n", "the roles of a rule: expected a role"),
    "ZeRO without an axis": ("[mesh]\na = 2\n[zero]\nstage = 2\n", "a ZeRO stage and its axis belong together"),
    "ZeRO 4": ('[mesh]\na = 2\n[zero]\nstage = 4\naxis = "a"\n', "zero_stage: expected an integer from 0 to 3, got 4"),
    "too few stages": ('[mesh]\na = 2\n[pipeline]\naxis = "a"\nstages = [["*"]]\n', "1 stages where"),
    "a dimension that does not divide": (
        DATA.replace("2", "3"),
        "tensor 'x': dimension 0 of 4 elements does not divide",
    ),
    "a rule of too many dimensions": (DATA.replace('["data"]', '["", "", "data"]'), "tensor 'x': a rule splits 3"),
    "a stage that nobody runs": ('[mesh]\na = 2\n[pipeline]\naxis = "a"\nstages = [[], []]\n', "node 'up': no stage"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_spec_is_one_line_and_nothing_is_written(
    what: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """spec: C2.6, R7.8"""
    text, message = WRONG[what]
    Path("s.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
    code = entry.run(["plan", "m.ir.cbor", "-o", "out.cbor", "--shard", "s.toml"])
    out, err = capsys.readouterr()
    assert (code, out, len(err.splitlines())) == (4, "", 1)
    assert message in err
    assert err.endswith("[INVALID_SHARDING]\n")
    assert not list(folder.glob("out*"))


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        (["--rank", "4"], 2, "the mesh has 4 ranks"),
        (["--budget", "1GiB", "--preset", "remat_enabled"], 2, "--budget is one rank's"),
        (["--order", "memory"], 4, "use --order given with a pipeline"),
    ],
)
def test_flags_that_do_not_go_with_a_mesh_are_refused(
    flags: list[str], code: int, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """spec: R7.23"""
    found, out, err = planned(capsys, PIPELINE, *flags)
    assert (found, out) == (code, "")
    assert message in err
    assert not list(folder.glob("out*"))


def test_a_rank_without_a_mesh_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.run(["plan", "m.ir.cbor", "--rank", "0"]) == 2
    assert "--rank goes with --shard" in capsys.readouterr().err


def test_the_example_is_a_spec(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.run(["example", "gpt2-shards", "-o", "e.toml"]) == 0
    assert (folder / "e.toml").read_text() == GPT2
    assert [axis for axis, _ in load(folder / "e.toml")["mesh"]] == ["pipeline", "data", "tensor"]
