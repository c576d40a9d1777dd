"""Functions by which the faults, and the lookup of their witnesses, read single rows and steps of a plan."""

from __future__ import annotations

import random
from bisect import bisect_right

from tmmu.core.columns import NONE
from tmmu.core.vocabulary import Role, Shares
from tmmu.plans.columns import IS_OUTPUT, IS_RETURNED, ROLES, SHARES, Storages, Tensors
from tmmu.plans.sections import Plan, require_section
from tmmu.testing.catalogue.fault import some


def tables(plan: Plan) -> tuple[Tensors, Storages]:
    """Return the two tables that most faults edit."""
    return plan.allocation.tensors, plan.allocation.storages


def arena_in_use(plan: Plan, chance: random.Random) -> int:
    """Return a random arena that has storages."""
    used: list[int] = sorted(set(plan.allocation.storages.arena.tolist()))
    return some(chance, used)


def claim(plan: Plan, arena: int, field: str) -> int:
    """Return a claim of a plan about an arena. Raises AssertionError if the plan does not state it."""
    value: int = require_section(getattr(plan.usage[arena], field), field)
    return value


def alignment_of(plan: Plan, storage: int) -> int:
    """Return the alignment that the address of a storage must have."""
    s = plan.allocation.storages
    return max(int(s.alignment[storage]), plan.allocation.arenas[int(s.arena[storage])].alignment)


def role(plan: Plan, row: int) -> Role:
    """Return the role of a tensor."""
    return ROLES[int(plan.allocation.tensors.role[row])]


def is_view(plan: Plan, row: int) -> bool:
    """Return whether the plan declares a tensor to be a view."""
    return SHARES[int(plan.allocation.tensors.shares[row])] is Shares.VIEW


def is_plain(plan: Plan, row: int) -> bool:
    """Return whether a tensor has separate bytes, as the plan declares."""
    return SHARES[int(plan.allocation.tensors.shares[row])] is Shares.NONE


def is_callers(plan: Plan, row: int) -> bool:
    """Return whether the caller writes a tensor."""
    return int(plan.allocation.tensors.writer[row]) == NONE


def is_kept(plan: Plan, row: int) -> bool:
    """Return whether a tensor is a parameter or optimizer state, which the caller reads again after the last step."""
    return role(plan, row) in (Role.PARAMETER, Role.OPTIMIZER)


def returned(plan: Plan, row: int) -> bool:
    """Return whether the caller reads a tensor after the last step, apart from donations."""
    return bool(int(plan.allocation.tensors.flags[row]) & (IS_OUTPUT | IS_RETURNED))


def address(plan: Plan, row: int) -> int:
    """Return the first byte of a tensor in its arena."""
    t, s = tables(plan)
    return int(s.offset[t.storage[row]]) + int(t.window[row])


def meet(plan: Plan, one: int, other: int) -> bool:
    """Return whether two tensors have a byte in common."""
    t, s = tables(plan)
    if s.arena[t.storage[one]] != s.arena[t.storage[other]]:
        return False
    first = max(address(plan, one), address(plan, other))
    return first < min(address(plan, one) + int(t.bytes[one]), address(plan, other) + int(t.bytes[other]))


def accesses(plan: Plan) -> dict[int, list[int]]:
    """Return the steps that read or write each tensor, in order."""
    found: dict[int, list[int]] = {}
    steps = plan.allocation.steps
    for n, (read, made) in enumerate(zip(steps.listed("reads"), steps.listed("writes"), strict=True)):
        for r in dict.fromkeys((*read, *made)):
            found.setdefault(r, []).append(n)
    return found


def operator(plan: Plan, step: int) -> tuple[str, str]:
    """Return domain and operator of a step."""
    return plan.allocation.ops[int(plan.allocation.steps.op[step])]


def step_at(bounds: list[int], entry: int) -> int:
    """Return the step whose list holds an entry of a flat column."""
    return bisect_right(bounds, entry) - 1


def live(plan: Plan, arena: int, step: int) -> tuple[int, int]:
    """Count the storages of an arena that live at a step, and their bytes, one by one."""
    s = plan.allocation.storages
    here = [k for k in range(len(s)) if s.arena[k] == arena and s.birth[k] <= step <= s.death[k]]
    return len(here), sum(int(s.bytes[k]) for k in here)


def live_pairs(plan: Plan) -> list[tuple[int, int]]:
    """Return the pairs of storages of one arena that live at one step, each pair in both orders."""
    s = plan.allocation.storages
    rows = range(len(s))
    return [
        (i, j) for i in rows for j in rows
        if i != j and s.arena[i] == s.arena[j] and s.birth[i] <= s.death[j] and s.birth[j] <= s.death[i]
    ]  # fmt: skip
