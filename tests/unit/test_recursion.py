"""Recursive definitions end, inductions are inductions, and the lemmas hold for the definitions as they are.

spec: V4.3, V4.8
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from proofs.proving.lemmas import at_use, plan
from proofs.proving.lemmas.engine import induction, record
from proofs.proving.lemmas.engine.induction import Lemma, NoInduction, Query
from proofs.proving.lemmas.engine.machine import Inductive
from proofs.proving.lemmas.engine.statements import Statement
from proofs.proving.lemmas.plan import bases, chains, column, cover, hulls, merged, shrinking, tiling
from proofs.proving.obligations import MODULES, PRELUDE
from proofs.proving.smt import descent
from proofs.proving.smt.descent import Unfounded
from proofs.proving.smt.expressions import Expression, parse, parse_one, substitute, text_of, walk
from proofs.proving.solvers import Answer
from proofs.proving.solvers.process import Z3
from proofs.sets import rows as set_rows

TEXT = plan.TEXT
PROOFS = induction.proofs_of(plan.LISTS, TEXT)
REQUESTS = at_use.FAMILY.requests()
LIST = "(declare-datatypes ((L 0)) (((nil) (cell (head Int) (tail L)))))"
SUM = "(define-fun-rec sum ((l L)) Int (ite ((_ is nil) l) 0 (+ (head l) (sum (tail l)))))"


@pytest.fixture(scope="module")
def solver() -> Iterator[Z3]:
    with Z3(TEXT) as made:
        yield made


# Expressions


@pytest.mark.parametrize("text", ["(a (b c) ())", "a", "(() (()))", "((_ is nil) l)"])
def test_an_expression_is_printed_as_it_was_read(text: str) -> None:
    assert text_of(parse_one(text)) == text


def test_white_space_and_comments_mean_nothing() -> None:
    assert parse(" ; a (\n(a\n b);)\n") == [["a", "b"]]
    assert parse("") == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(a", "bracket is never closed"), ("a)", "closes that was never opened"),
        ("(a))", "closes that was never opened"), ("a) (b", "closes that was never opened"),
        ('(a "b")', "an SMT-LIB symbol"), ("(a |b|)", "an SMT-LIB symbol"),
        ("; a\r(b)", "printable ASCII"), ("(a\u00a0b)", "printable ASCII"), ("\u0663", "printable ASCII"),
        ("a b", "expected one expression, got 2"),
        ("", "expected one expression, got 0"),
    ],
)  # fmt: skip
def test_what_is_no_expression_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_one(text)


def test_depth_costs_no_stack() -> None:
    deep = "(" * 50_000 + "x" + ")" * 50_000
    expression = substitute(parse_one(deep), {"x": "y"})
    assert sum(1 for _ in walk(expression)) == 50_001


def test_a_symbol_alone_is_substituted_too() -> None:
    assert substitute("x", {"x": ["f", "y"]}) == ["f", "y"]
    assert substitute("x", {"y": "z"}) == "x"
    assert substitute([], {"x": "y"}) == []
    assert substitute(["x", [], "x"], {"x": "y"}) == ["x", [], "y"]


def test_nothing_is_substituted_below_a_binder() -> None:
    with pytest.raises(ValueError, match="binds names"):
        substitute(parse_one("(f (let ((x 1)) x))"), {"x": "2"})


# Recursion ends


def test_the_definitions_of_the_chains_descend() -> None:
    known = descent.check_definitions(TEXT)
    assert set(known.lists) == {
        "Tenants", "Slots", "Changes", "Contents", "Edges", "Above", "Column", "Numbers", "Storages",
    }  # fmt: skip
    assert {"tenancy", "layout", "level", "holding", "live_at"} <= set(known.functions)


def test_the_text_that_is_proved_is_the_text_that_plans_are_evaluated_with() -> None:
    assert PRELUDE.startswith(chains.DEFINITIONS)
    assert TEXT.startswith(chains.DEFINITIONS)
    descent.check_definitions(PRELUDE)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        # It never ends, and as an axiom it makes 0 = 1.
        ("(define-fun-rec f ((l L)) Int (ite ((_ is nil) l) 0 (+ 1 (f l))))", "does not descend"),
        ("(define-fun-rec f ((l L)) Int (+ 1 (f l)))", "does not begin by asking"),
        ("(define-fun-rec f ((l L)) Int (ite ((_ is nil) l) (f l) 0))", "calls itself on an empty list"),
        ("(define-fun-rec f ((l L)) Int (ite ((_ is cell) l) 0 (f (tail l))))", "does not begin by asking"),
        ("(define-fun-rec f ((n Int)) Int (ite (= n 0) 0 (f (- n 1))))", "does not begin by asking"),
        ("(define-fun-rec f ((l L)) Int (ite ((_ is nil) l) 0 (f (tail (tail l)))))", "does not descend"),
        ("(define-fun-rec f ((l L)(k L)) Int (ite ((_ is nil) l) 0 (f (tail k) k)))", "does not descend"),
        ("(define-fun-rec f ((l L)(k L)) Int (ite ((_ is nil) l) 0 (f k (tail l))))", "does not descend"),
        ("(define-fun-rec f ((l L)) L (ite ((_ is nil) l) l (f (cell 1 (f (tail l))))))", "does not descend"),
        ("(define-fun-rec f ((l L)) Int (ite ((_ is nil) l) 0 (f)))", "does not descend"),
        ("(define-fun-rec f ((l L)) Int (ite ((_ is nil) k) 0 0))", "is not defined"),
        ("(define-fun-rec f ((l L)) Int (ite ((_ is nil) l) 0 (let ((m (tail l))) (f m))))", "calls '\\(let"),
        ("(define-fun-rec f ((l L)) Int (ite ((_ is nil) l) 0 (g (tail l))))", "calls '\\(g"),
        ("(define-fun f ((l L)) Int (f (tail l)))", "calls '\\(f"),
        ("(define-funs-rec ((f ((l L)) Bool) (g ((l L)) Bool)) ((not (g l)) (f l)))", "not the definition"),
        (
            "(define-fun h ((l L)) L l)(define-fun-rec f ((l L)) Bool (ite ((_ is nil) l) true (f (h l))))",
            "not descend",
        ),
        ("(define-fun-rec f ((l L)) Bool (ite ((_ is nil) l) true (forall ((k L)) (not (f k)))))", "calls '\\(forall"),
        ("(define-fun-rec f ((l L)) Bool (ite ((_ is nil) l) true (let ((tail l)) (f tail))))", "calls '\\(let"),
        ("(define-fun-rec f ((l L)) Bool (ite ((_ is nil) l) true (f (ite true l (tail l)))))", "does not descend"),
        ("(define-fun-rec f ((l L)) Bool (ite ((_ is nil) l) true (not (! (f l) :named q))))", "calls '\\(!"),
        ("(define-fun-rec f ((l L)) Bool (ite ((_ is nil) l) true (not ((as f Bool) l))))", "calls '\\(\\(as"),
        ("(define-fun-rec f ((l L)) Bool (ite ((_ is nil) (tail l)) true (not (f (tail l)))))", "does not begin"),
        ("(define-fun-rec f ((k L)(l L)) Bool (ite ((_ is nil) k) true (not (f (tail l) k))))", "does not descend"),
        ("(define-fun f ((l L)) Int x)", "is not defined"),
        ("(define-fun f ((l L)) Int (+ 1.5 2))", "is not defined"),
        ("(define-fun f ((l L)) Int ())", "calls"),
        ("(define-fun f ((l M)) Int 0)", "unknown sort M"),
        ("(define-fun f ((l L)) Real 0)", "unknown sort Real"),
        ("(define-fun f ((l L)(l Int)) Int 0)", "occurs twice"),
        ("(define-fun f (l) Int 0)", "not a name with its sort"),
        ("(define-fun f ((nil Int)) Int 0)", "cannot be a parameter"),
        ("(define-fun f ((true Bool)) Bool true)", "cannot be a parameter"),
        ("(define-fun f ((7 Int)) Int 7)", "cannot be a parameter"),
        ("(define-fun sum ((l L)) Int 0)", "cannot be defined"),
        ("(define-fun and ((l L)) Int 0)", "cannot be defined"),
        ("(define-fun 7 ((l L)) Int 0)", "cannot be defined"),
        ("(define-funs-rec ((f ((l L)) Int)) (0))", "not the definition"),
        ("(declare-fun f (L) Int)", "not the definition"),
        ("(assert false)", "not the definition"),
        ("assert", "not the definition"),
        ("(declare-datatypes ((T 0)) (((leaf) (node (left T) (right T)))))", "not a list of plain values"),
        ("(declare-datatypes ((T 0)) (((none) (some (it Int) (of L)))))", "not a list of plain values"),
        ("(declare-datatypes ((T 0)) (((none) (some (it Int) (of L) (r T)))))", "not a list of plain values"),
        ("(declare-datatypes ((T 0)) (((nil) (b (r T)))))", "cannot be defined"),
        ("(declare-datatypes ((T 0)) (((a) (b (a Int) (r T)))))", "occurs twice"),
        ("(declare-datatypes ((T 0)) (((a (x Int)) (b (r T)))))", "other than one list type"),
        ("(declare-datatypes ((T 0)) (((a) (b! (r T)))))", "is not a name"),
        ("(define-fun f ((l L)) Int (ite true 1 false))", "sorts Int, Bool"),
        ("(define-fun f ((l L)) Int (sum 1))", "sum takes L, not Int"),
        ("(define-fun f ((l L)) Bool (sum l))", "has the sort Int, expected Bool"),
    ],
)
def test_a_definition_that_may_not_end_is_refused(text: str, reason: str) -> None:
    assert descent.check_definitions(LIST + SUM).functions.keys() == {"sum"}
    with pytest.raises(Unfounded, match=reason):
        descent.check_definitions(LIST + SUM + text)


def test_a_definition_without_end_would_prove_anything() -> None:
    """Why `descent` is needed: Z3 takes such a definition as an axiom."""
    endless = "(define-fun-rec f ((l L)) Int (ite ((_ is nil) l) 0 (+ 1 (f l))))"
    with Z3(LIST + endless) as made:
        for claim in ("(= 7 (f l))", "(distinct 7 (f l))"):
            assumed = f"(push)(declare-const l L)(assert ((_ is cell) l))(assert {claim})(check-sat)(pop)(check-sat)"
            assert made.evaluate(assumed, 10).proof


# Induction


def false_lemma(**values: object) -> Lemma:
    """'Every sum is 7', which a hypothesis at the list itself would prove."""
    return Lemma("false", "Every sum is 7.", {"l": "L", "x": "Int"}, "(= 7 (sum l))", over="l")._replace(**values)  # type: ignore[arg-type]


def test_a_false_lemma_is_not_proved() -> None:
    known = descent.check_definitions(LIST + SUM)
    requests = {"false": [query.refutation() for query in induction.queries(false_lemma(), known, {})]}
    with Z3() as made:
        failed = record.prove(requests, made, 10, LIST + SUM)
    assert "answers" in failed["false"]


def test_a_false_scheme_is_refused_though_the_solver_takes_it() -> None:
    """A hypothesis at the cell itself makes the step of a false lemma unsat; only the check notices."""
    known = descent.check_definitions(LIST + SUM)
    lemma = false_lemma()
    base, step = induction.queries(lemma, known, {})
    wrong = step._replace(hypotheses=(step.goal,))
    with Z3(LIST + SUM) as made:
        assert made.evaluate(wrong.refutation(), 10).proof
    with pytest.raises(NoInduction, match="may not be assumed"):
        induction.check_induction(lemma, [base, wrong], known, {})
    with pytest.raises(NoInduction, match="may not be assumed"):
        induction.check_induction(lemma, [base._replace(hypotheses=step.hypotheses), step], known, {})


@pytest.mark.parametrize(
    "hypothesis",
    ["(distinct 7 (sum rest_of_list))", "(= 8 (sum rest_of_list))", "(= 7 (size rest_of_list))", "(= 7 (sum l))",
     "(= 7 (sum (tail rest_of_list)))", "(= 7 x)", "(= x (sum rest_of_list))", "(= (7) (sum rest_of_list))",
     "(= 7 (sum rest_of_list rest_of_list))", "(= 7 (sum))", "false", "()"],
)  # fmt: skip
def test_what_is_like_the_claim_at_the_rest_of_the_list_and_is_not_that_may_not_be_assumed(hypothesis: str) -> None:
    known, lemma = descent.check_definitions(LIST + SUM), false_lemma()
    base, step = induction.queries(lemma, known, {})
    wrong = step._replace(hypotheses=(*step.hypotheses, parse_one(hypothesis)))
    with pytest.raises(NoInduction, match="may not be assumed"):
        induction.check_induction(lemma, [base, wrong], known, {})


def test_a_symbol_that_is_spelled_like_a_call_is_no_instance_of_it() -> None:
    known = descent.check_definitions(f"{LIST}{SUM}(define-fun s ((i Int)) Int i)")
    lemma = false_lemma(claim="(= (s x) (sum l))")
    base, step = induction.queries(lemma, known, {})
    wrong = step._replace(hypotheses=(parse_one("(= sx (sum rest_of_list))"),))
    with pytest.raises(NoInduction, match="may not be assumed"):
        induction.check_induction(lemma, [base, wrong], known, {})


@pytest.mark.parametrize("at", [{"l": "l"}, {"l": "(cell its_head rest_of_list)"}, {"l": "(tail rest_of_list)"}])
def test_a_hypothesis_is_at_the_rest_of_the_list_whatever_a_lemma_asks_for(at: dict[str, str]) -> None:
    known = descent.check_definitions(LIST + SUM)
    (hypothesis,) = induction.queries(false_lemma(hypotheses=(at,)), known, {})[1].hypotheses
    assert text_of(hypothesis) == "(= 7 (sum rest_of_list))"


def test_what_is_no_induction_is_refused() -> None:
    known = descent.check_definitions(LIST + SUM)
    lemma = false_lemma()
    base, step = induction.queries(lemma, known, {})
    for wrong, reason in (
        ([step, base], "goals"),
        ([base], "goals"),
        ([base, step._replace(goal=parse_one("true"))], "goals"),
        ([base, step._replace(constants={**step.constants, "free": "Int"})], "neither a variable"),
        ([base, step._replace(constants={**step.constants, "its_head": "Bool"})], "neither a variable"),
    ):
        with pytest.raises(NoInduction, match=reason):
            induction.check_induction(lemma, wrong, known, {})
    for changed, reason in (
        (false_lemma(claim="(forall ((x Int)) (= x (sum l)))"), "binds names"),
        (false_lemma(using=(("nobody", {}),)), "not proved before"),
        (false_lemma(variables={"l": "L", "head": "Int"}), "name of something else"),
        (false_lemma(variables={"l": "L", "rest_of_list": "L"}), "name of a part"),
    ):
        with pytest.raises(NoInduction, match=reason):
            induction.queries(changed, known, {})


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({"x Int)(assert false)(declare-const y": "Int"}, "is not the name of a variable"),
        ({"x": "Int)(assert false"}, "unknown sort"),
        ({"x": "M"}, "unknown sort"),
        ({"": "Int"}, "is not the name"),
        ({"nil": "L"}, "name of something else"),
        ({"cell": "Int"}, "name of something else"),
        ({"true": "Bool"}, "name of something else"),
        ({"sum": "Int"}, "name of something else"),
        ({"L": "Int"}, "name of something else"),
        ({"its_head": "Int"}, "name of a part"),
    ],
)
def test_a_variable_is_nothing_but_a_variable(variables: dict[str, str], reason: str) -> None:
    """A name that held commands proved that 7 is 8, by both solvers."""
    known = descent.check_definitions(LIST + SUM)
    with pytest.raises(NoInduction, match=reason):
        induction.queries(false_lemma(variables={"l": "L", **variables}), known, {})


def test_a_list_that_is_equal_to_the_empty_one_by_name_alone_is_no_base() -> None:
    """With a variable named `nil` the base of 'all lists are equal' says that nil is nil."""
    known = descent.check_definitions(LIST + SUM)
    every = {"claim": "(= l nil)", "hypotheses": ({"nil": "(cell 0 rest_of_list)"},)}
    with pytest.raises(NoInduction, match="name of something else"):
        induction.queries(false_lemma(variables={"l": "L", "nil": "L"}, **every), known, {})


@pytest.mark.parametrize("name", ["rest_of_list", "its_head"])
def test_a_part_of_the_cell_means_nothing_else(name: str) -> None:
    known = descent.check_definitions(f"{LIST}{SUM}(define-fun {name} () Int 0)")
    with pytest.raises(NoInduction, match=f"has the name of {name}, which is defined"):
        induction.queries(false_lemma(), known, {})


def test_no_term_moves_a_hypothesis_away_from_the_rest_of_the_list() -> None:
    """Terms stand for other variables; whatever binds in them, the list stays where it is."""
    known = descent.check_definitions(LIST + SUM)
    term = "(let ((most (sum rest_of_list))) (+ most x))"
    lemma = false_lemma(claim="(=> (= x x) (= 7 (sum l)))", hypotheses=({"x": term, "l": term},))
    (hypothesis,) = induction.queries(lemma, known, {})[1].hypotheses
    assert hypothesis == ["=>", ["=", parse_one(term), parse_one(term)], ["=", "7", ["sum", "rest_of_list"]]]


@pytest.mark.parametrize(
    ("term", "reason"),
    [
        ("0.5", "'0.5' is not defined"), ("true", "has the sort Bool, expected Int"),
        ("(let ((rest_of_list nil)) x)", "cannot be bound"), ("(sum l)", "'l' is not defined"),
        ("(ite true (cell its_head rest_of_list) nil)", "has the sort L, expected Int"),
        ("(div 1 x)", "may divide by 0"), ("(head rest_of_list)", "may take the empty list apart"),
    ],
)  # fmt: skip
def test_a_term_has_the_sort_of_the_variable_that_it_replaces_and_a_value(term: str, reason: str) -> None:
    """spec: V4.16, V4.17"""
    known = descent.check_definitions(LIST + SUM)
    with pytest.raises(NoInduction, match=reason):
        induction.queries(false_lemma(claim="(=> (= x x) (= 7 (sum l)))", hypotheses=({"x": term},)), known, {})


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"claim": "(= x (sum 7))"}, "sum takes L, not Int"), ({"claim": "(sum l)"}, "has the sort Int, expected Bool"),
        ({"claim": "(= 7 (sum l) y)"}, "'y' is not defined"),
        ({"claim": "(= 7 (head l))"}, "take the empty list apart"),
        ({"claim": "(= 7 (mod 7 x))"}, "may divide by 0"), ({"over": "x"}, "'x' is not a list"),
        ({"hypotheses": ({"y": "7"},)}, "has no variable 'y'"),
    ],
)  # fmt: skip
def test_a_claim_is_true_or_false_whatever_its_variables_are(changed: dict[str, object], reason: str) -> None:
    """spec: V4.16, V4.17"""
    known = descent.check_definitions(LIST + SUM)
    with pytest.raises(NoInduction, match=reason):
        induction.queries(false_lemma(**changed), known, {})


def test_a_lemma_may_be_used_at_any_terms_once_it_is_proved() -> None:
    known = descent.check_definitions(LIST + SUM)
    first = Lemma("first", "Sums are sums.", {"l": "L", "x": "Int"}, "(=> (= x (sum l)) (= (sum l) x))", over="l")
    second = false_lemma(using=(("first", {"l": "(cell 1 nil)", "x": "(+ x x)"}),))
    step = induction.queries(second, known, {"first": first})[1]
    assert text_of(step.hypotheses[1]) == "(=> (= (+ x x) (sum (cell 1 nil))) (= (sum (cell 1 nil)) (+ x x)))"
    uneven = step._replace(hypotheses=(parse_one("(=> (= x (sum nil)) (= (sum nil) 7))"),))
    base = induction.queries(second, known, {"first": first})[0]
    with pytest.raises(NoInduction, match="may not be assumed"):
        induction.check_induction(second, [base, uneven], known, {"first": first})


# The lemmas


@pytest.mark.parametrize("name", PROOFS)
def test_every_lemma_is_proved(name: str, solver: Z3) -> None:
    for query in PROOFS[name]:
        assert solver.evaluate(query.refutation(), 10).proof


@pytest.mark.parametrize("name", PROOFS)
def test_no_lemma_is_vacuous(name: str, solver: Z3) -> None:
    """Hypotheses, premises and conclusion hold together for some values; in a step, for a list that is not empty."""
    base, *steps = PROOFS[name]
    for query in steps or [base]:
        assert solver.evaluate(query.vacuity(), 10).text == "sat\nsat"
    # The empty list has no members: a lemma about members says nothing of it, and its base holds for that reason.
    about_members = name in {lemma.name for lemma in (*tiling.LEMMAS, *column.LEMMAS)}
    assert about_members or solver.evaluate(base.vacuity(), 10).text == "sat\nsat"


def test_every_lemma_says_in_english_what_it_says() -> None:
    for lemma in plan.LISTS:
        assert lemma.sentence[0].isupper()
        assert lemma.sentence.endswith(".")
        assert len(lemma.sentence.split()) > 8
    assert len({lemma.name for lemma in plan.LISTS}) == len(plan.LISTS) == len(PROOFS)


def test_a_claim_without_a_premise_is_not_vacuous_if_it_can_hold(solver: Z3) -> None:
    assert solver.evaluate(Query({"x": "Int"}, (), parse_one("(< x 7)")).vacuity(), 10).text == "sat\nsat"
    assert solver.evaluate(Query({"x": "Int"}, (), parse_one("(< x x)")).vacuity(), 10).text == "unsat\nsat"


def test_a_vacuous_premise_is_noticed(solver: Z3) -> None:
    nothing = Query({"x": "Int"}, (), parse_one("(=> (< x x) (= x 7))"))
    assert solver.evaluate(nothing.refutation(), 10).proof
    assert solver.evaluate(nothing.vacuity(), 10).text == "unsat\nsat"


def test_a_solver_that_fails_is_asked_nothing_more() -> None:
    tired = Counting(lasts=4)
    failed = record.prove(REQUESTS, tired, 1, TEXT)
    assert tired.asked == 5
    assert list(failed) == list(REQUESTS)[1:]
    assert set(failed.values()) == {"tired"}


# Proving at first use


class Counting:
    """A solver that answers everything alike, and counts."""

    version = "counting 1"

    def __init__(self, text: str = "unsat\nsat", given: str = "", lasts: int = 1000) -> None:
        self.asked, self.text, self.given, self.lasts = 0, text, given, lasts

    def evaluate(self, text: str, timeout_s: float) -> Answer:
        self.asked += 1
        failure = "tired" if self.asked > self.lasts else None
        return Answer(self.given if text == TEXT else self.text, failure, 0.0)

    def close(self) -> None:
        pass


def test_lemmas_are_proved_once_and_then_on_record(tmp_path: Path) -> None:
    first, second = Counting(), Counting()
    assert at_use.prove_unrecorded("counting 1", 1, tmp_path / "a", lambda: first) == {}
    assert first.asked == 1 + sum(map(len, REQUESTS.values()))
    assert at_use.prove_unrecorded("counting 1", 1, tmp_path / "a", lambda: second) == {}
    assert second.asked == 0


def test_another_version_or_another_source_has_another_record(tmp_path: Path) -> None:
    """spec: V4.3"""
    (tmp_path / "a").mkdir()
    source, other = tmp_path / "a" / "one.py", tmp_path / "a" / "two.py"
    source.write_text("X = 1")
    other.write_text("Y = 1")
    digests = [record.compute_digest([source, other], "a"), record.compute_digest([source], "a")]
    digests.append(record.compute_digest([source, other], "b"))
    source.write_text("X = 2")
    digests.append(record.compute_digest([source, other], "a"))
    source.write_text("Y = 1")
    other.write_text("X = 2")
    digests.append(record.compute_digest([source, other], "a"))
    assert len(set(digests)) == 5


TEXTLESS = ("tmmu.core", "proofs.tools")
"""Packages that the sources of a record import, and that state no lemma and make no request."""


def test_the_sources_of_a_record_are_all_that_the_requests_come_from() -> None:
    """spec: V4.3"""
    sources = at_use.find_sources()
    packages = tuple(package.__name__ for package in at_use.PACKAGES)
    for path in sources:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("proofs", "tmmu")):
                assert node.module == "proofs.proving" or node.module.startswith((*packages, *TEXTLESS)), path
    kinds = {sys.modules[type(lemma).__module__].__file__ for lemma in at_use.FAMILY.lemmas}
    assert kinds < {str(path) for path in sources}


@pytest.mark.parametrize("content", [b"", b"PROVED", b"\xff\0", b"0" * 64 + b" PROVED\n", None])
def test_a_record_that_is_not_exactly_one_is_none(tmp_path: Path, content: bytes | None) -> None:
    at_use.prove_unrecorded("counting 1", 1, tmp_path, Counting)
    (record,) = tmp_path.iterdir()
    right = record.read_bytes()
    record.write_bytes(right + b" " if content is None else content)
    again = Counting()
    assert at_use.prove_unrecorded("counting 1", 1, tmp_path, lambda: again) == {}
    assert again.asked > 0
    assert record.read_bytes() == right
    assert [path.name for path in tmp_path.iterdir()] == [record.name]


def test_what_is_not_proved_is_named_and_not_recorded(tmp_path: Path) -> None:
    failed = at_use.prove_unrecorded("counting 1", 1, tmp_path, lambda: Counting("unknown\nsat"))
    assert failed.keys() == REQUESTS.keys()
    assert list(tmp_path.iterdir()) == []
    failed = at_use.prove_unrecorded("counting 1", 1, tmp_path, lambda: Counting(given="(error)"))
    assert set(failed.values()) == {"(error)"}
    assert set(at_use.prove_unrecorded("", 1, tmp_path).values()) == {"the solver does not start"}
    assert list(tmp_path.iterdir()) == []


def test_a_proof_by_another_solver_than_the_one_in_use_is_not_recorded(tmp_path: Path) -> None:
    assert at_use.prove_unrecorded("counting 2", 1, tmp_path, Counting) == {}
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_written_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_text("no folder")
    assert at_use.prove_unrecorded("counting 1", 1, file, Counting) == {}
    assert at_use.prove_unrecorded("counting 1", 1, file / "below", Counting) == {}

    def full(*_: object) -> None:
        raise OSError("no space")

    monkeypatch.setattr(os, "replace", full)
    assert at_use.prove_unrecorded("counting 1", 1, tmp_path / "full", Counting) == {}
    assert list((tmp_path / "full").iterdir()) == []


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (Answer("", "it died", 0.0), "it died"),
        (Answer("x", "it died", 0.0), "it died"),
        (Answer("e" * 300, None, 0.0), "e" * 200),
    ],
)
def test_where_the_definitions_are_not_taken_no_lemma_is_proved(given: Answer, told: str) -> None:
    """spec: V4.3"""

    class Refusing(Counting):
        """Takes no definition."""

        def evaluate(self, text: str, timeout_s: float) -> Answer:
            assert text == TEXT
            return given

    assert record.prove(REQUESTS, Refusing(), 1, TEXT) == dict.fromkeys(REQUESTS, told)


def test_a_record_is_on_the_disk_whole_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """spec: V4.3"""
    written: list[tuple[int, list[str]]] = []

    def synced(handle: int) -> None:
        named = [path.name for path in tmp_path.iterdir() if path.stat().st_ino != os.fstat(handle).st_ino]
        written.append((os.fstat(handle).st_size, named))

    monkeypatch.setattr(os, "fsync", synced)
    assert at_use.prove_unrecorded("counting 1", 1, tmp_path, Counting) == {}
    (record,) = tmp_path.iterdir()
    assert written == [(record.stat().st_size, [])]


def test_the_cache_is_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert at_use.cache_folder() == tmp_path / "tmmu" / "lemmas"
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert at_use.cache_folder() == tmp_path / ".cache" / "tmmu" / "lemmas"
    made = Z3()
    version = made.version
    made.close()
    assert at_use.prove_unrecorded(version, 10) == {}
    assert len(list(at_use.cache_folder().iterdir())) == 1


def _symbols(expression: Expression) -> set[str]:
    return {item for item in walk(expression) if isinstance(item, str)}


def test_every_chain_has_lemmas_that_speak_of_it() -> None:
    spoken = set().union(*(_symbols(parse_one(lemma.claim)) for lemma in plan.LISTS))
    assert set(descent.check_definitions(chains.DEFINITIONS).functions) <= spoken


def test_all_that_verdicts_rest_on_and_nothing_else_is_proved_at_use() -> None:
    """Every lemma that an obligation, ranks or an envelope name, and every lemma of the folder. spec: V4.3"""
    folder = Path(plan.__file__).parent
    stated = {
        lemma.name
        for path in folder.glob("[!_]*.py")
        for value in vars(import_module(f"proofs.proving.lemmas.plan.{path.stem}")).values()
        if isinstance(value, tuple) and not hasattr(value, "_fields")
        for lemma in value
        if isinstance(lemma, induction.Lemma | Statement | Inductive)
    }
    assert stated == REQUESTS.keys()
    named = {name for obligation in MODULES.values() for name in obligation.LEMMAS}
    others = (merged, bases, hulls, cover, shrinking)
    named |= {lemma.name for module in others for lemma in module.STATEMENTS}
    named.update(set_rows.LEMMAS)
    assert "no_assignment_has_fewer_slots_than_are_live" in named
    assert named <= stated
