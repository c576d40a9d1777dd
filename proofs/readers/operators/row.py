"""What the verifier knows of one operator: a row, in which a field that is left out permits nothing.

A row is written from the operator's text. What it says beyond sizes holds for the versions that it lists and for the
nodes that have nothing but what it names (spec: V2.4). What a gradient step may share is in the row's `gradient` and
follows from no other field (spec: V2.6).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from enum import Enum
from types import MappingProxyType

from proofs.readers.operators.gradients import Gradient
from proofs.readers.operators.loops import LoopRule
from proofs.readers.operators.sizes.bodies import BodySizes
from proofs.readers.operators.sizes.call import Evaluation, Rule


class ViewTime(Enum):
    """When result 0 shows the whole of operand 0, so that no byte is written."""

    ALWAYS = "always"
    AT_INFERENCE = "at inference"


@dataclass(frozen=True, kw_only=True)
class BodyRules:
    """How an operator runs its bodies, and the rules for their sizes and for those of what is made of their results.

    `branches`: exactly one body runs, once, at each visit. Without it a body may run again.
    """

    branches: bool = False
    sizes: BodySizes | None = None


@dataclass(frozen=True)
class KnownOperator:
    """One operator.

    Attributes
    ----------
    op, domain
        Its name, and its domain: empty for ai.onnx, `COLLECTIVES` for every axis.
    versions, of_runtime
        Those whose texts the row was written from. `of_runtime`: ONNX does not define it, and the runtime that does
        has had one version.
    names
        The attributes, optional operands and optional results that a node may have, with any value.
    only, never
        Attributes of which the row is about one value, and optional operands and results without which it holds.
    flags
        Attributes that are 0 or 1: the text gives no meaning to another number.
    size
        The rule for the sizes of its results.
    value, by_shape
        How the elements of its results are worked out, and whether they are without those of its operand.
    view
        When result 0 shows the whole of operand 0.
    in_place, folds
        The positions of the operands whose bytes result 0 may take, given equal shapes and element widths (T3): the
        element of the result at one index depends on such an operand at the same index and no other, so that a kernel
        which reads each element before it writes it gives the same values. Thus none of MatMul, Gemm, Conv and pooling
        (they read neighbours), of Softmax and normalizations (they read a whole row or batch), or of what moves
        elements. No operand before these is optional, so that a position is the same with absent operands left out.
        `folds`: a kernel may take the operands one after the other into the result, so that only the first is read in
        time; not even that if it comes a second time.
    gradient
        What its gradient step reads and may share; None if it is not known, so that the step reads everything.
    loops
        The rule for the dimensions that divide among ranks.
    bodies
        How it runs its bodies.
    """

    op: str
    domain: str = ""
    _: KW_ONLY
    versions: tuple[int, ...] = ()
    of_runtime: bool = False
    names: str = ""
    only: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    never: str = ""
    flags: str = ""
    size: Rule | None = None
    value: Evaluation | None = None
    by_shape: bool = False
    view: ViewTime | None = None
    in_place: tuple[int, ...] = ()
    folds: bool = False
    gradient: Gradient | None = None
    loops: LoopRule | None = None
    bodies: BodyRules | None = None

    @property
    def says_more_than_sizes(self) -> bool:
        """Whether the row holds only for nodes of its versions and with what it names."""
        branches = self.bodies is not None and self.bodies.branches
        said = (self.view, self.gradient, self.loops)
        return branches or bool(self.in_place) or any(each is not None for each in said)


Rows = tuple[KnownOperator, ...]


def merged(families: Iterable[Rows]) -> Mapping[tuple[str, str], KnownOperator]:
    """Return all rows by domain and operator. Raises ValueError for an operator that has two."""
    found: dict[tuple[str, str], KnownOperator] = {}
    for row in (row for family in families for row in family):
        if (row.domain, row.op) in found:
            raise ValueError(f"the operator {row.op!r} of the domain {row.domain!r} has two rows")
        found[row.domain, row.op] = row
    return MappingProxyType(found)
