"""A plan: its allocation, and the sections that may stand beside it, each there whole or not at all.

Claims are what a plan states beyond safety, provenance is what it was made from. Whatever is absent is `None` and is
never made up; what cannot do without a section asks for it and is refused. spec: P2.1, P2.2
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
    """What a plan claims of one arena; None is not claimed.

    `footprint` bytes are needed, `peak_live_bytes` are live at `peak_step`. `slots` is the number of its logical slots
    and `max_live` the most storages live at one step, reached at `max_live_step`; `minimal` claims that the two are
    equal (T5 states where that is not claimed).
    """

    footprint: int | None = None
    peak_live_bytes: int | None = None
    peak_step: int | None = None
    slots: int | None = None
    max_live: int | None = None
    max_live_step: int | None = None
    minimal: bool = False


class ArenaUse(NamedTuple):
    """What an arena is for, and where its bytes come from: the part of the configuration that safety does not need."""

    roles: tuple[Role, ...]
    page_size: int
    device: str
    memory: str

    @classmethod
    def of(cls, arena: ArenaConfiguration) -> ArenaUse:
        """That part of an arena's configuration."""
        return cls(arena.roles, arena.page_size, arena.device, arena.memory)


class ClaimedConfiguration(NamedTuple):
    """Which rule put each tensor into which arena: `uses` has a row for each arena of the allocation (M3)."""

    uses: tuple[ArenaUse, ...]
    policy: ArenaPolicy


@dataclass(frozen=True)
class Claims:
    """What a plan claims beyond safety: of each arena, of its logical slots, and of its configuration."""

    usage: tuple[Usage, ...]
    slots: Slots | None = None
    configuration: ClaimedConfiguration | None = None


class PlacementBound(NamedTuple):
    """That no placement of an arena's storages ends before `bytes`, and what shows it: a word of `BOUNDS`."""

    bytes: int
    by: str


BOUNDS = {
    "live": "live at one step, padded to the alignment",
    "fixed": "where the highest that is fixed ends",
    "sequence": "one after the other",
    "search": "a complete search found none",
}
"""What shows a bound, in words; what is live is padded to the arena's alignment, but for what lies on top."""


@dataclass(frozen=True)
class Provenance:
    """What a plan was made from: the model and its digests, bindings, and what the planner was asked.

    `ir_hash` is the digest of the planned graph, `source_digest` that of the model file it was read from,
    `address_token_digest` that of the token that the addresses of the layout `hashed` derive from (A2). `bindings` have
    no ranges: these are the envelope's. `shard_spec` is empty for one rank (R7). `effort` is that at which the plan was
    found, if any was asked for, and `bounds` what was then known to be needed of each arena. `fixed` are the bytes of
    their arenas at which tensors had to begin, by name.
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
    """How the sizes of a plan's tensors depend on the dimensions that are left open (R6).

    `ranges` are (low, high), both included, by dimension, in the order of their names. `size` is the row of `terms`
    that gives each tensor's bytes; `points` are shapes, one size for each dimension, and `largest_at` that at which
    each tensor is as large as planned. `policy` is what a run does with a shape outside the envelope.
    """

    policy: str
    ranges: Mapping[str, tuple[int, int]]
    terms: Terms
    size: U32
    points: U64
    largest_at: U32

    def point(self, tensor: int) -> list[int]:
        """The shape at which a tensor is largest."""
        row = int(self.largest_at[tensor]) * len(self.ranges)
        found: list[int] = self.points[row : row + len(self.ranges)].tolist()
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Envelope) and all(
            bool(np.array_equal(a, b)) if isinstance(a, np.ndarray) else a == b
            for a, b in ((getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        )

    __hash__ = None  # type: ignore[assignment]  # as of a table


@dataclass(frozen=True)
class Plan:
    """An allocation with steps, and what else is stated of it."""

    allocation: Allocation
    claims: Claims | None = None
    provenance: Provenance | None = None
    shards: Shards | None = None
    """Which part of which tensor this rank holds (R7)."""
    envelope: Envelope | None = None

    @property
    def placement(self) -> Placement:
        """What a plan has whether or not it states accesses: arenas and storages."""
        return self.allocation

    @property
    def origin(self) -> Provenance:
        """The provenance, or a refusal."""
        return needed(self.provenance, "provenance")

    @property
    def usage(self) -> tuple[Usage, ...]:
        """The claims of each arena, or a refusal."""
        return needed(self.claims, "claims").usage

    @property
    def slots(self) -> Slots:
        """The logical slots, or a refusal."""
        return needed(needed(self.claims, "claims").slots, "claims.slots")

    @property
    def configuration(self) -> ClaimedConfiguration:
        """The arena configuration, or a refusal."""
        return needed(needed(self.claims, "claims").configuration, "claims.configuration")

    @property
    def ranges(self) -> Mapping[str, tuple[int, int]]:
        """The dimensions that are left open."""
        return {} if self.envelope is None else self.envelope.ranges

    @property
    def bindings(self) -> Bindings:
        """What is known of how shapes were bound: the provenance's bindings, if any, with the envelope's ranges."""
        known = Bindings() if self.provenance is None else self.provenance.bindings
        return replace(known, ranges=self.ranges)

    def sizes(self) -> list[Dim]:
        """The bytes of each tensor: a number, or an expression over the envelope. O(terms + tensors).

        Raises ValueError for malformed terms, which the gate refuses.
        """
        if self.envelope is None:
            known: list[Dim] = self.allocation.tensors.bytes.tolist()
            return known
        found = read(self.envelope.terms.rows(), self.envelope.ranges)
        return [found[row] for row in self.envelope.size.tolist()]


@dataclass(frozen=True)
class BufferPlan:
    """Lifetimes without accesses: each buffer is a storage of its own and shares nothing."""

    buffers: Buffers
    claims: Claims | None = None

    @property
    def placement(self) -> Placement:
        """What a plan has whether or not it states accesses: arenas and storages."""
        return self.buffers


def needed(section: Section | None, name: str) -> Section:
    """The section, or INVALID_PLAN: what the caller does cannot do without it."""
    if section is None:
        raise TmmuError(
            "INVALID_PLAN", "the plan does not have this section, and what was asked needs it", place=name,
            fix="use a plan that `tmmu plan` wrote",
        )  # fmt: skip
    return section


def configured(plan: Plan) -> tuple[ArenaConfiguration, ...]:
    """The arenas as the planner is given them: what the allocation states of each, and what the claims do."""
    return tuple(
        ArenaConfiguration(a.name, use.roles, a.capacity, a.alignment, use.page_size, a.reuse, use.device, use.memory)
        for a, use in zip(plan.allocation.arenas, plan.configuration.uses, strict=True)
    )


def amended(plan: Plan, **changes: Any) -> Plan:
    """`plan` with other fields, each in the section that has it; nothing else is adapted."""
    for name in ("allocation", "claims", "provenance"):
        section = getattr(plan, name)
        if section is not None:
            mine = {f.name: changes.pop(f.name) for f in fields(section) if f.name in changes}
            plan = replace(plan, **{name: replace(section, **mine)}) if mine else plan
    if "policy" in changes and plan.claims is not None and plan.claims.configuration is not None:
        configuration = plan.claims.configuration._replace(policy=changes.pop("policy"))
        plan = replace(plan, claims=replace(plan.claims, configuration=configuration))
    return replace(plan, **changes)
