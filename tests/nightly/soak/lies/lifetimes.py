"""Lies about when tensors live and who writes them: accesses outside of lifetimes, writers and roles that are none."""

from __future__ import annotations

import random

from tests.nightly.soak.lies.telling import (
    Lie,
    accesses,
    is_callers,
    of_plan,
    returned,
    row_bounds,
)
from tmmu.core.columns import NONE
from tmmu.core.vocabulary import Role
from tmmu.examples.broken.editing import changed
from tmmu.plan.columns import IS_INPUT, ROLES
from tmmu.plan.sections import Plan


def early_death(plan: Plan, chance: random.Random) -> Plan | None:
    """A tensor dies before its last access."""
    t = plan.allocation.tensors
    dying = [(r, steps[-1]) for r, steps in accesses(plan).items() if steps[-1] > t.birth[r]]
    if not dying:
        return None
    r, last = chance.choice(dying)
    return changed(plan, "tensors", r, death=chance.randrange(int(t.birth[r]), last))


def late_birth(plan: Plan, chance: random.Random) -> Plan | None:
    """A tensor is born after its write, the caller's after step 0."""
    t = plan.allocation.tensors
    rows = [r for r in range(len(t)) if (0 if is_callers(plan, r) else t.writer[r]) < t.death[r]]
    if not rows:
        return None
    r = chance.choice(rows)
    made = 0 if is_callers(plan, r) else int(t.writer[r])
    return changed(plan, "tensors", r, birth=chance.randrange(made + 1, int(t.death[r]) + 1))


def not_handed_back(plan: Plan, chance: random.Random) -> Plan | None:
    """What the caller reads after the last step dies before it: outputs, what is saved."""
    t = plan.allocation.tensors
    rows = [r for r in range(len(t)) if returned(plan, r) and t.birth[r] < plan.allocation.last_step]
    if not rows:
        return None
    r = chance.choice(rows)
    return changed(plan, "tensors", r, death=chance.randrange(int(t.birth[r]), plan.allocation.last_step))


def another_writer(plan: Plan, chance: random.Random) -> Plan | None:
    """A tensor is said to be written by another step, or by the caller, or by a step although the caller does."""
    t = plan.allocation.tensors
    # What the user gives up must be the caller's, or the command line is wrong.
    rows = [r for r in range(len(t)) if t.name[r] not in plan.bindings.donated]
    if not rows or not len(plan.allocation.steps):
        return None
    r = chance.choice(rows)
    others = [n for n in (*range(len(plan.allocation.steps)), NONE) if n != t.writer[r]]
    return changed(plan, "tensors", r, writer=chance.choice(others))


def another_role(plan: Plan, chance: random.Random) -> Plan | None:
    """What a step writes has a role of the caller's, or the caller's none of them, or is marked as an input."""
    t = plan.allocation.tensors
    if not len(t):
        return None
    r = chance.randrange(len(t))
    callers = {Role.INPUT, Role.PARAMETER, Role.OPTIMIZER}
    if not is_callers(plan, r) and chance.random() < 0.5:
        return changed(plan, "tensors", r, flags=int(t.flags[r]) | IS_INPUT)
    wanted = [k for k, role in enumerate(ROLES) if (role in callers) != is_callers(plan, r)]
    return changed(plan, "tensors", r, role=chance.choice(wanted))


def read_too_soon(plan: Plan, chance: random.Random) -> Plan | None:
    """A step reads what only a later step writes."""
    t = plan.allocation.tensors
    at = plan.allocation.steps.reads_at.tolist()
    found = []
    for k in range(len(plan.allocation.steps.reads)):
        first, _ = row_bounds(at, k)
        n = max(step for step, bound in enumerate(at) if bound == first and at[step + 1] > k)
        found += [(k, r) for r in range(len(t)) if not is_callers(plan, r) and t.writer[r] > n]
    if not found:
        return None
    k, r = chance.choice(found)
    return changed(plan, "steps", k, reads=r)


def without_reading(plan: Plan, chance: random.Random) -> Plan | None:
    """A step is said to change a tensor that it does not read, or does not write."""
    mutated, entries = plan.allocation.steps.mutates.tolist(), range(len(plan.allocation.steps.mutates))
    if not entries or not len(plan.allocation.tensors):
        return None
    k = chance.choice(entries)
    at = plan.allocation.steps.mutates_at.tolist()
    first, _ = row_bounds(at, k)
    n = max(step for step, bound in enumerate(at) if bound == first and at[step + 1] > k)
    read, made = plan.allocation.steps.listed("reads")[n], plan.allocation.steps.listed("writes")[n]
    others = [r for r in range(len(plan.allocation.tensors)) if r != mutated[k] and (r not in read or r not in made)]
    return changed(plan, "steps", k, mutates=chance.choice(others)) if others else None


LIES = tuple(
    Lie("lifetimes_cover_accesses", tell.__name__, of_plan(tell))
    for tell in (
        early_death,
        late_birth,
        not_handed_back,
        another_writer,
        another_role,
        read_too_soon,
        without_reading,
    )
)
