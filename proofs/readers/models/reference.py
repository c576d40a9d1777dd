"""Represent what must be run of a model: the steps, the tensors and what may share bytes, by name.

Every reader of models returns this, and a plan is compared with it (`compare`). It is derived only from the model: the
planner's order, groups and placement have no influence.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tmmu.core.dims.expressions import Dim
from tmmu.core.dtypes import BITS
from tmmu.core.streams import StreamOrder
from tmmu.core.vocabulary import ARRIVAL, Bindings, NodePart, Phase, Role


class ReferenceStep(NamedTuple):
    """A step of the model: its node, operator, part and body, and the tensors that it reads, writes and mutates.

    Names are scoped (`node/attribute/value`), in the operator's order, duplicates kept, absent operands left out.
    `body` is the body that has the node, empty for the main graph.
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
        """The tensors that it writes and does not mutate, in order. O(accesses)."""
        changed = frozenset(self.mutates)
        return tuple(t for t in self.writes if t not in changed)


class ReferenceBody(NamedTuple):
    """The inside of a node with bodies: the node that owns it, the body around that node, and T8's `iterates`."""

    owner: str
    parent: str
    iterates: bool


class SizeDifference(NamedTuple):
    """A disagreement between the verifier's rules and shape inference, about a tensor's size or a branch.

    If `what` is a branch, one of them rules it out and the other takes it. `node` is the node that writes the tensor.
    """

    what: str
    node: str
    tensor: str
    inferred: str
    found: str


@dataclass
class ReferenceProgram:
    """Steps in an order that the model allows, and what the plan must state of each tensor.

    `sizes` gives (bytes, element type) of every tensor, `alignments` the least alignment of each; inside an envelope,
    bytes and shapes are expressions. `views` maps a result to its base and the byte offset in it; `in_place` holds
    (result, operand) pairs. Both are permitted by the tables of `operators` or by a declaring model, never across a
    body's boundary. `assumed` are the operators (`domain::op`) that only the model permits to share. `floating` are the
    tensors that can have a gradient. `alias_groups` gives the group of each tensor that is declared in one, and
    `phases` the phase of each node that is not a forward one. `repeated` are operators of unknown domains that a plan
    runs again: they are assumed to give the same values. `size_differences` are the tensors whose size the verifier
    derives otherwise than shape inference. `assumed_sizes` are the operators whose results' sizes it takes from
    inference, with the reason. `opaque` are the nodes that the tables do not cover although they have the operator
    (V2.4). `has_attributes` is false if the model states none. `fixed` are the fixed offsets of tensors in their
    arenas. `streams` has the stream of each node of the main graph and the nodes that it waits for, in the order of the
    model; it is empty if the model states no streams.
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
    streams: dict[str, StreamOrder] = field(default_factory=dict)
    has_attributes: bool = True
    bindings: Bindings = field(default_factory=Bindings)
    source_digest: bytes | None = None

    @property
    def late(self) -> frozenset[str]:
        """The inputs that arrive late: an arrival of the model writes them. O(steps)."""
        return frozenset(name for step in self.steps if (step.domain, step.op) == ARRIVAL for name in step.writes)

    def width(self, name: str) -> tuple[Dim, int]:
        """Return the bytes of a tensor and the bits of an element.

        An in-place result has those of its operand (T3.3).
        """
        size, dtype = self.sizes[name]
        return size, BITS[dtype]
