"""Write storages, arenas and addresses as the words that the kernel reads, with evidence that storages are disjoint.

A `KernelMemory` is everything that can be checked without accesses: lifetimes, addresses, arenas, pairs that must not
alias, and the claims about slots and footprints. `evidence.words` appends the tensors and accesses of a plan to it;
`lifetime_columns` appends nothing. The evidence is *not trusted*. It gives the order of rows, and shows that storages
are disjoint by ranges of slots one behind the other, or by edges between neighbours. spec: V6.2, V6.6
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from proofs.proving.certificate.edges import Edges, find_edges
from proofs.proving.certificate.slots import Rows

VERSION = 2
"""The version of the format, as in `Columns.v`."""
FILE_VERSION = 1
"""The version of the words beside a plan file, as in `PlanFile.v`."""
WITH_ACCESSES, WITH_LIFETIMES = 0, 1
"""The kinds of words: a plan with steps and accesses, and only lifetimes."""
BY_SLOTS, CLAIMS_SLOTS, CLAIMS_FOOTPRINTS = 1, 2, 4
"""Flags: the evidence is ranges of slots; slots are claimed; footprints are claimed."""

Words = NDArray[np.uint64]
Column = NDArray[Any]
Named = tuple[str, Column]


class ArenaRange(NamedTuple):
    """An arena: capacity, alignment, whether its bytes serve several storages, whether addresses are scattered."""

    capacity: int
    alignment: int
    reuse: bool
    scattered: bool


@dataclass(frozen=True)
class ClaimedSlots:
    """Claimed slots: the slot of each storage, and the arena, bytes, alignment and first byte of each slot.

    `ranges` states that no two slots of an arena have a byte in common, so that they show storages to be disjoint.
    """

    of_storage: Column
    arena: Column
    bytes: Column
    alignment: Column
    offset: Column
    ranges: bool


@dataclass(frozen=True)
class Size:
    """The claims about one arena: its footprint and its witness steps.

    `fullest` is a step that has one live storage for each slot; `peak` is a step whose live bytes equal the footprint.
    Each is None if it is not claimed.
    """

    footprint: int
    fullest: int | None
    peak: int | None


@dataclass(frozen=True)
class KernelMemory:
    """Storages as columns: arena (row), bytes, alignment, birth and death (steps, both included), offset (bytes).

    `steps` is the number of steps. `pairs` are the rows of storages, or of a plan's tensors, that must not alias.
    `slots` and `sizes`, one for each arena, are the claims, if there are any. `edges` are those of each arena, if they
    are known already.
    """

    steps: int
    arena: Column
    bytes: Column
    alignment: Column
    birth: Column
    death: Column
    offset: Column
    arenas: Sequence[ArenaRange]
    pairs: Sequence[tuple[int, int]] = ()
    slots: ClaimedSlots | None = None
    sizes: Sequence[Size] | None = None
    edges: Sequence[Edges] | None = None

    def __len__(self) -> int:
        return len(self.arena)


def lifetime_columns(memory: KernelMemory, digest: bytes) -> list[Named]:
    """Return the columns of lifetimes without accesses, in a file with this digest (32 bytes).

    O(n log n) for n storages.

    The kernel concludes `SafeMemory` of `Safe.v` from them, never that anything runs. spec: V6.6
    """
    return columns(memory, digest, WITH_LIFETIMES, (0,) * 10)


def join_columns(named: Sequence[Named]) -> Words:
    """Return the columns, one behind the other."""
    found = np.empty(sum(len(column) for _, column in named), np.uint64)
    at = 0
    for _, column in named:
        found[at : at + len(column)] = column
        at += len(column)
    return found


def columns(memory: KernelMemory, digest: bytes, kind: int, counts: Sequence[int]) -> list[Named]:
    """Return the columns of header and memory, in the order of `Columns.v`.

    `counts` are those of the columns that follow.
    """
    m, table, count = memory, _edge_table(memory), _count_slots(memory)
    return [
        ("version", np.array([VERSION])), ("digest of the plan file", np.frombuffer(digest, ">u8")),
        ("kind, flags, steps, storages, slots, arenas, edges, pairs, tensors, loops, reads, writes, mutates, "
         "exclusive nodes, arms, other writers, joins, takes",
         np.array([kind, _flags(m), m.steps, len(m), count, len(m.arenas), len(table), len(m.pairs), *counts])),
        ("storages: arena", m.arena), ("bytes", m.bytes), ("alignment", m.alignment), ("birth", m.birth),
        ("death", m.death), ("offset", m.offset), *_slots(m), *_edge_columns(m, table),
        ("pairs that must not alias", np.array([*zip(*m.pairs, strict=True)], np.int64).ravel()),
    ]  # fmt: skip


def evidence_columns(memory: KernelMemory, others: int = 0, joins: int = 0) -> list[Named]:
    """Return the columns of evidence about a memory whose plan file the program reads, in the order of `PlanFile.v`.

    `others` and `joins` are the numbers of other writers and of joins, whose columns follow.
    """
    table, slots, orders = _edge_table(memory), _claimed_slots(memory), _slot_orders(memory)
    return [
        ("flags, edges, other writers, joins, steps",
         np.array([_flags(memory) & BY_SLOTS, len(table), others, joins, memory.steps])),
        ("storages: place", orders.place), ("slots: offset", slots.offset), ("place", orders.slot_place),
        *orders.columns, *_edge_columns(memory, table),
    ]  # fmt: skip


def lifetime_evidence(memory: KernelMemory) -> list[Named]:
    """Return the words beside a plan file of lifetimes: no words of the readers, and the evidence."""
    return [("words of the readers", np.zeros(1, np.int64)), *evidence_columns(memory)]


def _flags(m: KernelMemory) -> int:
    claims_slots = 0 if m.slots is None else CLAIMS_SLOTS + BY_SLOTS * m.slots.ranges
    return claims_slots + (0 if m.sizes is None else CLAIMS_FOOTPRINTS)


def _count_slots(m: KernelMemory) -> int:
    return 0 if m.slots is None else len(m.slots.arena)


def _edge_table(m: KernelMemory) -> Rows:
    """Return the edges, or none if ranges of slots show that storages are disjoint."""
    return np.empty((0, 4), np.int64) if m.slots is not None and m.slots.ranges else _edges(m)


def group_rows(group: Column, count: int, by: Column) -> tuple[Rows, Rows]:
    """Return the bounds of each group, and its rows in the order of `by`."""
    order = np.lexsort((by, group))
    return np.searchsorted(group[order], np.arange(count + 1)), order


def invert_order(order: Column) -> Rows:
    """Return the position of each row in an order."""
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return place


@dataclass(frozen=True)
class _SlotOrders:
    """The storages of each slot by birth, and the slots of each arena by offset: their places, and the columns."""

    place: Rows
    slot_place: Rows
    columns: list[Named]


def _claimed_slots(m: KernelMemory) -> ClaimedSlots:
    none = np.zeros(0, np.int64)
    return m.slots or ClaimedSlots(np.zeros(len(m), np.int64), none, none, none, none, ranges=False)


def _slot_orders(m: KernelMemory) -> _SlotOrders:
    """Return the orders. An empty slot is in no arena's order, which is padded to the number of slots."""
    slots = _claimed_slots(m)
    count = len(slots.arena)
    tenants = np.lexsort((m.death, m.birth, slots.of_storage))
    bounds = np.searchsorted(slots.of_storage[tenants], np.arange(count + 1))
    used = np.flatnonzero(np.diff(bounds) > 0)
    ordered = used[np.lexsort((slots.offset[used], slots.arena[used]))]
    at = np.searchsorted(slots.arena[ordered], np.arange(len(m.arenas) + 1))
    place = np.zeros(count, np.int64)
    place[ordered] = np.arange(len(ordered))
    padded = np.append(ordered, np.zeros(count - len(ordered), np.int64))
    columns = [
        ("storages of each slot", bounds), ("in order", tenants), ("slots of each arena", at), ("in order", padded)
    ]  # fmt: skip
    return _SlotOrders(invert_order(tenants), place, columns)


