"""GPT-2 with 124 M parameters, as a tracing exporter writes it: the graph computes its shapes from that of the input.

Shapes: `input_ids` int64 [batch, seq] with seq at most 1024, `logits` float32 [batch, seq, 50257]. 12 layers of 12
heads, width 768, inner width 3072; 124,439,808 float32 parameters (the token embedding is also the output projection)
and a 1 MiB causal mask. About 1,000 nodes; most of them are shape arithmetic, as in real exports.
"""

from __future__ import annotations

import math

import onnx

from tmmu.examples.graph import OnnxGraph

LAYERS, HEADS, WIDTH, INNER, VOCABULARY, CONTEXT = 12, 12, 768, 3072, 50257, 1024


def build() -> onnx.ModelProto:
    """Build the network as an ONNX model without weights."""
    return network().model()


def network() -> OnnxGraph:
    """Build the network as a graph, which counts its `parameters`."""
    graph = OnnxGraph("gpt2")
    ids = graph.input("input_ids", ("batch", "seq"), "int64")
    with graph.scope("transformer"):
        embedding = graph.weight("transformer.wte.weight", (VOCABULARY, WIDTH))
        hidden = _embed(graph, ids, embedding)
        mask = _causal_mask(graph, ids)
        for layer in range(LAYERS):
            with graph.scope(f"h.{layer}"):
                hidden = _block(graph, hidden, mask, f"transformer.h.{layer}")
        with graph.scope("ln_f"):
            hidden = _normalize(graph, hidden, "transformer.ln_f")
    with graph.scope("lm_head"):
        flat = graph.node("Reshape", hidden, graph.constant([-1, WIDTH]))
        flat = graph.node("Gemm", flat, embedding, transB=1)
        graph.node("Reshape", flat, _shape_like(graph, hidden, VOCABULARY), result="logits")
    graph.output("logits", ("batch", "seq", VOCABULARY))
    return graph


def _embed(graph: OnnxGraph, ids: str, embedding: str) -> str:
    """Add token and position embeddings, and their sum; the positions count up to the length of the sequence."""
    positions = graph.node("Range", graph.constant(0), graph.length(ids, 1), graph.constant(1))
    positions = graph.node("Unsqueeze", positions, graph.constant([0]))
    with graph.scope("wte"):
        tokens = graph.node("Gather", embedding, ids, axis=0)
    with graph.scope("wpe"):
        places = graph.node("Gather", graph.weight("transformer.wpe.weight", (CONTEXT, WIDTH)), positions, axis=0)
    return graph.node("Add", tokens, places)


def _causal_mask(graph: OnnxGraph, ids: str) -> str:
    """Add two slices that take the top left [seq, seq] of the stored triangle."""
    mask = graph.weight("transformer.mask", (1, 1, CONTEXT, CONTEXT), "bool")
    graph.parameters -= CONTEXT * CONTEXT  # a buffer, which nothing trains
    for axis in (2, 3):
        length = graph.dim(ids, 1)
        mask = graph.node("Slice", mask, graph.constant([0]), length, graph.constant([axis]), graph.constant([1]))
    return mask


def _block(graph: OnnxGraph, hidden: str, mask: str, name: str) -> str:
    """Add one layer: attention and the feed-forward network, each normalized before and added to its input."""
    with graph.scope("ln_1"):
        normalized = _normalize(graph, hidden, f"{name}.ln_1")
    with graph.scope("attn"):
        attended = _attention(graph, normalized, mask, f"{name}.attn")
    hidden = graph.node("Add", attended, hidden)
    with graph.scope("ln_2"):
        normalized = _normalize(graph, hidden, f"{name}.ln_2")
    with graph.scope("mlp"):
        inner = _project(graph, normalized, WIDTH, INNER, f"{name}.mlp.c_fc")
        with graph.scope("act"):
            inner = _gelu(graph, inner)
        fed = _project(graph, inner, INNER, WIDTH, f"{name}.mlp.c_proj")
    return graph.node("Add", hidden, fed)


def _attention(graph: OnnxGraph, hidden: str, mask: str, name: str) -> str:
    """Add twelve heads of 64, masked so that no token attends to a later one."""
    together = _project(graph, hidden, WIDTH, 3 * WIDTH, f"{name}.c_attn")
    sizes = graph.constant([WIDTH, WIDTH, WIDTH])
    heads = graph.constant([0, 0, HEADS, WIDTH // HEADS])
    query, key, value = (
        graph.node("Reshape", part, heads)
        for part in graph.nodes("Split", together, sizes, results=[None, None, None], axis=2)
    )
    query = graph.node("Transpose", query, perm=[0, 2, 1, 3])
    key = graph.node("Transpose", key, perm=[0, 2, 3, 1])
    value = graph.node("Transpose", value, perm=[0, 2, 1, 3])
    scores = graph.node("MatMul", query, key)
    scores = graph.node("Div", scores, graph.constant(math.sqrt(WIDTH // HEADS), "float32"))
    scores = graph.node("Where", mask, scores, graph.constant(-3.4028234663852886e38, "float32"))
    mixed = graph.node("MatMul", graph.node("Softmax", scores, axis=-1), value)
    mixed = graph.node("Transpose", mixed, perm=[0, 2, 1, 3])
    mixed = graph.node("Reshape", mixed, _shape_like(graph, hidden, WIDTH))
    return _project(graph, mixed, WIDTH, WIDTH, f"{name}.c_proj")


def _project(graph: OnnxGraph, hidden: str, inputs: int, outputs: int, name: str) -> str:
    """Add a dense layer on the last dimension: the tokens of all sequences are rows of one matrix."""
    with graph.scope(name.rsplit(".", 1)[-1]):
        weight = graph.weight(f"{name}.weight", (inputs, outputs))
        bias = graph.weight(f"{name}.bias", (outputs,))
        shape = _shape_like(graph, hidden, outputs)
        rows = graph.node("Reshape", hidden, graph.constant([-1, inputs]))
        return graph.node("Reshape", graph.node("Gemm", rows, weight, bias), shape)


def _shape_like(graph: OnnxGraph, hidden: str, width: int) -> str:
    """Add the shape [batch, seq, width], computed from a tensor that has the first two dimensions."""
    return graph.node("Concat", graph.dim(hidden, 0), graph.dim(hidden, 1), graph.constant([width]), axis=0)


def _normalize(graph: OnnxGraph, hidden: str, name: str) -> str:
    weight, bias = (graph.weight(f"{name}.{part}", (WIDTH,)) for part in ("weight", "bias"))
    return graph.node("LayerNormalization", hidden, weight, bias, axis=-1, epsilon=1e-5)


def _gelu(graph: OnnxGraph, value: str) -> str:
    """Add GPT-2's own approximation: x/2 · (1 + tanh(√(2/π) · (x + 0.044715 · x³)))."""
    half = graph.node("Mul", value, graph.constant(0.5, "float32"))
    cube = graph.node("Pow", value, graph.constant(3.0, "float32"))
    inner = graph.node("Add", value, graph.node("Mul", cube, graph.constant(0.044715, "float32")))
    inner = graph.node("Tanh", graph.node("Mul", inner, graph.constant(math.sqrt(2 / math.pi), "float32")))
    return graph.node("Mul", half, graph.node("Add", inner, graph.constant(1.0, "float32")))
