"""The layers of a network, the bits of each as MiCo's `set_qscheme` requests them, and the ranges of its tensors.

A layer is a Conv, Gemm or MatMul whose weight is stored. `tmmu.mico.integers` writes the network with layers of 8 bits.
spec: MC8.6, MC8.7
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import helper

from tmmu.core.errors import TmmuError
from tmmu.mico.stored import values

FLOAT = 32
"""The bits of a layer that is not quantized."""

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
    shapes = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer if tensor.data_type == float32}
    found = []
    for node in graph.node:
        weight = node.input[1] if len(node.input) > 1 else ""
        bias = node.input[2] if len(node.input) > 2 else ""
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        plain = attributes.get("alpha", 1.0) == attributes.get("beta", 1.0) == 1.0 and not attributes.get("transA")
        if node.domain or weight not in shapes or (bias and bias not in shapes):
            continue
        if node.op_type == "Conv" or (node.op_type == "MatMul" and len(shapes[weight]) == 2):
            found.append(Layer(node, weight, node.op_type == "Conv"))
        elif node.op_type == "Gemm" and plain and _is_row(shapes.get(bias, ())):
            found.append(Layer(node, weight, bool(attributes.get("transB"))))
    return found


def _is_row(bias: Sequence[int]) -> bool:
    """Return whether a bias is the same for each row of a product."""
    return all(dim == 1 for dim in bias[:-1])


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


def observe_ranges(model: onnx.ModelProto, inputs: Mapping[str, Any], ranges: Ranges) -> list[Any]:
    """Run the model on `inputs`, widen `ranges` by its inputs and every result of a node, and return its outputs.

    Raises INVALID_IR for weights whose values are missing.
    """
    from onnx.reference import ReferenceEvaluator

    for tensor in model.graph.initializer:
        values(tensor)
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    outputs = [value.name for value in model.graph.output]
    results = dict.fromkeys(name for node in model.graph.node for name in node.output if name)
    more = [name for name in results if name not in outputs]
    watched.graph.output.extend(onnx.ValueInfoProto(name=name) for name in more)
    found: Any = ReferenceEvaluator(watched).run(None, dict(inputs))
    for name, seen in (*inputs.items(), *zip([*outputs, *more], found, strict=True)):
        if isinstance(seen, np.ndarray) and seen.dtype == np.float32:
            ranges[name] = max(ranges.get(name, 0.0), float(np.abs(seen).max(initial=0.0)))
    return list(found[: len(outputs)])
