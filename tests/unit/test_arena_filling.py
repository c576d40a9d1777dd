"""Choosing among arenas at scale: what it costs grows as it is said to, and a full arena is still used.

Costs are counts of what is looked at. spec: M3.11, M3.12
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from math import isqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.problems import problem
from tests.support.text_models import text_model
from tmmu.core.vocabulary import (
    ArenaConfiguration,
    ArenaPolicy,
    Body,
    DeviceConfiguration,
    Memory,
    Model,
    Node,
    Role,
    Rule,
    Tensor,
)
from tmmu.ir.program import build_program
from tmmu.planner import PlanOptions, aliasing, liveness, plan_memory
from tmmu.planner.arenas import assignment
from tmmu.planner.arenas.filling import Filling
from tmmu.planner.arenas.levels import Levels
from tmmu.planner.problem import AllocationProblem

SIZES = (64, 192, 320, 1024, 4096, 60_000)
DRAM, FAST = ArenaConfiguration("dram", tuple(Role)), "fast"
POLICY = ArenaPolicy((), (Rule((FAST, "dram")),))


def spread(nodes: int) -> Model:
    """Each node reads its predecessor and any value made before: half of all storages live long."""
    chance = random.Random(0)
    sizes = [chance.choice(SIZES) for _ in range(nodes + 1)]
    tensors = tuple(
        Tensor(f"t{i}", (size,), "uint8", Role.ACTIVATION if i else Role.INPUT, size) for i, size in enumerate(sizes)
    )
    made = tuple(Node(f"n{i}", "MatMul", tuple({i, chance.randrange(i + 1)}), (i + 1,)) for i in range(nodes))
    return Model("spread", tensors, made, (Body(-1, "", (0,), (nodes,)),))


def tight(model: Model, percent: int) -> tuple[ArenaConfiguration, ...]:
    """An arena without end, and a fast one that holds so many percent of what is live at the peak."""
    peak = plan_memory(model).plan.usage[2].peak_live_bytes
    return (DRAM, ArenaConfiguration(FAST, (), peak * percent // 100, 64))


# Levels.


@given(
    st.lists(st.integers(0, 1 << 70), min_size=1, max_size=40),
    st.lists(st.tuples(st.integers(0, 39), st.integers(0, 39), st.integers(0, 1 << 70)), max_size=20),
)
def test_the_most_live_is_that_of_looking_at_every_step(totals: list[int], changes: list[tuple[int, int, int]]) -> None:
    levels = Levels(totals, object)
    for a, b, size in changes:
        first, last = sorted((a % len(totals), b % len(totals)))
        levels.add(first, last + 1, size)
        totals[first : last + 1] = [total + size for total in totals[first : last + 1]]
        assert levels.most(first, last + 1) == max(totals[first : last + 1])
        assert levels.most(0, len(totals)) == max(totals)
        low = min(last + 1, len(totals) - 1)
        assert levels.most(low, low + 1) == totals[low]


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 5, 100, 101, 10_000, 1_000_000])
def test_a_question_looks_at_the_square_root_of_the_steps(steps: int) -> None:
    levels = Levels(np.zeros(steps, np.int64).tolist(), np.int64)
    for first, end in ((0, steps), (steps // 3, steps), (0, 1), (steps - 1, steps)):
        levels.looks = 0
        levels.add(first, end, 7)
        levels.most(first, end)
        assert 0 < levels.looks <= 8 * (isqrt(steps) + 1)


def test_what_is_looked_at_is_counted() -> None:
    """Of 99 steps ten stand in a block: entries within a block, and one for each block between two others."""
    levels = Levels([0] * 99, np.int64)
    assert levels.looks == 0
    for first, end, asked, added in ((3, 7, 4, 10), (0, 10, 10, 10), (5, 12, 7, 20), (35, 55, 11, 21), (0, 99, 27, 28)):
        levels.looks = 0
        levels.most(first, end)
        assert levels.looks == asked
        levels.add(first, end, 1)
        assert levels.looks == asked + added


# Filling.


def looks(nodes: int) -> int:
    """What one filling of a fast arena and of one without end looks at."""
    model = spread(nodes)
    arenas = tight(model, 30)
    stated = problem_of(model, arenas, POLICY)
    filling = Filling(stated, [0, 0])
    filled = filling.fill(list(range(len(stated))), tightest=False)
    assert set(filled) == {0, 1}
    return sum(levels.looks for levels in filling.live.values())


def test_filling_does_not_look_at_every_step_of_every_life() -> None:
    """Eight times the storages are at most some 23 times the looks, where every step of every life would be 64."""
    few, many = looks(500), looks(4_000)
    assert few < many < 30 * few
    assert many < 4_000 * 8 * isqrt(4_000)


def test_how_full_an_arena_is_that_holds_everything_is_not_worked_out() -> None:
    model = spread(50)
    needed = sum(t.bytes for t in model.tensors) + 128 * len(model.tensors)
    for capacity, ample in ((needed, True), (needed - 1, False)):
        arenas = (ArenaConfiguration("dram", tuple(Role), capacity), ArenaConfiguration(FAST, (), 100_000, 64))
        stated = problem_of(model, arenas, POLICY)
        filling = Filling(stated, [0, 0])
        assert filling.ample == [ample, False]
        kept = Filling(stated, [1, 0])
        assert kept.ample == [False, False]
        assert filling.fill(list(range(51)), tightest=False) == kept.fill(list(range(51)), tightest=False)
        assert (0 in filling.live, 0 in kept.live) == (not ample, True)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_an_arena_without_reuse_is_full_of_all_that_it_ever_held(steps: int) -> None:
    """Of storages that live one after the other it has room for the first alone; one that reuses for all."""
    lines = [f"node u{k} U -> t{k}" for k in range(steps)]
    for reuse, room, expected in (
        (False, 64, [0, *[1] * (steps - 1)]),
        (True, 64, [0] * steps),
        (False, 63, [1] * steps),
    ):
        filling = filling_of(
            text_model(*lines, inputs="", outputs=""), (ArenaConfiguration("few", (), room, 64, reuse=reuse), DRAM)
        )
        assert filling.fill(list(range(steps)), tightest=False) == expected


def test_where_no_choice_has_room_the_last_takes_it_and_is_as_full_as_it_then_is() -> None:
    arenas = (
        ArenaConfiguration("one", (), 1),
        ArenaConfiguration("two", (), 2),
        DRAM,
        ArenaConfiguration("three", tuple(Role), 3),
    )
    filling = filling_of(text_model("node relu Relu x -> y", sizes={"x": 9, "y": 5}), arenas, ("one", "two", "three"))
    assert filling.fill([0, 1], tightest=False) == [3, 3]
    assert filling.top == [0, 0, 0, 14]
    assert filling._pick(0, tightest=True) == (3, 14 + 9)


def filling_of(
    model: Model, arenas: tuple[ArenaConfiguration, ...], choices: tuple[str, ...] = ("few", "dram")
) -> Filling:
    """Arenas that nothing is in yet, of which all storages may use some."""
    return Filling(problem_of(model, arenas, ArenaPolicy((), (Rule(choices),))), [0] * len(arenas))


def problem_of(model: Model, arenas: tuple[ArenaConfiguration, ...], policy: ArenaPolicy) -> AllocationProblem:
    run = build_program(model)
    return aliasing.form_storages(run, liveness.analyze(run, "inference"), arenas, "inference", policy=policy).storages


# Candidates.


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """As few rounds as a model of more than a hundred thousand storages has."""
    monkeypatch.setattr(assignment, "EFFORT", 0)
    return monkeypatch


def footprints(model: Model, arenas: tuple[ArenaConfiguration, ...]) -> list[int]:
    plan = plan_memory(model, arenas, PlanOptions(layout="packed"), policy=POLICY).plan
    return [usage.footprint for usage in plan.usage]


def test_a_full_arena_is_used_though_no_round_found_a_fit(hurried: pytest.MonkeyPatch) -> None:
    """Before everything goes to its last choice, more and more of the arena is kept free."""
    model = spread(250)
    arenas = tight(model, 30)
    used = footprints(model, arenas)[1]
    assert arenas[1].capacity * 3 // 4 < used <= arenas[1].capacity
    hurried.setattr(assignment, "SHARES", ())
    assert footprints(model, arenas)[1] == 0


def last_resorts(arenas: tuple[ArenaConfiguration, ...], policy: ArenaPolicy) -> list[list[int]]:
    return assignment.bytes_kept_free(problem((0, 0, 1), arenas=arenas, policy=policy))


def test_more_is_kept_free_from_one_resort_to_the_next() -> None:
    found = last_resorts((DRAM, ArenaConfiguration(FAST, (), 6400)), POLICY)
    assert [kept[1] for kept in found] == [0, 100, 400, 1600]
    assert found[0] == [0, 0]
    # Of an arena that shares a memory, as much as it and the memory have.
    shared = (DRAM, ArenaConfiguration(FAST, (), 6400, device="npu", memory="sram"))
    for capacity, most in ((3200, 3200), (12800, 6400)):
        policy = ArenaPolicy((DeviceConfiguration("npu", (Memory("sram", capacity),)),), POLICY.rules)
        assert [kept[1] for kept in last_resorts(shared, policy)] == [0, most // 64, most // 16, most // 4]


def test_what_has_one_choice_comes_first_and_what_has_more_has_the_room_that_is_left() -> None:
    """`pinned` is colder, smaller and younger than `hot`, and alive with it; `later` is not alive with either."""
    model = text_model(
        "node make Make x -> hot", "node make2 Make hot -> pinned", "node read Read hot pinned -> z",
        "node make3 Make z -> later", "node end End later -> y",
        sizes={"hot": 640, "pinned": 64, "later": 640, "x": 1, "z": 1, "y": 1},
    )  # fmt: skip
    arenas = (ArenaConfiguration("dram", tuple(Role)), ArenaConfiguration(FAST, (), 640, 64))
    rules = (Rule((FAST,), names=("pinned",)), Rule((FAST, "dram"), names=("hot", "later")))
    plan = plan_memory(model, arenas, PlanOptions(layout="packed"), policy=ArenaPolicy((), rules)).plan
    home = {
        name: plan.allocation.storages.arena[plan.allocation.tensors.storage[t]]
        for t, name in enumerate(plan.allocation.tensors.name)
    }
    assert home == {"x": 0, "hot": 0, "pinned": 1, "z": 0, "later": 1, "y": 0}


def test_where_no_order_may_be_tried_storages_choose_as_slots_are_given(hurried: pytest.MonkeyPatch) -> None:
    """The first that is made has its first choice, though a larger one would have fitted in its place. spec: M3.12"""
    model = text_model(
        "node make Make x -> little", "node make2 Make little -> big", "node read Read little big -> y",
        sizes={"x": 1, "little": 64, "big": 640, "y": 1},
    )  # fmt: skip
    policy = ArenaPolicy((), (Rule((FAST, "dram"), names=("little", "big")),))
    arenas = (ArenaConfiguration("dram", tuple(Role)), ArenaConfiguration(FAST, (), 640, 64))
    plan = plan_memory(model, arenas, PlanOptions(layout="packed"), policy=policy).plan
    assert plan.allocation.storages.arena.tolist() == [0, 1, 0, 0]
    assert plan.usage[1].footprint == 64


def test_where_nothing_else_fits_all_go_to_their_last_choice(hurried: pytest.MonkeyPatch) -> None:
    """An arena smaller than any storage is left empty."""
    assert footprints(spread(60), (DRAM, ArenaConfiguration(FAST, (), 63, 64)))[1] == 0
