"""cvc5 beside Z3: what it is asked means the same, it can say no, and where they disagree nobody says PROVED.

spec: V4.10, V4.6, C4.3
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import z3

from proofs.proving import obligations
from proofs.proving.kernel import coq_file
from proofs.proving.lemmas import export, families
from proofs.proving.lemmas.plan.chains import DEFINITIONS
from proofs.proving.obligations import Outcome
from proofs.proving.smt.expressions import parse, text_of, walk
from proofs.proving.solvers import Answer, refutation
from proofs.proving.solvers.process import CVC5, SOLVERS
from proofs.verify.entry import run
from proofs.verify.export import folder_of
from tests.support.text_models import text_model
from tmmu.examples.broken.editing import changed
from tmmu.planner import plan_memory
from tmmu.plans import file

TENANTS = "(tenancy (- 1) 7 0 64 (tenant 2 3 0 64 8 (tenant 5 7 0 32 8 vacant)))"
CHAIN = text_model("node relu Relu x -> a", "node relu2 Relu a -> b", "node add Add a b -> y")


@pytest.mark.parametrize(
    ("row", "holds"),
    [
        (TENANTS, True),
        (TENANTS.replace("(tenant 5", "(tenant 3"), False),
        (TENANTS.replace("(- 1) 7", "(- 1) 8"), False),
        ("(layout 0 96 (slot 0 64 8 (slot 64 32 8 no_slots)))", True),
        ("(layout 0 96 (slot 0 64 8 (slot 63 33 8 no_slots)))", False),
    ],
)
def test_it_evaluates_rows_as_they_are_meant(row: str, holds: bool) -> None:
    with CVC5(DEFINITIONS) as solver:
        answer = solver.evaluate(refutation(row), 20)
        assert answer.proof is holds
        assert answer.counterexample is not holds


def test_a_child_that_runs_on_is_given_up() -> None:
    hard = "(push)(declare-const x Int)(declare-const y Int)(declare-const z Int)(assert (and (< 2 x) (< 2 y) (< 2 z)"
    hard += "(= (+ (* x x x x x) (* y y y y y)) (* z z z z z))))(check-sat)(pop)(check-sat)"
    with CVC5() as solver:
        answer = solver.evaluate(hard, 2)
        assert not answer.proof
        assert solver.evaluate(refutation("(< 1 2)"), 20).proof


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the lemmas are on record that a test before this one had proved."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def plan(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    file.save(plan_memory(CHAIN).plan, tmp_path / "chain.plan.cbor")
    return "chain.plan.cbor"


def test_both_solvers_prove_a_right_plan_and_the_verdict_says_who_said_what(
    plan: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([plan, "--solver", "both", "--format", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["files"]
    asked = [entry for entry in found["obligations"] if "solvers" in entry]
    assert {entry["name"] for entry in asked} >= {"no_live_overlap", "lemmas", "definition"}
    assert all(entry["solvers"] == {"z3": "PROVED", "cvc5": "PROVED"} for entry in asked)
    assert run([plan, "--solver", "cvc5"]) == 0


def test_the_definition_is_asked_by_a_command_of_its_own(plan: str, tmp_path: Path) -> None:
    """`python -m proofs.proving.promises PLAN`: Z3 alone. spec: V4.7"""
    wrong = tmp_path / "wrong.cbor"
    file.save(changed(file.load(plan).plan, "storages", 1, offset=1), wrong)
    for path, code, said in ((plan, 0, "alignment: holds"), (str(wrong), 1, "")):
        done = subprocess.run(
            [sys.executable, "-m", "proofs.proving.promises", path], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (code, "")
        assert said in done.stdout


def test_where_solvers_disagree_nothing_is_proved(
    plan: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    original = obligations.prove

    def proved_by_one(*given: object, solver: str, **options: object) -> list[Outcome]:
        found = original(*given, solver="z3", **options)  # type: ignore[arg-type]
        if solver == "cvc5":
            found[0] = Outcome(found[0].name, "VIOLATED", 1, 0.0, hint="a, b: (row)")
        return found

    monkeypatch.setattr(obligations, "prove", proved_by_one)
    assert run([plan, "--solver", "both"]) == 3
    out = capsys.readouterr().out
    assert out.startswith("UNKNOWN")
    assert "z3 answers PROVED; cvc5 answers VIOLATED: a, b: (row)" in out


def test_a_solver_that_gives_no_answer_does_not_disagree(
    plan: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """spec: V4.6, V4.10"""

    class Late(CVC5):
        """Gives up at once."""

        def evaluate(self, text: str, timeout_s: float) -> Answer:
            return Answer("", "the solver gave no answer within 1 s", 0.0)

    monkeypatch.setitem(SOLVERS, "cvc5", Late)
    assert run([plan, "--solver", "both"]) == 3
    out = capsys.readouterr().out
    assert "z3 answers PROVED; cvc5 answers UNKNOWN: " in out
    assert "disagree" not in out


@pytest.mark.parametrize(
    ("answers", "verdict"),
    [
        (("PROVED", "UNKNOWN"), "PROVED"), (("UNKNOWN", "PROVED"), "PROVED"), (("UNKNOWN", "UNKNOWN"), "UNKNOWN"),
        (("PROVED", "VIOLATED"), "UNKNOWN"), (("VIOLATED", "UNKNOWN"), "UNKNOWN"),
    ],
)  # fmt: skip
def test_the_definition_alone_may_be_left_to_one_solver(
    answers: tuple[str, str],
    verdict: str,
    plan: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Another is given up early once it is proved. spec: V4.7, V4.10"""
    original, patience = obligations.prove, []

    def proved(*given: object, solver: str, **options: Any) -> list[Outcome]:
        patience.append(options["definition_timeout_s"])
        *others, last = original(*given, solver="z3", **options)  # type: ignore[arg-type]
        assert last.name == "definition"
        return [*others, replace(last, verdict=answers[solver == "cvc5"], seconds=0.1, note="")]

    monkeypatch.setattr(obligations, "prove", proved)
    assert run([plan, "--solver", "both"]) == {"PROVED": 0, "UNKNOWN": 3}[verdict]
    out = capsys.readouterr().out
    assert out.startswith(verdict)
    if verdict == "PROVED":
        assert f"note: definition: no answer of {('z3', 'cvc5')[answers.index('UNKNOWN')]}" in out
    assert patience == [600, obligations.PATIENCE_S if answers[0] == "PROVED" else 600]


