"""Read a model in the project's IR as the steps that must be run, independently of the planner.

Such a model declares its views and in-place operands, and its declarations count. If the checker's tables do not state
the same about an operator, it is listed in `assumed`. Everything else is derived here again, only from the nodes and
bodies: the steps of a node with bodies, the copies on leaving, and that every read comes after its write and finds a
tensor in scope.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial

from proofs.readers.models.bodies import Handed, copy_outputs, leave_accesses
from proofs.readers.models.ir_tables import body_names, check_indices, check_names, inner_bodies, invalid
from proofs.readers.models.reference import ReferenceBody, ReferenceProgram, ReferenceStep
from proofs.readers.operators import (
    DROPOUT_ASSUMED,
    ViewTime,
    is_floating,
    is_view,
    overwritable,
    plain,
    qualify_name,
    row_of,
    shows_in_every_result,
)
from tmmu.core.dims.expressions import Dim, Expression
from tmmu.core.dims.maxima import is_negative
from tmmu.core.dtypes import BITS, nbytes
from tmmu.core.streams import StreamOrder
from tmmu.core.vocabulary import ARRIVAL, MAIN, Model, Node, NodePart, Phase, Role, Tensor, View

_CALLERS = frozenset({Role.PARAMETER, Role.OPTIMIZER})


def read_ir(model: Model) -> ReferenceProgram:
    """Read what must be run of a model, in the order of its nodes.

    Parameters
    ----------
    model
        Within each body, nodes in execution order. The bodies of one node run in turn, at the place of the node.

    Returns
    -------
    ReferenceProgram
        A node's k-th scratch request is the tensor `<node>.scratch<k>`, which its step writes and reads after all
        else. For a node with bodies, `enter` does so, and `leave` reads it again. Neither scratch nor the copies of T8
        are tensors of the model.

    Raises
    ------
    TmmuError
        INVALID_IR, naming the node or tensor, if the model is not valid: an index out of range, a name used
        twice, a tensor with two writers or none, a read before its write or out of scope, a view outside its base.

    Notes
    -----
    Implements spec: T8.1, T8.2, T8.6 to T8.12, I1.4, I1.9 and I1.10. O(tensors + nodes + accesses), times the
    nesting depth.
    """
    check_indices(model)
    check_names(model)
    reading = _Reading(model)
    reading.run()
    return reading.reference


class _Reading:
    """The walk over one model's nodes: a `ReferenceProgram` being filled, and a stack of nodes still to be read."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.reference = ReferenceProgram(
            has_attributes=False, bindings=model.bindings, source_digest=model.source_digest,
            assumed_sizes={"every operator": "the model file states sizes, but no attributes to derive them from"},
        )  # fmt: skip
        self.name = [tensor.name for tensor in model.tensors]
        self.body_name = body_names(model)
        self.owned: dict[int, list[int]] = {}
        for index, body in inner_bodies(model):
            self.owned.setdefault(body.owner, []).append(index)
        self.to_come = {row for node in model.nodes for row in node.made}
        self.to_come.update(row for _, body in inner_bodies(model) for row in body.inputs)
        late = (row for node in model.nodes if (node.domain, node.op) == ARRIVAL for row in node.writes)
        self.inputs = frozenset(model.inputs).difference(late)  # those that the caller writes before step 0
        self.home: dict[int, int] = {}
        self.formal: set[int] = set()
        self.inside: list[list[int]] = [[] for _ in model.bodies]
        for index, node in enumerate(model.nodes):
            self.inside[node.body].append(index)
        self.work: list[Callable[[], None]] = []

    def run(self) -> None:
        for tensor in self.model.tensors:
            self._record(tensor.name, size_of(tensor), tensor.dtype, tensor.role, tensor.alignment, tensor.shape)
        self._caller_views()
        self._line_up(MAIN)
        while self.work:
            self.work.pop()()
        self._finish()

    def _line_up(self, body: int) -> None:
        """Put the nodes of a body on the stack, the first on top."""
        for index in reversed(self.inside[body]):
            step = self._enter if index in self.owned else self._whole
            self.work.append(partial(step, index))

    def _finish(self) -> None:
        """Record the caller's inputs, outputs and restrictions.

        Check that each tensor is written and each body entered.
        """
        model, reference = self.model, self.reference
        reference.inputs = tuple(self.name[row] for row in model.inputs)
        reference.outputs = self._read(model.outputs, MAIN, "the model's outputs")
        for name, count in Counter(reference.outputs).items():
            if count > 1:
                raise invalid(f"the output is listed {count} times", name)
        run = {step.node for step in reference.steps}
        for node in model.nodes:
            if node.name not in run:
                raise invalid("the node is in a body that no step enters", node.name, "give the body an owner")
        written = {name for step in reference.steps for name in step.writes}
        for row, name in enumerate(self.name):
            if name not in written and not self._is_callers(row):
                raise invalid("nothing writes the tensor", name, "list it among the inputs, or give it a node")
        reference.opaque = {node.name for node in model.nodes if node.opaque}
        reference.streams = {node.name: StreamOrder(node.stream, node.after) for node in model.nodes if node.stream}
        reference.phases = {node.name: node.phase for node in model.nodes if node.phase is not Phase.FORWARD}
        reference.alias_groups = {x.name: x.alias_group for x in model.tensors if x.alias_group is not None}
        reference.saved = frozenset(tensor.name for tensor in model.tensors if tensor.saved_for_backward)
        reference.must_not_alias = frozenset(frozenset((self.name[a], self.name[b])) for a, b in model.must_not_alias)
        reference.fixed = {x.name: x.fixed_offset for x in model.tensors if x.fixed_offset is not None}
        reference.unproduced = frozenset(model.unproduced)

    def _whole(self, index: int) -> None:
        node = self.model.nodes[index]
        reads = self._read(node.reads, node.body, node.name)
        writes, mutates = self._write(node)
        scratch = self._scratch(node)
        self._step(node, NodePart.WHOLE, reads + scratch, writes + scratch, mutates)
        self._note_sharing(node)

    def _enter(self, index: int) -> None:
        """Emit a node's enter, which writes the formal inputs of its bodies. The bodies follow, and then its leave."""
        node = self.model.nodes[index]
        reads = self._read(node.reads, node.body, node.name)
        formal: list[str] = []
        for body in self.owned[index]:
            entry = self.model.bodies[body]
            parent = self.body_name[node.body]
            self.reference.bodies[self.body_name[body]] = ReferenceBody(node.name, parent, entry.iterates)
            formal.extend(self._make(row, body, node.name) for row in entry.inputs)
            self.formal.update(entry.inputs)
        scratch = self._scratch(node)
        self._step(node, NodePart.ENTER, reads + scratch, (*formal, *scratch))
        self.work.append(partial(self._leave, index))
        for body in reversed(self.owned[index]):
            self._line_up(body)

    def _leave(self, index: int) -> None:
        """Emit a node's leave: it reads the outputs of the bodies and writes the node's outputs."""
        node = self.model.nodes[index]
        handed: list[Handed] = []
        for body in self.owned[index]:
            rows = self.model.bodies[body].outputs
            names = self._read(rows, body, node.name)
            made = {self.name[row] for row in rows if self.home.get(row) == body and row not in self.formal}
            handed.extend(copy_outputs(self.body_name[body], names, made))
        for output in handed:
            if output.copy is not None:
                self._copy(output.copy, output.tensor)
        outputs, mutates = self._write(node)
        reads, writes = leave_accesses(handed, outputs)
        scratch = tuple(f"{node.name}.scratch{k}" for k in range(len(node.scratch)))
        self._step(node, NodePart.LEAVE, reads + scratch, writes, mutates)

    def _step(
        self, node: Node, part: NodePart, reads: tuple[str, ...], writes: tuple[str, ...], mutates: tuple[str, ...] = ()
    ) -> None:
        body = self.body_name[node.body]
        self.reference.steps.append(
            ReferenceStep(node.name, _domain(node), node.op, part, body, reads, writes, mutates)
        )

    def _read(self, rows: Iterable[int], body: int, place: str) -> tuple[str, ...]:
        """Return the names of tensors that are read in a body.

        Each was written before, by a step in scope or by the caller.
        """
        for row in rows:
            if row in self.home:
                if not self._is_around(self.home[row], body):
                    raise invalid(f"tensor {self.name[row]!r} is read outside its body", place)
            elif row in self.to_come:
                raise invalid(f"tensor {self.name[row]!r} is read before it is written", place, "order the nodes")
            elif not self._is_callers(row):
                raise invalid(f"tensor {self.name[row]!r} is read but nothing writes it", place)
        return tuple(self.name[row] for row in rows)

    def _is_around(self, outer: int, body: int) -> bool:
        """Whether `outer` is `body` or a body around it. Every body that is read was entered from the main graph."""
        while body not in (outer, MAIN):
            body = self.model.nodes[self.model.bodies[body].owner].body
        return body == outer

    def _write(self, node: Node) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the names of the tensors that a node writes, and of those that it mutates."""
        if not set(node.mutates) <= set(node.writes):
            raise invalid("the node mutates a tensor that it does not write", node.name)
        mutates, changed = self._read(node.mutates, node.body, node.name), frozenset(node.mutates)
        writes = (self.name[r] if r in changed else self._make(r, node.body, node.name) for r in node.writes)
        return tuple(writes), mutates

    def _make(self, row: int, body: int, place: str) -> str:
        """Record a tensor's one writer."""
        if row in self.home or row in self.inputs:
            raise invalid(f"tensor {self.name[row]!r} is written twice", place, "list it among the node's mutates")
        self.home[row] = body
        return self.name[row]

    def _is_callers(self, row: int) -> bool:
        """Whether the caller writes a tensor that no step writes."""
        return row in self.inputs or self.model.tensors[row].role in _CALLERS

    def _scratch(self, node: Node) -> tuple[str, ...]:
        names = tuple(f"{node.name}.scratch{k}" for k in range(len(node.scratch)))
        for name, wanted in zip(names, node.scratch, strict=True):
            self._record(name, wanted.bytes, "uint8", Role.SCRATCH, wanted.alignment, (wanted.bytes,))
        return names

    def _copy(self, copy: str, tensor: str) -> None:
        """Record a copy of T8: scratch, like the tensor that it copies."""
        reference = self.reference
        self._check_new(copy)
        reference.sizes[copy], reference.roles[copy] = reference.sizes[tensor], Role.SCRATCH
        reference.shapes[copy], reference.alignments[copy] = reference.shapes[tensor], reference.alignments[tensor]
        if tensor in reference.floating:
            reference.floating.add(copy)

    def _check_new(self, name: str) -> None:
        if name in self.reference.sizes:
            raise invalid("two tensors would have this name", name, "rename one of them")

    def _record(self, name: str, size: Dim, dtype: str, role: Role, alignment: int, shape: tuple[Dim, ...]) -> None:
        """Record a tensor's size and role."""
        self._check_new(name)
        if dtype not in BITS:
            raise invalid(f"the element type {dtype!r} is unknown", name)
        if is_negative(size) or alignment < 1:
            raise invalid("bytes and alignment must be positive", name)
        self.reference.sizes[name], self.reference.shapes[name] = (size, dtype), shape
        self.reference.roles[name], self.reference.alignments[name] = role, alignment
        if is_floating(dtype):
            self.reference.floating.add(name)

    def _caller_views(self) -> None:
        """Record the views that no step makes: windows in the caller's bytes. Each chain of them must end."""
        windows: dict[int, View] = {}
        for row, tensor in enumerate(self.model.tensors):
            if tensor.view is not None:
                self._check_view(row, tensor.view)
                if row not in self.to_come:
                    windows[row] = tensor.view
        ended: set[int] = set()
        for start, view in windows.items():
            if view.base in self.to_come:
                raise invalid(f"the caller cannot write it as a view of {self.name[view.base]!r}", self.name[start])
            self.reference.views[self.name[start]] = (self.name[view.base], view.offset)
            followed, row = set(), start
            while row in windows and row not in ended:
                if row in followed:
                    raise invalid("the view shows itself", self.name[row])
                followed.add(row)
                row = windows[row].base
            ended |= followed

    def _check_view(self, row: int, view: View) -> None:
        tensors = self.model.tensors
        if view.bytes != tensors[row].bytes or not 0 <= view.offset <= tensors[view.base].bytes - view.bytes:
            raise invalid(f"the view is not within its base {self.name[view.base]!r}", self.name[row])

    def _note_sharing(self, node: Node) -> None:
        """Record the views and in-place pairs that a node declares for tensors in its own body (T3, T8)."""
        tensors, reference = self.model.tensors, self.reference
        assumed, domain = False, "opaque" if node.opaque else _domain(node)
        listed = frozenset(overwritable(domain, node.op, node.reads))
        read, made = frozenset(node.reads), frozenset(node.made)
        for position, row in enumerate(node.writes):
            view = tensors[row].view
            if view is None or row not in made or view.base not in read or not self._is_local(view.base, node):
                continue
            reference.views[self.name[row]] = (self.name[view.base], view.offset)
            whole = (
                size_of(tensors[row]) == size_of(tensors[view.base]) and tensors[row].dtype == tensors[view.base].dtype
            )
            first = node.reads[0] == view.base and (position == 0 or shows_in_every_result(domain, node.op))
            if whole and first and is_view(domain, node.op):
                self._assume(DROPOUT_ASSUMED if row_of(domain, node.op).view is ViewTime.AT_INFERENCE else None)
            else:
                assumed = True
        for result, operand in node.in_place:
            if result not in made or operand not in read or not self._may_take(node, result, operand):
                continue
            reference.in_place.add((self.name[result], self.name[operand]))
            assumed |= not (result == node.writes[0] and operand in listed)
        self._assume(qualify_name(_domain(node), node.op) if assumed else None)

    def _assume(self, what: str | None) -> None:
        if what is not None and what not in self.reference.assumed:
            self.reference.assumed.append(what)

    def _may_take(self, node: Node, result: int, operand: int) -> bool:
        """Whether a declared in-place pair is valid: a fresh result and a read operand of one shape, in one body."""
        one, other = (
            (t.shape, size_of(t), BITS[t.dtype]) for t in (self.model.tensors[result], self.model.tensors[operand])
        )
        callers = operand not in self.home
        return one == other and self._is_local(operand, node) and (node.body == MAIN or not callers)

    def _is_local(self, row: int, node: Node) -> bool:
        """Whether a tensor belongs to the node's own body: neither captured nor a formal input."""
        if row in self.home:
            return self.home[row] == node.body and row not in self.formal
        return node.body == MAIN or self.name[row].startswith(f"{self.body_name[node.body]}/")


def _domain(node: Node) -> str:
    return plain(node.domain)


def size_of(tensor: Tensor) -> Dim:
    """Return the bytes of a tensor: the model's number, or an expression if its shape has expressions."""
    is_open = any(isinstance(dim, Expression) for dim in tensor.shape)
    return nbytes(tensor.shape, tensor.dtype) if is_open else tensor.bytes
