"""Faults in lifetimes and writers: accesses outside of lifetimes, wrong writers and roles."""

from __future__ import annotations

import random

from tmmu.core.columns import NONE
from tmmu.core.vocabulary import Role
from tmmu.examples.broken.editing import changed
from tmmu.plans.columns import IS_INPUT, ROLES
from tmmu.plans.sections import Plan
from tmmu.testing.catalogue.fault import fault, require, some
from tmmu.testing.catalogue.reading import accesses, is_callers, returned, step_at


@fault("lifetimes_cover_accesses")
def early_death(plan: Plan, chance: random.Random) -> Plan:
    """A tensor dies before its last access."""
    t = plan.allocation.tensors
    r, last = some(chance, [(r, steps[-1]) for r, steps in accesses(plan).items() if steps[-1] > t.birth[r]])
    return changed(plan, "tensors", r, death=chance.randrange(int(t.birth[r]), last))


@fault("lifetimes_cover_accesses")
def late_birth(plan: Plan, chance: random.Random) -> Plan:
    """A tensor is born after its write; one that the caller writes, after step 0."""
    t = plan.allocation.tensors
    made = [0 if is_callers(plan, r) else int(t.writer[r]) for r in range(len(t))]
    r = some(chance, [r for r in range(len(t)) if made[r] < t.death[r]])
    return changed(plan, "tensors", r, birth=chance.randrange(made[r] + 1, int(t.death[r]) + 1))


@fault("lifetimes_cover_accesses")
def not_handed_back(plan: Plan, chance: random.Random) -> Plan:
    """A tensor that the caller reads after the last step (an output, or a saved tensor) dies before it."""
    t, last = plan.allocation.tensors, plan.allocation.last_step
    r = some(chance, [r for r in range(len(t)) if returned(plan, r) and t.birth[r] < last])
    return changed(plan, "tensors", r, death=chance.randrange(int(t.birth[r]), last))


@fault("lifetimes_cover_accesses")
def another_writer(plan: Plan, chance: random.Random) -> Plan:
    """A tensor is stated to be written by another step, or by the caller, or by a step instead of the caller."""
    t, steps = plan.allocation.tensors, len(plan.allocation.steps)
    # The caller must write the tensors that the user donates, or the command line is wrong.
    rows = [r for r in range(len(t)) if t.name[r] not in plan.bindings.donated]
    require(steps)
    r = some(chance, rows)
    return changed(plan, "tensors", r, writer=chance.choice([n for n in (*range(steps), NONE) if n != t.writer[r]]))


@fault("lifetimes_cover_accesses")
def another_role(plan: Plan, chance: random.Random) -> Plan:
    """A tensor of a step has a role of the caller or is marked as an input, or one of the caller has another role."""
    t = plan.allocation.tensors
    require(len(t))
    r = chance.randrange(len(t))
    callers = {Role.INPUT, Role.PARAMETER, Role.OPTIMIZER}
    if not is_callers(plan, r) and chance.random() < 0.5:
        return changed(plan, "tensors", r, flags=int(t.flags[r]) | IS_INPUT)
    found = [k for k, role in enumerate(ROLES) if (role in callers) != is_callers(plan, r)]
    return changed(plan, "tensors", r, role=chance.choice(found))


@fault("lifetimes_cover_accesses")
def read_too_soon(plan: Plan, chance: random.Random) -> Plan:
    """A step reads a tensor that only a later step writes."""
    t, steps = plan.allocation.tensors, plan.allocation.steps
    at = steps.reads_at.tolist()
    k, r = some(chance, [
        (k, r) for k in range(len(steps.reads)) for r in range(len(t))
        if not is_callers(plan, r) and t.writer[r] > step_at(at, k)
    ])  # fmt: skip
    return changed(plan, "steps", k, reads=r)


@fault("lifetimes_cover_accesses")
def without_reading(plan: Plan, chance: random.Random) -> Plan:
    """A step is stated to mutate a tensor that it does not read, or does not write."""
    steps = plan.allocation.steps
    k = some(chance, range(len(steps.mutates)))
    n = step_at(steps.mutates_at.tolist(), k)
    both = set(steps.listed("reads")[n]) & set(steps.listed("writes")[n])
    others = [r for r in range(len(plan.allocation.tensors)) if r != steps.mutates[k] and r not in both]
    return changed(plan, "steps", k, mutates=some(chance, others))
