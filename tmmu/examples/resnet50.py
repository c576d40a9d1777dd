"""ResNet-50 for 1,000 classes, as exported for inference: each batch normalization is folded into its convolution.

Shapes: `input` float32 [batch, 3, 224, 224], `output` float32 [batch, 1000]. Four stages of 3, 4, 6 and 3 bottleneck
blocks; 25,530,472 float32 parameters, in which each folded normalization is the bias of its convolution.
"""

from __future__ import annotations

import onnx

from tmmu.examples.graph import OnnxGraph

STAGES = ((3, 64), (4, 128), (6, 256), (3, 512))
"""The blocks and the inner channels of each stage; a block has four times as many outer channels."""

CLASSES = 1000


def build() -> onnx.ModelProto:
    """Build the network as an ONNX model without weights."""
    return network().model()


def network() -> OnnxGraph:
    """Build the network as a graph, which counts its `parameters`."""
    graph = OnnxGraph("resnet50")
    value = graph.input("input", ("batch", 3, 224, 224))
    value = graph.node("Relu", _convolution(graph, value, 3, 64, 7, "conv1", stride=2))
    value = graph.node("MaxPool", value, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for stage, (blocks, inner) in enumerate(STAGES, 1):
        for block in range(blocks):
            stride = 2 if block == 0 and stage > 1 else 1
            with graph.scope(f"layer{stage}"), graph.scope(f"layer{stage}.{block}"):
                value = _bottleneck(graph, value, channels, inner, f"layer{stage}.{block}", stride)
            channels = 4 * inner
    value = graph.node("Flatten", graph.node("GlobalAveragePool", value), axis=1)
    weight, bias = graph.weight("fc.weight", (CLASSES, channels)), graph.weight("fc.bias", (CLASSES,))
    graph.node("Gemm", value, weight, bias, result="output", transB=1)
    graph.output("output", ("batch", CLASSES))
    return graph


def _bottleneck(graph: OnnxGraph, value: str, channels: int, inner: int, name: str, stride: int) -> str:
    """Add a block: narrow, 3x3, widen, and add the input, which a convolution first reshapes if the shapes differ."""
    result = graph.node("Relu", _convolution(graph, value, channels, inner, 1, f"{name}.conv1"))
    result = graph.node("Relu", _convolution(graph, result, inner, inner, 3, f"{name}.conv2", stride=stride))
    result = _convolution(graph, result, inner, 4 * inner, 1, f"{name}.conv3")
    if channels != 4 * inner:
        value = _convolution(graph, value, channels, 4 * inner, 1, f"{name}.downsample.0", stride=stride)
    return graph.node("Relu", graph.node("Add", result, value))


def _convolution(
    graph: OnnxGraph, value: str, channels: int, filters: int, kernel: int, name: str, *, stride: int = 1
) -> str:
    weight = graph.weight(f"{name}.weight", (filters, channels, kernel, kernel))
    bias = graph.weight(f"{name}.bias", (filters,))
    with graph.scope(name.rsplit(".", 1)[-1]):
        return graph.node(
            "Conv", value, weight, bias, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[kernel // 2] * 4
        )
