"""Random ONNX models of real operators, small enough to be run many times: chains, diamonds, views, bodies.

A model is made from a list of integers, one a node; whatever the integers are, the model is valid. All values are
float32 of a few small shapes, so that most operators fit most values. Nothing is drawn by the models themselves.
"""

from __future__ import annotations

import onnx
from hypothesis import strategies as st

from tmmu.examples.graph import OnnxGraph

Shape = tuple[int, ...]

UNARY = (
    "Relu", "Tanh", "Neg", "Abs", "Sigmoid", "Exp", "Softplus", "Floor", "Sin", "Identity", "Dropout", "Erf", "Sign",
    "HardSigmoid", "LeakyRelu", "Ceil",
)  # fmt: skip
BINARY = ("Add", "Sub", "Mul", "Max", "Min", "Div", "Mean", "PRelu")
OTHERS = (
    "Transpose", "Reshape", "Flatten", "Softmax", "CumSum", "ReduceSum", "Concat", "Split", "Slice", "Gather", "MatMul",
    "Unsqueeze", "Clip", "Cast", "LayerNormalization", "Expand", "Where", "Trilu",
)  # fmt: skip
HOLDERS = ("If", "Loop", "Scan", "Loop")
SHAPES: tuple[Shape, ...] = ((2, 3), (3,), (1, 3), (4, 3), (2, 1), (3, 3))
"""Of the inputs and weights; results have others, up to 64 elements."""

MOST = 64
"""No value has more elements than this."""


