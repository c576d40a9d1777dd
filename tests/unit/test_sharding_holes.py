"""What ranks hold together, each element once: the first hole by intervals, and what the solver is asked.

spec: R7.24, R7.25
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pytest

from proofs.definition.violations import Obligation, Violation
from proofs.proving.lemmas.plan.cover import DEFINITIONS, STATEMENTS
from proofs.proving.solvers import DISCHARGED, Answer, refutation
from proofs.proving.solvers.process import Z3
from proofs.sharding import cover
from proofs.sharding.cover import Parts
from proofs.sharding.mesh import Mesh, Part
from proofs.sharding.parts import Dimension

SQUARE = Mesh({"mesh": [["a", 2], ["b", 2]]})
STAGES = Mesh({"mesh": [["pipe", 2], ["b", 2]]})


def dimension(axis: str, start: int, held: int, size: int = 8) -> Dimension:
    return Dimension(size, axis, Part(start, held, 4))


def hole(tensor: str = "w", **where: tuple[int, ...]) -> Violation:
    return Violation(Obligation.SHARDS_COVER, "", (tensor,), **where)


def holes(found: dict[int, Parts]) -> list[Violation]:
    """The violations of the square, each without its text."""
    return [each._replace(text="") for each in cover.find_holes(SQUARE, found, "")]


def grid(*of_rank: tuple[tuple[int, int], tuple[int, int]]) -> dict[int, Parts]:
    """What the ranks of the square hold of `w`, whose rows `a` splits and whose columns `b`, as (start, held)."""
    return {r: {"w": (dimension("a", *rows), dimension("b", *columns))} for r, (rows, columns) in enumerate(of_rank)}


TOP, BOTTOM = (0, 4), (4, 4)
QUARTERS = ((TOP, TOP), (TOP, BOTTOM), (BOTTOM, TOP), (BOTTOM, BOTTOM))


def test_a_quarter_on_each_rank_covers_a_matrix() -> None:
    assert list(cover.find_holes(SQUARE, grid(*QUARTERS), "")) == []


def test_a_hole_in_one_dimension_is_an_element_of_all_of_them() -> None:
    """The element lies where a rank is that holds its neighbour; each dimension has a hole of its own."""
    late = grid((TOP, TOP), (TOP, (5, 3)), (BOTTOM, TOP), (BOTTOM, (5, 3)))
    assert holes(late) == [hole(element=(0, 4))]
    early = grid((TOP, TOP), (TOP, BOTTOM), ((3, 5), TOP), ((3, 5), BOTTOM))
    assert holes(early) == [hole(ranks=(0, 2), element=(3, 0))]
    short = grid(*[((start, 3), columns) for (start, _), columns in QUARTERS])
    assert [hole.element for hole in cover.find_holes(SQUARE, short, "")] == [(3, 0)]
    ends = grid((TOP, (0, 3)), (TOP, (3, 4)), (BOTTOM, (0, 3)), (BOTTOM, (3, 4)))
    assert holes(ends) == [hole(element=(0, 7))]


def test_ranks_at_one_place_of_an_axis_hold_the_same_along_it() -> None:
    other = grid((TOP, TOP), (TOP, BOTTOM), (BOTTOM, TOP), ((5, 3), BOTTOM))
    assert holes(other) == [hole(ranks=(2, 3))]


def test_places_that_hold_nothing_stand_anywhere() -> None:
    one = Mesh({"mesh": [["a", 3]]})
    for spans in (((0, 4), (4, 0), (4, 0)), ((0, 4), (2, 0), (9, 0)), ((1, 0), (0, 4), (0, 0))):
        found = {rank: {"w": (dimension("a", start, held, 4),)} for rank, (start, held) in enumerate(spans)}
        assert list(cover.find_holes(one, found, "")) == []
    assert list(cover.find_holes(one, {rank: {"w": (dimension("a", 0, 0, 0),)} for rank in range(3)}, "")) == []
    assert list(cover.find_holes(one, {rank: {"w": ()} for rank in range(3)}, "")) == []


WHOLE = dimension("", 0, 8)


@pytest.mark.parametrize(
    ("holders", "hole"),
    [
        ((0, 1), None), ((2, 3), None), ((0, 1, 2, 3), None), ((), None),
        ((2,), "rank 2 holds a part of w, but rank 3 does not"),
        ((1,), "rank 1 holds a part of w, but rank 0 does not"),
        ((0, 1, 3), "rank 3 holds a part of w, but rank 2 does not"),
        ((1, 2, 3), "rank 1 holds a part of w, but rank 0 does not"),
        ((1, 2), "rank 1 holds a part of w, but rank 0 does not"),
    ],
)  # fmt: skip
def test_what_one_rank_of_a_stage_holds_all_of_it_hold(holders: Sequence[int], hole: str | None) -> None:
    """A stage may have what the other has not. spec: R7.18"""
    found = {rank: {"v": (WHOLE,), **({"w": (WHOLE,)} if rank in holders else {})} for rank in range(4)}
    holes = list(cover.find_holes(STAGES, found, "pipe"))
    assert [one.text for one in holes] == ([hole] if hole else [])
    for one in holes:
        assert (one.ranks[1] in holders, one.ranks[0] in holders, one.element) == (True, False, None)


def test_without_stages_every_rank_holds_a_part_of_every_tensor() -> None:
    found: dict[int, Parts] = {0: {"w": (WHOLE,)}, 1: {"w": (WHOLE,)}, 2: {}, 3: {}}
    assert [hole.ranks for hole in cover.find_holes(STAGES, found, "")] == [(2, 0)]


def test_ranks_that_state_other_sizes_or_axes_are_named_and_other_tensors_looked_at() -> None:
    def found(*of: Dimension) -> dict[int, Parts]:
        return {rank: {"v": (one,), "w": (dimension("", 1, 7),)} for rank, one in enumerate(of)}

    gap = hole(element=(0,))
    larger, split = dimension("", 0, 9, 9), dimension("b", 0, 8)
    for of, pair in (((WHOLE, WHOLE, WHOLE, larger), (0, 3)), ((WHOLE, split, larger, WHOLE), (0, 1))):
        assert holes(found(*of)) == [hole("v", ranks=pair), gap]


class Scripted:
    """A solver that gives these answers in turn and keeps what it was asked."""

    version = "scripted"

    def __init__(self, *answers: str | None) -> None:
        self.answers, self.asked = list(answers), list[str]()

    def evaluate(self, text: str, timeout_s: float) -> Answer:
        self.asked.append(text)
        said = self.answers.pop(0) if self.answers else DISCHARGED
        return Answer(said or "", None if said is not None else f"late after {timeout_s:g} s", 0.0)

    def close(self) -> None: ...


def test_every_part_is_evaluated_once_and_so_many_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ranks hold alike is one row; where an axis splits nothing there is one place."""
    monkeypatch.setattr(cover, "ROWS", 2)
    solver = Scripted()
    by_rank = grid(*QUARTERS)
    by_rank[0] = {**by_rank[0], "v": (WHOLE,)}
    assert cover.prove_cover(SQUARE, by_rank, solver, 1.0) is None
    first, second = "(is_chunk 8 2 4 0 0 4)", "(is_chunk 8 2 4 1 4 4)"
    assert solver.asked[2:] == [refutation(f"{first}\n(is_chunk 8 1 4 0 0 8)"), refutation(second)]


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        (["sat\nsat"], "each_element_is_held: the solver answers 'sat\\nsat'"),
        ([DISCHARGED, "unsat\nunsat"], "no_element_is_held_twice: the solver answers 'unsat\\nunsat'"),
        ([DISCHARGED, None], "no_element_is_held_twice: late after 3 s"),
        ([DISCHARGED, DISCHARGED, "unknown"], "the solver answers 'unknown' of the parts"),
        ([DISCHARGED, DISCHARGED, None], "late after 3 s"),
        ([DISCHARGED, DISCHARGED, DISCHARGED, "sat\nsat"], "the solver answers 'sat\\nsat' of the parts"),
        ([DISCHARGED, DISCHARGED, "?" * 300], f"the solver answers '{'?' * 200}' of the parts"),
        (["?" * 300], f"each_element_is_held: the solver answers '{'?' * 200}'"),
    ],
)
def test_only_exact_answers_to_all_queries_are_a_proof(
    answers: list[str | None], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec: V4.1"""
    monkeypatch.setattr(cover, "ROWS", 1)
    assert cover.prove_cover(SQUARE, grid(*QUARTERS), Scripted(*answers), 3.0) == why


EVERYTHING = "(define-fun holds ((n Int) (chunk Int) (place Int) (element Int)) Bool true)"
SAT = "the solver answers 'sat\\nsat'"


def test_the_lemmas_are_about_one_place_and_the_first_element_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a lemma's text is that one such case, it is false. spec: R7.25"""
    case = STATEMENTS[0]._replace(name="case", goal="(not (and (= n 1) (= places 1) (= chunk 1) (= element 0)))")
    monkeypatch.setattr(cover, "STATEMENTS", [case])
    with Z3(DEFINITIONS) as solver:
        assert cover.prove_cover(SQUARE, {}, solver, 60) == f"case: {SAT}"


def test_the_lemmas_are_about_every_place_of_an_axis(monkeypatch: pytest.MonkeyPatch) -> None:
    """If each place held all, each element would be held, and twice, at any two places. spec: R7.25"""
    with Z3(EVERYTHING) as solver:
        for element, one, other in product((-1, 0, 5, 6), range(-1, 5), range(-1, 5)):
            asked = {"places": 3, "chunk": 2, "element": element, "one": one, "other": other}
            values = ["(<= 1 chunk)", *(f"(= {name} (- {7 + value} 7))" for name, value in asked.items())]
            each, twice = (lemma._replace(hypotheses=(*values, *lemma.hypotheses[5:])) for lemma in STATEMENTS)
            monkeypatch.setattr(cover, "STATEMENTS", [each, twice])
            found = SAT if 0 <= one < other < 3 else "the solver answers 'unsat\\nunsat'"  # no such places
            right = f"{twice.name}: {found}" if 0 <= element < 6 else f"{each.name}: {SAT}"
            assert cover.prove_cover(SQUARE, {}, solver, 60) == right


def test_a_stated_part_is_the_chunk_of_a_place_of_the_axis_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five elements on three ranks, in chunks that reach and chunks that do not. spec: R7.25"""
    right = {(2, 0, 0, 2), (2, 1, 2, 2), (2, 2, 4, 1)}
    monkeypatch.setattr(cover, "STATEMENTS", ())
    monkeypatch.setattr(Mesh, "at", lambda self, rank, axis: rank)
    with Z3(DEFINITIONS) as solver:
        for chunk, place, start, held in product((1, 2), range(-1, 4), range(-1, 6), range(3)):
            part = Dimension(5, "a", Part(start, held, chunk))
            reason = cover.prove_cover(Mesh({"mesh": [["a", 3]]}), {place: {"w": (part,)}}, solver, 60)
            assert (reason is None) == ((chunk, place, start, held) in right), part