@pytest.mark.parametrize("liar", ["z3", "cvc5"])
def test_a_solver_that_lies_of_one_obligation_is_told_by_name(
    liar: str, plan: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It answers that a row is false, where the other proves it. spec: V4.10"""
    honest = SOLVERS[liar]

    class Lying(honest):  # type: ignore[misc, valid-type]
        """Says that the storages of the arena do not end within its footprint."""

        def evaluate(self, text: str, timeout_s: float) -> Answer:
            answer: Answer = super().evaluate(text, timeout_s)
            return replace(answer, text="sat\nsat") if "(ends_within " in text and answer.proof else answer

    monkeypatch.setitem(SOLVERS, liar, Lying)
    assert run([plan, "--solver", "both", "--format", "json"]) == 3
    (found,) = json.loads(capsys.readouterr().out)["files"]
    (disputed,) = [entry for entry in found["obligations"] if len(set(entry.get("solvers", {}).values())) > 1]
    assert disputed["name"] == "capacity"
    assert disputed["verdict"] == "UNKNOWN"
    assert disputed["solvers"] == {"z3": "PROVED", "cvc5": "PROVED"} | {liar: "VIOLATED"}
    assert any("the solvers disagree" in note for note in found["notes"])


def statuses(path: Path) -> tuple[list[str], list[str]]:
    """What a file says that its checks answer, and what Z3 answers."""
    text = path.read_text()
    context = z3.Context()
    answers = z3.Z3_eval_smtlib2_string(context.ref(), text).split()
    return re.findall(r"\(set-info :status (\w+)\)\s*\(check-sat\)", text), answers


def test_what_is_exported_is_what_it_says(plan: str, tmp_path: Path) -> None:
    """spec: C4.3"""
    assert run([plan, "--smt2", "out"]) == 0
    files = sorted((tmp_path / "out").rglob("*.smt2"))
    assert {path.stem for path in (tmp_path / "out/chain").iterdir()} >= {"no_live_overlap", "definition", "peak"}
    assert len(list((tmp_path / "out/lemmas").iterdir())) >= 30
    for path in files:
        stated, answered = statuses(path)
        assert stated == answered, path
        assert "unsat" in stated
        assert stated[-1] == "sat"
        assert "set-option" not in path.read_text()
        assert not re.search(r"\s-\d", path.read_text())


AT_LEAST_TWO = frozenset({"and", "or", "=>", "=", "distinct", "+", "*", "div", "mod", "<", "<=", ">", ">="})


def alone(text: str) -> list[str]:
    """The calls of what takes two arguments or more that have fewer: Z3 takes them, and SMT-LIB has none."""
    calls = (item for form in parse(text) for item in walk(form) if isinstance(item, list) and item)
    return [text_of(call) for call in calls if isinstance(call[0], str) and call[0] in AT_LEAST_TWO and len(call) < 3]


def test_no_connective_stands_alone_in_what_is_exported(plan: str, tmp_path: Path) -> None:
    """spec: C4.3"""
    assert alone("(assert (and (= x 1)))(assert (or true (= 1)))") == ["(and (= x 1))", "(= 1)"]
    assert run([plan, "--smt2", "out"]) == 0
    export.write_lemmas(tmp_path / "out/all", families.lemma_names())
    files = sorted((tmp_path / "out").rglob("*.smt2"))
    assert len(files) > len(families.lemma_names())
    for path in files:
        assert alone(path.read_text()) == [], path


def test_the_sizes_of_an_envelope_are_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of a wider envelope than the sizes were planned for is noticed by its reader. spec: C4.3, R6.5"""
    monkeypatch.chdir(tmp_path)
    model = text_model("dim m 1 64", "node tanh Tanh x -> a", "node relu Relu a -> y", each="u8 m")
    file.save(plan_memory(model).plan, tmp_path / "open.plan.cbor")
    assert run(["open.plan.cbor", "--smt2", "out"]) == 0
    path = tmp_path / "out/open/sizes_over_envelope.smt2"
    assert statuses(path) == (["unsat", "sat"] * 2, ["unsat", "sat"] * 2)
    text = path.read_text()
    assert text.startswith("; For every shape inside the envelope, every tensor has at most the bytes")
    path.write_text(text.replace("(<= d0 64)", "(<= d0 65)"))
    with pytest.raises(z3.Z3Exception, match="annotation that says unsat"):
        statuses(path)


def test_a_false_row_in_an_exported_file_is_noticed_by_its_reader(plan: str, tmp_path: Path) -> None:
    assert run([plan, "--smt2", "out"]) == 0
    path = tmp_path / "out/chain/capacity.smt2"
    path.write_text(path.read_text().replace("(assert (not (and true", "(assert (not (and false", 1))
    with pytest.raises(z3.Z3Exception, match="annotation that says unsat"):
        statuses(path)


def test_a_refuted_plan_is_not_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    right = plan_memory(CHAIN).plan
    file.save(changed(right, "storages", 1, death=0), tmp_path / "wrong.plan.cbor")
    assert run(["wrong.plan.cbor", "--smt2", "out"]) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("now", ["refuted", "no plan"])
def test_what_an_earlier_run_wrote_of_a_plan_does_not_outlive_it(plan: str, tmp_path: Path, now: str) -> None:
    """spec: C4.4"""
    assert run([plan, "--smt2", "out"]) == 0
    kept, lemmas = tmp_path / "out/chain/notes.smt2", list((tmp_path / "out/lemmas").iterdir())
    kept.write_text("the user's own")
    if now == "refuted":
        file.save(changed(plan_memory(CHAIN).plan, "storages", 1, death=0), tmp_path / plan)
    else:
        (tmp_path / plan).write_bytes(b"no plan")
    assert run([plan, "--smt2", "out"]) == {"refuted": 1, "no plan": 4}[now]
    assert list((tmp_path / "out/chain").iterdir()) == [kept]
    assert list((tmp_path / "out/lemmas").iterdir()) == lemmas


def test_what_cannot_be_removed_is_named(plan: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """spec: C4.4, C2.6"""
    (tmp_path / "out/chain/capacity.smt2").mkdir(parents=True)
    assert run([plan, "--smt2", "out"]) == 2
    assert "capacity.smt2: cannot be removed" in capsys.readouterr().err


def test_of_a_file_for_coq_only_what_was_written_here_is_removed(tmp_path: Path) -> None:
    """spec: C4.4"""
    written, project = tmp_path / "Plan.v", tmp_path / "_CoqProject"
    for text, stays in (
        (f"(* The plan {'a/' * 30}b.cbor, whose file has the digest\n   00\n", False),
        ("(* The plan b.plan.txt, whose translation has the digest\n   00\n", False),
        ("(* My plan *)\n", True),
    ):
        written.write_text(text)
        coq_file.remove_coq_file(tmp_path)
        assert written.exists() is stays
    for text, stays in (("-Q /a/b Tmmu\nPlan.v\n", False), ("-Q /a/b Tmmu\nPlan.v\nMine.v\n", True)):
        project.write_text(text)
        coq_file.remove_coq_file(tmp_path)
        assert project.exists() is stays
    coq_file.remove_coq_file(tmp_path / "absent")


def test_plans_that_would_be_written_to_one_folder_are_refused(
    plan: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "more").mkdir()
    other = tmp_path / "more" / Path(plan).name
    other.write_bytes(Path(plan).read_bytes())
    assert run([plan, str(other), "--smt2", "out"]) == 2
    assert "would be written to one folder" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["...cbor", ".cbor", "lemmas.plan.cbor"])
def test_no_name_of_a_plan_leads_out_of_its_own_folder(name: str) -> None:
    assert folder_of("out", f"a/{name}") == Path("out") / name


def test_a_folder_that_cannot_be_made_is_named(plan: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert run([plan, "--smt2", str(tmp_path / "file" / "out")]) == 2
    assert "--smt2" in (said := capsys.readouterr().err)
    assert str(tmp_path / "file" / "out") in said
