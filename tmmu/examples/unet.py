"""The classic U-Net for two classes of pixels: four levels down, four up, and a skip connection between each pair.

Shapes: `image` float32 [batch, 1, 256, 256], `mask` float32 [batch, 2, 256, 256]; convolutions are padded so that sizes
stay. 64 to 1,024 channels, 31,030,658 float32 parameters. Its skip tensors live from one end of the network to the
other, which makes memory planning hard.
"""

from __future__ import annotations

import onnx

from tmmu.examples.graph import OnnxGraph

CHANNELS = (64, 128, 256, 512)
BOTTOM, CLASSES, SIDE = 1024, 2, 256


def build() -> onnx.ModelProto:
    """Build the network as an ONNX model without weights."""
    return network().model()


def network() -> OnnxGraph:
    """Build the network as a graph, which counts its `parameters`."""
    graph = OnnxGraph("unet")
    value, channels = graph.input("image", ("batch", 1, SIDE, SIDE)), 1
    skips: list[tuple[str, int]] = []
    for level, filters in enumerate(CHANNELS):
        with graph.scope(f"down.{level}"):
            value = _double(graph, value, channels, filters, f"down.{level}")
            skips.append((value, filters))
            value, channels = graph.node("MaxPool", value, kernel_shape=[2, 2], strides=[2, 2]), filters
    with graph.scope("bottom"):
        value, channels = _double(graph, value, channels, BOTTOM, "bottom"), BOTTOM
    for level, (skip, filters) in reversed(list(enumerate(skips))):
        with graph.scope(f"up.{level}"):
            weight = graph.weight(f"up.{level}.expand.weight", (channels, filters, 2, 2))
            bias = graph.weight(f"up.{level}.expand.bias", (filters,))
            value = graph.node("ConvTranspose", value, weight, bias, kernel_shape=[2, 2], strides=[2, 2])
            value = graph.node("Concat", skip, value, axis=1)
            value, channels = _double(graph, value, 2 * filters, filters, f"up.{level}"), filters
    weight, bias = graph.weight("head.weight", (CLASSES, channels, 1, 1)), graph.weight("head.bias", (CLASSES,))
    graph.node("Conv", value, weight, bias, result="mask", kernel_shape=[1, 1])
    graph.output("mask", ("batch", CLASSES, SIDE, SIDE))
    return graph


def _double(graph: OnnxGraph, value: str, channels: int, filters: int, name: str) -> str:
    """Add two 3x3 convolutions, each followed by Relu."""
    for position, inputs in enumerate((channels, filters)):
        weight = graph.weight(f"{name}.conv{position}.weight", (filters, inputs, 3, 3))
        bias = graph.weight(f"{name}.conv{position}.bias", (filters,))
        value = graph.node("Conv", value, weight, bias, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        value = graph.node("Relu", value)
    return value
