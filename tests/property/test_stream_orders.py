"""Steps and storages of several streams: the planner's orders, antichains, chains and placements against networkx."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.partial_orders import StreamProgram, fewest_chains, heaviest_antichain, random_program
from tmmu.core.vocabulary import LAYOUTS, ArenaConfiguration, Role
from tmmu.planner.arenas.assignment import lay_out
from tmmu.planner.problem import AllocationProblem
from tmmu.planner.streams.antichain import find_antichain
from tmmu.planner.streams.chains import assign_chains

PROGRAMS = st.builds(random_program, st.integers(0, 1 << 32), st.just(12), st.just(10))


@given(PROGRAMS)
def test_steps_and_storages_are_ordered_as_paths_are(program: StreamProgram) -> None:
    """spec: X5.2"""
    order, reached = program.step_order(), program.reached()
    for a in reached:
        for b in reached:
            assert order.is_before(a, b) == (a != b and reached.has_edge(a, b))
    storages, before = program.storage_order(), program.storages_before()
    for x in before:
        overlapping = storages.overlaps(x)
        for y in before:
            assert storages.is_before(x, y) == (x != y and before.has_edge(x, y))
            assert bool(overlapping[y]) == (not before.has_edge(x, y) and not before.has_edge(y, x))


@given(PROGRAMS)
def test_the_fewest_slots_are_a_largest_antichain(program: StreamProgram) -> None:
    """spec: X6.2"""
    order, before = program.storage_order(), program.storages_before()
    found = find_antichain(order)
    assert found.weight == len(found.storages) == len(found.chains()) == fewest_chains(before)
    assert order.is_antichain(found.storages)
    assert sorted(k for chain in found.chains() for k in chain) == list(before)
    assert all(before.has_edge(a, b) for chain in found.chains() for a, b in combinations(chain, 2))


@given(PROGRAMS, st.data())
def test_no_antichain_is_heavier(program: StreamProgram, data: st.DataObject) -> None:
    order, count = program.storage_order(), len(program.accesses)
    weights = data.draw(st.lists(st.integers(0, 9), min_size=count, max_size=count))
    found = find_antichain(order, weights)
    assert found.weight == sum(weights[k] for k in found.storages)
    assert found.weight == heaviest_antichain(program.storages_before(), weights)
    assert order.is_antichain(found.storages)


@given(PROGRAMS, st.booleans())
def test_chains_along_the_list_share_slots_only_in_order(program: StreamProgram, is_apart: bool) -> None:
    """What is found beyond the limit of exactness, and beside conflicts; its antichain is one, and the gap is right."""
    order, before, count = program.storage_order(), program.storages_before(), len(program.accesses)
    conflicts = {0: {count - 1}, count - 1: {0}} if is_apart and count > 1 else {}
    sequence = sorted(range(count), key=lambda k: min(program.accesses[k]))
    found = assign_chains(order, sequence, conflicts, exact=0)
    assert sorted(set(found.slot)) == list(range(found.slots))
    for a, b in combinations(range(count), 2):
        if found.slot[a] == found.slot[b]:
            assert before.has_edge(a, b) or before.has_edge(b, a)
            assert b not in conflicts.get(a, ())
    assert order.is_antichain(found.antichain)
    assert found.gap >= 0


@given(PROGRAMS)
def test_widened_lifetimes_that_do_not_overlap_are_ordered(program: StreamProgram) -> None:
    order, before = program.storage_order(), program.storages_before()
    birth, death = [min(steps) for steps in program.accesses], order.widen_deaths().tolist()
    assert all(death[k] >= max(steps) for k, steps in enumerate(program.accesses))
    for a in before:
        for b in before:
            assert death[a] >= birth[b] or before.has_edge(a, b)


def problem_of(program: StreamProgram, sizes: list[int]) -> AllocationProblem:
    """The storages of a program, in one arena."""
    count = len(program.accesses)
    birth, death = [min(steps) for steps in program.accesses], [max(steps) for steps in program.accesses]
    return AllocationProblem(
        (ArenaConfiguration("a", tuple(Role), 1 << 40, 8, 4096, reuse=True),),
        [f"t{k}" for k in range(count)], [8 * size for size in sizes], [8] * count, birth, death, [(0,)] * count, birth,
        order=program.storage_order(),
    )  # fmt: skip


@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if layout != "hashed"])
@given(PROGRAMS, st.data())
def test_every_layout_keeps_storages_apart_that_are_not_ordered(
    layout: str, program: StreamProgram, data: st.DataObject
) -> None:
    """Also with a pair that must not alias, and a fixed storage that is alone there. spec: X6.1, X5.10"""
    count = len(program.accesses)
    sizes = data.draw(st.lists(st.integers(0, 9), min_size=count, max_size=count))
    problem = problem_of(program, sizes)
    if data.draw(st.booleans()) and count > 1:
        problem = replace(problem, conflicts={0: {count - 1}, count - 1: {0}})
    found, before = lay_out(problem, [0] * count, layout), program.storages_before()
    for a, b in combinations(range(count), 2):
        share = (
            found.offset[a] < found.offset[b] + problem.bytes[b]
            and found.offset[b] < found.offset[a] + problem.bytes[a]
        )
        if share and problem.bytes[a] and problem.bytes[b]:
            assert before.has_edge(a, b) or before.has_edge(b, a)
            assert b not in problem.conflicts.get(a, ())
    filled = before.subgraph([k for k in before if problem.bytes[k]])
    assert all(problem.bytes[k] for k in found.slots.antichains[0])
    assert problem.conflicts or len(found.slots.arena) == fewest_chains(before)
    assert problem.conflicts or len(found.slots.antichains[0]) == (fewest_chains(filled) if filled else 0)


@given(PROGRAMS)
def test_on_one_stream_an_antichain_is_what_is_live_at_once(program: StreamProgram) -> None:
    """spec: T6.4"""
    alone = replace(program, stream=[0] * len(program.stream), waits=[], barriers=[])
    order = alone.storage_order()
    live = [sum(min(steps) <= s <= max(steps) for steps in alone.accesses) for s in range(len(alone.stream))]
    assert find_antichain(order).weight == max(live)
    sequence = sorted(range(len(alone.accesses)), key=lambda k: min(alone.accesses[k]))
    assert assign_chains(order, sequence, {}, exact=0).gap == 0
