"""A problem: what a planner is given, which tensors it must place, and how the verifier judges the offsets.

The judgement is that of `verify-plan` without a solver: offsets become a plan, and the naive checker looks at it. So a
failure has the name of an obligation, and the plan that is printed is REFUTED by `verify-plan` for the same reason.
spec: TP2.1, TP2.2
"""

from __future__ import annotations

import copy
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from proofs.definition.violations import Violation
from proofs.readers.models.ir import read_ir
from proofs.readers.models.reference import ReferenceProgram
from proofs.sharding.stages import RankModel
from proofs.verify.checks import BufferSubject, Subject, buffer_violations, violations
from tmmu.core.alignment import align_up
from tmmu.core.columns import Names
from tmmu.core.dims.expressions import Expression
from tmmu.core.vocabulary import UINT64_END, Model, NodePart, Role, Shares
from tmmu.ir import text, text_writer
from tmmu.ir.graph import Graph
from tmmu.plans.allocation import Arena, Buffers
from tmmu.plans.building import KEPT, AllocationBuilder, StatedTensor, build_storages
from tmmu.plans.columns import IS_INPUT, IS_OUTPUT, IS_RETURNED, IS_SAVED
from tmmu.plans.gate import StatedBuffers, StatedPlan
from tmmu.plans.sections import BufferPlan, Plan
from tmmu.testing.buffer import TimedBuffer
from tmmu.testing.smaller import models_without_an_end, smaller_buffers, smaller_dags, smaller_models

if TYPE_CHECKING:
    import networkx

ARENA = "memory"
"""The one arena of a plan that is made of offsets."""
UNLIMITED = UINT64_END - 1
"""The capacity if none is given."""
Offsets = Mapping[str, int]


class PlanSizes(NamedTuple):
    """The bytes that a plan needs, those that are live at its peak, and those of all its storages side by side.

    `extent` is the footprint if a storage without bytes had one, as some planners, ours among them, count it.
    """

    footprint: int
    peak: int
    total: int
    extent: int


class RehashedName(str):
    """A name that is equal to a text and has another hash, as it would have in another process."""

    __slots__ = ()

    def __hash__(self) -> int:
        return hash(("another process", str(self)))

    def __eq__(self, other: object) -> bool:
        return str(self) == other

    def __ne__(self, other: object) -> bool:
        return str(self) != other


class PlannerProblem(ABC):
    """A problem of some kind. `argument` is what the planner is given."""

    kind: ClassVar[str]
    noun: ClassVar[str] = "tensor"
    argument: Any

    def copy(self) -> Any:
        """Return a copy of what the planner is given, which it may keep."""
        return copy.deepcopy(self.argument)

    def rehash(self) -> Any:
        """Return a copy in which names have other hashes, if it can: sets of them have another order."""
        return self.copy()

    def is_unchanged(self, given: Any) -> bool:
        """Return whether a copy is still what it was."""
        return bool(given == self.argument)

    @property
    @abstractmethod
    def names(self) -> Sequence[str]:
        """The tensors that must have an offset, in the order in which a list of offsets has them."""

    @property
    def optional(self) -> Collection[str]:
        """The tensors whose offsets may be left out."""
        return ()

    @property
    @abstractmethod
    def least(self) -> int:
        """A number of bytes below which no plan exists."""

    @property
    def reserved(self) -> int:
        """The end of the last tensor that must be at an offset."""
        return 0

    @abstractmethod
    def place(self, offsets: Offsets, capacity: int = UNLIMITED) -> Plan | BufferPlan:
        """Return the plan that puts each tensor at its offset of one arena."""

    @abstractmethod
    def violations(self, plan: Plan | BufferPlan) -> Iterator[Violation]:
        """Yield everything that is false in a plan for this problem, coarse things first."""

    @abstractmethod
    def rename(self) -> tuple[PlannerProblem, dict[str, str]]:
        """Return the same problem with other names, and for each new name the old one."""

    @abstractmethod
    def reduce(self) -> Iterator[PlannerProblem]:
        """Yield problems that need no more memory than this one."""

    @abstractmethod
    def simplify(self) -> Iterator[PlannerProblem]:
        """Yield problems of the kind that are a little smaller, without a tensor or with less of one."""

    @abstractmethod
    def document(self) -> Any:
        """Return the problem as JSON. `read_problem` is the inverse."""

    @property
    @abstractmethod
    def example(self) -> str:
        """The problem as the Python expression of an `@example`."""


