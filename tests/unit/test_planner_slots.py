"""Slots: the order of assignment, the lowest free slot, and as many slots as storages are live at once.

spec: T5.1, T5.2, T6.1, T6.2, T6.3, T6.4, T7.1, M3.1, A7.1
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.problems import ONE, Row, problem
from tmmu.core.vocabulary import ArenaConfiguration, Role
from tmmu.planner.problem import AllocationProblem
from tmmu.planner.slots import MoveObserver, SlotAssignment, assign_slots

ARENA = ONE[0]


def given_out(
    *storages: Row,
    arenas: tuple[ArenaConfiguration, ...] = ONE,
    names: str = "",
    conflicts: dict[int, set[int]] | None = None,
    observer: MoveObserver | None = None,
) -> SlotAssignment:
    """The slots of storages, each (birth, death, bytes) or (birth, death, bytes, arena)."""
    stated = problem(*storages, arenas=arenas, names=names, conflicts=conflicts or {})
    found = assign_slots(stated, stated.preferred, observer)
    return replace(found, slot=list(found.slot))


def test_nothing_takes_no_slot() -> None:
    assert given_out() == SlotAssignment([], [], [], [])


def test_a_slot_is_free_again_after_the_death_of_its_storage_and_not_at_it() -> None:
    assert given_out((0, 1, 8), (1, 2, 8), (2, 3, 8), (3, 3, 8)).slot == [0, 1, 0, 1]


def test_the_lowest_free_slot_is_taken() -> None:
    assert given_out((0, 2, 8), (0, 1, 8), (0, 0, 8), (1, 1, 8), (3, 3, 8)).slot == [0, 1, 2, 2, 0]


def test_of_storages_born_together_the_larger_comes_first_and_then_the_name() -> None:
    assert given_out((0, 0, 8), (0, 0, 16), (0, 0, 8), names="bca").slot == [2, 0, 1]
    # In bytes of UTF-8 `ﬀ` (U+FB00) comes before `𝐚` (U+1D41A); in UTF-16 it would not.
    assert given_out((0, 0, 8), (0, 0, 8), names="𝐚ﬀ").slot == [1, 0]


def test_an_earlier_birth_comes_before_a_larger_size() -> None:
    assert given_out((1, 1, 16), (0, 1, 8)).slot == [1, 0]


def test_a_slot_is_as_large_as_its_largest_storage_and_at_least_one_byte() -> None:
    found = given_out((0, 0, 8), (1, 1, 32), (2, 2, 16), (0, 3, 0))
    assert (found.slot, found.bytes) == ([0, 0, 0, 1], [32, 1])
    assert given_out((0, 0, (1 << 64) - 1)).bytes == [(1 << 64) - 1]


def test_a_slot_is_as_strictly_aligned_as_its_strictest_storage_and_as_its_arena() -> None:
    arenas = (ArenaConfiguration("a", (), alignment=16),)
    stated = problem((0, 0, 8), (1, 1, 8), (0, 1, 8), arenas=arenas, alignment=(2, 1 << 63, 4))
    assert assign_slots(stated, [0, 0, 0]).alignment == [1 << 63, 16]
    assert given_out((0, 0, 8), arenas=arenas).alignment == [16]


def test_each_arena_has_slots_of_its_own_side_by_side() -> None:
    found = given_out((0, 0, 8, 1), (0, 0, 8, 0), (1, 1, 8, 1), (1, 1, 8, 2), arenas=(ARENA,) * 3)
    assert (found.slot, found.arena) == ([1, 0, 1, 2], [0, 1, 2])


def test_an_arena_that_does_not_reuse_gives_every_storage_a_slot_of_its_own() -> None:
    found = given_out((0, 0, 8), (1, 1, 4), (2, 2, 2), arenas=(ArenaConfiguration("p", (), reuse=False),))
    assert (found.slot, found.bytes) == ([0, 1, 2], [8, 4, 2])


def test_storages_that_must_not_alias_never_get_one_slot() -> None:
    assert given_out((0, 0, 8), (1, 1, 8)).slot == [0, 0]
    assert given_out((0, 0, 8), (1, 1, 8), conflicts={0: {1}, 1: {0}}).slot == [0, 1]


def test_a_forbidden_slot_is_passed_over_and_stays_free() -> None:
    """Slot 0 held storage 0, which storage 3 must avoid: it takes slot 1, and storage 4 slot 0."""
    rows: tuple[Row, ...] = ((0, 0, 9), (0, 0, 8), (1, 1, 8), (2, 2, 9), (2, 2, 8))
    assert given_out(*rows).slot == [0, 1, 0, 0, 1]
    assert given_out(*rows, conflicts={3: {0}, 0: {3}}).slot == [0, 1, 0, 1, 0]
    assert given_out(*rows, conflicts={3: {0, 1}, 0: {3}, 1: {3}}).slot == [0, 1, 0, 2, 0]


def test_of_the_slots_that_are_allowed_the_lowest_is_taken() -> None:
    rows: tuple[Row, ...] = ((0, 0, 9), (0, 0, 8), (0, 0, 7), (1, 1, 9), (1, 1, 8))
    assert given_out(*rows, conflicts={3: {0}, 0: {3}}).slot == [0, 1, 2, 1, 0]


def recorded(
    *storages: Row, arenas: tuple[ArenaConfiguration, ...], conflicts: dict[int, set[int]] | None = None
) -> list[str]:
    """Each move of the scans, in a line."""
    moves: list[str] = []

    def observer(event: str, **facts: Any) -> None:
        moves.append(" ".join([event, *(str(value).replace(" ", "") for value in facts.values())]))

    quiet = given_out(*storages, arenas=arenas, conflicts=conflicts)
    assert given_out(*storages, arenas=arenas, conflicts=conflicts, observer=observer) == quiet
    return moves


def test_each_move_of_the_scan_is_recorded_with_slots_counted_from_the_arenas_first() -> None:
    arenas = (ArenaConfiguration("first", tuple(Role), alignment=1), ArenaConfiguration("second", (), alignment=1))
    moves = recorded((0, 9, 4), (1, 1, 8, 1), (1, 2, 4, 1), (3, 5, 4, 1), (3, 3, 2, 1), (3, 3, 1, 1), arenas=arenas)
    assert moves[:4] == ["scan first [[0,'000000',0,9,4]]", "open 0 0", "scanned 1", moves[3]]
    assert moves[3].startswith("scan second [[1,'000001',1,1,8],[2,'000002',1,2,4],[3,'000003',3,5,4],")
    assert moves[4:] == [
        "advance 1", "open 1 0", "open 2 1",
        "advance 3", "expire 0 1", "expire 1 2", "reuse 3 0", "reuse 4 1", "open 5 2", "scanned 3",
    ]  # fmt: skip


def test_arenas_that_do_not_reuse_or_in_which_a_conflict_forbids_a_move_are_not_recorded() -> None:
    """What is recorded is followed step by step in the model of the linear scan, which knows neither."""
    kept = (
        ArenaConfiguration("kept", tuple(Role), alignment=1, reuse=False),
        ArenaConfiguration("reused", (), alignment=1),
    )
    assert recorded((0, 0, 4), (1, 1, 4, 1), arenas=kept) == [
        "scan reused [[1,'000001',1,1,4]]", "advance 1", "open 1 0", "scanned 1",
    ]  # fmt: skip
    both = (ArenaConfiguration("apart", tuple(Role), alignment=1), ArenaConfiguration("free", (), alignment=1))
    moves = recorded((0, 0, 4), (1, 1, 4), (0, 0, 4, 1), arenas=both, conflicts={0: {1}, 1: {0}})
    assert moves == ["scan free [[2,'000002',0,0,4]]", "open 2 0", "scanned 1"]
    assert recorded((0, 0, 4), (1, 1, 4), arenas=kept[:1], conflicts={0: {1}, 1: {0}}) == []


INTERVALS = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 6), st.integers(0, 3)).map(lambda r: (r[0], r[0] + r[1], r[2])),
    max_size=24,
)


@given(INTERVALS)
def test_as_many_slots_are_opened_as_storages_are_live_at_once(rows: list[tuple[int, int, int]]) -> None:
    found = given_out(*rows)
    live = [sum(birth <= step <= death for birth, death, _ in rows) for step in range(20)]
    assert len(found.arena) == max(live)


@given(INTERVALS)
def test_each_storage_takes_the_lowest_slot_that_is_free_in_the_stated_order(rows: list[tuple[int, int, int]]) -> None:
    """The same by trying every slot from the lowest on, storage by storage."""
    slots: list[list[int]] = []
    expected = {}
    for k in sorted(range(len(rows)), key=lambda k: (rows[k][0], -rows[k][2], k)):
        birth, death, _ = rows[k]
        fits = [all(rows[o][1] < birth or death < rows[o][0] for o in tenants) for tenants in slots]
        chosen = fits.index(True) if True in fits else len(slots)
        slots += [[]] * (chosen == len(slots))
        slots[chosen] = [*slots[chosen], k]
        expected[k] = chosen
    assert given_out(*rows).slot == [expected[k] for k in range(len(rows))]


@pytest.mark.parametrize("count", [0, 1, 2, 5, 60])
def test_storages_take_slots_by_birth_then_bytes_then_name_at_all_sizes(count: int) -> None:
    """Sizes of 64 bits that are next to each other are told apart, and ties fall by name. spec: T6.1"""
    rng = random.Random(count)
    sizes = [0, 1, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1]
    for _ in range(20):
        birth, size = ([rng.choice(of) for _ in range(count)] for of in ([0, 1, 2**32 - 1], sizes))
        name = [rng.choice("abé") + str(rng.randrange(3)) for _ in range(count)]
        row = [1] * count
        stated = AllocationProblem(ONE, name, size, row, birth, birth, [(0,)] * count, row)
        wanted = [k for *_, k in sorted((birth[k], -size[k], name[k], k) for k in range(count))]
        opened = assign_slots(stated, [0] * count).slot
        by_step = sorted(range(count), key=lambda k: (birth[k], opened[k]))
        assert by_step == wanted
