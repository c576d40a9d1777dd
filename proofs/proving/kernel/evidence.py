"""Write the 64-bit words that the kernel reads beside a plan file, or of a plan as a whole.

Beside a file (`file_columns`) they are the permissions that the checker's tables grant: views, in-place operands, what
the caller donated, and the nodes that iterate or have exclusive branches. These are trusted. The rest is evidence,
which makes the check linear and is *not trusted*: when the bytes of each tensor are its own, and the order of the rows
of each group. `words` has the plan's own columns as well, for a file that Coq checks. The order of the columns is that
of `PlanFile.v` and of `Columns.v`. Values that may be absent are stored with 1 added. spec: V6.2, V6.16
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from proofs.proving.certificate.slots import Rows
from proofs.proving.kernel.arms import branch_words
from proofs.proving.kernel.memory import (
    FILE_VERSION,
    WITH_ACCESSES,
    ArenaRange,
    ClaimedSlots,
    KernelMemory,
    Named,
    Size,
    Words,
    evidence_columns,
    group_rows,
    invert_order,
    join_columns,
)
from proofs.proving.kernel.memory import columns as memory_columns
from proofs.proving.obligations.arms import Mask
from proofs.proving.obligations.contents import value_live_ranges
from proofs.proving.obligations.context import CALLER, Context, StorageContext
from tmmu.core.vocabulary import Role
from tmmu.plans.allocation import Placement
from tmmu.plans.columns import ROLES
from tmmu.plans.sections import Claims

NONE = -1


def words(context: Context, digest: bytes) -> Words:
    """Return the row of words for a plan that passed the gate; `digest` is that of its file. O(n log n).

    Raises `NotExpressed` if the kernel's theorem does not cover the plan.
    """
    return join_columns(columns(context, digest))


def columns(context: Context, digest: bytes) -> list[Named]:
    """Return the words column by column, each under its name, in the order of `Columns.v`.

    As words they are modulo 2^64. They keep the types that they have elsewhere, because a copy of a large plan's
    columns takes hundreds of MiB.
    """
    plan, when, steps = context.plan, value_live_ranges(context), context.plan.allocation.steps
    order = _bases_first(context, when.written)
    members_at, members = group_rows(plan.allocation.tensors.storage, len(plan.allocation.storages), order)
    counts = (len(plan.allocation.tensors), len(context.loops), len(steps.reads), len(steps.writes), len(steps.mutates))
    needed = np.minimum(when.last_needed, context.last)
    arms = branch_words(context, needed)
    return [
        *memory_columns(_memory(context), digest, WITH_ACCESSES, (*counts, *arms.counts)),
        *_tensors(context, when.written, needed, arms.handed, invert_order(members)),
        *((f"{which} of the steps", getattr(steps, which)) for name in steps.LISTS for which in (f"{name}_at", name)),
        ("loops: enters, then leaves", np.array([*zip(*context.loops, strict=True)], np.int64).ravel()),
        ("tensors of each storage", members_at), ("in order", members),
        *arms.columns,
    ]  # fmt: skip


def file_columns(context: Context) -> list[Named]:
    """Return the words beside a plan file: the number of the readers' words, these, and the evidence. O(n log n).

    The program reads everything else from the file's bytes. The order is that of `PlanFile.v`. Raises `NotExpressed` if
    the kernel's theorem does not cover the plan. spec: V6.16
    """
    t, when = context.plan.allocation.tensors, value_live_ranges(context)
    order = _bases_first(context, when.written)
    members_at, members = group_rows(t.storage, len(context.plan.allocation.storages), order)
    needed = np.minimum(when.last_needed, context.last)
    arms = branch_words(context, needed)
    nodes, branches, also, joins, takes = arms.counts
    permissions = [
        ("version, tensors, loops, exclusive nodes, arms, takes",
         np.array([FILE_VERSION, len(t), len(context.loops), nodes, branches, takes])),
        *_permissions(context, when.written, needed), ("donated", context.donated),
        ("loops: enters, then leaves", np.array([*zip(*context.loops, strict=True)], np.int64).ravel()),
        *arms.nodes, *arms.takes,
    ]  # fmt: skip
    return [
        ("words of the readers", np.array([sum(len(column) for _, column in permissions)])), *permissions,
        *evidence_columns(_memory(context), also, joins), ("handed", arms.handed), ("made + 1", when.written + 1),
        ("needed + 1", needed + 1), ("root", context.root), ("place", invert_order(members)),
        ("tensors of each storage", members_at), ("in order", members), *arms.evidence,
    ]  # fmt: skip


def _memory(context: Context) -> KernelMemory:
    """Return the storages and arenas of a plan of steps, with its claims about their slots and footprints."""
    return replace(storage_memory(context), steps=len(context.plan.allocation.steps))


def storage_memory(context: StorageContext) -> KernelMemory:
    """Return storages and arenas, with the claims about their slots and footprints."""
    claims, claimed = context.claims, None
    if claims is not None and claims.slots is not None:
        slots, offset = claims.slots, context.certificate.slot_offset
        claimed = ClaimedSlots(slots.of, slots.arena, slots.bytes, slots.alignment, offset, context.by_slots)
    placed = memory_of(context.placement, context.placement.must_not_alias)
    known = None if context.by_slots else context.edges
    return replace(placed, slots=claimed, sizes=_sizes(claims), edges=known)


def memory_of(placement: Placement, pairs: Sequence[tuple[int, int]]) -> KernelMemory:
    """Return storages and arenas without claims."""
    s = placement.storages
    arenas = [ArenaRange(a.capacity, a.alignment, a.reuse, a.scattered) for a in placement.arenas]
    columns = s.arena, s.bytes, s.alignment, s.birth, s.death, s.offset
    return KernelMemory(placement.last_step + 1, *columns, arenas, pairs)


def _sizes(claims: Claims | None) -> list[Size] | None:
    """Return the claims about each arena, if a footprint is claimed for all."""
    sizes = [
        Size(
            u.footprint,
            fullest=u.max_live_step if u.minimal else None,
            peak=u.peak_step if u.footprint == u.peak_live_bytes else None,
        )
        for u in (() if claims is None else claims.usage)
        if u.footprint is not None
    ]
    return sizes if claims is not None and len(sizes) == len(claims.usage) else None


def _tensors(context: Context, made: Rows, needed: Rows, handed: Mask, place: Rows) -> Iterator[Named]:
    plan = context.plan
    t = plan.allocation.tensors
    scratch = t.role == ROLES.index(Role.SCRATCH)
    yield from (("tensors: storage", t.storage), ("window", t.window), ("bytes", t.bytes), ("alignment", t.alignment))
    yield from (("birth", t.birth), ("death", t.death), ("writer + 1", context.writer + 1))
    yield from _permissions(context, made, needed)
    flags = context.returned + 2 * context.donated + 4 * scratch + 8 * handed
    yield "returned 1, donated 2, scratch 4, handed 8", flags
    yield from (("made + 1", made + 1), ("needed + 1", needed + 1), ("root", context.root), ("place", place))


def _bases_first(context: Context, made: Rows) -> Rows:
    """Return the rank of each tensor by the step that makes it. Among the caller's tensors a base precedes its views.

    A view that a step makes was made after its base. O(n log n) if the caller has views, otherwise O(1).
    """
    views = context.permissions.views
    if not any(made[view] == CALLER for view in views):
        return made
    base, depth = np.arange(len(made)), np.zeros(len(made), np.int64)
    base[list(views)] = [shown for shown, _ in views.values()]
    depth[list(views)] = 1
    for _ in range(len(views).bit_length()):
        depth, base = depth + depth[base], base[base]
    return invert_order(np.lexsort((depth, made)))


def _permissions(context: Context, made: Rows, needed: Rows) -> Iterator[Named]:
    """Yield what each view shows, and whose place each in-place result takes."""
    count = len(context.plan.allocation.tensors)
    base, shift = np.full(count, NONE), np.zeros(count, np.uint64)
    for view, (shown, offset) in context.permissions.views.items():
        base[view], shift[view] = shown, offset
    yield from (("base + 1", base + 1), ("shift", shift), ("operand + 1", _operands(context, made, needed) + 1))


def _operands(context: Context, made: Rows, needed: Rows) -> Rows:
    """Return the operand of each in-place result that takes its bytes.

    The kernel ignores permissions that are not used.
    """
    t, writer = context.plan.allocation.tensors, context.writer
    operand = np.full(len(t), NONE)
    for result, of in context.permissions.in_place.items():
        same = all(column[result] == column[of] for column in (t.storage, t.window, t.bytes))
        if same and needed[of] == writer[result] and made[result] == writer[result]:
            operand[result] = of
    return operand