class BufferProblem(PlannerProblem):
    """Buffers with live ranges, to be placed in one arena."""

    kind = "buffers"
    noun = "buffer"

    def __init__(self, buffers: Sequence[TimedBuffer], unit: int | None = None) -> None:
        self.buffers = self.argument = list(buffers)
        self.unit = math.gcd(*(b.bytes for b in self.buffers)) if unit is None else unit

    def copy(self) -> list[TimedBuffer]:
        """Return another list of the buffers, which nothing can change."""
        return list(self.buffers)

    def rehash(self) -> list[TimedBuffer]:
        """Return the buffers with names that have other hashes."""
        return [replace(b, name=RehashedName(b.name)) for b in self.buffers]

    @property
    def names(self) -> list[str]:
        """The buffers, in their order."""
        return [buffer.name for buffer in self.buffers]

    @cached_property
    def least(self) -> int:
        """The bytes that are live at the peak."""
        return peak_live([(*piece, buffer.bytes) for buffer in self.buffers for piece in buffer.pieces()])

    @property
    def reserved(self) -> int:
        """The end of the last buffer with a fixed offset."""
        return max((b.offset + b.bytes for b in self.buffers if b.offset is not None), default=0)

    def place(self, offsets: Offsets, capacity: int = UNLIMITED) -> BufferPlan:
        """Return the plan; a buffer with gaps is a storage for each piece, as `verify-plan` reads MiniMalloc's CSV."""
        rows, names = [], []
        for buffer in self.buffers:
            for k, (first, last) in enumerate(buffer.pieces()):
                names.append(f"{buffer.name} part {k}" if k else buffer.name)
                rows.append((0, buffer.bytes, buffer.alignment, first, last, offsets[buffer.name]))
        return BufferPlan(Buffers((Arena(ARENA, max(1, capacity)),), build_storages(rows), (), Names.of(names)))

    def violations(self, plan: Plan | BufferPlan) -> Iterator[Violation]:
        """Yield what the naive checker finds, and which fixed offsets are others."""
        assert isinstance(plan, BufferPlan)
        fixed = {buffer.name: buffer.offset for buffer in self.buffers if buffer.offset is not None}
        yield from buffer_violations(BufferSubject(StatedBuffers(plan, {}), asked=fixed))

    def rename(self) -> tuple[BufferProblem, dict[str, str]]:
        """Return the buffers with names whose alphabetical order is the reverse."""
        new = reverse_names(self.names)
        return BufferProblem([replace(buffer, name=new[buffer.name]) for buffer in self.buffers]), _invert(new)

    def reduce(self) -> Iterator[BufferProblem]:
        """Yield the problem without one of its buffers, for each."""
        for k in range(len(self.buffers)):
            yield BufferProblem(self.buffers[:k] + self.buffers[k + 1 :])

    def simplify(self) -> Iterator[BufferProblem]:
        """Yield the problem with fewer buffers, or less of one."""
        yield from (BufferProblem(fewer, self.unit) for fewer in smaller_buffers(self.buffers, self.unit))

    def document(self) -> Any:
        """Return a list of buffers."""
        return [
            {"name": b.name, "first": b.first, "last": b.last, "bytes": b.bytes}
            | ({"alignment": b.alignment} if b.alignment != 1 else {})
            | ({"gaps": [list(gap) for gap in b.gaps]} if b.gaps else {})
            | ({"offset": b.offset} if b.offset is not None else {})
            for b in self.buffers
        ]

    @property
    def example(self) -> str:
        """A list of `TimedBuffer`."""
        return repr(self.buffers)


