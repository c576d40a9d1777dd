"""Faults in addresses: storages on each other, odd addresses, bytes beyond their arena or their storage."""

from __future__ import annotations

import random

from tmmu.examples.broken.editing import changed, claiming, with_arena
from tmmu.plans.sections import Plan, amend_plan
from tmmu.testing.catalogue.fault import fault, require, some
from tmmu.testing.catalogue.reading import alignment_of, arena_in_use, claim, live_pairs, tables

BY_SLOTS = ("slots", "hashed")
"""The layouts whose slots have addresses."""


def _live_pairs_with_bytes(plan: Plan) -> list[tuple[int, int]]:
    """Return the pairs of storages with bytes that are live at one step in one arena."""
    s = plan.allocation.storages
    return [(i, j) for i, j in live_pairs(plan) if s.bytes[i] and s.bytes[j]]


@fault("no_live_overlap")
def onto(plan: Plan, chance: random.Random) -> Plan:
    """A storage is put onto another that lives at one of its steps."""
    s = plan.allocation.storages
    i, j = some(chance, _live_pairs_with_bytes(plan))
    return changed(plan, "storages", i, offset=int(s.offset[j]) + chance.randrange(int(s.bytes[j])))


@fault("no_live_overlap")
def same_place(plan: Plan, chance: random.Random) -> Plan:
    """A storage is put onto another that lives then, at an aligned address: only the overlap is wrong."""
    s = plan.allocation.storages
    i, j = some(
        chance, [(i, j) for i, j in _live_pairs_with_bytes(plan) if int(s.offset[j]) % alignment_of(plan, i) == 0]
    )
    return changed(plan, "storages", i, offset=int(s.offset[j]))


@fault("no_live_overlap")
def by_one_byte(plan: Plan, chance: random.Random) -> Plan:
    """A storage begins with the last byte of another that lives then."""
    s = plan.allocation.storages
    i, j = some(chance, _live_pairs_with_bytes(plan))
    return changed(plan, "storages", i, offset=int(s.offset[j]) + int(s.bytes[j]) - 1)


@fault("no_live_overlap")
def wider(plan: Plan, chance: random.Random) -> Plan:
    """A storage is stated to have so many bytes that it reaches into another that lives then."""
    s = plan.allocation.storages
    i, j = some(chance, [(i, j) for i, j in _live_pairs_with_bytes(plan) if s.offset[i] < s.offset[j] < (1 << 62)])
    return changed(plan, "storages", i, bytes=int(s.offset[j]) - int(s.offset[i]) + chance.randrange(1, 9))


@fault("no_live_overlap")
def longer(plan: Plan, chance: random.Random) -> Plan:
    """A storage lives on, or already, while another has its bytes."""
    s = plan.allocation.storages
    i, j = some(chance, [
        (i, j) for i in range(len(s)) for j in range(len(s))
        if i != j and s.arena[i] == s.arena[j] and s.death[i] < s.birth[j] and s.bytes[i] and s.bytes[j]
        and s.offset[i] < int(s.offset[j]) + int(s.bytes[j]) and s.offset[j] < int(s.offset[i]) + int(s.bytes[i])
    ])  # fmt: skip
    if chance.random() < 0.5:
        return changed(plan, "storages", i, death=chance.randrange(int(s.birth[j]), plan.allocation.last_step + 1))
    return changed(plan, "storages", j, birth=chance.randrange(int(s.death[i]) + 1))


@fault("no_live_overlap")
def one_slot(plan: Plan, chance: random.Random) -> Plan:
    """Two storages that live at one step are in one slot, at its address, in a layout whose slots have addresses."""
    require(plan.origin.layout in BY_SLOTS)
    i, j = some(chance, [(i, j) for i, j in _live_pairs_with_bytes(plan) if plan.slots.of[i] != plan.slots.of[j]])
    offset = int(plan.allocation.storages.offset[j])
    return changed(plan, "storages", i, slot=int(plan.slots.of[j]), offset=offset)


@fault("no_live_overlap")
def two_slots(plan: Plan, chance: random.Random) -> Plan:
    """One slot is moved onto another, whenever their storages live, in a layout whose slots have addresses."""
    require(plan.origin.layout in BY_SLOTS)
    s, taken = plan.allocation.storages, plan.slots.of.tolist()
    at, arena = (dict(zip(taken, values.tolist(), strict=True)) for values in (s.offset, s.arena))
    p, q = some(chance, [(p, q) for p in at for q in at if p != q and arena[p] == arena[q] and plan.slots.bytes[q]])
    for k in (k for k, slot in enumerate(taken) if slot == p):
        plan = changed(plan, "storages", k, offset=at[q])
    return plan


@fault("alignment")
def misplaced(plan: Plan, chance: random.Random) -> Plan:
    """A storage is moved by less than its alignment."""
    s = plan.allocation.storages
    k = some(chance, [k for k in range(len(s)) if alignment_of(plan, k) > 1])
    return changed(plan, "storages", k, offset=int(s.offset[k]) + chance.randrange(1, alignment_of(plan, k)))


@fault("alignment")
def shifted(plan: Plan, chance: random.Random) -> Plan:
    """A tensor begins at a byte that its own alignment does not allow."""
    t = plan.allocation.tensors
    r = some(chance, [r for r in range(len(t)) if t.alignment[r] > 1])
    return changed(plan, "tensors", r, window=int(t.window[r]) + chance.randrange(1, int(t.alignment[r])))


