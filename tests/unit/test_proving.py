"""What a lemma's report says, and that nothing but answers makes it: solvers are played, or asked about small things.

spec: V4.3, V4.9
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from proofs.proving.lemmas import families
from proofs.proving.lemmas.engine import proving
from proofs.proving.lemmas.engine.family import Family
from proofs.proving.lemmas.engine.induction import Lemma
from proofs.proving.lemmas.engine.proving import PROVED, REFUTED, UNKNOWN, LemmaReport
from proofs.proving.lemmas.engine.statements import Mutant, Statement, World
from proofs.proving.solvers import Answer
from proofs.proving.solvers.process import Z3

ONE = Statement(
    "one", "A number that is two is less than three.", "(declare-const x Int)", ("(= x 2)",), "(< x 3)",
    (Mutant("less than two", "(< x 3)", "(< x 2)"),),
)  # fmt: skip
LISTS = """
(declare-datatypes ((L 0)) (((nil) (cell (head Int) (tail L)))))
(define-fun-rec sum ((l L)) Int (ite ((_ is nil) l) 0 (+ (head l) (sum (tail l)))))
"""
Says = Callable[[str], Answer]
"""What a solver answers to a text."""


@pytest.fixture
def proved(monkeypatch: pytest.MonkeyPatch) -> Callable[..., LemmaReport]:
    """Proves one statement, or lemma about lists, and no other."""

    def prove(lemma: Statement | Lemma, says: Says | None = None, **options: int) -> LemmaReport:
        of_lists = isinstance(lemma, Lemma)
        here = Family("here", (lemma,), LISTS if of_lists else "", (lemma,) if isinstance(lemma, Lemma) else ())
        if says is not None:

            class Played(Z3):
                """Answers without a process."""

                def evaluate(self, text: str, timeout_s: float) -> Answer:
                    return says(self.prelude + text)

            monkeypatch.setattr(proving, "Z3", Played)
            monkeypatch.setitem(proving.SOLVERS, "z3", Played)
        (report,) = proving.prove_all([here], **options)
        return report

    return prove


def answering(proof: str = "unsat\nsat", twin: str = "sat", mutant: str = "sat", failure: str | None = None) -> Says:
    """A solver that answers so to the proof, the twin and the mutant of `ONE`."""

    def says(text: str) -> Answer:
        if "(get-value" in text:
            names = text.partition("(get-value (")[2].rstrip(")").split()
            return Answer(f"({' '.join(f'({name} 2)' for name in names)})", None, 0.0)
        asked = proof if "(push)" in text else mutant if "(< x 2)" in text else twin
        return Answer(asked, failure, 0.0)

    return says


def test_a_file_whose_lemmas_make_no_proof_is_unknown_with_the_reason() -> None:
    lemma = Lemma("y_is_y", "A number is itself.", {"y": "Int"}, "(= y y)")
    reports = list(proving.prove_all([Family("here", (lemma,), LISTS, (lemma, lemma))]))
    assert [(report.verdict, report.open) for report in reports] == [
        (UNKNOWN, ["there is no proof: two lemmas have the name y_is_y"])
    ]


def test_a_lemma_is_proved_with_a_case_of_its_twin_and_of_each_mutant(proved: Callable[..., LemmaReport]) -> None:
    for says in (None, answering()):
        report = proved(ONE, says)
        assert (report.verdict, report.solvers, report.twin, report.open) == (PROVED, {"z3": PROVED}, "x = 2", [])
        assert report.mutants_refuted == {"less than two": "x = 2"}
        assert report.seeds == 1


@pytest.mark.parametrize(
    ("says", "verdict", "told"),
    [
        (answering(proof="sat\nsat"), UNKNOWN, ["z3, seed 0: the solver answers 'sat\\nsat'"]),
        (answering(proof="unsat"), UNKNOWN, ["z3, seed 0: the solver answers 'unsat'"]),
        (answering(twin="unsat"), REFUTED, ["its hypotheses and its goal have no model: it may be vacuous"]),
        (answering(twin="unknown"), UNKNOWN, ["its twin: the solver answers 'unknown'"]),
        (answering(mutant="unsat"), REFUTED, ["the mutant 'less than two' is not false in any case that was found"]),
        (answering(mutant="unknown"), UNKNOWN, ["the mutant 'less than two': the solver answers 'unknown'"]),
        (answering(twin="unsat", mutant="unknown"), REFUTED, ["its hypotheses", "the mutant 'less than two': the"]),
        (answering(twin="unknown", mutant="unsat"), REFUTED, ["its twin: the", "the mutant 'less than two' is not"]),
        (
            answering(failure="tired"),
            UNKNOWN,
            ["z3, seed 0: tired", "its twin: tired", "the mutant 'less than two': tired"],
        ),
    ],
)
def test_whatever_is_not_as_it_must_be_is_told(
    says: Says, verdict: str, told: list[str], proved: Callable[..., LemmaReport]
) -> None:
    """An answer that comes with a failure counts for nothing."""
    report = proved(ONE, says)
    assert report.verdict == verdict
    assert len(report.open) == len(told)
    assert all(found.startswith(expected) for found, expected in zip(report.open, told, strict=True))


def test_a_lemma_without_mutants_may_say_nothing(proved: Callable[..., LemmaReport]) -> None:
    report = proved(ONE._replace(mutants=()), answering())
    assert (report.verdict, report.open) == (REFUTED, ["it has no mutant"])


def test_every_seed_counts_and_of_those_that_fail_the_first_is_told(proved: Callable[..., LemmaReport]) -> None:
    def says(text: str) -> Answer:
        tired = any(f"smt.random_seed {seed})" in text for seed in (1, 2))
        answer = answering()(text)
        return replace(answer, failure="tired") if tired else answer

    assert proved(ONE, says, seeds=1).verdict == PROVED
    report = proved(ONE, says, seeds=4)
    assert (report.verdict, report.seeds, report.solvers) == (UNKNOWN, 4, {"z3": "tired"})
    assert report.open == ["z3, seed 1: tired"]


def test_each_solver_is_told_its_seed_in_its_own_words() -> None:
    assert proving.seed_option("cvc5", 7) == "(set-option :seed 7)"
    assert proving.seed_option("z3", 7) == "(set-option :smt.random_seed 7)(set-option :sat.random_seed 7)"


def test_names_of_lemmas_of_files_and_of_folders_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    known = [Family("a/here", (ONE,)), Family("b/there", tuple(ONE._replace(name=name) for name in ("two", "three")))]
    monkeypatch.setattr(families, "FAMILIES", {family.file: family for family in known})
    for wanted, expected in (
        ((), ["one", "two", "three"]), (("two",), ["two"]), (("there",), ["two", "three"]), (("a",), ["one"]),
        (("three", "here"), ["one", "three"]), (("b/there.py",), ["two", "three"]),
    ):  # fmt: skip
        assert [lemma.name for family in families.select_families(wanted) for lemma in family.lemmas] == expected
    with pytest.raises(ValueError, match="has the name 'elsewhere'"):
        families.select_families(["here", "elsewhere"])


def test_a_case_has_the_constants_and_the_functions_of_one_element(proved: Callable[..., LemmaReport]) -> None:
    """No table has room for functions of more arguments, of none, or of integers."""
    statement = Statement(
        "tables", "What is four of both is eight in all.",
        "(declare-sort S 0)(declare-sort R 0)(declare-const x Int)(declare-fun f (S) Int)(declare-fun g (S S) Int)"
        "(declare-fun h () Int)(declare-fun k (Int) Int)(declare-fun q (R) Bool)(define-fun two () Int 2)",
        ("(forall ((s S)) (= (f s) (+ two two)))", "(= x two)", "(forall ((r R)) (q r))"),
        "(forall ((s S) (t S)) (= 8 (+ (f s) (f t))))",
        (Mutant("seven", "(= 8 ", "(= 7 "),), World({"S": 2, "R": 1}),
    )  # fmt: skip
    report = proved(statement)
    assert report.twin == "x = 2, (f s_0) = 4, (f s_1) = 4, (q r_0) = true"
    assert report.mutants_refuted == {"seven": report.twin}


@pytest.mark.parametrize(
    ("claim", "parts", "absent"),
    [
        ("(=> (= (sum l) (sum k)) (= (sum k) (sum l)))", ["l_0_head", "k_0_head", "x = "], []),
        ("(= (+ (sum l) (sum k)) (+ (sum k) (sum l)))", ["l_0_head", "k_0_head", "x = "], []),
        ("(=> ((_ is nil) l) (= x (+ x (sum l))))", ["x = "], ["l_0_head"]),
    ],
)
def test_the_twin_of_a_lemma_about_lists_has_a_cell_in_each_where_that_can_be(
    claim: str, parts: list[str], absent: list[str], proved: Callable[..., LemmaReport]
) -> None:
    """Its premise holds there, and is not only false."""
    lemma = Lemma(
        "sums", "Sums.", {"x": "Int", "l": "L", "k": "L"}, claim, None, (), (), (Mutant("no", claim, "false"),)
    )
    report = proved(lemma)
    assert (report.verdict, report.solvers) == (PROVED, {"z3": PROVED})
    assert report.mutants_refuted.keys() == {"no"}
    assert all(part in report.twin for part in parts)
    assert not any(part in report.twin for part in absent)
