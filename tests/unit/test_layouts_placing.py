"""Layouts by themselves: several arenas placed side by side, 64 bits to the byte, and effort that is counted.

spec: A1.3, A2.1, A2.3, A3.1, A7.2, A8.1, A8.2, A8.3, A9.1, A9.2, R9.1, T7.1
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import ModuleType

import pytest

from tests.support.problems import Row, problem
from tests.support.text_models import text_model
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import ArenaConfiguration, Role
from tmmu.planner import PlanOptions, plan_memory, slots
from tmmu.planner.layouts import boxes as engines
from tmmu.planner.layouts import hashed, packed, pools
from tmmu.planner.layouts import slots as slots_layout
from tmmu.planner.layouts.addresses import Addresses
from tmmu.planner.layouts.boxes import FIXED, Boxes, Packing, build_boxes, place_best_fit, place_lowest_fit
from tmmu.planner.layouts.packed import ORDERS, pack
from tmmu.planner.problem import problem_of_plan

TOKEN = bytes(range(64))
REUSED, KEPT = ArenaConfiguration("reused", (), alignment=1), ArenaConfiguration("kept", (), alignment=1, reuse=False)


def placed(
    layout: ModuleType, *rows: Row, arenas: tuple[ArenaConfiguration, ...] = (KEPT, REUSED), alignment: int = 1
) -> Addresses:
    """Where a layout puts storages, each (birth, death, bytes, arena)."""
    stated = problem(*rows, arenas=arenas, alignment=[alignment] * len(rows), address_token=TOKEN)
    found: Addresses = layout.place(stated, slots.assign_slots(stated, stated.preferred))
    return found


def boxes(*rows: tuple[int, int, int], alignment: int = 1) -> Boxes:
    births, deaths, sizes = (list(column) for column in zip(*rows, strict=True))
    return Boxes(births, deaths, sizes, [alignment] * len(rows), {})


MIXED: tuple[Row, ...] = (
    (0, 0, 8, 0), (0, 0, 8, 1), (1, 1, 8, 0), (0, 1, 4, 1), (1, 2, 4, 1), (2, 2, 8, 1),
)  # fmt: skip
"""In the reused arena at most 12 bytes live, of which slots make 16; the other keeps 8 and 8 apart."""


@pytest.mark.parametrize(
    ("layout", "reused"), [(slots_layout, [0, 8, 0, 8]), (packed, [0, 8, 0, 4]), (pools, [0, 8, 12, 0])]
)
def test_arenas_are_placed_each_for_itself_and_in_sequence_where_nothing_is_reused(
    layout: ModuleType, reused: list[int]
) -> None:
    """spec: A7.2"""
    found = placed(layout, *MIXED)
    assert [found.offset[k] for k in (0, 2)] == [0, 8]
    mine = [found.offset[k] for k in (1, 3, 4, 5)]
    ends = [offset + MIXED[k][2] for offset, k in zip(mine, (1, 3, 4, 5), strict=True)]
    assert found.footprint == [16, max(ends)]
    if layout is packed:
        assert max(ends) == 12
        assert mine[1] != mine[2], "they live together at step 1"
    else:
        assert mine == reused
    empty = placed(layout, *MIXED[:1])
    assert empty.footprint == [8, 0], "an arena without storages needs nothing"


@pytest.mark.parametrize("layout", [slots_layout, packed, pools])
def test_an_end_at_64_bits_is_the_last_that_fits_in_every_layout(layout: ModuleType) -> None:
    """spec: A1.3"""
    half = 1 << 63
    for arena in (0, 1):
        assert placed(layout, (0, 0, half, arena), (0, 0, half - 1, arena)).footprint[arena] == 2 * half - 1
        with pytest.raises(TmmuError, match="ALLOCATION_OVERFLOW"):
            placed(layout, (0, 0, half, arena), (0, 0, half, arena))


def test_a_pool_that_asks_for_no_alignment_starts_where_the_one_before_ends() -> None:
    found = placed(pools, (0, 0, 7, 1), (0, 0, 5, 1), (0, 0, 0, 1))
    assert (found.offset, found.footprint) == ([0, 7, 12], [0, 13])


# Packed.


def test_each_greedy_order_is_the_one_that_it_is_said_to_be() -> None:
    """Larger; more bytes x steps; longer; earlier birth; later death; by power of two. Then as said, then by birth."""
    given = boxes((0, 3, 2), (3, 3, 8), (3, 4, 3), (3, 6, 3))
    assert [packed._sorted(given, key) for key in ORDERS] == [
        [1, 3, 2, 0], [3, 0, 1, 2], [3, 0, 2, 1], [0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2],
    ]  # fmt: skip


class Counted:
    """Stands for the engine with lists of neighbours, and notes the work that it is given."""

    given: list[int]

    def __init__(self, of: Boxes) -> None:
        self.of = of

    def improve(self, order: Sequence[int], best: Packing, bound: int, work: int) -> Packing:
        self.given.append(work)
        return best


def test_few_neighbours_are_listed_and_the_work_is_divided_among_the_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    """The three pairs that meet count twice, each box for its own. spec: A8.3"""
    Counted.given = []
    given, first = boxes((0, 0, 8), (0, 1, 4), (1, 2, 4), (2, 2, 8)), Packing([0, 8, 12, 16], 24)
    monkeypatch.setattr(packed, "Neighbours", Counted)
    monkeypatch.setattr(packed, "place_best_fit", lambda of: first)
    monkeypatch.setattr(packed, "place_lowest_fit", lambda of, order: first)
    monkeypatch.setattr(packed, "FEW", 2 * 3 + 4 * FIXED)
    pack(given, first)
    assert Counted.given == [packed.WORK // 6] * 6
    monkeypatch.setattr(packed, "FEW", 2 * 3 + 4 * FIXED - 1)
    monkeypatch.setattr(packed, "SPARSE", 2 * 3 + 4 * FIXED - 1)
    pack(given, first)
    assert len(Counted.given) == 6


def test_as_many_orders_are_scanned_as_the_effort_allows_and_none_whose_sums_leave_63_bits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A thousand meetings count as one box; 2,000 boxes that all meet have 3,998,000."""
    scanned: list[int] = []
    first = Packing([0] * 2000, 1 << 40)

    def scan(of: Boxes, order: Sequence[int]) -> Packing:
        scanned.append(len(order))
        return first

    monkeypatch.setattr(packed, "place_best_fit", lambda of: first)
    monkeypatch.setattr(packed, "place_lowest_fit", scan)
    monkeypatch.setattr(packed, "place_below", lambda of, best, bound: best)
    monkeypatch.setattr(packed, "FEW", 0)
    crowd = Boxes([0] * 2000, [0] * 2000, [1] * 2000, [1] * 1999 + [2], {})
    for scans, orders in ((3 * (2000 + 3998), 3), (3 * (2000 + 3998) - 1, 2), (2000 + 3998 - 1, 0)):
        monkeypatch.setattr(packed, "SCANS", scans)
        scanned.clear()
        pack(crowd, first)
        assert len(scanned) == orders
    monkeypatch.setattr(packed, "SCANS", 2000 + 3998)
    for limit, orders in ((2000 + 2001, 0), (2000 + 2001 + 1, 1)):
        monkeypatch.setattr(engines, "INT64_SAFE", limit)
        scanned.clear()
        pack(replace(crowd), first)
        assert len(scanned) == orders


