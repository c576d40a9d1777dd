"""Which arena a storage goes to: where there is room, in which order they choose, and what is tried when nothing fits.

spec: M3.10, M3.11, M3.12
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.problems import problem
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import ANYWHERE, ArenaConfiguration, ArenaPolicy, DeviceConfiguration, Memory
from tmmu.planner.allocation import allocate
from tmmu.planner.arenas import assignment
from tmmu.planner.arenas.assignment import KEYS, Solution, assign_arenas, lay_out, measure_loss
from tmmu.planner.arenas.capacity import find_shortfalls
from tmmu.planner.arenas.filling import Filling
from tmmu.planner.problem import AllocationProblem

LARGE = 1 << 20
Row = tuple[int, int, int, tuple[int, ...]]


def fast_and_slow(
    fast: int, slow: int = LARGE, memory: str = "", *, reuse: bool = True
) -> tuple[ArenaConfiguration, ...]:
    return tuple(
        ArenaConfiguration(name, (), capacity, alignment=1, reuse=reuse, device="npu", memory=memory)
        for name, capacity in (("fast", fast), ("slow", slow))
    )


def shared(capacity: int) -> ArenaPolicy:
    return ArenaPolicy((DeviceConfiguration("npu", (Memory("dram", capacity),)),))


def filled(
    *rows: Row, arenas: tuple[ArenaConfiguration, ...], order: list[int], policy: ArenaPolicy = ANYWHERE,
    lost: tuple[int, int] = (0, 0), tightest: bool = False,
) -> list[int]:  # fmt: skip
    return Filling(problem(*rows, arenas=arenas, policy=policy), [*lost, 0]).fill(order, tightest)


BOTH = (0, 1)


def test_a_storage_takes_its_first_choice_with_room_at_every_step_of_its_life() -> None:
    """What has one choice is there before; 6 and 4 bytes fill step 1, 4 and 6 fill step 2, where not one more goes."""
    rows: list[Row] = [(2, 3, 6, BOTH), (0, 1, 6, (0,)), (1, 2, 4, BOTH), (2, 2, 1, BOTH), (3, 4, 4, BOTH)]
    assert filled(*rows, arenas=fast_and_slow(10), order=[2, 0, 3, 4]) == [0, 0, 0, 1, 0]
    assert filled(*rows, arenas=fast_and_slow(10), order=[2, 3, 0, 4]) == [1, 0, 0, 0, 0]
    assert filled(*rows, arenas=fast_and_slow(9), order=[2, 0, 3, 4]) == [0, 0, 1, 0, 1]


def test_choices_are_taken_in_their_order_and_the_last_where_none_has_room() -> None:
    rows: list[Row] = [(0, 0, 8, (1, 0)), (0, 0, 8, (1, 0)), (0, 0, 8, (0, 1)), (0, 0, 9, (0, 1)), (0, 0, 9, (1, 0))]
    assert filled(*rows, arenas=fast_and_slow(16, 8), order=[0, 1, 2, 3, 4]) == [1, 0, 0, 1, 0]


def test_where_none_of_three_has_room_the_last_is_taken() -> None:
    arenas = (*fast_and_slow(4, 4), ArenaConfiguration("last", (), 4, alignment=1))
    for tightest in (False, True):
        assert filled((0, 0, 5, (0, 1, 2)), arenas=arenas, order=[0], tightest=tightest) == [2]
        assert filled((0, 0, 5, (2, 1, 0)), arenas=arenas, order=[0], tightest=tightest) == [0]


def test_a_storage_of_no_bytes_counts_as_one_byte() -> None:
    """spec: T7.1"""
    assert filled((0, 0, 8, (0,)), (0, 0, 0, BOTH), arenas=fast_and_slow(8), order=[1]) == [0, 1]
    assert filled((0, 0, 8, (0,)), (0, 0, 0, BOTH), arenas=fast_and_slow(9), order=[1]) == [0, 0]


def test_where_an_arena_does_not_reuse_what_has_died_takes_room_too() -> None:
    rows: list[Row] = [(0, 0, 6, BOTH), (2, 2, 6, BOTH), (4, 4, 4, BOTH), (5, 5, 1, BOTH)]
    assert filled(*rows, arenas=fast_and_slow(10), order=[0, 1, 2, 3]) == [0, 0, 0, 0]
    assert filled(*rows, arenas=fast_and_slow(10, reuse=False), order=[0, 1, 2, 3]) == [0, 1, 0, 1]
    pinned: list[Row] = [(0, 0, 6, (0,)), (2, 2, 4, (0,)), (4, 4, 1, BOTH)]
    assert filled(*pinned, arenas=fast_and_slow(10, reuse=False), order=[2]) == [0, 0, 1]


def test_what_is_most_live_counts_even_where_the_storage_does_not_live() -> None:
    """Steps 0 and 2 need 8 and 4 bytes: with 2 to be kept free the arena of 10 is full, though step 2 is not."""
    rows: list[Row] = [(0, 0, 8, (0,)), (2, 2, 4, BOTH)]
    assert filled(*rows, arenas=fast_and_slow(10), order=[1], lost=(2, 0)) == [0, 0]
    assert filled(*rows, arenas=fast_and_slow(10), order=[1], lost=(3, 0)) == [0, 1]


def test_the_tightest_fit_is_the_arena_that_is_left_with_the_least_room() -> None:
    rows: list[Row] = [(0, 0, 5, (1,)), (0, 0, 4, BOTH), (0, 0, 6, BOTH), (0, 0, 30, BOTH)]
    arenas = fast_and_slow(10, 10)
    assert filled(*rows, arenas=arenas, order=[1, 2, 3], tightest=True) == [1, 1, 0, 1]
    assert filled(*rows, arenas=arenas, order=[1, 2, 3], tightest=False) == [1, 0, 0, 1]


def test_arenas_of_one_memory_have_room_together() -> None:
    """10 bytes for both: 6 in the one leave 4 in the other. What one is to keep free counts once it holds anything."""
    rows: list[Row] = [(0, 0, 6, (0,)), (1, 1, 4, (1, 0)), (2, 2, 5, (1, 0)), (3, 3, 1, (0, 1))]
    arenas = fast_and_slow(8, 8, "dram")
    assert filled(*rows, arenas=arenas, order=[1, 2, 3], policy=shared(10)) == [0, 1, 0, 0]
    assert filled(*rows, arenas=arenas, order=[1, 2, 3], policy=shared(11)) == [0, 1, 1, 0]
    assert filled(*rows, arenas=arenas, order=[1, 2, 3], policy=shared(10), lost=(1, 0)) == [0, 0, 0, 0]
    assert filled(*rows[1:3], arenas=arenas, order=[0, 1], policy=shared(5), lost=(3, 0)) == [1, 1]
    assert filled(*rows[1:3], arenas=arenas, order=[0, 1], policy=shared(4), lost=(0, 0)) == [1, 0]
    large = (*fast_and_slow(LARGE, LARGE, "dram"), ArenaConfiguration("rest", (), LARGE, alignment=1))
    for most, chosen_arena in ((10, 2), (11, 0)):
        both: list[Row] = [(0, 0, 6, (0,)), (0, 0, 5, (0, 2))]
        assert filled(*both, arenas=large, order=[1], policy=shared(most)) == [0, chosen_arena]


def test_bytes_beyond_63_bits_are_counted_exactly() -> None:
    huge = 1 << 62
    rows: list[Row] = [
        (0, 0, huge, (0,)),
        (0, 0, huge, BOTH),
        (0, 0, huge, BOTH),
        (0, 0, huge - 1, BOTH),
        (0, 0, 1, BOTH),
    ]
    arenas = fast_and_slow(4 * huge - 1, 4 * huge - 1)
    assert filled(*rows, arenas=arenas, order=[1, 2, 3, 4]) == [0, 0, 0, 0, 1]


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The assignments that are laid out while a test runs."""
    found: list[list[int]] = []

    def noted(problem: AllocationProblem, arena: list[int], layout: str, *, recorded: bool = False) -> Solution:
        found.append(arena)
        return lay_out(problem, arena, layout, recorded=recorded)

    monkeypatch.setattr(assignment, "lay_out", noted)
    return found


