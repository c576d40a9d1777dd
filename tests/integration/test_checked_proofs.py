"""`prove-lemmas --proofs`: a proof counts where the checker answers so of all of it, and nowhere else.

What solver and checker really say is tested in `quality`; here others play them. spec: V4.12, C4.5
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from proofs.proving.lemmas import families
from proofs.proving.lemmas.engine import checked
from proofs.proving.lemmas.engine.instances import without_recursion
from proofs.proving.lemmas.plan import TEXT
from proofs.proving.smt.descent import Unfounded
from proofs.proving.solvers import smtinterpol
from proofs.proving.solvers.process import Z3
from proofs.proving.solvers.smtinterpol import ProofCheck, SMTInterpol
from proofs.tools import maven
from tests.support.commands import program
from tmmu.core.process import run_command

run = partial(run_command, "proofs.proving.lemmas.command")
ONE = "valid\nholes=0\nassertions=1\ndefinefuns=0\naxioms=3\nresolutions=4\n"
LEMMAS = families.by_name()


def playing(folder: Path, solver: str, checker: str, ends: int = 0) -> SMTInterpol:
    """A tool whose solver and whose checker print what is given, the checker with an exit code."""
    (folder / "solver.txt").write_text(solver)
    (folder / "checker.txt").write_text(checker)
    text = f'case "$*" in *-cp*) cat {folder}/checker.txt; exit {ends};; *) cat {folder}/solver.txt;; esac'
    return SMTInterpol(str(program(folder / "java", text)), folder / "tool.jar")


def found(tool: SMTInterpol, folder: Path, name: str = "tenants_fit") -> checked.Evidence:
    return checked.check_proofs(*LEMMAS[name], tool, folder / "new/out", 1)


def test_a_proof_is_kept_where_the_checker_accepts_that_of_each_query(tmp_path: Path) -> None:
    tool = playing(tmp_path, "unsat\n(! proof)\nunsat\n(! proof)\n", ONE + ONE)
    assert found(tool, tmp_path) == ("CHECKED", "14 steps")
    assert sorted(path.name for path in (tmp_path / "new/out").iterdir()) == ["tenants_fit.proof", "tenants_fit.smt2"]


@pytest.mark.parametrize(
    ("solver", "checker", "ends", "verdict", "said"),
    [
        ("unknown\nunsat\n(! p)\n", ONE + ONE, 0, "NONE", "answers 'unknown'"),
        ("sat\nunsat\n(! p)\n", ONE + ONE, 0, "NONE", "answers 'sat'"),
        ("unsat\n(! p)\n", ONE + ONE, 0, "NONE", "1 of 2 queries"),
        ("unsat\n(! p)\nunsat\n(error no proof)\n", ONE + ONE, 0, "NONE", "(error"),
        ("unsat\n(! p)\nunsat\n(! p)\n", ONE, 0, "NONE", "nothing that counts"),
        ("unsat\n(! p)\nunsat\n(! p)\n", "", 0, "NONE", "nothing that counts"),
        ("unsat\n(! p)\nunsat\n(! p)\n", ONE + ONE, 1, "NONE", "exit code 1"),
        ("unsat\n(! p)\nunsat\n(! p)\n", ONE + ONE.replace("holes=0", "holes=1"), 0, "NONE", "nothing that counts"),
        ("unsat\n(! p)\nunsat\n(! p)\n", ONE + "holey\nholes=1\n", 0, "NONE", "holey"),
        ("unsat\n(! p)\nunsat\n(! p)\n", ONE + "unknown\n", 0, "NONE", "nothing that counts"),
        ("unsat\n(! p)\nunsat\n(! p)\n", f"{ONE}in{ONE}", 0, "REFUSED", "invalid"),
        ("unsat\n(! p)\nunsat\n(! p)\n", ONE + "invalid\n", 0, "REFUSED", "invalid"),
    ],
)
def test_a_proof_that_is_not_all_there_and_right_does_not_count(
    tmp_path: Path, solver: str, checker: str, ends: int, verdict: str, said: str
) -> None:
    (tmp_path / "new/out").mkdir(parents=True)
    (tmp_path / "new/out/tenants_fit.proof").write_text("of an earlier run")
    evidence = found(playing(tmp_path, solver, checker, ends), tmp_path)
    assert evidence.verdict == verdict
    assert said in evidence.detail
    assert [path.name for path in (tmp_path / "new/out").iterdir()] == ["tenants_fit.smt2"]


def test_a_solver_that_does_not_start_or_end_gives_no_proof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = SMTInterpol(str(tmp_path / "absent"), tmp_path / "tool.jar")
    assert "cannot be started" in found(absent, tmp_path).detail
    slow = SMTInterpol(str(program(tmp_path / "java", "exec sleep 60")), tmp_path / "tool.jar")
    monkeypatch.setattr(smtinterpol, "MARGIN_S", -1.8)
    assert found(slow, tmp_path) == ("NONE", "it did not end within 0.2 s")


def test_each_query_has_its_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The solver is told of them in milliseconds; what does not end by itself is ended after those of all queries."""
    asked, kept = tmp_path / "asked.smt2", tmp_path / "kept"
    told = SMTInterpol(str(program(tmp_path / "java", 'echo "$@" >&1; echo unsat')), tmp_path / "tool.jar")
    assert told.prove(asked, 1, kept, 1.5) == ""
    assert f"-t 1500 {asked}\n" in kept.read_text()
    monkeypatch.setattr(smtinterpol, "MARGIN_S", 0)
    slow = SMTInterpol(str(program(tmp_path / "slow", "exec sleep 5")), tmp_path / "tool.jar")
    assert slow.prove(asked, 3, kept, 0.1) == "it did not end within 0.3 s"


