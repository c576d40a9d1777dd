"""A joint graph rewritten so that some forward values are computed again when backward needs them.

Which values are kept, and which of those computed again are held until their last reader, is a policy; whatever the
policy, the graph computes the same. A clone of node `n` is `n.recompute0`, `n.recompute1` and so on, and writes
`t.recompute0` for each result `t`. Nothing is freed explicitly: a value dies at its last reader, as ever.
spec: M1.8, M1.9
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tmmu.core.dims.expressions import upper
from tmmu.core.vocabulary import MAIN, Model, Node, Phase, Tensor
from tmmu.planner.training.expand import mark_saved
from tmmu.planner.training.gradients import ONNX

RANDOM = ("bernoulli", "dropout", "exponential", "multinomial", "poisson", "rand", "uniform")
"""Parts of the names of operators that give another value each time."""

PRODUCTS = {"MatMul": 0, "mm": 0, "bmm": 0, "matmul": 0, "addmm": 1, "baddbmm": 1, "dot_general": 0}
"""Matrix products, with the position of the operand whose last dimension is summed over."""


@dataclass(frozen=True)
class Joint:
    """A joint graph and what of it may be computed again.

    `root` gives for each tensor the one whose bytes it shows; `writer` the node that writes it (-1: the caller).
    `free` are the tensors that may be dropped and computed again, `order` the nodes that write them.
    """

    model: Model
    root: list[int]
    writer: list[int]
    free: list[bool]
    order: list[int]
    cost: list[int]


def joint_of(model: Model) -> Joint:
    """What may be computed again in `model`. O(nodes + accesses)."""
    tensors, nodes = model.tensors, model.nodes
    root = list(range(len(tensors)))
    for node in nodes:  # bases are written before what shows them
        for t in node.writes:
            view = tensors[t].view
            if view is not None:
                root[t] = root[view.base]
    writer = [-1] * len(tensors)
    for n, node in enumerate(nodes):
        for t in node.made:
            writer[t] = n
    last = max((n for n, node in enumerate(nodes) if node.phase is Phase.BACKWARD), default=-1)
    # What is changed after the backward half, as an optimizer does, is still as it was when values are computed again.
    # A node that changes what it reads is not run again either.
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
    return Joint(model, root, writer, free, order, [_cost(model, node) for node in nodes])


def is_repeatable(model: Model, node: Node) -> bool:
    """Whether a node gives the same values each time: it draws no random numbers."""
    if node.domain in ONNX and node.op == "Dropout":  # at inference it is a view
        return model.tensors[node.writes[0]].view is not None
    return not any(part in node.op.lower() for part in RANDOM)


def _cost(model: Model, node: Node) -> int:
    """About how many operations a node takes: a multiplication and an addition for each product, else its elements."""
    if not node.writes:
        return 0
    result = model.tensors[node.writes[0]]
    if result.view is not None and len(node.writes) == 1:
        return 0
    # Of an open dimension the most counts: what a step costs decides nothing but what is computed again.
    elements = sum(math.prod(map(upper, model.tensors[t].shape)) for t in node.writes)
    shapes = [tuple(map(upper, model.tensors[t].shape)) for t in node.reads]
    if node.op in PRODUCTS and len(shapes) > PRODUCTS[node.op] and shapes[PRODUCTS[node.op]]:
        return 2 * elements * shapes[PRODUCTS[node.op]][-1]
    if node.op == "Gemm" and result.shape:
        return 2 * elements * (math.prod(shapes[0]) // max(1, upper(result.shape[0])))
    if node.op in ("Conv", "convolution") and len(shapes) > 1 and shapes[1]:
        return 2 * elements * (math.prod(shapes[1]) // max(1, shapes[1][0]))
    return elements


@dataclass(frozen=True)
class Policy:
    """Which classes of tensors (by root) keep their first value, and which hold a later one until its last reader."""

    kept: frozenset[int]
    held: frozenset[int] | None = None
    """None: every one."""


Script = Mapping[int, Sequence[int]]
"""The nodes that are run again directly before a node, in this order."""


@dataclass
class Rewritten:
    """A schedule: nodes with their reads and writes, later copies of tensors after the model's own; what it costs.

    `current` gives the latest copy of each tensor that is to be read from now on. `complete` is false where the
    schedule was given up because it became too long.
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
        """The schedule as a model, with what its backward half reads of its forward half marked as saved."""
        forward, backward = ([n for n in self.nodes if n.phase is p] for p in (Phase.FORWARD, Phase.BACKWARD))
        tensors = tuple(mark_saved(self.tensors, forward, backward))
        return replace(self.joint.model, tensors=tensors, nodes=tuple(self.nodes))

    def run(self, node: Node) -> None:
        """Append a node of the later half, reading the latest copies."""
        self.nodes.append(self._reading(node))
        for t in node.writes:
            view = self.tensors[t].view
            if view is not None and view.base in self.current:
                self.tensors[t] = replace(self.tensors[t], view=view._replace(base=self.current[view.base]))

    def run_again(self, n: int) -> dict[int, int]:
        """Append node `n` once more; the copies of what it writes."""
        original, k = self.joint.model.nodes[n], self.clones[n]
        node = self._reading(original)
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

    def _reading(self, node: Node) -> Node:
        """`node` with the latest copies in place of what it reads."""
        return replace(
            node,
            reads=tuple(self.current.get(t, t) for t in node.reads),
            in_place=tuple((written, self.current.get(t, t)) for written, t in node.in_place),
        )


LONGEST = 4
"""A schedule that runs more than so many times the graph's nodes is given up: some policies repeat quadratically."""


def rewrite(joint: Joint, policy: Policy) -> Rewritten:
    """The joint graph under `policy`: what is not kept is computed again when it is first read, with all it needs.

    O(nodes + accesses + clones).
    """
    most = LONGEST * len(joint.model.nodes) + 1000
    model, root = joint.model, joint.root
    result = Rewritten(joint)

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


def follow(joint: Joint, script: Script) -> Rewritten:
    """The joint graph with nodes run again as `script` lists; every read takes the latest value. O(nodes + clones)."""
    result = Rewritten(joint)
    renewed = set[int]()

    def show(node: Node) -> None:
        """Make the views that `node` reads anew where what they show is new."""
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
            show(joint.model.nodes[n])
            copies = result.run_again(n)
            roots = {joint.root[t] for t in copies}
            result.current = {t: c for t, c in result.current.items() if joint.root[t] not in roots} | copies
            renewed |= roots
        show(node)
        result.run(node)
    return result
