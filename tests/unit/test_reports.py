"""The reports of `spec/reports`.

Each has its sections and a program that needs no other file, and `make reports` tells its state.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path

import pytest

from tests.nightly.hunt import rerun
from tests.nightly.hunt.planners import ENVIRONMENTS, TOOLS, name_missing
from tests.nightly.hunt.rerun import PROGRAMS, PROJECTS, Run, State, judge, run_program

FOLDER = Path(__file__).resolve().parents[2] / "spec/reports"
PAGES = {path.stem: path.read_text() for path in sorted(FOLDER.glob("*.md")) if path.stem != "README"}
SECTIONS = [
    "Versions",
    "Program",
    "Expected",
    "Actual",
    "Counter-test",
    "Cause",
    "Known reports",
    "Our plan and verdict",
]
LONGEST = 50
"""Lines of a program, with blank ones and a model in another language."""


def section(text: str, name: str) -> str:
    return re.split(r"^## ", text.partition(f"## {name}\n")[2], maxsplit=1, flags=re.MULTILINE)[0].strip()


def test_every_report_has_its_sections_and_its_program() -> None:
    assert {path.stem for path in PROGRAMS.iterdir() if path.suffix == ".py"} == set(PAGES)
    assert len(PAGES) >= 16
    for name, text in PAGES.items():
        assert re.findall(r"^## (.*)$", text, re.MULTILINE) == SECTIONS, name
        program = (PROGRAMS / f"{name}.py").read_text()
        assert f"```python\n{program}```" in section(text, "Program"), name
        assert len(program.splitlines()) <= LONGEST, name
        packages = section(text, "Versions").split("```")[1].split()[2:]
        assert set(packages) <= set(ENVIRONMENTS[PROJECTS[name.partition("-")[0]]]), name


def test_every_report_states_an_error_that_its_counter_test_leaves_alone() -> None:
    for name, text in PAGES.items():
        said = "\n".join(section(text, part) for part in ("Expected", "Actual", "Counter-test"))
        ended = "The process ends with SIG" in said
        assert judge(Run(-11 if ended else 0, said, "")).word == "still wrong", name


PLACE = re.compile(r"`[\w./-]+\.(?:cc|cpp|hpp|py|rs)(?::\d+)?`")
"""A file of the project that a page is about."""


def test_a_cause_names_the_place_that_was_read() -> None:
    for name, text in PAGES.items():
        cause = section(text, "Cause")
        assert PLACE.search(cause) or "**Known**" in text.partition("## ")[0], name
        assert not re.search(r"\bdid not (read|look)\b", cause), name
    assert PLACE.search("`IfThenElse::output_facts` (`core/src/ops/logic/ite.rs`)")
    assert not PLACE.search("Probably the `Reshape` is removed. We did not read the version that was run.")


def test_the_index_has_every_report_and_what_is_known_or_by_design_says_so_first() -> None:
    rows = re.findall(r"^\| \[([\w-]+)\]\(\1\.md\) \|.*\| ([^|]*) \| [\d, ]+ \| .*\|$",
                      (FOLDER / "README.md").read_text(), re.MULTILINE)  # fmt: skip
    assert [name for name, _ in rows] == list(PAGES)
    for name, state in rows:
        first = PAGES[name].partition("## ")[0]
        assert (state in ("known", "by design")) == bool(re.search(r"\*\*(Known|By design)\*\*", first)), name


def imported(program: str) -> set[str]:
    """Return the packages that a program imports."""
    nodes = list(ast.walk(ast.parse(program)))
    named = [each.name for node in nodes if isinstance(node, ast.Import) for each in node.names]
    named += [node.module or "." for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name.partition(".")[0] for name in named}


def test_no_program_imports_this_project() -> None:
    ours = {"tmmu", "proofs", "tests", ""}
    assert all(not imported((PROGRAMS / f"{name}.py").read_text()) & ours for name in PAGES)
    assert imported("import os, tmmu.core\ndef f():\n    from proofs import x") & ours == {"tmmu", "proofs"}


RIGHT = "print('expected:', [1, 2])\nprint('counter-test (f(x, y)): [1, 2]')\n"


@pytest.mark.parametrize(
    ("program", "state"),
    [
        (f"{RIGHT}print('actual: [1, 3]')", State("still wrong", "[1, 3] in place of [1, 2]")),
        (f"{RIGHT}print('actual: [1, 2]')", State("mended", "")),
        (
            f"{RIGHT}import os, sys\nsys.stdout.flush()\nos.kill(os.getpid(), 11)",
            State("still wrong", "the process ended with SIGSEGV"),
        ),
        (
            f"{RIGHT}print('actual: [1, 2]', flush=True)\nimport os\nos.abort()",
            State("still wrong", "the process ended with SIGABRT"),
        ),
        (
            f"{RIGHT}raise ImportError('no name f')",
            State("cannot tell", "the program ended with exit code 1: ImportError: no name f"),
        ),
        (
            "import os\nos.kill(os.getpid(), 11)",
            State("cannot tell", "the program ended with exit code -11: nothing was printed"),
        ),
        (
            f"{RIGHT.replace('y)): [1, 2]', 'y)): [1, 3]')}print('actual: [1, 3]')",
            State("cannot tell", "the counter-test gives [1, 3] in place of [1, 2]"),
        ),
    ],
)
def test_a_program_is_still_wrong_mended_or_says_nothing(program: str, state: State, tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(program)
    assert judge(run_program(Path(sys.executable), path)) == state


def test_a_program_that_does_not_end_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text("while True:\n    pass")
    assert judge(run_program(Path(sys.executable), path, seconds=0.1)).word == "cannot tell"


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One project with one program, in an environment that is there."""
    (tmp_path / "fake-planner.py").write_text(f"{RIGHT}print('actual: [2, 2]')")
    for name, value in {"PROGRAMS": tmp_path, "RECORDS": tmp_path / "records", "PROJECTS": {"fake": "fake"}}.items():
        monkeypatch.setattr(rerun, name, value)
    monkeypatch.setattr(rerun, "ENVIRONMENTS", {"fake": ("fake==1",)})
    monkeypatch.setattr(rerun, "python_of", lambda environment: Path(sys.executable))
    monkeypatch.setattr(rerun, "find_newest", lambda python, packages: [])
    return tmp_path


