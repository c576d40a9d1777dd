"""Build a model by calls, each of which checks its arguments and names the error.

spec: LIB3.1, LIB3.2, LIB3.3, LIB3.4
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from operator import index

from tmmu.core import dtypes
from tmmu.core.errors import TmmuError
from tmmu.core.output import suggest_names
from tmmu.core.streams import LANE, WAIT, Lanes, StreamOrder
from tmmu.core.vocabulary import UINT64_END, Body, Model, Node, Role, Tensor, View
from tmmu.ir import order, validate

Names = str | Iterable[str]
"""One name, or several."""


class Graph:
    """A graph under construction: tensors, nodes in the order of the calls, and the tensors that the caller reads.

    Each method returns the name of what it declares, so that calls can be nested. Nodes that may overlap in time are
    declared by the objects that `stream` returns. Bodies of loops and branches, open dimensions and scratch memory need
    IR files or their text (`spec/text-ir.md`).

    Raises
    ------
    TmmuError
        INVALID_IR or INVALID_IR_SHAPES at the wrong call; LIVENESS_CYCLE by `model`.

    Examples
    --------
    >>> g = Graph("layer")
    >>> x, w = g.input("x", (8, 64)), g.parameter("w", (64, 64))
    >>> h = g.node("MatMul", [x, w], g.tensor("h", (8, 64)))
    >>> y = g.node("Relu", h, g.tensor("y", (8, 64)), in_place={"y": "h"})
    >>> g.output(y)
    >>> len(g.model().nodes)
    2
    """

    def __init__(self, name: str = "graph") -> None:
        self.name = name
        self._rows: dict[str, int] = {}
        self._tensors: list[Tensor] = []
        self._nodes: dict[str, Node] = {}
        self._inputs: list[int] = []
        self._outputs: list[int] = []
        self._apart: list[tuple[int, int]] = []
        self._lanes = Lanes()
        self._open: dict[str, str] = {}
        self._last: dict[str, str] = {}

    def input(self, name: str, shape: Iterable[int], dtype: str = "float32") -> str:
        """Declare a tensor that the caller writes before the first step; returns its name."""
        self._declare(name, shape, dtype, Role.INPUT)
        self._inputs.append(self._rows[name])
        return name

    def parameter(self, name: str, shape: Iterable[int], dtype: str = "float32") -> str:
        """Declare a weight, which the caller writes and which is kept. Returns its name."""
        return self._declare(name, shape, dtype, Role.PARAMETER)

    def tensor(
        self,
        name: str,
        shape: Iterable[int],
        dtype: str = "float32",
        *,
        role: str = "activation",
        alignment: int | None = None,
        at: int | None = None,
        view_of: str | tuple[str, int] | None = None,
        saved: bool = False,
    ) -> str:
        """Declare a tensor that a node writes; returns its name.

        Parameters
        ----------
        name, shape, dtype
            A unique name; sizes of at least 0; an element type of `spec/ir.cddl` such as "float32" or "int4".
        role
            "activation", "gradient", "optimizer", …: it determines the arena.
        alignment
            In bytes, a power of two; by default that of an element.
        at
            The byte of its arena where it must begin; by default the planner is free.
        view_of
            The tensor whose bytes it shows; with a number, `("x", 64)`, from that byte on.
        saved
            Whether a backward half reads it after the plan's last step.
        """
        found = {str(one): one for one in Role}
        if role not in found:
            raise _bad(f"tensor {name!r}", f"unknown role {role!r}", f"use one of {', '.join(found)}")
        shown, offset = (view_of, 0) if view_of is None or isinstance(view_of, str) else view_of
        base = None if shown is None else self._row(shown, f"tensor {name!r}")
        self._declare(name, shape, dtype, found[role])
        made = self._tensors[-1]
        view = None if base is None else View(base, offset, made.bytes)
        if alignment is not None and (alignment < 1 or alignment & (alignment - 1)):
            raise self._undo(
                name, f"expected an alignment that is a power of two, got {alignment}", "give a power of two"
            )
        if view is not None and not 0 <= offset <= offset + made.bytes <= self._tensors[view.base].bytes:
            of = self._tensors[view.base]
            what = f"it shows bytes {offset} to {offset + made.bytes} of {of.name!r}, which has {of.bytes}"
            raise self._undo(name, what, "show existing bytes")
        self._tensors[-1] = replace(
            made, alignment=alignment or made.alignment, view=view, saved_for_backward=saved, fixed_offset=at
        )  # fmt: skip
        return name

    def node(
        self,
        op: str,
        reads: Names,
        writes: Names,
        *,
        name: str | None = None,
        domain: str = "",
        in_place: Mapping[str, str] = {},
        changes: Names = (),
    ) -> str:
        """Declare an operation; it runs after the nodes that write its operands.

        Returns the first tensor that it writes.

        Parameters
        ----------
        op, domain
            The operator. One that the checker does not know is assumed to write its results and to share nothing.
        reads, writes
            Tensors, in the operator's order.
        name
            By default that of the first tensor it writes.
        in_place
            Results that may take the bytes of an operand: {result: operand}.
        changes
            Tensors among `writes` that it mutates: they were written before.
        """
        made = self._make_node(op, reads, writes, name, domain)
        return self._add_node(made, in_place, _names(changes), StreamOrder())

    def stream(self, name: str) -> GraphStream:
        """Return the stream of this name, a queue of nodes that run one after another. Its methods declare nodes."""
        if not isinstance(name, str) or not name or "\0" in name or not _is_utf8(name):
            raise _bad(f"stream {name!r}", "expected a non-empty text without NUL as the name", "rename it")
        if name.startswith(f"{LANE}/"):
            raise _bad(f"stream {name!r}", f"{LANE}/… are the streams of asynchronous operations", "rename it")
        return GraphStream(self, name)

    def output(self, *names: str) -> None:
        """Declare tensors that the caller reads after the last step, in this order."""
        for name in names:
            row = self._row(name, "an output")
            if row in self._outputs:
                raise _bad("outputs", f"{name!r} is listed twice", "list it once")
            self._outputs.append(row)

    def keep_apart(self, first: str, second: str) -> None:
        """Declare that two tensors may never share a byte."""
        self._apart.append((self._row(first, "keep_apart"), self._row(second, "keep_apart")))

    def alias(self, group: str, *names: str) -> None:
        """Declare an alias group: tensors that must have the same bytes, and are never needed at the same time."""
        if len(set(names)) < 2:
            raise _bad(f"alias group {group!r}", "it has fewer than two members", "name two tensors or more")
        rows = [self._row(name, f"alias group {group!r}") for name in names]
        for row in rows:
            if self._tensors[row].alias_group is not None:
                raise _bad(f"tensor {self._tensors[row].name!r}", "it is already in an alias group", "join the groups")
        for row in rows:
            self._tensors[row] = replace(self._tensors[row], alias_group=group)

    def model(self) -> Model:
        """Build the model, valid and in execution order: of the nodes that may come next, the first declared.

        O(n log n).
        """
        main = Body(-1, "", tuple(self._inputs), tuple(self._outputs))
        for name in self._open:
            raise _bad(f"node {name!r}", "it is started, and no node waits for it", f"wait({name!r}) on a stream")
        made = Model(self.name, tuple(self._tensors), tuple(self._nodes.values()), (main,), tuple(self._apart))
        validate.validate_model(made)
        return order.sort_topologically(made)

    def _declare(self, name: str, shape: Iterable[int], dtype: str, role: Role) -> str:
        place = f"tensor {name!r}"
        if not isinstance(name, str) or not name or "\0" in name or not _is_utf8(name):
            raise _bad(place, "expected a non-empty text without NUL as the name", "rename it")
        if name in self._rows:
            raise _bad(place, "the name is used twice", "give each tensor a different name")
        if dtype not in dtypes.TYPES:
            raise _bad(place, f"unknown element type {dtype!r}", f"use one of {', '.join(dtypes.BITS)}")
        try:
            sizes = tuple(-1 if isinstance(size, bool) else index(size) for size in shape)
        except TypeError:
            sizes = (-1,)
        if min(sizes, default=0) < 0:
            what = f"expected a shape of sizes, got {shape}"
            raise _bad(place, what, "give a list of integers of at least 0", "INVALID_IR_SHAPES")
        dtype = dtypes.TYPES[dtype]
        if (count := dtypes.nbytes(sizes, dtype)) >= UINT64_END:
            raise _bad(place, f"{count} bytes do not fit 64 bits", "give a smaller shape", "INVALID_IR_SHAPES")
        self._rows[name] = len(self._tensors)
        self._tensors.append(Tensor(name, sizes, dtype, role, count, dtypes.element_alignment(dtype)))
        return name

    def _make_node(self, op: str, reads: Names, writes: Names, name: str | None, domain: str) -> Node:
        """Return a node with these accesses, which is not yet declared."""
        read, written = _names(reads), _names(writes)
        if name is None and not written:
            raise _bad(f"node {op!r}", "it writes nothing and has no name", "give it a name")
        name = written[0] if name is None else name
        place = f"node {name!r}"
        if name in self._nodes:
            raise _bad(place, "the name is used twice", "give each node a different name")
        operands, results = (tuple(self._row(t, place) for t in names) for names in (read, written))
        return Node(name, op, operands, results, domain)

    def _add_node(self, node: Node, in_place: Mapping[str, str], changes: tuple[str, ...], order: StreamOrder) -> str:
        """Declare a node, and return the first tensor that it writes, or its name."""
        place = f"node {node.name!r}"
        changed = tuple(self._row(t, place) for t in changes)
        hints = tuple((self._row(r, place), self._row(o, place)) for r, o in in_place.items())
        for (result, operand), (to, of) in zip(hints, in_place.items(), strict=True):
            if result not in node.writes or operand not in node.reads:
                raise _bad(
                    place,
                    f"the hint {to!r} in place of {of!r} names no result and operand of it",
                    "name a result and an operand of this node",
                )
        for t in set(changed) - set(node.writes):
            raise _bad(place, f"{self._tensors[t].name!r} is changed but not written", "list it among the writes")
        first = next(iter(self._nodes.values()), None)
        if first is not None and bool(first.stream) != bool(order.stream):
            what = "other nodes are on streams" if not order.stream else "other nodes are on no stream"
            raise _bad(place, what, "declare each node by a stream, or none")
        made = replace(node, in_place=hints, mutates=changed, stream=order.stream, after=order.after)
        self._nodes[node.name] = made
        return self._tensors[made.writes[0]].name if made.writes else made.name

    def _undo(self, name: str, what: str, fix: str) -> TmmuError:
        """Remove the tensor declared last, and return the error about it."""
        self._tensors.pop()
        del self._rows[name]
        return _bad(f"tensor {name!r}", what, fix)

    def _row(self, name: str, place: str) -> int:
        if name not in self._rows:
            raise _bad(place, f"there is no tensor {name!r}", "declare it before it is used")
        return self._rows[name]


@dataclass(frozen=True)
class GraphStream:
    """A stream of a graph under construction; `waits` are nodes that have ended before the next one begins (X5).

    Raises
    ------
    TmmuError
        INVALID_IR at the wrong call, as those of `Graph`.

    Examples
    --------
    >>> g = Graph("fetch")
    >>> x, w = g.input("x", (8, 64)), g.parameter("w", (64, 64))
    >>> main = g.stream("main")
    >>> fetched = main.start("Fetch", w, g.tensor("fetched", (64, 64)), domain="my")
    >>> main.wait(fetched)
    'fetched.wait'
    >>> g.output(main.node("MatMul", [x, fetched], g.tensor("y", (8, 64))))
    >>> [(node.stream, node.after) for node in g.model().nodes]
    [('async/0', ()), ('main', ('fetched',)), ('main', ())]
    """

    graph: Graph
    name: str
    waits: tuple[str, ...] = ()

    def after(self, *nodes: str) -> GraphStream:
        """Return this stream for a node that begins after these nodes have ended, besides those before it here."""
        for node in nodes:
            if node not in self.graph._nodes:
                fix = suggest_names(node, self.graph._nodes, "declare it before it is waited for")
                raise _bad(f"stream {self.name!r}", f"there is no node {node!r}", fix)
        return replace(self, waits=tuple(dict.fromkeys((*self.waits, *nodes))))

    def node(
        self,
        op: str,
        reads: Names,
        writes: Names,
        *,
        name: str | None = None,
        domain: str = "",
        in_place: Mapping[str, str] = {},
        changes: Names = (),
    ) -> str:
        """Declare an operation on this stream; see `Graph.node`."""
        made = self.graph._make_node(op, reads, writes, name, domain)
        found = self.graph._add_node(made, in_place, _names(changes), StreamOrder(self.name, self.waits))
        self.graph._last[self.name] = made.name
        return found

    def start(
        self,
        op: str,
        reads: Names,
        writes: Names,
        *,
        name: str | None = None,
        domain: str = "",
        changes: Names = (),
    ) -> str:
        """Declare an asynchronous operation, which begins after the last node of this stream and overlaps with others.

        Its operands are in use until a node waits for it: see `wait`. Returns the first tensor that it writes, which
        is its name by default.
        """
        graph = self.graph
        made = graph._make_node(op, reads, writes, name, domain)
        last = graph._last.get(self.name)
        after = self.waits if last is None or last in self.waits else (*self.waits, last)
        found = graph._add_node(made, {}, _names(changes), StreamOrder(self.name, after))
        lane = graph._open[made.name] = graph._lanes.take(self.name)
        graph._nodes[made.name] = replace(graph._nodes[made.name], stream=lane)
        return found

    def wait(self, started: str, *, name: str | None = None) -> str:
        """Declare the node of this stream at which an asynchronous operation has ended; returns the node's name."""
        graph = self.graph
        if started not in graph._open:
            what = "nothing starts it, or a node waits for it already"
            raise _bad(f"operation {started!r}", what, f"name one of {', '.join(graph._open) or 'none'}")
        made = graph._make_node(WAIT[1], (), (), f"{started}.wait" if name is None else name, WAIT[0])
        order = StreamOrder(self.name, tuple(dict.fromkeys((*self.waits, started))))
        found = graph._add_node(made, {}, (), order)
        graph._lanes.give_back(graph._open.pop(started), self.name)
        graph._last[self.name] = made.name
        return found


def _names(given: Names) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _bad(place: str, what: str, fix: str, code: str = "INVALID_IR") -> TmmuError:
    return TmmuError(code, what, place=place, fix=fix, operator="UML_OS.Model.AnalyzeLiveness_v1", node_id=place)


def _is_utf8(name: str) -> bool:
    """Return whether a name can be written: it has no half of a surrogate pair."""
    return not any("\ud800" <= letter <= "\udfff" for letter in name)
