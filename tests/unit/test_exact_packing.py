"""The search for a placement without a free byte: right, complete, and the same however it is run. spec: A8.8, A8.11"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.support.buffers import hard, least, right
from tests.support.effort import share
from tests.support.tight import FAMILIES, cut_tight
from tmmu.planner.layouts import exact
from tmmu.planner.layouts.boxes import Boxes, Packing, place_best_fit
from tmmu.planner.layouts.compiled import compile_loop
from tmmu.planner.layouts.search import Effort, Group, find_sections

LOOKS = 1 << 22


def interpreted(_loop: Callable[..., int]) -> None:
    """No loop is compiled."""


def filled(seed: int, count: int, steps: int) -> Boxes:
    """Random boxes, and one more if bytes are left below the peak at a step. One set in six cannot be placed."""
    rng = random.Random(seed)
    birth = [rng.randrange(steps) for _ in range(count)]
    death = [min(steps - 1, b + rng.randrange(1, 4)) for b in birth]
    size = [rng.choice((3, 4, 5, 7, 9, 11)) for _ in range(count)]
    live = [sum(z for b, d, z in zip(birth, death, size, strict=True) if b <= s <= d) for s in range(steps)]
    for step in range(steps):
        while live[step] < max(live):
            last = step
            while last + 1 < steps and live[last + 1] < max(live) and rng.random() < 0.9:
                last += 1
            birth.append(step)
            death.append(last)
            size.append(max(live) - max(live[step : last + 1]))
            for s in range(step, last + 1):
                live[s] += size[-1]
    return Boxes(birth, death, size, [1] * len(size), {})


def decide(boxes: Boxes, budget: int = LOOKS) -> tuple[int, list[int], list[int]]:
    """The outcome of the search at the peak, offsets and registers, uncompiled."""
    sections = find_sections(boxes).of
    chains = exact.join_chains(sections)
    problem = exact.build_chains(boxes.size, boxes.alignment, sections, chains)
    state = exact.start_state(problem)
    outcome = exact.explore(problem, state, boxes.peak(), budget)
    of_boxes = {i: at for chain, at in zip(chains, state.placement.offset, strict=True) for i in chain}
    return outcome, [of_boxes[i] for i in range(len(boxes))], state.placement.register


def is_possible(boxes: Boxes) -> bool:
    """Whether the other complete search finds a placement as low as the peak."""
    group = Group(boxes, Packing([-1] * len(boxes), sum(boxes.size) + 1), interpreted)
    group.has_no_slack = lambda: False  # type: ignore[method-assign]
    effort = Effort(LOOKS)
    for _ in group.steps(effort):
        assert effort.left > 0
    return group.best.height == boxes.peak()


def test_boxes_of_brute_force_are_placed_just_if_they_can_be() -> None:
    for seed in range(share(60)):
        boxes = filled(seed, 4, 3)
        if len(boxes) <= 6:
            outcome, offset, _ = decide(boxes)
            assert (outcome == exact.FOUND) == (least(boxes) == boxes.peak()), seed
            assert outcome == exact.NONE or right(boxes, offset)


@pytest.mark.parametrize("kept", [exact.KEPT, 2])
def test_it_says_that_nothing_fits_just_if_the_other_complete_search_does(
    monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    """Also if it restarts all the time and forgets most."""
    if kept == 2:
        for name, value in (("RESTART_UNIT", 2), ("KEPT", 2), ("KEPT_MORE", 1)):
            monkeypatch.setattr(exact, name, value)
    outcomes, dropped = {exact.FOUND: 0, exact.NONE: 0}, 0
    for seed in range(share(80)):
        boxes = filled(seed, 12, 8)
        outcome, offset, register = decide(boxes)
        outcomes[outcome] += 1
        dropped += register[exact.REDUCED]
        assert outcome == exact.NONE or (
            right(boxes, offset) and max(map(sum, zip(offset, boxes.size, strict=True))) == boxes.peak()
        )
        assert (outcome == exact.FOUND) == is_possible(boxes), seed
    assert share(80) < 80 or (min(outcomes.values()) > 1 and (dropped > 0) == (kept == 2))


@pytest.mark.parametrize("name", FAMILIES)
def test_tight_boxes_of_every_family_are_placed_and_compiled_takes_the_same_steps(name: str) -> None:
    boxes = cut_tight(FAMILIES[name], 1, 40, 20, 64)
    problem = exact.build_problem(boxes.size, boxes.alignment, find_sections(boxes).of)
    found = []
    for how in (compile_loop, interpreted):
        group = Group(boxes, Packing([-1] * len(boxes), 1 << 20), how)
        assert group.has_no_slack()
        effort, trace = Effort(LOOKS), []
        for _ in group.steps(effort):
            trace.append((effort.spent, effort.found, group.best, group.bound))
        assert right(boxes, [*group.best.offsets])
        assert group.best.height == 64
        found.append(trace)
    assert found[0] == found[1]
    whole, pieces = exact.start_state(problem), exact.start_state(problem)
    assert exact.explore(problem, whole, 64, LOOKS) == exact.FOUND
    while exact.explore(problem, pieces, 64, pieces.placement.register[exact.SPENT] + 50) == exact.PAUSED:
        pass
    assert pieces == whole, "wherever the search is interrupted"


def test_alignment_is_kept_and_can_be_what_forbids_a_placement() -> None:
    boxes = Boxes([0, 0, 1], [0, 1, 1], [2, 4, 2], [2, 4, 2], {})
    assert decide(boxes)[:2] == (exact.FOUND, [4, 0, 4])
    assert decide(replace(boxes, birth=[0, 0, 0, 1], death=[0, 1, 0, 1], size=[1, 4, 1, 2], alignment=[1, 4, 1, 4]))[
        0
    ] == (exact.FOUND)
    assert decide(Boxes([0] * 3, [0] * 3, [1, 2, 1], [2, 2, 2], {}))[0] == exact.NONE


def test_it_is_asked_only_if_no_byte_is_free_and_nothing_else_constrains_the_boxes() -> None:
    boxes = cut_tight(FAMILIES["pinwheels"], 2, 12, 8, 32)
    cases = {
        "free": replace(boxes, size=[*boxes.size[:-1], boxes.size[-1] + 1]),
        "apart": replace(boxes, apart={0: [1], 1: [0]}),
        "fixed": replace(boxes, fixed={0: 0}),
        "gaps": replace(boxes, gaps={2: [(3, 3)]}),
    }
    assert Group(boxes, place_best_fit(boxes)).has_no_slack()
    for name, case in cases.items():
        assert not Group(case, place_best_fit(case)).has_no_slack(), name
    assert not Group(hard(1), place_best_fit(hard(1))).has_no_slack()


def test_the_bound_rises_where_nothing_fits_and_the_effort_is_that_of_the_proof() -> None:
    boxes = next(boxes for boxes in (filled(seed, 12, 8) for seed in range(99)) if decide(boxes)[0] == exact.NONE)
    group = Group(boxes, place_best_fit(boxes), interpreted)
    group.best = Packing(group.best.offsets, max(group.best.height, boxes.peak() + 1))
    effort = Effort(LOOKS)
    next(iter(group.steps(effort)))
    assert (group.bound, effort.found) == (boxes.peak() + group.unit, effort.spent)


def test_boxes_of_a_chain_have_one_offset() -> None:
    """At the border of sections 1 and 2 one box ends and one begins; at the others two do."""
    boxes = Boxes([0, 0, 1, 1, 2, 3, 3], [0, 0, 1, 2, 2, 3, 3], [2, 3, 2, 3, 2, 1, 4], [1, 1, 2, 1, 1, 1, 1], {})
    sections = find_sections(boxes).of
    chains = exact.join_chains(sections)
    assert chains == [[0], [1], [2, 4], [3], [5], [6]]
    problem = exact.build_chains(boxes.size, boxes.alignment, sections, chains)
    assert (problem.first, problem.last) == ([0, 0, 1, 1, 2, 2], [1, 1, 2, 2, 3, 3])
    assert problem.alignment == [1, 1, 2, 1, 1, 1]
