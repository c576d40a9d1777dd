"""What `tmmu plan` and `tmmu explain` print of streams: what overlap costs in bytes, and what single events do.

spec: X6.7, RP3.7
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from tmmu.core.output import count_noun, format_size, list_names
from tmmu.plans import metrics
from tmmu.plans.sections import Plan

if TYPE_CHECKING:
    from tmmu.core.vocabulary import Model
    from tmmu.tasks.planning import PlanningTask

MOST_STORAGES = 4096
"""Of a larger arena the heaviest antichain is not computed for display, nor what events save."""
MOST_EVENTS = 40
"""As many events are measured."""
MOST_NODES = 20_000
"""A larger model is not planned again without its streams."""
SHOWN = 5
"""As many races are named."""


def describe_streams(plan: Plan) -> Iterator[str]:
    """Yield the streams with their steps, and for each arena what the order of storages proves."""
    allocation = plan.allocation
    if not allocation.streams:
        return
    counts = [0] * len(allocation.streams)
    for t in allocation.steps.stream.tolist():
        counts[t] += 1
    named = [f"{name} ({count_noun(steps, 'step')})" for name, steps in zip(allocation.streams, counts, strict=True)]
    waits = count_noun(len(allocation.steps.after), "wait")
    yield f"  streams: {list_names(named)}; {waits} between steps"
    if plan.claims is None:
        return
    for arena, used in zip(allocation.arenas, plan.claims.usage, strict=True):
        if used.antichain:
            yield f"  {arena.name}: no plan has fewer slots: {len(used.antichain)} storages form an antichain"
        elif used.slots and arena.reuse:
            yield f"  {arena.name}: whether fewer slots suffice is not known"


def compare_sequential(task: PlanningTask, graph: Model, plan: Plan) -> Iterator[str]:
    """Yield the bytes that the model would need if its steps ran one after another. Plans it again."""
    if not plan.allocation.streams:
        return
    if len(graph.nodes) > MOST_NODES:
        yield f"  one after another: not tried, as the model has more than {MOST_NODES} nodes"
        return
    nodes = tuple(replace(node, stream="", after=()) for node in graph.nodes)
    own = replace(task, options=replace(task.options, streams=None))
    alone = own.planned(replace(graph, nodes=nodes)).plan
    now, then = (sum(metrics.compute_footprints(each.allocation)) for each in (plan, alone))
    over = f"{metrics.ratio(now - then, then):+.1%}" if then else "+0.0%"
    yield f"  one after another the steps would need {then} ({format_size(then)}); overlap costs {over}"


def explain_streams(plan: Plan) -> Iterator[str]:
    """Yield the races of a plan with the event that would repair them, and what each event saves."""
    from tmmu.planner.streams.events import find_races, find_repair, measure_arenas, measure_events
    from tmmu.planner.streams.program import order_of_plan, streams_of_plan

    allocation = plan.allocation
    streams, order = streams_of_plan(allocation), order_of_plan(allocation)
    if streams is None or order is None:
        return
    nodes, names = allocation.steps.node, allocation.tensors.name
    yield from describe_streams(plan)
    steps = streams.order()
    races = find_races(allocation, steps)
    for race in races[:SHOWN]:
        a, b = (names[t] for t in race.tensors)
        first, second = nodes[race.earlier], nodes[race.later]
        if a == b:
            yield f"  race: {first} and {second} access {a} at the same time"
        else:
            yield f"  race: {first} accesses {a} while {second} accesses {b} in the same bytes"
    if len(races) > SHOWN:
        yield f"  and {len(races) - SHOWN} more"
    if races:
        event = find_repair(steps, races)
        if event is None:
            yield "  no single event repairs this"
        else:
            yield f"  one event repairs this: {nodes[event.step]} after {nodes[event.after]}"
        return
    waits = len(allocation.steps.after)
    if len(allocation.storages) > MOST_STORAGES:
        yield f"  what events save: not computed, as there are more than {MOST_STORAGES} storages"
        return
    slots, weights = measure_arenas(allocation, order)
    for arena, weight in zip(allocation.arenas, weights, strict=True):
        if weight and arena.reuse:
            yield f"  {arena.name}: no placement is below {weight} (the heaviest antichain)"
    for value in measure_events(allocation, MOST_EVENTS):
        stated = f"{nodes[value.event.step]} after {nodes[value.event.after]}"
        more = [(a.name, k - s, n - w) for a, s, k, w, n in zip(
            allocation.arenas, slots, value.slots, weights, value.bytes, strict=True)]  # fmt: skip
        saved = [f"{count_noun(k, 'slot')} and {format_size(n)} of {name}" for name, k, n in more if k or n]
        if value.races:
            yield f"  {stated}: needed, without it two steps race whatever the placement"
        else:
            yield f"  {stated}: saves {', '.join(saved) if saved else 'nothing'}"
    if waits > MOST_EVENTS:
        yield f"  and {waits - MOST_EVENTS} events more, which were not measured"
