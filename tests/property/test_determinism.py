"""One model, one plan: the same bytes in every run, after reading them again, in every process and under every Python.

Other versions of Python are asked where they are installed with the two packages that planning needs; continuous
integration runs everything under each.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.models import arenas, models, numbered
from tmmu.core.vocabulary import ArenaConfiguration, Model
from tmmu.ir import files
from tmmu.plan import file
from tmmu.plan.sections import amended
from tmmu.planner import plan_memory, replay_token

ROOT = Path(__file__).resolve().parents[2]
FIXED = range(30)
"""The numbers of the models that other processes plan."""

PLANS_EVERY_FILE = """
import hashlib, sys
from tmmu.ir import files
from tmmu.plan import file
from tmmu.planner import plan_memory
for path in sys.argv[1:]:
    print(hashlib.sha256(file.encode(plan_memory(files.load(path)).plan)).hexdigest())
"""


@given(models(), arenas())
def test_planning_twice_gives_the_same_bytes(model: Model, where: tuple[ArenaConfiguration, ...]) -> None:
    """spec: D1.1"""
    again = replace(model, tensors=tuple(replace(tensor) for tensor in model.tensors))
    assert file.encode(plan_memory(model, where).plan) == file.encode(plan_memory(again, where).plan)


@given(models(), arenas(), st.sampled_from(("inference", "forward")))
def test_a_plan_that_is_read_and_written_again_is_the_same(
    model: Model, where: tuple[ArenaConfiguration, ...], mode: str
) -> None:
    """spec: P1.3, V1.8, R8.1"""
    plan = plan_memory(model, where, mode=mode).plan
    data = file.encode(plan)
    stated = file.decode(data)
    assert stated.plan == plan
    assert file.encode(stated.plan) == data
    assert file.false_hashes(stated) == []


@given(models(), st.integers(0, (1 << 64) - 1))
def test_the_token_changes_the_plan_hash_and_nothing_else(model: Model, seed: int) -> None:
    """spec: A4.1, A4.2, A4.3, A4.4"""
    token = replay_token(seed)
    one, other = plan_memory(model).plan, plan_memory(model, token=token).plan
    assert amended(other, replay_token=one.origin.replay_token) == one
    hashes = file.hashes(one), file.hashes(other)
    changed = {key for key in hashes[0] if hashes[0][key] != hashes[1][key]}
    assert changed == ({"plan_hash", "file_digest"} if seed else set())


def digests(python: str, paths: list[str], **environment: str) -> list[str]:
    """What another process plans from model files, as digests of the plan files."""
    command = [python, "-c", PLANS_EVERY_FILE, *paths]
    bare = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(command, cwd=ROOT, env=bare | environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Files of the fixed models."""
    paths = [str(tmp_path_factory.mktemp("fixed") / f"{number}.ir.cbor") for number in FIXED]
    for number, path in zip(FIXED, paths, strict=True):
        files.save(numbered(number), path)
    return paths


@pytest.fixture(scope="module")
def planned(saved: list[str]) -> list[str]:
    """The digests of their plans, made here."""
    return [hashlib.sha256(file.encode(plan_memory(files.load(path)).plan)).hexdigest() for path in saved]


@pytest.mark.parametrize("hash_seed", ["0", "1", "4711"])
def test_another_process_with_another_hash_seed_plans_the_same_bytes(
    saved: list[str], planned: list[str], hash_seed: str
) -> None:
    """spec: D1.1, D1.2"""
    assert len(set(planned)) > len(planned) // 2
    assert digests(sys.executable, saved, PYTHONHASHSEED=hash_seed, LC_ALL="C", TZ="Asia/Kathmandu") == planned


def other_pythons() -> list[str]:
    """Pythons besides this one that have what planning needs."""
    found = (shutil.which(f"python3.{minor}") for minor in (11, 12, 13, 14))
    asks = "import sys, numpy, cbor2; sys.exit(sys.version_info[:2] == tuple(map(int, sys.argv[1:])))"
    mine = [str(part) for part in sys.version_info[:2]]
    return [
        path for path in found if path and not subprocess.run([path, "-c", asks, *mine], capture_output=True).returncode
    ]


def test_every_other_python_here_plans_the_same_bytes(saved: list[str], planned: list[str]) -> None:
    """spec: D1.1"""
    unlike = [path for path in other_pythons() if digests(path, saved) != planned]
    assert unlike == []
