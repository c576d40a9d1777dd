"""The linear chain of the TMMU documents' test vectors: eight elementwise steps, each of which reads the one before.

Shapes: `input` and `output` are float32 [256, 256], 262,144 bytes each; no parameters. As written the plan takes two
slots, which is its max-live: a step writes its result while it still reads its operand, and the input of the caller
must not be overwritten. With `--donate input` every step works in place and one slot is enough.
"""

from __future__ import annotations

import onnx

from tmmu.examples.graph import OnnxGraph

OPERATORS = ("Relu", "Neg", "Abs", "Sqrt", "Tanh", "Sigmoid", "Exp", "Sin")
SHAPE = (256, 256)


def build() -> onnx.ModelProto:
    """Build the chain as an ONNX model.

    spec: T4.1
    """
    graph = OnnxGraph("chain")
    value = graph.input("input", SHAPE)
    for operator in OPERATORS[:-1]:
        value = graph.node(operator, value)
    graph.node(OPERATORS[-1], value, result="output")
    graph.output("output", SHAPE)
    return graph.model()
