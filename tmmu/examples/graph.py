"""A writer of ONNX graphs as an exporter writes them: nodes in order, names by scope, external weights.

A weight is declared with its shape and type as external data of a file that does not ship, because a memory plan needs
its size and never its values. Small constants, which define shapes and branches, are stored inline.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import onnx
from onnx import TensorProto, helper

from tmmu.core.dtypes import nbytes

OPSET = 18
"""The version of the ai.onnx operators in every example."""

IR_VERSION = 8
"""The oldest file format that supports `OPSET`, so that old readers can read the examples too."""

DTYPES = {
    "float32": TensorProto.FLOAT,
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
    "int64": TensorProto.INT64,
    "bool": TensorProto.BOOL,
}
"""The element types that the examples use, by the name in this project."""

PRODUCER = "tmmu"
"""The producer that every example names."""

Dim = int | str
Attribute = int | float | str | Sequence[int] | onnx.GraphProto | onnx.TensorProto


def absent_weights(name: str) -> str:
    """Return the name of the weight file that an example states. No file of this name is ever written."""
    return f"{name}.weights"


def absent_weights_of(model: onnx.ModelProto) -> str | None:
    """Return the name of that file if the model is an example; None for any other model."""
    return absent_weights(model.graph.name) if model.producer_name == PRODUCER else None


class OnnxGraph:
    """The nodes, inputs, outputs and weights of one graph or of one body, in the order in which they are written.

    Parameters
    ----------
    name
        The name of the graph; for a whole model also that of its absent weight file.
    constants_as_nodes
        Write constants as `Constant` nodes, as tracing exporters do, and not as initializers.
    """

    def __init__(self, name: str, *, constants_as_nodes: bool = False) -> None:
        self.name, self.constants_as_nodes = name, constants_as_nodes
        self.parameters = 0
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []
        self._nodes: list[onnx.NodeProto] = []
        self._initializers: list[onnx.TensorProto] = []
        self._constants: dict[tuple[str, tuple[int, ...], tuple[float, ...]], str] = {}
        self._scope: list[str] = []
        self._names: Counter[str] = Counter()
        self._external_bytes = 0

    def inner(self, name: str) -> OnnxGraph:
        """Return a graph for the body `name` of a later node; its names are in the present scope."""
        body = OnnxGraph(name, constants_as_nodes=self.constants_as_nodes)
        body._scope = [*self._scope, name]
        return body

    @contextlib.contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Name the nodes of the block `/<outer scopes>/<name>/…`, like those of a module."""
        self._scope.append(name)
        try:
            yield
        finally:
            self._scope.pop()

    def input(self, name: str, shape: Sequence[Dim], dtype: str = "float32") -> str:
        """Add a graph input, and return its name; a dimension is a number, or a name that the user binds."""
        self._inputs.append(helper.make_tensor_value_info(name, DTYPES[dtype], list(shape)))
        return name

    def output(self, name: str, shape: Sequence[Dim], dtype: str = "float32") -> None:
        """Declare the tensor `name` to be a graph output."""
        self._outputs.append(helper.make_tensor_value_info(name, DTYPES[dtype], list(shape)))

    def weight(self, name: str, shape: Sequence[int], dtype: str = "float32") -> str:
        """Add a parameter with external data, which do not ship; count it in `parameters`, and return its name."""
        size = nbytes(tuple(shape), dtype)
        tensor = TensorProto(name=name, dims=shape, data_type=DTYPES[dtype], data_location=TensorProto.EXTERNAL)
        for key, value in (("location", absent_weights(self.name)), ("offset", self._external_bytes), ("length", size)):
            tensor.external_data.add(key=key, value=str(value))
        self._initializers.append(tensor)
        self._external_bytes += size
        elements = 1
        for dim in shape:
            elements *= dim
        self.parameters += elements
        return name

    def constant(
        self, values: Sequence[float] | float, dtype: str = "int64", shape: Sequence[int] | None = None
    ) -> str:
        """Store a small constant inline, once for each value, and return its name.

        A bare number is a scalar, a sequence a vector.
        """
        flat = tuple(values) if isinstance(values, Sequence) else (values,)
        dims = tuple(shape) if shape is not None else (len(flat),) if isinstance(values, Sequence) else ()
        key = (dtype, dims, flat)
        if key not in self._constants:
            name = f"{self.name}.constant_{len(self._constants)}"
            tensor = helper.make_tensor(name, DTYPES[dtype], dims, flat)
            if self.constants_as_nodes:
                self._nodes.append(helper.make_node("Constant", [], [name], name=f"{name}/Constant", value=tensor))
            else:
                self._initializers.append(tensor)
            self._constants[key] = name
        return self._constants[key]

    def node(self, op: str, *inputs: str, result: str | None = None, **attributes: Attribute) -> str:
        """Add a node, and return its result.

        The scope and `op` name the node, which names its result unless it is given.
        """
        return self.nodes(op, *inputs, results=[result], **attributes)[0]

    def nodes(self, op: str, *inputs: str, results: Sequence[str | None], **attributes: Attribute) -> list[str]:
        """Add a node with several results, and return them; the node and its position name each result that is None."""
        base = "/".join(["", *self._scope, op])
        count = self._names[base]
        self._names[base] += 1
        name = f"{base}_{count}" if count else base
        outputs = [given or f"{name}_output_{position}" for position, given in enumerate(results)]
        self._nodes.append(helper.make_node(op, list(inputs), outputs, name=name, **dict[str, Any](attributes)))
        return outputs

    def length(self, tensor: str, axis: int) -> str:
        """Add nodes that compute one dimension of `tensor` as a scalar."""
        return self.node("Gather", self.node("Shape", tensor), self.constant(axis), axis=0)

    def dim(self, tensor: str, axis: int) -> str:
        """Add nodes that compute one dimension of `tensor` as a vector of one element, ready to be joined."""
        return self.node("Unsqueeze", self.length(tensor, axis), self.constant([0]))

    def body(self) -> onnx.GraphProto:
        """Return the written graph as the body of a node."""
        return helper.make_graph(self._nodes, self.name, self._inputs, self._outputs, self._initializers)

    def model(self) -> onnx.ModelProto:
        """Return the written graph as a model."""
        opset = helper.make_opsetid("", OPSET)
        return helper.make_model(self.body(), producer_name=PRODUCER, opset_imports=[opset], ir_version=IR_VERSION)
