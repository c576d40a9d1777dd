"""ONNX files as models: every node of the graph of the user, with the sizes that `tmmu.onnx` establishes.

Nodes, tensors and bodies follow the file: nothing is fused or reordered, and only nodes without a variable operand are
left out. Two properties come from the definitions of the operators: which results are views, and which may be computed
in place. Both stay within one body, because the operands and results of a body are copies.
spec: T8.6, T8.12, T9.1, T10.1, T10.5, T10.12, T10.13, M3.2
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

import onnx

from tmmu.core.dtypes import BITS, element_alignment, most_bytes
from tmmu.core.errors import TmmuError
from tmmu.core.streams import StreamOrder
from tmmu.core.vocabulary import MAIN, UNBOUND, Bindings, Body, Model, Node, Role, Tensor, View
from tmmu.importers.constants import constant_nodes
from tmmu.importers.onnx_streams import read_streams
from tmmu.importers.opaque import is_opaque
from tmmu.ir.validate import validate_model
from tmmu.onnx import Resolved, resolve
from tmmu.onnx.naming import domain_of
from tmmu.onnx.operators import Operators
from tmmu.onnx.structure import GIVEN, GraphScope, structure
from tmmu.onnx.values import stored_value
from tmmu.operators import iterates, row_of, takeable


def import_onnx(path: str | os.PathLike[str], bindings: Bindings = UNBOUND) -> Model:
    """Import the model in the ONNX file at `path`, under the given bindings.

    Parameters
    ----------
    path
        The file; weights may be missing, external or larger than memory.
    bindings
        The bindings of the open shapes of the file: see `tmmu.onnx.resolve`. `donated` are the names of graph inputs
        and initializers that the caller donates.

    Returns
    -------
    Model
        Its tensors are the graph inputs, the initializers and the results in step order; a constant is before the first
        node that reads it. Nodes are in step order, a node with bodies before those in its bodies. Branches that the
        bindings rule out and nodes that depend only on constants are left out.

    Raises
    ------
    TmmuError
        As `resolve` does; INVALID_BINDING also if `donated` names a tensor that the caller does not write.

    Notes
    -----
    O(nodes + accesses x depth of bodies). `spec/tmmu.md` T8.12, T9.1, T10.1, T10.5, T10.12, M3.2.
    """
    return import_resolved(resolve(path, bindings), bindings.donated)


def import_resolved(resolved: Resolved, donate: Sequence[str] = ()) -> Model:
    """Import a file whose shapes `resolve` has found."""
    try:
        model = _Import(resolved).model(_check_donated(resolved.graph.graph, donate))
        validate_model(model)
    except TmmuError as error:
        raise error.in_file(os.fspath(resolved.path)) from error.__cause__
    return model


def _check_donated(graph: onnx.GraphProto, donate: Sequence[str]) -> tuple[str, ...]:
    stored = (*(tensor.name for tensor in graph.initializer), *(s.values.name for s in graph.sparse_initializer))
    given = {*(value.name for value in graph.input), *stored}
    for name in donate:
        if name not in given:
            what, fix = "no graph input or initializer has this name", f"name one of {', '.join(sorted(given)[:12])}"
            raise TmmuError("INVALID_BINDING", what, place=f"--donate {name}", fix=fix, binding=name)
    return tuple(sorted(set(donate)))


class _Import:
    """A model in the making: rows are added in execution order."""

    def __init__(self, resolved: Resolved) -> None:
        found = structure(resolved.graph.graph)
        self.resolved, self.main = resolved, found.main
        self.constant = constant_nodes(found, resolved.sizes, resolved.ruled_out)
        self.streams = read_streams(resolved.graph, found, self.constant)
        self.operators = Operators(resolved.graph)
        self.tensors: list[Tensor] = []
        self.rows: dict[str, int] = {}
        self.nodes: list[Node] = []
        self.scopes: list[GraphScope] = []
        self.owners: list[int] = []

    def model(self, donated: tuple[str, ...]) -> Model:
        """Walk through the graph, with an explicit stack because bodies may nest, and return the model."""
        self._open(self.main, owner=-1)
        work = [(self.main, MAIN, position, -1) for position in reversed(range(self.main.end))]
        while work:
            scope, b, position, n = work.pop()
            if n >= 0:  # the bodies of node n are done
                self.nodes[n] = replace(self.nodes[n], writes=tuple(self._add_results(scope, position).values()))
                continue
            if scope.ids[position] in self.constant:
                continue
            n = len(self.nodes)
            self.nodes.append(self._make_node(scope, b, position))
            bodies = [body for body in scope.bodies.get(position, ()) if body.name not in self.resolved.ruled_out]
            if not bodies:
                self._finish(scope, position)
                continue
            work.append((scope, b, position, n))
            for inner, body in reversed([(self._open(body, n), body) for body in bodies]):
                work.extend((body, inner, k, -1) for k in reversed(range(body.end)))
        made = tuple(map(self._make_body, self.scopes, self.owners))  # before `tensors`: a body may return a constant
        return Model(
            self.resolved.graph.graph.name.replace("\0", "") or "main_graph",
            tuple(self.tensors),
            tuple(self.nodes),
            made,
            unproduced=tuple(sorted(self.resolved.unproduced)),
            bindings=replace(self.resolved.bindings, donated=donated),
            source_digest=self.resolved.source_digest,
        )

    def _open(self, scope: GraphScope, owner: int) -> int:
        """Add the inputs and initializers of a body; return the number of the body."""
        for name in (*scope.inputs, *scope.initializers):
            if scope.scoped(name) not in self.rows:
                given = Role.ACTIVATION if scope.parent is not None else Role.INPUT
                self._add_tensor(scope.scoped(name), Role.PARAMETER if name in scope.initializers else given)
        self.scopes.append(scope)
        self.owners.append(owner)
        return len(self.scopes) - 1

    def _add_tensor(self, name: str, role: Role, view: View | None = None) -> int:
        shape, dtype = self.resolved.sizes[name]
        self.rows[name] = len(self.tensors)
        size = most_bytes(shape, dtype)
        assert size is not None  # `resolve` has refused sizes without a maximum
        self.tensors.append(Tensor(name, shape, dtype, role, size, element_alignment(dtype), view))
        return self.rows[name]

    def _make_node(self, scope: GraphScope, body: int, position: int) -> Node:
        """Make a node without results."""
        node = scope.nodes[position]
        reads = tuple(self._find_row(scope, position, name) for name in node.input if name)
        name, opaque = scope.ids[position], is_opaque(node, self.operators.schema(node))
        stream, after = self.streams.get(name, StreamOrder()) if body == MAIN else StreamOrder()
        return Node(name, node.op_type, reads, (), domain_of(node), body, opaque=opaque, stream=stream, after=after)

    def _find_row(self, scope: GraphScope, position: int, name: str) -> int:
        home = scope.find(name, position)
        assert home is not None  # `resolve` has read the same graph
        if (key := home.scoped(name)) not in self.rows:  # a constant that is read for the first time
            self._add_tensor(key, Role.PARAMETER)
        return self.rows[key]

    def _finish(self, scope: GraphScope, position: int) -> None:
        """Add the results of the node that was added last, with the bytes that they may share."""
        node, added = scope.nodes[position], self.nodes[-1]
        base = None if added.opaque else self._find_base(scope, position)
        view = View(base, 0, self.tensors[base].bytes) if base is not None else None
        results = self._add_results(scope, position, view)
        in_place: list[tuple[int, int]] = []
        for k, result in results.items() if view is None and not added.opaque else ():
            taken = takeable(node.op_type, list(node.input), domain_of(node), k)
            rows = dict.fromkeys(self._find_row(scope, position, name) for name in taken)
            in_place += [(result, row) for row in rows if self._is_interchangeable(result, row)]
        self.nodes[-1] = replace(added, writes=tuple(results.values()), in_place=tuple(in_place))

    def _add_results(self, scope: GraphScope, position: int, view: View | None = None) -> dict[int, int]:
        """Add the results of a node by position, except absent and unproduced ones; `view` is that of the first."""
        written = {}
        for k, name in enumerate(scope.nodes[position].output):
            if name and scope.scoped(name) not in self.resolved.unproduced:
                written[k] = self._add_tensor(scope.scoped(name), Role.ACTIVATION, view if k == 0 else None)
        return written

    def _find_base(self, scope: GraphScope, position: int) -> int | None:
        """Return the tensor that the first output shows, if it is a view and its base is in the same body (T8)."""
        node = scope.nodes[position]
        row = row_of("", node.op_type)
        if not row.view or domain_of(node):
            return None
        name = node.input[0]
        if scope.find(name, position) is not scope or (scope.parent is not None and self._is_stored(scope, name)):
            return None
        if row.only_at_inference and not self._is_inference(scope, position):
            return None
        return self._find_row(scope, position, name)

    def _is_stored(self, scope: GraphScope, name: str) -> bool:
        """Return whether no step of its graph writes a value: it is an input, stored or a constant."""
        at = scope.defined[name]
        return at == GIVEN or scope.ids[at] in self.constant

    def _is_inference(self, scope: GraphScope, position: int) -> bool:
        """Return whether a Dropout certainly passes its operand on: `training_mode` is absent or a constant false.

        Before version 12 the mode of the run decides; the result is then true, because plans for training ignore it.
        """
        node = scope.nodes[position]
        if len(node.input) < 3 or not node.input[2]:
            return True
        name = node.input[2]
        home = scope.find(name, position)
        assert home is not None  # `resolve` has read the same graph
        if home.parent is None and name in self.resolved.bindings.values:
            return self.resolved.bindings.values[name].lower() in ("false", "0")
        at = home.defined[name]
        if at == GIVEN:
            stored = home.initializers.get(name) if name not in home.inputs else None
        else:
            constant = home.nodes[at]
            is_tensor = constant.op_type == "Constant" and constant.attribute[0].name == "value"
            stored = constant.attribute[0].t if is_tensor and domain_of(constant) == "" else None
        value = stored_value(stored) if stored is not None else None
        return value is not None and value.dtype.name == "bool" and value.size == 1 and not value.any()

    def _is_interchangeable(self, result: int, operand: int) -> bool:
        """Return whether two tensors have equal shapes, for every shape of the envelope, and equal element widths."""
        a, b = self.tensors[result], self.tensors[operand]
        return a.shape == b.shape and BITS[a.dtype] == BITS[b.dtype]

    def _make_body(self, scope: GraphScope, owner: int) -> Body:
        inputs = tuple(self.rows[scope.scoped(name)] for name in scope.inputs if self._is_given(scope, name))
        outputs = tuple(self._find_row(scope, scope.end, name) for name in scope.outputs)
        node = self.nodes[owner] if owner >= 0 else None
        again = node is not None and (node.opaque or iterates(node.domain, node.op))
        return Body(owner, scope.attribute, inputs, outputs, again)

    @staticmethod
    def _is_given(scope: GraphScope, name: str) -> bool:
        """Return whether a listed input is an input: one that is an initializer is a parameter."""
        return name not in scope.initializers
