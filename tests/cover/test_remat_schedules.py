"""The search for the cheapest schedule by itself: what it finds, what it has to look at, and what it refuses.

spec: M1.10
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.cover.test_remat_choose import chain
from tests.cover.test_remat_optimum import OPTIMA, graph
from tests.strategies.recompute_oracle import cheapest as fewest
from tmmu.planner import DEFAULT
from tmmu.planner.remat import schedules
from tmmu.planner.remat.choose import peak
from tmmu.planner.remat.rewrite import follow, joint_of
from tmmu.planner.training.expand import expand
from tmmu.vocabulary import Model

LOOKED = {
    ("chain-8-5", 90): 132, ("chain-8-5", 80): 256, ("chain-10-6", 90): 142, ("chain-10-6", 80): 587,
    ("chain-10-6", 70): 1002, ("chain-12-1", 90): 860, ("hourglass-2", 90): 79, ("hourglass-2", 80): 164,
    ("hourglass-3", 90): 539, ("residual-3", 90): 129, ("residual-3", 80): 242, ("residual-3", 70): 443,
    ("residual-3", 60): 532, ("residual-4", 90): 562, ("residual-4", 80): 1756,
}  # fmt: skip
"""How many states are looked at, by graph and by the budget in percent of the peak without recomputation."""


def cost_and_peak(joint: Model, budget: int, known: int | None = None) -> tuple[int, int] | None:
    """What the script that is found repeats, and the peak of the graph that follows it."""
    source = joint_of(joint)
    script = schedules.cheapest(source, DEFAULT, budget, known)
    if script is None:
        return None
    made = follow(source, script)
    return made.cost, peak(made.model, DEFAULT)


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
    joint = expand(chain(widths))
    full = peak(joint, DEFAULT)
    for budget in range(full // 2 // 64 * 64, full + 1, 64):
        best = fewest([4 * w for w in widths], widths[1:], budget)
        found = cost_and_peak(joint, budget)
        assert (None if found is None else found[0]) == best
        assert found is None or found[1] <= budget


@pytest.mark.parametrize(("name", "percent"), LOOKED, ids=[f"{name} at {percent} %" for name, percent in LOOKED])
def test_the_optimum_is_found_and_nothing_below_it_without_looking_at_more(
    name: str, percent: int, looked: list[tuple[int, int, int]]
) -> None:
    joint = expand(graph(name))
    budget, best = peak(joint, DEFAULT) * percent // 100, OPTIMA[name, percent]
    found = cost_and_peak(joint, budget)
    assert found is not None
    assert (found[0], found[1] <= budget) == (best, True)
    assert sum(seen for _, _, seen in looked) <= LOOKED[name, percent]
    assert cost_and_peak(joint, budget, best) is None
    assert cost_and_peak(joint, budget, best + 1) == found
