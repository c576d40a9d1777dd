"""The checker's sweeps say what looking at every byte at every step says, of right plans and of wrong ones.

Here a plan is a dictionary of bytes: who occupies each at a step, what each holds after a step. That is slow, easy to
believe, and shares nothing with the sweeps of `proofs.definition.checker.execute`.
"""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import assume, given
from hypothesis import strategies as st

from proofs.definition.checker import execute as checker
from proofs.definition.checker.program import build_program
from proofs.readers.sharing import Permissions, decide_permissions
from tests.support.stale_bytes import Byte, bytes_of, shown, small_enough, stale
from tmmu.core.vocabulary import ArenaConfiguration, Model
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans.sections import Plan
from tmmu.testing.catalogue.entries import COLUMNS, PLACES, Change, corrupted
from tmmu.testing.strategies.models import arenas, changes, models
from tmmu.testing.strategies.recipes import LEAVES


def meetings(plan: Plan) -> Iterator[tuple[int, Byte, frozenset[int]]]:
    """Every byte at every step that two live storages have in common."""
    s = plan.allocation.storages
    for step in range(plan.allocation.last_step + 1):
        tenant: dict[Byte, int] = {}
        for k in range(len(s)):
            if s.birth[k] <= step <= s.death[k]:
                for byte in bytes_of(plan, k, 0, int(s.bytes[k])):
                    if tenant.setdefault(byte, k) != k:
                        yield step, byte, frozenset((tenant[byte], k))


@given(models(), arenas(), st.sampled_from(("inference", "forward")))
def test_every_byte_belongs_to_one_live_storage_at_every_step(
    model: Model, where: tuple[ArenaConfiguration, ...], mode: str
) -> None:
    """spec: V1.1"""
    assert list(meetings(plan_memory(model, where, PlanOptions(mode=mode)).plan)) == []


@given(models(), changes(PLACES))
def test_the_sweep_finds_storages_that_meet_exactly_where_bytes_do(model: Model, wanted: list[Change]) -> None:
    """spec: V1.1"""
    plan = corrupted(plan_memory(model).plan, wanted)
    assume(plan is not None and small_enough(plan))
    assert plan is not None
    assume(
        (plan.allocation.storages.birth <= plan.allocation.storages.death).all()
        and (plan.allocation.storages.death <= plan.allocation.last_step).all()
    )
    met = list(meetings(plan))
    found = list(checker.check_live_overlaps(build_program(plan, Permissions())))
    assert bool(found) == bool(met)
    where = {(step, plan.allocation.arenas[arena].name, at) for step, (arena, at), _ in met}
    for problem in found:
        assert problem.step is not None
        assert problem.first_byte is not None
        assert problem.last_byte is not None
        for at in (problem.first_byte, problem.last_byte):
            assert (problem.step, problem.arena, at) in where


@given(models(), changes(PLACES))
def test_bounds_are_those_of_every_single_byte(model: Model, wanted: list[Change]) -> None:
    """spec: T2.10, V1.2, V1.3"""
    plan = corrupted(plan_memory(model).plan, wanted)
    assume(plan is not None and small_enough(plan))
    assert plan is not None
    assert bool(list(checker.check_placement(build_program(plan, Permissions())))) == any(misplaced(plan))


def misplaced(plan: Plan) -> Iterator[bool]:
    """For each storage and tensor whether a byte or a step of it is one that it may not have, or it is not aligned."""
    s, t = plan.allocation.storages, plan.allocation.tensors
    for k in range(len(s)):
        a = int(s.arena[k])
        inside = range(min(plan.usage[a].footprint, plan.allocation.arenas[a].capacity))
        yield not all(at in inside for _, at in bytes_of(plan, k, 0, int(s.bytes[k])))
        yield int(s.offset[k]) > plan.usage[a].footprint  # of no bytes, but somewhere all the same
        yield not 0 <= int(s.birth[k]) <= int(s.death[k]) <= plan.allocation.last_step
        yield int(s.offset[k]) % int(s.alignment[k]) != 0 or int(s.offset[k]) % plan.allocation.arenas[a].alignment != 0
    for r, k in enumerate(t.storage.tolist()):
        mine = bytes_of(plan, k, int(t.window[r]), int(t.bytes[r]))
        yield not set(mine) <= set(bytes_of(plan, k, 0, int(s.bytes[k])))
        yield int(t.window[r]) > int(s.bytes[k])
        steps, around = range(int(t.birth[r]), int(t.death[r]) + 1), range(int(s.birth[k]), int(s.death[k]) + 1)
        yield not steps or steps[0] not in around or steps[-1] not in around
        yield (int(s.offset[k]) + int(t.window[r])) % int(t.alignment[r]) != 0
        yield int(s.alignment[k]) % int(t.alignment[r]) != 0


@given(models(kinds=[kind for kind in LEAVES if kind != "update"]), changes(COLUMNS[:9]))
def test_a_read_is_stale_exactly_where_a_byte_of_it_holds_another_byte(model: Model, wanted: list[Change]) -> None:
    """Of steps one after the other, without bodies and changes. spec: V1.5"""
    plan = corrupted(plan_memory(model).plan, wanted)
    assume(plan is not None and small_enough(plan))
    assert plan is not None
    donated = frozenset(model.bindings.donated)
    permissions = decide_permissions(plan, None, donated)
    assume(all(shown(plan, view, window) for view, window in permissions.views.items()))
    found = {
        problem.step
        for problem in checker.check_execution(build_program(plan, permissions, donated))
        if " hold" in problem.text
    }
    assert found == set(stale(plan, permissions.views, donated))
