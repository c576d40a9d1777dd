"""Layers at 8 bits, as MiCo's `set_qscheme` requests them: the same ONNX graph with integer products.

A layer is a Conv, Gemm or MatMul whose weight is stored. At 8 bits, QuantizeLinear quantizes its operand, the product
is a QLinearConv or QLinearMatMul of int8 by int8, and DequantizeLinear returns float32, to which Gemm's bias is added.
Scales are symmetric, one for each tensor: 127 is the largest absolute value, for weights the stored one, for operands
and results that of the runs of `forward`. spec: MC8.6, MC8.7
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from tmmu.core.errors import TmmuError
from tmmu.mico.stored import values

FLOAT = 32
"""The bits of a layer that is not quantized."""

OLDEST = 10
"""The first version of the ai.onnx operators with QLinearConv and QLinearMatMul."""

LARGEST = 127

Ranges = dict[str, float]
"""The largest absolute value of each tensor in the runs so far."""


class Layer(NamedTuple):
    """A product with a stored weight: its node, and whether the weight has a row for each result."""

    node: onnx.NodeProto
    weight: str
    by_rows: bool

    @property
    def bias(self) -> str:
        """The stored tensor that is added to each product, "" if there is none."""
        return self.node.input[2] if len(self.node.input) > 2 else ""


def layers_of(graph: onnx.GraphProto) -> list[Layer]:
    """Return the layers in the order of the graph; only products of float32 are layers."""
    float32 = onnx.TensorProto.FLOAT
    stored = {tensor.name: len(tensor.dims) for tensor in graph.initializer if tensor.data_type == float32}
    found = []
    for node in graph.node:
        weight = node.input[1] if len(node.input) > 1 else ""
        bias = node.input[2] if len(node.input) > 2 else ""
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        plain = attributes.get("alpha", 1.0) == attributes.get("beta", 1.0) == 1.0 and not attributes.get("transA")
        if node.domain or weight not in stored or (bias and bias not in stored):
            continue
        if node.op_type == "Conv" or (node.op_type == "MatMul" and stored[weight] == 2):
            found.append(Layer(node, weight, node.op_type == "Conv"))
        elif node.op_type == "Gemm" and plain:
            found.append(Layer(node, weight, bool(attributes.get("transB"))))
    return found


def bits_of(scheme: Sequence[Sequence[int]], layers: int) -> list[int]:
    """Return the bits of each layer, 8 or 32, from MiCo's scheme: a list for weights and one for activations.

    Raises INVALID_BINDING for another form, and for bits that no kernel has.

    >>> bits_of([[8, 32], [8, 32]], 2)
    [8, 32]
    """
    if len(scheme) != 2 or any(len(bits) != layers for bits in scheme):
        lengths = ", ".join(str(len(bits)) for bits in scheme)
        raise _make_refusal(
            f"it has lists of {lengths} numbers", f"give two lists, of weights and of activations, of {layers}"
        )
    for k, (weight, activation) in enumerate(zip(*scheme, strict=True)):
        if weight != activation or weight not in (8, FLOAT):
            raise _make_refusal(
                f"layer {k} has weights of {weight} and activations of {activation} bits, which no kernel has",
                "give a layer 8 bits in both lists, or 32 in both",
            )
    return list(scheme[0])


def _make_refusal(what: str, fix: str) -> TmmuError:
    return TmmuError("INVALID_BINDING", what, place="quantization scheme", fix=fix, binding="qscheme")


def observe_ranges(
    model: onnx.ModelProto, layers: Sequence[Layer], inputs: Mapping[str, Any], ranges: Ranges
) -> list[Any]:
    """Run the model on `inputs`, widen `ranges` by the operands and results of the layers, and return its outputs.

    The results of a Gemm count without its bias. Raises INVALID_IR for weights whose values are missing.
    """
    from onnx.reference import ReferenceEvaluator

    stored = {tensor.name: values(tensor) for tensor in model.graph.initializer}
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    outputs = [value.name for value in model.graph.output]
    names = [name for layer in layers for name in (layer.node.input[0], layer.node.output[0])]
    more = [name for name in dict.fromkeys(names) if name not in outputs and name not in inputs]
    watched.graph.output.extend(onnx.ValueInfoProto(name=name) for name in more)
    found = dict(inputs) | dict(
        zip([*outputs, *more], ReferenceEvaluator(watched).run(None, dict(inputs)), strict=True)
    )
    for layer in layers:
        operand, result = layer.node.input[0], layer.node.output[0]
        product = found[result]
        if layer.bias and layer.node.op_type == "Gemm":
            product = product - stored[layer.bias]
        for name, seen in ((operand, found[operand]), (_name_product(layer), product)):
            ranges[name] = max(ranges.get(name, 0.0), float(np.abs(seen).max(initial=0.0)))
    return [found[name] for name in outputs]


def _name_product(layer: Layer) -> str:
    """Return the name for the range of the product of a layer; the range of its result has another name."""
    return f"{layer.node.output[0]}.product"


def quantize_model(model: onnx.ModelProto, bits: Sequence[int], ranges: Ranges) -> onnx.ModelProto:
    """Return a copy of the model in which the layers with 8 bits compute in integers. O(nodes + weights).

    Raises INVALID_IR for a model whose operators are older than the integer ones.
    """
    version = next((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), 0)
    if version < OLDEST and any(count != FLOAT for count in bits):
        raise TmmuError(
            "INVALID_IR", f"version {version} of its operators has no integer products", place="opset_import",
            fix=f"convert the model to version {OLDEST} or later with onnx.version_converter",
        )  # fmt: skip
    result = onnx.ModelProto()
    result.CopyFrom(model)
    layers = layers_of(result.graph)
    chosen = {layer.node.output[0]: layer for layer, count in zip(layers, bits, strict=True) if count != FLOAT}
    made = _Quantization(result.graph, ranges)
    for node in list(result.graph.node):
        layer = chosen.get(node.output[0]) if node.output else None
        if layer is None:
            made.nodes.append(node)
        else:
            made.layer(layer)
    made.finish()
    return result


class _Quantization:
    """A graph whose nodes are written anew; initializers and quantized operands are made once."""

    def __init__(self, graph: onnx.GraphProto, ranges: Ranges) -> None:
        self.graph, self.ranges = graph, ranges
        self.nodes: list[onnx.NodeProto] = []
        self.weights = {tensor.name: tensor for tensor in graph.initializer}
        self.taken = {name for node in graph.node for name in (*node.input, *node.output)} | set(self.weights)
        self.named: dict[str, str] = {}

    def layer(self, layer: Layer) -> None:
        """Write the nodes of one layer."""
        node, product = layer.node, _name_product(layer)
        operand, output = node.input[0], node.output[0]
        weight = values(self.weights[layer.weight]).astype(np.float64)
        if node.op_type == "Gemm" and layer.by_rows:
            weight = weight.T
        steps = _step(self.ranges[operand]), _step(float(np.abs(weight).max(initial=0.0))), _step(self.ranges[product])
        zero = self.stored("zero", np.zeros((), np.int8))
        read, scale, write = (
            self.stored(f"{name}.scale", step)
            for name, step in zip((operand, layer.weight, product), steps, strict=True)
        )
        integers = f"{operand}.q8"
        if integers not in self.named:
            self.node("QuantizeLinear", [operand, read, zero], self.name(integers))
        kept = self.stored(f"{layer.weight}.q8", _integers(weight, steps[1]))
        operands = [self.name(integers), read, zero, kept, scale, zero, write, zero]
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute if node.op_type == "Conv"}
        if layer.bias and node.op_type == "Conv":
            bias = values(self.weights[layer.bias]).astype(np.float64)
            whole = np.rint(bias / (np.float64(steps[0]) * np.float64(steps[1])))
            operands.append(self.stored(f"{layer.bias}.q32", np.clip(whole, -(2**31), 2**31 - 1).astype(np.int32)))
        op = "QLinearConv" if node.op_type == "Conv" else "QLinearMatMul"
        self.node(op, operands, self.name(f"{product}.q8"), **attributes)
        added = layer.bias and node.op_type == "Gemm"
        plain = self.name(product) if added else output
        self.node("DequantizeLinear", [self.name(f"{product}.q8"), write, zero], plain)
        if added:
            self.node("Add", [plain, layer.bias], output)

    def node(self, op: str, operands: list[str], result: str, **attributes: Any) -> None:
        self.nodes.append(helper.make_node(op, operands, [result], name=f"{result}/{op}", **attributes))

    def name(self, wanted: str) -> str:
        """Return the name for `wanted` in the graph, one that nothing had before."""
        if wanted not in self.named:
            free = wanted
            while free in self.taken:
                free += "_"
            self.taken.add(free)
            self.named[wanted] = free
        return self.named[wanted]

    def stored(self, wanted: str, value: NDArray[Any] | np.float32) -> str:
        if wanted not in self.named:
            self.graph.initializer.append(numpy_helper.from_array(np.asarray(value), self.name(wanted)))
        return self.named[wanted]

    def finish(self) -> None:
        """Put the nodes into the graph, and remove initializers that none of them reads."""
        del self.graph.node[:]
        self.graph.node.extend(self.nodes)
        read = {name for node in self.nodes for name in node.input} | {value.name for value in self.graph.output}
        for name, tensor in self.weights.items():
            if name not in read:
                self.graph.initializer.remove(tensor)
        del self.graph.value_info[:]


def _step(largest: float) -> np.float32:
    """Return the step of integers in [-127, 127] that reach `largest`; 1 if there are only zeros."""
    return np.float32(largest / LARGEST) or np.float32(1.0)


def _integers(weight: NDArray[np.float64], scale: np.float32) -> NDArray[np.int8]:
    """Round half to even, and clamp."""
    return np.clip(np.rint(weight / np.float64(scale)), -LARGEST, LARGEST).astype(np.int8)
