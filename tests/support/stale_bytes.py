"""A sweep over single bytes of a plan: which step reads a byte that no longer holds its tensor's."""

from __future__ import annotations

from collections.abc import Iterator

from tests.support.machine import MOST_BYTES
from tmmu.core.columns import NONE
from tmmu.core.vocabulary import Role
from tmmu.plans.columns import IS_OUTPUT, IS_RETURNED, ROLES
from tmmu.plans.sections import Plan

Byte = tuple[int, int]
"""An arena and an address in it."""


def small_enough(plan: Plan) -> bool:
    """Can every byte of a (changed) plan be looked at?"""
    return all(
        size <= MOST_BYTES
        for size in (*plan.allocation.tensors.bytes.tolist(), *plan.allocation.storages.bytes.tolist())
    )


def bytes_of(plan: Plan, storage: int, first: int, size: int) -> list[Byte]:
    start, arena = int(plan.allocation.storages.offset[storage]) + first, int(plan.allocation.storages.arena[storage])
    return [(arena, start + k) for k in range(size)]


def shown(plan: Plan, view: int, window: tuple[int, int]) -> bool:
    """Does a view lie where it should? (If not, the checker reports it before any read.)"""
    t, (base, first) = plan.allocation.tensors, window
    return bool(t.storage[view] == t.storage[base]) and int(t.window[view]) == int(t.window[base]) + first


def stale(plan: Plan, views: dict[int, tuple[int, int]], donated: frozenset[str]) -> Iterator[int]:
    """The steps that read a byte which holds another one than that of the tensor, or of what it shows."""
    t = plan.allocation.tensors
    held: dict[Byte, tuple[int, int]] = {}
    written: set[int] = set()

    def place(row: int) -> list[Byte]:
        return bytes_of(plan, int(t.storage[row]), int(t.window[row]), int(t.bytes[row]))

    def write(row: int) -> None:
        written.add(row)
        if row not in views:
            held.update({byte: (row, k) for k, byte in enumerate(place(row))})

    def right(row: int) -> bool:
        root, first = row, 0
        while root in views:
            root, offset = views[root]
            first += offset
        return row not in written or all(held.get(byte) == (root, first + k) for k, byte in enumerate(place(row)))

    for row, writer in enumerate(t.writer.tolist()):
        if writer == NONE:
            write(row)
    reads, writes = plan.allocation.steps.listed("reads"), plan.allocation.steps.listed("writes")
    for n, (read, made) in enumerate(zip(reads, writes, strict=True)):
        # Scratch is read by the step that makes it.
        if not all(right(row) for row in read if not (ROLES[t.role[row]] is Role.SCRATCH and row in made)):
            yield n
        for row in made:
            write(row)
    kept = [ROLES.index(role) for role in (Role.PARAMETER, Role.OPTIMIZER)]
    for row, name in enumerate(t.name):
        taken = t.flags[row] & (IS_OUTPUT | IS_RETURNED) or (t.role[row] in kept and name not in donated)
        if taken and not right(row):
            yield len(reads)
            return
