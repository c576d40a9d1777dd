"""Runs of bytes against a plain dictionary of bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proofs.definition.checker.memory import Bytes, Divided

WRITES = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 6), st.integers(0, 3)), max_size=12)


@given(WRITES, st.integers(0, 12), st.integers(0, 12))
def test_every_byte_holds_the_tensor_that_was_last_written_there(
    writes: list[tuple[int, int, int]], first: int, size: int
) -> None:
    runs, plain = Bytes(-1), dict.fromkeys(range(40), -1)
    for start, count, tensor in writes:
        runs.write(start, start + count, tensor)
        plain |= dict.fromkeys(range(start, start + count), tensor)
    read = list(runs.read(first, first + size))
    assert [owner for start, end, owner in read for _ in range(start, end)] == [
        plain[byte] for byte in range(first, first + size)
    ]
    assert all(start < end for start, end, _ in read)
    assert [start for start, _, _ in read][1:] == [end for _, end, _ in read][:-1]


@given(WRITES, st.sets(st.integers(1, 20)), st.integers(0, 12), st.integers(0, 12), st.integers(-1, 3))
def test_an_arena_that_is_divided_holds_what_one_in_one_part_does(
    writes: list[tuple[int, int, int]], cuts: set[int], first: int, size: int, tensor: int
) -> None:
    """Bytes are a run where one write made all of them, in a divided arena those of each part."""
    whole, divided = Bytes(-1), Divided(-1, sorted(cuts))
    plain = [(-1, -1)] * 40
    for number, (start, count, written) in enumerate(writes):
        whole.write(start, start + count, written)
        divided.write(start, start + count, written)
        plain[start : start + count] = [(number, written)] * count
    held = plain[first : first + size]
    for arena in (whole, divided):
        assert [o for a, b, o in arena.read(first, first + size) for _ in range(a, b)] == [o for _, o in held]
    part = [sum(cut <= byte for cut in cuts) for byte in range(40)]
    for arena, part_of in ((whole, [0] * 40), (divided, part)):
        looked_at = range(first, first + max(1, size))  # where there are none, the run is that of the next byte
        made = {part_of[byte]: {plain[other] for other in looked_at if part_of[other] == part_of[byte]}
                for byte in looked_at}  # fmt: skip
        is_run = all(len(writes) == 1 and {o for _, o in writes} == {tensor} for writes in made.values())
        assert arena.is_run(first, first + size, tensor) == is_run


@given(WRITES)
def test_runs_stay_sorted_and_no_more_than_the_writes_made(writes: list[tuple[int, int, int]]) -> None:
    runs = Bytes(-1)
    for start, count, tensor in writes:
        runs.write(start, start + count, tensor)
    assert runs.start == sorted(set(runs.start))
    assert len(runs.start) == len(runs.owner) <= 1 + 2 * len(writes)
    assert runs.start[0] == 0


def test_what_nobody_wrote_is_one_run_from_the_first_byte_on() -> None:
    arena = Bytes(-1)
    assert list(arena.read(0, 10)) == [(0, 10, -1)]
    arena.write(2, 4, 7)
    assert list(arena.read(0, 10)) == [(0, 2, -1), (2, 4, 7), (4, 10, -1)]
    divided = Divided(-1, [3])
    divided.write(2, 4, 7)
    for each in (arena, divided):
        assert [each.is_run(first, end, 7) for first, end in ((2, 4), (3, 4), (1, 4), (2, 5))] == [
            True,
            True,
            False,
            False,
        ]
        assert [each.is_run(first, end, -1) for first, end in ((0, 2), (0, 3), (4, 9))] == [True, False, True]


def test_reading_nothing_gives_nothing() -> None:
    assert list(Bytes(-1).read(5, 5)) == []
