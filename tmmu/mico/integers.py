"""A network with layers of 8 bits: the same ONNX graph, whose tensors stay int8 from layer to layer.

A layer reads int8 and writes int8. So do the operators between layers that need no other arithmetic: Relu, MaxPool,
Concat and the views pass integers on with their scale, Add is QLinearAdd, and an average is a QLinearConv by ones.
A layer that reads float32 has a QuantizeLinear before it; a DequantizeLinear is before other readers of int8.
Scales are symmetric, one for each tensor: 127 is the largest absolute value, for weights the stored one, for other
tensors that of the runs of `forward`. spec: MC8.7, MC8.10, MC8.11
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from tmmu.core.errors import TmmuError
from tmmu.mico.quantization import FLOAT, Layer, Ranges, layers_of, observe_ranges
from tmmu.mico.stored import values

OLDEST = 10
"""The first version of the ai.onnx operators with QLinearConv and QLinearMatMul."""

EVALUATED = 19
"""The version of the ai.onnx operators of a quantized example: the first whose DequantizeLinear onnx can evaluate."""

LARGEST = 127

RUNTIME = "com.microsoft"
"""The domain of QLinearAdd, an operator of ONNX Runtime."""

PASSED = {"Flatten": 1, "Identity": 1, "MaxPool": 12, "Relu": 14, "Reshape": 5, "Squeeze": 1, "Transpose": 1,
          "Unsqueeze": 1, "Dropout": 1}  # fmt: skip
"""Operators whose int8 result has the scale of their first operand, and the first version that takes int8.

Dropout takes no int8, and is written as the Identity that it is at inference.
"""


def quantize_example(model: onnx.ModelProto, seed: int) -> onnx.ModelProto:
    """Return a copy of an example with its weights in the file, all of whose layers have 8 bits.

    Ranges are those of one run on inputs in [-1, 1) that are drawn from the seed. spec: MC8.12
    """
    draw = np.random.Generator(np.random.Philox(seed))
    inputs = {
        value.name: 2 * draw.random([dim.dim_value for dim in value.type.tensor_type.shape.dim], np.float32) - 1
        for value in model.graph.input
    }
    ranges: Ranges = {}
    observe_ranges(model, inputs, ranges)
    made = quantize_model(model, [8] * len(layers_of(model.graph)), ranges)
    next(each for each in made.opset_import if not each.domain).version = EVALUATED
    made.ir_version = max(made.ir_version, 9)
    return made


def quantize_model(model: onnx.ModelProto, bits: Sequence[int], ranges: Ranges) -> onnx.ModelProto:
    """Return a copy of the model in which the layers with 8 bits, and what is between them, compute in integers.

    Raises INVALID_IR for a model whose operators are older than the integer ones. O(nodes + weights).
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
    if not chosen:
        return result
    shapes = _shapes_of(model)
    made = _IntegerGraph(result.graph, chosen, _find_scales(result.graph, chosen, shapes, version, ranges), shapes)
    for node in list(result.graph.node):
        made.add(node)
    made.finish()
    if any(node.domain == RUNTIME for node in made.nodes) and RUNTIME not in [o.domain for o in result.opset_import]:
        result.opset_import.append(helper.make_opsetid(RUNTIME, 1))
    return result


def _shapes_of(model: onnx.ModelProto) -> dict[str, list[int]]:
    """Return the shapes of float32 tensors as onnx infers them; a dimension that is not a number is 0."""
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    typed = (*onnx.shape_inference.infer_shapes(bare).graph.value_info, *model.graph.input, *model.graph.output)
    return {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in typed
        if value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
    }


def attributes_of(node: onnx.NodeProto) -> dict[str, Any]:
    """Return the attributes of a node by name."""
    return {each.name: helper.get_attribute_value(each) for each in node.attribute}


def _window_of(node: onnx.NodeProto, shapes: Mapping[str, list[int]]) -> list[int] | None:
    """Return the channels and the kernel of an average that a convolution by ones computes; None for any other.

    A sum over padding that does not count has no constant divisor.
    """
    shape, given = shapes.get(node.input[0], []), attributes_of(node)
    if len(shape) not in (3, 4) or shape[1] == 0:
        return None
    if node.op_type == "GlobalAveragePool":
        return None if 0 in shape[1:] else shape[1:]
    padded = any(given.get("pads", [])) and not given.get("count_include_pad", 0)
    if padded or given.get("ceil_mode", 0) or given.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
        return None
    return [shape[1], *given["kernel_shape"]]


class _Found(NamedTuple):
    """The tensors that are int8, and by tensor the name of its scale and the largest value that it represents."""

    integers: frozenset[str]
    scales: Mapping[str, tuple[str, float]]


