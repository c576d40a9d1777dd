"""The pytest plugin of `tmmu.testing`, in a pytest of its own. spec: TP1.6, TP3.2, TP3.3, TP4.1 to TP4.6"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.tutorials import ROOT
from tmmu.testing.plugin import load_planner

PLANNER = """
import sys

def right(buffers):
    found, end = {}, 0
    for b in buffers:
        found[b.name], end = end, end + b.bytes
    return found

def zero(buffers):
    return {b.name: 0 for b in buffers}

value = 3
"""
CONFORMANCE = ("--pyargs", "tmmu.testing.conformance")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(PLANNER)
    return tmp_path


def run(folder: Path, *options: str) -> tuple[int, str]:
    """A pytest in the folder, with the plugin of this checkout and no other."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "tmmu.testing.plugin", *options]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_a_right_planner_passes_each_property_is_counted_and_in_the_junit_file(folder: Path) -> None:
    code, out = run(folder, "--tmmu-planner", "mine:right", "--seed", "5", "--junit-xml", "j.xml", *CONFORMANCE)
    assert code == 0, out
    assert "tmmu: planner mine:right, profile fast, seed 5" in out
    assert "deterministic    held in 60 examples" in out
    assert "refuses          does not apply" in out  # it takes no capacity
    properties = ElementTree.parse(folder / "j.xml").iter("property")
    assert "safe 60" in {each.get("value") for each in properties}
    assert not (folder / "plan-regressions").exists()


def test_a_wrong_planner_fails_is_saved_and_shown_again(folder: Path) -> None:
    few = "-m", "tmmu_safety", "-k", "share or aligned"
    code, out = run(folder, "--tmmu-planner", "mine:zero", *few, *CONFORMANCE)
    assert code == 1, out
    assert "no_live_overlap" in out
    assert "safe             FAILED" in out
    assert "Traceback" not in out
    [case] = (folder / "plan-regressions").iterdir()
    other = case.with_name("other.plan.txt")
    other.write_text("tmmu-plan-text 1\narena a 8\n")
    code, out = run(folder, "-q", "--tmmu-planner", "mine:zero", str(case), str(other))
    assert "not a saved case" in out
    code, out = run(folder, "-q", "--tmmu-planner", "mine:zero", str(case))
    assert code == 1, out
    code, out = run(folder, "-q", "--tmmu-planner", "mine:right", str(case))
    assert (code, "1 passed" in out) == (0, True), out
    code, out = run(folder, "-q", "-rs", "--tmmu-planner", "mine:zero", "plan-regressions")
    assert (code, "1 failed" in out) == (1, True), out
    code, out = run(folder, "-q", "-rs", "--tmmu-planner", "mine:right", "plan-regressions")
    assert (code, "it is a case of mine:zero; name the file" in out) == (0, True), out


@pytest.mark.parametrize(
    ("options", "sentence"),
    [((), "name the planner by --tmmu-planner"), (("--seed", "3"), "unrecognized arguments: --seed")],
)
def test_options_that_are_missing_or_unknown_are_a_sentence(
    folder: Path, options: tuple[str, ...], sentence: str
) -> None:
    code, out = run(folder, *options, *CONFORMANCE)
    assert code != 0
    assert sentence in out


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("mine", "expected MODULE:FUNCTION, got 'mine'"), ("nowhere:f", "module 'nowhere' cannot be imported"),
        ("mine:none", "module 'mine' has no function 'none'"),
        ("mine:value", "mine:value is a int, expected a function"),
    ],
)  # fmt: skip
def test_a_planner_that_cannot_be_loaded_is_a_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, sentence: str
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    with pytest.raises(pytest.UsageError, match=re.escape(sentence)):
        load_planner(name)
    sys.modules.pop("mine", None)


def test_a_planner_that_cannot_be_loaded_is_a_usage_error(folder: Path) -> None:
    """spec: TP4.1"""
    code, out = run(folder, "-q", "--tmmu-planner", "nowhere:f", *CONFORMANCE)
    assert code == pytest.ExitCode.USAGE_ERROR
    assert "Traceback" not in out
    assert "module 'nowhere' cannot be imported" in out


def test_a_class_of_ones_own_may_have_a_function_or_a_method(folder: Path) -> None:
    (folder / "test_mine.py").write_text(
        "import mine\nfrom tmmu import testing\nfrom tmmu.testing.conformance import Conformance\n"
        "class TestFunction(Conformance):\n    planner = mine.right\n    given = testing.dags()\n"
        "    planner = lambda dag: {n: 64 * 1024 * k for k, n in enumerate(dag)}\n"
        "class TestMethod(Conformance):\n    promises = ('relabelled',)\n"
        "    def planner(self, buffers):\n        return mine.right(buffers)\n"
    )
    code, out = run(folder, "-q", "-k", "answer or more_than or promises", "test_mine.py")
    assert "TestFunction::test_no_plan_needs_more" in out  # the graph is placed too far apart
    assert code == 1
    assert "1 failed, 7 passed" in out


@pytest.mark.parametrize("profile", ["fast", "nightly"])
def test_hypothesis_is_loaded_by_the_first_test_that_needs_it(folder: Path, profile: str) -> None:
    (folder / "test_it.py").write_text(
        "import sys\nfrom tmmu.testing.profiles import current_run\n"
        "def test_it():\n    assert not {'hypothesis', 'networkx', 'z3'} & set(sys.modules)\n"
        f"    assert current_run().examples == {60 if profile == 'fast' else 10_000}\n"
    )
    code, out = run(folder, "--tmmu-planner", "mine:right", "--tmmu-profile", profile, "test_it.py")
    assert code == 0, out


def test_the_package_loads_no_extra_and_names_the_command_that_installs_it() -> None:
    script = (
        "import sys, tmmu\nfrom tmmu import testing\nimport tmmu.testing.properties\n"
        "assert not {'hypothesis', 'networkx', 'pytest'} & set(sys.modules)\n"
        "sys.modules['networkx'] = None\n"
        "try: testing.buffers\nexcept tmmu.TmmuError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "tmmu.testing.buffers needs the package networkx" in done.stdout
    assert "[MISSING_PACKAGE]" in done.stdout
    assert "install" in done.stdout
