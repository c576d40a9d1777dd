"""What the strategies of `tmmu.testing` reach, in small samples: a property holds of what its strategy draws.

spec: TP1.1, TP1.2, TP1.3, TP1.4, TP1.5, TP1.7, TP1.8
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import combinations
from typing import Any

import networkx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tmmu import testing
from tmmu.core.vocabulary import Model, Role
from tmmu.ir.graph import Graph
from tmmu.plans import text_writer
from tmmu.plans.sections import BufferPlan, Plan
from tmmu.testing.strategies.buffers import are_live_together, first_fit
from tmmu.testing.strategies.plans import violations_of
from tmmu.testing.strategies.traces import live_ranges

SAMPLE = settings(
    max_examples=80, derandomize=True, database=None, phases=[Phase.generate], deadline=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


def count(strategy: st.SearchStrategy[Any], features: dict[str, Callable[[Any], object]]) -> Counter[str]:
    """How often each feature occurs in the sample."""
    found: Counter[str] = Counter()

    @SAMPLE
    @given(strategy)
    def draw(value: Any) -> None:
        found.update(name for name, has in features.items() if has(value))

    draw()
    return found


def pairs(buffers: list[testing.TimedBuffer]) -> list[tuple[testing.TimedBuffer, testing.TimedBuffer]]:
    return list(combinations(buffers, 2))


BUFFERS: dict[str, Callable[[list[testing.TimedBuffer]], object]] = {
    "none": lambda bs: not bs,
    "ten": lambda bs: len(bs) >= 10,
    "zero bytes": lambda bs: any(b.bytes == 0 for b in bs),
    "ties": lambda bs: any(a.bytes == b.bytes for a, b in pairs(bs)),
    "equal ranges": lambda bs: any((a.first, a.last) == (b.first, b.last) for a, b in pairs(bs)),
    "ranges that touch": lambda bs: any(a.last == b.first or b.last == a.first for a, b in pairs(bs)),
    "ranges one after the other": lambda bs: any(a.last + 1 == b.first or b.last + 1 == a.first for a, b in pairs(bs)),
    "one step": lambda bs: any(b.first == b.last for b in bs),
    "not sorted by step": lambda bs: [b.first for b in bs] != sorted(b.first for b in bs),
    "not sorted by name": lambda bs: [b.name for b in bs] != sorted(b.name for b in bs),
    "beyond 2^32 together": lambda bs: sum(b.bytes for b in bs) > 1 << 32,
}  # fmt: skip


def test_buffers_reach_what_planners_get_wrong() -> None:
    found = count(testing.buffers(), BUFFERS)
    assert {name for name in BUFFERS if found[name] < 3} == set()


def test_alignments_gaps_fixed_offsets_and_large_sizes_are_drawn_on_request() -> None:
    marks: dict[str, Callable[[list[testing.TimedBuffer]], object]] = {
        "alignments": lambda bs: any(b.alignment > 1 for b in bs),
        "gaps": lambda bs: any(b.gaps for b in bs),
        "fixed": lambda bs: any(b.offset is not None for b in bs),
        "63 bits": lambda bs: any(b.bytes >= (1 << 63) - 1 for b in bs),
    }
    assert not count(testing.buffers(), marks)
    options: dict[str, Any] = {"alignments": True, "gaps": True, "fixed": True, "largest": 1 << 63}
    found = count(testing.buffers(**options), marks)
    assert {name for name in marks if found[name] < 3} == set()


def has_diamond(dag: networkx.DiGraph) -> bool:
    return any(
        set(networkx.ancestors(dag, a)) & set(networkx.ancestors(dag, b))
        for node in dag for a, b in combinations(dag.predecessors(node), 2)
    )  # fmt: skip


def has_tie_at_the_peak(dag: networkx.DiGraph) -> bool:
    order = list(dag)
    last = {n: max([order.index(s) for s in dag.successors(n)], default=order.index(n)) for n in order}
    last |= {n: len(order) for n in order if dag.nodes[n]["output"]}
    live = [sum(dag.nodes[n]["bytes"] for n in order[: k + 1] if last[n] >= k) for k in range(len(order))]
    return live.count(max(live)) > 1


DAGS: dict[str, Callable[[networkx.DiGraph], object]] = {
    "a diamond": has_diamond,
    "a chain": lambda g: networkx.dag_longest_path_length(g, weight=None) >= 3,
    "fan-out": lambda g: any(g.out_degree(n) > 2 for n in g),
    "a dead result": lambda g: any(g.out_degree(n) == 0 and not g.nodes[n]["output"] for n in g),
    "an output that is read": lambda g: any(g.out_degree(n) and g.nodes[n]["output"] for n in g),
    "parts": lambda g: networkx.number_weakly_connected_components(g) > 1,
    "zero bytes": lambda g: any(g.nodes[n]["bytes"] == 0 for n in g),
    "a tie at the peak": has_tie_at_the_peak,
}


def test_dags_reach_the_shapes_of_graphs() -> None:
    found = count(testing.dags(), DAGS)
    assert {name for name in DAGS if found[name] < 3} == set()
    assert count(testing.dags(), {"circle": lambda g: not networkx.is_directed_acyclic_graph(g)}) == Counter()


def test_graphs_reach_views_of_views_and_hints() -> None:
    features: dict[str, Callable[[Graph], object]] = {
        "a view of a view": lambda g: any(
            t.view is not None and g.model().tensors[t.view.base].view is not None for t in g.model().tensors
        ),
        "a hint": lambda g: any(node.in_place for node in g.model().nodes),
        "a parameter": lambda g: any(t.role is Role.PARAMETER for t in g.model().tensors),
    }
    found = count(testing.graphs(views=True, in_place=True), features)
    assert {name for name in features if found[name] < 3} == set()
    assert count(testing.graphs(), {name: features[name] for name in ("a view of a view", "a hint")}) == Counter()


def test_models_leave_out_what_is_not_asked_for() -> None:
    features: dict[str, Callable[[Model], object]] = {
        "bodies": lambda m: len(m.bodies) > 1,
        "views": lambda m: any(t.view for t in m.tensors),
        "mutation": lambda m: any(n.mutates for n in m.nodes),
        "scratch": lambda m: any(n.scratch for n in m.nodes),
        "envelopes": lambda m: m.bindings.ranges,
    }
    found = count(testing.models(envelopes=True), features)
    assert {name for name in features if not found[name]} == set()
    none = dict.fromkeys(features, False)
    assert count(testing.models(**none), features) == Counter()  # type: ignore[arg-type]  # each is an option


def test_traces_free_what_was_allocated() -> None:
    features: dict[str, Callable[[list[Any]], object]] = {
        "reuse": lambda t: any(not are_live_together(a, b) for a, b in pairs(live_ranges(t))),
        "never freed": lambda t: any(b.last == len(t) - 1 for b in live_ranges(t)),
        "zero bytes": lambda t: any(b.bytes == 0 for b in live_ranges(t)),
        "wrong": lambda t: any(
            event.name not in {e.name for e in t[:k] if isinstance(e, testing.Allocate)}
            or event in t[:k] for k, event in enumerate(t) if isinstance(event, testing.Free)
        ),
    }  # fmt: skip
    found = count(testing.traces(), features)
    assert min(found[name] for name in ("reuse", "never freed", "zero bytes")) >= 3
    assert found["wrong"] == 0


def test_plans_are_right_and_of_both_kinds() -> None:
    features: dict[str, Callable[[Plan | BufferPlan], object]] = {
        "buffers": lambda p: isinstance(p, BufferPlan),
        "steps": lambda p: isinstance(p, Plan),
        "wrong": lambda p: next(violations_of(p), None),
    }
    found = count(testing.plans(), features)
    assert found["buffers"] > 10
    assert found["steps"] > 10
    assert found["wrong"] == 0


def test_faults_are_refuted_under_their_obligation_and_reach_each() -> None:
    reached: Counter[str] = Counter()

    @settings(SAMPLE, max_examples=150)
    @given(testing.plans(), st.data())
    def draw(plan: Plan | BufferPlan, data: st.DataObject) -> None:
        wrong = data.draw(testing.faults(plan))
        assert wrong.obligation in {violation.obligation for violation in violations_of(wrong.plan)}
        assert text_writer.write(wrong.plan) == wrong.text
        reached[wrong.obligation] += 1

    draw()
    assert {"no_live_overlap", "alignment", "capacity", "must_not_alias"} <= set(reached)


def test_a_strategy_with_nothing_to_draw_is_refused() -> None:
    with pytest.raises(ValueError, match="of_buffers or of_models"):
        testing.plans(of_buffers=False, of_models=False)


def test_first_fit_is_right() -> None:
    buffers = [
        testing.TimedBuffer("a", 0, 2, 4, gaps=((1, 1),)),
        testing.TimedBuffer("b", 1, 1, 4),
        testing.TimedBuffer("c", 2, 2, 4),
    ]
    assert first_fit(buffers) == {"a": 0, "b": 0, "c": 4}


def test_every_name_has_a_docstring() -> None:
    assert all(getattr(testing, name).__doc__ for name in testing.__all__ if callable(getattr(testing, name)))