def _find_scales(
    graph: onnx.GraphProto,
    layers: Mapping[str, Layer],
    shapes: Mapping[str, list[int]],
    version: int,
    ranges: Ranges,
) -> _Found:
    """Return the tensors that nodes write as int8, and the scales of these and of the operands of layers.

    Tensors that are passed on or joined have one scale, the largest of them. What only Relu reads has the scale of
    the results of Relu, since int8 clamps the rest.
    """
    first: dict[str, str] = {}
    outputs = {value.name for value in graph.output}
    readers: dict[str, list[onnx.NodeProto]] = defaultdict(list)
    for node in graph.node:
        for name in (*node.input, *_read_by_bodies(node)):
            readers[name].append(node)

    def root(name: str) -> str:
        while first[name] != name:
            name = first[name]
        return name

    for node in graph.node:
        op, operands = node.op_type, [name for name in node.input if name]
        result = next(iter(node.output), "")
        joined: list[str] = []
        if result in layers:
            pass
        elif node.domain or len(node.output) != 1 or not operands or operands[0] not in first:
            continue
        elif op in PASSED and version >= PASSED[op] and (op != "Dropout" or len(operands) < 3):
            joined = operands[:1]
        elif op == "Concat" and all(name in first for name in operands):
            joined = operands
        elif op == "Add" and operands[1] in first:
            pass
        elif op not in ("AveragePool", "GlobalAveragePool") or _window_of(node, shapes) is None:
            continue
        first[result] = result
        for name in joined:
            first[root(name)] = result

    largest: dict[str, float] = defaultdict(float)
    for name in first:
        after = readers[name]
        clamped = name not in outputs and after and all(node.op_type == "Relu" and not node.domain for node in after)
        reach = max(ranges[node.output[0]] for node in after) if clamped else ranges[name]
        largest[root(name)] = max(largest[root(name)], reach)
    scales = {name: (root(name), largest[root(name)]) for name in first}
    for layer in layers.values():
        operand = layer.node.input[0]
        scales.setdefault(operand, (operand, ranges[operand]))
    return _Found(frozenset(first), scales)


