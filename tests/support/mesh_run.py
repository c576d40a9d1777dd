"""All ranks of a mesh run with NumPy: does every rank hold its part of what one machine computes?

Collectives do what their names say, on the arrays of the ranks; padding is NaN, so that what reads it computes
NaN. Ranks of one stage run step by step together; a stage waits for what another sends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.support.differentiation import BACKWARD, FORWARD, _summed_to
from tmmu.core.vocabulary import Model, Node
from tmmu.plans.columns import Shards

Value = NDArray[np.float64]
Attributes = Mapping[str, Any]


def _compute(node: Node, operands: Sequence[Value], shape: tuple[int, ...], attributes: Attributes) -> list[Value]:
    """The results of a forward or optimizer node from whole or partial operands."""
    known = attributes.get(node.name)
    if node.op == "Reshape":
        return [operands[0].reshape(shape)]
    if node.op == "Transpose":
        return [operands[0].transpose(known)]
    if node.op == "Concat":
        return [np.concatenate(operands, axis=known)]
    if node.op == "Split":
        return list(np.split(operands[0], 2, axis=known))
    if node.op == "ReduceSum":
        return [operands[0].sum(axis=known, keepdims=True)]
    if node.op == "Gather":
        return [np.take(operands[0], operands[1].astype(int), axis=known, mode="wrap")]
    if node.op == "Momentum":
        momentum = 0.5 * operands[2] + operands[1]
        return [operands[0] - 0.25 * momentum, momentum]
    if node.op == "Scramble":  # every element of the result depends on all of the operand's
        return [operands[0] + operands[0].sum() * np.arange(operands[0].size).reshape(operands[0].shape)]
    if node.op == "Gemm" and len(operands) == 2:
        return [operands[0] @ operands[1]]
    return [FORWARD[node.op](*operands)]


class Machine:
    """The values of one rank by name, and what its steps make of them."""

    def __init__(self, local: Model, whole: Model, attributes: Attributes) -> None:
        self.local, self.attributes = local, attributes
        self.values: dict[str, Value] = {}
        self.whole = {node.name: node for node in whole.nodes}
        self.names = [tensor.name for tensor in whole.tensors]

    def value(self, t: int) -> Value:
        """The value of a row; it was written before."""
        return self.values[self.local.tensors[t].name]

    def put(self, t: int, value: Value) -> None:
        """Write a row, which must have the planned shape."""
        tensor = self.local.tensors[t]
        assert value.shape == tensor.shape, (tensor.name, value.shape, tensor.shape)
        if tensor.view is not None:
            base = self.value(tensor.view.base)
            assert np.array_equal(value.ravel(), base.ravel(), equal_nan=True), tensor.name
        self.values[tensor.name] = value

    def run(self, node: Node) -> None:
        """A step that needs no other rank."""
        if node.domain == "tmmu.grad" or (node.name.endswith(".grad") and node.op == "Reshape"):
            self._gradients(node)
            return
        shape = self.local.tensors[node.writes[0]].shape
        for t, value in zip(
            node.writes, _compute(node, [self.value(t) for t in node.reads], shape, self.attributes), strict=True
        ):
            self.put(t, value)

    def _gradients(self, node: Node) -> None:
        step = self.whole[node.name]
        forward = self.whole[node.name.removesuffix(".grad")]
        read = {self.names[t]: self.value(row) for t, row in zip(step.reads, node.reads, strict=True)}
        operands = [self.names[t] for t in forward.reads]
        position = -1
        for t, row in zip(step.writes, node.writes, strict=True):
            position = operands.index(self.names[t].rpartition(".grad")[0], position + 1)
            given, shape = self.value(node.reads[0]), self.local.tensors[row].shape
            if node.op == "Reshape":
                self.put(row, given.reshape(shape))
                continue
            formula = BACKWARD[forward.op]
            made = formula(position, given, lambda p: read[operands[p]], lambda: read[self.names[forward.writes[0]]])
            self.put(row, _summed_to(made, shape))


def alone(model: Model, given: Mapping[str, Value], attributes: Attributes) -> dict[str, Value]:
    """What one machine computes."""
    machine = Machine(model, model, attributes)
    machine.values = dict(given)
    for node in model.nodes:
        machine.run(node)
    return machine.values


def part_of(value: Value, shards: Shards, k: int) -> tuple[Value, tuple[slice, ...]]:
    """A rank's part of a tensor, padded with NaN, and where its own elements stand in it."""
    at = slice(int(shards.dims_at[k]), int(shards.dims_at[k + 1]))
    start, held, chunk = (column[at].tolist() for column in (shards.start, shards.held, shards.chunk))
    result = np.full(chunk, np.nan)
    own = tuple(slice(0, n) for n in held)
    result[own] = value[tuple(slice(s, s + n) for s, n in zip(start, held, strict=True))]
    return result, own


