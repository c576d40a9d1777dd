"""The layout `slots`: aligned prefix sums in each arena, checked against 64 bits.

spec: A1.1, A1.2, A1.3, A3.1
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tmmu.core.alignment import align_up
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import ArenaConfiguration
from tmmu.planner.layouts.slots import slot_addresses
from tmmu.planner.slots import SlotAssignment

ARENAS = (ArenaConfiguration("first", ()), ArenaConfiguration("second", ()))
END = 1 << 64


def placed(*slots: tuple[int, int, int]) -> tuple[list[int], list[int]]:
    """The offsets and footprints of slots, each (arena, bytes, alignment)."""
    arena, size, alignment = (list(column) for column in zip(*slots, strict=True)) if slots else ([], [], [])
    return slot_addresses(SlotAssignment([], arena, size, alignment), ARENAS)


@given(st.integers(0, END), st.integers(0, 63).map(lambda power: 1 << power))
def test_aligning_gives_the_least_multiple_that_is_not_below(offset: int, alignment: int) -> None:
    found = align_up(offset, alignment)
    assert found % alignment == 0
    assert offset <= found < offset + alignment


def test_no_slots_take_no_bytes() -> None:
    assert placed() == ([], [0, 0])


def test_each_slot_starts_at_the_end_of_the_one_before_rounded_up_to_its_own_alignment() -> None:
    assert placed((0, 100, 128), (0, 1, 16), (0, 7, 64)) == ([0, 112, 128], [135, 0])


def test_arenas_are_laid_out_apart_and_nothing_is_added_after_the_last_slot() -> None:
    assert placed((0, 10, 128), (0, 10, 128), (1, 5, 128), (1, 3, 2)) == ([0, 128, 0, 6], [138, 9])


def test_an_end_at_64_bits_is_the_last_that_fits() -> None:
    assert placed((0, END - 1, 1)) == ([0], [END - 1, 0])
    assert placed((0, END - 3, 1), (0, 1, 2)) == ([0, END - 2], [END - 1, 0])


@pytest.mark.parametrize(
    "slots",
    [
        [(1, END, 1)],
        [(1, END - 1, 1), (1, 1, 1)],
        [(1, END - 1, 1), (1, 1, 128)],  # the alignment alone leads beyond
        [(1, 1 << 63, 1), (1, 1 << 63, 1)],
    ],
)
def test_an_end_beyond_64_bits_is_refused(slots: list[tuple[int, int, int]]) -> None:
    with pytest.raises(TmmuError, match=f"slot {len(slots) - 1} would end at") as refused:
        placed(*slots)
    assert (refused.value.code_id, refused.value.place) == ("ALLOCATION_OVERFLOW", "arena 'second'")
    assert refused.value.diagnostics["size"] == slots[-1][1]
