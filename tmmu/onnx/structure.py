"""The scopes of a model, and the check that every name means one value that exists when it is read.

A body can read values that are defined around it before the node that has the body. Names are defined once, a body
hides no visible name, and nodes are in an order in which every value is written before it is read. Otherwise the model
is refused here, so all later steps can walk the graph in order.
spec: I1.3, I1.4, I1.8, I1.9
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

import onnx

from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import MAX_BODY_DEPTH
from tmmu.onnx.naming import bodies_of, node_ids, within
from tmmu.onnx.sizes import refuse

NAMES_LIMIT = 1 << 26
"""The most characters, in total, of names that repeat the name of a body."""

GIVEN = -1
"""The position of values that no node writes: formal inputs and initializers."""


@dataclass(eq=False)
class GraphScope:
    """The main graph or one body. `defined` gives the position of the node that writes each value, or GIVEN.

    `owner` is the position, in `parent`, of the node that has the body; `bodies` are those of each node. `listed` are
    the `inputs` as a set: an initializer among them is a default that the caller may replace.
    """

    name: str
    attribute: str
    graph: onnx.GraphProto
    parent: GraphScope | None = None
    owner: int = GIVEN
    depth: int = 0
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    listed: frozenset[str] = frozenset()
    outputs: list[str] = field(default_factory=list)
    initializers: dict[str, onnx.TensorProto] = field(default_factory=dict)
    defined: dict[str, int] = field(default_factory=dict)
    bodies: dict[int, list[GraphScope]] = field(default_factory=dict)

    def scoped(self, value: str) -> str:
        """Return the model-wide name of a value that is defined here."""
        return within(self.name, value)

    def find(self, value: str, position: int) -> GraphScope | None:
        """Return the scope that defines `value` for the node at `position`, None if there is none. O(depth)."""
        scope: GraphScope | None = self
        while scope is not None:
            if scope.defined.get(value, scope.end) < position:
                return scope
            position, scope = scope.owner, scope.parent
        return None

    @property
    def end(self) -> int:
        """The position after the last node, where the outputs are read."""
        return len(self.nodes)


@dataclass(frozen=True)
class Structure:
    """The scopes of a model, outer before inner, the main graph first; `read` are the scoped names with a reader."""

    scopes: list[GraphScope]
    read: set[str]

    @property
    def main(self) -> GraphScope:
        """The main graph."""
        return self.scopes[0]


def structure(graph: onnx.GraphProto) -> Structure:
    """Return the scopes of `graph`, in which every name means one value that exists when it is read.

    Raises INVALID_IR or LIVENESS_CYCLE naming a node. O(nodes + accesses x depth).
    """
    scopes = [GraphScope("", "", graph)]
    characters = 0
    for scope in scopes:  # the list grows: each scope appends its bodies
        characters += len(scope.name) * _count_names(scope.graph)
        if characters > NAMES_LIMIT:
            what = f"the names inside of bodies, prefixed with those of the bodies, take over {NAMES_LIMIT} characters"
            raise refuse("INVALID_IR", f"body {scope.name[:100]!r}", what, "shorten the names of nodes with bodies")
        _define(scope)
        scopes.extend(chain.from_iterable(scope.bodies.values()))
    _check_unique(chain.from_iterable(scope.ids for scope in scopes), "two nodes are named")
    _check_unique(chain.from_iterable(map(scope.scoped, scope.defined) for scope in scopes), "two values are named")
    read: set[str] = set()
    for scope in scopes:
        for position, node in enumerate(scope.nodes):
            read.update(_resolve(scope, position, name) for name in node.input if name)
        read.update(_resolve(scope, scope.end, name) for name in scope.outputs)
    return Structure(scopes, read)


def _count_names(graph: onnx.GraphProto) -> int:
    """Count the names of nodes and values of a body that begin with its name."""
    return len(graph.input) + len(graph.initializer) + sum(1 + len(node.output) for node in graph.node)


def _define(scope: GraphScope) -> None:
    """Add the names of a scope. Raises INVALID_IR for a name defined twice, or visible from outside."""
    graph = scope.graph
    scope.nodes, scope.ids = list(graph.node), node_ids(graph, scope.name)
    scope.inputs, scope.outputs = [v.name for v in graph.input], [v.name for v in graph.output]
    scope.listed = frozenset(scope.inputs)
    for tensor in (*graph.initializer, *map(_make_dense, graph.sparse_initializer)):
        if tensor.name in scope.initializers:
            raise refuse("INVALID_IR", f"initializer {tensor.name!r}", "it is stored twice", "store it once")
        scope.initializers[tensor.name] = tensor
    if scope.parent is not None and (both := scope.initializers.keys() & scope.listed):
        what = f"{min(both)!r} is both its input and stored in it"
        raise refuse("INVALID_IR", f"body {scope.name!r}", what, "keep one of the two")
    for name in scope.inputs:
        _add(scope, name, GIVEN, f"input of {_describe(scope)}")
    for name in [name for name in scope.initializers if name not in scope.listed]:
        _add(scope, name, GIVEN, f"initializer of {_describe(scope)}")
    for position, node in enumerate(scope.nodes):
        place = f"node {scope.ids[position]!r}"
        if not node.op_type or "\0" in scope.ids[position]:
            raise refuse("INVALID_IR", place, "it has no operator, or its name has a NUL", "write the model again")
        for name in filter(None, node.output):
            _add(scope, name, position, place)
        if held := bodies_of(node):
            if scope.depth == MAX_BODY_DEPTH:
                raise refuse("INVALID_IR", place, f"bodies nest deeper than {MAX_BODY_DEPTH}", "flatten the model")
            scope.bodies[position] = [
                GraphScope(f"{scope.ids[position]}/{attribute}", attribute, body, scope, position, scope.depth + 1)
                for attribute, body in held
            ]
            _check_unique((attribute for attribute, _ in held), f"{place} has two bodies named")
            if any(not attribute or "\0" in attribute for attribute, _ in held):
                raise refuse(
                    "INVALID_IR", place, "the name of a body is empty or contains a NUL", "write the model again"
                )
    if scope.parent is None and len(set(scope.outputs)) != len(scope.outputs):
        raise refuse("INVALID_IR", "the main graph", "one of its outputs is listed twice", "list each once")


def _make_dense(sparse: onnx.SparseTensorProto) -> onnx.TensorProto:
    """Return the header of the dense tensor that a sparse one represents."""
    return onnx.TensorProto(name=sparse.values.name, dims=sparse.dims, data_type=sparse.values.data_type)


def _add(scope: GraphScope, name: str, position: int, place: str) -> None:
    if not name or "\0" in name:
        raise refuse("INVALID_IR", place, "the name of a value is empty or contains a NUL", "rename it")
    if name in scope.defined:
        raise refuse("INVALID_IR", place, f"{name!r} is defined twice", "give each value a unique name")
    if scope.parent is not None and scope.parent.find(name, scope.owner) is not None:
        raise refuse("INVALID_IR", place, f"{name!r} hides a value of the graph around it", "rename it")
    scope.defined[name] = position


def _check_unique(names: Iterator[str], what: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise refuse("INVALID_IR", "the model", f"{what} {name!r}", "rename one")
        seen.add(name)


def _describe(scope: GraphScope) -> str:
    return f"body {scope.name!r}" if scope.name else "the main graph"


def _resolve(scope: GraphScope, position: int, name: str) -> str:
    """Return the scoped name of the value that is read as `name`.

    Raises the refusal with the reason if there is none.
    """
    home = scope.find(name, position)
    if home is None:
        raise _make_unreadable(scope, position, name)
    return home.scoped(name)


def _make_unreadable(scope: GraphScope, position: int, name: str) -> TmmuError:
    at_end = position == scope.end
    place = f"output of {_describe(scope)}" if at_end else f"node {scope.ids[position]!r}"
    around: GraphScope | None = scope
    while around is not None and name not in around.defined:
        around = around.parent
    if around is None:
        fix = "write the model again with the value defined"
        return refuse("INVALID_IR", place, f"it reads {name!r}, which is not defined", fix)
    if (stuck := _find_on_cycle(around)) is not None:
        return refuse(
            "LIVENESS_CYCLE", f"node {around.ids[stuck]!r}", "it depends on its own result", "break the cycle"
        )
    writer = around.ids[around.defined[name]]
    what = f"it reads {name!r}, which node {writer!r} writes later"
    return refuse("INVALID_IR", place, what, "sort the nodes topologically")


def _find_on_cycle(scope: GraphScope) -> int | None:
    """Return a node of `scope` that depends on itself, including the reads of its bodies; None if there is none."""
    needs = [{scope.defined[name] for name in _list_needed(scope, n)} - {GIVEN} for n in range(len(scope.nodes))]
    after: list[list[int]] = [[] for _ in needs]
    for later, earlier in enumerate(needs):
        for node in earlier:
            after[node].append(later)
    waits = [len(earlier) for earlier in needs]
    ready = [node for node, count in enumerate(waits) if not count]
    while ready:
        for later in after[ready.pop()]:
            waits[later] -= 1
            if not waits[later]:
                ready.append(later)
    stuck = next((node for node, count in enumerate(waits) if count), None)
    # From a node that waits, go to one that it waits for and that also waits: the path leads into a cycle.
    met: set[int] = set()
    while stuck is not None and stuck not in met:
        met.add(stuck)
        stuck = min(node for node in needs[stuck] if waits[node])
    return stuck


def _list_needed(scope: GraphScope, position: int) -> Iterator[str]:
    """Yield the values of `scope` that a node or its bodies read."""
    yield from (name for name in scope.nodes[position].input if name in scope.defined)
    inside = list(scope.bodies.get(position, ()))
    while inside:
        body = inside.pop()
        inside.extend(chain.from_iterable(body.bodies.values()))
        for name in (*chain.from_iterable(node.input for node in body.nodes), *body.outputs):
            around = body
            while around is not scope and name not in around.defined and around.parent is not None:
                around = around.parent
            if around is scope and name in scope.defined:
                yield name
