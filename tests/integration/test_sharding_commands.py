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
from tmmu.planner.sharding import build_shards
from tmmu.planner.sharding.spec import load
from tmmu.plans import file
from tmmu.plans.columns import Shards

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
    names = [f"out.rank{rank}.plan.cbor" for rank in range(4)]
    assert (code, [line for line in out.splitlines() if line.startswith("wrote")]) == (0, [f"wrote {n}" for n in names])
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
        right = build_shards(local, spec, rank)
        return replace(right, start=np.maximum(right.start, 1) - np.uint64(1))

    monkeypatch.setattr(tmmu.planner.sharding, "build_shards", wrong)
    code, _, err = planned(capsys, DATA)
    assert (code, list(folder.glob("out*"))) == (4, [])
    assert err.startswith("error: m.ir.cbor: shards: ")


def test_a_folder_of_ranks_is_a_folder_of_plans(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """spec: R7.22, C1.13"""
    planned(capsys, PIPELINE)
    assert verifier.run([".", "--model", "m.ir.cbor", "-q"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 5


def test_of_a_mesh_with_too_many_ranks_for_files_single_ranks_are_planned(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """spec: R7.22"""
    spec = "[mesh]\ndata = 65537\n"
    code, _, err = planned(capsys, spec)
    assert (code, list(folder.glob("out*"))) == (4, [])
    assert err.endswith("[INVALID_SHARDING]\n")
    code, out, _ = planned(capsys, spec, "--rank", "65536")
    assert (code, out.splitlines()[0]) == (0, "wrote out.rank65536.plan.cbor")


def test_one_rank_alone_is_the_same_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    planned(capsys, PIPELINE)
    first = {path.name: path.read_bytes() for path in folder.glob("out.rank*.plan.cbor")}
    for path in folder.glob("out.rank*.plan.cbor"):
        path.unlink()
    assert planned(capsys, PIPELINE, "--rank", "2")[0] == 0
    assert {path.name: path.read_bytes() for path in folder.glob("out.*")} == {
        "out.rank2.plan.cbor": first["out.rank2.plan.cbor"]
    }


def test_a_mesh_of_one_rank_plans_what_no_mesh_does(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """spec: R7.2"""
    planned(capsys, "[mesh]\ndata = 1\n")
    assert entry.run(["plan", "m.ir.cbor", "-o", "alone.cbor"]) == 0
    one, alone = (file.load(folder / name).plan for name in ("out.rank0.plan.cbor", "alone.cbor"))
    assert (one.allocation.tensors, one.allocation.steps, one.allocation.storages, one.origin.ir_hash) == (
        alone.allocation.tensors, alone.allocation.steps, alone.allocation.storages, alone.origin.ir_hash,
    )  # fmt: skip
    assert one.shards is not None
    assert (len(one.shards), alone.shards, alone.origin.shard_spec) == (6, None, {})


def test_the_example_is_a_spec(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.run(["example", "gpt2-shards", "-o", "e.toml"]) == 0
    assert (folder / "e.toml").read_text() == GPT2
    assert [axis for axis, _ in load(folder / "e.toml")["mesh"]] == ["pipeline", "data", "tensor"]
