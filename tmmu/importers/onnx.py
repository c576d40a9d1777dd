"""ONNX files as models: every node of the user's own graph, with the sizes that `shapes` establishes.

Nodes, tensors and bodies follow the file: nothing is fused or reordered, and only what follows from constants alone
has no node. What the file does not state is added from the operators' definitions: which results are views, and which
may be computed in place. Both stay within one body, since what enters or leaves a body is a copy.
spec: T8.6, T8.12, T9.1, T10.1, T10.5, T10.12, T10.13, M3.2
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

import onnx

from tmmu.core.dtypes import BITS, element_alignment, most_bytes
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import MAIN, UNBOUND, Bindings, Body, Model, Node, Role, Tensor, View
from tmmu.importers.constants import constant_nodes
from tmmu.importers.opaque import is_opaque
from tmmu.ir.validate import validate
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
        The file; weights may be absent, external or larger than memory.
    bindings
        What fixes the shapes that the file leaves open: see `tmmu.onnx.resolve`. `donated` are the names of graph
        inputs and initializers whose bytes the caller gives up.

    Returns
    -------
    Model
        Tensors are the graph inputs, the initializers and the results in step order, a constant before the first
        that reads it; nodes stand in step order, a node with bodies before theirs. Branches that the bindings rule
        out are left out, and what follows from constants alone.

    Raises
    ------
    TmmuError
        As `resolve` does; INVALID_BINDING also if `donated` names what the caller does not write.

    Notes
    -----
    O(nodes + accesses x depth of bodies). `spec/tmmu.md` T8.12, T9.1, T10.1, T10.5, T10.12, M3.2.
    """
    return import_resolved(resolve(path, bindings), bindings.donated)


def import_resolved(resolved: Resolved, donate: Sequence[str] = ()) -> Model:
    """Import a file of which `resolve` has found the shapes."""
    try:
        model = _Import(resolved).model(_donated(resolved.graph.graph, donate))
        validate(model)
    except TmmuError as error:
        raise error.in_file(os.fspath(resolved.path)) from error.__cause__
    return model


def _donated(graph: onnx.GraphProto, donate: Sequence[str]) -> tuple[str, ...]:
    stored = (*(tensor.name for tensor in graph.initializer), *(s.values.name for s in graph.sparse_initializer))
    given = {*(value.name for value in graph.input), *stored}
    for name in donate:
        if name not in given:
            what, fix = "no graph input or initializer has this name", f"name one of {', '.join(sorted(given)[:12])}"
            raise TmmuError("INVALID_BINDING", what, place=f"--donate {name}", fix=fix, binding=name)
    return tuple(sorted(set(donate)))


