"""Faults in the contents of arenas: tensors that must not alias, roles that an arena does not hold, and rules."""

from __future__ import annotations

import random

from tmmu.core.vocabulary import Role, Rule
from tmmu.examples.broken.editing import changed, with_arena
from tmmu.plans.sections import Plan, amend_plan
from tmmu.testing.catalogue.fault import fault, require, some
from tmmu.testing.catalogue.reading import is_plain, meet, role, tables


def _storages_overlap(plan: Plan, a: int, b: int) -> bool:
    s = plan.allocation.storages
    (first, end), (other, last) = ((int(s.offset[k]), int(s.offset[k]) + int(s.bytes[k])) for k in (a, b))
    return a != b and bool(s.arena[a] == s.arena[b]) and max(first, other) < min(end, last)


def _roots(plan: Plan) -> list[int]:
    """Return the rows of tensors, except scratch, that do not share the bytes of another."""
    rows = range(len(plan.allocation.tensors))
    return [r for r in rows if is_plain(plan, r) and role(plan, r) is not Role.SCRATCH]


@fault("must_not_alias")
def apart(plan: Plan, chance: random.Random) -> Plan:
    """Two tensors whose storages have a byte in common, at any steps, are stated to be a pair that must not alias."""
    t = plan.allocation.tensors
    i, j = some(chance, [
        (i, j) for i in range(len(t)) for j in range(i)
        if meet(plan, i, j) or _storages_overlap(plan, int(t.storage[i]), int(t.storage[j]))
    ])  # fmt: skip
    return amend_plan(plan, must_not_alias=(*plan.allocation.must_not_alias, chance.choice(((j, i), (i, j)))))


@fault("must_not_alias")
def brought_together(plan: Plan, chance: random.Random) -> Plan:
    """The storages of two tensors that must not alias are put onto each other."""
    t, s = tables(plan)
    a, b = some(chance, [
        (a, b) for x, y in plan.allocation.must_not_alias for a, b in ((int(t.storage[x]), int(t.storage[y])),)
        if a != b and s.arena[a] == s.arena[b] and s.bytes[a] and s.bytes[b]
    ])  # fmt: skip
    return changed(plan, "storages", a, offset=int(s.offset[b]) + chance.randrange(int(s.bytes[b])))


@fault("roles_have_arenas")
def astray(plan: Plan, chance: random.Random) -> Plan:
    """A storage whose root is not scratch is in an arena that neither a rule nor its role allows."""
    require(not plan.configuration.policy.rules)
    uses = plan.configuration.uses
    k, a = some(chance, [
        (int(plan.allocation.tensors.storage[r]), a)
        for r in _roots(plan) for a, use in enumerate(uses) if role(plan, r) not in use.roles
    ])  # fmt: skip
    return changed(plan, "storages", k, arena=a)


@fault("roles_have_arenas")
def role_not_held(plan: Plan, chance: random.Random) -> Plan:
    """An arena is stated not to hold the role of a tensor in it."""
    require(not plan.configuration.policy.rules)
    t, s = tables(plan)
    a, gone = some(chance, [(int(s.arena[t.storage[r]]), role(plan, r)) for r in _roots(plan)])
    return with_arena(plan, a, roles=tuple(each for each in plan.configuration.uses[a].roles if each is not gone))


@fault("roles_have_arenas")
def ruled_out(plan: Plan, chance: random.Random) -> Plan:
    """A rule before all others allows a tensor only arenas other than its own."""
    t, s = tables(plan)
    require(len(plan.allocation.arenas) > 1)
    r = some(chance, [r for r in _roots(plan) if "*" not in t.name[r]])
    others = [arena.name for a, arena in enumerate(plan.allocation.arenas) if a != s.arena[t.storage[r]]]
    rule = Rule(tuple(chance.sample(others, chance.randrange(1, len(others) + 1))), (), (t.name[r],))
    return amend_plan(plan, policy=plan.configuration.policy._replace(rules=(rule, *plan.configuration.policy.rules)))