def chosen(
    *rows: Row, arenas: tuple[ArenaConfiguration, ...], uses: list[int] | None = None, policy: ArenaPolicy = ANYWHERE
) -> tuple[list[int], int]:
    """The arena of each storage in slots, and the bytes that are lacking."""
    stated = problem(*rows, arenas=arenas, policy=policy, uses=uses or [1] * len(rows))
    found = assign_arenas(stated, "slots")
    return found.arena, found.excess


def test_first_choices_that_fit_are_the_only_assignment(tried: list[list[int]]) -> None:
    rows: list[Row] = [(0, 0, 8, (1, 0)), (0, 0, 8, BOTH)]
    assert chosen(*rows, arenas=fast_and_slow(8)) == ([1, 0], 0)
    assert tried == [[1, 0]]


def test_hot_storages_choose_first_by_accesses_for_each_step_alive() -> None:
    """`a` has more accesses than `b` in all; `b` and `c` have as many a step, and `c` is born later."""
    rows: list[Row] = [(0, 2, 8, BOTH), (0, 0, 8, BOTH), (1, 1, 8, BOTH)]
    assert chosen(*rows, arenas=fast_and_slow(8), uses=[6, 5, 5])[0] == [1, 0, 0]
    assert chosen(*rows, arenas=fast_and_slow(8), uses=[6, 2, 1])[0] == [0, 1, 1]
    assert chosen(*rows, arenas=fast_and_slow(8), uses=[6, 2, 2])[0] == [0, 1, 1], "ties fall by name"


