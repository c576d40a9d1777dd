"""The search for the cheapest schedule by itself: what it finds, what it has to look at, and what it refuses.

spec: M1.10
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from tests.support.recompute_graphs import OPTIMA, chain, graph
from tests.support.recompute_oracle import cheapest as fewest
from tests.support.text_models import text_model
from tests.support.trainable import floating
from tmmu.core.vocabulary import ANYWHERE, Model
from tmmu.planner import DEFAULT
from tmmu.planner.remat import schedules
from tmmu.planner.remat.choose import measure_peak
from tmmu.planner.remat.rewrite import apply_script, build_joint
from tmmu.planner.training.expand import expand_to_joint

LOOKED = {
    ("chain-8-5", 90): 132, ("chain-8-5", 80): 256, ("chain-10-6", 90): 142, ("chain-10-6", 80): 587,
    ("chain-10-6", 70): 1002, ("chain-12-1", 90): 860, ("hourglass-2", 90): 79, ("hourglass-2", 80): 164,
    ("hourglass-3", 90): 539, ("residual-3", 90): 129, ("residual-3", 80): 242, ("residual-3", 70): 443,
    ("residual-3", 60): 532, ("residual-4", 90): 562, ("residual-4", 80): 1756,
}  # fmt: skip
"""How many states are looked at, by graph and by the budget in percent of the peak without recomputation."""


def cost_and_peak(joint: Model, budget: int, known: int | None = None) -> tuple[int, int] | None:
    """What the script that is found repeats, and the peak of the graph that follows it."""
    source = build_joint(joint)
    script = schedules.find_cheapest(source, DEFAULT, budget, known)
    if script is None:
        return None
    made = apply_script(source, script)
    return made.cost, measure_peak(made.model, DEFAULT)


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, int]]:
    """Of each search the bound, how many states it may look at, and how many it did."""
    seen: list[tuple[int, int, int]] = []
    search = schedules._search

    def counted(space: Any, budget: int, bound: int, effort: int) -> Any:
        found = search(space, budget, bound, effort)
        seen.append((bound, effort, found[2]))
        return found

    monkeypatch.setattr(schedules, "_search", counted)
    return seen


@pytest.mark.parametrize("seed", range(10))
def test_on_small_chains_it_finds_the_optimum_for_every_budget(seed: int) -> None:
    chance = Random(seed)
    widths = [16 * chance.randrange(1, 6) for _ in range(chance.randrange(4, 8))]
    joint = expand_to_joint(chain(widths))
    full = measure_peak(joint, DEFAULT)
    for budget in range(full // 2 // 64 * 64, full + 1, 64):
        best = fewest([4 * w for w in widths], widths[1:], budget)
        found = cost_and_peak(joint, budget)
        assert (None if found is None else found[0]) == best
        assert found is None or found[1] <= budget


@pytest.mark.parametrize(("name", "percent"), LOOKED, ids=[f"{name} at {percent} %" for name, percent in LOOKED])
def test_the_optimum_is_found_and_nothing_below_it_without_looking_at_more(
    name: str, percent: int, looked: list[tuple[int, int, int]]
) -> None:
    joint = expand_to_joint(graph(name))
    budget, best = measure_peak(joint, DEFAULT) * percent // 100, OPTIMA[name, percent]
    found = cost_and_peak(joint, budget)
    assert found is not None
    assert (found[0], found[1] <= budget) == (best, True)
    assert sum(seen for _, _, seen in looked) <= LOOKED[name, percent]
    assert cost_and_peak(joint, budget, best) is None
    assert cost_and_peak(joint, budget, best + 1) == found


# Which searches are made.


class Searches:
    """Stands for the search of a graph whose optimum is `best`, where a bound above `most` is too much to look at.

    Each looks at `each` states. Where `found` is given, that is what a search finds that leaves out states.
    """

    def __init__(self, best: int, most: int, each: int = 1, found: int | None = None) -> None:
        self.best, self.most, self.each, self.found = best, most, each, found
        self.asked: list[tuple[int, int]] = []

    def __call__(self, _: object, __: int, bound: int, effort: int) -> tuple[Any, bool, int]:
        self.asked.append((bound, effort))
        seen = min(self.each, effort)
        if bound > self.most:
            return (None if self.found is None or self.found > bound else (self.found, None)), False, seen
        return (None if bound < self.best else (self.best, None)), True, seen

    @property
    def bounds(self) -> list[int]:
        return [bound for bound, _ in self.asked]


@pytest.mark.parametrize(
    ("searches", "bounds", "finds"),
    [
        (Searches(30, 200), [100], True),  # at once
        (Searches(130, 200), [100], False),  # nothing below what is known, and nothing was left out
        (Searches(30, 80), [100, 49], True),  # too much, so half of it
        (Searches(60, 80), [100, 49, 74], True),  # too much, too little
        (Searches(60, 80, found=60), [100, 29, 44, 52, 56, 58], True),  # what is found is what must be beaten
        (Searches(40, 80, found=60), [100, 29, 44], True),
        (Searches(0, -1), [100, 49, 24, 11, 5, 2], False),  # always too much
        (Searches(99, 99), [100, 49, 74, 87, 93, 96], False),  # six are made, and no more
        (Searches(0, -1, found=1), [100, 0], True),
    ],
)
def test_searches_are_made_with_lower_bounds_after_too_much_and_higher_ones_after_nothing(
    searches: Searches, bounds: list[int], finds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedules, "_search", searches)
    joint = build_joint(expand_to_joint(chain([64] * 5)))
    assert (schedules.find_cheapest(joint, DEFAULT, 1000, 101) is not None) == finds
    assert searches.bounds == bounds


def test_all_searches_together_look_at_so_many_states(monkeypatch: pytest.MonkeyPatch) -> None:
    joint = build_joint(expand_to_joint(chain([64] * 5)))
    for total, efforts in ((250, [100, 100, 50]), (200, [100, 100]), (201, [100, 100, 1]), (80, [80])):
        searches = Searches(0, -1, each=1000)
        monkeypatch.setattr(schedules, "_search", searches)
        monkeypatch.setattr(schedules, "EFFORT", 100)
        monkeypatch.setattr(schedules, "TOTAL", total)
        assert schedules.find_cheapest(joint, DEFAULT, 1000) is None
        assert [effort for _, effort in searches.asked] == efforts
        assert searches.bounds[0] == sum(joint.cost[n] for n in joint.order)  # each once more


# What is searched.


def space_of(model: Model) -> schedules._Space:
    found = schedules._build_space(build_joint(model), DEFAULT, ANYWHERE)
    assert found is not None
    return found


def test_the_space_of_a_small_graph() -> None:
    """x and a may be dropped, and a be made again; y, its seed, a.grad and x.grad are there when they are there."""
    found = space_of(expand_to_joint(floating("node sin0 Sin x -> a", "node sin1 Sin a -> y")))
    x, a = 1, 2
    assert (found.reads, found.writes) == ([x, a, a, x], [a, 0, 0, 0])
    assert (found.at, found.before) == ([64, 128, 192, 192], [0, 64, 128, 128])
    assert (found.size, found.made_by, found.later) == ([64, 64], [-1, 0], [False, False, True, True])
    assert found.needed == [x, x | a, x | a, x, 0]
    assert found.useful == [x | a, x | a, x | a, x, 0]


def test_what_is_missing_is_wanted_with_what_it_is_made_of() -> None:
    """x is given, a made of it, b of a, and c of x and b."""
    model = expand_to_joint(
        floating(
            "node sin0 Sin x -> a", "node sin1 Sin a -> b", "node add0 Add x b -> c", "node sin2 Sin c -> d",
            "node sin3 Sin d -> y",
        )
    )  # fmt: skip
    found = space_of(model)
    x, a, b, c, d = (1 << k for k in range(5))
    assert found.missing(x, c) == a | b | c
    assert found.missing(x | b, c) == c
    assert found.missing(x | a, d | a) == b | c | d
    assert found.missing(0, a) == x | a
    assert found.missing(a | c, a | c) == 0
    assert found.weight(a | c) == 128
    at = {node.name: n for n, node in enumerate(model.nodes)}["sin2.grad"]
    assert found.needed[at] == x | a | c  # the derivative of an addition reads nothing
    assert [found.least(at, values) for values in (x | a | c, x | a | b, x, a | c)] == [0, 16, 48, None]


def test_of_several_that_are_missing_each_is_made_of_something() -> None:
    """b is made of a, a of x, and e of u."""
    lines = (
        "node sin0 Sin x -> a", "node sin1 Sin a -> b", "node sin2 Sin u -> e", "node matmul MatMul b e -> y backward",
        "node exp Exp e -> z backward",
    )  # fmt: skip
    model = text_model(*lines, inputs="x u")
    found = space_of(model)
    x, u, a, b, e = (1 << k for k in range(5))
    assert found.missing(x | u, b | e) == a | b | e
    assert found.missing(0, u) == u
    assert found.useful[3:] == [b | e | a | x | u, e | u, 0]  # a as well, of which b is made
    assert [schedules.find_cheapest(build_joint(model), DEFAULT, budget) for budget in (64, 1 << 20)] == [None, {}]


@pytest.mark.parametrize(("temporary", "fits"), [(192, 840), (640, 1288)])
def test_what_is_made_again_needs_room_beside_what_is_there(temporary: int, fits: int) -> None:
    """c is in the way of what `pass` writes. Dropped, it is made of the huge h once more while g is there: there is no
    room for h beside g in the first case, and none for c beside both in the second.
    """
    sizes = {"h": 640, "g": 512, "w": 8, "s": temporary}
    lines = (
        "node sum Sum x -> h", "node cos Cos h -> c", "node start Start x -> g backward",
        "node pass Pass g -> w s backward", "node end End g c w -> k backward",
    )  # fmt: skip
    model = text_model(*lines, outputs="k x", sizes=sizes)
    assert cost_and_peak(model, fits) == (0, fits)
    assert cost_and_peak(model, fits - 1) is None
    assert cost_and_peak(model, fits - 64) is None


def test_a_search_that_left_nothing_out_has_found_the_optimum_and_looked_at_no_more_than_it_may() -> None:
    joint = expand_to_joint(graph("residual-4"))
    budget, best = measure_peak(joint, DEFAULT) * 80 // 100, OPTIMA["residual-4", 80]
    space, bound = space_of(joint), sum(build_joint(joint).cost)
    ends = []
    for effort in (1, 2, 3, 20, 100, 300, 1000, 1500, 100_000):
        found, complete, seen = schedules._search(space, budget, bound, effort)
        assert 0 < seen <= effort
        assert not complete or (found is not None and found[0] == best)
        ends.append(complete)
    assert ends == [False] * 8 + [True]
    assert schedules._search(space, budget, best - 1, 100_000)[:2] == (None, True)


def test_only_inputs_that_something_is_made_of_again_may_be_dropped() -> None:
    """Not outputs, not parameters, and not what only the caller or backward reads."""
    model = text_model(
        "node add Add x p q -> a", "node sin Sin o -> b", "node matmul MatMul a b u -> y backward", inputs="x o u v",
        outputs="y o", parameters="p q",
    )  # fmt: skip
    given = tuple(range(6))  # a parameter may be listed among the inputs, too
    found = space_of(replace(model, bodies=(replace(model.bodies[0], inputs=given),)))
    assert found.made_by == [-1, 0, 1]
    assert found.reads == [1, 0, 2 | 4]


def test_only_what_lies_in_arenas_that_reuse_takes_room() -> None:
    models = (
        expand_to_joint(
            floating("node matmul0 MatMul x w -> a", "node sin0 Sin a -> y", f"tensor v u8 {n}", parameters="w v")
        )
        for n in (64, 1 << 20)
    )
    few, many = (space_of(model) for model in models)
    assert (few.at, few.before) == (many.at, many.before)


def test_graphs_with_bodies_many_nodes_or_many_values_are_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    model = text_model(
        "node cos Cos x -> a", "begin if If a -> b", "arm then_branch -> d", "  node sin Sin a -> d", "end if",
        "node matmul MatMul a b -> y backward",
    )  # fmt: skip
    assert schedules._build_space(build_joint(model), DEFAULT, ANYWHERE) is None
    assert schedules.find_cheapest(build_joint(model), DEFAULT, 1 << 30) is None
    whole = build_joint(expand_to_joint(chain([64] * 5)))
    for limit, exactly in (("NODES", 8), ("VALUES", 4)):  # x and the three values between
        with monkeypatch.context() as limits:
            limits.setattr(schedules, limit, exactly)
            assert schedules._build_space(whole, DEFAULT, ANYWHERE) is not None
            limits.setattr(schedules, limit, exactly - 1)
            assert schedules._build_space(whole, DEFAULT, ANYWHERE) is None
