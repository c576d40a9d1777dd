"""The order `memory`: the least peak of live bytes that search and heuristics find, never above the given order's.

Only units that determine the peak are moved: the segment of a body with the highest peak is improved, then the next, as
long as one exceeds the peak that cannot be avoided. The search makes assumptions about in-place results and bodies
inside units. So the orders found are measured by the planner's own liveness and storages, and the best is chosen. All
bounds count moves, and no clock is read. spec: O1.1, O1.2, O1.3, O1.4
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from tmmu.core.vocabulary import ANYWHERE, MAIN, ArenaConfiguration, ArenaPolicy, Model, Role
from tmmu.ir.order import arrange_nodes
from tmmu.ir.program import ModelProgram, build_program
from tmmu.planner import aliasing, liveness
from tmmu.planner.orders.depth_first import depth_first
from tmmu.planner.orders.exact import search
from tmmu.planner.orders.graph import Order, OrderGraph, build_graphs, compute_loads, cut_part, unavoidable_load
from tmmu.planner.orders.greedy import schedule_from_the_end, schedule_greedily
from tmmu.planner.orders.lazy import insert_lazy, remove_lazy
from tmmu.planner.orders.segments import find_segments

MOVES = 200_000
"""The most moves that the searches of one body visit together; a move among many units counts as several."""

WINDOW = 16
"""How many units before and after the peak are reordered together, in a segment too large to be searched whole."""

ROUNDS = 24
"""How many times the units around the peak of such a segment are reordered."""


def memory(
    model: Model, arenas: tuple[ArenaConfiguration, ...], mode: str, in_place: bool, policy: ArenaPolicy = ANYWHERE
) -> Model:
    """Return `model` in the order of the lowest peak found; `model` itself if none is lower.

    Parameters
    ----------
    model
        A valid model whose nodes are in a permitted order.
    arenas, mode, policy
        As for the plan to be made: they determine which bytes are live together. Each storage is assumed to be in the
        first arena that it may use.
    in_place
        Whether the layout puts results in place.

    Notes
    -----
    Lowers the sum of the peaks of all arenas that reuse bytes, and never raises that of the activations. O(N log N)
    plus the searches, which visit at most `MOVES` moves a body.
    """
    reused = [a for a, arena in enumerate(arenas) if arena.reuse]
    holds = [a for a in reused if Role.ACTIVATION in arenas[a].roles]
    best, lowest = model, measure_peaks(model, arenas, mode, in_place, policy)
    limit = sum(lowest[a] for a in holds)
    hints = (True, False) if in_place and any(node.in_place for node in model.nodes) else (False,)
    # First the order inside nodes, then the main graph around them.
    parts = (True, False) if len(model.bodies) > 1 else (False,)
    filled = frozenset(a for a in reused if lowest[a])
    for weighed in dict.fromkeys((filled, filled & set(holds))):
        for hinted in hints:
            candidate = model
            for inner in parts:
                before, candidate = candidate, _reorder(candidate, arenas, mode, policy, weighed, hinted, inner)
                if candidate is before:
                    continue
                peaks = measure_peaks(candidate, arenas, mode, in_place, policy)
                fits = sum(peaks[a] for a in holds) <= limit
                if fits and sum(peaks[a] for a in reused) < sum(lowest[a] for a in reused):
                    best, lowest = candidate, peaks
    return best


def measure_peaks(
    model: Model, arenas: tuple[ArenaConfiguration, ...], mode: str, in_place: bool, policy: ArenaPolicy = ANYWHERE
) -> list[int]:
    """Return the peak live bytes of each arena, as a plan in this order states them. O(N log N)."""
    run, rules = build_program(model), aliasing.InPlaceRules(in_place)
    problem = aliasing.form_storages(run, liveness.analyze(run, mode), arenas, mode, rules, policy).storages
    return [max(problem.live_bytes(members)) for members in problem.members(problem.preferred)]


def _reorder(
    model: Model,
    arenas: tuple[ArenaConfiguration, ...],
    mode: str,
    policy: ArenaPolicy,
    weighed: frozenset[int],
    hinted: bool,
    inner: bool,
) -> Model:
    """Reorder the main graph, or all other bodies (`inner`). Returns `model` itself if no order is better."""
    run: ModelProgram = build_program(model)
    live = liveness.analyze(run, mode)
    alias = aliasing.form_storages(run, live, arenas, mode, aliasing.NONE_IN_PLACE, policy)
    made = build_graphs(run, live, alias, weighed, mode, hinted)
    order = [
        [nodes[i] for i in lower_peak(graph)] if nodes and inner == (b != MAIN) else nodes
        for b, (nodes, graph) in enumerate(made)
    ]
    return model if order == [nodes for nodes, _ in made] else arrange_nodes(model, order)


def lower_peak(graph: OrderGraph) -> list[int]:
    """Return the units of a body (at least one) in the order of lowest peak found, or in the given order."""
    left, smaller = remove_lazy(graph)
    order = list(range(len(smaller)))
    places = Order.of(smaller, order)
    running = _live_before(smaller)
    whole = compute_loads(smaller, order)
    cuts = find_segments(smaller)
    within = {n for start, end in cuts for n in range(start, end)}
    # No order of this body stays below the floor, so no segment has to.
    floor = max(unavoidable_load(smaller, n) if n in within else whole[n] for n in order)
    moves = MOVES
    for peak, start, end in sorted(((max(whole[a:b]), a, b) for a, b in cuts), key=lambda cut: -cut[0]):
        if peak <= floor:
            break
        segment = cut_part(smaller, places, start, end)
        segment.live = running[start]
        chosen, reached, used = _order_segment(segment, floor, moves)
        order[start:end] = [start + i for i in chosen]
        floor, moves = max(floor, reached), moves - used
    result, given = insert_lazy(graph, left, order), list(range(len(graph)))
    return result if max(compute_loads(graph, result)) < max(compute_loads(graph, given)) else given


def _live_before(graph: OrderGraph) -> list[int]:
    """Return the bytes live before each unit of the graph's order."""
    changes = [0] * (len(graph) + 1)
    for k, users in enumerate(graph.users):
        if not graph.opened[k]:
            changes[min(users) + 1] += graph.bytes[k]
        if not graph.kept[k]:
            changes[max(users) + 1] -= graph.bytes[k]
    changes[0] = graph.live
    return list(accumulate(changes))


