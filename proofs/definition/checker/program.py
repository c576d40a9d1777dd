"""Represent a plan as the checker reads it: rows as plain tuples, and the reads that loops repeat.

A `Program` is built from the columns of a plan and from the permissions that the checker's own tables grant
(`proofs.readers.sharing`), so that `proofs.definition.checker.execute` is a few loops over plain data. Two rules that
no single step shows are made explicit here (T8). The leave step of a node that iterates reads *again* whatever the node
reads in every iteration, and the results of that node may be written from its enter step on. spec: V1.2, T8.3, T8.4,
X4.1
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from proofs.readers.arms import BranchingNode, find_branching_nodes, find_declared_exclusive
from proofs.readers.operators import iterates
from proofs.readers.sharing import Permissions
from tmmu.core.columns import NONE
from tmmu.core.vocabulary import MAIN, NodePart, Role
from tmmu.plans.allocation import Allocation, Arena, Placement
from tmmu.plans.columns import IS_OUTPUT, IS_RETURNED, PARTS, ROLES
from tmmu.plans.sections import Claims, Plan

CALLER = -1
"""The owner of bytes that no step has written."""
Column = NDArray[Any]
"""Numbers of one kind, one for each row; see `exact`."""
LARGE = 1 << 62


class PlacedArena(NamedTuple):
    """An arena: its name, capacity and alignment, and whether storages may reuse its bytes.

    `footprint` is the number of bytes that it needs, as the plan claims or, without a claim, as computed from its
    storages. `limit` is the end of its addresses. `base` is the alignment that the plan states of the base of its
    memory, or 0 if it states none.
    """

    name: str
    capacity: int
    alignment: int
    footprint: int
    limit: int
    reuse: bool
    scattered: bool
    base: int = 0


class PlacedStorage(NamedTuple):
    """A storage: its arena, bytes, alignment, first and last step, and offset."""

    arena: int
    bytes: int
    alignment: int
    birth: int
    death: int
    offset: int


class PlacedTensor(NamedTuple):
    """A tensor: storage, window, bytes, lifetime, the step that writes it (None: the caller), arena and address."""

    name: str
    storage: int
    window: int
    bytes: int
    alignment: int
    birth: int
    death: int
    writer: int | None
    arena: int
    address: int


class StorageColumns(NamedTuple):
    """The fields of all storages, each as a column."""

    arena: Column
    bytes: Column
    alignment: Column
    birth: Column
    death: Column
    offset: Column


class TensorColumns(NamedTuple):
    """The numeric fields of all tensors, each as a column."""

    storage: Column
    window: Column
    bytes: Column
    alignment: Column
    birth: Column
    death: Column
    arena: Column
    address: Column


def exact(values: Iterable[int]) -> Column:
    """Return integers as a column that adds exactly: the sum of any two entries does not overflow.

    The column has 64-bit integers if they suffice, and Python integers otherwise.

    >>> exact([1, 2]).dtype, exact([1, 1 << 62]).dtype
    (dtype('int64'), dtype('O'))
    """
    rows = list(values)
    try:
        column = np.array(rows, np.int64)
    except OverflowError:
        return np.array(rows, object)
    return np.array(rows, object) if np.any((column >= LARGE) | (column < -LARGE)) else column


class RunStep(NamedTuple):
    """A step: the tensors that it reads, writes and mutates, and those that a loop reads again.

    `completes` is true of the leave step of a loop. `begins` are the writes of an enter step that the leave of its loop
    completes.
    """

    reads: tuple[int, ...]
    writes: tuple[int, ...]
    mutates: frozenset[int]
    again: tuple[int, ...] = ()
    completes: bool = False
    begins: frozenset[int] = frozenset()


@dataclass(frozen=True)
class PlacedStorages:
    """Storages in their arenas: all that a plan of lifetimes has. `apart` lists the pairs that must share no byte."""

    arenas: list[PlacedArena]
    storages: list[PlacedStorage]
    storage_names: list[str]
    apart: list[tuple[int, int]]
    last_step: int

    @cached_property
    def columns(self) -> StorageColumns:
        """The storages as columns, for operations over all of them at once."""
        return StorageColumns(*map(exact, zip(*self.storages, strict=True) if self.storages else [()] * 6))

    def of_arenas(self, field: str) -> Column:
        """Return a field of each storage's arena, as a column. O(storages)."""
        return exact([int(getattr(arena, field)) for arena in self.arenas])[self.columns.arena]