def test_only_what_is_accepted_has_steps_and_only_what_is_invalid_is_wrong(tmp_path: Path) -> None:
    for checker, said in (
        (ONE, ProofCheck(7)), (ONE + "holey\n", ProofCheck(0, "the checker answers holey")),
        ("invalid\n", ProofCheck(0, "the checker answers invalid", wrong=True)),
    ):  # fmt: skip
        assert playing(tmp_path, "", checker).check(tmp_path / "asked", 1, tmp_path / "proofs") == said
    assert ProofCheck(7) == (7, "", False)


def test_the_tool_is_the_archive_with_the_java_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smtinterpol.java, "find_java", lambda: "/a/java")
    monkeypatch.setattr(maven, "fetch_archive", lambda artifact: Path(f"/kept/{artifact.version}.jar"))
    assert smtinterpol.find_smtinterpol() == SMTInterpol("/a/java", Path("/kept/2.5-1388-ga5a4ab0c.jar"))


def test_a_refused_proof_makes_its_lemma_unknown_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """spec: V4.13"""
    tool = playing(tmp_path, "unsat\n(! p)\nunsat\n(! p)\n", f"{ONE}invalid\n")
    monkeypatch.setattr(smtinterpol, "find_smtinterpol", lambda: tool)
    arguments = ["tenants_fit", "no_index_has_two_ranks", "--proofs", str(tmp_path / "out")]
    assert run([*arguments, "--format", "json"]) == 3
    lemmas = {lemma["name"]: lemma for lemma in json.loads(capsys.readouterr().out)["lemmas"]}
    assert lemmas["tenants_fit"]["verdict"] == "UNKNOWN"
    assert lemmas["tenants_fit"]["proof"] == {"verdict": "REFUSED", "detail": "the checker answers invalid"}
    assert "is refused: the checker answers invalid" in lemmas["tenants_fit"]["open"][0]
    other = lemmas["no_index_has_two_ranks"]
    assert (other["verdict"], other["proof"]["verdict"]) == ("PROVED", "NONE")
    playing(tmp_path, "unsat\n(! p)\nunsat\n(! p)\n", ONE + ONE)
    assert run([*arguments, "--cases"]) == 0
    out = capsys.readouterr().out
    assert "z3: PROVED, proof CHECKED: 14 steps\n" in out
    assert out.splitlines()[-1].startswith("1 of 2 ")


def test_without_the_option_no_proof_is_looked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tenants_fit", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["lemmas"][0]["proof"] is None


def test_a_missing_tool_is_named_with_what_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def absent() -> SMTInterpol:
        raise maven.Unfetchable("it is not here")

    monkeypatch.setattr(smtinterpol, "find_smtinterpol", absent)
    assert run(["tenants_fit", "--proofs", str(tmp_path)]) == 2
    assert "--proofs: it is not here" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--proofs", "--smt2"])
def test_a_folder_that_cannot_be_written_is_an_error_of_the_command_line(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(smtinterpol, "find_smtinterpol", lambda: playing(tmp_path, "", ""))
    (tmp_path / "file").write_text("")
    assert run(["tenants_fit", option, str(tmp_path / "file/out")]) == 2
    assert "name another folder" in capsys.readouterr().err


def test_what_is_asked_is_the_lemma_with_its_definitions_at_its_calls() -> None:
    text, queries = checked.proof_script(*LEMMAS["tenants_fit"])
    assert queries == text.count("(check-sat)\n(get-proof)\n(pop 1)") == 2
    assert "define-fun-rec" not in text
    assert "(assert (= (all_fit start size rest_of_list) (ite ((_ is vacant) rest_of_list) true" in text
    with Z3() as solver:  # nothing in it is undeclared, and without recursion it is refuted too
        assert solver.evaluate(text.replace("(get-proof)", ""), 20).text == "unsat\nunsat"
    with pytest.raises(Unfounded):
        without_recursion(TEXT + "(define-fun-rec f ((n Int)) Int (f n))", "")


def test_the_parts_of_a_goal_are_all_of_it() -> None:
    """Five obligations, of each of which the goal is the twelve clauses of the invariant."""
    text, queries = checked.proof_script(*LEMMAS["linear_scan_is_inductive"])
    assert queries == text.count("(check-sat)\n(get-proof)\n(pop 1)") == 5 * 12
    text, queries = checked.proof_script(*LEMMAS["no_index_has_two_ranks"])
    assert queries == 1
    assert "(assert (not (not (and (and (<= (* rank width) index)" in text
