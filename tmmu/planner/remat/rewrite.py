"""Rewrite a joint graph so that some forward values are recomputed when backward needs them.

A policy determines which values are kept, and which recomputed values are held until their last reader. Under every
policy the graph computes the same. A clone of node `n` is `n.recompute0`, `n.recompute1` and so on, and writes
`t.recompute0` for each result `t`. Nothing is freed explicitly: a value dies at its last reader, as always.
spec: M1.8, M1.9
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tmmu.core.dims.expressions import upper_bound
from tmmu.core.vocabulary import MAIN, Model, Node, Phase, Tensor
from tmmu.operators import draws, row_of
from tmmu.planner.training.expand import mark_saved


@dataclass(frozen=True)
class Joint:
    """A joint graph, and the values in it that may be recomputed.

    `root` is for each tensor the one whose bytes it shows; `writer` is the node that writes it (-1: the caller). `free`
    tensors may be dropped and recomputed, and `order` are the nodes that write them.
    """

    model: Model
    root: list[int]
    writer: list[int]
    free: list[bool]
    order: list[int]
    cost: list[int]


def build_joint(model: Model) -> Joint:
    """Find the values of `model` that may be recomputed. O(nodes + accesses)."""
    tensors, nodes = model.tensors, model.nodes
    root = list(range(len(tensors)))
    for node in nodes:  # bases are written before their views
        for t in node.writes:
            view = tensors[t].view
            if view is not None:
                root[t] = root[view.base]
    writer = [-1] * len(tensors)
    for n, node in enumerate(nodes):
        for t in node.made:
            writer[t] = n
    last = max((n for n, node in enumerate(nodes) if node.phase is Phase.BACKWARD), default=-1)
    # Tensors mutated after the backward half, as by an optimizer, still have their old values when values are
    # recomputed. A node that mutates what it reads is not run again.
    changed = {root[t] for node in nodes[: last + 1] for t in node.mutates}
    owners = {body.owner for body in model.bodies[1:]}
    again = [
        node.phase is Phase.FORWARD
        and node.body == MAIN
        and n not in owners
        and changed.isdisjoint(root[t] for t in node.reads)
        and is_repeatable(model, node)
        for n, node in enumerate(nodes)
    ]
    fixed = {t for node in nodes for t in node.mutates} | {t for pair in model.must_not_alias for t in pair}
    fixed.update(t for body in model.bodies for t in body.outputs)
    fixed.update(t for n, node in enumerate(nodes) if node.body != MAIN or n > last for t in node.reads)
    fixed.update(t for t, tensor in enumerate(tensors) if tensor.alias_group is not None)
    held = {root[t] for t in fixed}
    free = [writer[t] >= 0 and again[writer[t]] and root[t] not in held for t in range(len(tensors))]
    order = [n for n, node in enumerate(nodes) if any(free[t] for t in node.writes)]
    return Joint(model, root, writer, free, order, [_count_operations(model, node) for node in nodes])


def is_repeatable(model: Model, node: Node) -> bool:
    """Return whether a node gives the same values each time: it draws no random numbers."""
    if row_of(node.domain, node.op).only_at_inference:
        return model.tensors[node.writes[0]].view is not None
    return not draws(node.op)


def _count_operations(model: Model, node: Node) -> int:
    """Estimate the operations of a node, by its operator's row, otherwise as its written elements."""
    if not node.writes:
        return 0
    result = model.tensors[node.writes[0]]
    if result.view is not None and len(node.writes) == 1:
        return 0
    # An open dimension counts with its maximum: the cost affects only the choice of values to recompute.
    elements = sum(math.prod(map(upper_bound, model.tensors[t].shape)) for t in node.writes)
    shapes = [tuple(map(upper_bound, model.tensors[t].shape)) for t in node.reads]
    rule = row_of(node.domain, node.op).cost
    found = rule(shapes, tuple(map(upper_bound, result.shape)), elements) if rule is not None else None
    return elements if found is None else found


@dataclass(frozen=True)
class Policy:
    """The classes of tensors (by root) that keep their first value, and those that hold a recomputed one until their
    last reader.
    """

    kept: frozenset[int]
    held: frozenset[int] | None = None
    """None: every class."""


Script = Mapping[int, Sequence[int]]
"""The nodes that are run again directly before a node, in this order."""


