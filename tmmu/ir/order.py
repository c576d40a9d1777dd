"""Execution order: which nodes must come before others, and the stable topological order (the default).

A node with bodies and everything inside it is one unit of the graph around it, so each body is ordered independently.
The accesses to a mutated tensor keep the order in which the model lists them, and so do the nodes of one stream.
spec: I1.6, I1.7, O1.6, X3.11
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace

from tmmu.core.columns import attribute_values
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import MAIN, Model
from tmmu.ir.program import find_defining_bodies


def find_dependencies(model: Model, *, grouped: bool = False) -> list[tuple[int, int]]:
    """Return pairs (earlier, later) of nodes of one body: a read after its write, accesses around a mutation.

    A tensor and its views count as one here, since a mutation is visible through all of them. With `grouped`, so do the
    members of an alias group, and each write to one of them is a change, since it overwrites the others. An edge from a
    node to itself means that the node, or a node inside it, needs the node's own result. O(accesses x depth).
    """
    home = find_defining_bodies(model)
    writer = {t: n for n, node in enumerate(model.nodes) for t in node.made}
    root, shared = _find_roots(model, grouped)
    mutated = {root[t] for node in model.nodes for t in node.mutates} | shared

    def units(n: int, body: int) -> Sequence[int]:
        """Return `n` and the nodes that contain it, up to the one in `body`."""
        found = [n]
        while model.nodes[n].body != body:
            if model.nodes[n].body == MAIN:
                raise TmmuError(
                    "INVALID_IR",
                    "it reads a tensor from inside another body",
                    place=f"node {model.nodes[n].name!r}",
                    fix="return the tensor from that body",
                )
            n = model.bodies[model.nodes[n].body].owner
            found.append(n)
        return found

    # A body that returns what it captured reads it, when its owner leaves.
    returned: dict[int, list[int]] = {}
    for b, body in enumerate(model.bodies[1:], 1):
        returned.setdefault(body.owner, []).extend(t for t in body.outputs if home[t] != b)

    edges = []
    # By the tensor and a body: what is changed inside a node is changed by that node for the body around it.
    last_change: dict[tuple[int, int], int] = {}
    reads_since: dict[tuple[int, int], list[int]] = {}
    for n, node in enumerate(model.nodes):
        for t in (*node.reads, *returned.get(n, ())):
            around = (n,) if node.body == home[t] else units(n, home[t])
            if t in writer:
                edges.append((writer[t], around[-1]))
            for here in around if mutated and root[t] in mutated else ():
                key = (root[t], model.nodes[here].body)
                if last_change.get(key, here) != here:
                    edges.append((last_change[key], here))
                reads_since.setdefault(key, []).append(here)
        changes = node.writes if shared else node.mutates
        for t in changes:
            if t not in node.mutates and (root[t] not in shared or model.tensors[t].view is not None):
                continue
            around = units(n, home[t])
            if writer.get(t, around[-1]) != around[-1]:
                edges.append((writer[t], around[-1]))
            for here in around:
                key = (root[t], model.nodes[here].body)
                before = [*reads_since.pop(key, ()), last_change.get(key, here)]
                edges.extend((other, here) for other in before if other != here)
                last_change[key] = here
    return edges + find_stream_edges(model)


def find_stream_edges(model: Model) -> list[tuple[int, int]]:
    """Return pairs (earlier, later) of nodes: neighbours on a stream, a node and one that it waits for. O(nodes)."""
    if not model.has_streams:
        return []
    row = {name: n for n, name in enumerate(attribute_values(model.nodes, "name"))}
    last: dict[str, int] = {}
    edges = []
    for n, node in enumerate(model.nodes):
        if node.stream:
            edges += [(last[node.stream], n)] if node.stream in last else []
            edges += [(row[name], n) for name in node.after]
            last[node.stream] = n
    return edges


def _find_roots(model: Model, grouped: bool) -> tuple[list[int], set[int]]:
    """Return the representative tensor of each tensor's bytes, and the representatives of alias groups."""
    parent, first = list(range(len(model.tensors))), dict[str, int]()

    def find(t: int) -> int:
        while parent[t] != t:
            parent[t] = parent[parent[t]]
            t = parent[t]
        return t

    for t, tensor in enumerate(model.tensors):
        if tensor.view is not None:
            parent[find(t)] = find(tensor.view.base)
        if grouped and tensor.alias_group is not None:
            parent[find(t)] = find(first.setdefault(tensor.alias_group, t))
    return [find(t) for t in range(len(model.tensors))], {find(t) for t in first.values()}


