"""Name the parts of an ONNX graph by the naming rules: nodes, initializers, bodies, optional outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import onnx
from onnx import AttributeProto, GraphProto, NodeProto, SparseTensorProto, TensorProto

from proofs.readers.operators import plain


def node_names(graph: GraphProto, scope: str) -> list[str]:
    """Return the identity of each node of one graph: its own name if usable and unique, else operator and index.

    `scope` is empty for the main graph and `owner/attribute/` for a body.
    """
    uses = Counter(node.name for node in graph.node)
    return [
        scope + (n.name if n.name and uses[n.name] == 1 and "\0" not in n.name else f"{n.op_type}#{index}")
        for index, n in enumerate(graph.node)
    ]


def initializers(graph: GraphProto) -> Iterator[tuple[str, TensorProto | SparseTensorProto]]:
    """Yield a graph's initializers by name. A sparse one has the name of its values."""
    yield from ((tensor.name, tensor) for tensor in graph.initializer)
    yield from ((sparse.values.name, sparse) for sparse in graph.sparse_initializer)


def bodies_of(node: NodeProto) -> list[tuple[str, GraphProto]]:
    """Return the bodies of a node by attribute, in stored order, but then before else."""
    found = []
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            found.append((attribute.name, attribute.g))
        elif attribute.type == AttributeProto.GRAPHS:
            found.extend((f"{attribute.name}[{index}]", graph) for index, graph in enumerate(attribute.graphs))
    if not plain(node.domain) and node.op_type == "If":
        found.sort(key=lambda body: body[0] != "then_branch")
    return found


def opsets(model: onnx.ModelProto) -> dict[str, int]:
    """Return the version of each domain's operators, with ai.onnx by its short name."""
    return {short_domain(entry.domain): entry.version for entry in model.opset_import}


def short_domain(domain: str) -> str:
    """Return the domain as steps name it: empty for ai.onnx."""
    return plain(domain)


def is_optional_output(node: NodeProto, position: int, opset: dict[str, int]) -> bool:
    """Whether the operator's definition marks an output as optional. Never true of an operator without definition."""
    domain = short_domain(node.domain)
    try:
        formal = onnx.defs.get_schema(node.op_type, opset.get(domain, 1), domain).outputs
    except onnx.defs.SchemaError:
        return False
    return position < len(formal) and formal[position].option == onnx.defs.OpSchema.FormalParameterOption.Optional
