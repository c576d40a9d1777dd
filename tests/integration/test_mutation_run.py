"""`make mutation` names changes that no test notices and counts those that one does, in a project of two functions.

What the command reports of this repository rests on that: it once ran no change, and was silent (finding 204).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.nightly.mutation.running import KILLED, SURVIVED

MUTATION = Path("tests/nightly/mutation")
REPOSITORY = Path(__file__).resolve().parents[2]
NOT_NEEDED = ("numpy", "cbor2", "click/__init__", "click/testing", "z3", "onnx", "networkx", "hypothesis")
"""What the command imports beforehand for the tests of this repository; an empty module does, and starts at once."""

SMALL = """
LIMIT = 3

def few(x):
    return x < LIMIT

def unseen(x):
    return -x
"""
TESTS = """
from proofs.small import few, unseen

def test_few():
    assert few(2) and not few(3)

def test_that_looks_at_nothing():
    unseen(1)

def test_that_always_fails():
    assert few(2) and unseen(1) == 0
"""
FROZEN = """
import gc

def pytest_collection_finish():
    gc.freeze()
"""
NOTICED = {"LIMIT: 3 → 4", "few: x < LIMIT → x <= LIMIT", "few: x < LIMIT → x >= LIMIT",
           "few: return x < LIMIT → return None"}  # fmt: skip
OPEN = {"unseen: -x → x", "unseen: return -x → return None"}


def test_planted_changes_are_noticed_where_a_test_fails_for_them_and_named_where_none_does(tmp_path: Path) -> None:
    """Of a function, and of what a module does as it is imported; a test that always fails notices nothing."""
    shutil.copytree(REPOSITORY / MUTATION, tmp_path / MUTATION)
    table = tmp_path / MUTATION / "argued.toml"
    for path, text in (
        ("proofs/small.py", SMALL), ("tests/unit/test_small.py", TESTS), ("tests/conftest.py", FROZEN),
        ("tests/property/test_none.py", ""), (table, ""),
        *((f"{package}/__init__.py", "") for package in ("proofs", "tests", "tests/nightly")),
        *((f"{name}.py", "") for name in NOT_NEEDED),
    ):  # fmt: skip
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tests.nightly.mutation", "--files", "proofs/small.py", *options]
        environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)

    ran = run()
    assert ran.returncode == 1, ran.stdout + ran.stderr
    records = [json.loads(line) for line in (tmp_path / "mutants/results.jsonl").read_text().splitlines()]
    noticed = {record["mutant"]: record["by"] for record in records if record["result"] == KILLED}
    assert noticed.keys() == NOTICED
    assert {by for by in noticed.values() if by} == {"tests/unit/test_small.py::test_few"}
    assert {record["mutant"] for record in records if record["result"] == SURVIVED} == OPEN
    assert "left out, as they fail here" in ran.stdout
    assert {f"    8: {name}" for name in OPEN} <= set(ran.stdout.splitlines())

    table.write_text('["proofs/small.py"]\n' + "".join(f'"{name}" = "It is not."\n' for name in OPEN))
    listed = run("--list")
    assert listed.returncode == 0
    assert listed.stdout.splitlines()[-1].split() == ["proofs/small.py", "6", "4", "2", "0", "0"]
