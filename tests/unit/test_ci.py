"""What runs on a code host is what anybody can run: one script, which the workflow calls and adds no check to."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from proofs.proving.kernel.install import PACKAGES

ROOT = Path(__file__).resolve().parents[2]
WORKFLOW = (ROOT / ".github/workflows/ci.yml").read_text()


def test_the_workflow_calls_the_script_and_nothing_beside_it() -> None:
    commands = re.findall(r"^ +- run: (.+)$", WORKFLOW, re.MULTILINE)
    assert commands[-1] == ".ci/run"
    assert all(command.startswith("sudo apt-get ") for command in commands[:-1])
    assert "run: |" not in WORKFLOW
    assert (ROOT / ".ci/run").stat().st_mode & 0o111 == 0o111


def test_the_workflow_of_the_site_runs_its_target_alone() -> None:
    assert re.findall(r"^ +- run: (.+)$", (ROOT / ".github/workflows/site.yml").read_text(), re.MULTILINE) == [
        "make site"
    ]
    assert re.search(r"^site:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_the_script_is_of_targets_that_the_makefile_has() -> None:
    script = (ROOT / ".ci/run").read_text()
    targets = re.findall(r"^make (\S+)$", script, re.MULTILINE)
    assert targets == ["demo", "kernel", "test", "models"]
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


def test_the_hook_of_pre_commit_runs_a_command_of_the_package_on_the_plans_of_a_folder() -> None:
    hook = dict(re.findall(r"^[- ] (\w+): (.+)$", (ROOT / ".pre-commit-hooks.yaml").read_text(), re.MULTILINE))
    assert hook["entry"] in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    for name, plan in (("a.plan.cbor", True), ("b/a.plan.txt", True), ("a.ir.cbor", False), ("aplan.cbor", False)):
        assert (re.search(hook["files"], name) is not None) == plan, name