class ModelProblem(PlannerProblem):
    """A model whose tensors are placed in one arena, or that a whole plan places in any."""

    kind = "model"

    def __init__(self, model: Model) -> None:
        self.model, self.argument = model, model

    @cached_property
    def reference(self) -> ReferenceProgram:
        """What must run, as the verifier reads the model."""
        return read_ir(self.model)

    @cached_property
    def names(self) -> list[str]:
        """The tensors of the model, without views, and the scratch of its nodes."""
        return [name for name in self.reference.sizes if name not in self.optional]

    @cached_property
    def optional(self) -> Collection[str]:
        """Views, which show their bases, and what a body copies on leaving (T8), which no file of the model names."""
        stated = {tensor.name for tensor in self.model.tensors}
        stated |= {f"{node.name}.scratch{k}" for node in self.model.nodes for k in range(len(node.scratch))}
        return frozenset(self.reference.views) | (frozenset(self.reference.sizes) - stated)

    @cached_property
    def least(self) -> int:
        """The bytes of the largest tensor: what else may share bytes is the planner's choice."""
        return max((size for size, _ in self.sizes.values()), default=0)

    @cached_property
    def sizes(self) -> dict[str, tuple[int, str]]:
        """The bytes and the element type of each tensor. Raises ValueError for a model with open dimensions."""
        found: dict[str, tuple[int, str]] = {}
        for name, (size, dtype) in self.reference.sizes.items():
            if isinstance(size, Expression):
                raise ValueError(f"the size of {name!r} depends on an open dimension; return a plan, not offsets")
            found[name] = int(size), dtype
        return found

    def place(self, offsets: Offsets, capacity: int = UNLIMITED) -> Plan:
        """Return the plan that runs the model's steps with its tensors at these offsets.

        A view shows its base. A result of some bytes at the offset of an operand that it may overwrite is in place.
        Members of an alias group need no word: they are never live at one step.
        """
        reference, builder = self.reference, AllocationBuilder()
        builder.arenas.append(Arena(ARENA, max(1, capacity)))
        row = {name: t for t, name in enumerate(self.sizes)}
        at = self._complete(offsets)
        for name, (size, dtype) in self.sizes.items():
            shares, of, shift = self._sharing(name, at)
            role = reference.roles[name]
            flags = (
                IS_INPUT * (name in reference.inputs)
                + (IS_OUTPUT | IS_RETURNED) * (name in reference.outputs)
                + IS_SAVED * (name in reference.saved)
            )
            if role in KEPT and name not in reference.bindings.donated:
                flags |= IS_RETURNED
            alignment = reference.alignments[name]
            tensor = StatedTensor(name, size, 0, at[name], role, flags, dtype, alignment, shares)
            builder.tensors.append(tensor if of is None else tensor._replace(of=row[of], shift=shift))
        self._add_steps(builder, row)
        builder.apart += [(row[a], row[b]) for a, b in sorted(map(sorted, reference.must_not_alias))]
        builder.unproduced += sorted(reference.unproduced)
        return Plan(builder.allocation())

    def _complete(self, offsets: Offsets) -> dict[str, int]:
        """Add what is left out: views at their bases, and copies behind everything else."""
        found = dict(offsets)
        end = max((at + self.sizes[name][0] for name, at in offsets.items()), default=0)
        for name, (size, _) in self.sizes.items():
            if name not in found and name not in self.reference.views:
                found[name] = align_up(end, self.reference.alignments[name])
                end = found[name] + size
        return complete_views(found, self.reference.views)

    def _sharing(self, name: str, at: Offsets) -> tuple[Shares, str | None, int]:
        """Return why a tensor shares bytes, with which tensor, and from which of its bytes on."""
        reference = self.reference
        if name in reference.views:
            base, shift = reference.views[name]
            return Shares.VIEW, base, shift
        if not self.sizes[name][0]:
            return Shares.NONE, None, 0  # it has no byte that it could share
        for operand in self._operands.get(name, ()):
            if at[operand] == at[name]:
                return Shares.IN_PLACE, operand, 0
        return Shares.NONE, None, 0

    @cached_property
    def _operands(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for result, operand in sorted(self.reference.in_place):
            found.setdefault(result, []).append(operand)
        return found

    def _add_steps(self, builder: AllocationBuilder, row: Mapping[str, int]) -> None:
        """Add the steps of the model in its order, bodies included."""
        bodies: dict[str, list[str]] = {}
        for body, inside in self.reference.bodies.items():
            bodies.setdefault(inside.owner, []).append(body)
        waiting: dict[str, list[str]] = {}
        for step in self.reference.steps:
            reads, writes, changes = (
                tuple(row[name] for name in listed) for listed in (step.reads, step.writes, step.mutates)
            )
            owner = self.reference.bodies[step.body].owner if step.body else ""
            while waiting.get(owner) and step.body in waiting[owner]:
                builder.arm(waiting[owner].pop(0))
            op = step.domain, step.op
            if step.part is NodePart.ENTER:
                first, *rest = bodies[step.node]
                waiting[step.node] = rest
                iterates = self.reference.bodies[first].iterates
                exclusive = step.op == "If" and not step.domain and bool(rest)
                builder.begin(
                    step.node, op, reads, writes, iterates=iterates, exclusive=exclusive, body=first, changes=changes
                )
            elif step.part is NodePart.LEAVE:
                while waiting[step.node]:
                    builder.arm(waiting[step.node].pop(0))
                builder.end(reads, writes, changes)
            else:
                builder.step(step.node, op, reads, writes, changes)

    def violations(self, plan: Plan | BufferPlan) -> Iterator[Violation]:
        """Yield what the naive checker and the comparison with the model find."""
        if isinstance(plan, BufferPlan):
            raise ValueError("expected a plan with the steps of the model, got one that states lifetimes")
        mode = "inference" if plan.provenance is None else plan.provenance.mode
        donated = frozenset(self.model.bindings.donated)
        yield from violations(Subject(StatedPlan(plan, {}), RankModel(self.reference, {}), donated, mode))

    def rename(self) -> tuple[ModelProblem, dict[str, str]]:
        """Return the model with names of tensors whose alphabetical order is the reverse."""
        new = reverse_names([tensor.name for tensor in self.model.tensors])
        tensors = tuple(replace(tensor, name=new[tensor.name]) for tensor in self.model.tensors)
        donated = tuple(new.get(name, name) for name in self.model.bindings.donated)
        problem = self.of(replace(self.model, tensors=tensors, bindings=replace(self.model.bindings, donated=donated)))
        old = _invert(new)
        return problem, {name: old.get(name, name) for name in problem.reference.sizes}

    def rehash(self) -> Any:
        """Return what the planner is given, with names of tensors that have other hashes."""
        tensors = tuple(replace(tensor, name=RehashedName(tensor.name)) for tensor in self.model.tensors)
        donated = tuple(map(RehashedName, self.model.bindings.donated))
        bindings = replace(self.model.bindings, donated=donated)
        return self.of(replace(self.model, tensors=tensors, bindings=bindings)).argument

    @classmethod
    def of(cls, model: Model) -> ModelProblem:
        """Return the problem of this kind that a model states."""
        return cls(model)

    def reduce(self) -> Iterator[PlannerProblem]:
        """Yield the problem without one of the nodes whose results no node reads."""
        yield from map(self.of, models_without_an_end(self.model))

    def simplify(self) -> Iterator[PlannerProblem]:
        """Yield the problem without a node, a read, an output, or a tensor of the caller."""
        yield from map(self.of, smaller_models(self.model))

    def document(self) -> Any:
        """Return the model in its text format."""
        return text_writer.write(self.model)

    @property
    def example(self) -> str:
        """A call that reads the model from its text."""
        return f"testing.read_model('''\n{text_writer.write(self.model)}''')"


class GraphProblem(ModelProblem):
    """A `tmmu.Graph`."""

    kind = "graph"

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph.model())
        self.argument: Any = graph

    def is_unchanged(self, given: Any) -> bool:
        """Return whether the graph still makes the model."""
        return bool(given.model() == self.model)

    @classmethod
    def of(cls, model: Model) -> GraphProblem:
        """Return the problem of the graph that makes this model."""
        return cls(_graph_of(model))


