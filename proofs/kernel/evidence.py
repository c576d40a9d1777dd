"""A plan as the row of 64-bit words that the kernel reads, with the evidence that makes its check linear.

The words are the plan's own columns, the permissions that the checker's tables give (views, in-place operands), what
the caller gives and takes, and which nodes iterate: that is the program of which the kernel's theorem speaks, and the
kernel takes it at its word. The rest is evidence and *not trusted*: when the bytes of each tensor are its own, in which
order to look at the rows of each group, and the edges between neighbours. The order of the columns is that of
`Columns.v`; what may be absent is stored with 1 added. spec: V6.2
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proofs.certificate.edges import edges
from proofs.certificate.slots import Rows
from proofs.checker.layouts import by_slots
from proofs.obligations.contents import Stays, stays
from proofs.obligations.context import Context, view_of
from proofs.readers.sharing import Permissions
from tmmu.core.vocabulary import Role
from tmmu.plan.columns import ROLES
from tmmu.plan.sections import Plan

VERSION = 1
"""The version of the format, as `Columns.v` has it."""

Words = NDArray[np.uint64]
NONE = -1


def words(plan: Plan, permissions: Permissions, donated: frozenset[str], digest: bytes) -> Words:
    """The row of words for a plan that passed the gate; `digest` is that of its file. O(n log n)."""
    return np.concatenate([column for _, column in columns(plan, permissions, donated, digest)])


def columns(plan: Plan, permissions: Permissions, donated: frozenset[str], digest: bytes) -> list[tuple[str, Words]]:
    """The same words column by column, each under its name, in the order of `Columns.v`."""
    context = view_of(plan, permissions, donated)
    when, tenants = stays(context), context.certificate.tenants
    members_at, members = _grouped(plan.allocation.tensors.storage, len(plan.allocation.storages), when.written)
    ordered_at, ordered = _ordered(context)
    table = _edges(plan)
    s, steps, nodes = (
        plan.allocation.storages,
        plan.allocation.steps,
        len(plan.allocation.storages) + len(plan.allocation.arenas),
    )
    downs_at, downs = _grouped(table[:, 1], len(s), table[:, 2])
    counts = [
        len(steps), len(plan.allocation.tensors), len(s), len(plan.slots), len(plan.allocation.arenas),
        len(context.loops), len(steps.reads),
        len(steps.writes), len(steps.mutates), len(plan.allocation.must_not_alias), len(table), by_slots(plan),
    ]  # fmt: skip
    named: list[tuple[str, NDArray[Any]]] = [
        ("version", np.array([VERSION])), ("digest of the plan file", np.frombuffer(digest, ">u8")),
        ("steps, tensors, storages, slots, arenas, loops, reads, writes, mutates, pairs, edges, flags",
         np.array(counts)),
        *_tensors(context, when, _inverse(members)),
        ("storages: arena", s.arena), ("bytes", s.bytes), ("alignment", s.alignment), ("birth", s.birth),
        ("death", s.death), ("slot", plan.slots.of), ("offset", s.offset), ("place", _inverse(tenants)),
        *_slots(context, ordered_at, ordered), *_arenas(plan),
        *((f"{which} of the steps", getattr(steps, which)) for name in steps.LISTS for which in (f"{name}_at", name)),
        ("loops: enters, then leaves", np.array([*zip(*context.loops, strict=True)], np.int64).ravel()),
        ("pairs that must not alias", np.array([*zip(*plan.allocation.must_not_alias, strict=True)], np.int64).ravel()),
        ("tensors of each storage", members_at), ("in order", members),
        ("storages of each slot", context.certificate.tenants_at), ("in order", tenants),
        ("slots of each arena", ordered_at), ("in order", ordered),
        *zip(("edges: below", "above", "first", "last"), table.T, strict=True),
        ("edges up from each storage and floor", np.searchsorted(table[:, 0], np.arange(nodes + 1))),
        ("edges down from each storage", downs_at), ("in order", downs),
    ]  # fmt: skip
    return [(name, column.astype(np.uint64)) for name, column in named]


def _tensors(context: Context, when: Stays, place: Rows) -> Iterator[tuple[str, NDArray[Any]]]:
    plan = context.plan
    t, count = plan.allocation.tensors, len(plan.allocation.tensors)
    needed = np.minimum(when.last_needed, context.last)
    base, shift = np.full(count, NONE), np.zeros(count, np.uint64)
    for view, (shown, offset) in context.permissions.views.items():
        base[view], shift[view] = shown, offset
    scratch = t.role == ROLES.index(Role.SCRATCH)
    yield from (("tensors: storage", t.storage), ("window", t.window), ("bytes", t.bytes), ("alignment", t.alignment))
    yield from (("birth", t.birth), ("death", t.death), ("writer + 1", context.writer + 1), ("base + 1", base + 1))
    yield from (("shift", shift), ("operand + 1", _operands(context, when.written, needed) + 1))
    yield "returned 1, donated 2, scratch 4", context.returned + 2 * context.donated + 4 * scratch
    yield from (("made + 1", when.written + 1), ("needed + 1", needed + 1), ("root", context.root), ("place", place))


def _operands(context: Context, made: Rows, needed: Rows) -> Rows:
    """The operand of each in-place result that does take its place: a permission that is not used binds no kernel."""
    t, writer = context.plan.allocation.tensors, context.writer
    operand = np.full(len(t), NONE)
    for result, of in context.permissions.in_place.items():
        same = all(column[result] == column[of] for column in (t.storage, t.window, t.bytes))
        if same and needed[of] == writer[result] and made[result] == writer[result]:
            operand[result] = of
    return operand


def _slots(context: Context, ordered_at: Rows, ordered: Rows) -> Iterator[tuple[str, NDArray[Any]]]:
    slots, used = context.plan.slots, int(ordered_at[-1])
    place = np.zeros(len(slots), np.int64)
    place[ordered[:used]] = np.arange(used)
    yield from (("slots: arena", slots.arena), ("bytes", slots.bytes), ("alignment", slots.alignment))
    yield from (("offset", context.certificate.slot_offset), ("place", place))


def _ordered(context: Context) -> tuple[Rows, Rows]:
    """The slots of each arena by offset, but for those that hold nothing; padded to the number of slots."""
    evidence = context.certificate
    used = np.diff(evidence.tenants_at) > 0
    lists = [rows[used[rows]] for rows in evidence.slots]
    order = np.concatenate([*lists, np.zeros(np.count_nonzero(~used), np.int64)]).astype(np.int64)
    return np.cumsum([0, *map(len, lists)]), order


def _arenas(plan: Plan) -> Iterator[tuple[str, NDArray[Any]]]:
    names = ("arenas: capacity", "alignment", "footprint", "scattered 1, reuse 2", "max live step", "peak step")
    rows = [
        (a.capacity, a.alignment, u.footprint, a.scattered + 2 * a.reuse, u.max_live_step, u.peak_step)
        for i, (a, u) in enumerate(zip(plan.allocation.arenas, plan.usage, strict=True))
    ]
    yield from zip(names, np.array(rows, np.uint64).reshape(len(rows), len(names)).T, strict=True)


def _edges(plan: Plan) -> NDArray[np.int64]:
    """The edges of all arenas by lower end, then first step; the floor of arena a is storage `len(storages) + a`."""
    lists: list[Rows] = [np.empty((0, 4), np.int64)]
    for arena in range(len(plan.allocation.arenas)) if not by_slots(plan) else ():
        found = edges(plan.allocation, arena)
        node = np.append(found.storages, [len(plan.allocation.storages) + arena])
        inner = found.above != found.roof
        ends = node[found.below[inner]], node[found.above[inner]]
        lists.append(np.column_stack([*ends, found.first[inner], found.last[inner]]))
    table = np.concatenate(lists)
    return table[np.lexsort((table[:, 2], table[:, 0]))]


def _grouped(group: NDArray[Any], count: int, by: Rows) -> tuple[Rows, Rows]:
    """The bounds of each group, and its rows in the order of `by`."""
    order = np.lexsort((by, group))
    return np.searchsorted(group[order], np.arange(count + 1)), order


def _inverse(order: Rows) -> Rows:
    """At which place each row stands."""
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return place
