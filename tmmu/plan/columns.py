"""The plan as data: columns of equal length for each table, and the words of the vocabulary as views of a row.

A plan is this and nothing else: what the planner returns, what `plan.cbor` holds, what the checker reads.
Columns are read-only NumPy arrays; `NONE` marks an absent index. Steps hold their reads, writes and mutations
as one flat index column each, with `n + 1` bounds (compressed sparse rows).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from tmmu.core.columns import U8, U32, U64, Names, Table, column
from tmmu.core.dims.expressions import Dim
from tmmu.core.dims.table import Row, read
from tmmu.core.vocabulary import (
    ANYWHERE,
    Arena,
    ArenaPolicy,
    Bindings,
    Lifetime,
    Part,
    Placement,
    Role,
    Shares,
    Slot,
    Storage,
    Usage,
)

ROLES: tuple[Role, ...] = tuple(Role)
PARTS: tuple[Part, ...] = tuple(Part)
SHARES: tuple[Shares, ...] = tuple(Shares)

IS_INPUT, IS_OUTPUT, IS_SAVED = 1, 2, 4
"""Bits of a tensor's `flags`: the caller writes it before step 0, reads it after the last step, or it is saved
for backward. (What is donated is a binding: the plan's own word on it counts for nothing.)"""


@dataclass(frozen=True, eq=False)
class Tensors(Table):
    """A row for each tensor: where its bytes lie in its storage, when it lives, who writes it, what it shares.

    `window` is the byte offset in the storage; `writer` the step that writes it (NONE: the caller, before step
    0); `shares` and `of` the plan's word on sharing; `dtype` indexes the plan's `dtypes`.
    """

    name: Names
    dtype: U8
    role: U8
    flags: U8
    bytes: U64
    alignment: U64
    birth: U32
    death: U32
    storage: U32
    window: U64
    writer: U32
    shares: U8
    of: U32


@dataclass(frozen=True, eq=False)
class Storages(Table):
    """A row for each storage: its arena, size, alignment, lifetime, logical slot and address."""

    arena: U32
    bytes: U64
    alignment: U64
    birth: U32
    death: U32
    slot: U32
    offset: U64


@dataclass(frozen=True, eq=False)
class Slots(Table):
    """A row for each logical slot, by arena, then by slot number within it; sized to its largest storage."""

    arena: U32
    bytes: U64
    alignment: U64


@dataclass(frozen=True, eq=False)
class Steps(Table):
    """A row for each step: its node, operation, part and body, and the tensors it reads, writes and mutates.

    `op` indexes the plan's `ops`. The tensors that step `s` reads are `reads[reads_at[s]:reads_at[s + 1]]`; the
    same holds for `writes` and `mutates` (a subset of the writes).
    """

    node: Names
    op: U32
    part: U8
    body: U32
    reads_at: U32
    reads: U32
    writes_at: U32
    writes: U32
    mutates_at: U32
    mutates: U32

    LISTS: ClassVar[tuple[str, ...]] = ("reads", "writes", "mutates")

    def listed(self, which: str) -> list[tuple[int, ...]]:
        """The tensors that each step reads, writes or mutates, as Python integers. O(steps + accesses)."""
        at, flat = getattr(self, f"{which}_at").tolist(), tuple(getattr(self, which).tolist())
        return [flat[lo:hi] for lo, hi in pairwise(at)]


@dataclass(frozen=True, eq=False)
class Bodies(Table):
    """A row for each body; row 0 is the main graph (empty name, parent NONE, enter and leave NONE).

    `enter` and `leave` are the steps of the node that owns the body; `iterates` is 1 where it may run more than once,
    `exclusive` where exactly one body of the node runs at each visit (X4).
    """

    name: Names
    parent: U32
    enter: U32
    leave: U32
    iterates: U8
    exclusive: U8


@dataclass(frozen=True, eq=False)
class Shards(Table):
    """A row for each tensor that is its rank's part of a tensor of the model; no row where nothing is sharded (R7).

    Dimension `d` of row `i` stands at `dims_at[i] + d`: the model's tensor has `size` elements there, `axis` of the
    mesh splits them (NONE: no axis), this rank has `held` of them from `start` on, in `chunk` places, padding last.
    """

    tensor: U32
    dims_at: U32
    size: U64
    axis: U32
    start: U64
    held: U64
    chunk: U64

    DIMENSIONS: ClassVar[tuple[str, ...]] = ("size", "axis", "start", "held", "chunk")


UNSHARDED = Shards(*(column(values, dtype) for values, dtype in (
    ((), np.uint32), ((0,), np.uint32), ((), np.uint64), ((), np.uint32), *(((), np.uint64),) * 3,
)))  # fmt: skip
"""The table of a plan for one rank that has no shard spec."""


@dataclass(frozen=True, eq=False)
class Terms(Table):
    """The rows of `tmmu.core.dims.table`: numbers made of dimensions and of rows before."""

    op: U8
    left: U32
    right: U32
    value: U64

    def rows(self) -> list[Row]:
        """All rows as Python integers."""
        columns = (self.op.tolist(), self.left.tolist(), self.right.tolist(), self.value.tolist())
        return [Row(*row) for row in zip(*columns, strict=True)]


@dataclass(frozen=True, eq=False)
class Envelope:
    """How the sizes of a plan's tensors depend on the dimensions that its bindings leave open (R6).

    The dimensions are the bindings' `ranges` in the order of their names. `size` is the row of `terms` that gives each
    tensor's bytes; `points` are shapes, one size for each dimension, and `largest_at` that at which each tensor is as
    large as planned. `policy` is what a run does with a shape outside the envelope.
    """

    policy: str
    terms: Terms
    size: U32
    points: U64
    largest_at: U32

    def point(self, tensor: int, dims: int) -> list[int]:
        """The shape at which a tensor is largest."""
        row = int(self.largest_at[tensor]) * dims
        found: list[int] = self.points[row : row + dims].tolist()
        return found

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Envelope)
            and self.policy == other.policy
            and self.terms == other.terms
            and all(
                bool(np.array_equal(getattr(self, name), getattr(other, name)))
                for name in ("size", "points", "largest_at")
            )
        )

    __hash__ = None  # type: ignore[assignment]  # as of a table


