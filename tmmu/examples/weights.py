"""Values for the weights of an example that depend only on a seed, the same bits on every machine.

The numbers are those of `tmmu.examples.draws`. Their reach r / 2^e follows from the use of the weight:

* a matrix or filter, whose results add up n products each: √(6 / n), He's uniform distribution, under which
  activations keep their size through linear layers and ReLUs;
* a factor (the scale of a normalization, its variance, an operand of Mul): 1/4, around one;
* any other weight (a bias, an embedding): 1/8.

A weight of type bool is a mask, true on and below the diagonal.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto

from tmmu.examples.draws import check_seed, draw_weights, grid

INSIDE_LIMIT = 1 << 20
"""Weights of at most this many bytes in total are stored in the file of the model."""

CONSTANT = 64
"""The most bytes of a constant that is not a weight."""

FACTORS = {
    ("BatchNormalization", 1), ("BatchNormalization", 4), ("InstanceNormalization", 1), ("LayerNormalization", 1),
    ("Mul", 0), ("Mul", 1),
}  # fmt: skip
"""The operands, as operator and position, that multiply an activation element by element."""

BITS: dict[int, int] = {TensorProto.FLOAT: 16, TensorProto.FLOAT16: 11, TensorProto.BFLOAT16: 8}
"""The most bits of an integer m by element type, so that the type represents m / 2^e exactly."""

Readers = dict[str, tuple[onnx.NodeProto, int]]


def with_weights(
    model: onnx.ModelProto, seed: int, location: str, limit: int = INSIDE_LIMIT
) -> tuple[onnx.ModelProto, Iterator[bytes] | None]:
    """Return the model with its weights, and the content of the file `location` if they are stored outside, else None.

    Weights are the initializers whose data are external. Pieces of the content are made when they are asked for. Raises
    ValueError for a seed that is not in [0, 2^64). O(elements) time; memory is bounded, except for weights stored
    inside.
    spec: MC7.1 to MC7.5
    """
    check_seed(seed)
    filled = onnx.ModelProto()
    filled.CopyFrom(model)
    readers = first_readers(filled.graph)
    absent = [t for t in filled.graph.initializer if t.data_location == TensorProto.EXTERNAL]
    sizes = [next(int(entry.value) for entry in t.external_data if entry.key == "length") for t in absent]
    pieces = (values(tensor, readers.get(tensor.name), seed, k) for k, tensor in enumerate(absent))
    outside = sum(sizes) > limit
    end = 0
    for tensor, size in zip(absent, sizes, strict=True):
        del tensor.external_data[:]
        if outside:
            for key, value in (("location", location), ("offset", end), ("length", size)):
                tensor.external_data.add(key=key, value=str(value))
            end += size
        else:
            tensor.ClearField("data_location")
            tensor.raw_data = b"".join(next(pieces))
    return filled, (piece for each in pieces for piece in each) if outside else None


def move_outside(model: onnx.ModelProto, location: str) -> Iterator[bytes] | None:
    """Move the weights to the file `location`, and return its content; None if they are small in all. spec: MC7.4

    Constants of at most `CONSTANT` bytes stay in the model, because shapes follow from some of them.
    """
    stored = [tensor for tensor in model.graph.initializer if len(tensor.raw_data) > CONSTANT]
    pieces = [tensor.raw_data for tensor in stored]
    if sum(map(len, pieces)) <= INSIDE_LIMIT:
        return None
    end = 0
    for tensor, data in zip(stored, pieces, strict=True):
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", location), ("offset", end), ("length", len(data))):
            tensor.external_data.add(key=key, value=str(value))
        end += len(data)
    return iter(pieces)


def first_readers(graph: onnx.GraphProto) -> Readers:
    """Return the first node that reads each tensor, bodies included, and the position of the operand."""
    found: Readers = {}
    pending = [graph]
    while pending:
        nodes = pending.pop().node
        for node in nodes:
            for place, name in enumerate(node.input):
                found.setdefault(name, (node, place))
            for attribute in node.attribute:
                pending += [attribute.g] if attribute.HasField("g") else []
                pending += attribute.graphs
    return found


def values(tensor: TensorProto, reader: tuple[onnx.NodeProto, int] | None, seed: int, k: int) -> Iterator[bytes]:
    """Yield the elements of the k-th weight, encoded little-endian, in pieces of at most `BLOCK`."""
    count = math.prod(tensor.dims)
    if tensor.data_type == TensorProto.BOOL:
        yield np.tril(np.ones(tuple(tensor.dims), np.bool_)).tobytes()
        return
    square, is_factor = width(tensor, reader)
    for elements in draw_weights(count, seed, k, grid(square, BITS[tensor.data_type], is_factor)):
        yield _encode(elements, tensor.data_type)


def width(tensor: TensorProto, reader: tuple[onnx.NodeProto, int] | None) -> tuple[Fraction, bool]:
    """Return the square of the reach of the elements, and whether their middle is one and not zero."""
    dims, (node, place) = tuple(tensor.dims), reader or (onnx.NodeProto(), -1)
    op = node.op_type
    if (op, place) in FACTORS:
        return Fraction(1, 16), True
    products = 0
    if op == "Conv" and place == 1:
        products = math.prod(dims[1:])
    elif op == "ConvTranspose" and place == 1:
        products = dims[0]
    elif op == "MatMul" and len(dims) > 1:
        products = dims[-2] if place == 1 else dims[-1]
    elif op == "Gemm" and place == 1:
        products = dims[1] if any(a.name == "transB" and a.i for a in node.attribute) else dims[0]
    return (Fraction(6, products), False) if products else (Fraction(1, 64), False)


def _encode(elements: NDArray[np.float32], data_type: int) -> bytes:
    """Encode the elements in the type of the file, which represents each exactly."""
    if data_type == TensorProto.BFLOAT16:
        return (elements.astype("<f4").view("<u4") >> np.uint32(16)).astype("<u2").tobytes()
    return elements.astype("<f2" if data_type == TensorProto.FLOAT16 else "<f4").tobytes()