class Mesh:
    """All ranks: their machines, and the collectives between them."""

    def __init__(self, mesh: Sequence[tuple[str, int]], machines: Sequence[Machine]) -> None:
        self.machines = machines
        self.place = np.arange(len(machines)).reshape([size for _, size in mesh])
        self.axes = [name for name, _ in mesh]
        self.mail: dict[tuple[str, int, int], Value] = {}

    def group(self, rank: int, axis: str) -> list[int]:
        """The ranks that differ from one in this axis alone, in order."""
        a = self.axes.index(axis)
        at: list[Any] = [int(x) for x in np.argwhere(self.place == rank)[0]]
        at[a] = slice(None)
        return [int(x) for x in self.place[tuple(at)]]

    def run(self, stages: Sequence[Sequence[int]]) -> None:
        """Run every stage to its end; a deadlock fails."""
        at = [0] * len(stages)
        moved = True
        while moved:
            moved = False
            for s, ranks in enumerate(stages):
                nodes = self.machines[ranks[0]].local.nodes
                while at[s] < len(nodes) and self.step(ranks, nodes[at[s]]):
                    at[s] += 1
                    moved = True
        assert all(at[s] == len(self.machines[r[0]].local.nodes) for s, r in enumerate(stages)), (
            "the stages wait for each other"
        )

    def step(self, ranks: Sequence[int], node: Node) -> bool:
        """One step of all ranks of a stage; False where something was not sent yet."""
        if not node.domain.startswith("tmmu.mesh/"):
            for rank in ranks:
                self.machines[rank].run(node)
            return True
        axis, (op, _, detail) = node.domain.removeprefix("tmmu.mesh/"), node.op.partition(".")
        if op in ("Send", "Recv"):
            return self._exchange(ranks, node, axis, op, int(detail))
        results = {rank: self._collective(rank, node, self.group(rank, axis), op, detail) for rank in ranks}
        for rank, value in results.items():
            self.machines[rank].put(node.writes[0], value)
        return True

    def _collective(self, rank: int, node: Node, group: list[int], op: str, detail: str) -> Value:
        shape = self.machines[rank].local.tensors[node.writes[0]].shape
        given = [self.machines[other].value(node.reads[0]) for other in group]
        me, d = group.index(rank), int(detail or 0)
        if op == "AllReduce":
            result: Value = np.sum(given, axis=0)
            return result
        if op == "AllGather":
            return np.concatenate(given, axis=d).take(range(shape[d]), axis=d)
        whole = np.sum(given, axis=0) if op == "ReduceScatter" else given[me]
        assert op in ("ReduceScatter", "Shard"), op
        size = whole.shape[d]
        start = min(size, me * shape[d])
        own = whole.take(range(start, min(size, start + shape[d])), axis=d)
        padding = [(0, shape[d] - own.shape[d] if k == d else 0) for k in range(own.ndim)]
        return np.pad(own, padding, constant_values=np.nan)

    def _exchange(self, ranks: Sequence[int], node: Node, axis: str, op: str, stage: int) -> bool:
        for rank in ranks:
            peer = self.group(rank, axis)[stage]
            machine = self.machines[rank]
            if op == "Send":
                self.mail[machine.local.tensors[node.reads[0]].name, rank, peer] = machine.value(node.reads[0])
                continue
            found = self.mail.get((machine.local.tensors[node.writes[0]].name, peer, rank))
            if found is None:
                return False
            machine.put(node.writes[0], found)
        return True
