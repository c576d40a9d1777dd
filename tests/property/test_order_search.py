"""The parts of the order `memory` on random graphs, against what they say when every order is looked at.

spec: O1.3, O1.4
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product

from hypothesis import given
from hypothesis import strategies as st

from tmmu.planner.orders.depth_first import depth_first
from tmmu.planner.orders.exact import _bits, _Moves, search
from tmmu.planner.orders.graph import Order, OrderGraph, compute_loads, cut_part, unavoidable_load
from tmmu.planner.orders.greedy import reverse_graph, schedule_from_the_end, schedule_greedily
from tmmu.planner.orders.lazy import insert_lazy, remove_lazy
from tmmu.planner.orders.portfolio import _added_before, _heuristics, _live_before, lower_peak
from tmmu.planner.orders.segments import find_segments

SIZES = (1, 2, 3, 5, 8, 13)


@st.composite
def unit_graphs(draw: st.DrawFn, most: int = 6) -> OrderGraph:
    """Graphs of a few units: buffers that are given, kept or read by several, edges without one, in-place pairs."""
    count = draw(st.integers(1, 2)) if draw(st.integers(0, 9)) == 0 else draw(st.integers(3, most))
    size = st.sampled_from(SIZES)
    sizes = draw(st.lists(size, max_size=3))
    opened, users = len(sizes), [list[int]() for _ in sizes]
    before: list[set[int]] = []
    pairs: list[list[tuple[int, int]]] = []
    for n in range(count):
        read = sorted(draw(st.sets(st.integers(0, len(sizes) - 1), max_size=3))) if sizes else []
        waits = {users[k][0] for k in read if k >= opened}
        before.append(
            waits | (draw(st.sets(st.integers(0, n - 1), max_size=1)) if n and draw(st.booleans()) else set())
        )
        pairs.append([])
        for k in read:
            users[k].append(n)
        for _ in range(draw(st.sampled_from((1, 1, 0, 2)))):
            taken = draw(st.sampled_from((None, *read)))
            if taken is not None:
                pairs[n].append((len(sizes), taken))
            sizes.append(draw(size) if taken is None else sizes[taken])
            users.append([n])
    operands = {o for found in pairs for _, o in found}
    kept = [draw(st.integers(0, 3)) == 0 and k not in operands for k in range(len(sizes))]
    return _graph(draw, before, pairs, sizes, users, [k < opened for k in range(len(sizes))], kept)


def _graph(
    draw: st.DrawFn,
    before: list[set[int]],
    pairs: list[list[tuple[int, int]]],
    sizes: list[int],
    users: list[list[int]],
    opened: list[bool],
    kept: list[bool],
) -> OrderGraph:
    """The graph, its buffers numbered anew: what one unit alone touches is inside that unit."""
    count = len(before)
    inner = [draw(st.sampled_from((0, 0, 4))) for _ in before]
    number: dict[int, int] = {}
    for k, found in enumerate(users):
        if len(found) == 1 and not opened[k] and not kept[k]:
            inner[found[0]] += sizes[k]
        elif found and not (opened[k] and kept[k]):
            number[k] = len(number)
    return OrderGraph(
        [sorted(waits) for waits in before],
        [[m for m in range(count) if n in before[m]] for n in range(count)],
        [[row for k, row in number.items() if n in users[k]] for n in range(count)],
        inner,
        [[(number[r], number[o]) for r, o in found if r in number and o in number] for found in pairs],
        [sizes[k] for k in number],
        [users[k] for k in number],
        [opened[k] for k in number],
        [kept[k] for k in number],
        draw(st.integers(0, 3)) + sum(sizes[k] for k in number if opened[k]),
        draw(st.sampled_from((0, 0, 0, 20))),
    )


def orders(graph: OrderGraph) -> Iterator[list[int]]:
    """Every order of the units in which each comes after what it waits for."""
    for order in permutations(range(len(graph))):
        if all(order.index(m) < place for place, n in enumerate(order) for m in graph.before[n]):
            yield list(order)


def alive(graph: OrderGraph, order: list[int]) -> list[int]:
    """`loads` from its words: each buffer is alive from its first user to its last, or before or after them all."""
    place = {n: p for p, n in enumerate(order)}
    first = [-1 if graph.opened[k] else min(place[n] for n in users) for k, users in enumerate(graph.users)]
    last = [max(place[n] for n in users) for users in graph.users]
    given = graph.live - sum(size for size, opened in zip(graph.bytes, graph.opened, strict=True) if opened)
    result = []
    for p, n in enumerate(order):
        load = given + graph.inner[n] + (graph.unread if p == 0 else 0)
        load += sum(
            size
            for k, size in enumerate(graph.bytes)
            if first[k] <= p and (p <= last[k] or graph.kept[k])
        )  # fmt: skip
        free = {o: r for r, o in reversed(graph.hints[n]) if last[o] <= p}
        result.append(load - sum(graph.bytes[r] for r in free.values()))
    return result


@given(unit_graphs(4))
def test_what_is_alive_follows_from_the_first_and_the_last_user_of_each_buffer(graph: OrderGraph) -> None:
    for order in orders(graph):
        found = compute_loads(graph, order)
        assert found == alive(graph, order)
        assert all(unavoidable_load(graph, n) <= load for n, load in zip(order, found, strict=True))


@given(unit_graphs(6))
def test_what_is_alive_between_two_units_is_what_was_made_and_is_not_gone(graph: OrderGraph) -> None:
    order = list(range(len(graph)))
    places, running = Order.of(graph, order), _live_before(graph)
    for start in range(len(graph) + 1):
        done = set(order[:start])
        made = gone = 0
        for k, users in enumerate(graph.users):
            made += graph.bytes[k] * (not graph.opened[k] and not done.isdisjoint(users))
            gone += graph.bytes[k] * (not graph.kept[k] and done.issuperset(users))
        assert running[start] == graph.live + _added_before(graph, places, start) == graph.live + made - gone


@given(unit_graphs(5), st.data())
def test_a_part_of_an_order_needs_what_the_whole_needs_there(graph: OrderGraph, data: st.DataObject) -> None:
    order = data.draw(st.sampled_from(list(orders(graph))))
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(graph))] * 2)))
    places = Order.of(graph, order)
    window = cut_part(graph, places, start, end)
    window.live = graph.live + _added_before(graph, places, start)
    assert compute_loads(window, range(end - start)) == compute_loads(graph, order)[start:end]
    assert {(start + m, start + n) for n, waits in enumerate(window.before) for m in waits} == {
        (start + n, start + m) for n, follow in enumerate(window.after) for m in follow
    }


@given(unit_graphs(5))
def test_the_search_moves_among_sets_as_an_order_does(graph: OrderGraph) -> None:
    """After each unit of an order the units that may come next are known, and so is what the next one needs."""
    moves = _Moves(graph)
    for order in orders(graph):
        done, live, ready, found = 0, graph.live, moves.first, []
        for n in order:
            waiting = [m for m in range(len(graph)) if not done >> m & 1]
            assert list(_bits(ready)) == [m for m in waiting if all(done >> b & 1 for b in graph.before[m])]
            load, live = moves.run(done, live, n)
            done |= 1 << n
            ready = moves.ready(done, n, ready)
            found.append(load)
        assert found == compute_loads(graph, order)
        assert live == graph.live + sum(
            size * (kept - opened) for size, opened, kept in zip(graph.bytes, graph.opened, graph.kept, strict=True)
        )


@given(unit_graphs(5), st.integers(0, 30), st.integers(1, 40))
def test_the_search_finds_the_least_peak_below_its_bound_or_that_there_is_none(
    graph: OrderGraph, floor: int, above: int
) -> None:
    least = min(max(compute_loads(graph, order)) for order in orders(graph))
    order, complete, _ = search(graph, floor, floor + above, 1 << 20)
    assert complete
    assert (order is None) == (least >= floor + above)
    if order is not None:
        assert order in list(orders(graph))
        assert max(compute_loads(graph, order)) <= max(least, floor)


@given(unit_graphs(5))
def test_no_order_of_a_graph_has_a_lower_peak_than_the_one_that_is_found(graph: OrderGraph) -> None:
    least = min(max(compute_loads(graph, order)) for order in orders(graph))
    assert max(compute_loads(graph, lower_peak(graph))) == least


@given(unit_graphs(5))
def test_units_that_can_wait_cost_nothing_where_they_wait_longest(graph: OrderGraph) -> None:
    """Left out and put back right before whoever needs them, in any order of the others, they lose no byte."""
    left, smaller = remove_lazy(graph)
    every = list(orders(graph))
    reached = []
    for order in orders(smaller):
        whole = insert_lazy(graph, left, order)
        assert whole in every
        reached.append(max(compute_loads(graph, whole)))
        assert max(compute_loads(smaller, order)) == reached[-1]
    assert min(reached) == min(max(compute_loads(graph, order)) for order in every)


@given(unit_graphs(8))
def test_a_stretch_ends_where_a_unit_has_one_place_in_every_order(graph: OrderGraph) -> None:
    reach: list[set[int]] = []
    for waits in graph.before:
        reach.append(set(waits).union(*(reach[m] for m in waits)))
    count = len(graph)
    fixed = [n for n in range(count) if len(reach[n]) == n and all(n in reach[m] for m in range(n + 1, count))]
    found = find_segments(graph)
    inside = [n for start, end in found for n in range(start, end)]
    assert sorted(inside + fixed) == list(range(count))
    assert all(start < end and {start - 1, end} <= {-1, count, *fixed} for start, end in found)


def scheduled(graph: OrderGraph, *, recent: bool, largest: bool, turned: bool) -> list[int]:
    """The rule of list scheduling, worked out for every ready unit anew; `turned` fills the order from its end."""
    count = len(graph)
    waits, opened, kept = graph.before, graph.opened, graph.kept
    if turned:
        waits, opened, kept = graph.after, graph.kept, graph.opened
    done: list[int] = []
    since = {n: 0 for n in range(count) if not waits[n]}

    def change(n: int) -> tuple[int, int, int, int]:
        added = freed = 0
        for k in graph.touches[n]:
            others = set(graph.users[k]) - {n}
            if not opened[k] and others.isdisjoint(done):
                added += graph.bytes[k]
            if not kept[k] and others <= set(done):
                freed += graph.bytes[k]
        tie = -since[n] if recent else 0
        return (-freed if largest else added - freed, added, tie, -n if turned else n)

    while since:
        n = min(since, key=change)
        done.append(n)
        del since[n]
        for m in range(count):
            if m not in since and m not in done and set(waits[m]) <= set(done):
                since[m] = len(done)
    return done[::-1] if turned else done


@given(unit_graphs(7))
def test_list_scheduling_takes_the_unit_that_leaves_the_least_alive(graph: OrderGraph) -> None:
    tried = _heuristics(graph)
    for recent, largest in product((False, True), repeat=2):
        for turned, found in ((False, schedule_greedily), (True, schedule_from_the_end)):
            expected = scheduled(graph, recent=recent, largest=largest, turned=turned)
            assert found(graph, recent=recent, largest=largest) == expected
            assert expected in tried
    assert tried[-2:] == [depth_first(graph, by_need=by_need) for by_need in (True, False)]


@given(unit_graphs(8))
def test_a_graph_run_backwards_has_the_same_units_from_its_end(graph: OrderGraph) -> None:
    turned = reverse_graph(graph)
    last = len(graph) - 1
    for n in range(len(graph)):
        assert {last - m for m in turned.before[last - n]} == set(graph.after[n])
        assert (turned.inner[last - n], turned.hints[last - n]) == (graph.inner[n], graph.hints[n])
    plain, there = (
        OrderGraph(**vars(found) | {"hints": [[] for _ in found.inner], "unread": 0}) for found in (graph, turned)
    )
    forth, back = compute_loads(plain, range(last + 1)), compute_loads(there, range(last + 1))
    assert len({a - b for a, b in zip(forth, back[::-1], strict=True)}) == 1


@st.composite
def trees(draw: st.DrawFn, most: int = 7) -> OrderGraph:
    """Graphs in which each unit but the last makes one buffer, for one unit after it."""
    count = draw(st.integers(2, most))
    reader = [draw(st.integers(n + 1, count - 1)) for n in range(count - 1)]
    sizes = [draw(st.sampled_from(SIZES)) for _ in range(count)]
    inner = [draw(st.sampled_from((0, 0, 4, 9))) for _ in range(count)]
    before = [[m for m in range(n) if reader[m] == n] for n in range(count)]
    return OrderGraph(
        before,
        [[m] for m in reader] + [[]],
        [[n, *before[n]] for n in range(count)],
        inner,
        [[] for _ in range(count)],
        sizes,
        [[n, m] for n, m in enumerate(reader)] + [[count - 1]],
        [False] * count,
        [False] * (count - 1) + [True],
    )


def finishing(graph: OrderGraph, n: int) -> Iterator[list[int]]:
    """Every order of a unit and what it waits for that finishes one operand before it begins the next."""
    for operands in permutations(graph.before[n]):
        found: list[list[int]] = [[]]
        for m in operands:
            found = [[*start, *rest] for start in found for rest in finishing(graph, m)]
        yield from ([*start, n] for start in found)


@given(trees())
def test_of_the_orders_of_a_tree_that_finish_each_operand_none_needs_less(graph: OrderGraph) -> None:
    """Liu's rule."""
    found = depth_first(graph, by_need=True)
    every = list(finishing(graph, len(graph) - 1))
    assert found in every
    assert max(compute_loads(graph, found)) == min(max(compute_loads(graph, order)) for order in every)
    assert depth_first(graph, by_need=False) == every[0]


@given(unit_graphs(6), st.booleans())
def test_depth_first_orders_keep_the_edges_of_any_graph(graph: OrderGraph, by_need: bool) -> None:
    assert depth_first(graph, by_need=by_need) in list(orders(graph))
