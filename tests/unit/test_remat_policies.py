"""The choice among policies, as for graphs that are too large to search their schedules: what fits, what is cheapest.

spec: M1.8, M1.10, M1.11
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from tests.support.recompute_graphs import chain, graph
from tests.support.recomputed import least, repeated
from tests.support.trainable import MLP, floating
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Model
from tmmu.planner import DEFAULT, PlanOptions, plan_memory
from tmmu.planner.remat import check_budget, choose, rematerialise, schedules
from tmmu.planner.remat.choose import measure_peak
from tmmu.planner.remat.rewrite import Policy, Script, build_joint, rewrite
from tmmu.planner.remat.strategies import Classes, all_policies, chen_policy
from tmmu.planner.training.expand import expand_to_joint


@pytest.fixture
def no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every graph were too large for it."""
    monkeypatch.setattr(schedules, "find_cheapest", lambda *_: None)


@pytest.mark.usefixtures("no_search")
@pytest.mark.parametrize("widths", [[16, 32, 16, 48, 16], [64, 16, 16, 64, 32, 48, 16], [16] * 7])
def test_of_all_policies_of_a_small_graph_the_cheapest_that_fits_is_taken(widths: list[int]) -> None:
    joint = expand_to_joint(chain(widths))
    source = build_joint(joint)
    made = [rewrite(source, policy) for policy in all_policies(Classes(source))]
    reached = [(measure_peak(one.model, DEFAULT), one.cost) for one in made]
    full, lowest = measure_peak(joint, DEFAULT), min(found for found, _ in reached)
    assert least(joint) == lowest < full
    for budget in sorted({found for found, _ in reached if found < full}):
        again = rematerialise(joint, DEFAULT, budget)
        assert measure_peak(again, DEFAULT) <= budget
        assert repeated(joint, again) == min(cost for found, cost in reached if found <= budget)


def varied(length: int, seed: int) -> Model:
    """A chain of products, which are dear to repeat, and of functions of elements, which are cheap."""
    chance = random.Random(seed)
    nodes, last = [], "x"
    for k in range(length):
        op = chance.choice(["MatMul", "Tanh", "Sin", "Relu"])
        nodes.append(f"node {op.lower()}{k} {op} {last}{' w' if op == 'MatMul' else ''} -> v{k}")
        last = f"v{k}"
    return floating(*nodes, f"node matmul{length} MatMul {last} w -> y", parameters="w")


