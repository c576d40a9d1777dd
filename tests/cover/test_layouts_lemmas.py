"""The lemmas behind the edges: proved, not empty, and broken by every mutant of what they speak of.

spec: V1.12, V4.3, V4.8
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from proofs.lemmas import at_use
from proofs.lemmas.induction import Lemma
from proofs.lemmas.of_chains import COLUMN, LEMMAS, TILING
from proofs.obligations.by_edges import LEMMAS as CARRYING
from proofs.solvers.z3_process import Z3

OWN = tuple(lemma.name for lemma in (*TILING, *COLUMN))
PROOFS = at_use.proofs_of()


@pytest.fixture(scope="module")
def solver() -> Iterator[Z3]:
    with Z3(at_use.TEXT) as made:
        yield made


def broken(text: str, *lemmas: str) -> set[str]:
    """The lemmas of this page that a solver does not prove of other definitions."""
    with Z3() as made:
        return set(at_use.prove({name: PROOFS[name] for name in lemmas or OWN}, made, 2.0, text))


def test_every_lemma_that_the_rows_rest_on_is_one_of_the_lemmas() -> None:
    assert set(CARRYING) <= set(OWN) <= {lemma.name for lemma in LEMMAS}


@pytest.mark.parametrize("name", OWN)
def test_each_lemma_is_proved_and_its_premises_can_hold(name: str, solver: Z3) -> None:
    """The empty list alone may satisfy no premise: nothing is live there."""
    answers = [solver.evaluate(query.refutation(), 20) for query in PROOFS[name]]
    assert all(answer.proof for answer in answers)
    assert solver.evaluate(PROOFS[name][-1].vacuity(), 20).text == "sat\nsat"


NEXT, EMPTY = "(= (first_step edges) (+ since 1))", "(ite ((_ is no_edges) edges) "
FLOOR = "(<= 0 end_below) (<= end_below offset_above)"
RESTS = "(or (= 0 (rests_on some)) (is_live (rests_on some) column))"
MUTANTS: dict[str, tuple[str, str, tuple[Lemma, ...]]] = {
    "each edge leaves a step out": (NEXT, "(= (first_step edges) (+ since 2))", TILING),
    "edges may leave steps out": (NEXT, "(< since (first_step edges))", TILING),
    "edges may overlap": (NEXT, "(<= (first_step edges) (+ since 1))", TILING),
    "an edge may end before it begins": ("(<= (first_step edges) (last_step edges))", "true", TILING),
    "the last edge may end too early": (f"{EMPTY}(= since until)", f"{EMPTY}(<= since until)", TILING),
    "neighbours may have a byte in common": (
        "(<= end_below offset_above)",
        "(<= end_below (+ offset_above 1))",
        COLUMN,
    ),
    "a storage may have no byte": ("(< offset_above end_above)", "(<= offset_above end_above)", COLUMN),
    "what lies lowest may begin below the floor": (FLOOR, FLOOR.replace("0", "(- 9)"), COLUMN),
    "two storages may rest on one": ("(and (none_rests_on (rests_on column) (others column))", "(and true", COLUMN),
    "a storage may rest on what is dead": (RESTS, "true", COLUMN),
}
"""What is changed in the definitions, and among which lemmas one must break."""


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_of_the_definitions_breaks_a_lemma(mutant: str) -> None:
    before, after, lemmas = MUTANTS[mutant]
    assert at_use.TEXT.count(before) == 1
    names = [lemma.name for lemma in lemmas]
    assert broken(at_use.TEXT.replace(before, after), *names)
    assert not broken(at_use.TEXT, *names)
