"""Which arena a storage goes to: where there is room, in which order they choose, and what is tried when nothing fits.

spec: M3.10, M3.11, M3.12
"""

from __future__ import annotations

import pytest

from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import ANYWHERE, Arena, ArenaPolicy, Device, Memory
from tmmu.planner import choosing, slots
from tmmu.planner.choosing import ORDERS, Candidate, _Filling, _lost, _over, choose
from tmmu.planner.layouts import slots as slots_layout
from tmmu.planner.layouts.request import Request
from tmmu.planner.placed import Placed
from tmmu.planner.storages import Sharing

LARGE = 1 << 20
Row = tuple[int, int, int, tuple[int, ...]]


def fast_and_slow(fast: int, slow: int = LARGE, memory: str = "", *, reuse: bool = True) -> tuple[Arena, ...]:
    return tuple(
        Arena(name, (), capacity, alignment=1, reuse=reuse, device="npu", memory=memory)
        for name, capacity in (("fast", fast), ("slow", slow))
    )


def shared(capacity: int) -> ArenaPolicy:
    return ArenaPolicy((Device("npu", (Memory("dram", capacity),)),))


def sharing(*rows: Row) -> Sharing:
    """Storages, each (birth, death, bytes, choices)."""
    birth, death, size, choices = (list(column) for column in zip(*rows, strict=True))
    each, nothing = list(range(len(rows))), [0] * len(rows)
    first = [of_storage[0] for of_storage in choices]
    return Sharing(
        each, nothing, [], nothing, each, first, size, [1] * len(rows), birth, death, [], choices
    )  # fmt: skip


def filled(
    *rows: Row, arenas: tuple[Arena, ...], order: list[int], policy: ArenaPolicy = ANYWHERE,
    lost: tuple[int, int] = (0, 0), tightest: bool = False,
) -> list[int]:  # fmt: skip
    return _Filling(sharing(*rows), arenas, policy, [*lost, 0]).fill(order, tightest)


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
    arenas = (*fast_and_slow(4, 4), Arena("last", (), 4, alignment=1))
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


def lay(given: Sharing, arenas: tuple[Arena, ...]) -> tuple[Request, Placed]:
    names = [chr(ord("a") + k) for k in range(len(given.root))]
    assigned = slots.assign(given, names, arenas, {})
    request = Request(given, assigned, arenas, {}, [0] * len(names))
    return request, slots_layout.place(request)


def chosen(
    *rows: Row, arenas: tuple[Arena, ...], uses: list[int] | None = None, policy: ArenaPolicy = ANYWHERE
) -> tuple[list[int], int, list[list[int]]]:
    """The arena of each storage, the bytes that are lacking, and what was laid out on the way."""
    tried: list[list[int]] = []

    def noted(given: Sharing) -> tuple[Request, Placed]:
        tried.append(given.arena)
        return lay(given, arenas)

    names = [chr(ord("a") + k) for k in range(len(rows))]
    found = choose(sharing(*rows), names, uses or [1] * len(rows), arenas, policy, noted)
    return found.request.sharing.arena, found.over, tried


def test_first_choices_that_fit_are_the_only_candidate() -> None:
    rows: list[Row] = [(0, 0, 8, (1, 0)), (0, 0, 8, BOTH)]
    assert chosen(*rows, arenas=fast_and_slow(8)) == ([1, 0], 0, [[1, 0]])


def test_hot_storages_choose_first_by_accesses_for_each_step_alive() -> None:
    """`a` has more accesses than `b` in all; `b` and `c` have as many a step, and `c` is born later."""
    rows: list[Row] = [(0, 2, 8, BOTH), (0, 0, 8, BOTH), (1, 1, 8, BOTH)]
    assert chosen(*rows, arenas=fast_and_slow(8), uses=[6, 5, 5])[0] == [1, 0, 0]
    assert chosen(*rows, arenas=fast_and_slow(8), uses=[6, 2, 1])[0] == [0, 1, 1]
    assert chosen(*rows, arenas=fast_and_slow(8), uses=[6, 2, 2])[0] == [0, 1, 1], "ties fall by name"


def test_storages_come_hot_first_then_as_slots_are_given_then_larger_first() -> None:
    """Larger means bytes x steps; ties fall by birth, in the first two orders then by size."""
    given = sharing((1, 1, 8, BOTH), (0, 1, 5, BOTH), (0, 0, 9, BOTH), (1, 2, 4, BOTH), (1, 1, 9, BOTH))
    uses = [1, 2, 1, 1, 1]
    found = [sorted(range(5), key=lambda k: key(given, uses, k)) for key in ORDERS]
    assert found == [[2, 1, 4, 0, 3], [2, 1, 4, 0, 3], [1, 2, 4, 0, 3]]
    assert ORDERS[choosing.SIMPLE](given, uses, 1) == (0, -5)


def test_what_has_no_choice_is_there_before_all_that_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "EFFORT", 2)  # so that no second round makes good what the first got wrong
    rows: list[Row] = [(0, 0, 8, BOTH), (0, 0, 8, BOTH), (0, 0, 8, (0,))]
    assert chosen(*rows, arenas=fast_and_slow(16, 8))[:2] == ([0, 1, 0], 0)


def test_the_first_arena_with_room_is_tried_before_the_tightest() -> None:
    """One division of three storages of 8 fits as it comes; where 10 come after 6 only the tightest fit does."""
    equal: list[Row] = [(0, 0, 8, BOTH)] * 3
    assert chosen(*equal, arenas=fast_and_slow(20, 9))[0] == [0, 0, 1]
    found, over, _ = chosen((0, 1, 6, BOTH), (1, 1, 10, BOTH), arenas=fast_and_slow(10, 6), uses=[9, 1])
    assert (found, over) == ([1, 0], 0)