POLICIES = {
    ("chain-6-2", 75): (320, 126), ("chain-7-1", 75): (240, 51), ("varied-10-1", 75): (80, 74),
    ("varied-12-1", 75): (80, 76), ("varied-14-4", 85): (64, 67), ("varied-16-4", 75): (80, 85),
    ("hourglass-3", 80): (1280, 84), ("hourglass-4", 80): (2624, 124), ("hourglass-4", 70): (10624, 82),
    ("residual-3", 80): (320, 44), ("residual-4", 70): (768, 57), ("residual-4", 50): (2112, 102),
    ("chain-8-5", 80): (208, 64), ("chain-10-6", 70): (480, 78), ("chain-14-7", 60): (432, 119),
}  # fmt: skip
"""What the policies repeat, and how many are planned, by graph and by the budget in percent of the peak without
recomputation.
"""


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The peak of each policy that is planned."""
    peaks: list[int] = []
    original = choose._Search._peak

    def counted(self: Any, made: Any) -> int:
        peaks.append(original(self, made))
        return peaks[-1]

    monkeypatch.setattr(choose._Search, "_peak", counted)
    return peaks


@pytest.mark.usefixtures("no_search")
@pytest.mark.parametrize(("name", "percent"), POLICIES, ids=[f"{name} at {percent} %" for name, percent in POLICIES])
def test_no_more_is_repeated_than_the_policies_need_and_no_more_of_them_planned(
    name: str, percent: int, planned: list[int]
) -> None:
    kind, *numbers = name.split("-")
    joint = expand_to_joint(varied(*map(int, numbers)) if kind == "varied" else graph(name))
    budget, (cost, plans) = measure_peak(joint, DEFAULT) * percent // 100, POLICIES[name, percent]
    again = rematerialise(joint, DEFAULT, budget)
    assert measure_peak(again, DEFAULT) <= budget
    assert repeated(joint, again) <= cost
    assert len(planned) <= plans


@pytest.mark.usefixtures("no_search")
@pytest.mark.parametrize(("length", "seed", "budget", "cost"), [(10, 1, 576, 80), (16, 2, 704, 400)])
def test_a_policy_that_takes_the_budget_to_the_byte_fits(length: int, seed: int, budget: int, cost: int) -> None:
    joint = expand_to_joint(varied(length, seed))
    again = rematerialise(joint, DEFAULT, budget)
    assert (measure_peak(again, DEFAULT), repeated(joint, again) <= cost) == (budget, True)


@pytest.mark.usefixtures("no_search")
@pytest.mark.parametrize(("name", "percent"), [("hourglass-3", 73), ("chain-8-5", 80), ("chain-14-7", 57)])
def test_where_no_policy_fits_the_least_that_one_reached_is_told(name: str, percent: int) -> None:
    joint = expand_to_joint(graph(name))
    lowest = least(joint)
    assert 100 * lowest <= percent * measure_peak(joint, DEFAULT)
    assert measure_peak(rematerialise(joint, DEFAULT, lowest), DEFAULT) == lowest
    with pytest.raises(TmmuError) as raised:
        rematerialise(joint, DEFAULT, lowest - 1)
    told = raised.value.diagnostics
    assert (raised.value.code_id, told["capacity"], told["required"]) == ("ARENA_TOO_SMALL", lowest - 1, lowest)


def test_a_schedule_that_is_found_counts_only_where_its_plan_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search is told what is to be beaten, and its answer is planned like every other."""
    joint = expand_to_joint(graph("residual-3"))
    budget = measure_peak(joint, DEFAULT) * 80 // 100
    scripts: list[Script | None] = [None, {}]
    told: list[int | None] = []

    def cheapest(_: object, __: object, limit: int, known: int | None, ___: object) -> Script | None:
        assert limit == budget
        told.append(known)
        return scripts.pop()

    search = schedules.find_cheapest
    monkeypatch.setattr(schedules, "find_cheapest", cheapest)
    unfit, none = (rematerialise(joint, DEFAULT, budget) for _ in range(2))
    assert unfit == none
    assert told == [repeated(joint, none)] * 2
    monkeypatch.setattr(schedules, "find_cheapest", search)
    monkeypatch.setattr(choose._Search, "_best_policy", lambda _: None)
    found = rematerialise(joint, DEFAULT, budget)
    assert measure_peak(found, DEFAULT) <= budget
    assert repeated(joint, found) == 320


@pytest.mark.usefixtures("no_search")
def test_square_root_many_segments_are_tried_whatever_else_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """spec: M1.10"""
    monkeypatch.setattr(choose, "LIMIT", 0)
    joint = expand_to_joint(chain([64] * 24))
    source = build_joint(joint)
    segments = rewrite(source, chen_policy(Classes(source)))
    again = rematerialise(joint, DEFAULT, measure_peak(segments.model, DEFAULT))
    assert repeated(joint, again) <= segments.cost


@pytest.mark.usefixtures("no_search")
def test_how_much_is_planned_is_bounded(monkeypatch: pytest.MonkeyPatch, planned: list[int]) -> None:
    joint = expand_to_joint(graph("residual-4"))
    budget = measure_peak(joint, DEFAULT) * 60 // 100
    plans = []
    for limit, effort in ((400_000, 80_000), (1_000, 80_000), (400_000, 100), (0, 0)):
        monkeypatch.setattr(choose, "LIMIT", limit)
        monkeypatch.setattr(choose, "EFFORT", effort)
        planned.clear()
        assert measure_peak(rematerialise(joint, DEFAULT, budget), DEFAULT) <= budget
        plans.append(len(planned))
    everything, few_policies, little_improved, least_of_all = plans
    assert everything > few_policies > least_of_all
    assert everything > little_improved > least_of_all


def test_only_arenas_that_reuse_count() -> None:
    """Parameters take what they take, in every step: the budget is for what comes and goes."""
    small, large = (
        floating("node matmul0 MatMul x w -> a", "node sin0 Sin a -> y", f"tensor v u8 {n}", parameters="w v")
        for n in (64, 1 << 20)
    )
    joints = [expand_to_joint(model) for model in (small, large)]
    assert measure_peak(joints[0], DEFAULT) == measure_peak(joints[1], DEFAULT)
    for joint in joints:
        check_budget(
            plan_memory(joint, options=PlanOptions(mode="backward", layout="slots")).plan, measure_peak(joint, DEFAULT)
        )


def test_the_peak_is_of_one_step_with_all_that_it_reads_and_writes() -> None:
    """When a.grad is written, x, a, y and its seed are there too; x.grad takes the place of a.grad."""
    joint = expand_to_joint(floating("node sin0 Sin x -> a", "node sin1 Sin a -> y"))
    assert measure_peak(joint, DEFAULT) == 5 * 64


