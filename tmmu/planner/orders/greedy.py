"""List scheduling by memory: of the ready units, choose the one that leaves the fewest bytes live.

The rule is that of instruction scheduling for few registers (Goodman and Hsu, "Code scheduling and register allocation
in large basic blocks", 1988): the bytes that a unit adds minus those that it frees. Ties go to the unit that became
ready last, which follows a chain to its end, or to the first unit. Run backwards, the same rule fills the order from
its end: a buffer is then opened by its last user and freed by its first. spec: O1.4
"""

from __future__ import annotations

import heapq
from dataclasses import replace

from tmmu.planner.orders.graph import OrderGraph


def schedule_greedily(graph: OrderGraph, *, recent: bool, largest: bool) -> list[int]:
    """Return an order of all units. O((units + touches + edges) log units).

    Parameters
    ----------
    graph
        A body or a part of one.
    recent
        Ties go to the unit that became ready last; otherwise to the first in the graph's order.
    largest
        Compare first the bytes that a unit frees, and then those that it adds.
    """
    left = [len(users) for users in graph.users]
    seen = list(graph.opened)
    waits = [len(before) for before in graph.before]
    since = [0] * len(graph)
    heap: list[tuple[int, int, int, int]] = []

    def put(n: int) -> None:
        """Push a ready unit with its current cost. Costs only improve, so the newest entry is popped first."""
        added = sum(graph.bytes[k] for k in graph.touches[n] if not seen[k])
        freed = sum(graph.bytes[k] for k in graph.touches[n] if left[k] == 1 and not graph.kept[k])
        tie = -since[n] if recent else 0
        heapq.heappush(heap, (-freed if largest else added - freed, added, tie, n))

    for n, count in enumerate(waits):
        if not count:
            put(n)
    order: list[int] = []
    done = [False] * len(graph)
    while heap:
        n = heapq.heappop(heap)[-1]
        if done[n]:
            continue
        done[n] = True
        order.append(n)
        changed: dict[int, None] = {}
        for k in graph.touches[n]:
            left[k] -= 1
            if not seen[k] or left[k] == 1:
                changed.update((m, None) for m in graph.users[k] if not waits[m] and not done[m])
            seen[k] = True
        for m in graph.after[n]:
            waits[m] -= 1
            if not waits[m]:
                since[m] = len(order)
                changed[m] = None
        for m in changed:
            put(m)
    return order


def reverse_graph(graph: OrderGraph) -> OrderGraph:
    """Return the same graph run from its end. Unit i is the i-th from the end, so that ties are reversed too."""
    last = len(graph) - 1

    def reverse(rows: list[list[int]]) -> list[list[int]]:
        return [[last - m for m in rows[n]] for n in range(last, -1, -1)]

    return replace(
        graph,
        before=reverse(graph.after),
        after=reverse(graph.before),
        touches=graph.touches[::-1],
        inner=graph.inner[::-1],
        hints=graph.hints[::-1],
        users=[[last - n for n in users] for users in graph.users],
        opened=graph.kept,
        kept=graph.opened,
    )


def schedule_from_the_end(graph: OrderGraph, *, recent: bool, largest: bool) -> list[int]:
    """Apply `schedule_greedily` to the graph run backwards, and return the order of the graph itself."""
    last = len(graph) - 1
    return [last - n for n in reversed(schedule_greedily(reverse_graph(graph), recent=recent, largest=largest))]
