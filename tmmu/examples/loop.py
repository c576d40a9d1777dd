"""A Loop that swaps its two values and a Scan over a sequence; both read tensors from outside their bodies.

Shapes: `left` and `right` float32 [1, 64], `sequence` float32 [12, 1, 64]; `turned_left` and `turned_right` [1, 64],
`states` [12, 1, 64]; three weights of [64, 64]. The loop runs eight times. A plan in which its captured bias dies after
its only reader in the body, or in which the swapped values exchange their bytes, is right in the first iteration and
wrong from the second on.

spec: T8.1
"""

from __future__ import annotations

import onnx

from tmmu.examples.graph import OnnxGraph

WIDTH, ROUNDS, LENGTH = 64, 8, 12


def build() -> onnx.ModelProto:
    """Build the two recurrences as an ONNX model."""
    graph = OnnxGraph("loop")
    left, right = graph.input("left", (1, WIDTH)), graph.input("right", (1, WIDTH))
    sequence = graph.input("sequence", (LENGTH, 1, WIDTH))
    bias = graph.node("Tanh", graph.node("MatMul", left, graph.weight("bias.weight", (WIDTH, WIDTH))), result="bias")
    graph.weight("loop.weight", (WIDTH, WIDTH))
    graph.weight("scan.weight", (WIDTH, WIDTH))
    rounds, forever = graph.constant(ROUNDS), graph.constant(1, "bool")
    turned = ["turned_left", "turned_right"]
    graph.nodes("Loop", rounds, forever, left, right, results=turned, body=_swap(graph.inner("swap"), bias))
    start = graph.node("Add", *turned)
    collected = ["last_state", "states"]
    body = _recur(graph.inner("recur"), bias)
    graph.nodes("Scan", start, sequence, results=collected, body=body, num_scan_inputs=1)
    for name in turned:
        graph.output(name, (1, WIDTH))
    graph.output("last_state", (1, WIDTH))
    graph.output("states", (LENGTH, 1, WIDTH))
    return graph.model()


def _swap(body: OnnxGraph, bias: str) -> onnx.GraphProto:
    """Write the body that moves the right value to the left unchanged, and the left one, changed, to the right."""
    body.input("round", (), "int64")
    condition = body.input("condition", (), "bool")
    left, right = body.input("left_in", (1, WIDTH)), body.input("right_in", (1, WIDTH))
    mixed = body.node("MatMul", body.node("Add", left, bias), "loop.weight")
    body.node("Tanh", mixed, result="mixed")
    body.node("Identity", condition, result="again")
    body.output("again", (), "bool")
    body.output(right, (1, WIDTH))
    body.output("mixed", (1, WIDTH))
    return body.body()


def _recur(body: OnnxGraph, bias: str) -> onnx.GraphProto:
    """Write tanh(state · weight + element + bias), which is the next state and an element of the result."""
    state, element = body.input("state", (1, WIDTH)), body.input("element", (1, WIDTH))
    total = body.node("Add", body.node("MatMul", state, "scan.weight"), element)
    body.node("Tanh", body.node("Add", total, bias), result="next_state")
    body.node("Identity", "next_state", result="emitted")
    body.output("next_state", (1, WIDTH))
    body.output("emitted", (1, WIDTH))
    return body.body()
