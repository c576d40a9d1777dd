"""Check the stored tensors and the flags of a graph: each value is stated once, and each flag is 0 or 1.

spec: T10.8, T10.10
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from onnx import AttributeProto, GraphProto, NodeProto, SparseTensorProto, TensorProto

from proofs.readers.operators import plain, row_of
from proofs.readers.operators.sizes.elements import Ambiguous, look_at
from tmmu.core.errors import TmmuError


def check(graph: GraphProto, scope: str) -> None:
    """Check everything that one graph stores, except in bodies. `scope` is the prefix of its names. O(stored bytes).

    Raises INVALID_IR if a value is stated twice, or not as its type and its shape need it.
    """
    stored: list[tuple[str, TensorProto | SparseTensorProto]] = [(each.name, each) for each in graph.initializer]
    stored += [(each.values.name, each) for each in graph.sparse_initializer]
    for name, each in stored:
        _at(scope + name, look_at, each)
    for node in graph.node:
        _at(scope + (node.name or next(iter(node.output), node.op_type)), _look_at_node, node)


Looked = TypeVar("Looked")


def _at(place: str, look: Callable[[Looked], None], what: Looked) -> None:
    """Name the place of an ambiguous tensor in the error."""
    try:
        look(what)
    except Ambiguous as reason:
        fix = "write the model again, with each value stated once and in its range"
        raise TmmuError("INVALID_IR", str(reason), place=place, fix=fix, node_id=place) from None


def _look_at_node(node: NodeProto) -> None:
    names = [attribute.name for attribute in node.attribute]
    if len(set(names)) < len(names):
        raise Ambiguous("the node has two attributes of one name")
    if node.op_type == "Constant" and not plain(node.domain) and len(names) != 1:
        raise Ambiguous(f"{len(names)} attributes state the value of the Constant")
    for attribute in node.attribute:
        if attribute.name in row_of(node.domain, node.op_type).flags.split() and not 0 <= attribute.i <= 1:
            raise Ambiguous(f"expected 0 or 1 as {attribute.name}, got {attribute.i}")
        for each in _values(attribute):
            look_at(each)


def _values(attribute: AttributeProto) -> Iterator[TensorProto | SparseTensorProto]:
    kind = AttributeProto.AttributeType.Name(attribute.type)
    if kind == "TENSOR":
        yield attribute.t
    elif kind == "SPARSE_TENSOR":
        yield attribute.sparse_tensor
    elif kind == "TENSORS":
        yield from attribute.tensors
    elif kind == "SPARSE_TENSORS":
        yield from attribute.sparse_tensors
