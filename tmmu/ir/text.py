"""Read a model as text, a statement a line (`spec/text-ir.md`): the contents of `.ir.txt` files.

Statements are collected first and resolved then, so that they may be in any order if order has no meaning.
`tmmu.ir.text_writer` writes this format. spec: X3.1, X3.2, X3.3, X3.4, X3.5, X3.6, X3.7, X3.8, X3.9, X3.10,
X3.11, X3.12
"""

from __future__ import annotations

import re
from dataclasses import replace

from tmmu.core import dtypes
from tmmu.core.dims.expressions import Dim, Unwieldy, close_shape
from tmmu.core.dims.text import Shapes
from tmmu.core.statements import ARROW, Format, TextLine, format_operator, parse_operator, statements
from tmmu.core.streams import ORDER_WORDS, WAIT, StreamOrder, StreamReader
from tmmu.core.vocabulary import (
    ARRIVAL,
    MAIN,
    Bindings,
    Body,
    Model,
    Node,
    Phase,
    Role,
    Scratch,
    SteppedDim,
    Tensor,
    View,
)
from tmmu.ir import order
from tmmu.ir.arrivals import make_arrival
from tmmu.ir.columns import MAX_RANK

FORMAT = Format("tmmu-ir-text", 1, "INVALID_IR", frozenset(
    ("input", "output", "parameter", "optimizer", "gradient", "scratch", "saved", "donated", "bytes", "align", "view",
     "strides", "inplace", "changes", "arena", "backward", "loop", "opaque", *ORDER_WORDS),
), frozenset(ORDER_WORDS))  # fmt: skip
"""The first line of a text model, and the words that must be quoted if they are names."""

ROLES = {str(role): role for role in Role if role is not Role.ACTIVATION}
MARKS = frozenset((*ROLES, "output", "saved", "donated", "bytes", "align", "at", "view", "strides", "from"))
OPTIONS = frozenset(("inplace", "changes", "scratch", "backward", "optimizer", "opaque", *ORDER_WORDS))
GRAPH = ("node", "start", "wait", "begin", "arm", "end")
STATEMENTS = (
    "tensor", *GRAPH, "alias", "apart", "order", "inputs", "outputs", "unproduced", "dim", "shape", "value",
    "default", "stated", "step", "trusted", "kept", "model", "source",
)  # fmt: skip


def read(data: bytes, file: str) -> Model:
    """Read the model that a text states, its nodes in the author's order; it is not yet validated. O(bytes).

    Raises INVALID_IR, INVALID_IR_SHAPES or LIVENESS_CYCLE with FILE:LINE:COLUMN as the file.
    """
    found: dict[str, list[TextLine]] = {word: [] for word in STATEMENTS}
    for statement in statements(data, file, FORMAT):
        word = statement.take("a statement")
        if word not in found:
            raise statement.refuse(f"unknown statement {word}", f"use one of {', '.join(STATEMENTS)}")
        # The statements of the graph form one list: the order of its lines determines the nesting.
        found["node" if word in GRAPH else word].append(statement)
    return _Builder(found).model()


