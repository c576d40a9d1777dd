"""The rules for sizes over ranges: at each shape at which the model runs what they give over numbers."""

from __future__ import annotations

from collections import Counter

import numpy as np

from proofs.readers.models.sizes.table import RULES, version_of
from proofs.readers.operators.sizes.call import Call, Misfit, NotKnown, Shape, TensorSize
from proofs.readers.operators.sizes.stored import of_numpy
from tests.support.operator_rows import rule_of
from tests.support.random_nodes import Drawn, drawn
from tmmu.core.dims.expressions import Dim, Unwieldy, evaluate, symbol

NODES = 3000


def worked_out(node: Drawn, opened: dict[int, Dim]) -> list[TensorSize] | Misfit | NotKnown:
    """The sizes of the results by the rule, with the dimensions of data replaced by open ones."""
    proto = node.model().graph.node[0]
    operands = []
    for k, operand in enumerate(node.operands):
        if operand is None:
            operands.append(None)
            continue
        is_data = operand.dtype == np.float32 and not (k and node.op in ("Resize", "OneHot"))
        shape: Shape = tuple(opened.get(dim, dim) if is_data else dim for dim in operand.shape)
        operands.append(TensorSize(shape, operand.dtype.name))
    known = {k: of_numpy(o, o.dtype.name) for k, o in enumerate(node.operands) if o is not None}
    since = version_of("", node.op, {"": node.opset})
    if since is None:
        return NotKnown("this version has no such operator")
    try:
        return list(rule_of(RULES, "", node.op, since)(Call(proto, since, operands, known.get)))
    except (Misfit, NotKnown) as reason:
        return reason
    except Unwieldy as reason:
        return NotKnown(str(reason))


def test_sizes_over_ranges_are_those_over_numbers_at_each_shape() -> None:
    """spec: V3.7"""
    count = Counter[str]()
    opened = {dim: symbol(f"n{dim}", max(1, dim - 1), dim + 2) for dim in range(2, 13)}
    point = {f"n{dim}": dim for dim in opened}
    for number in range(NODES):
        node = drawn(number)
        if node.op in ("NonZero", "Compress"):  # values of another size than the operand's
            continue
        numbers, ranges = worked_out(node, {}), worked_out(node, opened)
        if isinstance(ranges, NotKnown):
            count["not known"] += 1
        elif isinstance(numbers, list):
            assert isinstance(ranges, list), (node, ranges)
            found = [TensorSize(tuple(evaluate(dim, point) for dim in size.shape), size.dtype) for size in ranges]
            assert found == numbers, node
            count["agree"] += 1
        else:  # at a shape at which the model does not run nothing is promised
            count["refused"] += 1
    assert count["agree"] > NODES * 0.5
