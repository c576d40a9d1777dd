"""The cheapest recomputation by searching all schedules, as Checkmate's integer program would choose: for small chains.

Value i is made from value i-1 (value -1 is the chain's input), the last value is the chain's output, and backward step
i makes the gradient of value i-1 from that of value i, value i and value i-1. A state is which values are in memory and
which backward step comes next; a move computes a value, drops one, or runs the next backward step. Dijkstra over the
states finds the fewest operations that keep within a budget. Nothing of the planner is used.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence


def cheapest(sizes: Sequence[int], costs: Sequence[int], budget: int) -> int | None:
    """The fewest operations repeated, or None where the budget cannot be met.

    Parameters
    ----------
    sizes
        Bytes of the input and of each value; a gradient has the bytes of its value.
    costs
        Operations for each value.
    budget
        The most bytes at one step, at which what is read and what is written is there.
    """
    n = len(costs)  # value i is bit i + 1: bit 0 is the input, which the caller gives once
    output = 1 << n

    def load(values: int) -> int:
        return sum(size for bit, size in enumerate(sizes) if values >> bit & 1)

    best = {(1, n): 0}
    queue = [(0, 1, n)]
    while queue:
        cost, values, left = heapq.heappop(queue)
        if best[values, left] < cost:
            continue
        if left == 0:
            return cost - sum(costs)
        waiting = sizes[left]  # the gradient that the next backward step reads
        moves = []
        for bit in range(n + 1):
            if values >> bit & 1:
                if bit < n:
                    moves.append((cost, values & ~(1 << bit), left))
            elif bit and values >> bit - 1 & 1 and load(values | 1 << bit) + waiting <= budget:
                moves.append((cost + costs[bit - 1], values | 1 << bit, left))
        reads = 3 << left - 1
        if values & reads == reads and values & output and load(values) + waiting + sizes[left - 1] <= budget:
            moves.append((cost, values, left - 1))
        for new, kept, rest in moves:
            if new < best.get((kept, rest), new + 1):
                best[kept, rest] = new
                heapq.heappush(queue, (new, kept, rest))
    return None
