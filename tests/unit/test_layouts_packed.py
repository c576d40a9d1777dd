"""The layout `packed`: a portfolio of placements, the best of which is kept, in bounded effort.

spec: A8.1, A8.2, A8.3, A8.6, R9.1
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations

import pytest

from tmmu.core.alignment import align_up
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import ArenaConfiguration, Body, Model, Node, Role, Tensor
from tmmu.examples.broken.layouts import uneven
from tmmu.planner import PlanOptions, plan_memory
from tmmu.planner.layouts import around, packed
from tmmu.planner.layouts import boxes as engines
from tmmu.planner.layouts.boxes import (
    FIXED,
    Boxes,
    Neighbours,
    Obstructed,
    Packing,
    place_best_fit,
    place_by_length,
    place_from_both_ends,
    place_lowest_fit,
)
from tmmu.planner.layouts.packed import pack
from tmmu.planner.layouts.skyline import is_near, place_below
from tmmu.planner.problem import problem_of_plan
from tmmu.planner.slots import claimed_slots

ONE = (ArenaConfiguration("memory", tuple(Role), alignment=1),)


def boxes(*rows: tuple[int, int, int], apart: dict[int, list[int]] | None = None, alignment: int = 1) -> Boxes:
    """Boxes of (birth, death, size)."""
    births, deaths, sizes = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [])
    return Boxes(births, deaths, sizes, [alignment] * len(rows), apart or {})


def one_after_the_other(of: Boxes) -> Packing:
    """The placement in which nothing shares."""
    offsets, end = [], 0
    for size, alignment in zip(of.size, of.alignment, strict=True):
        offsets.append(align_up(end, alignment))
        end = offsets[-1] + size
    return Packing(offsets, end)


def staircase(count: int, seed: int = 7) -> Boxes:
    """Boxes of many sizes that meet a few others each, which no order places without a gap."""
    rng = random.Random(seed)
    return boxes(*((b, b + rng.randrange(1, 9), rng.randrange(1, 1000)) for b in range(count)))


@pytest.mark.parametrize("width", [1, 1 << 40, 1 << 54, 1 << 60])
def test_bounds_are_those_of_every_step(width: int) -> None:
    """Whatever fits into 64 bits, and where boxes have gaps or lie fixed."""
    rng = random.Random(width)
    for count in (*range(6), 40):
        births = [rng.randrange(9) for _ in range(count)]
        deaths = [birth + rng.randrange(6) for birth in births]
        sizes = [width * rng.randrange(1, 9) for _ in births]
        alignments = [width * rng.choice((1, 2, 8)) for _ in births]
        gaps = {i: [(births[i] + 1, deaths[i] - 1)] for i in range(count) if deaths[i] - births[i] > 1}
        for fixed in ({}, {i: 4 * width * (count - i) for i in range(count)}):
            for gone in ({}, gaps):
                found = Boxes(births, deaths, sizes, alignments, {}, fixed, gone)
                step = min(alignments, default=1)
                padded = [align_up(size, step) for size in sizes]

                def most(amounts: Sequence[int], of: Boxes = found) -> int:
                    live = [sum(amounts[i] for i, b, d in of.pieces() if b <= at <= d) for at in range(16)]
                    return max(live)

                spared = max((a - b for a, b in zip(padded, sizes, strict=True)), default=0)
                least = max(most(sizes), most(padded) - spared)
                end = max((fixed[i] + sizes[i] for i in fixed), default=0)
                assert (found.peak(), found.fixed_end()) == (most(sizes), end)
                assert (found.least(), found.least(is_fixed=False)) == (max(least, end), least)


def test_unequal_storages_take_what_is_live_where_slots_take_more() -> None:
    slots, tight = (
        plan_memory(uneven(), options=PlanOptions(layout=layout)).plan.usage[2] for layout in ("slots", "packed")
    )
    assert (slots.footprint, tight.footprint, tight.peak_live_bytes) == (1536, 1408, 1408)


def test_addresses_stay_those_of_the_slots_where_nothing_is_better() -> None:
    given = boxes((0, 1, 8), (1, 2, 8), (2, 3, 8))
    first = Packing([8, 0, 8], 16)
    assert pack(given, first) is first


def test_the_least_that_is_needed_counts_padding_but_for_what_lies_on_top() -> None:
    """Of boxes of 9, 10 and 14 bytes at multiples of 8 two end in padding, and one, whichever it is, does not."""
    given = boxes((0, 0, 9), (0, 0, 10), (0, 0, 14), alignment=8)
    assert (given.peak(), given.least()) == (33, 41)
    assert place_best_fit(given).height >= 41 == place_lowest_fit(given, [2, 1, 0]).height
    mixed = Boxes([0, 0], [0, 0], [9, 9], [8, 1], {})
    assert mixed.least() == mixed.peak() == 18, "one byte is the least alignment: nothing need be padded"


def test_an_arena_without_storages_needs_nothing() -> None:
    plan = plan_memory(Model("empty", (), (), (Body(-1, "", (), ()),)), options=PlanOptions(layout="packed")).plan
    assert [usage.footprint for usage in plan.usage] == [0, 0, 0, 0]
    assert place_best_fit(boxes()) == place_lowest_fit(boxes(), []) == Packing([], 0)


def test_what_is_in_the_way_moves_forward_until_nothing_is() -> None:
    """In order of birth the last box finds its three bytes cut in two; moved forward it comes before that."""
    given = boxes((0, 0, 3), (0, 1, 5), (1, 2, 2), (1, 2, 3))
    order = [0, 1, 2, 3]
    plain = Neighbours(given).place(order, 1 << 62)
    assert plain == Packing([0, 3, 0, 8], 11)
    better = Neighbours(given).improve(order, one_after_the_other(given), given.peak(), 10_000)
    assert better.height == given.peak() == 10


def test_improving_ends_when_its_work_is_spent_and_where_the_bound_is_reached() -> None:
    given, start = staircase(60, 1), one_after_the_other(staircase(60, 1))
    near = Neighbours(given)
    order = list(range(60))
    heights = [near.improve(order, start, given.peak(), work).height for work in (0, 1, 5_000, 100_000)]
    assert heights[0] == start.height
    assert heights == sorted(set(heights), reverse=True)
    assert heights[-1] >= given.peak()
    assert near.improve(order, start, start.height, 100_000) is start


def test_what_is_in_the_way_goes_halfway_forward_among_its_neighbours() -> None:
    """Box 5 meets 0, 1, 3 and 4, and never fits: it goes before 3, then 1, then 0, and then nothing is before it."""
    tried: list[list[int]] = []

    class Noted(Neighbours):
        def place(self, order: Sequence[int], below: int) -> Packing | Obstructed:
            tried.append(list(order))
            return Obstructed(5, 1)

    given = boxes((0, 0, 1), (1, 1, 1), (4, 4, 1), (2, 2, 1), (2, 2, 1), (0, 2, 1))
    best = one_after_the_other(given)
    assert Noted(given).improve([0, 1, 2, 3, 4, 5], best, 0, 1_000) is best
    assert tried == [[0, 1, 2, 3, 4, 5], [0, 1, 2, 5, 3, 4], [0, 5, 1, 2, 3, 4], [5, 0, 1, 2, 3, 4]]


def test_a_turn_that_succeeds_has_looked_at_all_neighbours() -> None:
    """Four pairs meet, each seen from both sides: one turn of work leads to 11, one look more begins the next."""
    given = boxes((0, 0, 3), (0, 1, 5), (1, 2, 2), (1, 2, 3))
    turn = 2 * 4 + engines.FIXED * 4
    heights = [
        Neighbours(given).improve([0, 1, 2, 3], one_after_the_other(given), 10, work).height
        for work in (turn, turn + 1)
    ]
    assert heights == [11, 10]


def test_a_box_that_lies_on_the_floor_and_is_too_high_ends_the_search() -> None:
    """Not even alone can it be lower: the bound that was given is wrong, or the best is as good as can be."""
    given = boxes((0, 0, 9), (1, 1, 1))
    best = Packing([0, 0], 9)
    assert Neighbours(given).improve([0, 1], best, 0, 1_000) is best


def test_a_placement_is_given_up_at_the_first_box_that_is_too_high() -> None:
    given = boxes((0, 1, 4), (0, 1, 4), (0, 1, 4))
    found = Neighbours(given).place([0, 1, 2], 8)
    assert isinstance(found, Obstructed)
    assert found == Obstructed(1, 2 * (2 + engines.FIXED))


def test_freed_blocks_are_joined_and_the_smallest_that_fits_is_taken() -> None:
    """Three neighbours die: one box takes all their bytes. Of free blocks of 2 and 3, the box of 2 takes the first."""
    joined = boxes((0, 0, 2), (0, 0, 3), (0, 0, 4), (1, 1, 9))
    assert place_best_fit(joined).height == 9
    chosen = boxes((0, 0, 3), (0, 5, 1), (0, 0, 2), (0, 5, 1), (1, 1, 2), (1, 1, 3))
    assert place_best_fit(chosen).height == 7


def test_a_block_that_alignment_makes_too_small_is_passed_over() -> None:
    """The top is raised, and what that leaves free below the new box is a block again, here the smallest that fits."""
    given = Boxes([0, 0, 0, 1, 2], [5, 0, 5, 5, 5], [9, 8, 1, 8, 6], [1, 1, 1, 8, 1], {})
    assert place_best_fit(given) == Packing([0, 9, 17, 24, 18], 32)


def test_storages_that_must_not_alias_share_no_byte_at_any_step() -> None:
    """spec: T5.1"""
    shape = (64,)
    tensors = tuple(Tensor(n, shape, "uint8", Role.ACTIVATION if n != "x" else Role.INPUT, 64) for n in "xabcy")
    nodes = tuple(Node(f"n{i}", "MatMul", (i,), (i + 1,)) for i in range(4))
    free = Model("chain", tensors, nodes, (Body(-1, "", (0,), (4,)),))
    kept = Model("chain", tensors, nodes, (Body(-1, "", (0,), (4,)),), must_not_alias=((1, 3), (0, 3)))
    for layout, footprint in (("packed", 192), ("pools", 192)):
        plan = plan_memory(kept, ONE, PlanOptions(layout=layout)).plan
        a, c = (int(plan.allocation.storages.offset[plan.allocation.tensors.storage[t]]) for t in (1, 3))
        assert abs(a - c) >= 64
        assert plan.usage[0].footprint == footprint
        assert plan_memory(free, ONE, PlanOptions(layout=layout)).plan.usage[0].footprint == 128


@pytest.mark.parametrize("engine", ["listed", "scanned"])
def test_a_candidate_that_puts_what_must_not_alias_together_is_dropped(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The allocator and the scans know nothing of such pairs. spec: T5.1"""
    if engine == "scanned":
        monkeypatch.setattr(packed, "FEW", 0)
        monkeypatch.setattr(packed, "SPARSE", 0)
    given = boxes((0, 0, 4), (1, 1, 4), (2, 2, 5), apart={0: [1], 1: [0]})
    found = pack(given, one_after_the_other(given))
    assert given.is_disjoint(found.offsets)
    assert found.height == (8 if engine == "listed" else 13)


