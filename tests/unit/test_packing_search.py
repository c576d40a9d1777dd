"""Searching for lower placements: right for every constraint, as low as brute force, and the same however it is run.

spec: A8.8, A8.9, A8.10
"""

from __future__ import annotations

import random
import sys
from array import array
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.support.buffers import hard, least, live, right
from tests.support.effort import share
from tmmu.core.alignment import align_up
from tmmu.core.vocabulary import ArenaConfiguration, Role
from tmmu.planner.layouts import around, exhaustive, refit
from tmmu.planner.layouts import best_fit as placing
from tmmu.planner.layouts import boxes as engines
from tmmu.planner.layouts import search as search_module
from tmmu.planner.layouts.boxes import (
    Boxes,
    Neighbours,
    Obstructed,
    Packing,
    build_boxes,
    place_best_fit,
    place_by_length,
)
from tmmu.planner.layouts.compiled import compile_loop
from tmmu.planner.layouts.search import Effort, Group, Search, find_sections, most_live_bytes, run_searches
from tmmu.planner.problem import AllocationProblem, Fixed

LOOKS = 1 << 22


def interpreted(_loop: Callable[..., int]) -> None:
    """No loop is compiled."""


def drawn(seed: int, count: int, *, constrained: bool = True) -> Boxes:
    """Boxes of few sizes in few steps, so that they meet, some equal, some bound by further constraints."""
    rng = random.Random(seed)
    births = [rng.randrange(6) for _ in range(count)]
    deaths = [b + rng.randrange(5) for b in births]
    sizes = [rng.choice((1, 2, 3, 4, 6, 9)) for _ in range(count)]
    if not constrained:
        return Boxes(births, deaths, sizes, [1] * count, {})
    apart: dict[int, list[int]] = {}
    if rng.random() < 0.4:
        i, j = rng.sample(range(count), 2)
        apart = {i: [j], j: [i]}
    gaps = {
        i: [(births[i] + 1, deaths[i] - 1)] for i in range(count) if deaths[i] - births[i] > 1 and not rng.randrange(3)
    }
    alignment = [rng.choice((1, 1, 2, 4)) for _ in range(count)]
    fixed = {i: 4 * rng.randrange(4) for i in rng.sample(range(count), rng.randrange(2))}
    return Boxes(births, deaths, sizes, alignment, apart, fixed, gaps)


def above(boxes: Boxes) -> Packing:
    """A height that nothing needs, with no offsets that could be mistaken for right ones."""
    return Packing([-1] * len(boxes), sum(boxes.size) + len(boxes) * 8 + 64)


def stacked(boxes: Boxes) -> Packing:
    """Nothing shares a byte."""
    offsets, end = [], 0
    for size, alignment in zip(boxes.size, boxes.alignment, strict=True):
        offsets.append(align_up(end, alignment))
        end = offsets[-1] + size
    return Packing(offsets, end)


@pytest.mark.parametrize("constrained", [False, True])
def test_a_small_search_ends_at_the_optimum_that_brute_force_finds_and_proves_it(constrained: bool) -> None:
    proved_above_peak = 0
    for seed in range(share(150)):
        boxes = drawn(seed, 6, constrained=constrained)
        best = least(boxes)
        group = Group(boxes, above(boxes), interpreted)
        for _ in group.steps(Effort(LOOKS)):
            pass
        if best is None:  # what is fixed leaves nothing
            assert group.best.offsets[0] == -1
            assert group.bound >= group.best.height
            continue
        assert right(boxes, group.best.offsets), (seed, group.best)
        assert group.best.height == best == group.bound, seed
        proved_above_peak += best > boxes.least()
    assert proved_above_peak or not constrained or share(150) < 20, (
        "instances are among them whose optimum is above what is live"
    )


