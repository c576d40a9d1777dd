"""What is chosen to be computed again, against an exact oracle, and what cannot be chosen."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.support.effort import share
from tests.support.recompute_graphs import chain
from tests.support.recompute_oracle import cheapest
from tests.support.recomputed import least, repeated
from tests.support.trainable import floating
from tmmu.core.errors import TmmuError
from tmmu.planner import DEFAULT
from tmmu.planner.remat import rematerialise, schedules
from tmmu.planner.remat.choose import measure_peak
from tmmu.planner.remat.rewrite import build_joint, rewrite
from tmmu.planner.remat.strategies import Classes, chen_policy
from tmmu.planner.training.expand import expand_to_joint


@pytest.mark.parametrize("seed", range(share(30)))
def test_on_small_chains_no_schedule_repeats_less(seed: int) -> None:
    """spec: M1.10, M1.11"""
    chance = random.Random(seed)
    widths = [16 * chance.randrange(1, 6) for _ in range(chance.randrange(4, 10))]
    joint = expand_to_joint(chain(widths))
    full = measure_peak(joint, DEFAULT)
    for percent in (90, 80, 70, 60):
        budget = full * percent // 100
        best = cheapest([4 * w for w in widths], widths[1:], budget)
        if best is None:
            with pytest.raises(TmmuError, match="is too small"):
                rematerialise(joint, DEFAULT, budget)
            continue
        again = rematerialise(joint, DEFAULT, budget)
        assert measure_peak(again, DEFAULT) <= budget
        assert repeated(joint, again) == best


def test_the_oracle_knows_a_chain_by_hand() -> None:
    # x, a, b, c, d of 10 bytes: at the first backward step all five are live, with the seed and the gradient of c.
    assert cheapest([10] * 5, [7, 8, 9, 9], 70) == 0
    # Without a it is 60; a is made again once c is gone.
    assert cheapest([10] * 5, [7, 8, 9, 9], 69) == cheapest([10] * 5, [7, 8, 9, 9], 60) == 7
    assert cheapest([10] * 5, [7, 8, 9, 9], 59) is None


@pytest.mark.parametrize("length", [16, 40][: share(2)])
def test_never_worse_than_square_root_many_segments(length: int) -> None:
    """spec: M1.10"""
    joint = expand_to_joint(chain([64] * (length + 1)))
    source = build_joint(joint)
    segments = rewrite(source, chen_policy(Classes(source)))
    budget = measure_peak(segments.model, DEFAULT)
    assert budget < measure_peak(joint, DEFAULT) * 3 // 4
    again = rematerialise(joint, DEFAULT, budget)
    assert measure_peak(again, DEFAULT) <= budget
    assert repeated(joint, again) <= segments.cost


def test_long_chains_fit_into_much_less_than_they_keep() -> None:
    joint = expand_to_joint(chain([64] * 101))
    assert least(joint) < measure_peak(joint, DEFAULT) // 6


def test_cheap_results_are_repeated_before_dear_ones() -> None:
    model = floating(
        "node matmul0 MatMul x w -> a", "node tanh0 Tanh a -> b", "node matmul1 MatMul b w -> c",
        "node tanh1 Tanh c -> d", "node matmul2 MatMul d w -> e", "node tanh2 Tanh e -> f",
        "node matmul3 MatMul f w -> g", "node tanh3 Tanh g -> h", "node matmul4 MatMul h w -> y", parameters="w",
    )  # fmt: skip
    joint = expand_to_joint(replace(model, tensors=tuple(
        replace(t, shape=(64, 64), bytes=1 << 14) if t.name != "w" else t for t in model.tensors
    )))  # fmt: skip
    again = rematerialise(joint, DEFAULT, measure_peak(joint, DEFAULT) - 1)
    assert {node.op for node in again.nodes if ".recompute" in node.name} <= {"Tanh", "MatMul"}
    assert repeated(joint, again) <= 2 * 64 * 64 * 64 + 4 * 64 * 64


def test_what_cannot_be_met_says_the_least_that_can() -> None:
    """spec: M1.11"""
    joint = expand_to_joint(chain([64] * 16))
    lowest = least(joint)
    assert measure_peak(rematerialise(joint, DEFAULT, lowest), DEFAULT) == lowest
    with pytest.raises(TmmuError, match=f"budget of {lowest - 1} bytes is too small: at least {lowest} are live"):
        rematerialise(joint, DEFAULT, lowest - 1)


def test_the_choice_is_always_the_same() -> None:
    joint = expand_to_joint(chain([64, 32, 64, 16, 64, 48] * 2))
    budget = measure_peak(joint, DEFAULT) * 2 // 3
    assert rematerialise(joint, DEFAULT, budget) == rematerialise(joint, DEFAULT, budget)


def test_the_search_says_no_to_what_is_too_large_or_cannot_fit() -> None:
    small = build_joint(expand_to_joint(chain([64] * 5)))
    full = measure_peak(small.model, DEFAULT)
    assert schedules.find_cheapest(small, DEFAULT, full) == {}
    assert schedules.find_cheapest(small, DEFAULT, 64) is None
    assert schedules.find_cheapest(build_joint(expand_to_joint(chain([64] * 46))), DEFAULT, full * 99) == {}, (
        "just small enough"
    )
    assert schedules.find_cheapest(build_joint(expand_to_joint(chain([64] * 62))), DEFAULT, full * 99) is None, (
        "too many nodes"
    )