def _order_segment(graph: OrderGraph, floor: int, moves: int) -> tuple[list[int], int, int]:
    """Return the best order found for a segment, its peak, and the number of moves visited."""
    best = list(range(len(graph)))
    peak = max(compute_loads(graph, best))
    for candidate in _heuristics(graph):
        reached = max(compute_loads(graph, candidate))
        if reached < peak:
            best, peak = candidate, reached
    used = 0
    if peak > floor:
        # Half is for the whole segment: if that is not enough, windows may still improve it.
        order, complete, used = search(graph, floor, peak, moves // 2)
        if order is not None:
            best = order
        elif not complete:
            best, more = _improve_windows(graph, best, floor, moves - used)
            used += more
    return best, max(compute_loads(graph, best)), used


def _heuristics(graph: OrderGraph) -> Sequence[list[int]]:
    """Return orders by published rules, the most promising first."""
    return [
        order(graph, recent=recent, largest=largest)
        for largest in (False, True)
        for order in (schedule_greedily, schedule_from_the_end)
        for recent in (True, False)
    ] + [depth_first(graph, by_need=by_need) for by_need in (True, False)]


def _improve_windows(graph: OrderGraph, order: list[int], floor: int, moves: int) -> tuple[list[int], int]:
    """Reorder the units around the peak of `order` repeatedly. Returns the order and the number of moves visited."""
    used = 0
    for _ in range(ROUNDS):
        now = compute_loads(graph, order)
        peak = max(now)
        at = now.index(peak)
        start, end = max(0, at - WINDOW), min(len(order), at + WINDOW + 1)
        if peak <= floor or used >= moves:
            break
        places = Order.of(graph, order)
        window = cut_part(graph, places, start, end)
        window.live = graph.live + _added_before(graph, places, start)
        found = search(window, floor, peak, min(moves - used, moves // 4))
        used += found.moves
        if found.order is None:
            break
        order = [*order[:start], *(order[start + i] for i in found.order), *order[end:]]
    return order, used


def _added_before(graph: OrderGraph, order: Order, start: int) -> int:
    """Return how many more bytes are live before place `start` than before the first."""
    made = 0
    for size, first, last in zip(graph.bytes, order.first, order.last, strict=True):
        made += size * (0 <= first < start <= last) - size * (first < 0 and last < start)
    return made