class _IntegerGraph:
    """A graph whose nodes are written anew; each tensor is converted once, where it is first read as the other type."""

    def __init__(
        self, graph: onnx.GraphProto, layers: Mapping[str, Layer], found: _Found, shapes: Mapping[str, list[int]]
    ) -> None:
        self.graph, self.layers, self.found, self.shapes = graph, layers, found, shapes
        self.nodes: list[onnx.NodeProto] = []
        self.weights = {tensor.name: tensor for tensor in graph.initializer}
        self.taken = {name for node in graph.node for name in (*node.input, *node.output)} | set(self.weights)
        self.outputs = [value.name for value in graph.output]
        self.named: dict[str, str] = {}
        self.converted: set[str] = set()

    def add(self, node: onnx.NodeProto) -> None:
        """Write a node, in integers if its result is int8, and conversions before it if it needs them."""
        if next(iter(node.output), "") in self.found.integers:
            self._makers.get(node.op_type, _IntegerGraph._pass_on)(self, node)
            return
        for name in (*node.input, *sorted(_read_by_bodies(node))):
            self._read_float(name)
        self.nodes.append(node)

    def _read_float(self, name: str) -> None:
        """Convert an int8 tensor to float32, once."""
        if name in self.found.integers and name not in self.converted:
            self.converted.add(name)
            self.node("DequantizeLinear", [self.name(f"{name}.q8"), self._scale(name), self._zero()], name)

    def _read_integer(self, name: str) -> str:
        """Return the int8 form of a tensor; convert it from float32 at first."""
        made = self.name(f"{name}.q8")
        if name not in self.found.integers and name not in self.converted:
            self.converted.add(name)
            self.node("QuantizeLinear", [name, self._scale(name), self._zero()], made)
        return made

    def _zero(self) -> str:
        return self.stored("zero", np.zeros((), np.int8))

    def _step(self, name: str) -> np.float32:
        return _step(self.found.scales[name][1])

    def _scale(self, name: str) -> str:
        return self._state_scale(self.found.scales[name][0], self._step(name))

    def _state_scale(self, name: str, step: np.float32) -> str:
        return self.stored(f"{name}.scale", step)

    def _weight_step(self, layer: Layer) -> np.float32:
        return _step(float(np.abs(values(self.weights[layer.weight])).max(initial=0.0)))

    def _add_product(self, node: onnx.NodeProto) -> None:
        """Write a MatMul."""
        layer, result = self.layers[node.output[0]], node.output[0]
        step = self._weight_step(layer)
        weight = self.stored(f"{layer.weight}.q8", _integers(values(self.weights[layer.weight]), step))
        operand = self._read_integer(node.input[0])
        operands = [operand, self._scale(node.input[0]), self._zero(), weight, self._state_scale(layer.weight, step)]
        operands += [self._zero(), self._scale(result), self._zero()]
        self.node("QLinearMatMul", operands, self.name(f"{result}.q8"))

    def _add_convolution(self, node: onnx.NodeProto) -> None:
        """Write a Conv; or a Gemm as a convolution of 1 x 1, which adds its bias in int32. spec: MC8.7"""
        layer, result, form = self.layers[node.output[0]], node.output[0], ""
        weight, step = values(self.weights[layer.weight]), self._weight_step(layer)
        operand, attributes = self._read_integer(node.input[0]), attributes_of(node)
        written = self.name(f"{result}.q8")
        if node.op_type == "Gemm":
            weight, attributes, form = (weight if layer.by_rows else weight.T), {}, ".filters"
            filters, channels = weight.shape
            weight = weight.reshape(filters, channels, 1, 1)
            whole = self.stored(f"shape.0.{channels}.1.1", np.array([0, channels, 1, 1], np.int64))
            image = self.name(f"{result}.operand.q8")
            self.node("Reshape", [operand, whole], image)
            operand, written = image, self.name(f"{result}.product.q8")
        kept = self.stored(f"{layer.weight}{form}.q8", _integers(weight, step))
        operands = [operand, self._scale(node.input[0]), self._zero(), kept, self._state_scale(layer.weight, step)]
        operands += [self._zero(), self._scale(result), self._zero()]
        if layer.bias:
            bias = np.broadcast_to(values(self.weights[layer.bias]).astype(np.float64).reshape(-1), weight.shape[:1])
            unit = np.float64(self._step(node.input[0])) * np.float64(step)
            whole_bias = np.clip(np.rint(bias / unit), -(2**31), 2**31 - 1).astype(np.int32)
            operands.append(self.stored(f"{layer.bias}.{result}.q32", whole_bias))
        self.node("QLinearConv", operands, written, **attributes)
        if node.op_type == "Gemm":
            rows = self.stored(f"shape.0.{len(weight)}", np.array([0, len(weight)], np.int64))
            self.node("Reshape", [written, rows], self.name(f"{result}.q8"))

    def _add_sum(self, node: onnx.NodeProto) -> None:
        operands = [
            part for name in (*node.input, node.output[0])
            for part in (self.name(f"{name}.q8"), self._scale(name), self._zero())
        ]  # fmt: skip
        del operands[6]
        self.node("QLinearAdd", operands, self.name(f"{node.output[0]}.q8"), domain=RUNTIME)

    def _add_average(self, node: onnx.NodeProto) -> None:
        """Write an average as a convolution of each channel by ones, with their number in the scale."""
        window = _window_of(node, self.shapes)
        assert window is not None, "only an average that a convolution computes has integers"
        channels, *kernel = window
        ones = self.stored(f"ones.{'.'.join(map(str, window))}", np.ones((channels, 1, *kernel), np.int8))
        share = self.stored(f"share.{math.prod(kernel)}", np.float32(1 / math.prod(kernel)))
        result, moved = node.output[0], ("dilations", "pads", "strides")
        attributes = {name: value for name, value in attributes_of(node).items() if name in moved}
        operands = [self._read_integer(node.input[0]), self._scale(node.input[0]), self._zero(), ones, share]
        operands += [self._zero(), self._scale(result), self._zero()]
        self.node("QLinearConv", operands, self.name(f"{result}.q8"), group=channels, **attributes)

    def _pass_on(self, node: onnx.NodeProto) -> None:
        """Write the node with int8 for each operand that has a scale."""
        op = "Identity" if node.op_type == "Dropout" else node.op_type
        operands = [self.name(f"{name}.q8") if name in self.found.integers else name for name in node.input]
        if op == "Identity":
            del operands[1:]
        attributes = {} if op == "Identity" else attributes_of(node)
        self.node(op, operands, self.name(f"{node.output[0]}.q8"), **attributes)

    _makers: ClassVar = {
        "Add": _add_sum, "AveragePool": _add_average, "Conv": _add_convolution, "Gemm": _add_convolution,
        "GlobalAveragePool": _add_average, "MatMul": _add_product,
    }  # fmt: skip

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
        """Convert outputs, put the nodes into the graph, and remove initializers that none of them reads."""
        for name in self.outputs:
            self._read_float(name)
        del self.graph.node[:]
        self.graph.node.extend(self.nodes)
        read = {name for node in self.nodes for name in (*node.input, *_read_by_bodies(node))} | set(self.outputs)
        for name, tensor in self.weights.items():
            if name not in read:
                self.graph.initializer.remove(tensor)
        del self.graph.value_info[:]


def _read_by_bodies(node: onnx.NodeProto) -> set[str]:
    """Return every name that a body of the node reads or returns."""
    found: set[str] = set()
    bodies = [body for a in node.attribute for body in ([a.g] if a.HasField("g") else a.graphs)]
    for body in bodies:
        found.update(value.name for value in body.output)
        for inner in body.node:
            found.update(inner.input)
            found |= _read_by_bodies(inner)
    return found


def _step(largest: float) -> np.float32:
    """Return the step of integers in [-127, 127] that reach `largest`; 1 if there are only zeros."""
    return np.float32(largest / LARGEST) or np.float32(1.0)


def _integers(weight: NDArray[Any], scale: np.float32) -> NDArray[np.int8]:
    """Round half to even, and clamp."""
    return np.clip(np.rint(weight.astype(np.float64) / np.float64(scale)), -LARGEST, LARGEST).astype(np.int8)
