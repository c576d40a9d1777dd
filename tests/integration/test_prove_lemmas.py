"""`prove-lemmas`: every lemma is proved, says something, and is refuted where it is changed; and it can say no.

spec: V4.9, C4.1, C4.2
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from proofs.proving.lemmas import families
from proofs.proving.lemmas.engine import checked, proving
from proofs.proving.lemmas.engine.checked import Evidence
from proofs.proving.lemmas.engine.family import Family, mutants_of, statements_of
from proofs.proving.lemmas.engine.induction import Lemma
from proofs.proving.lemmas.engine.proving import LemmaReport
from proofs.proving.lemmas.engine.statements import Mutant, Statement, World, expand_quantifiers
from proofs.proving.lemmas.planner import zeroing
from proofs.proving.smt.expressions import parse_one, text_of
from proofs.proving.solvers import Answer, smtinterpol
from proofs.proving.solvers.process import Z3
from tmmu.core.process import run_command

LEMMAS = families.by_name()
run = partial(run_command, "proofs.proving.lemmas.command")
FALSE = Statement(
    "every_number_is_small", "Every number is less than seven.", "(declare-const x Int)", (), "(< x 7)",
    (Mutant("eight", "(< x 7)", "(< x 8)"),),
)  # fmt: skip
EMPTY = Statement(
    "nothing_is_said", "Where a number is less than itself, it is seven.", "(declare-const x Int)", ("(< x x)",),
    "(= x 7)", (Mutant("any number", "(< x x)", "(< x 9)"),),
)  # fmt: skip
HARMLESS = Statement(
    "a_number_is_not_less_than_itself", "No number is less than itself.", "(declare-const x Int)", (), "(not (< x x))",
    (Mutant("written otherwise", "(not (< x x))", "(<= x x)"),),
)  # fmt: skip


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> object:
    """Replaces all statements by those given, of the file `zeroing`."""

    def set_to(*statements: Statement) -> None:
        monkeypatch.setattr(families, "FAMILIES", {"planner/zeroing": Family("planner/zeroing", statements)})

    return set_to


def test_lemmas_are_listed_with_their_files_and_sentences(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 * len(families.lemma_names())
    assert "linear_scan_is_inductive  (planner/linear_scan)" in lines


def test_of_named_lemmas_and_files_those_alone_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """spec: C4.2"""
    assert run(["--list", "zeroing", "tenants_fit"]) == 0
    lines = capsys.readouterr().out.splitlines()[::2]
    assert lines == ["tenants_fit  (plan/tenancy)", *(f"{lemma.name}  (planner/zeroing)" for lemma in zeroing.LEMMAS)]
    assert run(["--list", "no_such_lemma"]) == 2
    said = capsys.readouterr()
    assert (said.out, "no lemma or file of lemmas has the name 'no_such_lemma'" in said.err) == ("", True)


@pytest.mark.parametrize("name", ["cover", "cover.py", "plan/cover", "proofs/proving/lemmas/plan/cover.py"])
def test_a_file_is_named_as_the_output_names_it(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """spec: C4.1"""
    assert run([name, "--list"]) == 0
    assert capsys.readouterr().out.count("  (plan/cover)\n") == len(families.FAMILIES["plan/cover"].lemmas)
    assert {family.file for family in families.select_families([name])} == {"plan/cover"}


@pytest.mark.parametrize(
    "name", ["tenants_fit.py", "proofs/proving/lemmas/tenancy", "other/tenancy.py", "", "chains", "engine"]
)
def test_what_names_no_file_of_lemmas_is_refused(name: str) -> None:
    """spec: C4.2"""
    assert run([name, "--list"]) == run([name]) == 2


def test_every_lemma_has_a_name_of_its_own_a_sentence_and_mutants_that_apply() -> None:
    assert len(LEMMAS) == len(families.lemma_names()) >= 110
    for family, lemma in LEMMAS.values():
        assert lemma.sentence[0].isupper()
        assert lemma.sentence.endswith(".")
        assert len(set(mutants_of(lemma))) == len(mutants_of(lemma)) > 0
        texts = (
            [(f"{family.text}\n(prove {lemma.claim})", lemma.mutants)]
            if isinstance(lemma, Lemma)
            else [(statement.text, statement.mutants) for statement in statements_of(lemma)]
        )
        for text, mutants in texts:
            assert all(mutant.applied(text) != text for mutant in mutants)


def test_named_lemmas_and_files_are_proved_with_cases(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tenants_fit", "zeroing", "--format", "json"]) == 0
    found = {lemma["name"]: lemma for lemma in json.loads(capsys.readouterr().out)["lemmas"]}
    assert list(found) == ["tenants_fit", *(lemma.name for lemma in zeroing.LEMMAS)]
    fits = found["tenants_fit"]
    assert (fits["verdict"], fits["solvers"], fits["open"]) == ("PROVED", {"z3": "PROVED"}, [])
    assert "tenants_0_bytes" in fits["twin"]
    assert [case["name"] for case in fits["mutants_refuted"]] == [
        "another offset",
        "one byte too many",
        "any alignment",
    ]
    assert all(" = " in case["case"] for case in fits["mutants_refuted"])


ONE = LemmaReport(
    "one", "planner/zeroing", "One is one.", 3, verdict="PROVED", twin="x = 1",
    solvers={"z3": "PROVED", "cvc5": "tired"}, mutants_refuted={"two": "x = 2", "three": "x = 3"},
)  # fmt: skip
OPEN = replace(ONE, name="two", verdict="UNKNOWN", open=["cvc5, seed 1: tired", "its twin: tired"])
FALSE_MUTANT = replace(ONE, name="three", verdict="REFUTED", mutants_refuted={}, open=["it has no mutant"])


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, object]]:
    """Reports instead of proofs; what was asked for is noted."""

    def set_to(*reports: LemmaReport) -> dict[str, object]:
        asked: dict[str, object] = {}

        def prove_all(chosen: list[Family], **options: object) -> Iterator[LemmaReport]:
            asked.update(options, files=[family.file for family in chosen])
            yield from reports

        monkeypatch.setattr(proving, "prove_all", prove_all)
        return asked

    return set_to


@pytest.mark.parametrize(
    ("reports", "code"),
    [
        ((ONE,), 0), ((ONE, OPEN), 3), ((OPEN, ONE), 3), ((FALSE_MUTANT, ONE), 1), ((OPEN, FALSE_MUTANT, ONE), 1),
        ((FALSE_MUTANT, OPEN), 1),
    ],
)  # fmt: skip
def test_the_worst_verdict_is_the_exit_code(
    reports: tuple[LemmaReport, ...], code: int, reported: Callable[..., dict[str, object]]
) -> None:
    """spec: C4.2"""
    reported(*reports)
    assert run([]) == run(["--format", "json"]) == code


def test_what_is_asked_for_is_asked_of_the_proofs(reported: Callable[..., dict[str, object]]) -> None:
    asked = reported(ONE)
    for flags, solvers, seeds, timeout in (
        ([], ("z3",), 1, 20), (["--solver", "cvc5"], ("cvc5",), 1, 20), (["--solver", "both"], ("z3", "cvc5"), 1, 20),
        (["--seeds", "3", "--timeout", "7"], ("z3",), 3, 7),
    ):  # fmt: skip
        assert run(["tenants_fit", "zeroing", *flags]) == 0
        assert asked == {
            "files": ["plan/tenancy", "planner/zeroing"],
            "solvers": solvers,
            "seeds": seeds,
            "timeout_s": timeout,
        }


def test_a_report_is_printed_with_its_cases_where_they_are_asked_for(
    reported: Callable[..., dict[str, object]], capsys: pytest.CaptureFixture[str]
) -> None:
    """spec: C4.1"""
    reported(ONE, OPEN)
    proved = ["PROVED one (planner/zeroing): 2 mutants refuted, z3: PROVED, cvc5: tired"]
    unknown = [
        "UNKNOWN two (planner/zeroing): 2 mutants refuted, z3: PROVED, cvc5: tired",
        "    open: cvc5, seed 1: tired", "    open: its twin: tired",
    ]  # fmt: skip
    cases = [
        "    One is one.", "    holds for x = 1", "    mutant 'two' is false for x = 2",
        "    mutant 'three' is false for x = 3",
    ]  # fmt: skip
    last = [
        "verdicts rest on: 0 of 0 lemmas proved by z3 and cvc5",
        "algorithms and systems: 1 of 2 lemmas proved by z3 and cvc5", "4 mutants refuted",
    ]  # fmt: skip
    assert run(["--solver", "both"]) == 3
    assert capsys.readouterr().out.splitlines() == [*proved, *unknown, *last]
    assert run(["--solver", "both", "--cases"]) == 3
    assert capsys.readouterr().out.splitlines() == [*proved, *cases, *unknown, *cases, *last]


def test_json_says_all_of_a_report(
    reported: Callable[..., dict[str, object]], capsys: pytest.CaptureFixture[str]
) -> None:
    """spec: C4.1"""
    reported(replace(OPEN, proof=Evidence("NONE", "answers '→'")))
    assert run(["--format", "json"]) == 3
    out = capsys.readouterr().out
    assert "→" in out
    assert json.loads(out) == {
        "proved": {"verdicts": [0, 0], "algorithms_and_systems": [0, 1]},
        "lemmas": [
            {
                "name": "two", "file": "proofs/proving/lemmas/planner/zeroing.py", "sentence": "One is one.",
                "verdict": "UNKNOWN",
                "solvers": {"z3": "PROVED", "cvc5": "tired"}, "seeds": 3, "twin": "x = 1",
                "mutants_refuted": [{"name": "two", "case": "x = 2"}, {"name": "three", "case": "x = 3"}],
                "proof": {"verdict": "NONE", "detail": "answers '→'"},
                "open": ["cvc5, seed 1: tired", "its twin: tired"],
            }
        ]
    }  # fmt: skip


def test_the_proofs_are_counted_that_the_checker_accepts(
    reported: Callable[..., dict[str, object]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """spec: C4.5"""
    proofs = {"tenants_fit": Evidence("CHECKED", "14 steps"), "no_index_has_two_ranks": Evidence("NONE", "unknown")}
    reported(*(replace(ONE, name=name) for name in proofs))
    monkeypatch.setattr(smtinterpol, "find_smtinterpol", lambda: None)
    monkeypatch.setattr(checked, "check_proofs", lambda file, lemma, *_: proofs[lemma.name])
    assert run(["--proofs", "folder"]) == 0
    first, second, *_, last = capsys.readouterr().out.splitlines()
    assert first.endswith(", proof CHECKED: 14 steps")
    assert second.endswith(", proof NONE: unknown")
    assert last.startswith("1 of 2 ")


def test_what_is_reported_is_what_is_exported(reported: Callable[..., dict[str, object]], tmp_path: Path) -> None:
    """spec: C4.3"""
    reported(replace(ONE, name="tenants_fit"))
    assert run(["--smt2", str(tmp_path / "out")]) == 0
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["tenants_fit.smt2"]


@pytest.mark.parametrize("option", ["--smt2", "--proofs"])
@pytest.mark.parametrize(("name", "said"), [("", "is empty"), ("file/out", "file/out cannot be written")])
def test_where_nothing_can_be_written_nothing_is_proved(
    option: str, name: str, said: str, tmp_path: Path, reported: Callable[..., dict[str, object]],
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """spec: C4.3, C4.5"""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    asked = reported(ONE)
    assert run([option, name]) == 2
    err = capsys.readouterr().err
    assert (asked, err.count("\n")) == ({}, 1)
    assert f"{option}: " in err.replace("'", "")
    assert said in err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("given", "named"), [(["--smt2"], "--smt2: "), (["--smt2", "--proofs"], "--smt2 or --proofs: ")]
)
def test_what_cannot_be_written_at_last_is_said_of_the_options_given(
    given: list[str], named: str, tmp_path: Path, reported: Callable[..., dict[str, object]],
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """spec: C4.3"""
    reported(replace(ONE, name="tenants_fit"))
    monkeypatch.setattr(smtinterpol, "find_smtinterpol", lambda: None)
    monkeypatch.setattr(checked, "check_proofs", lambda *_: Evidence("CHECKED", "14 steps"))
    (tmp_path / "tenants_fit.smt2").mkdir()
    assert run([part for option in given for part in (option, str(tmp_path))]) == 2
    assert f"error: Invalid value for {named}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("statement", "code", "said"),
    [
        (FALSE, 3, "z3, seed 0: the solver answers 'sat"),
        (EMPTY, 1, "have no model"),
        (HARMLESS, 1, "'written otherwise' is not false"),
        (HARMLESS._replace(mutants=()), 1, "no mutant"),
    ],
)
def test_what_is_false_says_nothing_or_is_not_refuted_is_said(
    statement: Statement, code: int, said: str, only: object, capsys: pytest.CaptureFixture[str]
) -> None:
    only(statement)  # type: ignore[operator]
    assert run([]) == code
    assert said in capsys.readouterr().out


def test_a_mutant_that_does_not_apply_once_is_an_error() -> None:
    with pytest.raises(ValueError, match="occurs 0 times"):
        Mutant("nowhere", "(> x 7)", "x").applied(FALSE.text)
    with pytest.raises(ValueError, match="occurs 2 times"):
        Mutant("twice", "x", "y").applied("x x")


def test_a_proof_is_not_restricted_to_the_small_world() -> None:
    """In the small world no integer exceeds 4; the statement is false beyond, and the proof must see that."""
    bounded = Statement(
        "all_are_small", "Every number is at most four.", "(declare-const x Int)", (),
        "(forall ((y Int)) (=> (= x y) (<= y 4)))", (), World({}),
    )  # fmt: skip
    report = next(iter(reports_of(bounded)))
    assert report == "the solver answers 'sat\\nsat'"


def reports_of(statement: Statement) -> list[str]:
    return list(proving._failed(Family("here", (statement,)), "z3", 0, 20).values())


@pytest.mark.parametrize("name", ["no_two_pages_are_to_be_evicted", "tenants_fit"])
def test_a_solver_that_dies_over_a_twin_or_a_mutant_refutes_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose solver dies is UNKNOWN, and that lemma alone; what it said before stays said. spec: V4.6, V4.9"""

    class Dying(Z3):
        """Is killed at the second question about a case that it is asked."""

        asked = 0

        def evaluate(self, text: str, timeout_s: float) -> Answer:
            if "(check-sat)" in text:
                Dying.asked += 1
                if Dying.asked == 2:
                    super().evaluate("", timeout_s)
                    assert self.pid is not None
                    os.kill(self.pid, signal.SIGKILL)
            return super().evaluate(text, timeout_s)

    monkeypatch.setattr(proving, "Z3", Dying)
    found = list(proving.prove_all(families.select_families([name, "no_index_has_two_ranks"])))
    by_name = {report.name: report for report in found}
    assert Dying.asked > 2
    assert sorted(report.verdict for report in found) == ["PROVED", "UNKNOWN"]
    (hurt,) = [report for report in found if report.verdict == "UNKNOWN"]
    assert hurt.solvers == {"z3": "PROVED"}
    assert len(hurt.open) == 1
    assert "the solver died of SIGKILL" in hurt.open[0]
    assert by_name.keys() == {name, "no_index_has_two_ranks"}


