"""Models with random streams: each plan is proved by the verifier's function, and right in drawn interleavings."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import MAIN, ORDERS, Model
from tmmu.ir.columns import streams_object
from tmmu.ir.program import build_program, view_root
from tmmu.planner import PlanOptions, plan_memory
from tmmu.planner.layouts import IN_PLACE
from tmmu.planner.streams.assignment import StreamAssignment, assign_streams
from tmmu.planner.streams.program import find_model_races, state_streams
from tmmu.plans.sections import Plan
from tmmu.simulator import HashKernels, PlanProgram
from tmmu.simulator.schedules import Schedules
from tmmu.tasks.checking import check
from tmmu.testing.strategies.models import models

LAYOUTS = st.sampled_from([layout for layout in IN_PLACE if layout != "hashed"])


@st.composite
def assignments(draw: st.DrawFn, model: Model) -> StreamAssignment:
    """A stream for each node of the main graph, and some waits that no operand needs."""
    main = [node.name for node in model.nodes if node.body == MAIN]
    streams = draw(st.lists(st.sampled_from("abc"), min_size=len(main), max_size=len(main)))
    further = draw(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=3))
    after = {main[s % len(main)]: (main[e % (s % len(main))],) for s, e in further if main and s % len(main)}
    return StreamAssignment(tuple(zip(main, streams, strict=True)), "a", after)


@given(models(), LAYOUTS, st.data())
def test_a_plan_with_streams_is_proved(model: Model, layout: str, data: st.DataObject) -> None:
    """spec: X6.1, X6.2, X6.4, X6.6, X6.10, X6.11, X5.3"""
    given_streams = data.draw(assignments(model))
    plan = plan_memory(model, options=PlanOptions(layout=layout, streams=given_streams)).plan
    check(plan, model, is_ir=True)
    effort, order = data.draw(st.sampled_from([None, 2000])), data.draw(st.sampled_from(ORDERS))
    if not given_streams.after:  # those waits may be for nodes that another order has later
        more = PlanOptions(layout="packed", streams=given_streams, effort=effort, order=order)
        check(plan_memory(model, options=more).plan, model, is_ir=True)
    stated = assign_streams(model, given_streams)
    if stated.has_streams:
        own = plan_memory(stated, options=PlanOptions(layout=layout)).plan
        check(own, stated, is_ir=True)
        assert own.allocation.storages == plan.allocation.storages
    # With every node on one stream, storages are those of a model without streams, and share as many slots.
    alone = plan_memory(model, options=PlanOptions(layout=layout)).plan
    on_one = replace(given_streams, patterns=(), default="a", after={})
    same = plan_memory(model, options=PlanOptions(layout=layout, streams=on_one)).plan
    assert same.allocation.storages.birth.tolist() == alone.allocation.storages.birth.tolist()
    reused = [a for a, arena in enumerate(alone.allocation.arenas) if arena.reuse]
    if not model.must_not_alias and all(alone.allocation.storages.bytes):
        assert [same.usage[a].slots for a in reused] == [alone.usage[a].slots for a in reused]


@given(models(), st.data())
def test_a_race_of_a_model_is_two_accesses_that_nothing_orders(model: Model, data: st.DataObject) -> None:
    """Where waits are missing, one is found if and only if there is one; or a view is read too early. spec: X5.13"""
    stated = assign_streams(model, data.draw(assignments(model)))
    kept = data.draw(st.lists(st.booleans(), min_size=len(stated.nodes), max_size=len(stated.nodes)))
    waits = (node if is_kept else replace(node, after=()) for node, is_kept in zip(stated.nodes, kept, strict=True))
    stated = replace(stated, nodes=tuple(waits))
    if not stated.has_streams:
        return
    program = build_program(stated)
    streams = state_streams(program, streams_object(stated))
    assert streams is not None
    order, tensors = streams.order(), program.tensors
    listed = [
        (t, s, is_listed)
        for s, rows in enumerate(zip(program.steps.reads, program.steps.writes, strict=True))
        for is_listed, row in enumerate(rows) for t in row
    ]  # fmt: skip
    accesses = [(view_root(tensors, t), s, is_listed and tensors[t].view is None) for t, s, is_listed in listed]
    races = {
        (a[1], b[1]) for a, b in permutations(accesses, 2)
        if a[0] == b[0] and (a[2] or b[2]) and a[1] < b[1] and not order.is_before(a[1], b[1])
    }  # fmt: skip
    made = {t: s for t, s, is_listed in listed if is_listed and tensors[t].view is not None}
    races |= {(made[t], s) for t, s, _ in listed if t in made and made[t] < s and not order.is_before(made[t], s)}
    found = find_model_races(program, order)
    assert bool(found) == bool(races)
    assert all((race.earlier, race.later) in races for race in found)


def runnable(model: Model, layout: str, streams: StreamAssignment) -> Plan | None:
    """A plan that has schedules, or None."""
    plan = plan_memory(model, options=PlanOptions(layout=layout, streams=streams)).plan
    return plan if plan.allocation.streams and len(plan.allocation.bodies) == 1 else None


@given(models(), LAYOUTS, st.data(), st.integers(0, 99), st.booleans())
def test_a_plan_with_streams_is_right_in_every_interleaving(
    model: Model, layout: str, data: st.DataObject, seed: int, threads: bool
) -> None:
    """spec: SIM10.1, SIM10.2, SIM10.3"""
    plan = runnable(model, layout, data.draw(assignments(model)))
    if plan is None:
        return
    program = PlanProgram(plan, frozenset(model.bindings.donated))
    schedules = Schedules(program, sanitize=True)
    run = schedules.run_threads if threads else schedules.run
    found = run(HashKernels(program), seed)
    assert found.report.corruption is None
    begun, ended = ([n for word, n in found.log if word == kind] for kind in ("begin", "end"))
    assert sorted(begun) == sorted(ended) == list(range(len(program.steps)))
    for n, waits in enumerate(schedules.after):
        assert all(found.log.index(("end", other)) < found.log.index(("begin", n)) for other in waits)


@given(models(), st.data())
def test_a_wait_for_a_later_node_is_refused(model: Model, data: st.DataObject) -> None:
    """spec: X6.6"""
    main = [node.name for node in model.nodes if node.body == MAIN]
    if main:
        node = data.draw(st.sampled_from(main))
        with pytest.raises(TmmuError, match="events must not form a cycle"):
            assign_streams(model, StreamAssignment((), "a", {node: (main[-1],)}))
