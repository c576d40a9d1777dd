"""The nodes of an ONNX model that have no step, because their results are known before anything runs.

They are the `Constant` nodes, and the operators of the closed list whose operands are all constant. Stored integers and
booleans are constant if the caller cannot replace them; stored floating-point numbers are not, because training changes
them. A constant that a node with a step, a body or the caller reads is a parameter, as if it had been stored; constants
that only make other constants have no bytes. spec: T10.12, T10.13
"""

from __future__ import annotations

from collections.abc import Mapping

from onnx import NodeProto

from tmmu.core.dtypes import most_bytes
from tmmu.onnx.folding import RESULT_LIMIT, is_folded
from tmmu.onnx.sizes import Size
from tmmu.onnx.structure import GraphScope, Structure


def constant_nodes(found: Structure, sizes: Mapping[str, Size], ruled_out: frozenset[str]) -> frozenset[str]:
    """Return the ids of the nodes without a step, including those in bodies. O(nodes + accesses x depth of bodies).

    Parameters
    ----------
    found, sizes, ruled_out
        The scopes of a model, the sizes of its tensors, and the bodies that have no steps.
    """
    constant, nodes, absent = set[str](), set[str](), set[str]()
    for scope in found.scopes:
        if scope.name in ruled_out or (scope.parent is not None and scope.parent.name in absent):
            absent.add(scope.name)
            continue
        for name in scope.initializers:
            if name not in scope.listed and not sizes[scope.scoped(name)][1].startswith(("float", "bfloat", "complex")):
                constant.add(scope.scoped(name))
        for position, node in enumerate(scope.nodes):
            if _is_constant(scope, position, node, sizes, constant):
                nodes.add(scope.ids[position])
                constant.update(scope.scoped(name) for name in node.output if name)
    return frozenset(nodes)


def _is_constant(
    scope: GraphScope, position: int, node: NodeProto, sizes: Mapping[str, Size], constant: set[str]
) -> bool:
    if not is_folded(node) or position in scope.bodies:
        return False
    if node.op_type == "Constant":
        return True
    for name in filter(None, node.input):
        home = scope.find(name, position)
        if home is None or home.scoped(name) not in constant:
            return False
    made = [most_bytes(*sizes[key]) for name in node.output if name and (key := scope.scoped(name)) in sizes]
    return all(size is not None and size <= RESULT_LIMIT for size in made)
