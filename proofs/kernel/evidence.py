"""A plan as the row of 64-bit words that the kernel reads, with the evidence that makes its check linear.

The words are the plan's own columns, the permissions that the checker's tables give (views, in-place operands), what
the caller gives and takes, and which nodes iterate: that is the program of which the kernel's theorem speaks, and the
kernel takes it at its word. The rest is evidence and *not trusted*: when the bytes of each tensor are its own, in which
order to look at the rows of each group, and the edges between neighbours. The order of the columns is that of
`Columns.v`; what may be absent is stored with 1 added. spec: V6.2
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from proofs.certificate import Rows
from proofs.edges import edges
from proofs.layouts import BY_SLOTS, scattered
from proofs.obligations.contents import Stays, stays
from proofs.obligations.context import Context, view_of
from proofs.readers.sharing import Permissions
from tmmu.plan.columns import ROLES, Plan
from tmmu.vocabulary import Role

VERSION = 1
"""The version of the format, as `Columns.v` has it."""

Words = NDArray[np.uint64]
NONE = -1


def words(plan: Plan, permissions: Permissions, donated: frozenset[str], digest: bytes) -> Words:
    """The row of words for a plan that passed the gate; `digest` is that of its file. O(n log n)."""
    context = view_of(plan, permissions, donated)
    certificate = context.certificate
    found = _edges(plan)
    t, s, steps = plan.tensors, plan.storages, plan.steps
    counts = [
        len(steps), len(t), len(s), len(plan.slots), len(plan.arenas), len(context.loops), len(steps.reads),
        len(steps.writes), len(steps.mutates), len(plan.must_not_alias), len(found[0]), plan.layout in BY_SLOTS,
    ]  # fmt: skip
    loops = np.array([*zip(*context.loops, strict=True)], np.int64)
    pairs = np.array([*zip(*plan.must_not_alias, strict=True)], np.int64)
    below, above, first, last = found
    columns: list[NDArray[np.generic]] = [
        np.array([VERSION]), np.frombuffer(digest, ">u8"), np.array(counts),
        *_tensors(context),
        s.arena, s.bytes, s.alignment, s.birth, s.death, s.slot, s.offset, _inverse(certificate.tenants),
        *_slots(context), *_arenas(plan),
        steps.reads_at, steps.reads, steps.writes_at, steps.writes, steps.mutates_at, steps.mutates,
        loops.ravel(), pairs.ravel(),
        *_members(context, stays(context)),
        certificate.tenants_at, certificate.tenants,
        *_ordered(context),
        below, above, first, last,
        np.searchsorted(below, np.arange(len(s) + len(plan.arenas) + 1)),
        *_grouped(above, len(s), first),
    ]  # fmt: skip
    return np.concatenate([column.astype(np.uint64) for column in columns])


def _tensors(context: Context) -> Iterator[NDArray[np.generic]]:
    plan, when = context.plan, stays(context)
    t, count = plan.tensors, len(plan.tensors)
    needed = np.clip(when.last_needed, 0, context.last)
    base, shift = np.full(count, NONE), np.zeros(count, np.uint64)
    for view, (shown, offset) in context.permissions.views.items():
        base[view], shift[view] = shown, offset
    yield from (t.storage, t.window, t.bytes, t.alignment, t.birth, t.death, context.writer + 1, base + 1, shift)
    yield _operands(context, when.written, needed) + 1
    scratch = t.role == ROLES.index(Role.SCRATCH)
    yield context.returned + 2 * context.donated + 4 * scratch
    yield from (when.written + 1, needed, context.root, _inverse(_members(context, when)[1]))


def _operands(context: Context, made: Rows, needed: Rows) -> Rows:
    """The operand of each in-place result that does take its place: a permission that is not used binds no kernel."""
    t, writer = context.plan.tensors, context.writer
    operand = np.full(len(t), NONE)
    for result, of in context.permissions.in_place.items():
        same = all(column[result] == column[of] for column in (t.storage, t.window, t.bytes))
        if same and needed[of] == writer[result] and made[result] == writer[result]:
            operand[result] = of
    return operand


def _members(context: Context, when: Stays) -> tuple[Rows, Rows]:
    """The tensors of each storage in the order in which they are made."""
    return _grouped(context.plan.tensors.storage, len(context.plan.storages), when.written)


def _slots(context: Context) -> Iterator[NDArray[np.generic]]:
    slots, order = context.plan.slots, _ordered(context)[1]
    place = np.zeros(len(slots), np.int64)
    used = int(_ordered(context)[0][-1])
    place[order[:used]] = np.arange(used)
    yield from (slots.arena, slots.bytes, slots.alignment, context.certificate.slot_offset, place)


def _ordered(context: Context) -> tuple[Rows, Rows]:
    """The slots of each arena by offset, but for those that hold nothing; padded to the number of slots."""
    evidence = context.certificate
    used = np.diff(evidence.tenants_at) > 0
    lists = [rows[used[rows]] for rows in evidence.slots]
    order = np.concatenate([*lists, np.zeros(np.count_nonzero(~used), np.int64)]).astype(np.int64)
    return np.cumsum([0, *map(len, lists)]), order


def _arenas(plan: Plan) -> Iterator[NDArray[np.generic]]:
    rows = [
        (a.capacity, a.alignment, u.footprint, scattered(plan, i) + 2 * a.reuse, u.max_live_step, u.peak_step)
        for i, (a, u) in enumerate(zip(plan.arenas, plan.usage, strict=True))
    ]
    yield from (np.array(column, np.uint64) for column in zip(*rows, strict=True))


def _edges(plan: Plan) -> tuple[Rows, Rows, Rows, Rows]:
    """The edges of all arenas by lower end, then first step; the floor of arena a is storage `len(storages) + a`."""
    lists: list[Rows] = [np.empty((0, 4), np.int64)]
    for arena in range(len(plan.arenas)) if plan.layout not in BY_SLOTS else ():
        found = edges(plan, arena)
        node = np.append(found.storages, [len(plan.storages) + arena])
        inner = found.above != found.roof
        ends = node[found.below[inner]], node[found.above[inner]]
        lists.append(np.column_stack([*ends, found.first[inner], found.last[inner]]))
    table = np.concatenate(lists)
    table = table[np.lexsort((table[:, 2], table[:, 0]))]
    return table[:, 0], table[:, 1], table[:, 2], table[:, 3]


def _grouped(group: NDArray[np.generic], count: int, by: Rows) -> tuple[Rows, Rows]:
    """The bounds of each group, and its rows in the order of `by`."""
    order = np.lexsort((by, group))
    return np.searchsorted(group[order], np.arange(count + 1)), order


def _inverse(order: Rows) -> Rows:
    """At which place each row stands."""
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return place