def test_a_case_that_no_solver_decides_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """spec: V4.9"""

    class Tired(Z3):
        """Decides nothing."""

        def evaluate(self, text: str, timeout_s: float) -> Answer:
            return Answer("unknown" if "(check-sat)" in text else "", None, 0.0)

    monkeypatch.setattr(proving, "Z3", Tired)
    for report in proving.prove_all(families.select_families(["linear_scan_is_inductive", "tenants_fit"])):
        assert report.verdict == "UNKNOWN"
        lemma = LEMMAS[report.name][1]
        twins = 1 if isinstance(lemma, Lemma) else len(statements_of(lemma))
        assert len(report.open) == twins + len(mutants_of(lemma))
        assert all("the solver answers 'unknown'" in what for what in report.open)


@pytest.mark.parametrize(
    "declared",
    ["(assert false)", "(define-fun-rec f ((x Int)) Int (+ 1 (f x)))", "(push 1)", "(set-option :timeout 1)", "x"],
)
def test_a_statement_declares_and_defines_and_assumes_nothing_besides(declared: str) -> None:
    """What is asserted outside the hypotheses, or recurs, could prove anything. spec: V4.8"""
    statement = FALSE._replace(declarations=f"(declare-const x Int){declared}")
    for commands in (statement.refutation, statement.twin, lambda: statement.mutant(statement.mutants[0])):
        with pytest.raises(ValueError, match="neither declares"):
            commands()


