"""Slots are as few as can be: the colours that the graph of overlapping lifetimes needs, counted by networkx."""

from __future__ import annotations

from itertools import combinations

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from tmmu.core.vocabulary import ArenaConfiguration, Model, Shares
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans.columns import SHARES
from tmmu.plans.sections import Plan
from tmmu.testing.strategies.models import arenas, models, numbered


def overlapping_lifetimes(plan: Plan, arena: int) -> nx.Graph:
    """A vertex for each storage of an arena, an edge where two are live at one step."""
    s = plan.allocation.storages
    members = [k for k, a in enumerate(s.arena.tolist()) if a == arena]
    graph = nx.Graph()
    graph.add_nodes_from(members)
    graph.add_edges_from(
        (i, j) for i, j in combinations(members, 2) if s.birth[i] <= s.death[j] and s.birth[j] <= s.death[i]
    )
    return graph


def largest_clique(graph: nx.Graph) -> int:
    """Of a chordal graph also the number of colours that it needs."""
    return max(map(len, nx.chordal_graph_cliques(graph)), default=0)


@given(models(), arenas(), st.sampled_from(("inference", "forward")))
def test_slots_are_as_many_as_the_lifetimes_need_colours(
    model: Model, where: tuple[ArenaConfiguration, ...], mode: str
) -> None:
    """spec: T6.4, T5.2, M3.1"""
    plan = plan_memory(model, where, PlanOptions(mode=mode)).plan
    for a, (arena, usage) in enumerate(zip(plan.allocation.arenas, plan.usage, strict=True)):
        graph = overlapping_lifetimes(plan, a)
        assert nx.is_chordal(graph)
        assert usage.max_live == largest_clique(graph)
        assert usage.slots == plan.slots.arena.tolist().count(a)
        if not arena.reuse:
            assert usage.slots == len(graph)
        elif not model.must_not_alias:
            assert usage.slots == usage.max_live
            assert usage.minimal
        assert not usage.minimal or usage.slots == usage.max_live


@given(models(), arenas())
def test_slots_are_a_colouring_of_lifetimes_and_conflicts(model: Model, where: tuple[ArenaConfiguration, ...]) -> None:
    """spec: T5.1, T6.2"""
    plan = plan_memory(model, where).plan
    slot = plan.slots.of.tolist()
    for a in range(len(plan.allocation.arenas)):
        assert all(slot[i] != slot[j] for i, j in overlapping_lifetimes(plan, a).edges)
    for x, y in model.must_not_alias:
        assert slot[plan.allocation.tensors.storage[x]] != slot[plan.allocation.tensors.storage[y]]


@given(models(), arenas())
def test_each_storage_takes_the_lowest_slot_that_is_free(model: Model, where: tuple[ArenaConfiguration, ...]) -> None:
    """By birth, then size descending, then the root's name by its UTF-8 bytes. spec: T6.1, T6.2, T5.1, M3.1"""
    plan = plan_memory(model, where).plan
    s, t = plan.allocation.storages, plan.allocation.tensors
    shares, home = t.shares.tolist(), t.storage.tolist()
    root = {k: name.encode() for name, k, word in zip(t.name, home, shares, strict=True) if SHARES[word] is Shares.NONE}
    apart = {frozenset((home[x], home[y])) for x, y in model.must_not_alias}
    for a, arena in enumerate(plan.allocation.arenas):
        graph = overlapping_lifetimes(plan, a)
        slots: list[list[int]] = []
        for k in sorted(graph, key=lambda k: (s.birth[k], -int(s.bytes[k]), root[k])):
            free = [
                slot
                for slot in (slots if arena.reuse else ())
                if not any(graph.has_edge(k, other) or frozenset((k, other)) in apart for other in slot)
            ]
            if not free:
                slots.append([])
                free = slots[-1:]
            free[0].append(k)
        first = plan.slots.arena.tolist().index(a) if slots else 0
        assert {k: first + n for n, slot in enumerate(slots) for k in slot} == {k: int(plan.slots.of[k]) for k in graph}


def test_networkx_would_notice_a_slot_too_many() -> None:
    """Some of the fixed models need fewer slots than they have storages, so that the two counts can differ."""
    plans = [plan_memory(numbered(number)).plan for number in range(20)]
    needed = [sum(largest_clique(overlapping_lifetimes(plan, a)) for a in range(4)) for plan in plans]
    assert sum(needed) < sum(len(plan.allocation.storages) for plan in plans)