POLICIES = ("ABORT", "REPLAN_AT_SAFEPOINT")
"""What a run does with a shape outside the envelope: refuse it, or plan again before its next iteration. spec: R6.7"""


@dataclass(frozen=True)
class Plan:
    """A memory plan: tables, the arenas it was made for, what it claims of each, and what it is bound to.

    `ops` are (domain, operator) pairs, `dtypes` names of `tmmu.core.dtypes`. `must_not_alias` are pairs of tensor
    rows. `ir_hash` is the digest of the planned graph, `source_digest` that of the model file it was read from.
    """

    model: str
    mode: str
    layout: str
    order: str
    replay_token: bytes
    ir_hash: bytes
    source_digest: bytes | None
    arenas: tuple[Arena, ...]
    usage: tuple[Usage, ...]
    bindings: Bindings
    ops: tuple[tuple[str, str], ...]
    dtypes: tuple[str, ...]
    tensors: Tensors
    storages: Storages
    slots: Slots
    steps: Steps
    bodies: Bodies
    must_not_alias: tuple[tuple[int, int], ...] = ()
    unproduced: tuple[str, ...] = ()
    rank: int = 0
    world_size: int = 1
    shard_spec: dict[str, Any] = field(default_factory=dict)
    """How tensors are split over ranks (R7); empty for one rank."""
    shards: Shards = field(default_factory=lambda: UNSHARDED)
    address_token_digest: bytes | None = None
    """The SHA-256 of the token that the addresses of the layout `hashed` derive from (A2)."""
    policy: ArenaPolicy = ANYWHERE
    """The devices, and the rules that said which arenas each tensor may use (M3)."""
    envelope: Envelope | None = None
    """How sizes depend on the dimensions that are left open; None where all are bound (R6)."""

    @property
    def last_step(self) -> int:
        """The last step, 0 for a plan without steps: persistent tensors and outputs live to it."""
        return max(0, len(self.steps) - 1)

    def sizes(self) -> list[Dim]:
        """The bytes of each tensor: a number, or an expression over the envelope. O(terms + tensors).

        Raises ValueError where the terms are none; the gate has looked.
        """
        if self.envelope is None:
            known: list[Dim] = self.tensors.bytes.tolist()
            return known
        found = read(self.envelope.terms.rows(), self.bindings.ranges)
        return [found[row] for row in self.envelope.size.tolist()]

    def storage(self, row: int) -> Storage:
        """One storage, as the vocabulary's word."""
        s = self.storages
        return Storage(
            int(s.arena[row]), int(s.bytes[row]), int(s.alignment[row]),
            Lifetime(int(s.birth[row]), int(s.death[row])), int(s.slot[row]), int(s.offset[row]),
        )  # fmt: skip

    def slot(self, row: int) -> Slot:
        """One slot, as the vocabulary's word."""
        return Slot(int(self.slots.arena[row]), int(self.slots.bytes[row]), int(self.slots.alignment[row]))

    def placement(self, storage: int) -> Placement:
        """Where a storage lies and when."""
        found = self.storage(storage)
        return Placement(self.arenas[found.arena].name, found.offset, found.lifetime)

    def addresses(self) -> U64:
        """The arena offset of each tensor: its storage's offset plus its window. O(tensors); wraps at 2**64."""
        result: U64 = self.storages.offset[self.tensors.storage] + self.tensors.window
        return result
