"""What can be said of the kernel where it is not built: where it would be, how it is built, and what is left out.

spec: V6.2, V6.3, V6.4
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from proofs.kernel import coq_file, install, installed
from proofs.kernel.evidence import VERSION, columns, words
from proofs.readers.sharing import permitted
from tests.strategies.small import small
from tests.strategies.synthetic import edited, training_plan
from tmmu.errors import TmmuError
from tmmu.planner import plan_memory

ROOT = Path(__file__).resolve().parents[2]
NOBODY: frozenset[str] = frozenset()
DIGEST = bytes(range(32))


def test_a_kernel_is_looked_for_under_the_digest_of_its_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert installed.folder() == tmp_path / "tmmu" / "kernel" / installed.digest()
    assert (installed.program(), installed.theory()) == (None, None)
    program, theory = installed.folder() / "kernel", installed.folder() / "theory"
    theory.mkdir(parents=True)
    program.touch(0o644)
    assert (installed.program(), installed.theory()) == (None, None)
    (theory / "Theorems.vo").touch()
    program.chmod(0o755)
    assert (installed.program(), installed.theory()) == (program, theory)
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert installed.folder().is_relative_to(tmp_path / ".local" / "share" / "tmmu" / "kernel")


@pytest.mark.parametrize("name", [*(f"{name}.v" for name in installed.ORDER), "Extract.v", "main.ml"])
def test_every_source_counts(name: str, tmp_path: Path) -> None:
    shutil.copytree(installed.SOURCES, tmp_path / "kernel")
    with (tmp_path / "kernel" / name).open("a") as file:
        file.write(" ")
    assert installed.digest(tmp_path / "kernel") != installed.digest()


def test_all_theory_files_are_listed_each_after_what_it_needs() -> None:
    assert {f"{name}.v" for name in installed.ORDER} | {"Extract.v"} == {p.name for p in installed.SOURCES.glob("*.v")}
    for place, name in enumerate(installed.ORDER):
        for line in (installed.SOURCES / f"{name}.v").read_text().splitlines():
            if line.startswith("From Tmmu Require Import"):
                assert set(line.removesuffix(".").split()[4:]) <= set(installed.ORDER[:place])


def test_without_coq_and_without_the_right_to_install_it_the_one_command_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(install.shutil, "which", lambda _: None)
    assert install.main() == 1
    said = capsys.readouterr().err
    assert said.startswith("Coq and OCaml are needed: sudo apt-get install -y")
    assert said.count("\n") == 1
    assert not list(tmp_path.rglob("kernel*/*"))


def test_a_second_run_does_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(install, "build", lambda _: pytest.fail("it was built again"))
    installed.folder().mkdir(parents=True)
    (installed.folder() / installed.PROGRAM).touch(0o755)
    assert install.main() == 0
    assert "is installed in" in capsys.readouterr().out


def test_the_tests_that_need_it_are_left_out_by_name(tmp_path: Path) -> None:
    away = {**os.environ, "XDG_DATA_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", "tests/kernel"]
    done = subprocess.run(command, cwd=ROOT, env=away, capture_output=True, text=True, check=False)
    named = {line.split()[2] for line in done.stdout.splitlines() if line.startswith("LEFT OUT: ")}
    assert named == {f"tests/kernel/{path.name}" for path in (ROOT / "tests/kernel").glob("test_*.py")}


def test_the_words_begin_with_the_version_the_digest_and_the_counts() -> None:
    plan = training_plan(20, seed=5, in_place=0.3, views=0.3)
    row = words(plan, permitted(plan, None, NOBODY), NOBODY, DIGEST)
    assert row[0] == VERSION
    assert row[1:5].astype(">u8").tobytes() == DIGEST
    assert row[5:10].tolist() == [20, 21, len(plan.storages), len(plan.slots), 1]
    named = columns(plan, permitted(plan, None, NOBODY), NOBODY, DIGEST)
    assert np.array_equal(np.concatenate([column for _, column in named]), row)
    assert f"Definition VERSION : Z := {VERSION}." in (installed.SOURCES / "Columns.v").read_text()


def test_a_plan_of_nothing_and_a_plan_that_dies_before_it_is_born_have_words() -> None:
    for plan in (
        plan_memory(small(inputs="", outputs="")).plan,
        edited(plan_memory(small("relu: x -> y"), layout="packed").plan, "storages", 0, birth=9),
    ):
        assert len(words(plan, permitted(plan, None, NOBODY), NOBODY, DIGEST)) > 17


def test_a_coq_file_names_the_theory_and_holds_every_word(tmp_path: Path) -> None:
    plan = training_plan(300)
    row = words(plan, permitted(plan, None, NOBODY), NOBODY, DIGEST)
    coq_file.write(tmp_path / "a" / "b", "x*)y", plan, permitted(plan, None, NOBODY), NOBODY, DIGEST, Path("/th"))
    text = (tmp_path / "a/b/Plan.v").read_text()
    lists = [
        line.split("[")[1].split("]")[0]
        for line in text.splitlines()
        if line.startswith("Definition w") and "[" in line
    ]
    found = [int(word) for line in lists for word in line.split("; ") if word]
    assert found == row.tolist()
    assert "x__y" in text
    assert (tmp_path / "a/b/_CoqProject").read_text() == "-Q /th Tmmu\nPlan.v\n"


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    plan = training_plan(1)
    (tmp_path / "file").touch()
    with pytest.raises(TmmuError, match="cannot be made"):
        coq_file.write(tmp_path / "file" / "coq", "n", plan, permitted(plan, None, NOBODY), NOBODY, DIGEST, Path("/th"))
