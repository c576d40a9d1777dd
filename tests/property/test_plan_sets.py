"""Random plan sets: what is planned is right; if one is changed, definition, calls and rows (`plan_sets`) agree.

spec: PS1.4, PS1.5, PS1.6, PS3.4, PS3.5, PS4.6, V4.3
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hypothesis import assume, event, given
from hypothesis import strategies as st

from proofs.definition.checker import execute
from proofs.sets import calls, violations
from proofs.sets.rows import set_rows
from proofs.sets.state import find_state
from tests.support.set_models import cache_program, members_of, other_program, prepared
from tmmu.core.columns import build_column
from tmmu.core.vocabulary import Model
from tmmu.planner import PlanOptions, plan_memory
from tmmu.planner.sets.plan import PlannedSet, SetOptions, plan_programs
from tmmu.plans.sections import amend_plan
from tmmu.plans.sets import footprints, live_peaks

sizes = st.lists(st.integers(1, 12).map(lambda n: 4 * n), min_size=2, max_size=5)
programs = st.builds(cache_program, sizes, cache=st.just(32), changes=st.booleans(), donated=st.just(True))
models = st.builds(
    lambda two, other: [*two, other], st.lists(programs, min_size=2, max_size=2), st.builds(other_program, sizes)
)


def by_name(models: list[Model]) -> dict[str, Model]:
    return {f"p{k}": model for k, model in enumerate(models)}


def planned(models: list[Model], layout: str) -> PlannedSet:
    return plan_programs(prepared(layout, **by_name(models)), SetOptions(("cache", "w")), layout)


def macros(text: str) -> bool:
    """What a row says, evaluated in Python."""
    words = text.replace("(", " ( ").replace(")", " ) ").replace("( - ", "-").split()
    name, values = words[1], [int(word) for word in words[2:] if word.lstrip("-").isdigit()]
    if name == "layout":
        cursor, end, *cells = values
        for first, size in zip(cells[::3], cells[1::3], strict=True):
            if first < cursor:
                return False
            cursor = first + size
        return cursor == end
    function: Callable[[list[int]], bool] = {
        "same_place": lambda v: v[:5] == v[5:],
        "to_the_end": lambda v: v[1] <= v[0],
        "in_hull": lambda v: v[2] <= v[0] and v[0] + v[1] <= v[3],
        "clear_of": lambda v: v[0] + v[1] <= v[2] or v[3] <= v[0],
    }[name]
    return function(values)


@given(models, st.sampled_from(("packed", "slots")))
def test_what_is_planned_is_right_and_needs_no_more_than_the_programs_one_by_one(
    models: list[Model], layout: str
) -> None:
    made = planned(models, layout)
    members = members_of(made)
    assert not [each for member in members for each in execute.violations(member.run)]
    assert not list(violations.find_violations(members, made.plan_set.agreement, made.plan_set))
    state = find_state(members, made.plan_set.agreement)
    assert all(macros(text) for _, text in set_rows(members, made.plan_set.agreement, state))
    ends = [footprints(plan) for plan in made.plans.values()]
    for arena in made.plan_set.agreement.arenas:
        assert arena.bytes == max(end[arena.name] for end in ends)
        assert made.peaks[arena.name] <= arena.bytes
    assert live_peaks(made.plan_set.agreement, made.plans) == made.peaks
    options = PlanOptions(layout=layout)
    alone = [plan_memory(model, options=options).plan for model in models]
    together = sum(arena.bytes for arena in made.plan_set.agreement.arenas)
    assert together <= sum(sum(footprints(plan).values()) for plan in alone) + 128 * 4


@given(models, st.data())
def test_of_a_storage_that_is_moved_definition_rows_and_calls_say_the_same(
    models: list[Model], data: st.DataObject
) -> None:
    """The program that has it must be right alone: the difference is one that only the set shows."""
    made = planned(models, "packed")
    name = data.draw(st.sampled_from(["p2", *sorted(made.plans)]))  # p2 has nothing of the cache
    plan = made.plans[name]
    s = plan.allocation.storages
    row = data.draw(st.integers(0, len(s) - 1))
    offsets = s.offset.tolist()
    offsets[row] = 128 * data.draw(st.integers(0, 2))
    moved = amend_plan(plan, storages=replace(s, offset=build_column(offsets, s.offset.dtype.type)))
    members = members_of(made, {**made.plans, name: replace(moved, claims=None, provenance=None)})
    assume(not any(list(execute.violations(member.run)) for member in members))
    agreement = made.plan_set.agreement
    found = list(violations.find_violations(members, agreement))
    state = find_state(members, agreement)
    if any(violation.obligation != "state_is_untouched" for violation in found):
        return
    event("touched" if found else "right")
    assert bool(found) == bool(list(calls.find_call_violations(members, state)))
    assert bool(found) != all(macros(text) for _, text in set_rows(members, agreement, state))
