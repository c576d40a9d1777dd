"""What the planner's side knows of one operator: a row, in which a field that is left out permits nothing.

A row of ai.onnx goes by the operator's name. For which of its nodes it was written stands in the row too: a node that
has anything else is marked `opaque` and planned as an operator without a row. spec: T3.11
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
    """One operator.

    Attributes
    ----------
    op, domain
        Its name, and its domain, which is empty for ai.onnx.
    versions
        The versions that the row is about.
    harmless
        The attributes, optional inputs and optional outputs that may have any value. A Dropout's `training_mode`
        decides something, and is looked at where it does.
    deciding
        What does make a difference: the one value of an attribute with which the row applies, or None for never.
    view, only_at_inference
        Result 0 shows all bytes of operand 0 in another shape; or does so at inference.
    passes_on
        Each result shows the operand at its own position.
    takes, one_by_one
        The positions of the operands that result 0 may take the bytes of: at each index it depends on such an operand
        at that index alone, so that a kernel which reads an element before it writes it may write over an operand of
        the same shape and element width. `one_by_one`: a kernel may go over the result once for each further operand,
        which must not have been overwritten by then; nor may the first be, where it comes again.
    elementwise
        The only result may take the bytes of any operand of its shape, in the same sense.
    split
        The rule for what ranks can divide.
    gradient
        What its gradient reads and may share; None: it reads everything and shares nothing.
    branches
        It runs one of its bodies, once. Any other operator may run its bodies more than once (T8.13).
    cost
        About how many operations a node takes, where that is not the number of elements that it writes.
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
    one_by_one: bool = False
    elementwise: bool = False
    split: SplitRule | None = None
    gradient: GradientRule | None = None
    branches: bool = False
    cost: CostRule | None = None


Rows = tuple[PlannedOperator, ...]


def collect(families: Iterable[Rows]) -> Mapping[tuple[str, str], PlannedOperator]:
    """Return the rows of all families by domain and operator; ValueError where two rows are of one operator."""
    table: dict[tuple[str, str], PlannedOperator] = {}
    for rows in families:
        for row in rows:
            key = (row.domain, row.op)
            if table.setdefault(key, row) is not row:
                raise ValueError(f"two rows of {row.domain or 'ai.onnx'}::{row.op}")
    return MappingProxyType(table)
