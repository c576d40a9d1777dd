"""An `nn.Module` as an ONNX model, with MiCo's names: `x`, `layers_0`, …, and a copy named `output` at the end.

torch exports it. Then the results get MiCo's names: the path of the module that makes them, or the operator if a
function does (`relu`, `add_1`). If a module becomes several nodes, the last one has its name. Constants become
initializers, so no memory is planned for them. The result is copied to `output`, as MiCo's code does, so that the
figures of a plan are those of the document. torch is imported when a module is exported.
spec: MC8.2, MC8.3
"""

from __future__ import annotations

import inspect
import io
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any

import onnx

from tmmu.core.errors import TmmuError
from tmmu.core.extras import require_import

OPSET = 19
"""The requested version of the ai.onnx operators: the first whose DequantizeLinear onnx can evaluate."""


def is_module(model: object) -> bool:
    """Return whether the object is an `nn.Module`, or behaves as one; torch is not imported."""
    return callable(getattr(model, "named_parameters", None)) and callable(getattr(model, "forward", None))


def run(module: Any, inputs: Sequence[Any]) -> Any:
    """Run the module on `inputs` without gradients, and return its result."""
    with require_import("torch", "running an nn.Module"):
        import torch
    with torch.no_grad():
        return module(*inputs)


def export_module(module: Any, inputs: Sequence[Any]) -> onnx.ModelProto:
    """Export the module at inference as an ONNX model for inputs of these shapes, with `forward`'s names.

    Raises INVALID_IR with torch's reason if it does not export the module. O(nodes + weights), and a run of it.
    """
    with require_import("torch", "exporting an nn.Module"):
        import torch
    names = list(inspect.signature(module.forward).parameters)[: len(inputs)]
    data: Any = io.BytesIO()  # this exporter accepts a stream, although its types do not declare it
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # this exporter, which names nodes by modules, is called deprecated
            torch.onnx.export(
                module, tuple(inputs), data, dynamo=False, input_names=names, opset_version=OPSET,
                do_constant_folding=True,
            )  # fmt: skip
    except Exception as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise TmmuError(
            "INVALID_IR", f"torch does not export it ({reason})", place=f"module {type(module).__name__}",
            fix="export it to ONNX another way, and give MiCoCodeGen that file",
        ) from error  # fmt: skip
    model = onnx.load_from_string(data.getvalue())
    model.graph.name = type(module).__name__
    _inline_constants(model.graph)
    _copy_results(model.graph)
    _rename(model.graph)
    return model


def _inline_constants(graph: onnx.GraphProto) -> None:
    """Turn constants, and initializers that are stored once under two names, into plain initializers."""
    stored = {tensor.name: tensor for tensor in graph.initializer}
    for node in list(graph.node):
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            tensor = graph.initializer.add()
            tensor.CopyFrom(node.attribute[0].t)
            tensor.name = node.output[0]
            graph.node.remove(node)
        elif node.op_type == "Identity" and node.input[0] in stored:
            tensor = graph.initializer.add()
            tensor.CopyFrom(stored[node.input[0]])
            tensor.name = node.output[0]
            stored[tensor.name] = tensor
            graph.node.remove(node)


def _copy_results(graph: onnx.GraphProto) -> None:
    """Add a Concat of one input for each result, which no planner treats as a view; a scalar gets none."""
    for place, value in enumerate(graph.output):
        if not value.type.tensor_type.shape.dim:
            continue
        name, value.name = value.name, "output" if len(graph.output) == 1 else f"output_{place}"
        graph.node.append(onnx.helper.make_node("Concat", [name], [value.name], name=f"/{value.name}", axis=0))


def _rename(graph: onnx.GraphProto) -> None:
    """Name every result by the module that makes it; rename nothing if nodes have bodies, which read names too."""
    if any(attribute.HasField("g") or attribute.graphs for node in graph.node for attribute in node.attribute):
        return
    copies = {value.name for value in graph.output}
    nodes = [node for node in graph.node if not copies.intersection(node.output)]
    last = {_module_path(node.name): node.name for node in nodes}
    taken = Counter({value.name: 1 for value in (*graph.input, *graph.output)})
    taken.update(tensor.name for tensor in graph.initializer)
    names: dict[str, str] = {}
    for node in nodes:
        module = _module_path(node.name)
        operator = node.op_type.lower()
        wanted = module if module and last[module] == node.name else f"{module}_{operator}" if module else operator
        for name in node.output:
            names[name] = f"{wanted}_{taken[wanted]}" if taken[wanted] else wanted
            taken[wanted] += 1
            taken[names[name]] += names[name] != wanted
    for node in graph.node:
        for fields in (node.input, node.output):
            for place, name in enumerate(fields):
                fields[place] = names.get(name, name)
    del graph.value_info[:]


def _module_path(node: str) -> str:
    """Return the path of the module that contains a node, from its scopes.

    >>> [_module_path(node) for node in ("/layers/layers.0/Conv", "/block/body/body.0/Conv_1", "/Relu_1", "Relu")]
    ['layers_0', 'block_body_0', '', '']
    """
    path: list[str] = []
    for scope in node.strip("/").split("/")[:-1]:
        if path and scope.startswith(f"{path[-1]}."):
            path.pop()
        path.append(scope)
    return "_".join(path).replace(".", "_")