@fault("alignment")
def no_power(plan: Plan, chance: random.Random) -> Plan:
    """An alignment is not a power of two."""
    table = chance.choice(("tensors", "storages", "slots", "arenas"))
    odd = chance.choice((3, 5, 6, 7, 12, 96, 384, (1 << 63) + 1))
    if table == "arenas":
        return with_arena(plan, arena_in_use(plan, chance), alignment=odd)
    rows = sorted(set(plan.slots.of.tolist())) if table == "slots" else range(len(getattr(plan.allocation, table)))
    return changed(plan, table, some(chance, rows), alignment=chance.choice((0, odd)))


@fault("alignment")
def stricter(plan: Plan, chance: random.Random) -> Plan:
    """A tensor requires a stricter alignment than its storage has, or an arena a stricter one than an address has."""
    t, s = tables(plan)
    if chance.random() < 0.5:
        k = some(chance, [k for k in range(len(s)) if s.offset[k]])
        offset = int(s.offset[k])
        strict = 2 * max(offset & -offset, alignment_of(plan, k)) % (1 << 64) or 3
        return with_arena(plan, int(s.arena[k]), alignment=strict)
    require(len(t))
    r = chance.randrange(len(t))
    return changed(plan, "tensors", r, alignment=int(s.alignment[t.storage[r]]) << chance.randrange(1, 4))


@fault("alignment")
def weak_base(plan: Plan, chance: random.Random) -> Plan:
    """The base of an arena is stated as less aligned than the arena, or a storage in it, requires."""
    a = arena_in_use(plan, chance)
    needed = plan.allocation.needed_base_alignments()[plan.allocation.arenas[a].name]
    require(needed > 1)
    return with_arena(plan, a, base_alignment=chance.choice((1, needed // 2)))


@fault("capacity")
def beyond(plan: Plan, chance: random.Random) -> Plan:
    """A storage is moved beyond the footprint."""
    arenas, s = plan.allocation.arenas, plan.allocation.storages
    hashed = plan.origin.layout == "hashed"
    k = some(chance, [k for k in range(len(s)) if not (hashed and arenas[int(s.arena[k])].reuse)])
    strict = alignment_of(plan, k)
    end = -(-claim(plan, int(s.arena[k]), "footprint") // strict) * strict
    return changed(plan, "storages", k, offset=end + strict * chance.randrange(1, 4))


@fault("capacity")
def footprint(plan: Plan, chance: random.Random) -> Plan:
    """The footprint is stated larger or smaller than it is."""
    a = arena_in_use(plan, chance)
    stated = claim(plan, a, "footprint")
    other = max(0, stated + chance.choice((-1, 1)) * chance.randrange(1, 200))
    return claiming(plan, a, footprint=other if other != stated else stated + 1)


@fault("capacity")
def too_small(plan: Plan, chance: random.Random) -> Plan:
    """An arena has a capacity below what it needs."""
    used = set(plan.allocation.storages.arena.tolist())
    a = some(chance, [a for a in range(len(plan.usage)) if a in used and claim(plan, a, "footprint") > 1])
    least = claim(plan, a, "footprint")
    return with_arena(plan, a, capacity=chance.choice((least - 1, chance.randrange(1, least))))


@fault("capacity")
def crowded(plan: Plan, chance: random.Random) -> Plan:
    """A memory has a capacity below the need of its arenas, one after the other."""
    needs: dict[tuple[str, str], int] = {}
    for a, use in enumerate(plan.configuration.uses):
        if use.memory:
            needs[use.device, use.memory] = needs.get((use.device, use.memory), 0) + claim(plan, a, "footprint")
    device, memory = some(chance, [key for key, bytes_ in needs.items() if bytes_ > 1])
    small = chance.randrange(1, needs[device, memory])
    devices = tuple(
        d._replace(memories=tuple(m._replace(capacity=small) if m.name == memory else m for m in d.memories))
        if d.name == device else d
        for d in plan.configuration.policy.devices
    )  # fmt: skip
    return amend_plan(plan, policy=plan.configuration.policy._replace(devices=devices))


@fault("tensors_within_storages")
def outgrown(plan: Plan, chance: random.Random) -> Plan:
    """A tensor has more bytes than its storage after its window, or the storage fewer, or the window is further."""
    t, s = tables(plan)
    r = some(chance, [r for r in range(len(t)) if t.bytes[r]])
    k, window, size = int(t.storage[r]), int(t.window[r]), int(t.bytes[r])
    room, how = int(s.bytes[k]) - window, chance.randrange(3)
    if how == 0:
        return changed(plan, "tensors", r, bytes=room + chance.randrange(1, 100))
    if how == 1:
        return changed(plan, "storages", k, bytes=window + chance.randrange(size))
    return changed(plan, "tensors", r, window=window + room - size + chance.randrange(1, 100))


@fault("tensors_within_storages")
def outlived(plan: Plan, chance: random.Random) -> Plan:
    """A tensor lives longer than its storage, or its storage shorter, or beyond the last step."""
    t, s = tables(plan)
    last = plan.allocation.last_step
    require(len(t))
    r = chance.randrange(len(t))
    k, how = int(t.storage[r]), chance.randrange(5)
    birth, death = int(s.birth[k]), int(s.death[k])
    if how == 0 and death < last:
        return changed(plan, "tensors", r, death=chance.randrange(death + 1, last + 1))
    if how == 1 and birth > 0:
        return changed(plan, "tensors", r, birth=chance.randrange(birth))
    if how == 2:
        return changed(plan, "storages", k, death=last + chance.randrange(1, 5))
    if how == 3 and t.death[r] > 0:
        return changed(plan, "storages", k, death=chance.randrange(int(t.death[r])))
    return changed(plan, "storages", k, birth=chance.randrange(int(t.birth[r]) + 1, last + 2))
