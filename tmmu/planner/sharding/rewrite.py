"""The model of one rank before stages are cut: its part of every tensor, and collectives wherever a split does not fit.

All ranks run this one graph. The divisible loops of a node follow from the splits of its operands, in their order. An
operand with another split is first gathered or sharded into a buffer. A result that is a sum over ranks is reduced, and
one whose stored split differs is gathered or sharded. Each of these is a step of the plan, and each buffer a tensor of
it. spec: R7.9 to R7.16, R7.30
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tmmu.core.dims.expressions import Expression, close_shape
from tmmu.core.dtypes import nbytes
from tmmu.core.vocabulary import Model, Node, Phase, Role, Tensor, View
from tmmu.operators import ONNX, draws, row_of
from tmmu.operators.relations import Labels, Relation
from tmmu.planner.sharding.relations import elementwise_relation, relation, relation_across, whole_relation
from tmmu.planner.sharding.spec import sharding_error
from tmmu.planner.sharding.splits import Split, Splits
from tmmu.planner.training.gradients import DOMAIN as GRADIENTS
from tmmu.plans import sharding

MESH = "tmmu.mesh"
"""Collectives over the axis `a` are operators of the domain `tmmu.mesh/a`."""


@dataclass(frozen=True)
class RankGraph:
    """The graph that all ranks run: rows below `len(splits.model.tensors)` are the model's, the others are buffers.

    `origin` is for each node the node of the model that it belongs to.
    """

    splits: Splits
    tensors: list[Tensor]
    nodes: list[Node]
    origin: list[int]


def rewrite_for_ranks(model: Model, spec: dict[str, Any]) -> RankGraph:
    """Rewrite `model` under `spec`. O(accesses x dimensions).

    Raises
    ------
    TmmuError
        INVALID_SHARDING if a dimension does not divide, and for models that cannot be sharded: bodies, alias groups,
        dynamic shapes, random numbers, windows of split tensors.
    """
    _check_plain(model)
    writing = _Rewriting(Splits(model, spec))
    for n in range(len(model.nodes)):
        writing.node(n)
    return writing.made()


def _check_plain(model: Model) -> None:
    for body in model.bodies[1:]:
        node = model.nodes[body.owner]
        raise sharding_error(
            f"{node.op} has a body, which cannot be sharded", "plan it for one rank", place=f"node {node.name!r}"
        )
    for tensor in model.tensors:
        is_open = any(isinstance(dim, Expression) for dim in tensor.shape)
        if tensor.alias_group is not None or is_open:
            what = "an alias group" if tensor.alias_group is not None else "a dynamic shape"
            raise sharding_error(f"{what} cannot be sharded", "plan it for one rank", place=f"tensor {tensor.name!r}")
    for node in model.nodes:
        drawn = not _is_gradient(node) and draws(node.op)
        at_inference = row_of("", node.op).only_at_inference
        if drawn and (not at_inference or not node.writes or model.tensors[node.writes[0]].view is None):
            what = f"{node.op} draws random numbers, and replicas would draw different ones"
            raise sharding_error(what, "draw them outside of the model", place=f"node {node.name!r}")


def _is_gradient(node: Node) -> bool:
    return node.domain == GRADIENTS or node.domain.startswith(f"{GRADIENTS}/")


def check_name_free(name: str, names: Container[str]) -> None:
    """Raise INVALID_SHARDING if the model already uses the name of a collective or its buffer, on any stage."""
    if name in names:
        raise sharding_error("a collective needs this name", "rename it in the model", place=f"name {name!r}")


class _Rewriting:
    def __init__(self, splits: Splits) -> None:
        self.splits, self.model, self.spec = splits, splits.model, splits.spec
        self.tensors, self.nodes, self.origin = list(self.model.tensors), list[Node](), list[int]()
        self.axes = [name for name, _ in sharding.mesh_axes(self.spec)]
        self.across = {entry["op"]: entry["across"] for entry in reversed(self.spec["operators"])}
        self.named = {node.name: node for node in self.model.nodes}
        self.shown: list[tuple[int, int]] = []  # views that show a whole tensor
        self.written = {t for node in self.model.nodes for t in node.made}

    def made(self) -> RankGraph:
        for t, tensor in enumerate(self.model.tensors):
            split = self.splits.settle(t)
            self.tensors[t] = self._part(self.tensors[t], tensor, split)
        for row, base in self.shown:
            if self.tensors[row].bytes != self.tensors[base].bytes:
                what = f"it is a view of {self.tensors[base].name!r}, but a rank has a different part of that"
                raise sharding_error(what, "split both alike", place=f"tensor {self.tensors[row].name!r}")
        return RankGraph(self.splits, self.tensors, self.nodes, self.origin)

    def _part(self, tensor: Tensor, like: Tensor, split: Split) -> Tensor:
        """Return `tensor` with the size of the part of `like` that a rank holds."""
        shape = self.splits.local_shape(close_shape(like.shape), split)
        size = nbytes(shape, like.dtype)
        view = None if tensor.view is None else tensor.view._replace(bytes=size)
        return replace(tensor, shape=shape, bytes=size, view=view)

    def node(self, n: int) -> None:
        """Append node `n` with the collectives that it needs."""
        node = self.model.nodes[n]
        for t in node.reads:
            if t in self.written and t not in self.splits.of:
                raise sharding_error("it is read before it is written", "order the nodes", place=f"node {node.name!r}")
        stored = [self.splits.settle(t) for t in node.reads]
        # A parameter that ZeRO stores in parts is gathered before a node computes with it.
        used = [
            self.splits.without_zero(t)
            if self.model.tensors[t].role is Role.PARAMETER and node.phase is not Phase.OPTIMIZER
            else split
            for t, split in zip(node.reads, stored, strict=True)
        ]
        found = self._relation(node)
        divided = self._divide(node, found, used)
        fetched: dict[tuple[int, Split], int] = {}
        reads = []
        for p, t in enumerate(node.reads):
            need = _split(found.reads[p], divided)
            if (t, need) not in fetched:
                route = self._route(stored[p], need, ())
                fetched[t, need] = self._convert(n, f"{node.name}.in{p}", t, t, route)
            reads.append(fetched[t, need])
        changed = {t: reads[node.reads.index(t)] for t in node.mutates}
        place = len(self.nodes)
        self._append(n, node)  # completed below, when its results are known; its collectives are appended after it
        writes = [
            changed[t] if t in changed else self._add_result(n, q, found, divided) for q, t in enumerate(node.writes)
        ]
        self._finish(place, node, reads, writes, changed)
        for t, buffer in changed.items():
            if buffer != t:
                route = self._route(_split(found.reads[node.reads.index(t)], divided), self.splits.of[t], ())
                self._convert(n, f"{node.name}.out{node.writes.index(t)}", t, buffer, route, into=t)

    def _relation(self, node: Node) -> Relation:
        shapes = [[close_shape(self.model.tensors[t].shape) for t in rows] for rows in (node.reads, node.writes)]
        if node.phase is Phase.OPTIMIZER and node.domain not in ONNX:
            like = next(iter((*node.mutates, *node.writes)), None)
            return elementwise_relation(() if like is None else close_shape(self.model.tensors[like].shape), *shapes)
        if not _is_gradient(node):
            if node.domain in ONNX and node.op in self.across:
                return relation_across(self.across[node.op], *shapes)
            return whole_relation(*shapes) if node.opaque else relation(node.domain, node.op, *shapes)
        return self._gradient_relation(node, shapes)

    def _gradient_relation(self, node: Node, shapes: list[list[tuple[int, ...]]]) -> Relation:
        """Return the relation of a gradient step: a gradient has the labels of its tensor in the forward node."""
        forward = self.named.get(node.name.removesuffix(".grad"))
        if forward is None or forward is node:
            return relation("tmmu.unknown", "", *shapes)
        own = self._relation(forward)
        labels: dict[int, Labels] = {}
        for t, of in zip((*forward.reads, *forward.writes), (*own.reads, *own.writes), strict=True):
            labels[t] = of if labels.get(t, of) == of else (None,) * len(of)
        void = {label for t, of in zip((*forward.reads, *forward.writes), (*own.reads, *own.writes), strict=True)
                for label in of if labels[t] != of}  # fmt: skip

        def find(t: int) -> Labels:
            base = t if t in labels else self.splits.gradient_of(t)
            of = labels.get(base, ()) if base is not None else ()
            of = of or (None,) * len(self.model.tensors[t].shape)
            return tuple(None if label in void else label for label in of)

        reads, writes = (tuple(find(t) for t in rows) for rows in (node.reads, node.writes))
        return Relation(reads, writes, sums=True, pointwise=own.pointwise)

    def _divide(self, node: Node, found: Relation, used: Sequence[Split]) -> dict[int, str]:
        """Choose the axis that divides each loop, by the operands, the earlier ones first."""
        tensors = self.model.tensors
        rows = [*zip(node.reads, found.reads, strict=True), *zip(node.writes, found.writes, strict=True)]
        divided: dict[int, str] = {}
        for labels, split in zip(found.reads, used, strict=True):
            for label, axis in zip(labels, split, strict=True):
                if label is None or not axis or label in divided or axis in divided.values():
                    continue
                sizes = {
                    close_shape(tensors[t].shape)[d] for t, of in rows for d, other in enumerate(of) if other == label
                }
                everywhere = found.apart or all(label in of for of in found.writes)
                even = all(size % self.splits.sizes[axis] == 0 for size in sizes)
                if (even and (everywhere or found.sums)) or (found.pointwise and everywhere):
                    divided[label] = axis
        return divided

    def _route(self, have: Split, need: Split, partial: Sequence[str]) -> list[tuple[str, str, Split]]:
        """Return the collectives from one split to another: (axis, operator, split after it)."""
        state, steps = list(have), []

        def step(axis: str, op: str, d: int | None = None, after: str = "") -> None:
            if d is not None:
                state[d] = after
            steps.append((axis, op if d is None else f"{op}.{d}", tuple(state)))

        for axis in partial:
            d = need.index(axis) if axis in need else None
            if d is not None and not state[d]:
                step(axis, "ReduceScatter", d, axis)
            else:
                step(axis, "AllReduce")
        for d, axis in enumerate(state):
            if axis and axis != need[d]:
                step(axis, "AllGather", d)
        for d, axis in enumerate(need):
            if axis != state[d]:
                step(axis, "Shard", d, axis)
        return steps

    def _convert(
        self, n: int, prefix: str, t: int, source: int, route: list[tuple[str, str, Split]], into: int | None = None
    ) -> int:
        """Append the collectives of `route` on `source`, a part of `t`; the last one writes `into`, if given."""
        for k, (axis, op, split) in enumerate(route):
            name = f"{prefix}.{op}.{axis}"
            check_name_free(name, self.named)
            target = into if into is not None and k == len(route) - 1 else self._add_buffer(t, name, split)
            changes = target == into and t in self.model.nodes[n].mutates
            node = Node(
                name, op, (source, target) if changes else (source,), (target,), f"{MESH}/{axis}",
                in_place=((target, source),) if op == "AllReduce" else (), mutates=(target,) if changes else (),
                phase=self.model.nodes[n].phase,
            )  # fmt: skip
            self._append(n, node)
            source = target
        return source

    def _add_buffer(self, t: int, name: str, split: Split, view: View | None = None) -> int:
        """Add a tensor that holds an operand or result of a step for `t`, and is not part of the model."""
        check_name_free(name, self.splits.rows)
        like = self.model.tensors[t]
        role = Role.GRADIENT if like.role is Role.GRADIENT else Role.ACTIVATION
        made = replace(like, name=name, role=role, view=view, saved_for_backward=False, fixed_offset=None)
        self.tensors.append(self._part(made, like, split))
        return len(self.tensors) - 1

    def _append(self, n: int, node: Node) -> None:
        self.nodes.append(node)
        self.origin.append(n)

    def _add_result(self, n: int, q: int, found: Relation, divided: dict[int, str]) -> int:
        """Return the row that node `n` writes for its result `q`, and append the collectives after it."""
        node, labels = self.model.nodes[n], found.writes[q]
        t = node.writes[q]
        made = _split(labels, divided)
        lacking = () if found.apart else [label for label in divided if label not in labels]
        partial = sorted((divided[label] for label in lacking), key=self.axes.index)
        stored = self.splits.settle(t, made)
        route = self._route(made, stored, partial)
        if not route:
            return t
        raw = self._add_buffer(t, f"{node.name}.out{q}", made, self.model.tensors[t].view)
        self.tensors[t] = replace(self.tensors[t], view=None)
        self._convert(n, f"{node.name}.out{q}", t, raw, route, into=t)
        return raw

    def _finish(self, place: int, node: Node, reads: list[int], writes: list[int], changed: dict[int, int]) -> None:
        """Complete a node whose results are known, with its views and in-place hints on the rows that it touches."""
        now = dict(zip(reversed(node.reads), reversed(reads), strict=True))
        new = dict(zip(node.writes, writes, strict=True))
        self.nodes[place] = replace(
            node, reads=tuple(reads), writes=tuple(writes), mutates=tuple(changed.values()),
            in_place=tuple((new[result], now[operand]) for result, operand in node.in_place),
        )  # fmt: skip
        for t, row in new.items():
            view = self.model.tensors[t].view
            if view is None or t in changed:
                continue
            base = self.model.tensors[view.base]
            if view.bytes == base.bytes:
                self.shown.append((row, now[view.base]))
            elif self._is_split(t, view.base, row, now[view.base]):
                what = f"it is a window of {base.name!r}, which is split"
                raise sharding_error(
                    what, "write rules that split neither", place=f"tensor {self.model.tensors[t].name!r}"
                )
            size = self.tensors[row].bytes if row >= len(self.model.tensors) else view.bytes
            self.tensors[row] = replace(self.tensors[row], view=View(now[view.base], view.offset, size, view.strides))

    def _is_split(self, t: int, base: int, row: int, shown: int) -> bool:
        return any((*self.splits.of[t], *self.splits.of[base])) or (row, shown) != (t, base)


def _split(labels: Labels, divided: dict[int, str]) -> Split:
    return tuple("" if label is None else divided.get(label, "") for label in labels)
