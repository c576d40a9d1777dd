"""One model, one plan, one trace: the same bytes in every process, under every hash seed and every Python.

Other versions of Python are asked where they are installed with the two packages that planning needs.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.example_models import deep, full
from tests.support.full_trace import full as full_trace
from tmmu.ir import files
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans import file
from tmmu.testing.strategies.models import numbered

ROOT = Path(__file__).resolve().parents[2]


FIXED = range(30)
"""The numbers of the models that other processes plan."""


PLANS_EVERY_FILE = """
import hashlib, sys
from tmmu.ir import files
from tmmu.plans import file
from tmmu.planner import PlanOptions, plan_memory
for path in sys.argv[1:]:
    for mode in ("inference", "forward"):
        print(hashlib.sha256(file.encode(plan_memory(files.load(path), options=PlanOptions(mode)).plan)).hexdigest())
"""


def digests(python: str, paths: list[str], **environment: str) -> list[str]:
    """What another process plans from model files, as digests of the plan files."""
    command = [python, "-c", PLANS_EVERY_FILE, *paths]
    bare = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(command, cwd=ROOT, env=bare | environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Files of the fixed models."""
    models = [full(), deep(), *map(numbered, FIXED)]
    paths = [str(tmp_path_factory.mktemp("fixed") / f"{k}.ir.cbor") for k in range(len(models))]
    for model, path in zip(models, paths, strict=True):
        files.save(model, path)
    return paths


@pytest.fixture(scope="module")
def planned(saved: list[str]) -> list[str]:
    """The digests of their plans, made here."""
    models = [(files.load(path), mode) for path in saved for mode in ("inference", "forward")]
    return [
        hashlib.sha256(file.encode(plan_memory(model, options=PlanOptions(mode=mode)).plan)).hexdigest()
        for model, mode in models
    ]


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


R = "!stream.resource<transient>"
TURNS = f"""\
// -----// IR Dump After LayoutSlices //----- //
util.func public @main(%n: index) -> !hal.buffer_view {{
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %s = stream.resource.alloc : {R}{{%c64}}
  %u = stream.resource.alloc : {R}{{%c64}}
  %l:2 = scf.while (%p1 = %s, %p2 = %u, %k = %c0) : ({R}, {R}, index) -> ({R}, {R}) {{
    %q = arith.cmpi slt, %k, %n : index
    scf.condition(%q) %p2, %p1 : {R}, {R}
  }} do {{
  ^bb0(%y1: {R}, %y2: {R}):
    %e = stream.cmd.execute with(%y1 as %b: {R}{{%c64}}, %y2 as %d: {R}{{%c64}}) {{
      stream.cmd.fill %c0, %b[%c0 for %c64] : i8 -> {R}{{%c64}}
      stream.cmd.fill %c0, %d[%c0 for %c64] : i8 -> {R}{{%c64}}
    }} => !stream.timepoint
    %w:2 = stream.timepoint.await %e => %y1, %y2 : {R}{{%c64}}, {R}{{%c64}}
    scf.yield %w#0, %w#1, %n : {R}, {R}, index
  }}
  %view = stream.tensor.export %l#0 : tensor<16xf32> in !stream.resource<external>{{%c64}} -> !hal.buffer_view
  util.return %view : !hal.buffer_view
}}
"""
"""A dump whose loop hands on two resources in turns, so that a name stands for either."""
READS_A_DUMP = """
import hashlib, sys
from proofs.readers.plans import iree
from tmmu.core.source import Source
from tmmu.plans import file
found = iree.read(Source("turns.iree", sys.stdin.buffer.read()))
print(hashlib.sha256(file.encode(found.plan) + repr(found.reading).encode()).hexdigest())
"""


def test_names_that_stand_for_several_memories_are_read_alike_in_every_process() -> None:
    """spec: FP1.1, FP9.6"""
    found = set()
    for seed in ("1", "2", "3", "4"):
        command, environment = [sys.executable, "-c", READS_A_DUMP], {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            command, cwd=ROOT, env=environment, input=TURNS, capture_output=True, text=True, check=True
        )
        found.add(done.stdout)
    assert len(found) == 1


SCRIPT = """
import sys
from tests.support.full_trace import full
print(full()[-1]["trace_final_hash"].hex())
"""


def test_two_runs_have_one_chain_in_every_process() -> None:
    found = {full_trace()[-1]["trace_final_hash"].hex()}
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, env=environment
        )
        found.add(done.stdout.strip())
    assert len(found) == 1
