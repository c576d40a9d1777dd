"""Inputs that arrive late: the caller writes them at a step of their own, an arrival, and not before step 0.

An arrival is a node of the main graph with the operator `ARRIVAL`. It reads nothing, and its results are inputs. So a
late input is born at a step, and its bytes are free before that. Seeds of gradients may arrive late.
spec: T1.9, M2.16
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tmmu.core.columns import attribute_values
from tmmu.core.vocabulary import ARRIVAL, MAIN, Model, Node, Phase, Role
from tmmu.ir.order import arrange_nodes

SEED = ".seed"
"""How the name of the seed of a gradient ends."""


def is_arrival(node: Node) -> bool:
    """Return whether the caller writes inputs at this node."""
    return (node.domain, node.op) == ARRIVAL


def list_arrivals(model: Model) -> list[int]:
    """Return the arrivals among the nodes of a model. O(nodes)."""
    domain, op = ARRIVAL
    return [
        n
        for n, (of, name) in enumerate(
            zip(attribute_values(model.nodes, "domain"), attribute_values(model.nodes, "op"), strict=True)
        )
        if of == domain and name == op
    ]


def list_late_inputs(model: Model) -> frozenset[int]:
    """Return the tensors that the caller writes at an arrival. O(nodes)."""
    return frozenset(t for n in list_arrivals(model) for t in model.nodes[n].writes)


def make_arrival(name: str, t: int, phase: Phase = Phase.FORWARD) -> Node:
    """Return the arrival of the input `t`, which has this name."""
    domain, op = ARRIVAL
    return Node(f"{name}.arrival", op, (), (t,), domain, phase=phase)


def settle_arrivals(model: Model) -> Model:
    """Return the model with each arrival directly before the first node that reads one of its inputs.

    A model with streams is returned as it is: there, the order of nodes is that of its author. O(model).
    """
    arrivals = list_arrivals(model)
    if not arrivals or model.has_streams:
        return model
    writer = {t: n for n in arrivals for t in model.nodes[n].writes}
    first: dict[int, int] = {}
    for n, t in _iterate_reads(model):
        if t in writer:
            at = _find_main_node(model, n)
            first[writer[t]] = min(at, first.get(writer[t], at))
    before: dict[int, list[int]] = {}
    for n, at in first.items():
        before.setdefault(at, []).append(n)
    order: list[list[int]] = [[] for _ in model.bodies]
    for n, node in enumerate(model.nodes):
        if n not in first:
            order[node.body] += [*sorted(before.get(n, ())), n]
    return arrange_nodes(model, order)


def delay_seeds(model: Model) -> Model:
    """Return a joint graph whose seeds arrive directly before the first node that reads them. O(model). spec: M2.16"""
    read = {t for _, t in _iterate_reads(model)}.difference(*attribute_values(model.nodes, "mutates"))
    late = list_late_inputs(model)
    seeds = [t for t in model.inputs if t in read and t not in late and _is_seed(model, t)]
    return settle_arrivals(model if model.has_streams else delay_inputs(model, seeds, Phase.BACKWARD))


def delay_inputs(model: Model, inputs: Sequence[int], phase: Phase) -> Model:
    """Return the model with an arrival for each of these inputs, before all other nodes. O(nodes)."""
    if not inputs:
        return model
    arrivals = (make_arrival(model.tensors[t].name, t, phase) for t in inputs)
    bodies = (replace(body, owner=body.owner + len(inputs) if body.owner >= 0 else -1) for body in model.bodies)
    return replace(model, nodes=(*arrivals, *model.nodes), bodies=tuple(bodies))


def _is_seed(model: Model, t: int) -> bool:
    tensor = model.tensors[t]
    return tensor.role is Role.INPUT and tensor.name.endswith(SEED)


def _iterate_reads(model: Model) -> Iterator[tuple[int, int]]:
    """Yield the nodes with the tensors that they read, and the owners of bodies with those that the bodies return."""
    for n, reads in enumerate(attribute_values(model.nodes, "reads")):
        yield from ((n, t) for t in reads)
    for body in model.bodies[1:]:
        yield from ((body.owner, t) for t in body.outputs)


def _find_main_node(model: Model, n: int) -> int:
    """Return the node of the main graph that is `n` or contains it."""
    while (body := model.nodes[n].body) != MAIN:
        n = model.bodies[body].owner
    return n