@dataclass(frozen=True)
class Program(PlacedStorages):
    """A plan that the checker can run. `views` maps a view to (base, byte offset), `in_place` a result to its operand.

    `returned` are the tensors that the caller reads after the last step; `donated` are those that it donated.
    `branches` are the nodes with exclusive branches, outer ones before inner ones. `refused` maps a result that is
    declared in place, but checked as any other, to the reason, as text.
    """

    tensors: list[PlacedTensor]
    steps: list[RunStep]
    nodes: list[str]
    views: dict[int, tuple[int, int]]
    in_place: dict[int, int]
    returned: list[int]
    donated: frozenset[int]
    branches: tuple[BranchingNode, ...] = ()
    refused: Mapping[int, str] = field(default_factory=dict)

    @cached_property
    def tensor_columns(self) -> TensorColumns:
        """The tensors as columns."""
        fields = dict(zip(PlacedTensor._fields, zip(*self.tensors, strict=True), strict=True)) if self.tensors else {}
        return TensorColumns(*(exact(fields.get(name, ())) for name in TensorColumns._fields))

    @cached_property
    def become(self) -> dict[int, frozenset[int]]:
        """The results of nodes with exclusive branches, each with the outputs that it may share bytes with."""
        return {result: outputs for node in self.branches for result, outputs in node.become.items()}

    def at(self, step: int) -> str:
        """Return the name of a step for messages."""
        return f"step {step} ({self.nodes[step]})" if step < len(self.nodes) else "after the last step the caller"


class SharedIntegers:
    """The integers below `count` as objects that lists share.

    A list entry that is one of them takes 8 bytes, any other one 40.
    """

    def __init__(self, count: int) -> None:
        self._known = np.arange(count).astype(object)

    def of(self, column: NDArray[Any]) -> list[int]:
        """Return a column as Python integers.

        A plan may state steps at or above `count`; the result then shares nothing.
        """
        if len(column) and column.max() >= len(self._known):
            found: list[int] = column.tolist()
            return found
        return list(self._known[column].tolist())

    def or_none(self, column: NDArray[Any]) -> list[int | None]:
        """Return a column of rows as Python integers, with None for `NONE`."""
        absent = column == NONE
        found = self._known[np.where(absent, 0, column)]
        found[absent] = None
        return list(found.tolist())


def place_storages(placement: Placement, claims: Claims | None, shared: SharedIntegers | None = None) -> PlacedStorages:
    """Return the storages of a plan that has passed the gate, with or without steps. O(storages)."""
    s, steps = placement.storages, shared or SharedIntegers(0)
    rows = (s.arena.tolist(), s.bytes.tolist(), s.alignment.tolist(), steps.of(s.birth), steps.of(s.death))
    storages = list(map(PlacedStorage._make, zip(*rows, s.offset.tolist(), strict=True)))
    needed = compute_footprints(placement.arenas, storages)
    for a, usage in enumerate(claims.usage if claims is not None else ()):
        needed[a] = needed[a] if usage.footprint is None else usage.footprint
    arenas = [
        PlacedArena(
            a.name, a.capacity, a.alignment, need, a.limit if a.scattered else need, a.reuse, a.scattered, a.stated_base
        )
        for a, need in zip(placement.arenas, needed, strict=True)
    ]
    return PlacedStorages(
        arenas, storages, placement.storage_names(), placement.storages_apart(), placement.last_step
    )  # fmt: skip


def compute_footprints(arenas: Sequence[Arena | PlacedArena], storages: list[PlacedStorage]) -> list[int]:
    """Return the footprint of each arena: the end of its last storage.

    If the addresses of an arena are scattered, its footprint is the sum, over its addresses, of the largest storage at
    each. A storage of zero bytes counts as one byte (T7). spec: A3.1, A2.4, A8.6
    """
    largest: list[dict[int, int]] = [{} for _ in arenas]
    scattered = [arena.scattered for arena in arenas]
    for arena, size, _, _, _, offset in storages:
        start = offset if scattered[arena] else 0
        end = offset - start + (size or 1)
        if end > largest[arena].get(start, 0):
            largest[arena][start] = end
    return [sum(sizes.values()) for sizes in largest]


