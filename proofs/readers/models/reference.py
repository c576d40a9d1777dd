"""What must be run of a model: the steps, the tensors and what may share bytes, by name.

Every reader of models returns this, and a plan is compared with it (`compare`). It is worked out from the model
alone: how the planner orders, groups or places anything is not asked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tmmu.core.dims.expressions import Dim
from tmmu.core.dtypes import BITS
from tmmu.core.vocabulary import Bindings, NodePart, Phase, Role


class ReferenceStep(NamedTuple):
    """A step of the model: its node, operator, part and body, and the tensors it reads, writes and mutates.

    Names are scoped (`node/attribute/value`), in the operator's order, duplicates kept, absent operands left out.
    `body` is the body in which the node stands, empty for the main graph.
    """

    node: str
    domain: str
    op: str
    part: NodePart
    body: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    mutates: tuple[str, ...] = ()

    @property
    def made(self) -> tuple[str, ...]:
        """What it writes and does not change, in order. O(accesses)."""
        changed = frozenset(self.mutates)
        return tuple(t for t in self.writes if t not in changed)


class ReferenceBody(NamedTuple):
    """The inside of a node with bodies: the node that owns it, the body in which that stands, and T8's `iterates`."""

    owner: str
    parent: str
    iterates: bool


class SizeDifference(NamedTuple):
    """A tensor whose size the verifier's rules and shape inference disagree about, or a branch (`what`) that one of
    them rules out and the other takes; `node` is the one that writes it."""

    what: str
    node: str
    tensor: str
    inferred: str
    found: str


@dataclass
class ReferenceProgram:
    """Steps in an order that the model allows, and what the plan must say of each tensor.

    `sizes` gives (bytes, element type) of every tensor, `alignments` the least alignment of each; inside an
    envelope bytes and shapes are expressions. `views` maps a result to its base and the byte offset in it; `in_place`
    holds (result, operand) pairs: both are what the tables of `operators` or a declaring model permit, never across a
    body's boundary. `assumed` are the operators (`domain::op`) for which the model alone states it. `floating`
    are the tensors that can have a gradient, `alias_groups` gives the group of each that is declared in one, `phases`
    the phase of each other than forward node. `repeated` are operators of unknown domains that a plan runs again: that
    they give the same values is assumed. `size_differences` are the tensors whose size the verifier works out otherwise
    than shape inference does, `assumed_sizes` the operators whose results' size it takes from there, with the reason.
    `opaque` are the nodes of which the tables hold nothing although they have the operator (V2.4), and `has_attributes`
    is false where the model states none. `fixed` are the bytes of their arenas at which tensors must begin.
    """

    steps: list[ReferenceStep] = field(default_factory=list)
    bodies: dict[str, ReferenceBody] = field(default_factory=dict)
    sizes: dict[str, tuple[Dim, str]] = field(default_factory=dict)
    shapes: dict[str, tuple[Dim, ...]] = field(default_factory=dict)
    alignments: dict[str, int] = field(default_factory=dict)
    roles: dict[str, Role] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    saved: frozenset[str] = frozenset()
    views: dict[str, tuple[str, int]] = field(default_factory=dict)
    in_place: set[tuple[str, str]] = field(default_factory=set)
    must_not_alias: frozenset[frozenset[str]] = frozenset()
    fixed: dict[str, int] = field(default_factory=dict)
    unproduced: frozenset[str] = frozenset()
    assumed: list[str] = field(default_factory=list)
    floating: set[str] = field(default_factory=set)
    alias_groups: dict[str, str] = field(default_factory=dict)
    phases: dict[str, Phase] = field(default_factory=dict)
    repeated: set[str] = field(default_factory=set)
    size_differences: tuple[SizeDifference, ...] = ()
    assumed_sizes: dict[str, str] = field(default_factory=dict)
    opaque: set[str] = field(default_factory=set)
    has_attributes: bool = True
    bindings: Bindings = field(default_factory=Bindings)
    source_digest: bytes | None = None

    def width(self, name: str) -> tuple[Dim, int]:
        """The bytes of a tensor and the bits of an element: what an in-place result has of its operand (T3.3)."""
        size, dtype = self.sizes[name]
        return size, BITS[dtype]
