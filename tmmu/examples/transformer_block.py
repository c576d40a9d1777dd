"""One encoder block of ViT-Tiny/16 in float32, as an exporter writes it for images of 224x224: every shape is a number.

Shapes: `tokens` and `output` float32 [1, 197, 192]. Three heads of 64, a feed-forward network of 768, each half
normalized before and added to its input, GELU by the error function; 444,864 float32 parameters, 1.70 MiB.
"""

from __future__ import annotations

import math

import onnx

from tmmu.examples.graph import OnnxGraph

TOKENS, WIDTH, HEADS, HEAD, INNER = 197, 192, 3, 64, 768


def build() -> onnx.ModelProto:
    """Build the block as an ONNX model without weights.

    spec: MC7.6
    """
    return network().model()


def network() -> OnnxGraph:
    """Build the block as a graph, which counts its `parameters`."""
    graph = OnnxGraph("transformer-block")
    tokens = graph.input("tokens", (1, TOKENS, WIDTH))
    with graph.scope("attn"):
        attended = _attention(graph, _normalize(graph, tokens, "norm1"))
    tokens = graph.node("Add", tokens, attended)
    with graph.scope("mlp"):
        fed = _project(graph, _normalize(graph, tokens, "norm2"), WIDTH, INNER, "mlp.fc1")
        fed = _project(graph, _gelu(graph, fed), INNER, WIDTH, "mlp.fc2")
    graph.node("Add", tokens, fed, result="output")
    graph.output("output", (1, TOKENS, WIDTH))
    return graph


def _attention(graph: OnnxGraph, tokens: str) -> str:
    """Add attention: one product computes query, key and value of all heads, which are then separated."""
    together = _project(graph, tokens, WIDTH, 3 * WIDTH, "attn.qkv")
    together = graph.node("Reshape", together, graph.constant([1, TOKENS, 3, HEADS, HEAD]))
    together = graph.node("Transpose", together, perm=[2, 0, 3, 1, 4])
    query, key, value = (graph.node("Gather", together, graph.constant(k), axis=0) for k in range(3))
    query = graph.node("Mul", query, graph.constant(1 / math.sqrt(HEAD), "float32"))
    scores = graph.node("MatMul", query, graph.node("Transpose", key, perm=[0, 1, 3, 2]))
    mixed = graph.node("MatMul", graph.node("Softmax", scores, axis=-1), value)
    mixed = graph.node("Transpose", mixed, perm=[0, 2, 1, 3])
    mixed = graph.node("Reshape", mixed, graph.constant([1, TOKENS, WIDTH]))
    return _project(graph, mixed, WIDTH, WIDTH, "attn.proj")


def _project(graph: OnnxGraph, value: str, inputs: int, outputs: int, name: str) -> str:
    with graph.scope(name.rsplit(".", 1)[-1]):
        product = graph.node("MatMul", value, graph.weight(f"{name}.weight", (inputs, outputs)))
        return graph.node("Add", graph.weight(f"{name}.bias", (outputs,)), product)


def _normalize(graph: OnnxGraph, value: str, name: str) -> str:
    weight, bias = (graph.weight(f"{name}.{part}", (WIDTH,)) for part in ("weight", "bias"))
    return graph.node("LayerNormalization", value, weight, bias, axis=-1, epsilon=1e-6)


def _gelu(graph: OnnxGraph, value: str) -> str:
    """Add x/2 · (1 + erf(x/√2))."""
    erf = graph.node("Erf", graph.node("Div", value, graph.constant(math.sqrt(2), "float32")))
    inner = graph.node("Mul", value, graph.node("Add", erf, graph.constant(1.0, "float32")))
    return graph.node("Mul", inner, graph.constant(0.5, "float32"))
