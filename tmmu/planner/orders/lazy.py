"""Lazy units, which only make a value before it is needed: constants, and values that follow from constants.

A unit that depends on nothing and frees nothing is best run right before the first unit that depends on it. Fewer bytes
are then live in between, and the load of the dependent unit covers both. So it is removed before the search, where it
would separate no units and multiply the sets, and is inserted afterwards. spec: O1.3
"""

from __future__ import annotations

from tmmu.planner.orders.graph import OrderGraph


def remove_lazy(graph: OrderGraph) -> tuple[list[int], OrderGraph]:
    """Return the remaining units, in order, and their graph, in which unit i is the i-th of them.

    O(units + touches).
    """
    lazy = [
        not graph.before[n]
        and bool(graph.after[n])
        and not graph.inner[n]
        and not graph.unread
        and not any(graph.opened[k] for k in graph.touches[n])  # so that it has no operand whose bytes it could take
        # The unit that it is run before holds its buffers, as a user of them would.
        and (len(graph.after[n]) == 1 or all(set(graph.after[n]) <= set(graph.users[k]) for k in graph.touches[n]))
        for n in range(len(graph))
    ]
    left = [n for n in range(len(graph)) if not lazy[n]]
    number = {n: i for i, n in enumerate(left)}
    users: list[list[int]] = []
    for old in graph.users:
        found = dict.fromkeys(m for n in old for m in (graph.after[n] if lazy[n] else (n,)))
        users.append([number[n] for n in found])
    touches: list[list[int]] = [[] for _ in left]
    for k, found_users in enumerate(users):
        for n in found_users:
            touches[n].append(k)
    return left, OrderGraph(
        [[number[m] for m in graph.before[n] if not lazy[m]] for n in left],
        [[number[m] for m in graph.after[n]] for n in left],
        touches,
        [graph.inner[n] for n in left],
        [graph.hints[n] for n in left],
        graph.bytes,
        users,
        graph.opened,
        graph.kept,
        graph.live,
        graph.unread,
    )


def insert_lazy(graph: OrderGraph, left: list[int], order: list[int]) -> list[int]:
    """Return the order of all units: each lazy one right before the first that depends on it, in the model's order."""
    kept, result, done = set(left), list[int](), set[int]()
    for i in order:
        n = left[i]
        waiting = sorted(m for m in graph.before[n] if m not in kept and m not in done)
        done.update(waiting)
        result += [*waiting, n]
    return result