# The engines.


def test_a_gap_that_fits_exactly_is_taken() -> None:
    assert place_lowest_fit(boxes((0, 0, 4), (0, 1, 4), (1, 1, 4)), [0, 1, 2]) == Packing([0, 4, 0], 8)


def stacked(*deaths: int) -> list[tuple[int, int, int]]:
    """Boxes of four bytes, one behind the other, which die one after the other."""
    return [(0, death, 4) for death in deaths]


def test_a_freed_block_is_joined_with_the_free_ones_on_either_side() -> None:
    for deaths in ((0, 1, 2), (2, 1, 0), (0, 2, 1), (1, 0, 2)):
        given = boxes(*stacked(*deaths, 9), (3, 9, 12), (4, 9, 1))
        assert place_best_fit(given) == Packing([0, 4, 8, 12, 0, 16], 17)


def test_what_is_freed_at_the_top_is_given_back_to_it() -> None:
    assert place_best_fit(boxes(*stacked(9, 0), (1, 9, 8))) == Packing([0, 4, 4], 12)
    assert place_best_fit(boxes(*stacked(1, 0), (2, 9, 16))) == Packing([0, 4, 0], 16)


def test_a_block_of_exactly_the_size_is_taken_also_at_the_bottom() -> None:
    assert place_best_fit(boxes(*stacked(0, 9), (1, 9, 4))) == Packing([0, 4, 0], 8)