class DagProblem(ModelProblem):
    """A directed acyclic graph of networkx: each node is a step that makes a tensor of its name.

    A node has the attributes `bytes`, `alignment` and `output`; the nodes are in execution order. An edge is a read.
    """

    kind = "dag"

    def __init__(self, dag: networkx.DiGraph, unit: int | None = None) -> None:
        super().__init__(_model_of(dag))
        self.argument: Any = dag
        self.unit = math.gcd(*(stated["bytes"] for _, stated in dag.nodes(data=True))) if unit is None else unit

    @property
    def dag(self) -> networkx.DiGraph:
        """The graph."""
        return self.argument

    def rehash(self) -> networkx.DiGraph:
        """Return the graph with labels that have other hashes."""
        import networkx

        return networkx.relabel_nodes(self.dag, {name: RehashedName(name) for name in self.dag})

    def is_unchanged(self, given: Any) -> bool:
        """Return whether nodes, edges and attributes are what they were."""
        nodes = [[name, given.nodes[name]] for name in given]
        return self.document() == {"nodes": nodes, "edges": [list(edge) for edge in given.edges]}  # type: ignore[no-any-return]  # of a document

    def rename(self) -> tuple[DagProblem, dict[str, str]]:
        """Return the graph with other labels."""
        import networkx

        new = reverse_names(list(self.dag))
        return DagProblem(networkx.relabel_nodes(self.dag, new)), _invert(new)

    @classmethod
    def of(cls, model: Model) -> DagProblem:
        """Return the problem of the graph whose nodes are the tensors of this model."""
        import networkx

        dag, outputs = networkx.DiGraph(), set(model.outputs)
        for node in model.nodes:
            [t] = node.writes
            tensor = model.tensors[t]
            dag.add_node(tensor.name, bytes=tensor.bytes, alignment=tensor.alignment, output=t in outputs)
            dag.add_edges_from((model.tensors[read].name, tensor.name) for read in node.reads)
        return DagProblem(dag)

    def simplify(self) -> Iterator[DagProblem]:
        """Yield the graph with fewer nodes, edges or outputs, or with fewer bytes of one."""
        yield from (DagProblem(smaller, self.unit) for smaller in smaller_dags(self.dag, self.unit))

    def document(self) -> Any:
        """Return nodes with their attributes, and edges."""
        nodes = [[name, self.dag.nodes[name]] for name in self.dag]
        return {"nodes": nodes, "edges": [list(edge) for edge in self.dag.edges]}

    @property
    def example(self) -> str:
        """A call that builds the graph."""
        return f"testing.read_dag({json.dumps(self.document())!r})"