class _Builder:
    """A model under construction; `found` are the statements by their first word, in the order of the lines."""

    def __init__(self, found: dict[str, list[TextLine]]) -> None:
        self.found = found
        self.rows: dict[str, int] = {}
        self.tensors: list[Tensor] = []
        self.nodes: list[Node] = []
        self.node_rows: dict[str, int] = {}
        self.bodies: list[Body] = []
        self.streams = StreamReader("node")
        self.orders: list[tuple[TextLine, StreamOrder]] = []
        self.marked: dict[str, list[int]] = {"input": [], "output": [], "donated": []}
        self.late: dict[str, list[int]] = {}  # the inputs that arrive directly before each node
        self.arrivals: dict[int, list[int]] = {}

    def one(self, word: str) -> TextLine | None:
        """Return the only statement that begins with a word, or None."""
        if len(self.found[word]) > 1:
            raise self.found[word][1].refuse(f"the statement {word} occurs twice", "state it once")
        return next(iter(self.found[word]), None)

    def model(self) -> Model:
        bindings = self.bindings()
        self.declare(Shapes({**bindings.ranges, **{name: (size, size) for name, size in bindings.dims.items()}}))
        self.groups()
        self.graph()
        donated = tuple(sorted(self.tensors[t].name for t in self.marked["donated"]))
        name, source, stated = self.one("model"), self.one("source"), self.one("order")
        main = Body(-1, "", self.sequence("input"), self.sequence("output"))
        made = Model(
            "model" if name is None else name.last("a name"), tuple(self.tensors), tuple(self.nodes),
            (main, *self.bodies), tuple(statement.pair(self.rows, "tensor") for statement in self.found["apart"]),
            tuple(statement.last("a name") for statement in self.found["unproduced"]),
            replace(bindings, donated=donated), None if source is None else _take_digest(source),
        )  # fmt: skip
        return made if stated is None else self.reorder(made, stated)

    def bindings(self) -> Bindings:
        """Read the dimensions, and the other bindings of the imported model. spec: X3.3, X3.9"""
        names: set[str] = set()
        dims: dict[str, int] = {}
        ranges: dict[str, tuple[int, int]] = {}
        for statement in self.found["dim"]:
            names.add(name := statement.new(names, "dimension"))
            low = statement.integer("a size")
            high = low if statement.peek() is None else statement.integer("a size", low)
            statement.end()
            if low == high:
                dims[name] = low
            else:
                ranges[name] = low, high
        steps: dict[str, SteppedDim] = {}
        for statement in self.found["step"]:
            name = statement.new(steps, "step")
            steps[name] = SteppedDim(
                statement.take("a name"), statement.integer("a size"), statement.integer("a step", 1)
            )
            statement.end()
        shapes: dict[str, tuple[int, ...]] = {}
        for statement in self.found["shape"]:
            name = statement.new(shapes, "shape")
            shapes[name] = close_shape(_take_shape(statement, Shapes({})))
            statement.end()
        texts: dict[str, dict[str, str]] = {"value": {}, "default": {}, "stated": {}}
        for word, known in texts.items():
            for statement in self.found[word]:
                name = statement.new(known, word)
                known[name] = statement.last("a value")
        trusted, kept = self.one("trusted"), self.one("kept")
        for stated, word in ((trusted, "shapes"), (kept, "inputs")):
            if stated is not None:
                stated.expect(word)
                stated.end()
        return Bindings(
            dims, shapes, texts["value"], texts["default"], (), trusted is not None, dict(sorted(ranges.items())),
            texts["stated"], steps, kept is not None,
        )  # fmt: skip

    def declare(self, shapes: Shapes) -> None:
        """Read the tensors. Views and groups name tensors of any line, so that rows are assigned first. spec: X3.2"""
        starts = []
        for row, statement in enumerate(self.found["tensor"]):
            self.rows[statement.new(self.rows, "tensor")] = row
            starts.append(statement)
        for name, statement in zip(self.rows, starts, strict=True):
            self.tensors.append(self.tensor(name, statement, shapes))

    def tensor(self, name: str, statement: TextLine, shapes: Shapes) -> Tensor:
        dtype = statement.choice(dtypes.TYPES, "an element type")
        shape, at = _take_shape(statement, shapes), statement.mark - 1
        try:
            size = dtypes.most_bytes(shape, dtype)
        except Unwieldy as error:
            raise statement.refuse(str(error), "bind a dimension to a single size", at, SHAPES) from error
        if size is None:
            raise statement.refuse(
                "no maximum of its size was found", "bind one of its dimensions to a single size", at, SHAPES
            )
        row, alignment, saved = len(self.tensors), dtypes.element_alignment(dtype), False
        role: Role | None = None
        view: View | None = None
        fixed: int | None = None
        for word in statement.words(MARKS):
            if word in ROLES:
                role = statement.role(role, ROLES[word])
            if word in self.marked:
                self.marked[word].append(row)
            elif word == "saved":
                saved = True
            elif word == "bytes":
                if (stated := statement.integer("bytes")) != size:
                    what = f"expected {size} bytes by shape and element type, got {stated}"
                    raise statement.refuse(what, "correct one of them", None, SHAPES)
            elif word == "align":
                alignment = statement.alignment()
            elif word == "at":
                fixed = statement.integer("a byte of its arena")
            elif word == "from":
                if role is not Role.INPUT:
                    raise statement.refuse("only an input arrives late", "write input from NODE")
                self.late.setdefault(statement.name("a node"), []).append(row)
            elif word == "view":
                view = View(statement.row(self.rows, "tensor"), statement.integer("a byte of the base"), size)
            elif word == "strides":
                if view is None:
                    raise statement.refuse("strides of a tensor that is not a view", "write them after view BASE SHIFT")
                view = view._replace(strides=_take_strides(statement))
        return Tensor(name, shape, dtype, role or Role.ACTIVATION, size, alignment, view, None, saved, fixed)

    def groups(self) -> None:
        """Read alias groups, each a name and its members. spec: X3.5"""
        names: set[str] = set()
        for statement in self.found["alias"]:
            names.add(group := statement.new(names, "alias group"))
            members = statement.rows(self.rows, "tensor")
            for t in members:
                if self.tensors[t].alias_group is not None:
                    raise statement.refuse(f"it is already in the alias group {self.tensors[t].alias_group!r}")
                self.tensors[t] = replace(self.tensors[t], alias_group=group)
            if len(members) < 2:
                raise statement.refuse("expected a second tensor", "write alias GROUP A B", statement.mark)
            statement.end()

    def graph(self) -> None:
        """Read nodes and bodies, with a stack of the open nodes. spec: X3.4, X3.6"""
        opened: list[tuple[int, TextLine, int]] = []
        body = MAIN
        for statement in self.found["node"]:
            word = statement.first
            if word in ("node", "begin", "start", "wait"):
                if opened and body == opened[-1][2]:
                    raise statement.refuse("the node is in no arm", "write arm NAME before it", 0)
                self.nodes.append(self.node(statement, body))
                self.add_arrivals(statement, body)
                if word == "begin":
                    opened.append((len(self.nodes) - 1, statement, body))
                continue
            if not opened:
                raise statement.refuse(f"{word} without begin", "write begin before it", 0)
            owner, _, outer = opened[-1]
            if word == "arm":
                attribute = statement.name("the name of an arm")
                formals, results = self.take_accesses(statement)
                loop = statement.taken("loop")
                self.bodies.append(Body(owner, attribute, formals, results, loop))
                body = len(self.bodies)
            else:
                if (name := statement.name("a node")) != self.nodes[owner].name:
                    raise statement.refuse(f"expected the end of {self.nodes[owner].name!r}, got the end of {name!r}")
                if body == outer:
                    raise statement.refuse("a node that begins has no arm", "state it with node", 0)
                opened.pop()
                body = outer
            statement.end()
        if opened:
            raise opened[-1][1].refuse(f"{self.nodes[opened[-1][0]].name!r} has no end", "write end NAME", 0)
        for name, (row, *_) in self.late.items():
            raise self.found["tensor"][row].refuse(f"no line declares the node {name!r}", f"add one: node {name} …")
        self.streams.end()
        for statement, (_, after) in self.orders:
            for name in after:
                if name not in self.node_rows:
                    raise statement.refuse(f"no line declares the node {name!r}", f"add one: node {name} …")

    def add_arrivals(self, statement: TextLine, body: int) -> None:
        """Put the arrivals of the inputs that come with the last node before it. spec: X3.12"""
        node = self.nodes[-1]
        late = self.late.pop(node.name, [])
        if late and (body != MAIN or node.stream):
            what = f"{self.tensors[late[0]].name!r} cannot arrive with it: it is inside of a body or on a stream"
            raise statement.refuse(what, f"write node NAME {format_operator(*ARRIVAL)} -> INPUTS before it", 0)
        for t in late:
            arrival = make_arrival(self.tensors[t].name, t)
            if arrival.name in self.node_rows:
                raise statement.refuse(f"node {arrival.name!r} is declared twice", "rename that node", 0)
            row = self.node_rows[arrival.name] = self.node_rows[node.name]
            self.node_rows[node.name] = row + 1
            self.nodes.insert(row, arrival)
        row = self.node_rows[node.name]
        self.arrivals[row] = list(range(row - len(late), row))

    def take_accesses(self, statement: TextLine) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Take `READS -> WRITES`."""
        reads = statement.rows(self.rows, "tensor")
        statement.expect(ARROW)
        return reads, statement.rows(self.rows, "tensor")

    def node(self, statement: TextLine, body: int) -> Node:
        name = statement.new(self.node_rows, "node")
        self.node_rows[name] = len(self.nodes)
        started, (domain, op) = "", WAIT
        reads: tuple[int, ...] = ()
        writes: tuple[int, ...] = ()
        if statement.first == "wait":
            started = self.streams.take_started(statement)
        else:
            domain, op = parse_operator(statement.name("an operator"))
            reads, writes = self.take_accesses(statement)
        order = StreamOrder()
        hints: list[tuple[int, int]] = []
        requests: list[Scratch] = []
        mutates: tuple[int, ...] = ()
        phase, opaque = Phase.FORWARD, False
        for word in statement.words(ORDER_WORDS if started else OPTIONS, ("inplace", "scratch")):
            if word in ORDER_WORDS:
                order = self.streams.take_word(statement, word, order)
            elif word == "opaque":
                opaque = True
            elif word == "inplace":
                result = statement.row(self.rows, "tensor")
                hints.append((result, statement.row(self.rows, "tensor")))
            elif word == "changes":
                mutates = _take_rows(statement, self.rows, "tensor")
            elif word == "scratch":
                size = statement.integer("bytes")
                alignment = statement.alignment() if statement.taken("align") else 1
                requests.append(
                    Scratch(size, alignment, statement.name("an arena") if statement.taken("arena") else None)
                )
            elif phase is not Phase.FORWARD:
                raise statement.refuse(f"it already has the phase {phase}", "give it one phase")
            else:
                phase = Phase(word)
        order = self.add_order(statement, name, started, order, body)
        return Node(
            name, op, reads, writes, domain, body, tuple(hints), mutates, tuple(requests), phase, opaque, *order
        )  # fmt: skip

    def add_order(self, statement: TextLine, name: str, started: str, order: StreamOrder, body: int) -> StreamOrder:
        """Check what a node states of its stream, and return its stream and waits. spec: X3.11, X5.5"""
        if body != MAIN:
            self.streams.refuse_inside(statement, order)
            if statement.first in ("start", "wait"):
                raise statement.refuse(f"{statement.first} inside of a body is not supported", "write node", 0)
            return order
        if statement.first == "start":
            order = self.streams.start(statement, name, order)
        elif started:
            order = self.streams.wait(statement, name, started, order)
        else:
            order = self.streams.add(statement, name, order)
        self.orders.append((statement, order))
        return order

    def sequence(self, mark: str) -> tuple[int, ...]:
        """Return the tensors with a mark, in the order of the lines or of the statement. spec: X3.8"""
        stated = self.one(f"{mark}s")
        if stated is None:
            return tuple(self.marked[mark])
        return _take_all(stated, self.rows, self.marked[mark], f"tensor with the word {mark}")

    def reorder(self, model: Model, stated: TextLine) -> Model:
        """Return the model in the author's order, which must list the main graph's nodes after their operands.
        spec: X3.7
        """
        inside: list[list[int]] = [[] for _ in model.bodies]
        for n, node in enumerate(model.nodes):
            inside[node.body].append(n)
        arriving = {n for rows in self.arrivals.values() for n in rows}
        listed = _take_all(
            stated, self.node_rows, [n for n in inside[MAIN] if n not in arriving], "node of the main graph"
        )
        inside[MAIN] = [row for n in listed for row in (*self.arrivals.get(n, ()), n)]
        made = order.arrange_nodes(model, inside)
        for earlier, later in order.find_dependencies(made):
            if earlier >= later:
                names = made.nodes[earlier].name, made.nodes[later].name
                raise stated.refuse(f"{names[1]!r} is before {names[0]!r}, which it needs", "exchange them", 0)
        return made


SHAPES = "INVALID_IR_SHAPES"


def _take_rows(statement: TextLine, rows: dict[str, int], what: str) -> tuple[int, ...]:
    found = statement.rows(rows, what)
    if not found:
        raise statement.refuse(f"expected a {what}, got none", None, statement.mark)
    return found


def _take_all(statement: TextLine, rows: dict[str, int], wanted: list[int], what: str) -> tuple[int, ...]:
    """Take the rows that a statement lists: each of `wanted` once, in any order."""
    left = set(wanted)
    found = []
    while statement.peek() is not None:
        row = statement.row(rows, what.split(" ")[0])
        if row not in left:
            raise statement.refuse(f"it is listed twice, or is not a {what}")
        left.remove(row)
        found.append(row)
    if left:
        name = next(name for name, row in rows.items() if row in left)
        raise statement.refuse(f"{name!r} is missing", f"list every {what}", statement.mark)
    return tuple(found)


def _take_shape(statement: TextLine, shapes: Shapes) -> tuple[Dim, ...]:
    text = statement.take("a shape")
    try:
        return shapes.read(text, MAX_RANK)
    except (ValueError, Unwieldy) as error:
        raise statement.refuse(str(error), "see spec/text-ir.md", None, SHAPES) from error


def _take_strides(statement: TextLine) -> tuple[int, ...]:
    parts = statement.take("strides").split("x")
    if not all(re.fullmatch(r"-?[0-9]{1,20}", part) for part in parts):
        raise statement.refuse("expected integers with x between them", "write strides such as 64x1")
    return tuple(map(int, parts))


def _take_digest(statement: TextLine) -> bytes:
    text = statement.last("a SHA-256")
    if not re.fullmatch(r"[0-9a-f]{64}", text):
        raise statement.refuse("expected 64 hexadecimal digits")
    return bytes.fromhex(text)