def test_storages_come_hot_first_then_as_slots_are_given_then_larger_first() -> None:
    """Larger means bytes x steps; ties fall by birth, in the first two orders then by size."""
    rows: list[Row] = [(1, 1, 8, BOTH), (0, 1, 5, BOTH), (0, 0, 9, BOTH), (1, 2, 4, BOTH), (1, 1, 9, BOTH)]
    given = problem(*rows, arenas=fast_and_slow(8), uses=[1, 2, 1, 1, 1])
    found = [sorted(range(5), key=lambda k: key(given, k)) for key in KEYS]
    assert found == [[2, 1, 4, 0, 3], [2, 1, 4, 0, 3], [1, 2, 4, 0, 3]]
    assert KEYS[assignment.SIMPLE](given, 1) == (0, -5)


def test_what_has_no_choice_is_there_before_all_that_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assignment, "EFFORT", 2)  # so that no second round makes good what the first got wrong
    rows: list[Row] = [(0, 0, 8, BOTH), (0, 0, 8, BOTH), (0, 0, 8, (0,))]
    assert chosen(*rows, arenas=fast_and_slow(16, 8)) == ([0, 1, 0], 0)


def test_the_first_arena_with_room_is_tried_before_the_tightest() -> None:
    """One division of three storages of 8 fits as it comes; where 10 come after 6 only the tightest fit does."""
    equal: list[Row] = [(0, 0, 8, BOTH)] * 3
    assert chosen(*equal, arenas=fast_and_slow(20, 9))[0] == [0, 0, 1]
    found, over = chosen((0, 1, 6, BOTH), (1, 1, 10, BOTH), arenas=fast_and_slow(10, 6), uses=[9, 1])
    assert (found, over) == ([1, 0], 0)


LOSSY: list[Row] = [(0, 0, 8, BOTH), (0, 1, 4, BOTH), (1, 2, 4, BOTH), (2, 2, 8, BOTH)]
"""At most 12 bytes live, of which slots make 16: the last two take slots of 8 and of 4, which grows to 8."""


def test_what_the_layout_loses_is_kept_free_in_the_next_round(tried: list[list[int]]) -> None:
    arena, over = chosen(*LOSSY, arenas=fast_and_slow(12))
    assert (arena, over) == ([0, 1, 1, 0], 0)
    assert tried == [[0, 0, 0, 0], [0, 1, 1, 0]], "no division is laid out twice"


def test_where_nothing_fits_the_division_that_lacks_least_is_returned(tried: list[list[int]]) -> None:
    """Each storage alone is too large for either arena."""
    arenas = fast_and_slow(10, 20)
    assert chosen((0, 0, 30, BOTH), (0, 0, 30, BOTH), arenas=arenas) == ([1, 1], 40)
    assert tried == [[0, 0], [1, 1]]
    assert chosen((0, 0, 30, BOTH), (0, 0, 30, BOTH), arenas=fast_and_slow(10, 10)) == ([0, 0], 50), "the first"
    tried.clear()
    other = (1, 0)
    assert chosen((0, 0, 30, other), (0, 0, 30, other), arenas=arenas) == ([1, 1], 40)
    assert tried == [[1, 1], [0, 0]]


