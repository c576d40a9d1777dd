"""Savings of another order or layout, if they are at least a tenth and quickly computed. spec: C3.3"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tmmu.core.errors import TmmuError
from tmmu.core.output import count_noun, format_size
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans import metrics
from tmmu.plans.sections import Plan
from tmmu.tasks.planning import PlanningTask

MOST_STEPS = 2000
"""The most steps of a graph that is tried: up to this size it takes less time than reading the model."""


def remarks(asked: PlanningTask, plan: Plan) -> Iterator[str]:
    """A line for each order and layout that needs at most nine tenths of the plan's bytes, or was not tried.

    What counts are the arenas that reuse. Each is planned once, without effort, and not with more than `MOST_STEPS`
    steps; where one step alone needs nine tenths, no order can save a tenth, and none is tried.
    """
    if asked.budget is not None:
        return
    needed, others = _bytes(plan), dict(_others(replace(asked.options, effort=None)))
    if not others or needed * 9 <= _widest(plan) * 10:
        return
    if len(asked.graph.nodes) > MOST_STEPS:
        steps = count_noun(len(asked.graph.nodes), "node")
        yield f"  not tried for {steps}: {', '.join(others)}, which may need less"
        return
    for flags, options in others.items():
        try:
            found = _bytes(plan_memory(asked.graph, asked.arenas, options, policy=asked.policy).plan)
        except TmmuError:  # it does not fit the arenas, or the layout does not apply to this graph
            continue
        if found * 10 <= needed * 9:
            saved = (needed - found) * 100 // needed
            yield f"  {flags} would need {found} bytes ({format_size(found)}), {saved}% less"


def _others(options: PlanOptions) -> Iterator[tuple[str, PlanOptions]]:
    """The flags and options that are to be tried: what packed would need in place of slots stands elsewhere."""
    if options.layout != "hashed" and options.order == "given" and not options.listed:
        yield "--order memory", replace(options, order="memory")
    if options.layout == "pools":
        yield "--layout packed", replace(options, layout="packed")


def _bytes(plan: Plan) -> int:
    """The footprints of the arenas that reuse."""
    both = zip(metrics.compute_footprints(plan.allocation), plan.allocation.arenas, strict=True)
    return sum(footprint for footprint, arena in both if arena.reuse)


def _widest(plan: Plan) -> int:
    """The most bytes of storages in arenas that reuse which one step reads: they are live together in every order."""
    tensors, storages = plan.allocation.tensors, plan.allocation.storages
    reused = [arena.reuse for arena in plan.allocation.arenas]
    sizes = [n if reused[a] else 0 for n, a in zip(storages.bytes.tolist(), storages.arena.tolist(), strict=True)]
    home = tensors.storage.tolist()
    return max(
        (sum(sizes[s] for s in {home[t] for t in read}) for read in plan.allocation.steps.listed("reads")), default=0
    )
