"""Lies about who may lie where: tensors that must not alias, arenas that do not hold a role, rules that forbid it."""

from __future__ import annotations

import random

from tests.nightly.soak.lies.telling import Lie, configured, is_plain, meet, of_plan
from tmmu.core.vocabulary import Role, Rule
from tmmu.examples.broken.editing import changed
from tmmu.plan.columns import ROLES
from tmmu.plan.sections import Plan, amended


def apart(plan: Plan, chance: random.Random) -> Plan | None:
    """Two tensors whose storages have a byte in common, at whatever steps, are said to be ones that must not."""
    s, t = plan.allocation.storages, plan.allocation.tensors
    pairs = [
        (i, j)
        for i in range(len(t))
        for j in range(i)
        if meet(plan, i, j)
        or (
            (a := int(t.storage[i])) != (b := int(t.storage[j])) and s.arena[a] == s.arena[b]
            and max(s.offset[a], s.offset[b])
            < min(int(s.offset[a]) + int(s.bytes[a]), int(s.offset[b]) + int(s.bytes[b]))
        )
    ]  # fmt: skip
    if not pairs:
        return None
    i, j = chance.choice(pairs)
    return amended(plan, must_not_alias=(*plan.allocation.must_not_alias, chance.choice(((j, i), (i, j)))))


def brought_together(plan: Plan, chance: random.Random) -> Plan | None:
    """Of two tensors that must not alias the storage of one is put onto that of the other."""
    s, t = plan.allocation.storages, plan.allocation.tensors
    pairs = [
        (a, b) for x, y in plan.allocation.must_not_alias for a, b in ((int(t.storage[x]), int(t.storage[y])),)
        if a != b and s.arena[a] == s.arena[b] and s.bytes[a] and s.bytes[b]
    ]  # fmt: skip
    if not pairs:
        return None
    a, b = chance.choice(pairs)
    return changed(plan, "storages", a, offset=int(s.offset[b]) + chance.randrange(int(s.bytes[b])))


def astray(plan: Plan, chance: random.Random) -> Plan | None:
    """A storage whose root is no scratch lies in an arena that neither a rule nor its role allows."""
    if plan.configuration.policy.rules:
        return None
    t = plan.allocation.tensors
    found = []
    for r in range(len(t)):
        role = ROLES[int(t.role[r])]
        if is_plain(plan, r) and role is not Role.SCRATCH:
            found += [(int(t.storage[r]), a) for a, use in enumerate(plan.configuration.uses) if role not in use.roles]
    if not found:
        return None
    k, a = chance.choice(found)
    return changed(plan, "storages", k, arena=a)


def homeless(plan: Plan, chance: random.Random) -> Plan | None:
    """An arena is said not to hold the role of a tensor that lies in it."""
    if plan.configuration.policy.rules:
        return None
    t = plan.allocation.tensors
    found = [
        (int(plan.allocation.storages.arena[t.storage[r]]), role)
        for r in range(len(t))
        if (role := ROLES[int(t.role[r])]) is not Role.SCRATCH and is_plain(plan, r)
    ]
    if not found:
        return None
    a, role = chance.choice(found)
    return configured(plan, a, roles=tuple(each for each in plan.configuration.uses[a].roles if each is not role))


def ruled_out(plan: Plan, chance: random.Random) -> Plan | None:
    """A rule before all others allows a tensor other arenas than the one in which it lies."""
    t = plan.allocation.tensors
    rows = [
        r for r in range(len(t))
        if is_plain(plan, r) and ROLES[int(t.role[r])] is not Role.SCRATCH and "*" not in t.name[r]
    ]  # fmt: skip
    if not rows or len(plan.allocation.arenas) < 2:
        return None
    r = chance.choice(rows)
    here = int(plan.allocation.storages.arena[t.storage[r]])
    others = tuple(arena.name for a, arena in enumerate(plan.allocation.arenas) if a != here)
    rule = Rule(tuple(chance.sample(others, chance.randrange(1, len(others) + 1))), (), (t.name[r],))
    return amended(plan, policy=plan.configuration.policy._replace(rules=(rule, *plan.configuration.policy.rules)))


LIES = tuple(
    Lie(code, tell.__name__, of_plan(tell))
    for code, tells in {
        "must_not_alias": (apart, brought_together),
        "roles_have_arenas": (astray, homeless, ruled_out),
    }.items()
    for tell in tells
)
