"""Small ONNX models that ONNX Runtime rewrites when it optimizes them: among them each operator that it then writes.

A model is drawn from a seed. Together the kinds lead to every operator of ONNX Runtime that this project has rows for
and that it writes on an x86-64 CPU (`WRITTEN`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

MS, BLOCKS = "com.microsoft", "com.microsoft.nchwc"


class Building:
    """A model in the making: nodes and weights are added one after the other."""

    def __init__(self, seed: int, opset: int = 17) -> None:
        self.random, self.numbers, self.opset = Random(seed), np.random.default_rng(seed), opset
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []

    def input(self, *shape: int | str, dtype: int = TensorProto.FLOAT) -> str:
        """Add a graph input."""
        name = f"x{len(self.inputs)}"
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def weight(self, *shape: int) -> str:
        """Add a stored tensor of floats."""
        return self.stored(self.numbers.normal(size=shape).astype(np.float32) / 4)

    def stored(self, value: object, dtype: str = "float32") -> str:
        """Add a stored tensor."""
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def integers(self, value: object, number: int) -> str:
        """Add a stored tensor of an element type that NumPy lacks."""
        array = np.asarray(value)
        name = f"w{len(self.weights)}"
        self.weights.append(helper.make_tensor(name, number, array.shape, array.reshape(-1).tolist()))
        return name

    def __call__(self, op: str, *operands: str, results: int = 1, **attributes: object) -> str:
        """Add a node and return its first result."""
        name = f"v{len(self.nodes)}"
        names = [name, *(f"{name}_{k}" for k in range(1, results))]
        self.nodes.append(helper.make_node(op, operands, names, name=f"{op}{len(self.nodes)}", **attributes))
        return name

    def quantized(self, x: str, scale: float = 0.05) -> str:
        """Quantize a tensor and dequantize it again, as quantized models state what they compute in integers."""
        by = (self.stored(scale), self.stored(128, "uint8"))
        return self("DequantizeLinear", self("QuantizeLinear", x, *by), *by)

    def quantized_weight(self, *shape: int) -> str:
        """Add a stored tensor of integers, dequantized."""
        value = self.numbers.integers(-100, 100, shape)
        return self("DequantizeLinear", self.stored(value, "int8"), self.stored(0.02), self.stored(0, "int8"))

    def model(self, *results: str) -> onnx.ModelProto:
        """Return the model with these outputs."""
        outputs = [onnx.ValueInfoProto(name=name) for name in results]
        for output in outputs:
            output.type.tensor_type.elem_type = TensorProto.FLOAT
        graph = helper.make_graph(self.nodes, "small", self.inputs, outputs, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)


def convolve(seed: int) -> onnx.ModelProto:
    """Convolutions with activations, sums, pools and a resize, in sizes of which some fill no block."""
    b = Building(seed)
    draw = b.random.choice
    channels = draw([3, 4, 12, 16])
    x = b.input("batch", channels, draw([15, 16, 21]), draw([16, 19]))
    for _ in range(b.random.randint(2, 5)):
        filters, kernel, group = draw([8, 12, 16, 20]), draw([1, 3, 5]), 1
        if channels % 8 == 0 and draw([0, 0, 1]):
            group = filters = channels
        attributes = {"strides": [draw([1, 1, 2])] * 2, "group": group, "dilations": [draw([1, 1, 2])] * 2}
        if draw([0, 0, 1]):
            attributes |= {"auto_pad": draw(["SAME_UPPER", "SAME_LOWER"]), "dilations": [1, 1]}
        else:
            attributes |= {"pads": [draw([2, 4])] * 4}
        weights = [b.weight(filters, channels // group, kernel, kernel), *([b.weight(filters)] if draw([0, 1]) else [])]
        y = b("Conv", x, *weights, **attributes)
        if draw([0, 0, 1]) and filters == channels and attributes["strides"] == [1, 1] and kernel == 5:
            y = b("Add", y, x) if "pads" in attributes and attributes["dilations"] == [2, 2] else y
        activation = draw(["Relu", "Relu", "LeakyRelu", "Sigmoid", "Tanh", "HardSigmoid", "Clip", ""])
        if activation == "Clip":
            y = b("Clip", y, b.stored(0.0), b.stored(6.0))
        elif activation:
            y = b(activation, y)
        if draw([0, 1]):
            other = b("Conv", x, *weights, **attributes)
            y = b("Relu", b("Add", other, y))
        x, channels = y, filters
    pool = draw(["MaxPool", "AveragePool", "Resize", ""])
    if pool == "Resize":
        scales = b.stored([1, 1, 2, draw([1, 2])])
        x = b(
            "Resize", x, "", scales, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"
        )
    elif pool:
        size, ceil = draw([2, 3]), draw([0, 1])  # what padding adds to rounding up is open before version 22
        pads = [0, 0, 0, 0] if ceil else [0, 0, size - 1, size - 1]
        x = b(pool, x, kernel_shape=[size, size], strides=[2, 2], pads=pads, ceil_mode=ceil)
    y = b(draw(["GlobalMaxPool", "GlobalAveragePool"]), x)
    return b.model(b("Flatten", y), x)


def convolve_deep(seed: int) -> onnx.ModelProto:
    """Convolutions of three spatial dimensions and products with activations, which are fused and keep their layout."""
    b = Building(seed)
    x = b.input("batch", 4, 6, 7, 8)
    y = b("Relu", b("Conv", x, b.weight(6, 4, 3, 3, 3), b.weight(6), pads=[1] * 6))
    z = b("Conv", y, b.weight(6, 6, 1, 1, 1))
    y = b("Relu", b("Add", z, y))
    y = b("Flatten", b("GlobalAveragePool", y))
    y = b("Relu", b("Gemm", y, b.weight(5, 6), b.weight(5), transB=1))
    return b.model(b("LeakyRelu", b("Gemm", y, b.weight(5, 3))))


def attend(seed: int) -> onnx.ModelProto:
    """Normalization and attention, written out in the operators of old versions; GELU in three forms."""
    b = Building(seed, Random(seed).choice([12, 14, 17]))
    width, heads, length = 16, 4, "length"
    ids = b.input("batch", length, dtype=TensorProto.INT64)
    x = _normalize(b, b("Gather", b.weight(30, width), ids), width)
    skip = b("Add", x, b.weight(width))
    x = _normalize(b, b("Add", skip, x), width)
    q = b("MatMul", x, b.weight(width, width))
    k = b("MatMul", x, b.weight(width, width))
    split = b.stored([0, 0, heads, width // heads], "int64")
    q, k = (b("Transpose", b("Reshape", each, split), perm=[0, 2, 1, 3]) for each in (q, k))
    scores = b("Div", b("MatMul", q, b("Transpose", k, perm=[0, 1, 3, 2])), b.stored(2.0))
    y = b("Transpose", b("MatMul", b("Softmax", scores, axis=-1), k), perm=[0, 2, 1, 3])
    y = b("Reshape", y, b.stored([0, 0, width], "int64"))
    x = _normalize(b, b("Add", b("Add", b("MatMul", y, b.weight(width, width)), b.weight(width)), x), width)
    y = b("Add", b("MatMul", x, b.weight(width, 24)), b.weight(24))
    y = b("Mul", b("Mul", y, b("Add", b("Erf", b("Div", y, b.stored(2**0.5))), b.stored(1.0))), b.stored(0.5))
    y = b("MatMul", y, b.weight(24, width))
    quick = b("Mul", y, b("Sigmoid", b("Mul", y, b.stored(1.702))))
    cube = b("Mul", b("Pow", quick, b.stored(3.0)), b.stored(0.044715))
    inner = b("Mul", b("Add", quick, cube), b.stored(0.7978845608))
    fast = b("Mul", b("Mul", quick, b.stored(0.5)), b("Add", b("Tanh", inner), b.stored(1.0)))
    scale = b("Pow", fast, b.stored(2.0))
    root = b("Sqrt", b("Add", b("ReduceMean", scale, axes=[-1]), b.stored(1e-5)))
    y = b("Mul", b("Div", fast, root), b.weight(width))
    gelu = b("Mul", b("Mul", x, b("Add", b("Erf", b("Div", x, b.stored(2**0.5))), b.stored(1.0))), b.stored(0.5))
    return b.model(y, gelu)


def _normalize(b: Building, x: str, width: int) -> str:
    """Add a normalization of layers in the operators that it was made of before it was one."""
    centred = b("Sub", x, b("ReduceMean", x, axes=[-1]))
    variance = b("ReduceMean", b("Pow", centred, b.stored(2.0)), axes=[-1])
    found = b("Div", centred, b("Sqrt", b("Add", variance, b.stored(1e-5))))
    return b("Add", b("Mul", found, b.weight(width)), b.weight(width))


def multiply(seed: int) -> onnx.ModelProto:
    """Products of transposed and scaled tensors, with batches in unusual places, and of integers."""
    b = Building(seed)
    x = b.input("batch", 3, 5, 8)
    y = b("Mul", b("MatMul", x, b("Transpose", x, perm=[0, 1, 3, 2])), b.stored(0.25))
    z = b("Softmax", b("Add", y, b.input("batch", 1, 1, 5)), axis=-1)
    turned = b("Transpose", x, perm=[1, 2, 0, 3])
    w = b("MatMul", turned, b.weight(3, 5, 8, 4))
    by = b("DynamicQuantizeLinear", x, results=3)
    weights = b.stored(b.numbers.integers(-9, 9, (8, 6)), "int8")
    q = b("MatMulInteger", by, weights, f"{by}_2")
    q = b("Mul", b("Cast", q, to=TensorProto.FLOAT), b("Mul", f"{by}_1", b.stored(0.1)))
    return b.model(z, w, q)


def quantize(seed: int) -> onnx.ModelProto:
    """A network whose weights and values are quantized and dequantized, which is computed in integers."""
    b = Building(seed)
    x = b.quantized(b.input("batch", 8, 12, 12))
    y = b.quantized(b("Conv", x, b.quantized_weight(16, 8, 3, 3), pads=[1] * 4, strides=[b.random.choice([1, 2])] * 2))
    y = b.quantized(b(b.random.choice(["LeakyRelu", "Sigmoid"]), y))
    z = b.quantized(b("Conv", y, b.quantized_weight(16, 16, 1, 1)))
    y = b.quantized(b(b.random.choice(["Add", "Mul"]), y, z))
    y = b.quantized(b("Concat", y, z, axis=1))
    pool = b.random.choice(["MaxPool", "AveragePool"])
    y = b.quantized(b(pool, y, kernel_shape=[3, 3], strides=[2, 2], pads=[0, 0, 2, 2]))
    mask = b("Greater", y, b.stored(0.0))
    y = b.quantized(b("Where", mask, y, b.quantized(b("Identity", b.stored(np.zeros((1, 1, 1, 1)))))))
    y = b.quantized(b("GlobalAveragePool", y))
    y = b.quantized(b("Flatten", y))
    y = b.quantized(b("Gemm", y, b.quantized_weight(10, 32), transB=1))
    z = b.quantized(b("Softmax", y, axis=-1))
    return b.model(z, b("MatMul", y, b.quantized_weight(10, 4)))


def pack(seed: int) -> onnx.ModelProto:
    """A product with weights of four bits in blocks."""
    b = Building(seed, 21)
    x = b.input("batch", 3, 64)
    weights = b.integers(b.numbers.integers(0, 15, (64, 32)), TensorProto.UINT4)
    zero = b.integers(np.full((2, 32), 8), TensorProto.UINT4)
    w = b("DequantizeLinear", weights, b.stored(np.full((2, 32), 0.1)), zero, axis=0, block_size=32)
    return b.model(b("MatMul", x, w))


KINDS: Sequence[Callable[[int], onnx.ModelProto]] = (convolve, convolve_deep, attend, multiply, quantize, pack)
"""The kinds of models: each makes one from a seed."""