def build_program(plan: Plan, permissions: Permissions, donated: frozenset[str] = frozenset()) -> Program:
    """Return the checker's view of a plan with steps that has passed the gate. O(plan)."""
    allocation = plan.allocation
    t = allocation.tensors
    shared = SharedIntegers(max(len(t), len(allocation.steps)))
    of = place_storages(allocation, plan.claims, shared)
    names = t.name.list()
    holding = [of.storages[storage] for storage in t.storage.tolist()]
    # A number that equals the storage's is the same Python object.
    size, address = [s.bytes for s in holding], [s.offset for s in holding]
    for i in np.flatnonzero(t.bytes != allocation.storages.bytes[t.storage]).tolist():
        size[i] = int(t.bytes[i])
    for i in np.flatnonzero(t.window).tolist():
        address[i] += int(t.window[i])
    columns = (
        names, shared.of(t.storage), t.window.tolist(), size, t.alignment.tolist(), shared.of(t.birth),
        shared.of(t.death), shared.or_none(t.writer), [s.arena for s in holding], address,
    )  # fmt: skip
    tensors = list(map(PlacedTensor._make, zip(*columns, strict=True)))
    given_up = frozenset(i for i, name in enumerate(names) if name in donated) if donated else frozenset()
    kept = (ROLES.index(Role.PARAMETER), ROLES.index(Role.OPTIMIZER))
    returned = [
        i
        for i, (flags, role) in enumerate(zip(t.flags.tolist(), t.role.tolist(), strict=True))
        if flags & (IS_OUTPUT | IS_RETURNED) or (role in kept and i not in given_up)
    ]
    return Program(
        of.arenas, of.storages, of.storage_names, of.apart, of.last_step, tensors, _steps(allocation, shared),
        allocation.steps.node.list(), permissions.views, permissions.in_place, returned, given_up,
        tuple(find_branching_nodes(allocation)), permissions.refused,
    )  # fmt: skip


def _steps(allocation: Allocation, shared: SharedIntegers) -> list[RunStep]:
    """Return the steps as stated, with the additional accesses of the enter and leave of each node that iterates."""
    reads, writes, mutates = (
        [tuple(rows[lo:hi]) for lo, hi in pairwise(getattr(allocation.steps, f"{name}_at").tolist())]
        if rows
        else [()] * len(allocation.steps)
        for name, rows in ((name, shared.of(getattr(allocation.steps, name))) for name in allocation.steps.LISTS)
    )
    nothing = frozenset[int]()
    steps = [RunStep(r, w, frozenset(m) if m else nothing) for r, w, m in zip(reads, writes, mutates, strict=True)]
    # Scratch, and a copy that a leave returns, is read by the step that made it: the read finds nothing older.
    scratch = np.flatnonzero(
        (allocation.tensors.role == ROLES.index(Role.SCRATCH)) & (allocation.tensors.writer != NONE)
    )
    own: dict[int, set[int]] = {}
    for t, n in zip(scratch.tolist(), allocation.tensors.writer[scratch].tolist(), strict=True):
        own.setdefault(n, set()).add(t)
    for n, scratches in own.items():
        unread = scratches.intersection(writes[n]) - steps[n].mutates
        steps[n] = steps[n]._replace(reads=tuple(r for r in steps[n].reads if r not in unread))
    for enter, leave in loops(allocation):
        outside = {
            t
            for s in range(enter + 1, leave)
            for t in reads[s]
            if allocation.tensors.writer[t] == NONE or allocation.tensors.writer[t] < enter
        }
        # The leave itself writes copies of body outputs and, last, the node's results.
        inner = {t for s in range(enter, leave) for t in writes[s]} | set(reads[leave])
        results = tuple(t for t in writes[leave] if t not in inner)
        again = dict.fromkeys((*reads[enter], *writes[enter], *sorted(outside), *results, *steps[leave].again))
        steps[leave] = steps[leave]._replace(again=tuple(again), completes=True)
        began = steps[enter].begins.union(results)
        steps[enter] = steps[enter]._replace(writes=(*steps[enter].writes, *results), begins=began)
    return steps


def loops(allocation: Allocation) -> list[tuple[int, int]]:
    """Return the (enter, leave) steps of every node whose bodies may run more than once, by the checker's own table."""
    bodies, steps = allocation.bodies, allocation.steps
    found: dict[tuple[int, int], None] = {}
    exclusive = find_declared_exclusive(allocation)
    for b in range(len(bodies)):
        enter, leave = int(bodies.enter[b]), int(bodies.leave[b])
        if b != MAIN and enter < leave < len(steps) and PARTS[steps.part[enter]] is NodePart.ENTER:
            domain, op = allocation.ops[steps.op[enter]]
            if iterates(domain, op, enter in exclusive):
                found[enter, leave] = None
    return list(found)
