"""A plan: its allocation, and optional sections, each present as a whole or absent.

Claims are what a plan states beyond safety; provenance is its origin. An absent section is `None` and is never made up.
An operation that needs a section raises INVALID_PLAN without it. spec: P2.1, P2.2
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from tmmu.core.columns import U32, U64
from tmmu.core.dims.expressions import Dim
from tmmu.core.dims.table import read
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import ArenaConfiguration, ArenaPolicy, Bindings, Role
from tmmu.plans.allocation import Allocation, Buffers, Placement
from tmmu.plans.columns import Shards, Slots, Terms

Section = TypeVar("Section")


class Usage(NamedTuple):
    """The claims of a plan about one arena; None is not claimed.

    `footprint` bytes are needed, `peak_live_bytes` are live at `peak_step`. `slots` is the number of its logical slots
    and `max_live` the most storages live at one step, reached at `max_live_step`. `minimal` claims that the two are
    equal (T5 defines when that is not claimed). With streams, it claims that the number of slots is that of the
    storages in `antichain`, of which no two are ordered in time (X5.10).
    """

    footprint: int | None = None
    peak_live_bytes: int | None = None
    peak_step: int | None = None
    slots: int | None = None
    max_live: int | None = None
    max_live_step: int | None = None
    minimal: bool = False
    antichain: tuple[int, ...] | None = None


class ArenaUse(NamedTuple):
    """The purpose of an arena and the origin of its bytes: the part of the configuration that safety does not need."""

    roles: tuple[Role, ...]
    page_size: int
    device: str
    memory: str

    @classmethod
    def of(cls, arena: ArenaConfiguration) -> ArenaUse:
        """Return that part of an arena's configuration."""
        return cls(arena.roles, arena.page_size, arena.device, arena.memory)


class ClaimedConfiguration(NamedTuple):
    """The configuration that decided the arena of each tensor: `uses` has a row for each arena of the plan (M3)."""

    uses: tuple[ArenaUse, ...]
    policy: ArenaPolicy


@dataclass(frozen=True)
class Claims:
    """The claims of a plan beyond safety: about each arena, its logical slots, and its configuration."""

    usage: tuple[Usage, ...]
    slots: Slots | None = None
    configuration: ClaimedConfiguration | None = None


class PlacementBound(NamedTuple):
    """A proof that no placement of an arena's storages ends before `bytes`; `by` is its origin, a word of `BOUNDS`."""

    bytes: int
    by: str


BOUNDS = {
    "live": "live at one step, padded to the alignment",
    "antichain": "storages that form an antichain, padded to the alignment",
    "fixed": "the end of the highest fixed storage",
    "sequence": "one after the other",
    "search": "a complete search found none",
}
"""The origins of bounds, in words; live bytes are padded to the arena's alignment, except for the topmost storage."""


