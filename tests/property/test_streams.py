"""Random plans on streams: definition, walk over bytes, reachability, clocks, rows and interleavings agree.

spec: X5.1, X5.2, X5.3, X5.4, X5.8, X5.13
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofs.definition.checker import execute
from proofs.proving.certificate.clocks import compute_clocks
from proofs.proving.certificate.turns import find_turns
from proofs.proving.obligations import races as rows_of_races
from proofs.streams import happens_before, races
from proofs.streams.interleavings import run_interleaving
from proofs.verify.checks import Subject
from tests.support.wrong_plans import streams
from tests.support.wrong_plans.answers import stated
from tests.support.wrong_plans.row import Row
from tmmu.core.columns import build_column
from tmmu.planner.streams.events import VIEW
from tmmu.planner.streams.events import find_races as find_planned_races
from tmmu.planner.streams.program import streams_of_plan
from tmmu.planner.streams.steps import StepOrder
from tmmu.plans import text
from tmmu.plans.allocation import Allocation
from tmmu.plans.gate import StatedPlan
from tmmu.plans.sections import Plan

SIZE = 4


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Draw a chain of steps with random operands, streams, waits, a barrier and addresses, right or wrong.

    Some of them make views, and some tensors have no bytes.
    """
    count, streams = draw(st.integers(2, 9)), draw(st.integers(1, 3))
    lines = ["tmmu-plan-text 1", "arena m 64", f"tensor t0 {SIZE} m 0 input"]
    barrier = draw(st.integers(0, 2 * count))
    places = [(0, SIZE)]
    listed = [draw(st.lists(st.integers(0, k), min_size=1, max_size=2, unique=True)) for k in range(count)]
    for k, reads in enumerate(listed, 1):
        is_view = k != barrier and draw(st.integers(0, 3)) == 0
        address = draw(st.integers(1, 7)) * SIZE - draw(st.sampled_from((0, 0, 0, 1)))
        size = 0 if draw(st.integers(0, 5)) == 0 else SIZE
        places.append(places[reads[0]] if is_view else (address, size))
        shows = f" view t{reads[0]} 0" * is_view
        lines.append(f"tensor t{k} {places[k][1]} m {places[k][0]}{' output' * (k == count)}{shows}")
    for k, reads in enumerate(listed, 1):
        after = draw(st.lists(st.integers(1, k - 1), max_size=2, unique=True)) if k > 1 else []
        word = f"on s{draw(st.integers(1, streams))}" + (" after " + " ".join(f"n{a}" for a in after)) * bool(after)
        operands = " ".join(f"t{r}" for r in reads)
        if k == barrier:
            lines += [f"begin n{k} If {operands} -> {word}", f"step inner my::Op t0 -> t{k}", f"end n{k} t{k} ->"]
        else:
            lines.append(f"step n{k} my::Op {operands} -> t{k} {word}")
    found = text.read("\n".join((*lines, "")).encode(), "p")
    assert isinstance(found, Plan)
    return found


def reach(allocation: Allocation) -> dict[tuple[int, int], bool]:
    """Return happens-before of each two steps, from the definition, by closing it until nothing is new."""
    steps, count = allocation.steps, len(allocation.steps)
    waits = [*zip(*(column.tolist() for column in allocation.waits), strict=True)]
    before = {(a, b): steps.stream[a] == steps.stream[b] or (b, a) in waits for b in range(count) for a in range(b)}
    for enter, leave in zip(allocation.bodies.enter[1:].tolist(), allocation.bodies.leave[1:].tolist(), strict=True):
        before |= {(a, enter): True for a in range(enter)} | {(leave, b): True for b in range(leave + 1, count)}
    for middle, a, b in product(range(count), repeat=3):
        before[a, b] = before.get((a, b), False) or (before.get((a, middle), False) and before.get((middle, b), False))
    return before


def order_of(allocation: Allocation) -> StepOrder:
    """Return the planner's order of the steps."""
    found = streams_of_plan(allocation)
    assert found is not None
    return found.order()