def test_quantifiers_are_written_out_over_all_choices() -> None:
    ranges = {"S": ["a", "b"], "Int": ["0", "1"]}
    formula = parse_one("(forall ((x S)) (exists ((k Int)) (p x k)))")
    assert text_of(expand_quantifiers(formula, ranges)) == "(and (or (p a 0) (p a 1)) (or (p b 0) (p b 1)))"


def test_seeds_are_the_solvers_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert proving.seed_option("z3", 7) == "(set-option :smt.random_seed 7)(set-option :sat.random_seed 7)"
    assert run(["zeroing", "--seeds", "3", "--format", "json"]) == 0
    assert {lemma["seeds"] for lemma in json.loads(capsys.readouterr().out)["lemmas"]} == {3}


def test_the_second_solver_proves_them_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """spec: V4.10"""
    assert run(["zeroing", "tenancies_join", "--solver", "both", "--format", "json"]) == 0
    said = [lemma["solvers"] for lemma in json.loads(capsys.readouterr().out)["lemmas"]]
    assert said == [{"z3": "PROVED", "cvc5": "PROVED"}] * (1 + len(zeroing.LEMMAS))


def test_a_report_of_one_solver_that_fails_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """spec: V4.10"""

    def failed(family: Family, solver: str, seed: int, timeout_s: float) -> dict[str, str]:
        return {} if solver == "z3" else dict.fromkeys((lemma.name for lemma in family.lemmas), "tired")

    monkeypatch.setattr(proving, "_failed", failed)
    found = list(proving.prove_all(families.select_families(["zeroing"]), solvers=("z3", "cvc5")))
    assert {report.verdict for report in found} == {"UNKNOWN"}
    assert {report.solvers["cvc5"] for report in found} == {"tired"}
    assert replace(found[0], open=[]).open == []
