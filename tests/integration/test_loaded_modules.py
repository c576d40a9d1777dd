"""What a process of the verifier loads: neither the planner nor a library of the optional extras. spec: D1.3"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.text_models import text_model
from tmmu.ir import files
from tmmu.planner import plan_memory
from tmmu.plans import file

ROOT = Path(__file__).resolve().parents[2]

VERIFY = """
import sys
from proofs.verify.command import command
code = command.main(sys.argv[1:], standalone_mode=False)
print("LOADED", *sorted(sys.modules), file=sys.stderr)
sys.exit(code)
"""

TMMU = """
import sys
from tmmu.cli.entry import run
code = run(sys.argv[1:])
print("LOADED", *sorted(sys.modules), file=sys.stderr)
sys.exit(code)
"""

BARE = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"bokeh", "torch", "jax", "networkx"} or name.startswith(above):
            raise ImportError(f"{name} is not there")

sys.meta_path.insert(0, Blocked())
"""
"""Without the packages of the extras, and without the modules whose names begin with one of `above`."""

BLOCKED = (
    'above = ("tmmu.planner", "tmmu.cli", "tmmu.examples", "tmmu.report", "tmmu.importers.onnx")\n' + BARE + VERIFY
)


NOT_FOR_A_PLAN = (
    "onnx", "rich", "cvc5", "hypothesis", "tmmu.planner", "tmmu.importers", "tmmu.cli", "tmmu.examples", "tmmu.onnx",
    "email", "xml", "html", "tomllib", "fractions", "numpy.ma", "tmmu.ir", "tmmu.plans.text", "tmmu.plans.sets",
    "proofs.sharding", "proofs.sets", "proofs.streams", "proofs.readers.models", "proofs.definition.model",
    "proofs.proving.optimum", "proofs.proving.kernel.coq_file", "proofs.verify.formats", "proofs.verify.ranks",
    "proofs.verify.sets", "proofs.verify.pairing", "proofs.verify.picture", "proofs.verify.fleet",
)  # fmt: skip
"""What verify-plan does not load for one plan of ours: other formats, models, ranks and sets, and what they need."""


def verified(script: str, *arguments: str | Path, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A run of a command in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120, env=environment, cwd=folder
    )


def written(folder: Path) -> tuple[Path, Path]:
    """A plan and the IR file that it is of."""
    model = text_model("node relu Relu x -> a inplace a x", "node add Add a x w -> y", parameters="w")
    files.save(model, folder / "m.ir.cbor")
    file.save(plan_memory(model).plan, folder / "m.plan.cbor")
    return folder / "m.plan.cbor", folder / "m.ir.cbor"


def test_verifying_a_plan_file_loads_only_what_it_needs(tmp_path: Path) -> None:
    """A small plan takes as long to prove as these take to load."""
    plan, _ = written(tmp_path)
    done = verified(VERIFY, plan)
    assert (done.returncode, done.stdout.split()[0]) == (0, "PROVED"), done.stderr
    loaded = done.stderr.split("LOADED", 1)[1].split()
    assert "tmmu.plans.gate" in loaded
    assert "proofs.definition.checker.execute" in loaded
    assert [name for name in loaded if name.startswith(tuple(f"{each}." for each in NOT_FOR_A_PLAN))] == []
    assert set(NOT_FOR_A_PLAN).isdisjoint(loaded)
    readers = {name for name in loaded if name.startswith("proofs.readers.plans.")}
    assert readers == {"proofs.readers.plans.foreign_plan", "proofs.readers.plans.formats"}


def test_proofs_work_where_nothing_above_them_can_be_imported(tmp_path: Path) -> None:
    """The wheel with its core dependencies alone; an IR model needs no more."""
    plan, model = written(tmp_path)
    done = verified(BLOCKED, plan, "--model", model)
    assert (done.returncode, done.stdout.split()[0]) == (0, "PROVED"), done.stderr


@pytest.mark.parametrize("arguments", [("--version",), ("--help",), ("plan", "--help")])
def test_what_prints_no_plan_loads_neither_numpy_nor_the_planner(arguments: tuple[str, ...]) -> None:
    """A command is imported when it is asked for, and what it works with when it works."""
    done = verified(TMMU, *arguments)
    loaded = done.stderr.split("LOADED", 1)[1].split()
    assert done.returncode == 0
    assert ("tmmu.cli.plan" in loaded) == (arguments != ("--version",))
    assert not {"numpy", "onnx", "rich", "z3", "tmmu.planner", "proofs"} & set(loaded)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("example", "text-plan", "-o", "hand.plan.txt"), 0, ""),
        (("example", "llama-8b", "-o", "l.ir.cbor"), 0, ""),
        (("run", "m.plan.cbor"), 0, ""),
        (("show", "m.plan.cbor"), 0, ""),
        (("plan", "m.ir.cbor", "--layout", "hashed", "--address-token", "token"), 2, "blake3>="),
    ],
)
def test_without_the_extras_a_command_works_or_names_the_one_that_it_needs(
    tmp_path: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    """No traceback, and no exit code of an internal error. spec: C2.6"""
    written(tmp_path)
    (tmp_path / "token").write_bytes(bytes(64))
    script = "above = ()\n" + BARE.replace('"bokeh", ', '"bokeh", "blake3", ') + TMMU
    done = verified(script, *arguments, folder=tmp_path)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
    assert ("pip install" in done.stderr and said in done.stderr) == bool(said)