LOSSY: list[Row] = [(0, 0, 8, BOTH), (0, 1, 4, BOTH), (1, 2, 4, BOTH), (2, 2, 8, BOTH)]
"""At most 12 bytes live, of which slots make 16: the last two take slots of 8 and of 4, which grows to 8."""


def test_what_the_layout_loses_is_kept_free_in_the_next_round() -> None:
    arena, over, tried = chosen(*LOSSY, arenas=fast_and_slow(12))
    assert (arena, over) == ([0, 1, 1, 0], 0)
    assert tried == [[0, 0, 0, 0], [0, 1, 1, 0]], "no division is laid out twice"


def test_where_nothing_fits_the_division_that_lacks_least_is_returned() -> None:
    """Each storage alone is too large for either arena."""
    arenas = fast_and_slow(10, 20)
    assert chosen((0, 0, 30, BOTH), (0, 0, 30, BOTH), arenas=arenas) == ([1, 1], 40, [[0, 0], [1, 1]])
    assert chosen((0, 0, 30, BOTH), (0, 0, 30, BOTH), arenas=fast_and_slow(10, 10))[:2] == ([0, 0], 50), "the first"
    other = (1, 0)
    assert chosen((0, 0, 30, other), (0, 0, 30, other), arenas=arenas) == ([1, 1], 40, [[1, 1], [0, 0]])


def test_beyond_the_effort_the_simple_greedy_and_all_in_their_last_choice_are_still_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By birth and size `a` and `b` fill the first arena to the byte, and leave the other to `c`. spec: M3.12"""
    monkeypatch.setattr(choosing, "EFFORT", 2)  # less than one storage each
    rows: list[Row] = [(0, 1, 4, BOTH), (0, 1, 7, BOTH), (1, 1, 10, BOTH)]
    uses = [1, 1, 9]
    assert chosen(*rows, arenas=fast_and_slow(11, 10), uses=uses) == ([0, 0, 1], 0, [[0, 0, 0], [0, 0, 1]])
    assert chosen((0, 0, 10, BOTH), (0, 0, 10, BOTH), arenas=fast_and_slow(5, 30))[::2] == (
        [1, 1], [[0, 0], [1, 1]],
    )  # fmt: skip


def test_a_division_that_cannot_be_laid_out_is_passed_over_and_the_first_refusal_stands_where_all_are() -> None:
    rows: list[Row] = [(0, 0, 8, BOTH), (0, 0, 8, BOTH)]
    arenas = fast_and_slow(LARGE)
    tried: list[list[int]] = []

    def never(given: Sharing) -> tuple[Request, Placed]:
        tried.append(given.arena)
        raise TmmuError("ALLOCATION_OVERFLOW", f"refused {len(tried)}")

    def not_all_in_fast(given: Sharing) -> tuple[Request, Placed]:
        if set(given.arena) == {0}:
            raise TmmuError("ALLOCATION_OVERFLOW", "refused")
        return lay(given, arenas)

    with pytest.raises(TmmuError, match="refused 1"):
        choose(sharing(*rows), ["a", "b"], [1, 1], arenas, ANYWHERE, never)
    assert tried == [[0, 0], [1, 1]]
    found = choose(sharing(*rows), ["a", "b"], [1, 1], arenas, ANYWHERE, not_all_in_fast)
    assert found.request.sharing.arena == [1, 1]
    tried.clear()
    with pytest.raises(TmmuError, match="refused 1"):
        choose(sharing((0, 0, 8, (0,)), (0, 0, 8, (1,))), ["a", "b"], [1, 1], arenas, ANYWHERE, never)
    assert tried == [[0, 1]], "there is no other"


def candidate(*rows: Row, arenas: tuple[Arena, ...]) -> Candidate:
    request, placed = lay(sharing(*rows), arenas)
    return Candidate(request, placed, 0)


def test_what_is_lacking_is_summed_over_arenas_and_memories() -> None:
    """30 and 7 bytes: 20 too many for an arena of 10, 12 too many for a memory of 25. An arena with room owes none."""
    arenas = fast_and_slow(10, 20, "dram")
    found = candidate((0, 0, 30, (0,)), (0, 0, 7, (1,)), arenas=arenas)
    assert _over(found.request, found.placed, arenas, shared(25)) == 20 + 12
    assert _over(found.request, found.placed, arenas, shared(37)) == 20
    assert _over(found.request, found.placed, arenas, ANYWHERE) == 20


def test_an_arena_that_is_too_small_keeps_free_the_share_that_its_layout_lost_and_then_what_it_lacks() -> None:
    """Of 16 bytes laid out 12 are live: a quarter of 12 is 3. Asked again it is what is lacking, 4, beside the 3."""
    arenas = fast_and_slow(12)
    found = candidate(*LOSSY, arenas=arenas)
    filling = _Filling(sharing(*LOSSY), arenas, ANYWHERE, [0, 0])
    filling.fill([0, 1, 2, 3], tightest=False)
    assert _lost(found, filling, arenas, ANYWHERE, [0, 0]) == [3, 0]
    assert _lost(found, filling, arenas, ANYWHERE, [3, 5]) == [7, 5]
    assert _lost(found, filling, fast_and_slow(15), ANYWHERE, [0, 0]) == [15 - 15 * 12 // 16, 0]
    together = fast_and_slow(LARGE, LARGE, "dram")
    assert _lost(found, filling, together, shared(12), [0, 0]) == [3, 4], "of none, what is lacking"
    assert _lost(found, filling, together, shared(16), [0, 0]) == [0, 0]
