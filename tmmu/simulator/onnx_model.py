"""Bind a plan to the ONNX model that it was made from: the node of each step, and the caller's inputs and outputs.

Names, captured values and bodies are read from the graph itself. A plan whose steps, reads or sizes differ from the
model's is not run at all: the first difference is reported as its corruption.
spec: SIM5.1, SIM5.6, SIM5.7, SIM5.10, T10.12, T10.13, V3.1, V3.2
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass

import onnx

from tmmu.core.dims.expressions import close_shape
from tmmu.core.dtypes import nbytes
from tmmu.core.errors import TmmuError
from tmmu.core.reading import read_file
from tmmu.core.vocabulary import NodePart
from tmmu.importers.constants import constant_nodes
from tmmu.onnx import Resolved
from tmmu.onnx.functions import inline_functions
from tmmu.onnx.optimized import optimize
from tmmu.onnx.reading import FILE_LIMIT
from tmmu.onnx.structure import GraphScope, structure
from tmmu.simulator.bodies import BodySteps, Holder
from tmmu.simulator.elements import Size
from tmmu.simulator.onnx_bodies import Sizes
from tmmu.simulator.program import PlanProgram
from tmmu.simulator.values import missing_data_file
from tmmu.simulator.witness import Corrupted, Corruption


@dataclass(frozen=True)
class ScopedNode:
    """A node and its place in the model."""

    scope: GraphScope
    position: int

    @property
    def node(self) -> onnx.NodeProto:
        """The node."""
        return self.scope.nodes[self.position]

    @property
    def name(self) -> str:
        """The node's name in plans."""
        return self.scope.ids[self.position]


