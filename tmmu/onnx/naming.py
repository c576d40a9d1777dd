"""The names of nodes, bodies and values: importer and checker must give the same names independently.

A node keeps its name if that is unique among the nodes of its graph, else it gets its operator and position. A body is
`node/attribute`, and the names defined in it have the name of the body as a prefix. spec: T8.12
"""

from __future__ import annotations

from collections import Counter

import onnx


def node_ids(graph: onnx.GraphProto, scope: str) -> list[str]:
    """Return the id of each node of `graph`, in list order.

    Parameters
    ----------
    graph
        The main graph or a body, local functions inlined.
    scope
        The name of the body, empty for the main graph.
    """
    count = Counter(node.name for node in graph.node)
    return [
        within(scope, node.name if _is_usable(node.name) and count[node.name] == 1 else f"{node.op_type}#{index}")
        for index, node in enumerate(graph.node)
    ]


def within(scope: str, name: str) -> str:
    """Return the name of `name` in the body `scope`.

    >>> within("", "relu"), within("loop/body", "relu")
    ('relu', 'loop/body/relu')
    """
    return f"{scope}/{name}" if scope else name


def bodies_of(node: onnx.NodeProto) -> list[tuple[str, onnx.GraphProto]]:
    """Return the graphs of a node with the names of their attributes: as stored, but the then-branch of an If first."""
    found: list[tuple[str, onnx.GraphProto]] = []
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            found.append((attribute.name, attribute.g))
        elif attribute.type == onnx.AttributeProto.GRAPHS:
            found.extend((f"{attribute.name}[{k}]", graph) for k, graph in enumerate(attribute.graphs))
    if domain_of(node) == "" and node.op_type == "If":
        found.sort(key=lambda body: body[0] != "then_branch")
    return found


def domain_of(operator: onnx.NodeProto | onnx.OperatorSetIdProto) -> str:
    """Return the domain of a node's operator, or of a set of operators: empty for ai.onnx under either of its names."""
    return "" if operator.domain == "ai.onnx" else operator.domain


def _is_usable(name: str) -> bool:
    return bool(name) and "\0" not in name
