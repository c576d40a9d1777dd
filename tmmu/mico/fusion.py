"""Batch normalization folded into the convolution before it, in an ONNX graph: `fuse_model` of MiCo.

A BatchNormalization at inference multiplies and shifts each channel, so a Conv that no other node reads can do its
work. Weights are computed in float64 and rounded once. spec: MC8.5
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
from onnx import numpy_helper

from tmmu.mico.stored import values


def fuse_batch_normalizations(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy of the model in which every BatchNormalization after a Conv is folded if possible.

    One stays if another node, a body or the caller reads the result of the Conv, if it is one of a training, or if its
    operands or the weights are computed. A Conv keeps the name of its own result, unless the caller reads the other.
    Raises INVALID_IR if the values of the operands are missing. O(nodes + weights).
    """
    fused = onnx.ModelProto()
    fused.CopyFrom(model)
    graph = fused.graph
    stored = {tensor.name: tensor for tensor in graph.initializer}
    outputs = {value.name for value in graph.output}
    writers = {name: node for node in graph.node for name in node.output}
    readers = Counter(name for node in graph.node for name in node.input)
    in_bodies = _read_in_bodies(graph)
    for node in list(graph.node):
        convolution = writers.get(node.input[0]) if node.op_type == "BatchNormalization" and node.input else None
        if convolution is None or convolution.op_type != "Conv" or node.domain or convolution.domain:
            continue
        name = convolution.output[0]
        operands = [*node.input[1:], *convolution.input[1:]]
        only_here = readers[name] == 1 and name not in outputs and name not in in_bodies
        mine = all(operand in stored and readers[operand] == 1 for operand in convolution.input[1:])
        if not only_here or not mine or not all(operand in stored for operand in operands) or _trains(node):
            continue
        _fold(graph, stored, convolution, node)
        result = node.output[0]
        graph.node.remove(node)
        if result in outputs or result in in_bodies:
            convolution.output[0] = result
        else:
            for reader in graph.node:
                for place, read in enumerate(reader.input):
                    if read == result:
                        reader.input[place] = name
    _drop_unread(graph, stored, in_bodies)
    return fused


def _trains(node: onnx.NodeProto) -> bool:
    """Return whether the node computes the statistics of its batch, or has results for them."""
    return any(a.name == "training_mode" and a.i for a in node.attribute) or any(node.output[1:])


def _fold(
    graph: onnx.GraphProto,
    stored: dict[str, onnx.TensorProto],
    convolution: onnx.NodeProto,
    node: onnx.NodeProto,
) -> None:
    """Replace the weights of the convolution by those that compute both nodes."""
    scale, shift, mean, variance = (values(stored[name]).astype(np.float64) for name in node.input[1:5])
    epsilon = next((a.f for a in node.attribute if a.name == "epsilon"), 1e-5)
    factor = scale / np.sqrt(variance + epsilon)
    weight = stored[convolution.input[1]]
    filters = values(weight).astype(np.float64)
    folded = filters * factor.reshape(-1, *(1,) * (filters.ndim - 1))
    dtype = onnx.helper.tensor_dtype_to_np_dtype(weight.data_type)
    if len(convolution.input) > 2:
        bias = stored[convolution.input[2]]
    else:
        bias = graph.initializer.add(name=f"{weight.name}.bias")
        bias.CopyFrom(numpy_helper.from_array(np.zeros(len(factor), dtype), bias.name))
        stored[bias.name] = bias
        convolution.input.append(bias.name)
    shifted = (values(bias).astype(np.float64) - mean) * factor + shift
    for tensor, result in ((weight, folded), (bias, shifted)):
        tensor.CopyFrom(numpy_helper.from_array(result.astype(dtype), tensor.name))


def _read_in_bodies(graph: onnx.GraphProto) -> set[str]:
    """Return every name that a body reads or returns."""
    found: set[str] = set()
    pending = [body for node in graph.node for body in _list_bodies(node)]
    while pending:
        body = pending.pop()
        found |= {value.name for value in body.output}
        for node in body.node:
            found.update(node.input)
            pending += _list_bodies(node)
    return found


def _list_bodies(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    return [body for a in node.attribute for body in ([a.g] if a.HasField("g") else list(a.graphs))]


def _drop_unread(graph: onnx.GraphProto, stored: dict[str, onnx.TensorProto], in_bodies: set[str]) -> None:
    """Remove initializers that only the folded nodes read."""
    read = {name for node in graph.node for name in node.input} | in_bodies | {value.name for value in graph.output}
    for name, tensor in stored.items():
        if name not in read:
            graph.initializer.remove(tensor)
            for value in [value for value in graph.input if value.name == name]:
                graph.input.remove(value)