class OnnxModel:
    """A model with its data and its resolved shapes."""

    def __init__(self, resolved: Resolved) -> None:
        self.resolved = resolved
        self.sizes = {name: (close_shape(shape), dtype) for name, (shape, dtype) in resolved.sizes.items()}
        self.folder = os.path.dirname(os.path.abspath(resolved.path))
        graph = _read_with_weights(resolved)
        self.proto = inline_functions(graph) if graph.functions else graph
        found = structure(self.proto.graph)
        self.main = found.main
        self.constant = constant_nodes(found, resolved.sizes, resolved.ruled_out)
        self.nodes: dict[str, ScopedNode] = {}
        self.folded: dict[str, ScopedNode] = {}
        """The nodes that have no step, each after those that it reads from."""
        self.stored: dict[str, onnx.TensorProto | onnx.SparseTensorProto] = {}
        self._walk(found.scopes)
        self.constants = self._constants()
        self.inputs = [name for name in self.main.inputs if name not in self.main.initializers]
        self.outputs = [self.value(self.main, self.main.end, name) for name in self.main.outputs]

    def _walk(self, scopes: list[GraphScope]) -> None:
        """Collect every graph that has steps; `scopes` has outer ones first."""
        ran = {id(self.main)}
        for scope in scopes:
            if id(scope) not in ran:
                continue
            for name, tensor in scope.initializers.items():
                self.stored[scope.scoped(name)] = tensor
            for sparse in scope.graph.sparse_initializer:
                self.stored[scope.scoped(sparse.values.name)] = sparse
            for position in range(scope.end):
                name, place = scope.ids[position], ScopedNode(scope, position)
                (self.folded if name in self.constant else self.nodes)[name] = place
                ran.update(map(id, self.bodies(place)))

    def _constants(self) -> frozenset[str]:
        """Return the tensors that the caller writes: results of nodes without a step that are read."""
        made = {name for place in self.folded.values() for name in self.writes(place) if name is not None}
        read = {name for place in self.nodes.values() for name in self.reads(place) if name is not None}
        graphs = {id(place.scope): place.scope for place in (*self.nodes.values(), *self.folded.values())}
        bodies = [body for place in self.nodes.values() for body in self.bodies(place)]
        graphs |= {id(scope): scope for scope in (self.main, *bodies)}
        return frozenset(made & read.union(*map(self.returned, graphs.values())))

    def check_weights(self, absent: str | None = None) -> None:
        """Raise INVALID_IR for the first weight whose data file is missing, except for `absent`. spec: SIM5.10"""
        for name, tensor in self.stored.items():
            if not isinstance(tensor, onnx.TensorProto):
                continue
            if (location := missing_data_file(tensor, self.folder)) not in (None, absent):
                raise TmmuError(
                    "INVALID_IR", f"its data file {location} does not exist", place=f"initializer {name!r}",
                    fix="put the file beside the model (of an example: tmmu example NAME --weights SEED), or give "
                    "--random-weights", node_id=name,
                )  # fmt: skip

    def bodies(self, place: ScopedNode) -> list[GraphScope]:
        """Return the bodies of a node that have steps."""
        held = place.scope.bodies.get(place.position, ())
        return [body for body in held if body.name not in self.resolved.ruled_out]

    @staticmethod
    def value(scope: GraphScope, position: int, name: str) -> str:
        """Return the tensor that a node reads as `name`."""
        home = scope.find(name, position)
        assert home is not None  # `structure` has resolved every name
        return home.scoped(name)

    def reads(self, place: ScopedNode) -> list[str | None]:
        """Return the tensors that a node reads, None for an absent operand."""
        return [self.value(place.scope, place.position, name) if name else None for name in place.node.input]

    def writes(self, place: ScopedNode) -> list[str | None]:
        """Return the tensors that a node writes, None for an absent or unproduced output."""
        names = [place.scope.scoped(name) if name else None for name in place.node.output]
        return [None if name in self.resolved.unproduced else name for name in names]

    def returned(self, scope: GraphScope) -> list[str]:
        """Return the tensors that a body returns."""
        return [self.value(scope, scope.end, name) for name in scope.outputs]

    def formals(self, scope: GraphScope) -> list[str]:
        """Return the tensors that are a body's formal inputs."""
        return [scope.scoped(name) for name in scope.inputs if name not in scope.initializers]

    def holder(self, holder: Holder, program: PlanProgram) -> Sizes:
        """Return the sizes of a node with bodies."""
        place = self.nodes[program.steps[holder.enter].node]
        bodies = self.bodies(place)
        outputs: list[int | None] = []
        for name in self.writes(place):
            outputs.append(None if name is None else sum(position is not None for position in outputs))
        return Sizes(
            place.name,
            place.node,
            [None if name is None else self.sizes[name] for name in self.reads(place)],
            [self.sizes[name] for body in bodies for name in self.formals(body)],
            [[self.sizes[name] for name in self.returned(body)] for body in bodies],
            [self.size(program, t) for t in holder.results],
            outputs,
            [body.attribute for body in bodies],
        )

    def size(self, program: PlanProgram, t: int) -> Size:
        """Return the size of a tensor of the model."""
        return self.sizes[program.names[t]]

    def bind(self, program: PlanProgram, saved: Collection[str] = ()) -> None:
        """Check that a program belongs to this model, and set the model's caller: what it keeps and reads.

        `saved` names the tensors that a later backward half reads. Raises `Corrupted` for the first difference.
        """
        for step in program.steps:
            if step.op[0].startswith("tmmu.grad"):
                raise _no_gradients(step.node)
        self._check_tensors(program, saved)
        self._check_steps(program)
        self._check_holders(program)
        rows = {name: t for t, name in enumerate(program.names)}
        kept = frozenset(rows[name] for name in (*self.stored, *self.constants) if name not in program.donated)
        program.set_caller(kept, sorted({*kept, *(rows[name] for name in (*self.outputs, *saved))}))

    def _check_tensors(self, program: PlanProgram, saved: Collection[str]) -> None:
        rows = {name: t for t, name in enumerate(program.names)}
        for name in (*self.inputs, *self.stored, *self.constants, *self.outputs, *saved):
            if name not in rows:
                raise _other(f"the plan has no tensor {name}", name)
        copies = {copy for inner in list_bodies(program.items) for _, copy in inner.returns}
        copies.update(t for step in program.steps for t in step.scratch)
        for t, name in enumerate(program.names):
            if t in copies:
                continue
            if name not in self.sizes:
                raise _other(f"the model has no tensor {name}", name)
            shape, dtype = self.sizes[name]
            if (program.sizes[t], program.dtypes[t]) != (nbytes(shape, dtype), dtype):
                stated = f"{program.sizes[t]} bytes of {program.dtypes[t]}"
                raise _other(f"{name} has {stated}, the model has {nbytes(shape, dtype)} of {dtype}", name)
        given = {program.names[t] for t in program.given}
        for name in sorted(given.symmetric_difference({*self.inputs, *self.stored, *self.constants})):
            raise _other(f"plan and model differ on whether the caller writes {name}", name)

    def _check_steps(self, program: PlanProgram) -> None:
        seen: set[str] = set()
        for n, step in enumerate(program.steps):
            place = self.nodes.get(step.node)
            if place is None:
                raise _other(f"the model has no node {step.node}", step=n)
            if step.part is not NodePart.LEAVE and step.node in seen:
                raise _other(f"{step.node} runs twice", step=n)
            seen.add(step.node)
            bodies = self.bodies(place)
            if (step.part is NodePart.WHOLE) != (not bodies):
                raise _other(f"{step.node} has bodies only in the plan or only in the model", step=n)
            if step.part is NodePart.LEAVE:
                continue
            reads = [name for name in self.reads(place) if name is not None]
            found = [program.names[t] for t in step.operands]
            if found != reads:
                raise _other(f"{step.node} reads {', '.join(found)}, the model's node reads {', '.join(reads)}", step=n)
            writes = [name for name in self.writes(place) if name is not None]
            writes = [name for body in bodies for name in self.formals(body)] if bodies else writes
            found = [program.names[t] for t in step.results]
            if found != writes:
                raise _other(
                    f"{step.node} writes {', '.join(found)}, the model's node writes {', '.join(writes)}", step=n
                )
        for name in self.nodes:
            if name not in seen:
                raise _other(f"the plan has no step for the node {name}")

    def _check_holders(self, program: PlanProgram) -> None:
        for holder in _holders(program.items):
            place = self.nodes[program.steps[holder.enter].node]
            bodies = self.bodies(place)
            if [body.name for body in bodies] != [
                program.plan.allocation.bodies.name[inner.body] for inner in holder.bodies
            ]:
                raise _other(f"the bodies of {place.name} differ", step=holder.enter)
            for body, inner in zip(bodies, holder.bodies, strict=True):
                found = [program.names[value] for value, _ in inner.returns]
                if found != self.returned(body):
                    raise _other(
                        f"{body.name} returns {', '.join(found)}, the model's body returns "
                        f"{', '.join(self.returned(body))}"
                    )
            writes = [name for name in self.writes(place) if name is not None]
            if [program.names[t] for t in holder.results] != writes:
                raise _other(f"expected {place.name} to write {', '.join(writes)}", step=holder.leave)


