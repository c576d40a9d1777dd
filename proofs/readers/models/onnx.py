"""Read an ONNX model as the steps that must be run, independently of the planner.

The importer turns the same file into a model for the planner; this module shares no code with it. Both read the file
and its bindings by `tmmu.onnx`. Its inference of sizes, and of branches that a binding rules out, is compared with the
results of `sizes`, which are derived from the operators' texts. Names, captured values, bodies, unproduced outputs,
views and in-place operands are derived here from the graph itself. Bodies nest to any depth that protobuf parses; the
walk keeps its own stack.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from onnx import GraphProto, NodeProto, TensorProto

from proofs.readers.models.bodies import copy_outputs, leave_accesses
from proofs.readers.models.covered import is_opaque
from proofs.readers.models.onnx_graph import (
    bodies_of,
    initializers,
    is_optional_output,
    node_names,
    opsets,
    short_domain,
)
from proofs.readers.models.onnx_streams import read_stream_orders
from proofs.readers.models.reference import ReferenceBody, ReferenceProgram, ReferenceStep
from proofs.readers.models.sizes import encodings
from proofs.readers.models.sizes.reading import Formal, SizeReading
from proofs.readers.operators import (
    OLD_DROPOUT_ASSUMED,
    ViewTime,
    is_floating,
    is_view,
    iterates,
    overwritable,
    plain,
    row_of,
)
from proofs.readers.operators.sizes.stored import value_of
from tmmu import onnx as shapes
from tmmu.core.dims.maxima import maximum
from tmmu.core.dtypes import element_alignment, nbytes
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Bindings, NodePart, Role

FOLDED_BYTES = 1 << 20
"""A node on constants has no step if its results have at most this many bytes."""

DROPOUT_TRAINS_SINCE = 12
"""The version since which a Dropout's operand states whether it trains. Before, the caller decided by its mode."""


def read_onnx(path: str | os.PathLike[str], plan_bindings: Bindings) -> ReferenceProgram:
    """Read what must be run of an ONNX model, under the bindings that a plan was made for.

    Parameters
    ----------
    path
        The model file; the data of its weights is not needed.
    plan_bindings
        Dimensions, shapes and values to bind, statements about tensors, and whether the file's shapes are trusted.
        Its `donated` is not read: the plan's statement of donation does not count.

    Returns
    -------
    ReferenceProgram
        Its `bindings` are those that resolving the shapes used, including defaults that decided something.

    Raises
    ------
    TmmuError
        INVALID_IR, INVALID_IR_SHAPES or INVALID_BINDING, naming the file and the node or value.

    Notes
    -----
    Implements spec: T8.1, T8.2, T8.6 to T8.12, T9.1, T10.1, T10.5, T10.12, T10.13, M3.2, V3.7 and V3.8.
    O(nodes + accesses), times the nesting depth for captured values.
    """
    return reference_of(shapes.resolve(path, plan_bindings))


def reference_of(resolved: shapes.Resolved) -> ReferenceProgram:
    """Return what must be run of a model with resolved shapes; see `read_onnx`."""
    reading = _Reading(resolved)
    try:
        reading.run()
    except TmmuError as refusal:
        raise refusal.in_file(str(resolved.path)) from None
    return reading.reference


@dataclass
class _Scope:
    """One graph during the walk: the tensors of its names so far, and the values that its nodes will still write."""

    body: str
    parent: _Scope | None
    graph: GraphProto
    values: dict[str, str] = field(default_factory=dict)
    formal: set[str] = field(default_factory=set)
    made: set[str] = field(default_factory=set)
    unproduced: set[str] = field(default_factory=set)
    pending: set[str] = field(default_factory=set)

    @property
    def prefix(self) -> str:
        return f"{self.body}/" if self.body else ""

    def scoped(self, value: str) -> str:
        return self.prefix + value


