"""Split a graph at units that every other unit must come before or after.

Such a unit has the same place in every order, and the units before it are the same in every order. So the live bytes
there are fixed. The stretches between such units can be ordered independently, and the peak of the whole is the highest
of theirs. Residual networks split at every addition. spec: O1.3
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tmmu.planner.orders.graph import OrderGraph


def find_segments(graph: OrderGraph) -> list[tuple[int, int]]:
    """Return the stretches (start, end) of units that may change places. O(units + edges).

    No stretch has one unit: that unit would come before or after every other.
    """
    result, start = [], 0
    for cut in (*_separating(graph), len(graph)):
        if cut > start:
            result.append((start, cut))
        start = cut + 1
    return result


def _separating(graph: OrderGraph) -> Iterator[int]:
    last = len(graph) - 1
    above = _comparable(graph.before)
    below = _comparable([[last - m for m in graph.after[n]] for n in reversed(range(len(graph)))])
    for n in range(len(graph)):
        if above[n] and below[last - n]:
            yield n


def _comparable(before: Sequence[Sequence[int]]) -> list[bool]:
    """Return for each unit whether it comes after all earlier units in every order.

    It does if it depends on every earlier unit that has no earlier dependent.
    """
    result, ends = [], set[int]()
    for n, waits_for in enumerate(before):
        waits = set(waits_for)
        result.append(ends <= waits)
        ends -= waits
        ends.add(n)
    return result