def test_a_report_is_run_with_the_pinned_and_the_newest_packages(
    planted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = "fake-planner (fake==1): still wrong: [2, 2] in place of [1, 2]"
    assert list(rerun.rerun(["fake-planner"])) == [
        wrong, "fake-planner (newest): the pinned versions are the newest; still wrong"
    ]  # fmt: skip
    assert "actual: [2, 2]" in (planted / "records/fake-planner-pinned.txt").read_text()
    monkeypatch.setattr(rerun, "find_newest", lambda python, packages: ["fake==2"])
    (planted / "fake-planner.py").write_text(f"{RIGHT}print('actual: [1, 2]')")
    assert list(rerun.rerun(["fake-planner"]))[1] == "fake-planner (newest, fake==2): mended"


def test_an_environment_that_has_other_versions_says_nothing(planted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was made by hand, or for another commit. Its results are not those of the versions that the line names."""
    monkeypatch.setattr(rerun, "ENVIRONMENTS", {"fake": ("pytest==0.1", "fake==1")})
    line = next(rerun.rerun(["fake-planner"]))
    folder = Path(sys.executable).parents[1]
    found = f"{folder} has pytest=={pytest.__version__} in place of pytest==0.1"
    assert line == f"fake-planner (pytest==0.1 fake==1): cannot tell: {found}"
    assert not (planted / "records").exists()


def test_a_newer_version_is_found_under_each_spelling_of_a_name(tmp_path: Path) -> None:
    """What pip would install too, but was not asked for, does not count."""
    made = [{"metadata": {"name": name, "version": "9"}} for name in ("mnn", "Ethos_U-Vela", "protobuf")]
    pip = tmp_path / "python"
    pip.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps({'install': made})}\nEND\n")
    pip.chmod(0o755)
    assert rerun.find_newest(pip, ("MNN==3.6.1", "ethos-u-vela==5.2.0")) == ["mnn==9", "Ethos_U-Vela==9"]


def test_an_environment_of_newest_versions_is_made_again_once_they_are_old(
    planted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = planted / "python"
    newest.symlink_to(sys.executable)
    monkeypatch.setattr(rerun, "python_of", lambda name: newest if "newest" in name else Path(sys.executable))
    made: list[bool] = []
    monkeypatch.setattr(rerun, "make_environment", lambda python, packages: made.append(python.exists()))
    monkeypatch.setattr(rerun, "run_in", lambda *_: State("mended", ""))
    for version in (pytest.__version__, "99"):
        monkeypatch.setattr(rerun, "find_newest", lambda *_, version=version: [f"pytest=={version}"])
        assert rerun.run_newest("fake-planner", "fake") == (f"pytest=={version}", State("mended", ""))
    assert made == [True, False]


def test_what_is_missing_is_named(planted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ChildProcessError("ERROR: no matching distribution found for fake==1")

    monkeypatch.setattr(rerun, "make_environment", fail)
    expected = "fake-planner (fake==1): cannot install: ERROR: no matching distribution found for fake==1"
    assert list(rerun.rerun(["fake-planner"])) == [expected]
    monkeypatch.setitem(TOOLS, "no-such-tool", "apt-get install it")
    monkeypatch.setitem(rerun.NEEDS, "fake-planner", ("no-such-tool",))
    expected = "fake-planner (fake==1): cannot install: no-such-tool is missing: apt-get install it"
    assert list(rerun.rerun(["fake-planner"])) == [expected]
    assert name_missing(()) == ""


def test_every_environment_states_its_versions() -> None:
    assert set(PROJECTS.values()) <= set(ENVIRONMENTS)
    assert all(re.fullmatch(r"[\w-]+==[\w.]+", each) for packages in ENVIRONMENTS.values() for each in packages)