@given(plans())
def test_reachability_counts_and_clocks_are_happens_before(plan: Plan) -> None:
    body = plan.allocation
    direct = happens_before.list_direct_predecessors(body)
    closed, clocks = reach(body), compute_clocks(body)
    orders = (
        happens_before.Reachability(direct),
        happens_before.CountedOrder(direct, body.steps.stream.tolist(), len(body.streams)),
        lambda a, b: bool(clocks.position[a] < clocks.shown(np.array([b]), clocks.stream[[a]])[0]),
    )
    for b in range(len(body.steps)):
        for a in range(b):
            assert [order(a, b) for order in orders] == [closed[a, b]] * 3


@given(plans())
def test_pairs_walk_and_rows_find_races_in_the_same_plans(plan: Plan) -> None:
    subject = Subject(StatedPlan(plan, {}))
    accesses, before = races.list_accesses(subject.run), happens_before.find_order(plan.allocation)
    is_racy = any(races._compare_all(accesses, before))
    assert any(races._walk(accesses, before, plan.allocation, subject.run)) == is_racy
    clocks, closed = subject.context.clocks, reach(plan.allocation)
    turns = find_turns(plan.allocation, subject.permissions.views)
    is_wrong = is_racy or any(races.find_early_reads(subject.run, before))
    assert any(races.find_races(plan.allocation, subject.run)) == is_wrong
    assert all(closed[turn.earlier, turn.later] for turn in turns) != is_wrong
    shown = [clocks.shown(np.array([turn.later]), clocks.stream[[turn.earlier]])[0] for turn in turns]
    assert all(clocks.position[turn.earlier] < k for turn, k in zip(turns, shown, strict=True)) != is_wrong
    declared = np.flatnonzero(plan.allocation.tensors.shares == VIEW).tolist()
    if subject.permissions.views.keys() >= set(declared):  # explain takes a view that is stated as one
        assert bool(find_planned_races(plan.allocation, order_of(plan.allocation))) == is_wrong


@given(plans(), st.integers(0, 1 << 30))
def test_a_plan_that_is_safe_in_its_order_and_has_no_race_reads_right_in_each_interleaving(
    plan: Plan, seed: int
) -> None:
    run = Subject(StatedPlan(plan, {})).run
    if not any(execute.violations(run)) and not any(races.find_races(plan.allocation, run)):
        assert [run_interleaving(plan.allocation, run, seed + k) for k in range(3)] == [None] * 3


FOUND = [row for row in streams.RACES if row.places]


@pytest.mark.parametrize("row", streams.RACES, ids=str)
def test_a_race_whose_bytes_are_read_is_read_wrong_in_one_of_20_interleavings(row: Row) -> None:
    """Every wrong plan of the table has one. A right plan has none."""
    subject = Subject(stated(row))  # type: ignore[arg-type]  # all of them have steps
    plan = subject.plan
    misread = [run_interleaving(plan.allocation, subject.run, seed) is not None for seed in range(20)]
    assert any(misread) == bool(row.places)


def test_a_clock_that_shows_too_much_is_no_evidence() -> None:
    """It comes from nobody who is trusted: rows refute each number that is too large."""
    plan = stated(FOUND[0]).plan
    assert isinstance(plan, Plan)
    clocks = compute_clocks(plan.allocation)
    wrong = replace(clocks, clock=clocks.clock + (clocks.clock > 0))
    rows = [row for batch in rows_of_races.clock_rows(wrong) for row in batch.rows]
    right = [row for batch in rows_of_races.clock_rows(clocks) for row in batch.rows]
    assert len(rows) == len(right) > 0
    assert set(rows).isdisjoint(right)


def test_without_streams_nothing_races() -> None:
    found = text.read(b"tmmu-plan-text 1\narena m 8\ntensor x 8 m 0 input\nstep p my::Op x ->\n", "p")
    assert isinstance(found, Plan)
    assert list(races.find_races(found.allocation, Subject(StatedPlan(found, {})).run)) == []
    assert build_column([], np.uint32).tolist() == found.allocation.steps.stream.tolist()
