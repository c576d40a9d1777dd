"""Who wrote a byte last before a step: looked up by walking through the steps once for each question."""

from __future__ import annotations

from tmmu.core.columns import NONE
from tmmu.plans.sections import Plan
from tmmu.testing.catalogue.reading import address, is_callers, is_view

CALLER, END = -1, 1 << 40
"""The step before all others, and one behind them."""


def writers(plan: Plan, row: int) -> list[int]:
    """The steps that write a tensor, in order."""
    return [n for n, made in enumerate(plan.allocation.steps.listed("writes")) if row in made]


def loops(plan: Plan) -> list[tuple[int, int]]:
    """The enter and the leave of every node with a body that may run again, by its operator."""
    b = plan.allocation.bodies
    found = {(int(e), int(v)) for e, v in zip(b.enter, b.leave, strict=True) if e != NONE and v != NONE and e < v}
    return sorted(
        (e, v)
        for e, v in found
        if v < len(plan.allocation.steps) and plan.allocation.ops[int(plan.allocation.steps.op[e])][1] not in ("If",)
    )


def results(plan: Plan, enter: int, leave: int) -> set[int]:
    """What a node with bodies returns: what its leave writes, and neither reads nor found written."""
    reads, writes = plan.allocation.steps.listed("reads"), plan.allocation.steps.listed("writes")
    before = {r for n in range(enter, leave) for r in writes[n]}
    return set(writes[leave]) - before - set(reads[leave])


def returned_by(plan: Plan, enter: int) -> set[int]:
    """What the loops return that are entered at a step: its bytes are taken from then on."""
    return {r for e, leave in loops(plan) if e == enter for r in results(plan, e, leave)}


def reads_again(plan: Plan, step: int) -> set[int]:
    """What a loop may read again when it comes to its end: all that its steps touch and that was there before."""
    reads, writes = plan.allocation.steps.listed("reads"), plan.allocation.steps.listed("writes")
    found: set[int] = set()
    for enter, leave in loops(plan):
        if leave == step:
            inside = {r for n in range(enter, leave + 1) for r in (*reads[n], *writes[n])}
            found |= {r for r in inside if is_callers(plan, r) or plan.allocation.tensors.writer[r] <= enter}
            found |= results(plan, enter, leave)
    return found


def root(plan: Plan, row: int) -> int:
    """The tensor whose bytes a tensor shows as the plan declares, or the tensor itself where that goes in a circle."""
    passed = [row]
    while is_view(plan, passed[-1]):
        passed.append(int(plan.allocation.tensors.of[passed[-1]]))
        if passed[-1] in passed[:-1]:
            return row
    return passed[-1]


def covers(plan: Plan, row: int, arena: int, byte: int) -> bool:
    """Does a tensor have a byte of an arena?"""
    t, s = plan.allocation.tensors, plan.allocation.storages
    first = address(plan, row)
    return bool(s.arena[t.storage[row]] == arena) and first <= byte < first + int(t.bytes[row])


def last_write(plan: Plan, row: int, step: int) -> int | None:
    """The last step before `step` that writes a tensor (what is written on entering a loop counts), CALLER, or None."""
    before = [n for n in writers(plan, row) if n < step]
    for enter, leave in loops(plan):
        # The results of a loop take their bytes when it is entered.
        if enter < step and row in results(plan, enter, leave):
            before.append(enter)
    if before:
        return max(before)
    return CALLER if is_callers(plan, row) else None


def overwritten(plan: Plan, row: int, other: int | None, step: int, first: int, last: int) -> bool:
    """At a step that reads `row`, do its bytes from `first` to `last` hold `other`, or nothing at all?

    `other` has these bytes too, and was written after what `row` shows was; or neither that nor, where nothing is
    stated to be there, anything else was ever written to them.
    """
    arena, base = int(plan.allocation.storages.arena[plan.allocation.tensors.storage[row]]), root(plan, row)
    if not (first <= last and all(covers(plan, row, arena, byte) for byte in (first, last))):
        return False
    reads = plan.allocation.steps.listed("reads")
    if step < len(plan.allocation.steps) and row not in reads[step] and row not in reads_again(plan, step):
        return False
    if other is None:
        return all(
            last_write(plan, r, step) is None or _in_views_alone(plan, r)
            for r in range(len(plan.allocation.tensors)) if covers(plan, r, arena, first)
        )  # fmt: skip
    if not all(covers(plan, other, arena, byte) for byte in (first, last)):
        return False
    # Whoever shows another tensor than its own was not written itself.
    mine = last_write(plan, base, step) if _same_place(plan, row, base) else None
    made, its = last_write(plan, row, step), last_write(plan, other, step)
    if its is None:
        return False
    if other == base:  # what it shows has changed since, or it shows its own bytes no more
        return made is not None and (its >= made or not _same_place(plan, row, base))
    return mine is None or its >= mine


def _same_place(plan: Plan, row: int, base: int) -> bool:
    """Does a tensor lie inside of what it shows?"""
    t, s = plan.allocation.tensors, plan.allocation.storages
    if s.arena[t.storage[row]] != s.arena[t.storage[base]]:
        return False
    first = address(plan, row) - address(plan, base)
    return first >= 0 and first + int(t.bytes[row]) <= int(t.bytes[base])


def _in_views_alone(plan: Plan, row: int) -> bool:
    """A view writes nothing."""
    return is_view(plan, row)
