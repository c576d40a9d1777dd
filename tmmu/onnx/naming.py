"""How nodes, bodies and values are named: importer and checker must give the same names independently.

A node has its own name where that is unique among the nodes of its graph, else its operator and position. A
body is `node/attribute`, and what is defined in it carries the body's name as a prefix. spec: T8.12
"""

from __future__ import annotations

from collections import Counter

import onnx


def node_ids(graph: onnx.GraphProto, scope: str) -> list[str]:
    """The id of each node of `graph`, in list order.

    Parameters
    ----------
    graph
        The main graph or a body, local functions inlined.
    scope
        The name of the body, empty for the main graph.
    """
    count = Counter(node.name for node in graph.node)
    return [
        within(scope, node.name if _usable(node.name) and count[node.name] == 1 else f"{node.op_type}#{index}")
        for index, node in enumerate(graph.node)
    ]


def within(scope: str, name: str) -> str:
    """The name of what is called `name` in the body `scope`.

    >>> within("", "relu"), within("loop/body", "relu")
    ('relu', 'loop/body/relu')
    """
    return f"{scope}/{name}" if scope else name


def bodies_of(node: onnx.NodeProto) -> list[tuple[str, onnx.GraphProto]]:
    """The graphs that a node holds with their attributes' names: as stored, but an If's then-branch first."""
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
    """The domain of a node's operator, or of a set of them: empty for ai.onnx under either of its names."""
    return "" if operator.domain == "ai.onnx" else operator.domain


def _usable(name: str) -> bool:
    return bool(name) and "\0" not in name
