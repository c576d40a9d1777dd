"""Where a graph falls apart: units that every other unit must come before or after.

Such a unit has one place in every order, and the units before it are the same in every order. What is live there is
then fixed, so the stretches between them can be ordered one by one, and the peak of the whole is the highest of
theirs. Residual networks fall apart at every addition. spec: O1.3
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tmmu.planner.orders.graph import OrderGraph


def segments(graph: OrderGraph) -> list[tuple[int, int]]:
    """The stretches (start, end) of units that may change places. O(units + edges).

    None is of one unit: that would come before or after every other.
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
    """Does each unit come after all units in front of it, in every order?

    It does where it depends on each of those on which nothing else in front of it depends.
    """
    result, ends = [], set[int]()
    for n, waits_for in enumerate(before):
        waits = set(waits_for)
        result.append(ends <= waits)
        ends -= waits
        ends.add(n)
    return result
