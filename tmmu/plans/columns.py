"""The tables of a plan: columns of equal length, a row for each tensor, storage, step, body, slot or shard.

Columns are read-only NumPy arrays; `NONE` marks an absent index. Steps hold their reads, writes and mutations as one
flat index column each, with `n + 1` bounds (compressed sparse rows).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np

from tmmu.core.columns import U8, U32, U64, Names, Table, build_column
from tmmu.core.dims.table import Row
from tmmu.core.vocabulary import NodePart, Role, Shares

ROLES: tuple[Role, ...] = tuple(Role)
PARTS: tuple[NodePart, ...] = tuple(NodePart)
SHARES: tuple[Shares, ...] = tuple(Shares)

IS_INPUT, IS_OUTPUT, IS_SAVED, IS_RETURNED = 1, 2, 4, 8
"""Bits of a tensor's `flags`.

It is a graph input, a graph output, or saved for backward; and the caller reads it after the last step. (Donation is
the user's decision at verification and not a flag.) spec: P2.3
"""


@dataclass(frozen=True, eq=False)
class Tensors(Table):
    """A row for each tensor: its place in its storage, its lifetime, the step that writes it, and its sharing.

    `window` is the byte offset in the storage. `writer` is the step that writes it (NONE: the caller, before step 0).
    `shares` and `of` are the sharing that the plan states. `dtype` indexes the plan's `dtypes`.
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
    """A row for each storage: its arena, size, alignment, lifetime and address."""

    arena: U32
    bytes: U64
    alignment: U64
    birth: U32
    death: U32
    offset: U64


@dataclass(frozen=True, eq=False)
class Slots(Table):
    """A row for each logical slot, by arena, then by slot number within it; sized to its largest storage.

    `of` has a row for each storage instead: the slot that it occupies.
    """

    arena: U32
    bytes: U64
    alignment: U64
    of: U32


class Waits(NamedTuple):
    """Direct waits as two columns, ascending: step `step[k]` begins when step `after[k]` has ended."""

    step: U32
    after: U32


def _build_empty() -> U32:
    return build_column([], np.uint32)


@dataclass(frozen=True, eq=False)
class Steps(Table):
    """A row for each step: its node, operation, part and body, and the tensors it reads, writes and mutates.

    `op` indexes the plan's `ops`. The tensors that step `s` reads are `reads[reads_at[s]:reads_at[s + 1]]`; the same
    holds for `writes`, for `mutates` (a subset of the writes), and for the earlier steps `after` that have ended before
    `s` begins. `stream` indexes the plan's `streams`. The columns of streams are empty in a plan without streams (X5).
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
    stream: U32 = field(default_factory=_build_empty)
    after_at: U32 = field(default_factory=_build_empty)
    after: U32 = field(default_factory=_build_empty)

    LISTS: ClassVar[tuple[str, ...]] = ("reads", "writes", "mutates")
    BOUNDED: ClassVar[tuple[str, ...]] = ("reads_at", "reads", "writes_at", "writes", "mutates_at", "mutates")
    OF_STREAMS: ClassVar[tuple[str, ...]] = ("stream", "after_at", "after")

    def listed(self, which: str) -> list[tuple[int, ...]]:
        """Return the tensors that each step reads, writes or mutates, as Python integers. O(steps + accesses)."""
        at, flat = getattr(self, f"{which}_at").tolist(), tuple(getattr(self, which).tolist())
        return [flat[lo:hi] for lo, hi in pairwise(at)]

    def waits(self) -> Waits:
        """Return the direct waits, in the order of their steps. O(steps + waits)."""
        counts = self.after_at[1:] - self.after_at[:-1]
        return Waits(build_column(np.repeat(np.arange(len(counts)), counts), np.uint32), self.after)


@dataclass(frozen=True, eq=False)
class Bodies(Table):
    """A row for each body; row 0 is the main graph (empty name, parent NONE, enter and leave NONE).

    `enter` and `leave` are the steps of the node that owns the body. `iterates` is 1 if the body may run more than
    once, `exclusive` if exactly one body of the node runs at each visit (X4).
    """

    name: Names
    parent: U32
    enter: U32
    leave: U32
    iterates: U8
    exclusive: U8


@dataclass(frozen=True, eq=False)
class Shards(Table):
    """A row for each tensor that is its rank's part of a tensor of the model; empty if nothing is sharded (R7).

    Dimension `d` of row `i` is at `dims_at[i] + d`. The model's tensor has `size` elements there, `axis` of the mesh
    splits them (NONE: no axis), and this rank has `held` of them from `start` on, in `chunk` places, padding last.
    """

    tensor: U32
    dims_at: U32
    size: U64
    axis: U32
    start: U64
    held: U64
    chunk: U64

    DIMENSIONS: ClassVar[tuple[str, ...]] = ("size", "axis", "start", "held", "chunk")


@dataclass(frozen=True, eq=False)
class Terms(Table):
    """The rows of `tmmu.core.dims.table`: numbers made of dimensions and of earlier rows."""

    op: U8
    left: U32
    right: U32
    value: U64

    def rows(self) -> list[Row]:
        """Return all rows as Python integers."""
        columns = (self.op.tolist(), self.left.tolist(), self.right.tolist(), self.value.tolist())
        return [Row(*row) for row in zip(*columns, strict=True)]