@pytest.mark.parametrize(("width", "constrained"), [(1, False), (1, True), (1 << 59, False)])
def test_compiled_and_interpreted_searches_take_the_same_steps(width: int, constrained: bool) -> None:
    """Sums of 2^62 and more are searched in Python's integers, whatever is installed. spec: A10.5"""
    assert compile_loop(exhaustive.explore) is not None, "numba is installed where tests run"
    boxes = hard(3, 40)
    boxes = Boxes(boxes.birth, boxes.death, [size * width for size in boxes.size], boxes.alignment, {})
    first = stacked(boxes)
    if constrained:
        placed = place_best_fit(boxes).offsets
        gaps = {i: [(b + 1, d - 1)] for i, (b, d) in enumerate(zip(boxes.birth, boxes.death, strict=True)) if d - b > 4}
        boxes = replace(boxes, fixed={i: placed[i] for i in range(4)}, gaps=gaps)
        first = around.place_above_fixed(boxes, first)
    found = []
    for how in (compile_loop, interpreted):
        effort, trace = Effort(400_000), []
        search = Search(boxes, first, 0, how)
        for _ in search.steps(effort):
            trace.append((effort.spent, effort.found, search.best, search.bound))
            if effort.left <= 0:
                break
        found.append(trace)
    assert found[0] == found[1]
    assert width > 1 or len({packing.height for _, _, packing, _ in found[0]}) > 1, "something was found"
    assert Group(boxes, above(boxes)).compile(exhaustive.explore) is None or width == 1


def test_without_numba_the_same_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra `fast` changes how long it takes, and nothing else. spec: A8.8"""
    boxes, found = hard(0), []
    for absent in (False, True):
        if absent:
            monkeypatch.setitem(sys.modules, "numba", None)
            assert compile_loop.__wrapped__(refit.refit) is None
        search, effort = (
            Search(boxes, stacked(boxes), 0, compile_loop.__wrapped__ if absent else compile_loop),
            Effort(30_000),
        )
        run_searches([search], effort, lambda: False)
        found.append((search.best, search.bound, effort.found))
    assert found[0] == found[1]
    assert found[0][2]


def by_definition(boxes: Boxes) -> list[int]:
    """The offsets of `best_fit`: of the first eight gaps by size between what is live, one that holds the box."""
    offsets: dict[int, int] = {}
    for i in sorted(range(len(boxes)), key=lambda i: (boxes.birth[i], -boxes.size[i])):
        gaps, low = [], 0
        for at, j in sorted((at, j) for j, at in offsets.items() if boxes.death[j] >= boxes.birth[i]):
            gaps.append((at - low, low))
            low = at + boxes.size[j]
        starts = [(align_up(at, boxes.alignment[i]), at + free) for free, at in sorted(gaps) if free >= boxes.size[i]]
        fitting = [start for start, end in starts[: placing.TRIES] if start + boxes.size[i] <= end]
        offsets[i] = fitting[0] if fitting else align_up(low, boxes.alignment[i])
    return [offsets[i] for i in range(len(boxes))]


@pytest.mark.parametrize("width", [1, 1 << 51, 1 << 59])
def test_compiled_and_interpreted_allocators_do_what_is_defined(width: int) -> None:
    """Whatever the length of a piece, and where sums leave 62 bits too."""
    rng = random.Random(width)
    for longest in (2, 7, 512):
        births = [rng.randrange(60) for _ in range(120)]
        boxes = Boxes(
            births,
            [birth + rng.choice((0, 3, rng.randrange(60))) for birth in births],
            [width * rng.choice((1, 8, 12, 24, rng.randrange(1, 300))) for _ in births],
            [rng.choice((1, 8, 128)) for _ in births],
            {},
        )
        found = place_best_fit(boxes, interpreted, longest)
        assert found.offsets == by_definition(boxes)
        assert place_best_fit(boxes, compile_loop, longest) == place_best_fit(boxes) == found


def test_only_where_boxes_are_many_the_compiled_allocator_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading it takes longer than a thousand boxes do."""
    asked: list[object] = []
    monkeypatch.setattr(engines, "compile_loop", asked.append)
    monkeypatch.setattr(engines, "MANY", 3)
    for count in (2, 3):
        of = Boxes([0] * count, [0] * count, [1] * count, [1] * count, {})
        assert place_best_fit(of, interpreted).height == count
        assert asked == []
        assert place_best_fit(of).height == count
        assert asked == [placing.fit][: count - 2]


