"""The order `memory` on random models: the least peak on small graphs, never a worse one, and the same computation.

spec: O1.2, O1.3, O1.4, O1.5, O1.6
"""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given, reject, settings
from hypothesis import strategies as st

from proofs.definition.model.compare import differences
from proofs.readers.models.ir import read_ir
from tests.support.effort import share
from tests.support.execution import Meaning, Seen, mean, observe
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import ArenaConfiguration, Body, Model, Node, Role, Scratch, Tensor, View
from tmmu.ir.columns import model_digest
from tmmu.ir.order import arrange_nodes, find_dependencies
from tmmu.ir.program import build_program
from tmmu.planner import DEFAULT, PlanOptions, aliasing, liveness, plan_memory
from tmmu.planner.orders import REORDER
from tmmu.planner.orders.graph import Order, build_graphs, compute_loads, cut_part
from tmmu.planner.orders.portfolio import measure_peaks
from tmmu.planner.orders.segments import find_segments
from tmmu.plans import file
from tmmu.plans.sections import Plan
from tmmu.tasks.checking import check
from tmmu.testing.strategies.models import models

ONE = (ArenaConfiguration("all", tuple(Role)),)
SIZES = (1, 2, 3, 5, 8, 13, 0)
MODES = st.sampled_from(("inference", "forward"))


@st.composite
def graphs(draw: st.DrawFn, most: int = 7) -> Model:
    """Flat models of a few nodes with views, scratch, several results, hints, unread inputs and unread results."""
    inputs = draw(st.integers(0, 2))
    tensors = [Tensor(f"x{i}", (i + 1,), "uint8", Role.INPUT, i + 1) for i in range(inputs)]
    nodes = []
    for n in range(draw(st.integers(1, most))):
        reads = tuple(draw(st.lists(st.integers(0, len(tensors) - 1), max_size=3)) if tensors else ())
        first, hints = len(tensors), []
        for _ in range(draw(st.sampled_from((1, 1, 1, 2)))):
            t, size, view = len(tensors), draw(st.sampled_from(SIZES)), None
            kind = draw(st.sampled_from(("value", "value", "view", "hint"))) if reads else "value"
            if kind != "value":
                size = tensors[reads[0]].bytes
            if kind == "view":
                view = View(reads[0], 0, size)
            if kind == "hint":
                hints.append((t, reads[0]))
            tensors.append(Tensor(f"t{t}", (size,), "uint8", Role.ACTIVATION, size, 1, view))
        scratch = (Scratch(draw(st.integers(1, 4)), 1),) if draw(st.integers(0, 4)) == 0 else ()
        writes = tuple(range(first, len(tensors)))
        nodes.append(Node(f"n{n}", "Op", reads, writes, "test", in_place=tuple(hints), scratch=scratch))
    outputs = tuple(draw(st.sets(st.integers(0, len(tensors) - 1), max_size=2)))
    return Model("random", tuple(tensors), tuple(nodes), (Body(-1, "", tuple(range(inputs)), outputs),))


def orders(model: Model) -> Iterator[list[int]]:
    """Every order of a flat model's nodes that keeps its edges, one after the other."""
    edges, count = set(find_dependencies(model)), len(model.nodes)

    def further(done: list[int]) -> Iterator[list[int]]:
        if len(done) == count:
            yield list(done)
        for n in range(count):
            if n not in done and all(earlier in done for earlier, later in edges if later == n):
                yield from further([*done, n])

    return further([])


def lowest(model: Model) -> int:
    """The least peak over all orders, straight from the words: a base with its views lives from first to last touch."""
    root = list(range(len(model.tensors)))
    for t, tensor in enumerate(model.tensors):
        root[t] = root[tensor.view.base] if tensor.view else t
    touched = [sorted({root[t] for t in (*node.reads, *node.writes)}) for node in model.nodes]
    size = {t: model.tensors[t].bytes for t in root}
    given_first, given_last = {root[t] for t in model.inputs}, {root[t] for t in model.outputs}
    best = 1 << 64
    for order in orders(model):
        first, last = dict.fromkeys(given_first, 0), dict.fromkeys(given_first, 0)
        for place, n in enumerate(order):
            for t in touched[n]:
                first.setdefault(t, place)
                last[t] = place
        last |= dict.fromkeys(given_last, len(order) - 1)
        live = [0] * len(order)
        for t, begin in first.items():
            for place in range(begin, last[t] + 1):
                live[place] += size[t]
        extra = [sum(request.bytes for request in model.nodes[n].scratch) for n in order]
        best = min(best, max(map(sum, zip(live, extra, strict=True))))
    return best


