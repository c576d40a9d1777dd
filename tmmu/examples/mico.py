"""The four networks of MiCo's memory table, tensor for tensor: an MLP, LeNet, a VGG and a ResNet of eight layers.

Shapes: batch 1, float32, fixed. Batch normalizations are folded into their convolutions, so layer numbers have holes;
results bear MiCo's names (`x`, `layers_0`, …, `output`). Flatten and Dropout make views, and each network ends in
a copy to `output` (a Concat of one input), as MiCo's code does. Without sharing the activations take 2,640, 60,720,
1,241,168 and 3,225,680 bytes; MiCo's pools take 1,280, 42,336, 589,824 and 786,432.
"""

from __future__ import annotations

from itertools import pairwise

import onnx

from tmmu.examples.graph import OnnxGraph

CLASSES = 10


def mlp() -> onnx.ModelProto:
    """Build the network of 256 inputs and three hidden layers of 64."""
    graph = OnnxGraph("mico-mlp")
    value = graph.node("Flatten", graph.input("x", (1, 256)), result="flatten")
    widths = (256, 64, 64, 64)
    for layer, (inputs, outputs) in enumerate(pairwise(widths)):
        value = _linear(graph, value, inputs, outputs, f"layers_{2 * layer}")
        value = graph.node("Relu", value, result=f"layers_{2 * layer + 1}")
    return _finish(graph, _linear(graph, value, 64, CLASSES, "layers_6"))


def lenet() -> onnx.ModelProto:
    """Build the network of 1x28x28 inputs, two convolutions of 5x5 with average pooling, and two hidden layers."""
    graph = OnnxGraph("mico-lenet")
    value = graph.input("x", (1, 1, 28, 28))
    for layer, channels, filters, padding in ((0, 1, 6, 2), (3, 6, 16, 0)):
        value = _convolution(graph, value, channels, filters, 5, f"layers_{layer}", padding=padding)
        value = graph.node("Relu", value, result=f"layers_{layer + 1}")
        value = graph.node("AveragePool", value, result=f"layers_{layer + 2}", kernel_shape=[2, 2], strides=[2, 2])
    value = graph.node("Flatten", value, result="layers_6")
    for layer, inputs, outputs in ((7, 400, 64), (9, 64, 32)):
        value = _linear(graph, value, inputs, outputs, f"layers_{layer}")
        value = graph.node("Relu", value, result=f"layers_{layer + 1}")
    return _finish(graph, _linear(graph, value, 32, CLASSES, "layers_11"))


def vgg() -> onnx.ModelProto:
    """Build the network of 3x32x32 inputs, four convolutions of 3x3, and two hidden layers of 4,096 with dropout."""
    graph = OnnxGraph("mico-vgg")
    value = graph.input("x", (1, 3, 32, 32))
    for layer, channels, filters, pooled in ((0, 3, 64, 3), (4, 64, 128, 7), (8, 128, 256, None), (11, 256, 256, 14)):
        value = _convolution(graph, value, channels, filters, 3, f"layers_{layer}", padding=1)
        value = graph.node("Relu", value, result=f"layers_{layer + 2}")
        if pooled is not None:
            value = graph.node("MaxPool", value, result=f"layers_{pooled}", kernel_shape=[2, 2], strides=[2, 2])
    value = graph.node("Flatten", value, result="layers_15")
    for layer in (16, 19):
        value = _linear(graph, value, 4096, 4096, f"layers_{layer}")
        value = graph.node("Relu", value, result=f"layers_{layer + 1}")
        value = graph.node("Dropout", value, result=f"layers_{layer + 2}")
    return _finish(graph, _linear(graph, value, 4096, CLASSES, "layers_22"))


def resnet8() -> onnx.ModelProto:
    """Build the network of 3x32x32 inputs, a stem and four residual blocks of 64 to 512 channels.

    The last three blocks each halve the size.
    """
    graph = OnnxGraph("mico-resnet8")
    value = _convolution(graph, graph.input("x", (1, 3, 32, 32)), 3, 64, 3, "conv1_0", padding=1)
    value = graph.node("Relu", value, result="conv1_2")
    channels = 64
    for block, filters in ((2, 64), (3, 128), (4, 256), (5, 512)):
        value = _residual(graph, value, channels, filters, f"conv{block}")
        channels = filters
    value = graph.node("GlobalAveragePool", value, result="avg_pool")
    value = graph.node("Flatten", value, result="flatten")
    return _finish(graph, _linear(graph, value, 512, CLASSES, "fc"))


def _residual(graph: OnnxGraph, value: str, channels: int, filters: int, name: str) -> str:
    """Add two 3x3 convolutions and a shortcut, which is a separate convolution if the shapes differ."""
    stride = 1 if channels == filters else 2
    result = _convolution(graph, value, channels, filters, 3, f"{name}_conv1", padding=1, stride=stride)
    result = graph.node("Relu", result, result=f"{name}_relu1")
    result = _convolution(graph, result, filters, filters, 3, f"{name}_conv2", padding=1)
    if channels != filters:
        value = _convolution(graph, value, channels, filters, 1, f"{name}_shortcut", stride=stride)
    return graph.node("Relu", graph.node("Add", result, value, result=f"{name}_add"), result=f"{name}_relu")


def _linear(graph: OnnxGraph, value: str, inputs: int, outputs: int, result: str) -> str:
    weight, bias = graph.weight(f"{result}.weight", (outputs, inputs)), graph.weight(f"{result}.bias", (outputs,))
    return graph.node("Gemm", value, weight, bias, result=result, transB=1)


def _convolution(
    graph: OnnxGraph,
    value: str,
    channels: int,
    filters: int,
    kernel: int,
    result: str,
    *,
    padding: int = 0,
    stride: int = 1,
) -> str:
    weight = graph.weight(f"{result}.weight", (filters, channels, kernel, kernel))
    bias = graph.weight(f"{result}.bias", (filters,))
    return graph.node(
        "Conv", value, weight, bias, result=result, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[padding] * 4
    )


def _finish(graph: OnnxGraph, value: str) -> onnx.ModelProto:
    """Add the copy to `output`, and return the model."""
    graph.node("Concat", value, result="output", axis=0)
    graph.output("output", (1, CLASSES))
    return graph.model()
