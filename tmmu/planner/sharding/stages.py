"""Pipeline stages: assign a stage to each node, and extract the part of a graph that one stage runs.

A forward node belongs to the first stage with a pattern for it. Without patterns, forward nodes are spread evenly by
depth. A gradient step belongs to its forward node's stage. Any other node belongs to the first stage in which one of
its operands is written, or read before. A tensor that another stage reads is sent right after it is written.
spec: R7.17, R7.18
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tmmu.core.vocabulary import MAIN, Body, Model, Node, Phase
from tmmu.planner.patterns import NameMatcher
from tmmu.planner.sharding.rewrite import MESH, RankGraph, check_name_free
from tmmu.planner.sharding.spec import sharding_error
from tmmu.plans import sharding


def count_stages(spec: dict[str, Any]) -> int:
    """Return the number of stages."""
    return dict(sharding.mesh_axes(spec)).get(spec.get("pipeline_axis", ""), 1)


def assign_stages(model: Model, spec: dict[str, Any]) -> list[int]:
    """Return the stage of each node. INVALID_SHARDING for a forward node that no pattern names. O(nodes x patterns)."""
    stages = count_stages(spec)
    if stages == 1:
        return [0] * len(model.nodes)
    writer = {t: n for n, node in enumerate(model.nodes) for t in node.made}
    by_pattern = [NameMatcher(patterns) for patterns in spec["stages"]]
    even = None if spec["stages"] else _by_depth(model, writer, stages)
    found: list[int] = []
    stage_of: dict[str, int] = {}
    reader: dict[int, int] = {}  # the first stage that reads a tensor so far
    for n, node in enumerate(model.nodes):
        if node.phase is Phase.FORWARD:
            fitting = (k for k, named in enumerate(by_pattern) if named(node.name))
            stage = next(fitting, None) if even is None else even[n]
            if stage is None:
                raise sharding_error(
                    "no stage has a pattern for it", 'end the last stage with "*"', place=f"node {node.name!r}"
                )
        else:
            stage = stage_of.get(node.name.removesuffix(".grad")) if node.name.endswith(".grad") else None
        if stage is None:
            written = [found[writer[t]] for t in node.reads if writer.get(t, n) < n]
            stage = min(written or [reader[t] for t in node.reads if t in reader], default=0)
        found.append(stage)
        stage_of[node.name] = stage
        for t in node.reads:
            reader[t] = min(stage, reader.get(t, stage))
    return found


def _by_depth(model: Model, writer: dict[int, int], stages: int) -> list[int]:
    """Return stages by depth, the longest path from the caller's tensors, divided into equal ranges."""
    depth: list[int] = []
    for n, node in enumerate(model.nodes):
        depth.append(1 + max((depth[writer[t]] for t in node.reads if writer.get(t, n) < n), default=-1))
    forward = [d for d, node in zip(depth, model.nodes, strict=True) if node.phase is Phase.FORWARD]
    deepest = max(forward, default=0) + 1
    return [d * stages // deepest for d in depth]


def cut_stage(made: RankGraph, stage_of: list[int], stage: int, axis: str) -> Model:
    """Return the model that the ranks of `stage` run. O(model)."""
    model = made.splits.model
    own = len(model.tensors)
    home = {t: stage_of[n] for n, node in enumerate(model.nodes) for t in node.made}
    readers: dict[int, set[int]] = {}
    for node, n in zip(made.nodes, made.origin, strict=True):
        for t in (*node.reads, *node.mutates):
            readers.setdefault(t, set()).add(stage_of[n])
    for node in model.nodes:
        for t in node.mutates:
            if len(readers[t] | ({home[t]} if t in home else set())) > 1:
                place = f"tensor {model.tensors[t].name!r}"
                raise sharding_error(
                    "it is mutated, and used in two stages", "put its nodes into one stage", place=place
                )
    nodes: list[Node] = []
    received = set[int]()
    taken = {node.name for node in made.nodes}
    for node, n in zip(made.nodes, made.origin, strict=True):
        if stage_of[n] == stage:
            nodes.append(node)
        for t in node.writes:  # buffers and mutated tensors are read in only one stage
            for other in sorted(readers.get(t, set()) - {stage_of[n]}):
                name, send, receive = model.tensors[t].name, f"Send.{other}", f"Recv.{stage_of[n]}"
                for op in (send, receive):
                    check_name_free(f"{name}.{op}", taken)
                if stage_of[n] == stage:
                    nodes.append(Node(f"{name}.{send}", send, (t,), (), f"{MESH}/{axis}", phase=node.phase))
                elif other == stage:
                    received.add(t)
                    nodes.append(Node(f"{name}.{receive}", receive, (), (t,), f"{MESH}/{axis}", phase=node.phase))
    holders = {t: readers.get(t) or {0} for t in range(own) if t not in home}
    touched = {t for node in nodes for t in (*node.reads, *node.writes)}
    touched |= {t for t, stages in holders.items() if stage in stages}
    outputs = [t for t in model.outputs if (home[t] if t in home else min(holders[t])) == stage]
    return _select(made, nodes, touched, outputs, received)


def _select(made: RankGraph, nodes: list[Node], touched: set[int], outputs: list[int], received: set[int]) -> Model:
    """Return the model of these nodes and tensors, with rows renumbered."""
    model = made.splits.model
    rows = {t: row for row, t in enumerate(sorted(touched))}
    tensors = []
    for t in rows:
        tensor = made.tensors[t]
        if t in received:
            tensor = replace(tensor, view=None)
        if tensor.view is not None:
            tensor = replace(tensor, view=tensor.view._replace(base=rows[tensor.view.base]))
        tensors.append(tensor)

    def renumber(node: Node) -> Node:
        reads, writes, mutates = (tuple(rows[t] for t in list_) for list_ in (node.reads, node.writes, node.mutates))
        hints = tuple((rows[a], rows[b]) for a, b in node.in_place)
        return replace(node, reads=reads, writes=writes, mutates=mutates, in_place=hints)

    names = {tensor.name for tensor in tensors}
    main = Body(-1, model.bodies[MAIN].attribute, tuple(rows[t] for t in model.inputs if t in rows),
                tuple(rows[t] for t in outputs))  # fmt: skip
    return replace(
        model,
        tensors=tuple(tensors),
        nodes=tuple(map(renumber, nodes)),
        bodies=(main,),
        must_not_alias=tuple((rows[a], rows[b]) for a, b in model.must_not_alias if a in rows and b in rows),
        bindings=replace(model.bindings, donated=tuple(x for x in model.bindings.donated if x in names)),
    )