@dataclass(frozen=True)
class Provenance:
    """The origin of a plan: the model and its digests, bindings, and the planner's options.

    `ir_hash` is the digest of the planned graph, `source_digest` that of the model file, and `address_token_digest`
    that of the token from which the layout `hashed` derives addresses (A2). `bindings` have no ranges: these are the
    envelope's. `shard_spec` is empty for one rank (R7). `effort` is the search effort at which the plan was found, if
    one was requested, and `bounds` are the lower bounds then known for each arena. `fixed` maps tensors to the bytes of
    their arenas where they had to begin.
    """

    model: str
    mode: str
    layout: str
    order: str
    replay_token: bytes
    ir_hash: bytes
    source_digest: bytes | None
    bindings: Bindings
    rank: int = 0
    world_size: int = 1
    shard_spec: dict[str, Any] = field(default_factory=dict)
    address_token_digest: bytes | None = None
    effort: int | None = None
    bounds: tuple[PlacementBound, ...] = ()
    fixed: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Envelope:
    """How the sizes of a plan's tensors depend on the open dimensions (R6).

    `ranges` are (low, high), both included, by dimension, in the order of their names. `size` is the row of `terms`
    that gives each tensor's bytes. `points` are shapes, one size for each dimension, and `largest_at` is the shape at
    which each tensor has its planned size. `policy` is the reaction of a run to a shape outside the envelope. In a
    `symbolic` plan the slots have at each shape the sizes that they need there, one behind the other (R6.15).
    """

    policy: str
    ranges: Mapping[str, tuple[int, int]]
    terms: Terms
    size: U32
    points: U64
    largest_at: U32
    symbolic: bool = False

    def point(self, tensor: int) -> list[int]:
        """Return the shape at which a tensor is largest."""
        row = int(self.largest_at[tensor]) * len(self.ranges)
        found: list[int] = self.points[row : row + len(self.ranges)].tolist()
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Envelope) and all(
            bool(np.array_equal(a, b)) if isinstance(a, np.ndarray) else a == b
            for a, b in ((getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        )

    __hash__ = None  # type: ignore[assignment]  # like a table


class Membership(NamedTuple):
    """The set that a plan belongs to: the name of its program, and the digest of the set's agreement. spec: PS2.3"""

    program: str
    digest: bytes


@dataclass(frozen=True)
class Plan:
    """An allocation with steps, and the other sections."""

    allocation: Allocation
    claims: Claims | None = None
    provenance: Provenance | None = None
    shards: Shards | None = None
    """The part of each tensor that this rank holds (R7)."""
    envelope: Envelope | None = None
    membership: Membership | None = None
    """The plan set that it belongs to."""

    @property
    def placement(self) -> Placement:
        """The arenas and storages, which a plan has whether or not it states accesses."""
        return self.allocation

    @property
    def origin(self) -> Provenance:
        """The provenance; raises INVALID_PLAN without it."""
        return require_section(self.provenance, "provenance")

    @property
    def usage(self) -> tuple[Usage, ...]:
        """The claims about each arena; raises INVALID_PLAN without claims."""
        return require_section(self.claims, "claims").usage

    @property
    def slots(self) -> Slots:
        """The logical slots; raises INVALID_PLAN without them."""
        return require_section(require_section(self.claims, "claims").slots, "claims.slots")

    @property
    def configuration(self) -> ClaimedConfiguration:
        """The arena configuration; raises INVALID_PLAN without it."""
        return require_section(require_section(self.claims, "claims").configuration, "claims.configuration")

    @property
    def ranges(self) -> Mapping[str, tuple[int, int]]:
        """The open dimensions."""
        return {} if self.envelope is None else self.envelope.ranges

    @property
    def bindings(self) -> Bindings:
        """The known bindings of shapes: the provenance's bindings, if any, with the envelope's ranges."""
        known = Bindings() if self.provenance is None else self.provenance.bindings
        return replace(known, ranges=self.ranges)

    def sizes(self) -> list[Dim]:
        """Return the bytes of each tensor: a number, or an expression over the envelope. O(terms + tensors).

        Raises ValueError for malformed terms, which the gate refuses.
        """
        if self.envelope is None:
            known: list[Dim] = self.allocation.tensors.bytes.tolist()
            return known
        found = read(self.envelope.terms.rows(), self.envelope.ranges)
        return [found[row] for row in self.envelope.size.tolist()]


@dataclass(frozen=True)
class BufferPlan:
    """Lifetimes without accesses: each buffer is a separate storage and shares nothing."""

    buffers: Buffers
    claims: Claims | None = None

    @property
    def placement(self) -> Placement:
        """The arenas and storages, which a plan has whether or not it states accesses."""
        return self.buffers


def require_section(section: Section | None, name: str) -> Section:
    """Return the section, or raise INVALID_PLAN if it is absent."""
    if section is None:
        raise TmmuError(
            "INVALID_PLAN", "the plan does not have this section, which this operation needs", place=name,
            fix="use a plan that `tmmu plan` wrote",
        )  # fmt: skip
    return section


def arena_configurations(plan: Plan) -> tuple[ArenaConfiguration, ...]:
    """Return the arenas as the planner's configuration: from the allocation and the claims."""
    return tuple(
        ArenaConfiguration(a.name, use.roles, a.capacity, a.alignment, use.page_size, a.reuse, use.device, use.memory)
        for a, use in zip(plan.allocation.arenas, plan.configuration.uses, strict=True)
    )


def amend_plan(plan: Plan, **changes: Any) -> Plan:
    """Return `plan` with other fields, each in the section that has it; nothing else is adapted."""
    for name in ("allocation", "claims", "provenance"):
        section = getattr(plan, name)
        if section is not None:
            mine = {f.name: changes.pop(f.name) for f in fields(section) if f.name in changes}
            plan = replace(plan, **{name: replace(section, **mine)}) if mine else plan
    if "policy" in changes and plan.claims is not None and plan.claims.configuration is not None:
        configuration = plan.claims.configuration._replace(policy=changes.pop("policy"))
        plan = replace(plan, claims=replace(plan.claims, configuration=configuration))
    return replace(plan, **changes)
