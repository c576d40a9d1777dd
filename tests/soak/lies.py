"""Lies about a right plan, for each obligation of the verifier: one thing is changed so that the obligation is broken.

Each takes a plan and a source of chance and returns a plan that is certainly wrong, or None where the plan has
nothing to lie about. What makes it wrong is worked out here from the columns alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tests.strategies.recipes import WHOLE_VIEWS
from tests.strategies.small import changed
from tmmu.plan.columns import NONE, ROLES, SHARES, Plan
from tmmu.vocabulary import Role, Shares

Lie = Callable[[Plan, random.Random], Plan | None]


def overlap(plan: Plan, chance: random.Random) -> Plan | None:
    """A storage is put onto another that lives at one of its steps."""
    s = plan.storages
    pairs = [
        (i, j)
        for i in range(len(s))
        for j in range(len(s))
        if i != j and s.arena[i] == s.arena[j] and s.bytes[i] and s.bytes[j]
        and s.birth[i] <= s.death[j] and s.birth[j] <= s.death[i]
    ]  # fmt: skip
    if not pairs:
        return None
    i, j = chance.choice(pairs)
    return changed(plan, "storages", i, offset=int(s.offset[j]) + chance.randrange(int(s.bytes[j])))


def misaligned(plan: Plan, chance: random.Random) -> Plan | None:
    """A storage is moved by less than its alignment."""
    s = plan.storages
    strict = [max(int(s.alignment[k]), plan.arenas[int(s.arena[k])].alignment) for k in range(len(s))]
    candidates = [k for k, alignment in enumerate(strict) if alignment > 1]
    if not candidates:
        return None
    k = chance.choice(candidates)
    return changed(plan, "storages", k, offset=int(s.offset[k]) + chance.randrange(1, strict[k]))


def beyond(plan: Plan, chance: random.Random) -> Plan | None:
    """A storage is moved beyond the footprint, or the footprint is stated larger or smaller than it is."""
    s = plan.storages
    if not len(s):
        return None
    k = chance.randrange(len(s))
    a = int(s.arena[k])
    footprint = plan.usage[a].footprint
    if chance.random() < 0.5:
        strict = max(int(s.alignment[k]), plan.arenas[a].alignment)
        end = -(-footprint // strict) * strict
        return changed(plan, "storages", k, offset=end + strict * chance.randrange(1, 4))
    return _used(plan, a, footprint=max(0, footprint + chance.choice((-1, 1)) * chance.randrange(1, 200)))


def outgrown(plan: Plan, chance: random.Random) -> Plan | None:
    """A tensor has more bytes than its storage, or lives longer."""
    t, s = plan.tensors, plan.storages
    if not len(t):
        return None
    r = chance.randrange(len(t))
    home = int(t.storage[r])
    if chance.random() < 0.5:
        room = int(s.bytes[home]) - int(t.window[r])
        return changed(plan, "tensors", r, bytes=room + chance.randrange(1, 100))
    if s.death[home] >= plan.last_step:
        return None
    return changed(plan, "tensors", r, death=chance.randrange(int(s.death[home]) + 1, plan.last_step + 1))


def short_lived(plan: Plan, chance: random.Random) -> Plan | None:
    """A tensor dies before its last access, or is born after its write."""
    t = plan.tensors
    last = dict[int, int]()
    for n, accesses in enumerate(zip(plan.steps.listed("reads"), plan.steps.listed("writes"), strict=True)):
        for r in (*accesses[0], *accesses[1]):
            last[r] = n
    dying = [r for r, n in last.items() if n > t.birth[r]]
    if not dying:
        return None
    r = chance.choice(dying)
    if chance.random() < 0.3 and t.writer[r] != NONE and t.writer[r] < t.death[r]:
        return changed(plan, "tensors", r, birth=chance.randrange(int(t.writer[r]) + 1, int(t.death[r]) + 1))
    return changed(plan, "tensors", r, death=chance.randrange(int(t.birth[r]), last[r]))


def overwritten(plan: Plan, chance: random.Random) -> Plan | None:
    """A result is put onto an operand that a later step reads, by an operation that makes no view."""
    t = plan.tensors
    reads, writes, mutates = (plan.steps.listed(which) for which in ("reads", "writes", "mutates"))
    later: dict[int, int] = {}
    for n, row in enumerate(reads):
        for r in row:
            later[r] = n
    found = []
    for n, (read, made) in enumerate(zip(reads, writes, strict=True)):
        domain, op = plan.ops[int(plan.steps.op[n])]
        if domain or op in WHOLE_VIEWS or plan.steps.part[n]:
            continue
        for w in made:
            for r in read:
                plain = SHARES[int(t.shares[w])] is Shares.NONE and w not in mutates[n] and w not in read
                if plain and later[r] > n and t.bytes[w] and t.bytes[r] >= t.bytes[w]:
                    found.append((w, r))
    if not found:
        return None
    w, r = chance.choice(found)
    return changed(plan, "tensors", w, storage=int(t.storage[r]), window=int(t.window[r]))


def aliased(plan: Plan, chance: random.Random) -> Plan | None:
    """Two tensors of one storage that share a byte are said to be ones that must not."""
    t = plan.tensors
    pairs = [
        (i, j)
        for i in range(len(t))
        for j in range(i)
        if t.storage[i] == t.storage[j]
        and max(t.window[i], t.window[j]) < min(t.window[i] + t.bytes[i], t.window[j] + t.bytes[j])
    ]
    if not pairs:
        return None
    i, j = chance.choice(pairs)
    return replace(plan, must_not_alias=(*plan.must_not_alias, (j, i)))


def miscounted(plan: Plan, chance: random.Random) -> Plan | None:
    """The slots, or the most storages that live at once, are counted wrongly, or a slot is said to be larger."""
    a = _arena_in_use(plan, chance)
    if a is None:
        return None
    if chance.random() < 0.3:
        k = chance.randrange(len(plan.slots))
        return changed(plan, "slots", k, bytes=int(plan.slots.bytes[k]) + chance.randrange(1, 100))
    field = chance.choice(("slots", "max_live"))
    return _used(plan, a, **{field: _other(getattr(plan.usage[a], field), chance)})


def peak(plan: Plan, chance: random.Random) -> Plan | None:
    """The peak of live bytes is stated wrongly."""
    a = _arena_in_use(plan, chance)
    return None if a is None else _used(plan, a, peak_live_bytes=_other(plan.usage[a].peak_live_bytes, chance))


def _other(value: int, chance: random.Random) -> int:
    return value + chance.randrange(1, 9) if chance.random() < 0.5 or not value else chance.randrange(value)


def misnested(plan: Plan, chance: random.Random) -> Plan | None:
    """A body is said to be entered or left at another step."""
    b = plan.bodies
    owned = [k for k in range(len(b)) if b.enter[k] != NONE]
    if not owned or len(plan.steps) < 3:
        return None
    k, end = chance.choice(owned), chance.choice(("enter", "leave"))
    others = [n for n in range(len(plan.steps)) if n != getattr(b, end)[k]]
    return changed(plan, "bodies", k, **{end: chance.choice(others)})


def astray(plan: Plan, chance: random.Random) -> Plan | None:
    """A storage whose root is no scratch lies in an arena that does not hold its role."""
    t = plan.tensors
    found = []
    for r in range(len(t)):
        role = ROLES[int(t.role[r])]
        if SHARES[int(t.shares[r])] is Shares.NONE and role is not Role.SCRATCH:
            found += [(int(t.storage[r]), a) for a, arena in enumerate(plan.arenas) if role not in arena.roles]
    if not found:
        return None
    k, a = chance.choice(found)
    return changed(plan, "storages", k, arena=a)


def another_model(plan: Plan, chance: random.Random) -> Plan | None:
    """A step has another operation, reads another tensor, or a tensor another size."""
    steps, t = plan.steps, plan.tensors
    if not len(steps):
        return None
    n = chance.randrange(len(steps))
    if chance.random() < 0.5 and len(plan.ops) > 1:
        others = [k for k in range(len(plan.ops)) if k != int(steps.op[n])]
        return changed(plan, "steps", n, op=chance.choice(others))
    reads = [k for k, r in enumerate(steps.reads.tolist()) if not np.isin(r, steps.writes)]
    others = [r for r in range(len(t)) if t.birth[r] == 0]
    if not reads or not others:
        return None
    k, r = chance.choice(reads), chance.choice(others)
    if r in _row_of(steps.reads_at.tolist(), steps.reads.tolist(), k):
        return None
    return changed(plan, "steps", k, reads=r)


def _row_of(bounds: list[int], values: list[int], k: int) -> list[int]:
    first = max(at for at in bounds if at <= k)
    end = min((at for at in bounds if at > k), default=len(values))
    return values[first:end]


def _arena_in_use(plan: Plan, chance: random.Random) -> int | None:
    used = sorted(set(plan.storages.arena.tolist()))
    return chance.choice(used) if used else None


def _used(plan: Plan, arena: int, **fields: int) -> Plan:
    usage = list(plan.usage)
    usage[arena] = usage[arena]._replace(**fields)
    return replace(plan, usage=tuple(usage))


LIES: dict[str, Lie] = {
    "no_live_overlap": overlap,
    "alignment": misaligned,
    "capacity": beyond,
    "tensors_within_storages": outgrown,
    "lifetimes_cover_accesses": short_lived,
    "sharing_is_sound": overwritten,
    "must_not_alias": aliased,
    "slot_count": miscounted,
    "peak": peak,
    "bodies_nest": misnested,
    "roles_have_arenas": astray,
    "steps_are_the_model": another_model,
}
"""How each obligation is broken. `hashes`, which no plan object can get wrong, are broken in the file's bytes."""
