"""What runs on a code host is what anybody can run: one script, which the workflow calls and adds no check to."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from proofs.proving.kernel.install import PACKAGES
from tests.support.commands import program

ROOT = Path(__file__).resolve().parents[2]
LOCKS = {"user.txt": "report", "dev.txt": "dev"}
"""The lock files of CI, and the extra that each is for."""
WORKFLOW = (ROOT / ".github/workflows/ci.yml").read_text()


def test_the_workflow_calls_the_script_and_nothing_beside_it() -> None:
    commands = re.findall(r"^ +- run: (.+)$", WORKFLOW, re.MULTILINE)
    assert commands[-1] == ".ci/run"
    assert all(command.startswith("sudo apt-get ") for command in commands[:-1])
    assert "run: |" not in WORKFLOW
    assert (ROOT / ".ci/run").stat().st_mode & 0o111 == 0o111


@pytest.mark.parametrize(("name", "target"), [("site", "make site"), ("wheel", "make wheel-test LOCKED=1")])
def test_the_other_workflows_run_a_target_alone(name: str, target: str) -> None:
    commands = re.findall(r"^ +- run: (.+)$", (ROOT / f".github/workflows/{name}.yml").read_text(), re.MULTILINE)
    assert [command for command in commands if not command.startswith("sudo apt-get ")] == [target]
    assert re.search(rf"^{target.split()[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_the_script_is_of_targets_that_the_makefile_has() -> None:
    script = (ROOT / ".ci/run").read_text()
    targets = re.findall(r"^make (\S+)", script, re.MULTILINE)
    assert targets == ["demo", "kernel", "test", "test-long", "models", "sample"]
    assert "set -euo pipefail" in script.splitlines()
    makefile = (ROOT / "Makefile").read_text()
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)


def test_the_packages_are_those_that_the_kernel_names() -> None:
    [line] = [line for line in WORKFLOW.splitlines() if "apt-get install" in line]
    assert line.endswith(" ".join(("--no-install-recommends", *PACKAGES)))


def test_every_version_of_python_that_is_declared_is_run() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = [c.rpartition(" ")[2] for c in project["classifiers"] if re.search(r":: 3\.\d+$", c)]
    run = re.findall(r'"(3\.\d+)"', WORKFLOW)
    assert project["requires-python"] == f">={run[0]}"
    assert declared == run


def test_what_another_project_made_is_named_by_its_digest() -> None:
    """Actions, and packages: each version of a lock has digests, and no lock names where a package comes from."""
    for path in (ROOT / ".github/workflows").glob("*.yml"):
        used = re.findall(r"uses: (\S+)", path.read_text())
        assert used
        assert [name for name in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", name)] == []
    for name in LOCKS:
        text = (ROOT / ".ci" / name).read_text()
        assert "LOCKED=1" in (ROOT / ".ci/run").read_text()
        assert not re.search(r"https?:|--(extra-)?index|--find-links", text)
        assert {len(re.findall("--hash=sha256:", entry)) > 0 for entry in _entries(text)} == {True}


PACKAGE = {"name": "one", "version": "1", "vulns": []}
FAULT = {"id": "PYSEC-1", "fix_versions": ["2"]}
UNKNOWN = {"name": "other", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        ([PACKAGE], 0, "0 known faults in 1 packages"),
        ([PACKAGE | {"vulns": [FAULT]}, UNKNOWN], 1, "one 1: PYSEC-1, mended in 2"),
        ([PACKAGE, UNKNOWN], 0, "not compared: 1 of 2 packages: other"),
        ([UNKNOWN], 3, "out of reach"),
        (None, 3, "out of reach"),
    ],
)
def test_an_audit_states_what_is_known_and_what_was_not_compared(
    answer: Any, code: int, said: str, tmp_path: Path
) -> None:
    printed = "no network" if answer is None else json.dumps({"dependencies": answer})
    audit = program(tmp_path / "pip-audit", f"cat <<'END'\n{printed}\nEND")
    command = [sys.executable, ROOT / ".ci/audit.py", audit, ROOT / ".ci/dev.txt"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, said in done.stdout + done.stderr) == (code, True), done.stdout + done.stderr


@pytest.mark.parametrize(("name", "extra"), LOCKS.items())
def test_a_lock_has_a_version_of_each_requirement_that_it_admits(name: str, extra: str) -> None:
    """On this Python; `make lock` writes the locks again."""
    locked = {}
    for entry in _entries((ROOT / ".ci" / name).read_text()):
        one = Requirement(entry.partition(" \\\n")[0])
        if one.marker is None or one.marker.evaluate():
            locked[canonicalize_name(one.name)] = next(iter(one.specifier)).version
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [Requirement(text) for text in project["dependencies"]]
    extras = [extra]
    for each in extras:
        for one in map(Requirement, project["optional-dependencies"][each]):
            if one.name == "tmmu":
                extras += one.extras
            else:
                wanted.append(one)
    refused = [
        str(one)
        for one in wanted
        if (one.marker is None or one.marker.evaluate())
        and not one.specifier.contains(locked.get(canonicalize_name(one.name), "0"))
    ]
    assert refused == []


def _entries(lock: str) -> list[str]:
    """The requirements of a lock, each with the lines of its digests."""
    return re.findall(r"^(?:[^\s#].*\n(?:    .*\n)*)", lock, re.MULTILINE)


def test_the_hook_of_pre_commit_runs_a_command_of_the_package_on_the_plans_of_a_folder() -> None:
    hook = dict(re.findall(r"^[- ] (\w+): (.+)$", (ROOT / ".pre-commit-hooks.yaml").read_text(), re.MULTILINE))
    assert hook["entry"] in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    for name, plan in (("a.plan.cbor", True), ("b/a.plan.txt", True), ("a.ir.cbor", False), ("aplan.cbor", False)):
        assert (re.search(hook["files"], name) is not None) == plan, name