def sort_topologically(model: Model) -> Model:
    """Return `model` with its nodes in the stable topological order: of the nodes that may come next, the first listed.

    Returns `model` itself if it is in that order already. Raises LIVENESS_CYCLE naming a node of a cycle.
    O(nodes log nodes + accesses).
    """
    edges = find_dependencies(model)
    if all(earlier < later for earlier, later in edges) and _is_in_step_order(model):
        return model
    after: list[list[int]] = [[] for _ in model.nodes]
    waits = [0] * len(model.nodes)
    for earlier, later in edges:
        after[earlier].append(later)
        waits[later] += 1
    ready: list[list[int]] = [[] for _ in model.bodies]
    for n, count in enumerate(waits):
        if not count:
            ready[model.nodes[n].body].append(n)
    order: list[list[int]] = [[] for _ in model.bodies]
    for b, heap in enumerate(ready):
        while heap:
            n = heapq.heappop(heap)
            order[b].append(n)
            for later in after[n]:
                waits[later] -= 1
                if not waits[later]:
                    heapq.heappush(heap, later)
    if sum(map(len, order)) < len(model.nodes):
        stuck = _find_cycle_node({later: n for n in range(len(waits)) if waits[n] for later in after[n]}, waits)
        raise TmmuError(
            "LIVENESS_CYCLE",
            "it depends on its own result",
            place=f"node {model.nodes[stuck].name!r}",
            fix="break the cycle",
            operator="UML_OS.Model.AnalyzeLiveness_v1",
            node_id=model.nodes[stuck].name,
        )
    return arrange_nodes(model, order)


def _find_cycle_node(waits_for: dict[int, int], waits: list[int]) -> int:
    """Return a node of a cycle: from any unscheduled node, follow dependencies back until a node repeats."""
    n, seen = next(n for n, count in enumerate(waits) if count), set[int]()
    while n not in seen:
        seen.add(n)
        n = waits_for[n]
    return n


def _is_in_step_order(model: Model) -> bool:
    """Return whether the nodes are in step order: each body's nodes right after its owner, bodies in order."""
    return _sequence(model, _nodes_of_bodies(model)) == list(range(len(model.nodes)))


def _nodes_of_bodies(model: Model) -> list[list[int]]:
    inside: list[list[int]] = [[] for _ in model.bodies]
    for n, node in enumerate(model.nodes):
        inside[node.body].append(n)
    return inside


def _sequence(model: Model, order: list[list[int]]) -> list[int]:
    bodies_of: dict[int, list[int]] = {}
    for b, body in enumerate(model.bodies[1:], 1):
        bodies_of.setdefault(body.owner, []).append(b)
    result, work = [], list(reversed(order[MAIN]))
    while work:
        n = work.pop()
        result.append(n)
        for b in reversed(bodies_of.get(n, ())):
            work.extend(reversed(order[b]))
    return result


def arrange_nodes(model: Model, order: list[list[int]]) -> Model:
    """Return `model` with the nodes of each body in the given order, each body's nodes right after its owner."""
    sequence = _sequence(model, order)
    place = {n: k for k, n in enumerate(sequence)}
    bodies = tuple(replace(body, owner=place[body.owner] if body.owner >= 0 else -1) for body in model.bodies)
    return replace(model, nodes=tuple(model.nodes[n] for n in sequence), bodies=bodies)
