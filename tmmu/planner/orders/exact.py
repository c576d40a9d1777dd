"""Find the least peak over all orders, by dynamic programming over sets of units closed under predecessors.

The live bytes after a set of units has run do not depend on their order. So among all ways to reach a set, only the one
with the least peak matters (Ahn and others, "Ordering chaos: memory-aware scheduling of irregularly wired neural
networks for edge devices", 2020). Sets are visited by rising peak, larger sets first, until all units have run. A unit
that frees at least what it adds, and fits under the peak so far, can run next without loss: whatever an order does
before it, it can do after it. So chains cost one set a unit. spec: O1.3
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import NamedTuple

from tmmu.planner.orders.graph import OrderGraph

BITS = 512
"""The number of bits of a set that can be processed in the time of the rest of a move."""


class FoundOrder(NamedTuple):
    """An order below the bound, or None; whether the search was `complete`; how many moves it visited."""

    order: list[int] | None
    complete: bool
    moves: int


def search(graph: OrderGraph, floor: int, bound: int, limit: int) -> FoundOrder:
    """Find an order of least peak, if that is below `bound`; peaks up to `floor` count as equal.

    Parameters
    ----------
    graph
        A body or a part of one; sets are integers with a bit for each unit.
    floor
        A peak that cannot be avoided, here or elsewhere.
    bound
        Orders that reach it are ignored.
    limit
        How many moves (a set and the unit that comes next) may be visited; time is proportional to it. If sets are long
        numbers, a move counts as several.

    Notes
    -----
    A complete search without an order means that none stays below the bound.
    """
    moves = _Moves(graph)
    everything = (1 << len(graph)) - 1
    best = {0: floor}
    came: dict[int, tuple[int, int]] = {}
    state = {0: (graph.live, moves.first)}
    heap = [(floor, len(graph), 0)]
    looked, price = 0, 1 + len(graph) // BITS
    while heap:
        peak, missing, done = heapq.heappop(heap)
        if done == everything:
            return FoundOrder(_path(came, done), True, looked)
        if done not in state:  # it was reached with a lower peak
            continue
        live, ready = state.pop(done)
        following: list[tuple[int, int, int]] = []
        for n in _bits(ready):
            looked += price
            load, after = moves.run(done, live, n)
            if load <= peak and after <= live:
                following = [(peak, after, n)]
                break
            if load < bound:
                following.append((max(peak, load), after, n))
        if looked > limit:
            return FoundOrder(None, False, looked)
        for reached, after, n in following:
            then = done | 1 << n
            if then not in best or reached < best[then]:
                best[then] = reached
                came[then] = (done, n)
                state[then] = (after, moves.ready(then, n, ready))
                heapq.heappush(heap, (reached, missing - 1, then))
    return FoundOrder(None, True, looked)


class _Moves:
    """The effect of running a unit, as masks over the units."""

    def __init__(self, graph: OrderGraph) -> None:
        self.graph = graph
        self.before = [sum(1 << m for m in set(before)) for before in graph.before]
        self.first = sum(1 << n for n, before in enumerate(self.before) if not before)
        users = [sum(1 << n for n in found) for found in graph.users]
        self.touches = [
            [(graph.bytes[k], users[k] & ~(1 << n), graph.opened[k], graph.kept[k]) for k in graph.touches[n]]
            for n in range(len(graph))
        ]
        self.hints = [[(graph.bytes[r], o, users[o] & ~(1 << n)) for r, o in graph.hints[n]] for n in range(len(graph))]

    def ready(self, done: int, n: int, ready: int) -> int:
        """Return the units that may come next after `done`.

        `n` is the last of it, `ready` those that were ready before `n`.
        """
        ready &= ~(1 << n)
        for m in self.graph.after[n]:
            if not self.before[m] & ~done:
                ready |= 1 << m
        return ready

    def run(self, done: int, live: int, n: int) -> tuple[int, int]:
        """Return the bytes live while `n` runs after `done`, and those live afterwards."""
        load = live + self.graph.inner[n] + (0 if done else self.graph.unread)
        after = live
        for size, others, opened, kept in self.touches[n]:
            if not opened and not others & done:
                load += size
                after += size
            if not kept and not others & ~done:
                after -= size
        taken = []
        for size, operand, others in self.hints[n]:
            if not others & ~done and operand not in taken:
                taken.append(operand)
                load -= size
        return load, after


def _bits(mask: int) -> Iterator[int]:
    """Yield the units of a set, in order."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def _path(came: dict[int, tuple[int, int]], done: int) -> list[int]:
    """Return the units in the order of the sets that were reached."""
    order = []
    while done:
        done, n = came[done]
        order.append(n)
    return order[::-1]
