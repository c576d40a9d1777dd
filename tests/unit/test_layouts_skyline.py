"""Placements below a height near the bound, for arenas too large for lists of neighbours. spec: A8.3"""

from __future__ import annotations

import random
from itertools import accumulate, combinations

import numpy as np
import pytest

from tmmu.planner.layouts import packed, skyline
from tmmu.planner.layouts.boxes import Boxes, Packing, place_best_fit
from tmmu.planner.layouts.search import most_live_bytes
from tmmu.planner.layouts.skyline import is_near, place_below

SIX = (512, 4096, 65536, 1 << 20, 3 << 20, 5 << 19)


def draw_boxes(rng: random.Random, n: int, sizes: tuple[int, ...], lengths: tuple[int, ...], step: int = 1) -> Boxes:
    births = [rng.randrange(n) for _ in range(n)]
    return Boxes(
        births, [b + rng.choice(lengths) - 1 for b in births], [rng.choice(sizes) for _ in births], [step] * n, {}
    )


def overlaps(boxes: Boxes, i: int, j: int) -> bool:
    return boxes.birth[i] <= boxes.death[j] and boxes.birth[j] <= boxes.death[i]


def check_placement(boxes: Boxes, found: Packing) -> None:
    """All pairs, by the definition."""
    ends = [at + size for at, size in zip(found.offsets, boxes.size, strict=True)]
    assert found.height == max(ends)
    assert all(at % step == 0 for at, step in zip(found.offsets, boxes.alignment, strict=True))
    assert all(found.offsets[i] == at for i, at in boxes.fixed.items())
    for i, j in combinations(range(len(boxes)), 2):
        if overlaps(boxes, i, j):
            assert ends[i] <= found.offsets[j] or ends[j] <= found.offsets[i], (i, j)


