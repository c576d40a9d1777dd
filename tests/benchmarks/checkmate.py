"""The cheapest recomputation of a joint graph as an integer program, after Checkmate (Jain and others, MLSys 2020).

The graph's nodes are the stages, in their order. In stage `t` node `t` runs, and before it any earlier node that may be
repeated, in the graph's order. `run[t, i]`: node `i` runs in stage `t`; `kept[t, v]`: the bytes of `v` are there when
stage `t` begins; within the stage they go after the last node of it that reads or makes them, unless the next keeps
them. What is live while a node runs must fit the budget; the operations that are repeated are to be fewest. A value is
a class of tensors that share bytes; views cost nothing; in-place results are not counted on. Solved by CP-SAT of
OR-Tools: `pip install '.[exact]'`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tmmu.core.vocabulary import ArenaConfiguration, Phase, Role
from tmmu.ir.program import build_program
from tmmu.planner import aliasing, liveness
from tmmu.planner.remat.rewrite import Joint


@dataclass(frozen=True)
class OnnxGraph:
    """A joint graph as the program sees it: what each node reads and writes (values by number), bytes and operations.

    `again` are the nodes that may run a second time, `given` the values that the caller writes, `ends` those that must
    be there at the end, `backward` the first node of the backward half.
    """

    reads: list[list[int]]
    writes: list[list[int]]
    size: list[int]
    cost: list[int]
    again: frozenset[int]
    given: frozenset[int]
    ends: frozenset[int]
    backward: int


def graph_of(joint: Joint, arenas: tuple[ArenaConfiguration, ...]) -> OnnxGraph:
    """The program's view of a joint graph without bodies: only arenas that reuse count. O(nodes + accesses)."""
    model = joint.model
    run = build_program(model)
    alias = aliasing.form_storages(run, liveness.analyze(run, "backward"), arenas, "backward", aliasing.NONE_IN_PLACE)
    storages = alias.storages
    counted = [arenas[a].reuse for a in storages.preferred]
    number: dict[int, int] = {}
    size: list[int] = []

    def value(t: int) -> int | None:
        storage = alias.storage[t]
        if not counted[storage]:
            return None
        if storage not in number:
            number[storage] = len(size)
            size.append(storages.bytes[storage])
        return number[storage]

    def values(rows: tuple[int, ...]) -> list[int]:
        return list(dict.fromkeys(v for v in map(value, rows) if v is not None))

    # What a node reads and writes it shows or changes: it does not make it.
    reads = [
        values((*node.reads, *(t for t in node.writes if storages.name[alias.storage[t]] != run.tensors[t].name)))
        for node in model.nodes
    ]
    writes = [[v for v in values(node.writes) if v not in read] for node, read in zip(model.nodes, reads, strict=True)]
    again = frozenset(n for n in joint.order if all(joint.free[t] for t in model.nodes[n].writes))
    given = frozenset(v for t in model.inputs if model.tensors[t].role is Role.INPUT for v in values((t,)))
    backward = next((n for n, node in enumerate(model.nodes) if node.phase is not Phase.FORWARD), len(model.nodes))
    return OnnxGraph(reads, writes, size, joint.cost, again, given, frozenset(values(model.outputs)), backward)


@dataclass
class Solved:
    """The operations repeated at the optimum (None: the budget cannot be met), the bound, and whether it is proved."""

    cost: int | None
    bound: int = 0
    proved: bool = True


@dataclass
class _Program:
    """The variables by stage and node or value; for each value its maker and the nodes that touch it."""

    graph: OnnxGraph
    model: Any
    run: dict[tuple[int, int], Any] = field(default_factory=dict)
    kept: dict[tuple[int, int], Any] = field(default_factory=dict)
    maker: dict[int, int] = field(default_factory=dict)
    used: dict[int, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for i, (reads, writes) in enumerate(zip(self.graph.reads, self.graph.writes, strict=True)):
            for v in writes:
                self.maker.setdefault(v, i)
            for v in {*reads, *writes}:
                self.used.setdefault(v, []).append(i)

    def sources(self, t: int, v: int, before: int) -> list[Any]:
        """Why a value can be there in stage `t` when node `before` runs: it was kept, or made in the stage."""
        maker = self.maker.get(v, before)
        found = [self.run[t, maker]] if maker < before and (t, maker) in self.run else []
        return found + ([self.kept[t, v]] if (t, v) in self.kept else [])

    def fits(self, t: int, budget: int) -> None:
        """While a node runs: what was kept, and what the stage has made, less what it has freed."""
        model, size = self.model, self.graph.size
        there: dict[int, Any] = {v: self.kept[t, v] for v in self.used if (t, v) in self.kept}
        for k in range(t + 1):
            if (t, k) not in self.run:
                continue
            for v in self.graph.writes[k]:
                was, there[v] = there.get(v), model.new_bool_var(f"there {t} {k} {v}")
                model.add(there[v] >= self.run[t, k])
                if was is not None:
                    model.add(there[v] >= was)
            model.add(sum(var * size[v] for v, var in there.items()) <= budget)
            for v in {*self.graph.reads[k], *self.graph.writes[k]}:
                # It may go after this node where this node runs, no later one of the stage needs it, and the next not.
                was, there[v] = there[v], model.new_bool_var(f"after {t} {k} {v}")
                model.add(there[v] >= was - self.run[t, k])
                if (t + 1, v) in self.kept:
                    model.add(there[v] >= was + self.kept[t + 1, v] - 1)
                for j in self.used[v]:
                    if j > k and (t, j) in self.run:
                        model.add(there[v] >= was + self.run[t, j] - 1)


def solve(graph: OnnxGraph, budget: int, seconds: float = 120.0, workers: int = 2, *, early: bool = False) -> Solved:
    """The fewest operations repeated such that at most `budget` bytes are live while any node runs.

    Values are computed again in the backward half, as the planner does; with `early` in the forward half as well.
    """
    from ortools.sat.python import cp_model

    n, model = len(graph.reads), cp_model.CpModel()
    p = _Program(graph, model)
    for t in range(n):
        p.run[t, t] = model.new_constant(1)
        p.run.update(
            {
                (t, i): model.new_bool_var(f"run {t} {i}")
                for i in graph.again
                if i < t and (early or t >= graph.backward)
            }
        )
    for v in p.used:
        born = -1 if v in graph.given else p.maker[v]
        p.kept.update({(t, v): model.new_bool_var(f"kept {t} {v}") for t in range(born + 1, n + 1)})
        if v in graph.given:
            model.add(p.kept[0, v] == 1)
        if v in graph.ends:
            model.add(p.kept[n, v] == 1)
    for (t, v), var in p.kept.items():
        if t:
            model.add(sum(p.sources(t - 1, v, n)) >= var)
    for (t, i), var in p.run.items():
        for v in graph.reads[i]:
            model.add(sum(p.sources(t, v, i)) >= var)
    for t in range(n):
        p.fits(t, budget)
    model.minimize(sum(var * graph.cost[i] for (t, i), var in p.run.items() if i < t))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds, solver.parameters.num_workers = seconds, workers
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return Solved(None)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Solved(None, int(solver.best_objective_bound), proved=False)
    return Solved(int(solver.objective_value), int(solver.best_objective_bound), status == cp_model.OPTIMAL)