def test_what_alignment_leaves_before_and_after_stays_free() -> None:
    """Of 30 free bytes behind the first one, eight go to byte 8: seven are free before them, and fifteen after."""
    given = Boxes([0, 1, 2, 3, 4, 5], [9, 2, 9, 9, 9, 9], [1, 30, 1, 8, 7, 15], [1, 1, 1, 8, 1, 1], {})
    assert place_best_fit(given) == Packing([0, 1, 31, 8, 1, 16], 32)


# Hashed.


def test_hashed_needs_the_sum_of_its_slots_and_slots_may_touch_and_end_at_64_bits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """spec: A2.1, A2.3"""
    quarter = 1 << 62
    monkeypatch.setattr(hashed, "address", lambda token, arena, number: (2 + number) * quarter + 5)
    found = placed(hashed, (0, 0, quarter, 1), (0, 0, quarter, 1), (0, 0, 3, 0), alignment=quarter)
    assert (found.offset, found.footprint) == ([2 * quarter, 3 * quarter, 0], [3, 2 * quarter])
    with pytest.raises(TmmuError, match="ALLOCATION_OVERFLOW"):
        placed(hashed, (0, 0, quarter + 1, 1), (0, 0, quarter + 1, 1), alignment=quarter)
    monkeypatch.setattr(hashed, "address", lambda token, arena, number: 1000 * number)
    found = placed(hashed, (0, 0, 100, 1), (0, 0, 100, 1), alignment=8)
    assert (found.offset, found.footprint) == ([0, 1000], [0, 200])
    with pytest.raises(TmmuError, match="ADDRESS_COLLISION"):
        placed(hashed, (0, 0, 1001, 1), (0, 0, 1001, 1), alignment=8)


@pytest.mark.parametrize(
    ("layout", "is_taken"), [("slots", True), ("packed", True), ("hashed", True), ("pools", False)]
)
def test_a_result_takes_its_operands_bytes_in_every_layout_but_pools(layout: str, is_taken: bool) -> None:
    token = TOKEN if layout == "hashed" else None
    model = text_model("node relu Relu x -> a", "node relu2 Relu a -> y inplace y a")
    plan = plan_memory(model, options=PlanOptions(layout=layout, address_token=token)).plan
    storage = dict(zip(plan.allocation.tensors.name, plan.allocation.tensors.storage.tolist(), strict=True))
    assert (storage["a"] == storage["y"]) == is_taken


# What layouts are asked.


def test_a_storage_of_no_bytes_is_a_box_of_one_and_one_of_one_byte_too() -> None:
    """spec: T7.1"""
    given = problem((0, 0, 0), (0, 0, 1), (0, 0, 2))
    assert build_boxes(given, [0, 1, 2], 1).size == [1, 1, 2]


def test_the_problem_of_a_plan_is_the_one_that_it_solves() -> None:
    """A storage is named after its first tensor and made by that one's writer, and pairs are kept from both ends."""
    model = text_model(
        "node relu Relu x -> a", "node view1 View a -> v", "node relu2 Relu v -> b",
        "node relu3 Relu b -> y inplace y b", "tensor v u8 64 view a 0", "apart x b", "apart x y",
    )  # fmt: skip
    plan = plan_memory(model, (ArenaConfiguration("all", tuple(Role), alignment=1),)).plan
    found = problem_of_plan(plan)
    assert found.name == ["x", "a", "b"]
    assert found.made == [-1, 0, 2]
    assert found.conflicts == {0: {2}, 2: {0}}