def stack_boxes(boxes: Boxes) -> Packing:
    ends = list(accumulate((-(-size // step) * step for size, step in zip(boxes.size, boxes.alignment, strict=True))))
    return Packing([0, *ends[:-1]], ends[-1])


@pytest.mark.parametrize("step", [1, 4])
@pytest.mark.parametrize("tiny", [0, 3, 12])
def test_what_is_placed_is_apart_aligned_and_lower(step: int, tiny: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if most boxes count as tiny, so that the skyline decides."""
    monkeypatch.setattr(skyline, "TINY", tiny)
    rng, lower = random.Random(tiny), 0
    for _ in range(60):
        boxes = draw_boxes(rng, rng.randrange(1, 40), (1, 3, 4, 17, 64), (1, 2, 9, 30), step)
        first = stack_boxes(boxes)
        found = place_below(boxes, first, boxes.least())
        check_placement(boxes, found)
        assert found.height <= first.height
        assert found == place_below(boxes, first, boxes.least())
        lower += found.height < first.height
    assert lower > 40


def test_fixed_boxes_stay_and_others_go_around_them() -> None:
    rng, lower = random.Random(5), 0
    for _ in range(60):
        boxes = draw_boxes(rng, 12, (1, 3, 4, 17), (1, 2, 9))
        fixed, at = {}, 0
        for i in rng.sample(range(12), 3):
            fixed[i] = at = at + rng.randrange(5)
            at += boxes.size[i]
        given = Boxes(boxes.birth, boxes.death, boxes.size, boxes.alignment, {}, fixed)
        above = Packing([], 1 << 40)
        found = place_below(given, above, given.least())
        if found is not above:
            check_placement(given, found)
            lower += 1
    assert lower > 40


@pytest.mark.parametrize("seed", [7, 8, 9])
def test_a_set_that_best_fit_fragments_loses_most_of_what_is_above_its_bound(seed: int) -> None:
    """Boxes of six sizes, some of which live on for a third of all steps."""
    boxes = draw_boxes(random.Random(seed), 1500, SIX, (1, 2, 3, 8, 50, 500))
    first, least = place_best_fit(boxes), boxes.least()
    found = place_below(boxes, first, least)
    assert not is_near(first.height, least)
    assert 3 * (found.height - least) < first.height - least
    check_placement(boxes, found)


def test_large_arenas_are_packed_near_their_bound_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """With this candidate left out, the portfolio does not get there."""
    boxes = draw_boxes(random.Random(7), 1500, SIX, (1, 2, 3, 8, 50, 500))
    monkeypatch.setattr(packed, "FEW", 0)
    monkeypatch.setattr(packed, "SPARSE", 0)
    found = packed.pack(boxes, stack_boxes(boxes))
    assert is_near(found.height, boxes.least())
    monkeypatch.setattr(packed, "PORTFOLIO", tuple(c for c in packed.PORTFOLIO if c is not packed._try_skylines))
    assert packed.pack(boxes, stack_boxes(boxes)).height > found.height


def test_sums_beyond_63_bits_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> Packing:
        raise AssertionError("sums do not fit")

    monkeypatch.setattr(packed, "FEW", 0)
    monkeypatch.setattr(packed, "place_below", refuse)
    huge = 1 << 61
    packed.pack(Boxes([0, 2, 1], [1, 3, 2], [huge, huge, huge + 1], [1] * 3, {}), Packing([0, 0, 0], 1 << 65))


def test_no_more_than_the_work_is_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A placement is one unit and more: with work for half of the boxes there is none."""
    boxes = draw_boxes(random.Random(3), 200, (1, 7, 64), (1, 9, 50))
    first = stack_boxes(boxes)
    monkeypatch.setattr(skyline, "MOST", 100)
    assert place_below(boxes, first, boxes.least()) is first
    monkeypatch.setattr(skyline, "MOST", 1 << 30)
    assert place_below(boxes, first, boxes.least()).height < first.height


def test_a_bound_that_is_out_of_reach_still_lowers_the_placement() -> None:
    """After some moves greater heights are tried."""
    rng = random.Random(11)
    boxes = draw_boxes(rng, 300, tuple(range(50, 1000, 7)), tuple(range(1, 30)))
    first = stack_boxes(boxes)
    found = place_below(boxes, first, boxes.least() // 2)
    check_placement(boxes, found)
    assert found.height < first.height // 2


def test_a_box_that_cannot_be_moved_ends_its_order() -> None:
    """Box 1 overlaps fixed boxes only, and can be nowhere but above."""
    boxes = Boxes([0, 0], [0, 0], [4, 4], [1, 1], {}, {0: 3})
    best = Packing([3, 7], 12)
    assert place_below(boxes, best, boxes.least()) in (best, Packing([3, 7], 11))


def test_moments_find_the_most_bytes_and_the_skyline() -> None:
    """Against the definitions, moment by moment."""
    rng = random.Random(1)
    for _ in range(40):
        boxes = draw_boxes(rng, rng.randrange(1, 30), (1, 5, 9), (1, 2, 3, 8, 20))
        moments = skyline._Moments(boxes)
        change = np.array([sum(s for f, t, s in zip(moments.first, moments.last, boxes.size, strict=True) if f <= m < t)
                           for m in range(moments.count)])  # fmt: skip
        assert moments._find_most(change).tolist() == most_live_bytes(boxes)
        rows = np.array(rng.sample(range(len(boxes)), rng.randrange(len(boxes) + 1)), np.int64)
        ends = np.array([rng.randrange(1, 100) for _ in rows], np.int64)
        expected = [
            max((int(e) for i, e in zip(rows, ends, strict=True) if moments.first[i] <= m < moments.last[i]), default=0)
            for m in range(moments.count)
        ]
        assert moments.find_skyline(rows, ends).tolist() == expected


def test_orders_begin_where_most_bytes_are_live_and_fixed_boxes_before() -> None:
    boxes = Boxes([0, 1, 4, 4, 9], [1, 5, 4, 8, 9], [1, 2, 5, 4, 30], [1] * 5, {}, {0: 0})
    longest, largest = skyline._Moments(boxes).orders()
    assert longest.tolist() == [0, 4, 1, 2, 3]
    assert largest.tolist() == [0, 4, 2, 3, 1]