@settings(max_examples=share(200), deadline=None)
@given(graphs())
def test_on_small_graphs_no_order_has_a_lower_peak(model: Model) -> None:
    found = REORDER["memory"](model, ONE, "inference", False)
    assert measure_peaks(found, ONE, "inference", False) == [lowest(model)]


@settings(max_examples=share(150), deadline=None)
@given(graphs(), st.booleans())
def test_a_graph_loads_what_its_plan_says_in_every_order(model: Model, split: bool) -> None:
    """The search's idea of what is alive is that of the planner, but for what is always alive; also part by part."""
    run = build_program(model)
    live = liveness.analyze(run, "inference")
    alias = aliasing.form_storages(run, live, ONE, "inference", aliasing.NONE_IN_PLACE)
    ((_, graph),) = build_graphs(run, live, alias, frozenset((0,)), "inference", False)
    given_order = list(range(len(model.nodes)))
    constants = {
        measure_peaks(arrange_nodes(model, [order]), ONE, "inference", False)[0] - max(compute_loads(graph, order))
        for _, order in zip(range(20), orders(model), strict=False)
    }
    assert len(constants) == 1
    assert min(constants) >= 0
    whole = compute_loads(graph, given_order)
    for start, end in find_segments(graph) if split else ((0, len(graph)),):
        piece = cut_part(graph, Order.of(graph, given_order), start, end)
        inside = compute_loads(piece, range(len(piece)))
        assert {a - b for a, b in zip(whole[start:end], inside, strict=True)} == {whole[start] - inside[0]}


@settings(max_examples=share(150), deadline=None)
@given(graphs(), models(), st.booleans(), MODES)
def test_no_peak_is_above_that_of_the_given_order(flat: Model, other: Model, in_place: bool, mode: str) -> None:
    for model in (flat, other):
        before = measure_peaks(model, DEFAULT, mode, in_place)
        after = measure_peaks(REORDER["memory"](model, DEFAULT, mode, in_place), DEFAULT, mode, in_place)
        assert after[2] <= before[2]
        assert after[2] + after[3] <= before[2] + before[3]


def heard(plan: Plan, meaning: Meaning) -> dict[str, list[bytes]]:
    """What each step and the caller read in a run with private memory, step by step."""
    seen: Seen = observe(plan, meaning, 7, private=True)
    by_reader: dict[str, list[bytes]] = {}
    for reader, found in seen.reads:
        by_reader.setdefault(reader, []).append(found)
    return by_reader


@settings(max_examples=share(200), deadline=None)
@given(models(), MODES)
def test_every_step_reads_in_the_order_memory_what_it_reads_in_the_given_one(model: Model, mode: str) -> None:
    ordered = plan_memory(model, options=PlanOptions(mode=mode, order="memory")).plan
    as_given = plan_memory(model, options=PlanOptions(mode=mode)).plan
    meaning = mean(as_given, model.bindings.donated)
    assert heard(ordered, meaning) == heard(as_given, meaning)
    assert ordered.origin.ir_hash == model_digest(model)


@settings(max_examples=share(150), deadline=None)
@given(models(), MODES)
def test_the_checker_accepts_plans_in_the_order_memory_against_their_model(model: Model, mode: str) -> None:
    try:
        check(plan_memory(model, options=PlanOptions(mode=mode)).plan, model, is_ir=True)
    except TmmuError:
        reject()  # an alias group that does not hold in the given order either
    plan = plan_memory(model, options=PlanOptions(mode=mode, order="memory")).plan
    check(plan, model, is_ir=True)
    assert not list(differences(plan, read_ir(model), frozenset(model.bindings.donated), mode))


@settings(max_examples=share(60), deadline=None)
@given(models(), MODES)
def test_the_order_memory_is_the_same_when_it_is_asked_for_again(model: Model, mode: str) -> None:
    once, again = (plan_memory(model, options=PlanOptions(mode=mode, order="memory")).plan for _ in range(2))
    assert file.encode(once) == file.encode(again)
