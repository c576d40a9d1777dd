"""The configuration of a run and the manifest: what is refused, and how a question is put about one check alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from proofs.model_check import config, manifest
from proofs.model_check.config import Config, WrongConfig
from proofs.model_check.manifest import Edit, WrongManifest
from tests.support.model_folder import TEXT, written


def test_a_configuration_is_read_and_written() -> None:
    question = config.read_config(TEXT)
    assert question == Config("Spec", ("Count = 3", "Names = {a, b}"), ("TypeOK", "Held"), ("Ends",), False)
    assert config.read_config(question.text()) == question
    assert config.read_config(TEXT.replace("FALSE", "TRUE")).checks == ("TypeOK", "Held", "Ends", "Deadlock")


def test_a_question_about_one_check_asks_nothing_else() -> None:
    question = config.read_config(TEXT.replace("FALSE", "TRUE"))
    for name in question.checks:
        assert question.only(name).checks == (name,)
        assert question.only(name).constants == question.constants
    assert question.only("Ends").properties == ("Ends",)
    assert question.only("Never").invariants == ("Never",)
    assert question.only("Never", temporal=True).properties == ("Never",)


@pytest.mark.parametrize(
    ("before", "after", "objection"),
    [
        ("PROPERTY", "PROPERTEE", "line 9: 'PROPERTEE' is not one of"),  # trap 10: TLC would take it for an invariant
        ("PROPERTY", "CONSTRAINT", "'CONSTRAINT' is not one of"),  # trap 9
        ("PROPERTY", "SYMMETRY", "'SYMMETRY' is not one of"),  # trap 9
        ("PROPERTY", "INVARIANT", "INVARIANTS occurs twice"),
        ("PROPERTY\n", "PROPERTY Ends\n", "must be on indented lines"),
        ("SPECIFICATION Spec", "SPECIFICATION", "takes one word"),
        ("SPECIFICATION Spec\n", "", "SPECIFICATION is missing"),
        ("SPECIFICATION Spec\n", "SPECIFICATION Spec\n   More\n", "must belong to a list"),
        ("CHECK_DEADLOCK FALSE", "", "CHECK_DEADLOCK is missing"),
        ("CHECK_DEADLOCK FALSE", "CHECK_DEADLOCK NO", "CHECK_DEADLOCK is missing"),
        ("    TypeOK", "    TypeOK Held", "expected one name"),
        ("    TypeOK", "    Held", "checked twice"),
        ("INVARIANTS\n    TypeOK\n    Held\nPROPERTY\n    Ends\n", "", "nothing is checked"),
    ],
)
def test_a_wrong_configuration_is_refused(before: str, after: str, objection: str) -> None:
    assert before in TEXT
    with pytest.raises(WrongConfig, match=objection):
        config.read_config(TEXT.replace(before, after))


def document() -> dict[str, Any]:
    return {
        "modules": [
            {
                "module": "Toy", "folder": "toys", "statement": "A toy.",
                "models": [
                    {"name": "Toy", "root": "Toy", "distinct_states": 3, "depth": 2},
                    {"name": "Toy-wrong", "root": "Toy", "config": "Toy.cfg", "expected": "Held", "size": "full"},
                ],
                "twins": [{"name": "Toy-twin", "replace": "x", "by": "y", "violates": "Ends"}],
                "nonproperties": [{"name": "Toy-never", "violates": "Never", "model": "Toy"}],
            }
        ]
    }  # fmt: skip


def test_a_manifest_gives_models_twins_and_nonproperties(tmp_path: Path) -> None:
    (module,) = manifest.read_manifest(written(tmp_path, document()))
    assert [(run.name, run.kind, run.expected, run.checks) for run in module.runs] == [
        ("Toy", "model", "success", ("TypeOK", "Held", "Ends")),
        ("Toy-wrong", "model", "Held", ("Held",)),
        ("Toy-twin", "twin", "Ends", ("Ends",)),
        ("Toy-never", "nonproperty", "Never", ("Never",)),
    ]
    assert module.runs[2].edit == Edit("Toy.tla", "x", "y")
    assert module.unviolated == ("TypeOK", "Held")


def changed(path: str, value: Any) -> dict[str, Any]:
    """The document with one value replaced; None removes it. The path is of keys and numbers."""
    content = document()
    at: Any = content["modules"][0]
    *way, last = path.split("/")
    for step in way:
        at = at[int(step)] if step.isdigit() else at[step]
    if value is None:
        del at[last]
    else:
        at[last] = value
    return content


@pytest.mark.parametrize(
    ("content", "objection"),
    [
        ("{", "manifest.json"),
        ("[]", "not an object"),
        ({"modules": {}}, "modules is not of type list"),
        ({"modules": [1]}, "a module is not an object"),
        (changed("models", []), "unknown model None"),
        (changed("twins", [3]), "unknown model None"),
        (changed("folder", 3), "folder is not of type str"),
        (changed("folder", "../toys"), r"folder '../toys' is not a name"),
        (changed("models/0/name", "a/b"), "is not a name"),
        (changed("models/0/root", ""), "is not a name"),
        (changed("twins/0/file", "../../x"), "is not a name"),
        ({"models": []}, "lacks modules"),
        (changed("statement", None), "lacks statement"),
        (changed("extra", 1), "unknown extra"),
        (changed("models/0/depth", None), "must pin its distinct_states and its depth"),
        (changed("models/0/distinct_states", "3"), "distinct_states is not of type int"),
        (changed("models/0/config", "None.cfg"), "None.cfg"),
        (changed("models/1/expected", "Other"), "'Other' is not checked"),
        (changed("models/1/size", "huge"), "'huge' is not one of"),
        (changed("models/1/name", "Toy-twin"), "used twice"),
        (changed("twins/0/violates", "Never"), "'Never' is not checked"),
        (changed("twins/0/model", "None"), "unknown model 'None'"),
        (changed("twins/0/by", None), "lacks by"),
        (changed("nonproperties/0/by", "y"), "unknown by"),
    ],
)
def test_a_wrong_manifest_is_refused(tmp_path: Path, content: Any, objection: str) -> None:
    with pytest.raises(WrongManifest, match=objection):
        manifest.read_manifest(written(tmp_path, content))


def test_a_manifest_with_a_wrong_configuration_or_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WrongManifest, match=r"manifest\.json"):
        manifest.read_manifest(tmp_path)
    with pytest.raises(WrongManifest, match=r"Toy.cfg: line 1: 'ALIAS' is not one of"):
        manifest.read_manifest(written(tmp_path, document(), "ALIAS Spec"))


def test_a_twin_changes_exactly_one_place() -> None:
    assert Edit("Toy.tla", "death < now", "death <= now").apply("a death < now b") == "a death <= now b"
    for text, edit in [("x x", Edit("T", "x", "y")), ("z", Edit("T", "x", "y")), ("x", Edit("T", "x", "x"))]:
        with pytest.raises(WrongManifest):
            edit.apply(text)
