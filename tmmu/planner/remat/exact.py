"""The cheapest recomputation of a small graph, by searching all schedules: what Checkmate's integer program finds.

A state is the node that comes next and which values are in memory; a move drops a value, computes one again, or runs
the next node, where all that it reads must be there and all that is live must fit. Dijkstra over the states finds the
fewest operations (Jain and others, "Checkmate", 2020, state the same optimum as a program). Bytes are counted without
in-place results, so what is found fits; the plan may need less. spec: M1.10
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from tmmu.ir.program import program
from tmmu.planner import liveness, storages
from tmmu.planner.remat.rewrite import Joint, Script
from tmmu.vocabulary import ANYWHERE, Arena, ArenaPolicy, Phase, Role

VALUES = 10
"""The most values that may be dropped: the states are two to this power for each node."""

NODES = 80


@dataclass(frozen=True)
class _Space:
    """For each node the values (as bits) that it reads and writes, and the other bytes live at it and before it."""

    reads: list[int]
    writes: list[int]
    at: list[int]
    before: list[int]
    size: list[int]
    made_by: list[int]
    """The node that makes each value again; -1 for one that only the caller gives."""


def search(joint: Joint, arenas: tuple[Arena, ...], budget: int, policy: ArenaPolicy = ANYWHERE) -> Script | None:
    """The cheapest script whose live bytes fit `budget`, or None where none does or the graph is too large."""
    space = _space(joint, arenas, policy)
    if space is None:
        return None
    nodes = joint.model.nodes
    weight = [
        sum(size for bit, size in enumerate(space.size) if values >> bit & 1) for values in range(1 << len(space.size))
    ]
    later = [node.phase is not Phase.FORWARD for node in nodes]
    given = sum(1 << bit for bit, n in enumerate(space.made_by) if n < 0)
    start = (0, given)
    best = {start: 0}
    came: dict[tuple[int, int], tuple[tuple[int, int], int]] = {}
    queue = [(0, *start)]
    while queue:
        cost, position, values = heapq.heappop(queue)
        here = (position, values)
        if best[here] < cost:
            continue
        if position == len(nodes):
            return _script(came, here)
        moves: list[tuple[int, tuple[int, int], int]] = []
        reads, written = space.reads[position], space.writes[position]
        if values & reads == reads and space.at[position] + weight[values | written] <= budget:
            moves.append((cost, (position + 1, values | written), -1))
        for bit, n in enumerate(space.made_by):
            one = 1 << bit
            if values & one:
                moves.append((cost, (position, values & ~one), -1))
            elif later[position] and n >= 0 and values & space.reads[n] == space.reads[n]:
                new = values | space.writes[n]
                if space.before[position] + weight[new] <= budget:
                    moves.append((cost + joint.cost[n], (position, new), n))
        for price, there, n in moves:
            if price < best.get(there, price + 1):
                best[there] = price
                came[there] = (here, n)
                heapq.heappush(queue, (price, *there))
    return None


def _script(came: dict[tuple[int, int], tuple[tuple[int, int], int]], end: tuple[int, int]) -> Script:
    script: dict[int, list[int]] = {}
    while end in came:
        end, n = came[end]
        if n >= 0:
            script.setdefault(end[0], []).insert(0, n)
    return script


def _space(joint: Joint, arenas: tuple[Arena, ...], policy: ArenaPolicy) -> _Space | None:
    """The search space of a graph, or None where it is too large."""
    model = joint.model
    if len(model.nodes) > NODES or len(model.bodies) > 1:
        return None
    again = set(joint.order)
    outputs = {joint.root[t] for t in model.outputs}
    free = {joint.root[t] for n in joint.order for t in model.nodes[n].writes if joint.free[joint.root[t]]}
    read_again = {joint.root[t] for n in joint.order for t in model.nodes[n].reads}
    inputs = {t for t in model.inputs if t in read_again and t not in outputs and model.tensors[t].role is Role.INPUT}
    roots = sorted(free | inputs)
    if len(roots) > VALUES:
        return None
    bit = {root: 1 << k for k, root in enumerate(roots)}
    run = program(model)
    sharing = storages.form(run, liveness.analyze(run, "backward"), arenas, "backward", False, policy)
    ours = {sharing.storage[root] for root in roots}
    at, before = [0] * len(model.nodes), [0] * len(model.nodes)
    for storage, (birth, death) in enumerate(zip(sharing.birth, sharing.death, strict=True)):
        if arenas[sharing.arena[storage]].reuse and storage not in ours:
            for position in range(birth, death + 1):
                at[position] += sharing.bytes[storage]
                before[position] += sharing.bytes[storage] if position > birth else 0
    return _Space(
        [_bits(joint, bit, node.reads) for node in model.nodes],
        [_bits(joint, bit, node.writes) for node in model.nodes],
        at,
        before,
        [sharing.bytes[sharing.storage[root]] for root in roots],
        [joint.writer[root] if joint.writer[root] in again else -1 for root in roots],
    )


def _bits(joint: Joint, bit: dict[int, int], rows: tuple[int, ...]) -> int:
    values = 0
    for t in rows:
        values |= bit.get(joint.root[t], 0)
    return values