def problem_of(value: Any) -> PlannerProblem:
    """Return what a strategy drew as a problem. Raises TypeError for a value of another type."""
    if isinstance(value, PlannerProblem):
        return value
    if isinstance(value, Model):
        return ModelProblem(value)
    if isinstance(value, Graph):
        return GraphProblem(value)
    if isinstance(value, (list, tuple)) and all(isinstance(each, TimedBuffer) for each in value):
        return BufferProblem(value)
    if type(value).__name__ == "DiGraph":
        return DagProblem(value)
    raise TypeError(
        f"expected a list of TimedBuffer, a DiGraph, a tmmu.Graph or a model from `given`, got {type(value).__name__}"
    )


def read_problem(kind: str, document: Any) -> PlannerProblem:
    """Return the problem of a kind that a document states. Raises ValueError, KeyError or TypeError if it does not."""
    if kind == BufferProblem.kind:
        return BufferProblem([
            TimedBuffer(**{**each, "gaps": tuple((int(low), int(high)) for low, high in each.get("gaps", ()))})
            for each in document
        ])  # fmt: skip
    if kind == DagProblem.kind:
        return DagProblem(read_dag(document))
    for made in (ModelProblem, GraphProblem):
        if kind == made.kind:
            return made.of(read_model(document))
    raise ValueError(f"unknown kind of problem {kind!r}")


def read_model(source: str) -> Model:
    """Return the model that a text states (`spec/text-ir.md`); blank lines before it are ignored."""
    return text.read(source.lstrip().encode(), "model")


def read_dag(document: Any) -> networkx.DiGraph:
    """Return the graph that a document, or its JSON text, states."""
    import networkx

    stated = json.loads(document) if isinstance(document, str) else document
    dag = networkx.DiGraph()
    for name, attributes in stated["nodes"]:
        dag.add_node(name, **attributes)
    dag.add_edges_from(map(tuple, stated["edges"]))
    return dag