class _Import:
    """A model in the making: rows are added in the order in which a run comes by them."""

    def __init__(self, resolved: Resolved) -> None:
        found = structure(resolved.graph.graph)
        self.resolved, self.main = resolved, found.main
        self.constant = constant_nodes(found, resolved.sizes, resolved.ruled_out)
        self.operators = Operators(resolved.graph)
        self.tensors: list[Tensor] = []
        self.rows: dict[str, int] = {}
        self.nodes: list[Node] = []
        self.scopes: list[GraphScope] = []
        self.owners: list[int] = []

    def model(self, donated: tuple[str, ...]) -> Model:
        """Walk the graph, with a stack of its own, as bodies may nest."""
        self._open(self.main, owner=-1)
        work = [(self.main, MAIN, position, -1) for position in reversed(range(self.main.end))]
        while work:
            scope, b, position, n = work.pop()
            if n >= 0:  # the bodies of node n are done
                self.nodes[n] = replace(self.nodes[n], writes=self._results(scope, position))
                continue
            if scope.ids[position] in self.constant:
                continue
            n = len(self.nodes)
            self.nodes.append(self._node(scope, b, position))
            bodies = [body for body in scope.bodies.get(position, ()) if body.name not in self.resolved.ruled_out]
            if not bodies:
                self._finish(scope, position)
                continue
            work.append((scope, b, position, n))
            for inner, body in reversed([(self._open(body, n), body) for body in bodies]):
                work.extend((body, inner, k, -1) for k in reversed(range(body.end)))
        made = tuple(map(self._body, self.scopes, self.owners))  # before `tensors`: one may return a constant
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
        """Add what a body is given and what it stores; the number of the body."""
        for name in (*scope.inputs, *scope.initializers):
            if scope.scoped(name) not in self.rows:
                given = Role.ACTIVATION if scope.parent is not None else Role.INPUT
                self._tensor(scope.scoped(name), Role.PARAMETER if name in scope.initializers else given)
        self.scopes.append(scope)
        self.owners.append(owner)
        return len(self.scopes) - 1

    def _tensor(self, name: str, role: Role, view: View | None = None) -> int:
        shape, dtype = self.resolved.sizes[name]
        self.rows[name] = len(self.tensors)
        size = most_bytes(shape, dtype)
        assert size is not None  # `resolve` has refused what has no maximum
        self.tensors.append(Tensor(name, shape, dtype, role, size, element_alignment(dtype), view))
        return self.rows[name]

    def _node(self, scope: GraphScope, body: int, position: int) -> Node:
        """A node that as yet writes nothing."""
        node = scope.nodes[position]
        reads = tuple(self._row(scope, position, name) for name in node.input if name)
        opaque = is_opaque(node, self.operators.schema(node))
        return Node(scope.ids[position], node.op_type, reads, (), domain_of(node), body, opaque=opaque)

    def _row(self, scope: GraphScope, position: int, name: str) -> int:
        home = scope.find(name, position)
        assert home is not None  # `resolve` has read the same graph
        if (key := home.scoped(name)) not in self.rows:  # a constant that is read for the first time
            self._tensor(key, Role.PARAMETER)
        return self.rows[key]

    def _finish(self, scope: GraphScope, position: int) -> None:
        """Add the results of the node that was added last, with what they may share."""
        node, added = scope.nodes[position], self.nodes[-1]
        in_place: tuple[tuple[int, int], ...] = ()
        base = None if added.opaque else self._viewed(scope, position)
        view = View(base, 0, self.tensors[base].bytes) if base is not None else None
        writes = self._results(scope, position, view)
        if view is None and domain_of(node) == "" and not added.opaque:
            rows = dict.fromkeys(self._row(scope, position, name) for name in takeable(node.op_type, list(node.input)))
            in_place = tuple((writes[0], row) for row in rows if self._interchangeable(writes[0], row))
        self.nodes[-1] = replace(added, writes=writes, in_place=in_place)

    def _results(self, scope: GraphScope, position: int, view: View | None = None) -> tuple[int, ...]:
        """The tensors that a node writes: all outputs but absent and unproduced ones; `view` is that of the first."""
        written = []
        for k, name in enumerate(scope.nodes[position].output):
            if name and scope.scoped(name) not in self.resolved.unproduced:
                written.append(self._tensor(scope.scoped(name), Role.ACTIVATION, view if k == 0 else None))
        return tuple(written)

    def _viewed(self, scope: GraphScope, position: int) -> int | None:
        """The tensor that the first output shows, where it is a view and its base belongs to the same body (T8)."""
        node = scope.nodes[position]
        row = row_of("", node.op_type)
        if not row.view or domain_of(node):
            return None
        name = node.input[0]
        if scope.find(name, position) is not scope or (scope.parent is not None and self._stored(scope, name)):
            return None
        if row.only_at_inference and not self._at_inference(scope, position):
            return None
        return self._row(scope, position, name)

    def _stored(self, scope: GraphScope, name: str) -> bool:
        """Whether no step of its own graph writes a value: it is an input, stored or a constant."""
        at = scope.defined[name]
        return at == GIVEN or scope.ids[at] in self.constant

    def _at_inference(self, scope: GraphScope, position: int) -> bool:
        """Whether a Dropout certainly passes its operand on: `training_mode` is absent, or a constant that is false.

        Before version 12 the mode of the run decides, and a run that trains is taken to leave it alone.
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

    def _interchangeable(self, result: int, operand: int) -> bool:
        """Whether two tensors have the same shape, for every shape of the envelope, and the same element width."""
        a, b = self.tensors[result], self.tensors[operand]
        return a.shape == b.shape and BITS[a.dtype] == BITS[b.dtype]

    def _body(self, scope: GraphScope, owner: int) -> Body:
        inputs = tuple(self.rows[scope.scoped(name)] for name in scope.inputs if self._is_given(scope, name))
        outputs = tuple(self._row(scope, scope.end, name) for name in scope.outputs)
        node = self.nodes[owner] if owner >= 0 else None
        again = node is not None and (node.opaque or iterates(node.domain, node.op))
        return Body(owner, scope.attribute, inputs, outputs, again)

    @staticmethod
    def _is_given(scope: GraphScope, name: str) -> bool:
        """Whether an input is one: an initializer that is listed as an input is a parameter."""
        return name not in scope.initializers
