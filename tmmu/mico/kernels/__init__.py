"""The table of kernels: for each operator of ai.onnx the rule that turns a node into calls of C functions.

Each module contains the rules of a family and the functions that they call, written once for all element types:
`elementwise`, `products`, `windows`, `rows`, `movement`, `quantized`, `placement` and `recurrent`. spec: MC4.1 to MC4.7
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tmmu.mico.kernels import elementwise, movement, placement, products, quantized, recurrent, rows, windows
from tmmu.mico.kernels.node import KernelCall, NodeCall, NoKernel

TABLE: Mapping[str, Callable[[NodeCall], list[KernelCall]]] = {
    **elementwise.RULES,
    **products.RULES,
    **windows.RULES,
    **rows.RULES,
    **movement.RULES,
    **quantized.RULES,
    **placement.RULES,
    **recurrent.RULES,
}
"""The rule of every operator that has a kernel; one outside ai.onnx has its domain before its name."""


def calls_of(node: NodeCall) -> list[KernelCall]:
    """Return the calls that compute a node; none if no byte of its results has to be written.

    Raises NoKernel with the reason if its operator, an element type or an attribute has no kernel.
    """
    rule = TABLE.get(node.op)
    if rule is None:
        raise NoKernel("its operator has no kernel")
    if all(result is None or result.count == 0 for result in node.results):
        return []
    return rule(node)