def measure(plan: Plan | BufferPlan, granularity: int = 1) -> PlanSizes:
    """Measure a plan, all arenas together; scattered ones have no footprint. O(n log n).

    In the total each storage has at least a byte, rounded up to `granularity` and to the strictest alignment.
    """
    storages, footprint, peak, total, extent = plan.placement.storages, 0, 0, 0, 0
    for a, arena in enumerate(plan.placement.arenas):
        rows = [
            (int(storages.birth[k]), int(storages.death[k]), int(storages.bytes[k]), int(storages.offset[k]))
            for k in range(len(storages)) if storages.arena[k] == a
        ]  # fmt: skip
        strictest = max([arena.alignment, granularity, *storages.alignment[storages.arena == a].tolist()])
        if not arena.scattered:
            footprint += max((offset + size for _, _, size, offset in rows if size), default=0)
            extent += max((offset + max(size, 1) for _, _, size, offset in rows), default=0)
            peak += peak_live([row[:3] for row in rows]) if arena.reuse else sum(size for _, _, size, _ in rows)
            total += sum(align_up(max(size, 1), strictest) for _, _, size, _ in rows)
    return PlanSizes(footprint, peak, total, extent)


def peak_live(rows: Sequence[tuple[int, int, int]]) -> int:
    """Return the most bytes that are live at one step, of rows (first, last, bytes). O(n log n)."""
    change: dict[int, int] = {}
    for first, last, size in rows:
        change[first] = change.get(first, 0) + size
        change[last + 1] = change.get(last + 1, 0) - size
    live = most = 0
    for step in sorted(change):
        live += change[step]
        most = max(most, live)
    return most


def complete_views(offsets: Offsets, views: Mapping[str, tuple[str, int]]) -> dict[str, int]:
    """Add the offsets of views that are left out: those of their bases, and the byte there."""
    found = dict(offsets)

    def place(name: str) -> int:
        chain = []
        while name not in found:
            base, shift = views[name]
            chain.append((name, shift))
            name = base
        for view, shift in reversed(chain):
            found[view] = found[name] + shift
            name = view
        return found[name]

    for name in views:
        place(name)
    return found


def reverse_names(names: Sequence[str]) -> dict[str, str]:
    """Return a new name for each, so that the alphabetical order is the reverse."""
    return {name: f"x{len(names) - k:06}" for k, name in enumerate(sorted(names))}


def _invert(names: Mapping[str, str]) -> dict[str, str]:
    return {new: old for old, new in names.items()}


def _model_of(dag: networkx.DiGraph) -> Model:
    """Return the model of a graph, in the order of its nodes."""
    graph = Graph("dag")
    for name, attributes in dag.nodes(data=True):
        graph.tensor(name, (attributes["bytes"],), "uint8", alignment=attributes.get("alignment", 1))
        graph.node("Step", list(dag.predecessors(name)), name, domain="test")
    graph.output(*(name for name, attributes in dag.nodes(data=True) if attributes.get("output")))
    return graph.model()


def _graph_of(model: Model) -> Graph:
    """Return the calls that make a model without bodies, open dimensions and scratch."""
    graph, names = Graph(model.name), [tensor.name for tensor in model.tensors]
    for tensor in model.tensors:
        shape = tuple(int(size) for size in tensor.shape if not isinstance(size, Expression))
        if tensor.role is Role.INPUT:
            graph.input(tensor.name, shape, tensor.dtype)
        elif tensor.role is Role.PARAMETER:
            graph.parameter(tensor.name, shape, tensor.dtype)
        else:
            view = None if tensor.view is None else (names[tensor.view.base], tensor.view.offset)
            graph.tensor(tensor.name, shape, tensor.dtype, alignment=tensor.alignment, view_of=view)
    for node in model.nodes:
        graph.node(
            node.op, [names[t] for t in node.reads], [names[t] for t in node.writes], name=node.name,
            domain=node.domain, in_place={names[a]: names[b] for a, b in node.in_place},
        )  # fmt: skip
    graph.output(*(names[t] for t in model.outputs))
    return graph