class _Reading:
    """The walk over one model: a `ReferenceProgram` being filled, and a stack of nodes that are still unread."""

    def __init__(self, resolved: shapes.Resolved) -> None:
        self.resolved, self.graph = resolved, resolved.graph.graph
        self.reference = ReferenceProgram(bindings=resolved.bindings, source_digest=resolved.source_digest)
        self.opset = opsets(resolved.graph)
        self.sizes = SizeReading(resolved.sizes, resolved.bindings, self.opset, self.graph)
        self.nodes: set[str] = set()
        self.unproduced: set[str] = set()
        self.constants: dict[str, TensorProto] = {}
        self.known: set[str] = set()
        self.work: list[Callable[[], None]] = []

    def run(self) -> None:
        main = _Scope("", None, self.graph)
        initialized = {name for name, _ in initializers(self.graph)}
        given = [value for value in self.graph.input if value.name not in initialized]
        inputs = [value.name for value in given]
        for value in given:
            self._sized(value.name)
            self.sizes.input(value)
            self._define(main, value.name, Role.INPUT)
        self.work.append(partial(self._open, main))
        while self.work:
            self.work.pop()()
        outputs = [self._read(main, value.name, "the graph's outputs") for value in self.graph.output]
        self.reference.size_differences = tuple(self.sizes.differences)
        self.reference.assumed_sizes = dict(sorted(self.sizes.assumed.items()))
        for name, count in Counter(outputs).items():
            if count > 1:
                raise _invalid(f"graph output {name!r} is listed {count} times", name)
        self.reference.inputs, self.reference.outputs = tuple(inputs), tuple(outputs)
        self.reference.unproduced = frozenset(self.unproduced)
        run = {step.node for step in self.reference.steps if not step.body}
        self.reference.streams = read_stream_orders(self.resolved.graph, run)

    def _open(self, scope: _Scope) -> None:
        """Add a graph's initializers and put its nodes on the stack."""
        encodings.check(scope.graph, scope.prefix)
        # An initializer that is also a graph input is only a default: the caller may replace its value (T10).
        overridable = {value.name for value in scope.graph.input}
        for name, tensor in initializers(scope.graph):
            self._sized(scope.scoped(name))
            has_value = name not in overridable or name in self.resolved.bindings.defaults
            self.sizes.stored(scope.scoped(name), tensor, has_value)
            self._define(scope, name, Role.PARAMETER)
            if name not in overridable and not is_floating(self.sizes.sizes[scope.scoped(name)].dtype):
                self.known.add(scope.scoped(name))
        for tensor in scope.graph.initializer:
            if tensor.name not in overridable:
                self.constants[scope.scoped(tensor.name)] = tensor
        scope.pending.update(name for node in scope.graph.node for name in node.output if name)
        names = node_names(scope.graph, scope.prefix)
        for name, node in zip(reversed(names), reversed(scope.graph.node), strict=True):
            self.work.append(partial(self._node, scope, node, name))

    def _node(self, scope: _Scope, node: NodeProto, name: str) -> None:
        """Emit a node's step, or its enter, with its bodies and its leave to follow."""
        if name in self.nodes:
            raise _invalid("two nodes have this name", name, "give the nodes different names")
        self.nodes.add(name)
        domain = short_domain(node.domain)
        operands = [self._look_up(scope, value, name) if value else None for value in node.input]
        if self._has_no_step(scope, node, operands):
            self.sizes.node(name, node, operands, self._results(scope, node))
            self._note_constant(scope, node)
            for value in filter(None, node.output):
                self._name(scope, value, name)
                scope.pending.discard(value)
                self.known.add(scope.values[value])
            return
        operands = [self._read(scope, value, name) if value else None for value in node.input]
        reads = tuple(operand for operand in operands if operand is not None)
        if is_opaque(node, self.opset):
            self.reference.opaque.add(name)
        bodies = [(f"{name}/{attribute}", graph) for attribute, graph in bodies_of(node)]
        if not bodies:
            results = self._results(scope, node)
            self.sizes.node(name, node, operands, results)
            writes = self._outputs(scope, node, name)
            self._note_constant(scope, node)
            if name not in self.reference.opaque:
                self._note_sharing(scope, node, domain)
            self._step(ReferenceStep(name, domain, node.op_type, NodePart.WHOLE, scope.body, reads, writes))
            return
        kept = [(body, graph) for body, graph in bodies if body not in self.resolved.ruled_out]
        again = name in self.reference.opaque or iterates(domain, node.op_type)
        if len(kept) < len(bodies) and (len(kept) != 1 or again):
            raise _invalid("only one branch of an If can be ruled out", name)
        entry = ReferenceBody(name, scope.body, again)
        scopes = [_Scope(body, scope, graph) for body, graph in kept]
        entered = [
            Formal(within.body.removeprefix(f"{name}/"), within.graph, self._formals(within)) for within in scopes
        ]
        self.sizes.enter(name, node, operands, entered, len(kept) < len(bodies))
        inner = [self._body(within, entry) for within in scopes]
        formal = tuple(within.values[value.name] for within in inner for value in within.graph.input)
        self._step(ReferenceStep(name, domain, node.op_type, NodePart.ENTER, scope.body, reads, formal))
        self.work.append(partial(self._leave, scope, node, name, operands, inner))
        for within in reversed(inner):
            self.work.append(partial(self._open, within))

    def _formals(self, within: _Scope) -> list[str]:
        """Return the tensors that `enter` writes for a body."""
        names = [within.scoped(value.name) for value in within.graph.input]
        for name in names:
            self._sized(name)
        return names

    def _body(self, within: _Scope, entry: ReferenceBody) -> _Scope:
        """Return a body's scope with its formal inputs, which `enter` writes."""
        self.reference.bodies[within.body] = entry
        for value in within.graph.input:
            self._define(within, value.name, Role.ACTIVATION)
            within.formal.add(value.name)
        return within

    def _leave(
        self, scope: _Scope, node: NodeProto, name: str, operands: list[str | None], inner: list[_Scope]
    ) -> None:
        """Emit a node's leave: it reads the outputs of the bodies and writes the node's outputs."""
        handed, given, domain = [], [], short_domain(node.domain)
        for within in inner:
            outputs = [self._read(within, value.name, name) for value in within.graph.output]
            given.append(outputs)
            made = {within.values[value] for value in within.made}
            for output in copy_outputs(within.body, outputs, made):
                if output.copy is not None:
                    self._tensor(output.copy, Role.SCRATCH, like=output.tensor)
                handed.append(output)
        self.sizes.leave(name, node, operands, given, self._results(scope, node))
        reads, writes = leave_accesses(handed, self._outputs(scope, node, name))
        self._step(ReferenceStep(name, domain, node.op_type, NodePart.LEAVE, scope.body, reads, writes))

    def _results(self, scope: _Scope, node: NodeProto) -> list[str | None]:
        """Return the tensors of a node's outputs by position, None for those that are absent or unproduced (T9)."""
        found: list[str | None] = []
        for position, value in enumerate(node.output):
            name = scope.scoped(value) if value else None
            if name is not None and name not in self.resolved.sizes:
                if not is_optional_output(node, position, self.opset):
                    self._sized(name)
                name = None
            found.append(name)
        return found

    def _outputs(self, scope: _Scope, node: NodeProto, name: str) -> tuple[str, ...]:
        """Return the tensors that a node writes: its outputs, except those that are absent or unproduced (T9)."""
        written = []
        for position, value in enumerate(node.output):
            if not value:
                continue
            scope.pending.discard(value)
            if scope.scoped(value) not in self.resolved.sizes and is_optional_output(node, position, self.opset):
                scope.unproduced.add(value)
                self.unproduced.add(scope.scoped(value))
                self.sizes.unproduced(node)
                continue
            written.append(self._define(scope, value, Role.ACTIVATION, name))
            scope.made.add(value)
        return tuple(written)

    def _define(self, scope: _Scope, value: str, role: Role, place: str | None = None) -> str:
        """Give a value of a scope its tensor."""
        self._name(scope, value, place)
        self._tensor(scope.scoped(value), role)
        return scope.values[value]

    def _name(self, scope: _Scope, value: str, place: str | None) -> None:
        """Bind a name of a scope to the value that it defines."""
        if value in scope.values:
            raise _invalid(
                f"value {value!r} is defined twice", place or scope.scoped(value), "give each value one writer"
            )
        scope.values[value] = scope.scoped(value)

    def _has_no_step(self, scope: _Scope, node: NodeProto, operands: list[str | None]) -> bool:
        """Whether a node's results are known before a run: it is a Constant, or reads only constants (T10.12)."""
        if plain(node.domain) or row_of("", node.op_type).value is None or bodies_of(node):
            return False
        if node.op_type == "Constant":
            return True
        if any(operand is not None and operand not in self.known for operand in operands):
            return False
        found = map(self.resolved.sizes.get, map(scope.scoped, filter(None, node.output)))
        most = [maximum(nbytes(*size)) for size in found if size is not None]
        return all(size is not None and size.value <= FOLDED_BYTES for size in most)

    def _tensor(self, name: str, role: Role, like: str | None = None) -> None:
        """Record a tensor's size and role."""
        if name in self.reference.roles:
            raise _invalid("two tensors would have this name", name, "rename one of the values")
        shape, dtype = self.sizes.sizes[like or name]
        self.reference.shapes[name] = shape
        self.reference.sizes[name] = (nbytes(shape, dtype), dtype)
        self.reference.alignments[name] = element_alignment(dtype)
        self.reference.roles[name] = role
        if is_floating(dtype):
            self.reference.floating.add(name)

    def _sized(self, name: str) -> None:
        """Refuse a tensor without an inferred size."""
        if name not in self.resolved.sizes:
            raise TmmuError(
                "INVALID_IR_SHAPES",
                "the value has no known shape",
                place=name,
                fix="bind its dims with --dim or --shape",
            )

    def _read(self, scope: _Scope, value: str, reader: str) -> str:
        """Return the tensor that a step or the caller reads. A constant becomes a tensor by being read (T10.13)."""
        name = self._look_up(scope, value, reader)
        if name in self.known and name not in self.reference.roles:
            self._tensor(name, Role.PARAMETER)
        return name

    def _look_up(self, scope: _Scope, value: str, reader: str) -> str:
        """Return the tensor of a name: this graph's own, or one captured from a graph around it."""
        around: _Scope | None = scope
        while around is not None:
            if value in around.values:
                return around.values[value]
            if value in around.pending:
                raise _invalid(f"value {value!r} is read before it is written", reader, "order the nodes topologically")
            if value in around.unproduced:
                raise _invalid(f"value {value!r} has no known shape and is read", reader, "bind its dims with --dim")
            around = around.parent
        raise _invalid(f"value {value!r} is read but nothing defines it", reader)

    def _step(self, step: ReferenceStep) -> None:
        self.reference.steps.append(step)

    def _note_constant(self, scope: _Scope, node: NodeProto) -> None:
        """Record the value of a Constant: a Dropout may take its training_mode from it."""
        if node.op_type == "Constant" and not plain(node.domain) and node.output:
            for attribute in node.attribute:
                if attribute.name == "value":
                    self.constants[scope.scoped(node.output[0])] = attribute.t

    def _note_sharing(self, scope: _Scope, node: NodeProto, domain: str) -> None:
        """Record what results may share with the operands that belong to this graph (T3, T8)."""
        for k, value in enumerate(node.output):
            if value in scope.made:
                self._note_result(scope, node, domain, k)

    def _note_result(self, scope: _Scope, node: NodeProto, domain: str, k: int) -> None:
        """Record what result `k` may share."""
        result, reference, first = scope.values[node.output[k]], self.reference, next(iter(node.input), "")
        if k == 0 and is_view(domain, node.op_type) and self._is_local(scope, first):
            base = scope.values[first]
            whole = reference.sizes[base] == reference.sizes[result]
            if whole and (row_of(domain, node.op_type).view is ViewTime.ALWAYS or self._at_inference(scope, node)):
                reference.views[result] = (base, 0)
        for operand in overwritable(domain, node.op_type, node.input, k):
            # A body's own initializer is written once, by the caller, and needed whenever the body runs again.
            if self._is_local(scope, operand) and (not scope.body or operand in scope.made):
                tensor = scope.values[operand]
                same_shape = reference.shapes[tensor] == reference.shapes[result]
                if same_shape and reference.width(tensor) == reference.width(result):
                    reference.in_place.add((result, tensor))

    def _is_local(self, scope: _Scope, value: str) -> bool:
        """Whether a value is this graph's own: neither captured nor a body's formal input."""
        return value in scope.values and value not in scope.formal

    def _at_inference(self, scope: _Scope, node: NodeProto) -> bool:
        """Whether a Dropout certainly passes its operand on."""
        if self.opset[""] < DROPOUT_TRAINS_SINCE and OLD_DROPOUT_ASSUMED not in self.reference.assumed:
            self.reference.assumed.append(OLD_DROPOUT_ASSUMED)
        value = node.input[2] if len(node.input) > 2 else ""
        if not value:
            return True
        tensor = self._look_up(scope, value, node.name)
        if tensor in self.resolved.bindings.values:
            return self.resolved.bindings.values[tensor].lower() in {"false", "0"}
        known = value_of(self.constants[tensor]) if tensor in self.constants else None
        return known is not None and known.dtype == "bool" and known.cells.size == 1 and not known.cells.any()


def _invalid(what: str, place: str, fix: str | None = None) -> TmmuError:
    return TmmuError("INVALID_IR", what, place=place, fix=fix, node_id=place)
