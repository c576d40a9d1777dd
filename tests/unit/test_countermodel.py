"""Cases of lemmas about lists: which are looked at, what is printed of one, and a solver that does not say.

spec: V4.9
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from proofs.proving.lemmas.engine.countermodel import (
    CELLS,
    LONGEST,
    NoAnswer,
    cases,
    find_countermodel,
    find_first_case,
    values_of,
)
from proofs.proving.lemmas.engine.induction import Lemma
from proofs.proving.lemmas.engine.statements import Mutant
from proofs.proving.smt import descent
from proofs.proving.smt.expressions import parse_one, text_of
from proofs.proving.solvers import Answer
from proofs.proving.solvers.process import Z3

LISTS = """
(declare-datatypes ((L 0)) (((nil) (cell (head Int) (tail L)))))
(define-fun-rec sum ((l L)) Int (ite ((_ is nil) l) 0 (+ (head l) (sum (tail l)))))
"""
ONE_LIST = Lemma("one", "One.", {"l": "L", "k": "Int"}, "(= (sum l) k)")
TWO_LISTS = Lemma("two", "Two.", {"l": "L", "m": "L"}, "(= (sum l) (sum m))")
PLAIN = Lemma("plain", "Plain.", {}, "(< 1 2)")


class Played:
    """Answers each text as it is told, and notes that it was closed."""

    version = "played"

    def __init__(self, says: Callable[[str], Answer]) -> None:
        self.says, self.closed, self.asked = says, 0, list[str]()

    def evaluate(self, text: str, timeout_s: float) -> Answer:
        """What it is told to say."""
        self.asked.append(text)
        return self.says(text)

    def close(self) -> None:
        """Note it."""
        self.closed += 1


def said(text: str, failure: str | None = None) -> Answer:
    return Answer(text, failure, 0.0)


def lengths(lemma: Lemma) -> list[tuple[int, ...]]:
    """How long the lists of each case are, in order."""
    found = []
    for constants, _ in cases(lemma, parse_one(lemma.claim), descent.check_definitions(LISTS)):
        names = [name for name, _ in constants]
        found.append(
            tuple(sum(n.startswith(f"{v}_") for n in names) for v, sort in lemma.variables.items() if sort == "L")
        )
    return found


def test_lists_of_every_length_up_to_the_bounds_are_looked_at_shortest_first() -> None:
    assert lengths(ONE_LIST) == [(k,) for k in range(LONGEST + 1)]
    both = [(i, j) for i in range(LONGEST + 1) for j in range(LONGEST + 1)]
    assert lengths(TWO_LISTS) == sorted(both[:-1], key=lambda size: (sum(size), size))
    assert sum(both[-1]) == CELLS + 1
    assert max(map(sum, lengths(TWO_LISTS))) == CELLS


def test_a_case_is_the_claim_with_its_cells_written_out() -> None:
    _, (constants, claim), *_ = cases(ONE_LIST, parse_one(ONE_LIST.claim), descent.check_definitions(LISTS))
    assert constants == [("k", "Int"), ("l_0_head", "Int")]
    assert text_of(claim) == "(= (sum (cell l_0_head nil)) k)"


def test_what_is_false_without_variables_has_no_values() -> None:
    assert find_countermodel(PLAIN, Mutant("turned", "(< 1 2)", "(< 2 1)"), LISTS, Z3(), 20) == (
        "no values: it is false without any"
    )
    assert find_countermodel(PLAIN, Mutant("other", "(< 1 2)", "(< 1 3)"), LISTS, Z3(), 20) is None


@pytest.mark.parametrize(
    ("given", "told"),
    [(said("", "it died"), "it died"), (said("(error)"), r"answers '\(error\)'"), (said("x", "it died"), "it died")],
)
def test_who_does_not_take_the_definitions_is_asked_nothing(given: Answer, told: str) -> None:
    played = Played(lambda _: given)
    with pytest.raises(NoAnswer, match=told):
        find_first_case(ONE_LIST, parse_one(ONE_LIST.claim), LISTS, played, 20)
    assert (len(played.asked), played.closed) == (1, 1)


@pytest.mark.parametrize("decided", ["unsat", "sat"])
def test_a_case_that_is_not_decided_counts_where_no_other_is_found(decided: str) -> None:
    """All cases are refuted but the first, of which the solver says nothing; or the second is one."""

    def says(text: str) -> Answer:
        if "(get-value" in text:
            return said("((k 3) (l_0_head 4))")
        if "(check-sat)" not in text:
            return said("")
        return said(decided if "l_0_head" in text else "unknown")

    played = Played(says)
    if decided == "sat":
        assert find_first_case(ONE_LIST, parse_one(ONE_LIST.claim), LISTS, played, 20) == "k = 3, l_0_head = 4"
    else:
        with pytest.raises(NoAnswer, match="answers 'unknown'"):
            find_first_case(ONE_LIST, parse_one(ONE_LIST.claim), LISTS, played, 20)
    assert played.closed == 1


def test_where_all_cases_are_decided_and_none_is_found_there_is_none() -> None:
    played = Played(lambda text: said("unsat" if "(check-sat)" in text else ""))
    assert find_first_case(ONE_LIST, parse_one(ONE_LIST.claim), LISTS, played, 20) is None
    assert played.asked.count("(pop)") == LONGEST + 1
    with pytest.raises(NoAnswer, match="it died"):
        find_first_case(
            ONE_LIST,
            parse_one(ONE_LIST.claim),
            LISTS,
            Played(lambda text: said("", "it died" if "(check-sat)" in text else None)),
            20,
        )


def test_values_that_are_not_said_are_no_case() -> None:
    with pytest.raises(NoAnswer, match="it died"):
        values_of(["k"], Played(lambda _: said("", "it died")), 20)
    assert values_of([], Played(lambda _: pytest.fail("it was asked")), 20).startswith("no values")