def _read_with_weights(resolved: Resolved) -> onnx.ModelProto:
    """Read the model again with the data of its weights, or have its runtime make the graph again."""
    if resolved.bindings.runtime is not None:
        return optimize(resolved.path, resolved.bindings.runtime)[0]
    model: onnx.ModelProto = onnx.ModelProto.FromString(read_file(resolved.path, FILE_LIMIT))
    return model


def _holders(items: list[int | Holder]) -> list[Holder]:
    """Return all nodes with bodies, outer before inner."""
    found = [item for item in items if isinstance(item, Holder)]
    for holder in found:  # grows
        found.extend(item for inner in holder.bodies for item in inner.items if isinstance(item, Holder))
    return found


def list_bodies(items: list[int | Holder]) -> list[BodySteps]:
    """Return the bodies of all nodes, at any depth."""
    return [inner for holder in _holders(items) for inner in holder.bodies]


def _other(text: str, *tensors: str, step: int | None = None) -> Corrupted:
    return Corrupted(Corruption(f"the plan does not belong to this model: {text}", tensors, step))


def _no_gradients(node: str) -> TmmuError:
    return TmmuError(
        "MODE_VIOLATION",
        "gradient steps have no ONNX kernels",
        place=f"step {node!r}",
        fix="run the plan alone (tmmu run PLAN), with stand-in kernels",
        operator="UML_OS.TMMU.ApplyPlan_v1",
        mode="backward",
    )
