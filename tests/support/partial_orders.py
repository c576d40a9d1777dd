"""Random programs on several streams, and their orders worked out by paths: no code of the planner's."""

from __future__ import annotations

import random
from dataclasses import dataclass

import networkx as nx
import numpy as np

from tmmu.planner.streams.steps import StepOrder, order_steps
from tmmu.planner.streams.storages import StoragePrecedence, order_storages


@dataclass(frozen=True)
class StreamProgram:
    """Streams of steps, waits and barriers, and the steps that access each storage."""

    stream: list[int]
    waits: list[tuple[int, int]]
    barriers: list[int]
    accesses: list[list[int]]

    def step_order(self) -> StepOrder:
        """The order that is tested."""
        return order_steps(self.stream, self.waits, self.barriers)

    def storage_order(self) -> StoragePrecedence:
        """The order that is tested, of storages that live from their first access to their last."""
        rows = [(k, s) for k, steps in enumerate(self.accesses) for s in steps]
        columns = np.array(rows, np.int64).reshape(-1, 2).T
        birth, death = [min(steps) for steps in self.accesses], [max(steps) for steps in self.accesses]
        return order_storages(self.step_order(), (columns[0], columns[1]), birth, death)

    def reached(self) -> nx.DiGraph:
        """A path from each step to those that it happens before, as an edge."""
        count = len(self.stream)
        graph = nx.DiGraph()
        graph.add_nodes_from(range(count))
        graph.add_edges_from((earlier, step) for step, earlier in self.waits)
        pairs = ((a, b) for b in range(count) for a in range(b))
        graph.add_edges_from((a, b) for a, b in pairs if self.stream[a] == self.stream[b] or {a, b} & {*self.barriers})
        return nx.transitive_closure_dag(graph)

    def storages_before(self) -> nx.DiGraph:
        """An edge from each storage to those that it may give its bytes to."""
        steps, count = self.reached(), len(self.accesses)
        graph = nx.DiGraph()
        graph.add_nodes_from(range(count))
        graph.add_edges_from(
            (x, y)
            for x in range(count)
            for y in range(count)
            if x != y and all(steps.has_edge(a, b) for a in self.accesses[x] for b in self.accesses[y])
        )
        return graph


def random_program(seed: int, most_steps: int, most_storages: int) -> StreamProgram:
    """A program of up to four streams, with few events or many."""
    draw = random.Random(seed)
    steps, streams = draw.randrange(1, most_steps + 1), draw.randrange(1, 5)
    density = draw.choice((0.1, 0.3, 0.8))
    stream = [draw.randrange(streams) for _ in range(steps)]
    waits = [(s, draw.randrange(s)) for s in range(1, steps) for _ in range(2) if draw.random() < density / 2]
    barriers = [s for s in range(steps) if draw.random() < 0.05]
    accesses = []
    for _ in range(draw.randrange(1, most_storages + 1)):
        first = draw.randrange(steps)
        more = {min(steps - 1, first + draw.randrange(6)) for _ in range(draw.randrange(3))}
        accesses.append(sorted({first, *more}))
    return StreamProgram(stream, waits, barriers, accesses)


def fewest_chains(before: nx.DiGraph) -> int:
    """The fewest chains that contain every storage: networkx's own matching."""
    bipartite = nx.Graph()
    bipartite.add_nodes_from((("gives", x) for x in before), bipartite=0)
    bipartite.add_nodes_from((("takes", x) for x in before), bipartite=1)
    bipartite.add_edges_from((("gives", x), ("takes", y)) for x, y in before.edges)
    matching = nx.bipartite.maximum_matching(bipartite, [("gives", x) for x in before])
    return len(before) - len(matching) // 2


def heaviest_antichain(before: nx.DiGraph, weights: list[int]) -> int:
    """The weight of the heaviest antichain, by all cliques of what is not ordered."""
    apart = nx.complement(before.to_undirected())
    return max(sum(weights[k] for k in clique) for clique in nx.find_cliques(apart))