@dataclass
class Schedule:
    """A schedule: nodes with their reads and writes, copies of tensors after the model's own, and its cost.

    `current` is the latest copy of each tensor, to be read from now on. `complete` is False if the schedule was
    abandoned because it became too long.
    """

    joint: Joint
    nodes: list[Node] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    cost: int = 0
    current: dict[int, int] = field(default_factory=dict)
    clones: Counter[int] = field(default_factory=Counter)
    complete: bool = True

    def __post_init__(self) -> None:
        self.tensors = list(self.joint.model.tensors)

    @property
    def model(self) -> Model:
        """The schedule as a model; forward values that its backward half reads are marked as saved."""
        forward, backward = ([n for n in self.nodes if n.phase is p] for p in (Phase.FORWARD, Phase.BACKWARD))
        tensors = tuple(mark_saved(self.tensors, forward, backward))
        return replace(self.joint.model, tensors=tensors, nodes=tuple(self.nodes))

    def run(self, node: Node) -> None:
        """Append a node of the later half, reading the latest copies."""
        self.nodes.append(self._read_latest(node))
        for t in node.writes:
            view = self.tensors[t].view
            if view is not None and view.base in self.current:
                self.tensors[t] = replace(self.tensors[t], view=view._replace(base=self.current[view.base]))

    def run_again(self, n: int) -> dict[int, int]:
        """Append node `n` once more, and return the copies of the tensors that it writes."""
        original, k = self.joint.model.nodes[n], self.clones[n]
        node = self._read_latest(original)
        copies = {}
        for t in original.writes:
            tensor = self.joint.model.tensors[t]
            if tensor.view is not None:
                base = self.current.get(tensor.view.base, tensor.view.base)
                tensor = replace(tensor, view=tensor.view._replace(base=base))
            copies[t] = len(self.tensors)
            self.tensors.append(replace(tensor, name=f"{tensor.name}.recompute{k}", fixed_offset=None))
        self.nodes.append(
            replace(
                node,
                name=f"{node.name}.recompute{k}",
                writes=tuple(copies.values()),
                in_place=tuple((copies[written], operand) for written, operand in node.in_place),
                phase=Phase.BACKWARD,
            )
        )
        self.clones[n] += 1
        self.cost += self.joint.cost[n]
        return copies

    def _read_latest(self, node: Node) -> Node:
        """Return `node` with its reads replaced by the latest copies."""
        return replace(
            node,
            reads=tuple(self.current.get(t, t) for t in node.reads),
            in_place=tuple((written, self.current.get(t, t)) for written, t in node.in_place),
        )


LONGEST = 4
"""A schedule with more than this many times the graph's nodes is abandoned: some policies repeat quadratically."""


def rewrite(joint: Joint, policy: Policy) -> Schedule:
    """Rewrite the joint graph under `policy`: a dropped value is recomputed at its first read, with all that it needs.

    O(nodes + accesses + clones).
    """
    most = LONGEST * len(joint.model.nodes) + 1000
    model, root = joint.model, joint.root
    result = Schedule(joint)

    def is_dropped(t: int) -> bool:
        return joint.free[t] and root[t] not in policy.kept

    for node in model.nodes:
        if node.phase is Phase.FORWARD:
            result.nodes.append(node)
            continue
        wanted, needed = [t for t in node.reads if is_dropped(t) and t not in result.current], set[int]()
        while wanted:
            n = joint.writer[wanted.pop()]
            if n not in needed:
                needed.add(n)
                wanted.extend(t for t in model.nodes[n].reads if is_dropped(t) and t not in result.current)
        if len(result.nodes) > most:
            result.complete = False
            return result
        for n in sorted(needed):
            result.current |= {t: copy for t, copy in result.run_again(n).items() if is_dropped(t)}
        result.run(node)
        if policy.held is not None:
            result.current = {t: copy for t, copy in result.current.items() if root[t] in policy.held}
    return result


def apply_script(joint: Joint, script: Script) -> Schedule:
    """Run nodes of the joint graph again as `script` lists; every read takes the latest value. O(nodes + clones)."""
    result = Schedule(joint)
    renewed = set[int]()

    def refresh_views(node: Node) -> None:
        """Recompute the views that `node` reads if their bases are recomputed."""
        for t in node.reads:
            chain = []
            while joint.root[t] in renewed and t not in result.current:
                chain.append(joint.writer[t])
                view = joint.model.tensors[t].view
                t = t if view is None else view.base
            for n in reversed(chain):
                result.current |= result.run_again(n)

    for position, node in enumerate(joint.model.nodes):
        for n in script.get(position, ()):
            refresh_views(joint.model.nodes[n])
            copies = result.run_again(n)
            roots = {joint.root[t] for t in copies}
            result.current = {t: c for t, c in result.current.items() if joint.root[t] not in roots} | copies
            renewed |= roots
        refresh_views(node)
        result.run(node)
    return result
