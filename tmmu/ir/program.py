"""A model as the list of steps that execute it: the input of liveness and the steps of a plan.

Nodes become steps in the model's order. A node with bodies becomes two, its *enter* and its *leave*, with the bodies'
steps between them (T8). Two kinds of tensors are added that no model lists: a node's scratch, and the copy of a body
output that is itself a formal input or a captured value, so that passing values to the next iteration is a simultaneous
copy. spec: T8.1, T8.2, T8.8, T8.9, T8.12
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tmmu.core.columns import Attribute, attribute_values
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import MAIN, Model, NodePart, Role, Tensor


class Step(NamedTuple):
    """One step: its node, the part of it, its body, and the tensors that it accesses."""

    node: int
    part: NodePart
    body: int
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    mutates: tuple[int, ...]

    @property
    def made(self) -> tuple[int, ...]:
        """The tensors that it writes without mutating, in order. O(accesses)."""
        if not self.mutates:
            return self.writes
        changed = frozenset(self.mutates)
        return tuple(t for t in self.writes if t not in changed)


@dataclass(frozen=True)
class ProgramSteps:
    """Steps as columns, which are fast to iterate; a single step is created on demand."""

    node: Sequence[int]
    part: Sequence[NodePart]
    body: Sequence[int]
    reads: Sequence[tuple[int, ...]]
    writes: Sequence[tuple[int, ...]]
    mutates: Sequence[tuple[int, ...]]

    def __len__(self) -> int:
        return len(self.node)

    def __getitem__(self, s: int) -> Step:
        return Step(self.node[s], self.part[s], self.body[s], self.reads[s], self.writes[s], self.mutates[s])

    def __iter__(self) -> Iterator[Step]:
        return map(Step, self.node, self.part, self.body, self.reads, self.writes, self.mutates)


class Range(NamedTuple):
    """The steps of the node that owns a body; (-1, -1) for the main graph."""

    enter: int
    leave: int


@dataclass(frozen=True)
class ModelProgram:
    """A model's steps in order, its tensors with copies and scratch appended, and the range of each body.

    `scratch_arena` maps a tensor to the arena that its scratch request names.
    """

    model: Model
    tensors: tuple[Tensor, ...]
    steps: ProgramSteps
    ranges: tuple[Range, ...]
    body_names: tuple[str, ...]
    parents: tuple[int, ...]
    scratch_arena: dict[int, str]

    @property
    def is_plain(self) -> bool:
        """Whether each node is one step with the same accesses: no node has bodies or scratch."""
        return len(self.steps) == len(self.model.nodes) and len(self.tensors) == len(self.model.tensors)


def view_root(tensors: Sequence[Tensor], t: int) -> int:
    """Return the tensor that `t` shows in the end if it is a view, otherwise `t`."""
    while (view := tensors[t].view) is not None:
        t = view.base
    return t


def build_program(model: Model) -> ModelProgram:
    """Return the steps of `model`, in the order of its nodes. O(nodes + accesses), at any depth of bodies.

    Raises INVALID_IR if a tensor of the model has the name of a scratch or copy to be added.
    """
    if len(model.bodies) == 1 and not any(attribute_values(model.nodes, "scratch")):
        return _plain_program(model)
    tensors = list(model.tensors)
    scratch_arena: dict[int, str] = {}
    bodies_of: dict[int, list[int]] = {}
    for b, body in enumerate(model.bodies[1:], 1):
        bodies_of.setdefault(body.owner, []).append(b)
    names = [_body_name(model, b) for b in range(len(model.bodies))]
    parents = tuple(MAIN if b == MAIN else model.nodes[body.owner].body for b, body in enumerate(model.bodies))
    home = find_defining_bodies(model)

    inside: list[list[int]] = [[] for _ in model.bodies]
    for n, node in enumerate(model.nodes):
        inside[node.body].append(n)

    steps: list[int] = []
    parts: list[NodePart] = []
    apart: dict[
        int, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
    ] = {}  # accesses that differ from those of their nodes
    ranges = [Range(-1, -1)] * len(model.bodies)
    entered: dict[int, int] = {}
    # Each entry is work to be done: a node n to execute, or ~n, the leave of one whose bodies have run.
    work = inside[MAIN][::-1]
    while work:
        n = work.pop()
        is_leaving, n = n < 0, n if n >= 0 else ~n
        node, bodies, part = model.nodes[n], bodies_of.get(n, ()), NodePart.WHOLE
        if is_leaving:
            reads, copies = _add_copies(model, bodies, names, home, tensors)
            for b in bodies:
                ranges[b] = Range(entered[n], len(steps))
            made = (t for t in apart[entered[n]][1] if t >= len(model.tensors))  # its scratch, made on entering
            part = NodePart.LEAVE
            apart[len(steps)] = (*reads, *made), (*copies, *node.writes), node.mutates
        elif bodies or node.scratch:
            scratch, written = _add_scratch(model, n, tensors, scratch_arena), node.writes
            if bodies:
                part = NodePart.ENTER
                written = tuple(t for b in bodies for t in model.bodies[b].inputs)
                entered[n] = len(steps)
                work.append(~n)
                for b in reversed(bodies):
                    work.extend(reversed(inside[b]))
            apart[len(steps)] = (*node.reads, *scratch), (*written, *scratch), () if bodies else node.mutates
        steps.append(n)
        parts.append(part)
    _check_made_names(tensors, len(model.tensors))
    nodes = [model.nodes[n] for n in steps]
    all_read, all_written, all_mutated = [x.reads for x in nodes], [x.writes for x in nodes], [x.mutates for x in nodes]
    for s, touched in apart.items():
        all_read[s], all_written[s], all_mutated[s] = touched
    columns = ProgramSteps(steps, parts, [node.body for node in nodes], all_read, all_written, all_mutated)
    whole = model.tensors + tuple(tensors[len(model.tensors) :])
    return ModelProgram(model, whole, columns, tuple(ranges), tuple(names), parents, scratch_arena)


def _plain_program(model: Model) -> ModelProgram:
    """Return the program of a model in which each node is one step."""
    nodes = model.nodes
    touched = (Attribute(nodes, which) for which in ("body", "reads", "writes", "mutates"))
    steps = ProgramSteps(range(len(nodes)), [NodePart.WHOLE] * len(nodes), *touched)
    return ModelProgram(model, model.tensors, steps, (Range(-1, -1),), ("",), (MAIN,), {})


def _check_made_names(tensors: list[Tensor], stated: int) -> None:
    """Check that the names of scratch and copies are not in the model."""
    names = {tensor.name for tensor in tensors[:stated]} if len(tensors) > stated else set()
    for tensor in tensors[stated:]:
        if tensor.name in names:
            raise TmmuError(
                "INVALID_IR",
                "the model needs this name for a scratch or a copy",
                place=f"tensor {tensor.name!r}",
                fix="rename the tensor",
                operator="UML_OS.Model.AnalyzeLiveness_v1",
                node_id=tensor.name,
            )
        names.add(tensor.name)


def find_defining_bodies(model: Model) -> list[int]:
    """Return the body in which each tensor is defined: that of its writer, or that of which it is a formal input.

    O(model).

    Tensors that the caller writes are defined in the main graph, including initializers of a body.
    """
    home = [MAIN] * len(model.tensors)
    if len(model.bodies) == 1:
        return home
    for node in model.nodes:
        for t in node.made:
            home[t] = node.body
    for b, body in enumerate(model.bodies):
        for t in body.inputs:
            home[t] = b
    return home


def _body_name(model: Model, b: int) -> str:
    return "" if b == MAIN else f"{model.nodes[model.bodies[b].owner].name}/{model.bodies[b].attribute}"


def _add_scratch(model: Model, n: int, tensors: list[Tensor], arenas: dict[int, str]) -> tuple[int, ...]:
    """Append the tensors of a node's scratch requests to `tensors`, and return their rows."""
    made = []
    for k, request in enumerate(model.nodes[n].scratch):
        name = f"{model.nodes[n].name}.scratch{k}"
        if request.arena is not None:
            arenas[len(tensors)] = request.arena
        made.append(len(tensors))
        tensors.append(Tensor(name, (request.bytes,), "uint8", Role.SCRATCH, request.bytes, request.alignment))
    return tuple(made)


def _add_copies(
    model: Model, bodies: Sequence[int], names: list[str], home: list[int], tensors: list[Tensor]
) -> tuple[list[int], list[int]]:
    """Return the reads of a leave (each body's outputs, each followed by its copy if it needs one), and the copies."""
    reads: list[int] = []
    copies: list[int] = []
    for b in bodies:
        body, seen = model.bodies[b], set[int]()
        for k, t in enumerate(body.outputs):
            reads.append(t)
            if home[t] != b or t in body.inputs or t in seen:
                source = model.tensors[t]
                name = f"{names[b]}/{source.name.removeprefix(names[b] + '/')}.copy{k}"
                copies.append(len(tensors))
                reads.append(len(tensors))
                tensors.append(Tensor(name, source.shape, source.dtype, Role.SCRATCH, source.bytes, source.alignment))
            seen.add(t)
    return reads, copies