def _slots(m: KernelMemory) -> list[Named]:
    """Return slots, arenas and orders."""
    slots, orders = _claimed_slots(m), _slot_orders(m)
    return [
        ("slot", slots.of_storage), ("place", orders.place),
        ("slots: arena", slots.arena), ("bytes", slots.bytes), ("alignment", slots.alignment),
        ("offset", slots.offset), ("place", orders.slot_place), *_arenas(m), *orders.columns,
    ]  # fmt: skip


def _arenas(m: KernelMemory) -> list[Named]:
    names = ("arenas: capacity", "alignment", "scattered", "footprint", "max live step + 1", "peak step + 1", "reuse")
    sizes = m.sizes or [Size(0, None, None)] * len(m.arenas)
    rows = [
        (a.capacity, a.alignment, a.scattered, size.footprint,
         *(0 if step is None else step + 1 for step in (size.fullest, size.peak)), a.reuse)
        for a, size in zip(m.arenas, sizes, strict=True)
    ]  # fmt: skip
    return [*zip(names, np.array(rows, np.uint64).reshape(len(rows), len(names)).T, strict=True)]


def _edges(m: KernelMemory) -> Rows:
    """Return the edges of all arenas by lower end, then first step. The bottom of arena a is row `len(m) + a`."""
    tables: list[Rows] = [np.empty((0, 4), np.int64)]
    for arena in range(len(m.arenas)):
        found = _of_arena(m, arena) if m.edges is None else m.edges[arena]
        node = np.append(found.storages, [len(m) + arena])
        inner = found.above != found.top
        ends = node[found.below[inner]], node[found.above[inner]]
        tables.append(np.column_stack([*ends, found.first[inner], found.last[inner]]))
    table = np.concatenate(tables)
    return table[np.lexsort((table[:, 2], table[:, 0]))]


def _of_arena(m: KernelMemory, arena: int) -> Edges:
    """Return the edges of an arena. In an arena without reuse, a storage keeps its bytes at all steps."""
    last = max(0, m.steps - 1)
    rows = np.flatnonzero((m.arena == arena) & (m.bytes > 0)).astype(np.int64)
    birth, death = m.birth[rows].astype(np.int64), m.death[rows].astype(np.int64)
    if not m.arenas[arena].reuse:
        birth, death = np.zeros_like(birth), np.full_like(death, last)
    return find_edges(rows, m.offset[rows], birth, death, last)


def _edge_columns(m: KernelMemory, table: Rows) -> list[Named]:
    downs_at, downs = group_rows(table[:, 1], len(m), table[:, 2])
    return [
        *zip(("edges: below", "above", "first", "last"), table.T, strict=True),
        ("edges up from each storage and floor", np.searchsorted(table[:, 0], np.arange(len(m) + len(m.arenas) + 1))),
        ("edges down from each storage", downs_at), ("in order", downs),
    ]  # fmt: skip