class _Maker:
    """A graph in the making: its values with their shapes, own and captured ones, newest last."""

    def __init__(self, graph: OnnxGraph, values: list[tuple[str, Shape]], depth: int) -> None:
        self.graph, self.values, self.depth, self.own = graph, list(values), depth, 0

    def pick(self, number: int) -> tuple[str, Shape]:
        """A value, counted back from the newest; near ones come up more often."""
        back = min(number % 7, number // 7 % 12)
        return self.values[-1 - back % len(self.values)]

    def like(self, shape: Shape, number: int) -> str:
        """A value of that very shape: there is always one, the one that was asked about."""
        same = [name for name, other in self.values if other == shape]
        return same[-1 - number % len(same)]

    def add(self, name: str, shape: Shape) -> None:
        self.values.append((name, shape))
        self.own += 1

    def node(self, number: int, following: list[int]) -> None:
        """Add a node, or a node with a body, whose nodes are taken from what follows."""
        kind, rest = number % 64, number // 64
        name, shape = self.pick(rest)
        if kind >= 64 - len(HOLDERS) and self.depth < 2:
            make = {"If": self.choice, "Loop": self.loop, "Scan": self.scan}[HOLDERS[kind - 64 + len(HOLDERS)]]
            make(name, shape, rest, following)
        elif kind < 24:
            self.add(self.graph.node(UNARY[kind % len(UNARY)], name), shape)
        elif kind < 40:
            op = BINARY[kind % len(BINARY)]
            self.add(self.graph.node(op, name, self.like(shape, rest // 7)), shape)
        else:
            self.other(OTHERS[kind % len(OTHERS)], name, shape, rest)

    def numbers(self, values: list[int], rest: int) -> str:
        """A constant, or what follows from two."""
        made = self.graph.constant(values)
        return made if rest % 3 else self.graph.node("Mul", made, self.graph.constant(1))

    def other(self, op: str, name: str, shape: Shape, rest: int) -> None:
        g, size = self.graph, 1
        for dim in shape:
            size *= dim
        if op == "Transpose":
            self.add(g.node(op, name, perm=list(reversed(range(len(shape))))), shape[::-1])
        elif op == "Reshape":
            self.add(g.node(op, name, self.numbers([size], rest)), (size,))
        elif op == "Flatten":
            self.add(g.node(op, name, axis=0), (1, size))
        elif op == "Unsqueeze" and len(shape) < 4:
            self.add(g.node(op, name, g.constant([0])), (1, *shape))
        elif op == "Softmax":
            self.add(g.node(op, name, axis=-1), shape)
        elif op == "CumSum":
            self.add(g.node(op, name, g.constant(0)), shape)
        elif op == "ReduceSum":
            self.add(g.node(op, name, g.constant([len(shape) - 1]), keepdims=1), (*shape[:-1], 1))
        elif op == "Concat" and 2 * size <= MOST:
            self.add(g.node(op, name, self.like(shape, rest), axis=0), (2 * shape[0], *shape[1:]))
        elif op == "Split" and shape[0] > 1:
            parts = (1, shape[0] - 1)
            for made, part in zip(
                g.nodes(op, name, g.constant(parts), results=[None, None], axis=0), parts, strict=True
            ):
                self.add(made, (part, *shape[1:]))
        elif op == "Slice" and shape[0] > 1:
            self.add(g.node(op, name, g.constant([1]), g.constant([shape[0]])), (shape[0] - 1, *shape[1:]))
        elif op == "Gather":
            self.add(g.node(op, name, self.numbers([0, shape[0] - 1], rest), axis=0), (2, *shape[1:]))
        elif op == "MatMul" and len(shape) == 2 and shape[0] == shape[1]:
            self.add(g.node(op, name, self.like(shape, rest)), shape)
        elif op == "Clip":
            self.add(g.node(op, name, g.constant(-1.0, "float32"), g.constant(1.0, "float32")), shape)
        elif op == "Cast":
            self.add(g.node(op, g.node(op, name, to=onnx.TensorProto.INT64), to=onnx.TensorProto.FLOAT), shape)
        elif op == "LayerNormalization":
            scale = g.constant([1.0] * shape[-1], "float32")
            self.add(g.node(op, name, scale, axis=-1), shape)
        elif op == "Expand" and 2 * size <= MOST and len(shape) < 4:
            self.add(g.node(op, name, self.numbers([2, *shape], rest)), (2, *shape))
        elif op == "Where":
            positive = g.node("Greater", name, g.constant(0.0, "float32"))
            self.add(g.node(op, positive, name, self.like(shape, rest)), shape)
        elif op == "Trilu" and len(shape) == 2:
            self.add(g.node(op, name), shape)
        else:
            self.add(g.node("Neg", name), shape)

    def inside(self, body: OnnxGraph, given: list[tuple[str, Shape]], following: list[int]) -> _Maker:
        """The maker of a body, which has made up to three nodes."""
        inner = _Maker(body, [*self.values, *given], self.depth + 1)
        for _ in range(3):
            if following:
                inner.node(following.pop(0), following)
        return inner

    def choice(self, name: str, shape: Shape, rest: int, following: list[int]) -> None:
        """Branches that return a value of the same shape, their own or a captured one."""
        summed = self.graph.node("ReduceSum", name, keepdims=0)
        positive = self.graph.node("Greater", summed, self.graph.constant(0.0, "float32"))
        bodies = {}
        for k, attribute in enumerate(("then_branch", "else_branch")):
            inner = self.inside(self.graph.inner(f"{attribute}{self.depth}_{len(self.values)}"), [], following)
            if rest >> k & 1:
                inner.add(inner.graph.node("Neg", name), shape)
            inner.graph.output(inner.like(shape, rest), shape)
            bodies[attribute] = inner.graph.body()
        self.add(self.graph.node("If", positive, **bodies), shape)

    def loop(self, name: str, shape: Shape, rest: int, following: list[int]) -> None:
        """Two states, which may be handed on in exchange, and the row of one of them as a slice."""
        body = self.graph.inner(f"body{self.depth}_{len(self.values)}")
        prefix = f"loop{self.depth}_{len(self.values)}_"
        body.input(f"{prefix}round", (), "int64")
        condition = body.input(f"{prefix}condition", (), "bool")
        states = [(body.input(f"{prefix}{k}", shape), shape) for k in range(2)]
        inner = self.inside(body, states, following)
        body.output(body.node("Identity", condition), (), "bool")
        body.output(states[1][0] if rest & 1 else inner.like(shape, rest // 2), shape)
        body.output(states[0][0] if rest & 2 else body.node("Tanh", inner.like(shape, rest // 4)), shape)
        size = 1
        for dim in shape:
            size *= dim
        body.output(body.node("Reshape", inner.like(shape, rest // 8), body.constant([size])), (size,))
        rounds = rest % 4 if rest % 4 else 2
        made = self.graph.nodes(
            "Loop", self.graph.constant(rounds), self.graph.constant(1, "bool"), name, self.like(shape, rest // 3),
            results=[None, None, None], body=body.body(),
        )  # fmt: skip
        for result, of in zip(made, (shape, shape, (rounds, size)), strict=True):
            if rounds * size <= MOST or of == shape:
                self.add(result, of)

    def scan(self, name: str, shape: Shape, rest: int, following: list[int]) -> None:
        """One state and a sequence: the rows of a value."""
        if len(shape) < 2:
            self.add(self.graph.node("Neg", name), shape)
            return
        body = self.graph.inner(f"scan{self.depth}_{len(self.values)}")
        prefix = f"scan{self.depth}_{len(self.values)}_"
        state, row = body.input(f"{prefix}state", shape), body.input(f"{prefix}row", shape[1:])
        inner = self.inside(body, [(state, shape), (row, shape[1:])], following)
        body.output(inner.like(shape, rest), shape)
        body.output(body.node("Neg", inner.like(shape[1:], rest // 2)), shape[1:])
        made = self.graph.nodes(
            "Scan", name, self.like(shape, rest // 5), results=[None, None], body=body.body(), num_scan_inputs=1
        )
        for result in made:
            self.add(result, shape)


def build(numbers: list[int]) -> onnx.ModelProto:
    """The model that integers say, the first for its inputs, the others for its nodes."""
    first, *nodes = numbers or [0]
    graph = OnnxGraph("random", constants_as_nodes=bool(first // 216 % 2))
    values = [
        (graph.input(f"x{k}", shape) if k % 2 == 0 else graph.weight(f"w{k}", shape), shape)
        for k, shape in enumerate((SHAPES[first % 6], SHAPES[first // 6 % 6], SHAPES[first // 36 % 6]))
    ]
    maker = _Maker(graph, values, 0)
    following = list(nodes)
    while following:
        maker.node(following.pop(0), following)
    if not maker.own:
        maker.add(graph.node("Neg", values[0][0]), values[0][1])
    outputs = dict.fromkeys(maker.values[-1 - k] for k in range(min(2, maker.own)))
    for name, shape in outputs:
        graph.output(name, shape)
    return graph.model()


models = st.lists(st.integers(0, (1 << 16) - 1), max_size=14).map(build)
"""Random models of up to thirteen nodes and what their bodies hold."""