@pytest.mark.parametrize("fixed", [{}, {0: 1}])
@pytest.mark.parametrize("is_wide", [False, True])
def test_what_is_compiled_is_all_that_fits_63_bits(is_wide: bool, fixed: dict[int, int]) -> None:
    """Sizes, alignments and the end of what is fixed add up to 2^62, or to one less. spec: A10.5"""
    first, ends = 1 << 60, sum(at + (1 << 60) for at in fixed.values())
    boxes = Boxes([0, 0], [0, 0], [first, (1 << 62) - 1 + is_wide - first - 5 - ends], [1, 4], {}, fixed)
    asked: list[object] = []

    def recorded(loop: Callable[..., int]) -> Callable[..., int] | None:
        asked.append(loop)
        return compile_loop(loop)

    assert boxes.is_wide == is_wide
    assert place_best_fit(boxes, recorded).height == sum(boxes.size)
    assert asked == [] if is_wide else [placing.fit]
    assert boxes.peak() == sum(boxes.size)


def test_steps_beyond_31_bits_are_steps() -> None:
    most = 1 << 31
    for shift in range(3):
        boxes = Boxes([0, most - shift], [most - shift - 1, most], [1, 1], [1, 1], {})
        assert place_best_fit(boxes) == Packing([0, 0], 1)