def test_large_arenas_are_scanned_and_the_largest_left_to_the_allocator(monkeypatch: pytest.MonkeyPatch) -> None:
    given = staircase(200)
    start = one_after_the_other(given)
    monkeypatch.setattr(packed, "place_below", lambda of, best, bound: best)
    monkeypatch.setattr(packed, "FEW", 0)
    monkeypatch.setattr(packed, "SPARSE", 0)
    scanned = pack(given, start)
    monkeypatch.setattr(packed, "SCANS", 0)
    streamed = pack(given, start)
    assert given.peak() <= scanned.height < streamed.height < start.height
    assert streamed == place_best_fit(given)


def lowest(of: Boxes, candidates: dict[str, Packing]) -> tuple[str, Packing]:
    """The first of the lowest that keep apart what must not alias, and its name."""
    right = [(name, found) for name, found in candidates.items() if of.is_disjoint(found.offsets)]
    return min(right, key=lambda one: one[1].height)


@pytest.mark.parametrize("size", ["few", "sparse", "large"])
@pytest.mark.parametrize("is_fixed", [False, True])
def test_the_lowest_candidate_wins_and_of_equal_ones_the_first(
    size: str, is_fixed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which candidates there are is decided by what they cost: an arena is few, sparse or large up to the last look."""
    rng, won = random.Random(size), set()
    for _ in range(300):
        n = rng.randrange(2, 16)
        more = rng.choice((2, 9))
        births = [rng.randrange(6 * more) for _ in range(n)]
        given = Boxes(
            births, [birth + rng.randrange(more) for birth in births], [rng.choice((1, 3, 4, 6, 7)) for _ in births],
            [rng.choice((1, 1, 2)) for _ in births], rng.choice(({}, {0: [1], 1: [0]})),
            {rng.randrange(n): 2 * rng.randrange(4)} if is_fixed else {},
        )  # fmt: skip
        looks, tries, scans = given.meetings + FIXED * n, rng.randrange(4), rng.randrange(4)
        few, sparse = {"few": (looks, looks), "sparse": (looks - 1, looks)}.get(size, (looks - 1, looks - 1))
        costs = {"FEW": few, "SPARSE": sparse, "SPLITS": 3, "FITS": tries * n, "SCANS": scans * n}
        for name, value in (costs | {"WORK": rng.choice((0, packed.WORK))}).items():
            monkeypatch.setattr(packed, name, value)

        def order(key: packed.Key, of: Boxes = given) -> list[int]:
            return sorted(range(len(of)), key=lambda i: (i not in of.fixed, *key(of, i), of.birth[i], i))

        start = one_after_the_other(given)
        candidates = {"first": around.place_above_fixed(given, start) if is_fixed else start}
        candidates["allocator"] = around.place_best_fit(given) if is_fixed else place_best_fit(given)
        if size == "few":
            best = lowest(given, candidates)[1]
            for k, key in enumerate(packed.ORDERS):
                work = packed.WORK // len(packed.ORDERS)
                best = candidates[f"improved {k}"] = Neighbours(given).improve(order(key), best, given.least(), work)
        if (chain := place_from_both_ends(given)) is not None and not is_fixed:
            candidates["chain"] = chain
        if size == "sparse":
            placed = Neighbours(given).place(order(packed.ORDERS[0]), 1 << 64)
            assert isinstance(placed, Packing)
            candidates["larger first"] = placed
        if size != "few" and not is_fixed:
            candidates |= {f"split {k}": split for k, split in enumerate(place_by_length(given, min(tries, 3)))}
        if size != "few":
            candidates["skyline"] = place_below(given, lowest(given, candidates)[1], given.least())
        if size != "few" and not is_near(lowest(given, candidates)[1].height, given.least()):
            keys = packed.ORDERS[:scans]
            candidates |= {f"scan {k}": place_lowest_fit(given, order(key)) for k, key in enumerate(keys)}
        winner, expected = lowest(given, candidates)
        assert pack(given, start) == expected
        won.add(winner)
    assert len(won) > 1, won


def test_a_chain_with_a_fixed_box_is_not_put_at_both_ends() -> None:
    given = Boxes([0, 0], [0, 0], [4, 3], [1, 1], {}, {0: 2})
    assert pack(given, one_after_the_other(given)) == Packing([2, 6], 9)


def test_sums_beyond_63_bits_are_not_scanned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "FEW", 0)
    huge = 1 << 61
    given = boxes((0, 2, huge), (1, 4, huge + 1), (3, 5, huge), (4, 5, huge))
    assert pack(given, one_after_the_other(given)).height in range(given.peak(), 1 << 64)


def test_packed_fits_64_bits_where_slots_do_not_and_is_refused_where_it_does_not_either() -> None:
    """spec: A1.3"""
    huge = 1 << 62
    sizes = {"x": 3 * huge, "a": huge - 512, "b": 512}

    def chain(last: int) -> Model:
        given = {**sizes, "c": last}
        tensors = tuple(
            Tensor(n, (z,), "uint8", Role.INPUT if n == "x" else Role.ACTIVATION, z) for n, z in given.items()
        )
        nodes = tuple(Node(f"n{i}", "MatMul", (i,), (i + 1,)) for i in range(3))
        return Model("huge", tensors, nodes, (Body(-1, "", (0,), ()),))

    plan = plan_memory(chain(3 * huge), ONE, PlanOptions(layout="packed")).plan
    assert plan.usage[0].footprint == plan.usage[0].peak_live_bytes == 4 * huge - 512
    with pytest.raises(TmmuError, match="ALLOCATION_OVERFLOW"):
        plan_memory(chain(3 * huge), ONE, PlanOptions(layout="slots"))
    instead = plan_memory(chain(3 * huge), ONE, PlanOptions(layout="slots", fallback="packed")).plan
    assert (instead.origin.layout, instead.usage[0].footprint) == ("packed", 4 * huge - 512)
    for layout in ("packed", "pools"):
        with pytest.raises(TmmuError, match="ALLOCATION_OVERFLOW"):
            plan_memory(chain(4 * huge - 1), ONE, PlanOptions(layout=layout))


def test_a_plan_can_be_asked_for_what_another_layout_would_need() -> None:
    slots = plan_memory(uneven(), options=PlanOptions(layout="slots")).plan
    assert packed.place(problem_of_plan(slots), claimed_slots(slots)).footprint == [
        u.footprint for u in plan_memory(uneven(), options=PlanOptions(layout="packed")).plan.usage
    ]


@pytest.mark.parametrize(("alignment", "few"), [(1, 0), (64, 0), (1, packed.FEW), (64, packed.FEW)])
def test_a_long_chain_takes_no_more_than_its_peak(alignment: int, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each result is read by the next operation alone: at both ends of the arena in turn. Of three it does not help."""
    rng, n = random.Random(alignment), 400
    monkeypatch.setattr(packed, "FEW", few)
    monkeypatch.setattr(packed, "SPARSE", 0)
    monkeypatch.setattr(packed, "SCANS", 0)
    sizes = [rng.randrange(1, 10_000) for _ in range(n)]
    births = list(range(n))
    for more in (1, 2):
        given = Boxes(births, [min(n - 1, i + more) for i in births], sizes, [alignment] * n, {})
        found = packed.pack(given, one_after_the_other(given))
        assert given.is_disjoint(found.offsets)
        assert all(at % alignment == 0 for at in found.offsets)
        assert max(at + size for at, size in zip(found.offsets, sizes, strict=True)) <= found.height
        assert (found.height < given.peak() + alignment) == (more == 1)


def test_what_is_placed_at_both_ends_does_not_meet() -> None:
    """With any sizes and alignments, and in no more bytes than two that meet can take; or three meet."""
    rng, pairs = random.Random(0), 0
    assert place_from_both_ends(boxes()) == Packing([], 0)
    for _ in range(3000):
        births = [rng.randrange(6) for _ in range(rng.randrange(1, 6))]
        deaths = [birth + rng.randrange(3) for birth in births]
        sizes, alignments = ([rng.choice(of) for _ in births] for of in ((1, 3, 8, 129, 200), (1, 8, 64, 128)))
        given = Boxes(births, deaths, sizes, alignments, {})
        found = place_from_both_ends(given)
        assert (found is None) == (Boxes(births, deaths, [1] * len(births), alignments, {}).peak() > 2)
        if found is None:
            continue
        assert found.height == max(at + size for at, size in zip(found.offsets, sizes, strict=True))
        assert all(at % to == 0 for at, to in zip(found.offsets, alignments, strict=True))
        assert found.height < given.peak() + max(alignments)
        for (i, at), (j, other) in combinations(enumerate(found.offsets), 2):
            if births[i] <= deaths[j] and births[j] <= deaths[i]:
                assert at + sizes[i] <= other or other + sizes[j] <= at
                pairs += 1
    assert pairs > 1000


def test_short_lives_in_a_large_arena_are_placed_larger_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers of four sizes, each read by the next, one of four by a later one too: the allocator needs a third more."""
    n = 400
    given = Boxes(list(range(n)), [min(n - 1, i + (4 if i % 4 == 0 else 1)) for i in range(n)],
                  [(4, 16, 4, 12)[i % 4] for i in range(n)], [1] * n, {})  # fmt: skip
    monkeypatch.setattr(packed, "place_below", lambda of, best, bound: best)
    monkeypatch.setattr(packed, "FEW", 0)
    monkeypatch.setattr(packed, "SCANS", 0)
    assert packed.pack(given, one_after_the_other(given)).height == given.peak()
    monkeypatch.setattr(packed, "SPARSE", 0)
    assert packed.pack(given, one_after_the_other(given)).height > given.peak()
