"""Random programs of threads under the detector of data races: its answer is that of all pairs, in any order.

spec: MN7.4, MN7.5, MN7.6
"""

from __future__ import annotations

import contextlib
import threading
from itertools import combinations
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.effort import share
from tmmu.mnemosyne.locks import DataRace, RaceDetector


class Section(NamedTuple):
    """A section with one access."""

    locks: frozenset[str]
    is_reader: bool
    start: int
    stop: int
    is_write: bool


class Program(NamedTuple):
    """What the first thread does: sections, and numbers of threads, which it starts at the first and joins at the
    second; what each of those does; and whether it waits with that until it is to be joined."""

    first: list[Section | int]
    others: list[list[Section]]
    waits: list[bool]


SECTIONS = st.builds(
    lambda locks, is_reader, start, length, is_write: Section(
        locks, is_reader and bool(locks), start, start + length, is_write
    ),
    st.sampled_from(["", "a", "a", "ab", "bc", "b"]).map(frozenset), st.booleans(), st.integers(0, 3),
    st.integers(1, 2), st.booleans(),
)  # fmt: skip


@st.composite
def programs(draw: st.DrawFn) -> Program:
    others = draw(st.lists(st.lists(SECTIONS, max_size=3), min_size=1, max_size=3))
    own = draw(st.lists(SECTIONS, max_size=3))
    marks = [number for number in range(len(others)) for _ in range(2)]
    waits = draw(st.lists(st.booleans(), min_size=len(others), max_size=len(others)))
    return Program(draw(st.permutations([*own, *marks])), others, waits)


def race(program: Program) -> bool:
    """Two accesses that nothing orders and no lock keeps apart, by the definition, pair by pair."""
    started: dict[int, int] = {}
    joined: dict[int, int] = {}
    for place, each in enumerate(program.first):
        if isinstance(each, int):
            (joined if each in started else started)[each] = place
    done = [(-1, place, each) for place, each in enumerate(program.first) if isinstance(each, Section)]
    done += [(n, 0, each) for n, sections in enumerate(program.others) for each in sections]

    def ordered(n: int, place: int, m: int, other: int) -> bool:
        """Is what thread n does at `place` before what m does at `other`?"""
        end, begin = (place if n < 0 else joined[n]), (other if m < 0 else started[m])
        return end < begin

    def apart(one: Section, other: Section) -> bool:
        return bool(one.locks & other.locks) and not (one.is_reader and other.is_reader)

    return any(
        n != m and (one.is_write or two.is_write) and max(one.start, two.start) < min(one.stop, two.stop)
        and not apart(one, two) and not ordered(n, at, m, to) and not ordered(m, to, n, at)
        for (n, at, one), (m, to, two) in combinations(done, 2)
    )  # fmt: skip


def ran(program: Program) -> RaceDetector:
    detector = RaceDetector()

    def does(section: Section) -> None:
        held = [detector.lock(name) for name in section.locks]
        with contextlib.ExitStack() as stack, contextlib.suppress(DataRace):
            if held:
                stack.enter_context(detector.hold(*held, as_reader=section.is_reader))
            detector.access("file", section.start, section.stop, is_write=section.is_write)

    goes_on = [threading.Event() for _ in program.others]

    def does_all(n: int) -> None:
        if program.waits[n]:
            goes_on[n].wait(30)
        for section in program.others[n]:
            does(section)

    threads = [detector.thread(does_all, n) for n in range(len(program.others))]
    for each in program.first:
        if isinstance(each, Section):
            does(each)
        elif threads[each].ident is None:
            threads[each].start()
        else:
            goes_on[each].set()
            threads[each].join(30)
    return detector


@settings(max_examples=share(3000))
@given(programs())
def test_a_program_is_refused_exactly_if_two_of_its_accesses_race(program: Program) -> None:
    """In whatever order its threads just ran."""
    seen: list[RaceDetector] = []
    runner = threading.Thread(target=lambda: seen.append(ran(program)))
    runner.start()
    runner.join(60)
    assert bool(seen[0].races) == race(program)