def test_columns_of_many_boxes_hold_what_the_lists_of_few_do(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = AllocationProblem(
        (ArenaConfiguration("a", (Role.ACTIVATION,)),), list("pqrs"), [0, (1 << 64) - 1, 3, 9], [1, 1 << 63, 4, 1],
        [0, 1, 0, 2], [8, 9, 4, 2], [(0,)] * 4, [0, 1, 0, 2], conflicts={0: {2, 3}, 2: {0}, 3: {0}},
        fixed={2: Fixed(64, "r"), 3: Fixed(0, "s")}, gaps={1: [(3, 4)], 3: [(2, 2)]},
    )  # fmt: skip
    for many, kind in ((4, list), (3, array)):
        monkeypatch.setattr(engines, "MANY", many)
        found = build_boxes(problem, [0, 2, 1], 2)
        columns_of = found.birth, found.death, found.size, found.alignment
        assert [type(column) for column in columns_of] == [kind] * 4
        assert list(map(list, columns_of)) == [[0, 0, 1], [8, 4, 9], [1, 3, (1 << 64) - 1], [2, 4, 1 << 63]]
        assert (found.apart, found.fixed, found.gaps) == ({0: [1], 1: [0]}, {1: 64}, {2: [(3, 4)]})
        assert found.peak() == (1 << 64) + 3


def test_what_is_live_at_a_step_is_not_what_has_a_gap_there() -> None:
    for seed in range(20):
        boxes, some = drawn(seed, 6), random.Random(seed).sample(range(6), 4)
        asked = AllocationProblem(
            (), [], [*boxes.size], [*boxes.alignment], boxes.birth, boxes.death, [], [], gaps=boxes.gaps
        )  # fmt: skip
        expected = [sum(boxes.size[i] for i in some if step in live(boxes, i)) for step in range(max(boxes.death) + 1)]
        assert asked.live_bytes(some) == expected


def test_neighbours_are_what_a_box_may_share_no_byte_with_and_each_box_lies_as_low_as_can_be() -> None:
    rng = random.Random(3)
    for seed in range(150):
        boxes = drawn(seed, 8)
        steps = [live(boxes, i) for i in range(8)]
        met = [
            {j for j in range(8) if j != i and (steps[i] & steps[j] or j in boxes.apart.get(i, ()))} for i in range(8)
        ]
        neighbours, order = Neighbours(boxes), rng.sample(range(8), 8)
        assert [sorted(of) for of in neighbours.of] == list(map(sorted, met))
        offsets, work, ends, placed = dict(boxes.fixed), 0, [boxes.fixed_end()], []
        for i in order:
            if i not in boxes.fixed:
                taken = [range(offsets[j], offsets[j] + boxes.size[j]) for j in met[i] if j in offsets]
                offsets[i] = next(
                    at for at in range(0, 999, boxes.alignment[i])
                    if all(at >= of.stop or at + boxes.size[i] <= of.start for of in taken)
                )  # fmt: skip
                work += len(met[i]) + engines.FIXED
                ends.append(max(ends[-1], offsets[i] + boxes.size[i]))
                placed.append(Obstructed(i, work))
        assert neighbours.place(order, ends[-1] + 1) == Packing([offsets[i] for i in range(8)], ends[-1])
        for below in ends:
            assert neighbours.place(order, below) == placed[max(0, ends.index(below) - 1)]


def test_what_is_kept_of_compiled_loops_names_no_class_of_ours() -> None:
    """A kept loop whose types name a class cannot be read once the class has another name."""
    boxes = hard(3, 20)
    place_best_fit(boxes, compile_loop)
    run_searches([Search(boxes, stacked(boxes), 0)], Effort(200_000), lambda: False)
    for loop in (exhaustive.explore, refit.refit, placing.fit):
        signatures = compile_loop(loop).signatures  # type: ignore[union-attr]
        assert signatures
        assert "tmmu" not in str(signatures)
        assert "NamedTuple" not in str(signatures)


def test_more_effort_begins_with_the_same_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the effort at which something was last found the same is found, whenever the search was stopped."""
    monkeypatch.setattr(search_module, "SLICE", 1_000)
    first, second = hard(5), hard(6)

    def run(limit: int, stop: int = 1 << 62) -> tuple[int, list[Packing], list[int]]:
        effort = Effort(limit)
        searches = [Search(boxes, stacked(boxes), 0) for boxes in (first, second)]
        run_searches(searches, effort, lambda: effort.spent >= stop)
        return effort.found, [search.best for search in searches], [search.bound for search in searches]

    found = [run(300_000, stop) for stop in (0, 1_000, 20_000, 100_000, 1 << 62)]
    assert len({effort for effort, _, _ in found}) > 2
    for stopped in found:
        assert run(stopped[0]) == stopped


def test_a_capacity_is_tried_first_and_what_does_not_fit_is_proved() -> None:
    """Five boxes of two bytes in a ring, each bound to the next: two live at one step, and three must lie apart."""
    ring = Boxes([0, 1, 2, 3, 4], [1, 2, 3, 4, 4], [2] * 5, [1] * 5, {0: [4], 4: [0]})
    search = Search(ring, stacked(ring), 5, interpreted)
    run_searches([search], Effort(LOOKS), lambda: False)
    assert right(ring, search.best.offsets)
    assert (search.best.height, search.bound, search.proved) == (6, 6, True)
    assert (least(ring), ring.peak()) == (6, 4)
    group = Group(hard(9), stacked(hard(9)))
    assert list(group.heights()) == [group.bound, (group.bound + group.best.height) // 2]
    group.capacity = group.bound + 7
    assert list(group.heights()) == [group.capacity]
    group.capacity = group.bound - 1
    assert next(group.heights()) == group.bound, "it is known that this capacity is too small"


def test_boxes_that_nothing_binds_are_searched_apart_and_the_highest_decides() -> None:
    boxes = Boxes([0, 0, 5, 5, 6], [1, 1, 6, 6, 6], [3, 4, 5, 6, 7], [1] * 5, {})
    search = Search(boxes, stacked(boxes), 0, interpreted)
    assert [rows for rows, _ in search.groups] == [[0, 1], [2, 3, 4]]
    run_searches([search], Effort(LOOKS), lambda: False)
    assert (search.best.height, search.bound, search.proved) == (18, 18, False)
    bound = Boxes([0, 5], [1, 6], [3, 4], [1] * 2, {0: [1], 1: [0]})
    assert len(Search(bound, stacked(bound), 0, interpreted).groups) == 1


def test_sections_are_the_steps_at_which_no_more_could_be_live() -> None:
    boxes = Boxes([0, 1, 2, 4], [3, 2, 5, 5], [1] * 4, [1] * 4, {}, {}, {2: [(3, 4)]})
    assert find_sections(boxes).members == [[0, 1, 2], [2, 3]]


def test_the_key_of_an_order_is_the_most_that_is_live_while_a_box_is() -> None:
    """In sections, which large groups have none of: nothing of theirs grows with what is live at each step."""
    for seed in range(30):
        boxes = drawn(seed, 12)
        sections = find_sections(boxes)
        total = [sum(boxes.size[i] for i in members) for members in sections.members]
        assert most_live_bytes(boxes) == [max(total[c] for c in of) for of in sections.of]
    nested = 3_000
    large = Boxes(list(range(nested)), [2 * nested - b for b in range(nested)], [8] * nested, [8] * nested, {})
    group = Group(large, stacked(large), interpreted)
    assert (group.is_few, group.sections.members, group.bound) == (False, [], 8 * nested)


@pytest.mark.parametrize("tries", range(4))
def test_what_lives_for_a_power_of_two_of_steps_is_placed_apart(tries: int) -> None:
    rng = random.Random(tries)
    for _ in range(60):
        births = [rng.randrange(9) for _ in range(rng.randrange(1, 9))]
        lives = [rng.randrange(1, 18) for _ in births]
        deaths = [birth + steps - 1 for birth, steps in zip(births, lives, strict=True)]
        boxes = Boxes(births, deaths, [rng.randrange(1, 9) for _ in births], [rng.choice((1, 4)) for _ in births], {})
        splits = []
        for power in (2, 4, 8, 16):
            rows = [[i for i, steps in enumerate(lives) if (steps >= power) == is_long] for is_long in (True, False)]
            if all(rows):
                splits.append((sum(boxes.part(of).peak() for of in rows), power, rows))
        expected = []
        for _, _, (long, short) in sorted(splits)[:tries]:
            below, others = place_best_fit(boxes.part(long)), place_best_fit(boxes.part(short))
            top = align_up(below.height, max(boxes.alignment))
            at = dict(zip(long, below.offsets, strict=True)) | {
                i: top + offset for i, offset in zip(short, others.offsets, strict=True)
            }
            expected.append(Packing([at[i] for i in range(len(births))], top + others.height))
        assert list(place_by_length(boxes, tries)) == expected


def test_what_lives_long_lies_below_what_does_not() -> None:
    """Layers that save bytes for a backward pass, with others of a few steps between: fragments for one allocator."""
    rng, layers = random.Random(7), 400
    spans = [(n, 2 * layers - n) for n in range(layers)] + [(n, n + 2) for n in range(2 * layers - 2)]
    sizes = [rng.randrange(1, 4096) for _ in spans]
    boxes = Boxes([b for b, _ in spans], [d for _, d in spans], sizes, [1] * len(spans), {})
    found = list(place_by_length(boxes, 2))
    assert len(found) == 2
    assert all(right_in_time(boxes, packing) for packing in found)
    lowest = min(packing.height for packing in found)
    assert boxes.peak() <= lowest <= 1.01 * boxes.peak() < place_best_fit(boxes).height
    assert list(place_by_length(boxes, 0)) == []
    assert list(place_by_length(Boxes([0, 1], [3, 4], [5, 6], [1, 8], {}), 5)) == []


def right_in_time(boxes: Boxes, packing: Packing) -> bool:
    """No two boxes that meet share a byte, and the height is the end of the last."""
    ends = [at + size for at, size in zip(packing.offsets, boxes.size, strict=True)]
    return max(ends) == packing.height and not any(
        boxes.birth[i] <= boxes.death[j] and boxes.birth[j] <= boxes.death[i]
        and packing.offsets[i] < ends[j] and packing.offsets[j] < ends[i]
        for i in range(len(ends)) for j in range(i)
    )  # fmt: skip
