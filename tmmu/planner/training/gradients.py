"""Look up the gradient of a node, its reads and permissions, in the row of its operator.

spec: M2.5, M2.6, M2.7
"""

from __future__ import annotations

from tmmu.core.vocabulary import Node, Tensor
from tmmu.operators import ONNX, row_of
from tmmu.operators.gradients import EVERYTHING, GradientRule

DOMAIN = "tmmu.grad"
"""The domain of gradient operators: `ReluGrad` and so on."""


def gradient_rule(node: Node) -> GradientRule:
    """Return the rule of a node's operator. A node without one, opaque or of another domain reads everything."""
    return (row_of("", node.op).gradient if is_known(node) else None) or EVERYTHING


def is_known(node: Node) -> bool:
    """Check whether the row of a node's operator, if there is one, holds for the node."""
    return node.domain in ONNX and not node.opaque


def gradient_reads(node: Node, position: int) -> tuple[int, ...] | None:
    """Return the tensors of `node` that the gradient of its operand at `position` reads, or None if it has no gradient.

    >>> node = Node("n", "Div", (0, 1), (2,))
    >>> gradient_reads(node, 0), gradient_reads(node, 1), gradient_reads(Node("n", "Shape", (0,), (1,)), 0)
    ((1,), (1, 2), None)
    """
    chosen = gradient_rule(node).reads(position)
    if chosen is None:
        return None
    rows: list[int] = []
    if any(read.of_results and not read.onward and read.first >= len(node.writes) for read in chosen):
        return node.reads + node.writes  # it has not what the formula is about
    for read in chosen:
        names = node.writes if read.of_results else node.reads
        rows += names[read.first :] if read.onward else names[read.first : read.first + 1]
    return tuple(rows)


def is_floating(tensor: Tensor) -> bool:
    """Return whether a tensor can have a gradient: its elements are floating point or complex."""
    return tensor.dtype.startswith(("float", "bfloat", "complex"))


def gradient_operator(node: Node) -> tuple[str, str]:
    """Return the domain and operator of a node's gradient.

    >>> gradient_operator(Node("n", "Relu", (0,), (1,)))
    ('tmmu.grad', 'ReluGrad')
    >>> gradient_operator(Node("n", "Fused", (0,), (1,), "com.example"))
    ('tmmu.grad/com.example', 'FusedGrad')
    """
    return DOMAIN if is_known(node) else f"{DOMAIN}/{node.domain or ONNX[1]}", f"{node.op}Grad"