def test_a_graph_that_fits_is_not_changed() -> None:
    """spec: M1.11"""
    joint = expand_to_joint(MLP)
    assert rematerialise(joint, DEFAULT, measure_peak(joint, DEFAULT)) is joint


def test_a_plan_over_its_budget_is_refused_whatever_made_it_larger() -> None:
    """spec: M1.11"""
    joint = expand_to_joint(MLP)
    full = measure_peak(joint, DEFAULT)
    check_budget(plan_memory(joint, options=PlanOptions(mode="backward", layout="slots")).plan, full)
    with pytest.raises(TmmuError, match=f"{full} bytes are live at one step") as raised:
        check_budget(plan_memory(joint, options=PlanOptions(mode="backward", layout="slots")).plan, full - 1)
    assert raised.value.code_id == "ARENA_TOO_SMALL"


@pytest.mark.parametrize("held", [None, frozenset[int]()])
def test_of_what_is_worth_dropping_the_fewest_that_fit_are_dropped_or_all(held: frozenset[int] | None) -> None:
    """spec: M1.10"""
    source = build_joint(expand_to_joint(varied(12, 1)))
    classes = Classes(source)
    every, order = classes.all, classes.by_worth
    policies = [Policy(every - frozenset(order[:n]), held) for n in range(len(order) + 1)]
    peaks = [measure_peak(rewrite(source, policy).model, DEFAULT) for policy in policies]
    for budget in {*peaks, min(peaks) - 1}:
        search = choose._Search(source, DEFAULT, budget)
        search._drop_by_worth()
        fewest = next((n for n, found in enumerate(peaks) if found <= budget), len(order))
        assert policies[fewest] in search.tried


def test_a_policy_gives_way_to_one_that_fits_and_repeats_less() -> None:
    """spec: M1.11"""
    source = build_joint(expand_to_joint(varied(12, 1)))
    dear, cheap = chen_policy(Classes(source)), Policy(Classes(source).all)
    for budget, kept in (
        (measure_peak(source.model, DEFAULT), cheap),
        (measure_peak(rewrite(source, dear).model, DEFAULT), dear),  # the cheap one does not fit
    ):
        search = choose._Search(source, DEFAULT, budget)
        search.judge(dear)
        assert search._better(dear, cheap) == kept
        assert search._better(kept, dear) == kept


def test_what_costs_most_to_repeat_for_its_bytes_is_kept_again_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """One value costs more to repeat than the other, but less for each of its bytes."""
    joint = build_joint(
        expand_to_joint(
            floating("node relu Relu x -> a", "node relu2 Relu a -> b", "node matmul MatMul b w -> y", parameters="w")
        )
    )
    dear, dense = (next(t for t, tensor in enumerate(joint.model.tensors) if tensor.name == name) for name in "ab")
    size, cost = {dear: 4096, dense: 64}, {joint.writer[dear]: 2000, joint.writer[dense]: 1000}
    tensors = tuple(replace(x, bytes=size.get(t, x.bytes)) for t, x in enumerate(joint.model.tensors))
    model = replace(joint.model, tensors=tensors)
    search = choose._Search(
        replace(joint, model=model, cost=[cost.get(n, 0) for n in range(len(joint.cost))]), DEFAULT, 0
    )
    kept: list[frozenset[int]] = []

    def judge(_: object, policy: Policy) -> tuple[int, int]:
        kept.append(policy.kept)
        return 1, 0

    monkeypatch.setattr(choose._Search, "judge", judge)
    search._improve(Policy(frozenset()))
    assert {dear, dense} <= search.classes.all
    assert next(some for some in kept if len(some) == 1) == {dense}


def test_as_much_is_kept_again_as_fits_though_nothing_is_tried_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """By bisection, in as many policies as the number of values has bits. spec: M1.11"""
    monkeypatch.setattr(choose, "EFFORT", -1)
    search = choose._Search(build_joint(expand_to_joint(varied(12, 1))), DEFAULT, 0)
    count = len(search.classes.all)
    for most in range(count + 1):
        asked: list[frozenset[int]] = []

        def judge(_: object, policy: Policy, asked: list[frozenset[int]] = asked, most: int = most) -> tuple[int, int]:
            asked.append(policy.kept)
            search.tried[policy] = int(len(policy.kept) > most), -len(policy.kept)
            return search.tried[policy]

        monkeypatch.setattr(choose._Search, "judge", judge)
        search._improve(Policy(frozenset()))
        assert max(len(kept) for kept in asked if len(kept) <= most) == most
        assert len(set(asked)) <= count.bit_length() + 2