def test_beyond_the_effort_the_simple_greedy_and_all_in_their_last_choice_are_still_tried(
    monkeypatch: pytest.MonkeyPatch, tried: list[list[int]]
) -> None:
    """By birth and size `a` and `b` fill the first arena to the byte, and leave the other to `c`. spec: M3.12"""
    monkeypatch.setattr(assignment, "EFFORT", 2)  # less than one storage each
    rows: list[Row] = [(0, 1, 4, BOTH), (0, 1, 7, BOTH), (1, 1, 10, BOTH)]
    uses = [1, 1, 9]
    assert chosen(*rows, arenas=fast_and_slow(11, 10), uses=uses) == ([0, 0, 1], 0)
    assert tried == [[0, 0, 0], [0, 0, 1]]
    tried.clear()
    assert chosen((0, 0, 10, BOTH), (0, 0, 10, BOTH), arenas=fast_and_slow(5, 30))[0] == [1, 1]
    assert tried == [[0, 0], [1, 1]]


def test_a_division_that_cannot_be_laid_out_is_passed_over_and_the_first_refusal_stands_where_all_are() -> None:
    """Two of these leave 64 bits in one arena. spec: A1.3"""
    half, end = 1 << 63, (1 << 64) - 1
    arenas = fast_and_slow(end, end)
    assert chosen((0, 0, half, BOTH), (0, 0, half, (0,)), arenas=arenas) == ([1, 0], 0)
    with pytest.raises(TmmuError, match="arena 'fast'"):
        chosen((0, 0, half, (0,)), (0, 0, half, (0,)), (0, 0, half, (1,)), (0, 0, half, (1,)), arenas=arenas)
    with pytest.raises(TmmuError, match="arena 'slow'"):
        chosen(*[(0, 0, half, (1, 0))] * 4, arenas=arenas)


def test_an_order_of_which_every_division_is_refused_is_no_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then all in their last choice are still tried."""

    def only_slow(asked: AllocationProblem, arena: list[int], layout: str, *, recorded: bool = False) -> Solution:
        if arena != [1, 1]:
            raise TmmuError("ALLOCATION_OVERFLOW", "it does not fit 64 bits")
        return lay_out(asked, arena, layout, recorded=recorded)

    monkeypatch.setattr(assignment, "lay_out", only_slow)
    assert chosen((0, 0, 4, BOTH), (0, 0, 4, BOTH), arenas=fast_and_slow(8, 8)) == ([1, 1], 0)


def test_moves_are_recorded_only_where_they_are_asked_for() -> None:
    asked = problem((0, 0, 4))
    assert (
        lay_out(asked, [0], "slots").moves
        == assign_arenas(asked, "slots").moves
        == allocate(asked, "slots")[1].moves
        == []
    )
    assert lay_out(asked, [0], "slots", recorded=True).moves == assign_arenas(asked, "slots", recorded=True).moves != []


def test_what_is_lacking_is_summed_over_arenas_and_memories() -> None:
    """30 and 7 bytes: 20 too many for an arena of 10, 12 too many for a memory of 25. An arena with room owes none."""
    rows: list[Row] = [(0, 0, 30, (0,)), (0, 0, 7, (1,))]
    arenas = fast_and_slow(10, 20, "dram")
    assert chosen(*rows, arenas=arenas, policy=shared(25)) == ([0, 1], 20 + 12)
    assert chosen(*rows, arenas=arenas, policy=shared(37)) == ([0, 1], 20)
    assert chosen(*rows, arenas=arenas) == ([0, 1], 20)


def test_an_arena_that_is_too_small_keeps_free_the_share_that_its_layout_lost_and_then_what_it_lacks() -> None:
    """Of 16 bytes laid out 12 are live: a quarter of 12 is 3. Asked again it is what is lacking, 4, beside the 3."""

    def lost(
        arenas: tuple[ArenaConfiguration, ...], policy: ArenaPolicy = ANYWHERE, before: tuple[int, int] = (0, 0)
    ) -> list[int]:
        all_in_fast = problem(*LOSSY, arenas=fast_and_slow(12))
        filling = Filling(all_in_fast, list(before))
        filling.top = [12, 0]
        found = lay_out(all_in_fast, [0, 0, 0, 0], "slots")
        short = find_shortfalls(problem(*LOSSY, arenas=arenas, policy=policy), found.slots, found.footprint)
        return measure_loss(replace(found, short=short), filling)

    assert lost(fast_and_slow(12)) == [3, 0]
    assert lost(fast_and_slow(12), before=(3, 5)) == [7, 5]
    assert lost(fast_and_slow(15)) == [15 - 15 * 12 // 16, 0]
    assert lost(fast_and_slow(15, 0, "dram"), shared(12)) == [3, 4], "the memory lacks more"
    together = fast_and_slow(LARGE, LARGE, "dram")
    assert lost(together, shared(12)) == [3, 4], "of none, what is lacking"
    assert lost(together, shared(16)) == [0, 0]
