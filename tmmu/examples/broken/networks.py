"""Small ONNX networks in several variants; a plan of one variant is handed out with another."""

from __future__ import annotations

import onnx

from tmmu.examples.graph import Dim, OnnxGraph

WIDTH = 64


def layers(
    *,
    batch: Dim = 1,
    dtype: str = "float32",
    activation: str | None = "Softmax",
    bias: bool = True,
    weight_is_input: bool = False,
    first_is_output: bool = False,
    subtract_input: bool = True,
) -> onnx.ModelProto:
    """Build two dense layers of 64 and a skip: `first`, `changed`, `second`, and the output `y`.

    `activation` is the operator between the layers, None for none; `y` is `second` minus the input `x`, or the other
    way round.
    """
    graph = OnnxGraph("layers")
    x = graph.input("x", (batch, WIDTH), dtype)
    make = graph.input if weight_is_input else graph.weight
    first = graph.node("MatMul", x, make("first.weight", (WIDTH, WIDTH), dtype), result="first")
    changed = first if activation is None else graph.node(activation, first, result="changed")
    parameters = [graph.weight("second.weight", (WIDTH, WIDTH), dtype)]
    if bias:
        parameters.append(graph.weight("second.bias", (WIDTH,), dtype))
    second = graph.node("Gemm", changed, *parameters, result="second")
    graph.node("Sub", *((second, x) if subtract_input else (x, second)), result="y")
    graph.output("y", (batch, WIDTH), dtype)
    if first_is_output:
        graph.output("first", (batch, WIDTH), dtype)
    model = graph.model()
    for node in model.graph.node:  # names by results are the same in all variants
        node.name = f"make_{node.output[0]}"
    return model


def choice() -> onnx.ModelProto:
    """Build `y`: the negated `x` if `flag` holds, and otherwise a product, which needs separate bytes."""
    graph = OnnxGraph("choice")
    flag, x = graph.input("flag", (), "bool"), graph.input("x", (1, WIDTH))
    weight = graph.weight("weight", (WIDTH, WIDTH))
    then, other = graph.inner("then"), graph.inner("otherwise")
    then.output(then.node("Neg", x, result="negated"), (1, WIDTH))
    product = other.node("MatMul", x, weight, result="product")
    other.output(other.node("MatMul", product, weight, result="again"), (1, WIDTH))
    graph.node("If", flag, result="y", then_branch=then.body(), else_branch=other.body())
    graph.output("y", (1, WIDTH))
    return graph.model()


def swap() -> onnx.ModelProto:
    """Build a loop that hands its two values on in exchange."""
    graph = OnnxGraph("swap")
    left, right = graph.input("left", (1, WIDTH)), graph.input("right", (1, WIDTH))
    body = graph.inner("body")
    body.input("round", (), "int64")
    again = body.node("Identity", body.input("condition", (), "bool"))
    body.output(again, (), "bool")
    first, second = body.input("first", (1, WIDTH)), body.input("second", (1, WIDTH))
    body.output(second, (1, WIDTH))
    body.output(first, (1, WIDTH))
    results = ["left_out", "right_out"]
    graph.nodes("Loop", graph.constant(3), graph.constant(1, "bool"), left, right, results=results, body=body.body())
    for name in results:
        graph.output(name, (1, WIDTH))
    return graph.model()


def stretched() -> onnx.ModelProto:
    """Build one number times a square: `y` is as large as `square`, but shape inference takes the 1 of `one`."""
    graph = OnnxGraph("stretched")
    one, square = graph.input("one", (1,)), graph.input("square", (WIDTH, WIDTH))
    graph.node("Einsum", one, square, result="y", equation="d,cd->dc")
    graph.node("Relu", "y", result="z")
    graph.output("z", (WIDTH, WIDTH))
    return graph.model()
