"""`verify-plan` with the rest of `tmmu` deleted, as `spec/in-their-ci.md` has it: the page's commands, run in a copy.

What was deleted cannot be imported in the subprocess, whose only `tmmu` is the copy. spec: D1.3
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.text_models import text_model
from tests.support.tutorials import fences
from tmmu import examples
from tmmu.ir import files
from tmmu.planner import plan_memory
from tmmu.plans import file

pytestmark = pytest.mark.checkout
ROOT = Path(__file__).resolve().parents[2]
FOREIGN = ROOT / "tests/corpus/foreign"
PAGE = (ROOT / "spec/in-their-ci.md").read_text()
SECTION = PAGE.split("## verify-plan alone\n", 1)[1].split("\n## ", 1)[0]
KEPT = re.findall(r"^\| `(\w+)` \|", SECTION, re.MULTILINE)
"""The folders of `tmmu` that the page lists."""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package, and in it what the page's commands leave."""
    copy = tmp_path_factory.mktemp("alone")
    for package in ("tmmu", "proofs"):
        shutil.copytree(ROOT / package, copy / package)
    (commands,) = (fence.text for fence in fences(SECTION) if fence.language == "sh")
    environment = {**os.environ, "PYTHONPATH": str(copy), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    subprocess.run(["sh", "-e", "-c", commands], check=True, cwd=copy / "proofs", env=environment)
    return copy


def run(copy: Path, module: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command of the copy."""
    return subprocess.run(
        [sys.executable, "-P", "-m", module, *map(str, arguments)], capture_output=True, text=True, check=False,
        timeout=600, cwd=copy, env={**os.environ, "PYTHONPATH": str(copy)},
    )  # fmt: skip


def verify(copy: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run verify-plan of the copy, without the query from the definition: it takes long and needs no other module."""
    return run(copy, "proofs.verify.entry", "-q", "--definition-limit", "0", *arguments)


def test_the_commands_leave_what_the_page_lists(alone: Path) -> None:
    left = sorted(path.name for path in (alone / "tmmu").iterdir() if path.is_dir() and path.name != "__pycache__")
    assert left == sorted(KEPT)
    gone = [
        path.name for path in (ROOT / "tmmu").iterdir() if (path / "__init__.py").exists() and path.name not in left
    ]
    assert {"planner", "importers", "simulator", "cli"} <= set(gone)
    for name in gone:
        assert run(alone, f"tmmu.{name}").returncode == 1, f"tmmu.{name} can be imported"


def test_it_verifies_the_plans_of_other_compilers(alone: Path) -> None:
    """Every file that is stored, with the verdict of its folder."""
    proved = verify(alone, FOREIGN / "proved")
    words = [line.split()[0] for line in proved.stdout.splitlines()]
    assert (proved.returncode, set(words), proved.stderr) == (0, {"PROVED"}, "")
    assert len(words) >= len(list((FOREIGN / "proved").iterdir()))
    refuted = verify(alone, FOREIGN / "refuted")
    assert (refuted.returncode, refuted.stderr) == (1, "")
    words = [line.split()[0] for line in refuted.stdout.splitlines()]
    assert {"REFUTED"} <= set(words) <= {"PROVED", "REFUTED"}
    assert words.count("REFUTED") >= len(list((FOREIGN / "refuted").iterdir()))


def test_it_verifies_plans_of_ours_against_models_of_either_kind(alone: Path, tmp_path: Path) -> None:
    model = text_model("node relu Relu x -> a inplace a x", "node add Add a x w -> y", parameters="w")
    files.save(model, tmp_path / "m.ir.cbor")
    file.save(plan_memory(model).plan, tmp_path / "m.plan.cbor")
    examples.write("broken/plan-of-another-model", tmp_path / "w.plan.cbor")
    for plan, against, code in (("m", "m.ir.cbor", 0), ("w", "w.plan.onnx", 1)):
        done = verify(alone, tmp_path / f"{plan}.plan.cbor", "--model", tmp_path / against)
        assert (done.returncode, done.stderr) == (code, ""), done.stdout
    assert run(alone, "proofs.proving.lemmas.entry", "--list").returncode == 0


def test_a_verifier_that_imports_something_of_the_rest_is_noticed(alone: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(alone, tmp_path / "copy")
    verdict = copy / "proofs/verify/verdict.py"
    verdict.write_text(f"{verdict.read_text()}\nfrom tmmu.planner.liveness import lifetimes\n")
    done = verify(copy, FOREIGN / "proved" / "minimalloc-A.csv")
    assert (done.returncode, done.stdout) == (70, "")
    assert "No module named 'tmmu.planner'" in done.stderr
