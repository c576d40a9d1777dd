"""Orders that finish one operand before they begin the next, as in register allocation for expressions.

Sethi and Ullman ("The generation of optimal code for arithmetic expressions", 1970) evaluate first the operand whose
evaluation needs the most registers. Liu ("On the storage requirement in the out-of-core multifrontal method", 1986)
showed for trees with sized nodes that operands go in falling order of need minus result size. On other graphs it is a
heuristic: a shared operand is charged to each of its readers. spec: O1.4
"""

from __future__ import annotations

from tmmu.planner.orders.graph import OrderGraph


def depth_first(graph: OrderGraph, *, by_need: bool) -> list[int]:
    """Return the units in the order that a depth-first search from the last ones finishes them. O(edges log edges).

    `by_need` visits operands in Liu's order, otherwise in the graph's order.
    """
    made = [sum(graph.bytes[k] for k in touched if not graph.opened[k]) for touched in _first_uses(graph)]
    operands: list[list[int]] = []
    need: list[int] = []
    for n in range(len(graph)):
        inputs = sorted(graph.before[n], key=(lambda m: (made[m] - need[m], m)) if by_need else None)
        operands.append(inputs)
        held = most = 0
        for m in inputs:
            most = max(most, held + need[m])
            held += made[m]
        need.append(max(most, held + made[n] + graph.inner[n]))
    order: list[int] = []
    state = [0] * len(graph)  # how many operands of the unit have been visited
    done = [False] * len(graph)
    for sink in (n for n in range(len(graph)) if not graph.after[n]):
        stack = [sink]
        while stack:
            n = stack[-1]
            if state[n] < len(operands[n]):
                m = operands[n][state[n]]
                state[n] += 1
                if not done[m]:
                    stack.append(m)
                continue
            done[stack.pop()] = True
            order.append(n)
    return order


def _first_uses(graph: OrderGraph) -> list[list[int]]:
    """Return the buffers that each unit is the first to use in the graph's order."""
    begun: list[list[int]] = [[] for _ in range(len(graph))]
    for k, users in enumerate(graph.users):
        begun[min(users)].append(k)
    return begun
