"""A row of the planner's table of operators: its fields, whose defaults permit nothing.

A row of ai.onnx is found by the operator's name and states which nodes it covers. Any other node is marked `opaque` and
planned as an operator without a row. spec: T3.11
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from types import MappingProxyType

from tmmu.operators.costs import CostRule
from tmmu.operators.gradients import GradientRule
from tmmu.operators.relations import SplitRule


@dataclass(frozen=True)
class PlannedOperator:
    """One operator of the planner's table.

    Attributes
    ----------
    op, domain
        The name, and the domain, which is empty for ai.onnx.
    versions
        The versions that the row was written for.
    harmless
        The attributes, optional inputs and optional outputs that may have any value. The `training_mode` of a Dropout
        is among them: the importer looks at it before it makes a view.
    deciding
        The attributes, inputs and outputs that make a difference, each with the one value that the row covers, or None
        if it covers no value.
    view
        Result 0 shows all bytes of operand 0 in another shape.
    only_at_inference
        The view exists at inference only.
    passes_on
        Each result shows the operand at the same position.
    takes
        The positions of the operands whose bytes result 0 may take. At each index it depends on such an operand at that
        index only. A kernel that reads an element before it writes it may therefore write over an operand of the same
        shape and element width.
    further
        Pairs of a result beyond result 0 and the position of an operand whose bytes it may take: state of which some
        elements are written anew.
    one_by_one
        A kernel may go over the result once for each further operand, which must not have been overwritten by then. The
        first operand must not come again. So is an operator that writes some elements of its first operand anew.
    elementwise
        The operator has one result, which may take the bytes of any operand of its shape in the same way.
    split
        The rule for the dimensions that ranks can divide.
    gradient
        The reads and permissions of the gradient. None: it reads everything and shares nothing.
    branches
        The operator runs one of its bodies, once. Any other operator may run its bodies more than once (T8.13).
    cost
        The number of operations of a node, if it is not the number of elements that the node writes.
    """

    op: str
    domain: str = ""
    _: KW_ONLY
    versions: tuple[int, ...] = ()
    harmless: str = ""
    deciding: Mapping[str, int | None] = field(default_factory=lambda: MappingProxyType({}))
    view: bool = False
    only_at_inference: bool = False
    passes_on: bool = False
    takes: tuple[int, ...] = ()
    further: tuple[tuple[int, int], ...] = ()
    one_by_one: bool = False
    elementwise: bool = False
    split: SplitRule | None = None
    gradient: GradientRule | None = None
    branches: bool = False
    cost: CostRule | None = None


Rows = tuple[PlannedOperator, ...]


def collect(families: Iterable[Rows]) -> Mapping[tuple[str, str], PlannedOperator]:
    """Index the rows of all families by domain and operator.

    Raises ValueError if two rows are about one operator.
    """
    table: dict[tuple[str, str], PlannedOperator] = {}
    for rows in families:
        for row in rows:
            key = (row.domain, row.op)
            if table.setdefault(key, row) is not row:
                raise ValueError(f"two rows of {row.domain or 'ai.onnx'}::{row.op}")
    return MappingProxyType(table)
