"""A row of the verifier's table of operators: its fields, whose defaults permit nothing.

A row is written from the operator's text. Apart from sizes, it holds for the versions that it lists and for the nodes
that have nothing except the names in it (spec: V2.4). The field `gradient` states what a gradient step may share, which
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
    """When result 0 shows the whole of operand 0, so that the step writes no byte."""

    ALWAYS = "always"
    AT_INFERENCE = "at inference"


@dataclass(frozen=True, kw_only=True)
class BodyRules:
    """The bodies of an operator: how often they run, and the rules for sizes.

    `branches` states that exactly one body runs, once, at each visit. Otherwise a body may run again.
    """

    branches: bool = False
    sizes: BodySizes | None = None


@dataclass(frozen=True)
class KnownOperator:
    """One operator of the verifier's table.

    Attributes
    ----------
    op, domain
        The name, and the domain: empty for ai.onnx, `COLLECTIVES` for every axis.
    versions
        The versions whose texts the row was written from.
    of_runtime
        ONNX does not define the operator. The runtime that defines it has had one version.
    of_older_runtime
        The runtime has had the operator before ONNX, as version 1, and writes it into models of those versions.
    names
        The attributes, optional operands and optional results that a node may have, with any value.
    only
        Attributes with one value each. The row covers no other value.
    never
        Optional operands and results that a node of the row does not have.
    flags
        Attributes that are 0 or 1. The text gives no meaning to another number.
    size
        The rule for the sizes of the results.
    value
        The rule for the elements of the results.
    by_shape
        The elements of the results depend on the operand's shape only.
    view
        When result 0 shows the whole of operand 0.
    in_place
        The positions of the operands whose bytes result 0 may take, given equal shapes and element widths (T3). The
        element of the result at an index depends on the operand's element at that index and on no other, so that a
        kernel which reads each element before it writes it computes the same values. This rules out MatMul, Gemm, Conv
        and pooling (they read neighbors), Softmax and normalizations (they read a row or the batch), and operands whose
        elements are moved. An operator that writes some elements of an operand anew leaves the others at their indices.
        No optional operand comes before a listed one, so that absent operands change no position.
    further
        Pairs of a result beyond the first and of an operand whose bytes it may take: the next state of an operator that
        writes some elements of its state anew, and reads the rest before.
    optional
        How many operands before those of `in_place` and `further` are absent together. A plan without its model does
        not show whether they are.
    folds
        A kernel may fold the operands into the result one after the other, or write elements of them to any indices.
        Then only the first operand is read in time, and not even that if it comes a second time.
    gradient
        The gradient step. None if it is not known; then the step reads everything and shares nothing.
    loops
        The rule for the dimensions that divide among ranks.
    bodies
        The bodies that the operator runs.
    """

    op: str
    domain: str = ""
    _: KW_ONLY
    versions: tuple[int, ...] = ()
    of_runtime: bool = False
    of_older_runtime: bool = False
    names: str = ""
    only: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    never: str = ""
    flags: str = ""
    size: Rule | None = None
    value: Evaluation | None = None
    by_shape: bool = False
    view: ViewTime | None = None
    in_place: tuple[int, ...] = ()
    further: tuple[tuple[int, int], ...] = ()
    optional: int = 0
    folds: bool = False
    gradient: Gradient | None = None
    loops: LoopRule | None = None
    bodies: BodyRules | None = None

    @property
    def permits_anything(self) -> bool:
        """Check whether the row has more fields than those for sizes, and so holds for some nodes only."""
        branches = self.bodies is not None and self.bodies.branches
        optional = (self.view, self.gradient, self.loops)
        return branches or bool(self.in_place or self.further) or any(field is not None for field in optional)


Rows = tuple[KnownOperator, ...]


def merge_rows(families: Iterable[Rows]) -> Mapping[tuple[str, str], KnownOperator]:
    """Return all rows by domain and operator.

    Raises ValueError if an operator has two rows.
    """
    found: dict[tuple[str, str], KnownOperator] = {}
    for row in (row for family in families for row in family):
        if (row.domain, row.op) in found:
            raise ValueError(f"the operator {row.op!r} of the domain {row.domain!r} has two rows")
        found[row.domain, row.op] = row
    return MappingProxyType(found)
