"""One model, one plan: the same bytes in every run, after reading them again, in every process and under every Python.

Other versions of Python are asked where they are installed with the two packages that planning needs; continuous
integration runs everything under each.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tmmu.core.vocabulary import ArenaConfiguration, Model
from tmmu.planner import PlanOptions, plan_memory, replay_token
from tmmu.plans import file
from tmmu.plans.sections import amend_plan
from tmmu.testing.strategies.models import arenas, models


@given(models(), arenas())
def test_planning_twice_gives_the_same_bytes(model: Model, where: tuple[ArenaConfiguration, ...]) -> None:
    """spec: D1.1"""
    again = replace(model, tensors=tuple(replace(tensor) for tensor in model.tensors))
    assert file.encode(plan_memory(model, where).plan) == file.encode(plan_memory(again, where).plan)


@given(models(), arenas(), st.sampled_from(("inference", "forward")))
def test_a_plan_that_is_read_and_written_again_is_the_same(
    model: Model, where: tuple[ArenaConfiguration, ...], mode: str
) -> None:
    """spec: P1.3, V1.8, R8.1"""
    plan = plan_memory(model, where, PlanOptions(mode=mode)).plan
    data = file.encode(plan)
    stated = file.decode(data)
    assert stated.plan == plan
    assert file.encode(stated.plan) == data
    assert file.find_false_hashes(stated) == []


@given(models(), st.integers(0, (1 << 64) - 1))
def test_the_token_changes_the_plan_hash_and_nothing_else(model: Model, seed: int) -> None:
    """spec: A4.1, A4.2, A4.3, A4.4"""
    token = replay_token(seed)
    one, other = plan_memory(model).plan, plan_memory(model, options=PlanOptions(replay_token=token)).plan
    assert amend_plan(other, replay_token=one.origin.replay_token) == one
    hashes = file.compute_hashes(one), file.compute_hashes(other)
    changed = {key for key in hashes[0] if hashes[0][key] != hashes[1][key]}
    assert changed == ({"plan_hash", "file_digest"} if seed else set())
