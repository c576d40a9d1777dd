"""Models that become C in tests, with weights drawn: MiCo's networks and a block of a transformer."""

from __future__ import annotations

from pathlib import Path

import onnx

from tests.support.c_programs import weighted
from tmmu.examples import mico
from tmmu.examples.graph import OnnxGraph

WIDTH, HEADS, SEQ = 32, 4, 6


def transformer_block() -> onnx.ModelProto:
    """A block of GPT-2 in float32: normalization, attention with a causal mask, a network with Gelu by tanh."""
    graph = OnnxGraph("block")

    def linear(value: str, name: str, inputs: int, outputs: int) -> str:
        return graph.node(
            "Add", graph.node("MatMul", value, graph.weight(name, (inputs, outputs))), bias(name, outputs)
        )

    def bias(name: str, outputs: int) -> str:
        return graph.weight(f"{name}.bias", (outputs,))

    x = graph.input("x", (1, SEQ, WIDTH))
    hidden = graph.node("LayerNormalization", x, graph.weight("ln_1.weight", (WIDTH,)), bias("ln_1", WIDTH))
    parts = []
    qkv = linear(hidden, "c_attn", WIDTH, 3 * WIDTH)
    for part in graph.nodes("Split", qkv, results=[None] * 3, axis=2, num_outputs=3):
        split = graph.node("Reshape", part, graph.constant([1, SEQ, HEADS, WIDTH // HEADS]))
        parts.append(graph.node("Transpose", split, perm=[0, 2, 1, 3]))
    scores = graph.node("MatMul", parts[0], graph.node("Transpose", parts[1], perm=[0, 1, 3, 2]))
    scores = graph.node("Div", scores, graph.constant((WIDTH / HEADS) ** 0.5, "float32"))
    mask = graph.node("Trilu", graph.constant([1.0] * SEQ * SEQ, "bool", (SEQ, SEQ)), upper=0)
    scores = graph.node("Softmax", graph.node("Where", mask, scores, graph.constant(-1e9, "float32")), axis=-1)
    hidden = graph.node("Transpose", graph.node("MatMul", scores, parts[2]), perm=[0, 2, 1, 3])
    shape = graph.node("Concat", graph.node("Shape", x, end=2), graph.constant([-1]), axis=0)
    hidden = graph.node("Add", x, linear(graph.node("Reshape", hidden, shape), "c_proj", WIDTH, WIDTH))
    inner = graph.node("LayerNormalization", hidden, graph.weight("ln_2.weight", (WIDTH,)))
    inner = linear(inner, "c_fc", WIDTH, 4 * WIDTH)
    cube = graph.node(
        "Mul", graph.node("Pow", inner, graph.constant(3.0, "float32")), graph.constant(0.044715, "float32")
    )
    gate = graph.node("Tanh", graph.node("Mul", graph.node("Add", inner, cube), graph.constant(0.7978846, "float32")))
    half = graph.node("Mul", inner, graph.constant(0.5, "float32"))
    inner = graph.node("Mul", half, graph.node("Add", gate, graph.constant(1.0, "float32")))
    graph.node("Add", hidden, linear(inner, "mlp.c_proj", 4 * WIDTH, WIDTH), result="y")
    graph.output("y", (1, SEQ, WIDTH))
    return graph.model()


MODELS = {
    "mlp": mico.mlp,
    "lenet": mico.lenet,
    "resnet8": mico.resnet8,
    "block": transformer_block,
}


def saved(name: str, folder: Path) -> Path:
    """A model with weights, as a file."""
    path = folder / f"{name}.onnx"
    if not path.exists():
        onnx.save(weighted(MODELS[name]()), path)
    return path
