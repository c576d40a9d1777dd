"""Lies about where bytes lie: storages on each other, odd addresses, bytes beyond their arena or their storage."""

from __future__ import annotations

import random

from tests.nightly.soak.lies.telling import Lie, alignment_of, arena_in_use, configured, of_plan, used
from tmmu.examples.broken.editing import changed
from tmmu.plan.sections import Plan, amended

BY_SLOTS = ("slots", "hashed")
"""The layouts in which a slot has an address."""


def _live_pairs(plan: Plan) -> list[tuple[int, int]]:
    """Pairs of storages with bytes that are live at one step in one arena."""
    s = plan.allocation.storages
    rows = [k for k in range(len(s)) if s.bytes[k]]
    return [
        (i, j) for i in rows for j in rows
        if i != j and s.arena[i] == s.arena[j] and s.birth[i] <= s.death[j] and s.birth[j] <= s.death[i]
    ]  # fmt: skip


def onto(plan: Plan, chance: random.Random) -> Plan | None:
    """A storage is put onto another that lives at one of its steps."""
    if not (pairs := _live_pairs(plan)):
        return None
    i, j = chance.choice(pairs)
    return changed(
        plan,
        "storages",
        i,
        offset=int(plan.allocation.storages.offset[j]) + chance.randrange(int(plan.allocation.storages.bytes[j])),
    )


def same_place(plan: Plan, chance: random.Random) -> Plan | None:
    """The same, at the very address, so that nothing else is wrong but what follows from it."""
    s = plan.allocation.storages
    pairs = [(i, j) for i, j in _live_pairs(plan) if int(s.offset[j]) % alignment_of(plan, i) == 0]
    if not pairs:
        return None
    i, j = chance.choice(pairs)
    return changed(plan, "storages", i, offset=int(s.offset[j]))


def by_one_byte(plan: Plan, chance: random.Random) -> Plan | None:
    """A storage begins with the last byte of another that lives then."""
    if not (pairs := _live_pairs(plan)):
        return None
    i, j = chance.choice(pairs)
    return changed(
        plan, "storages", i, offset=int(plan.allocation.storages.offset[j]) + int(plan.allocation.storages.bytes[j]) - 1
    )


def wider(plan: Plan, chance: random.Random) -> Plan | None:
    """A storage is said to have as many bytes as reach into another that lives then."""
    s = plan.allocation.storages
    pairs = [(i, j) for i, j in _live_pairs(plan) if s.offset[i] < s.offset[j] < (1 << 62)]
    if not pairs:
        return None
    i, j = chance.choice(pairs)
    return changed(plan, "storages", i, bytes=int(s.offset[j]) - int(s.offset[i]) + chance.randrange(1, 9))


def longer(plan: Plan, chance: random.Random) -> Plan | None:
    """A storage lives on, or already, while another has its bytes."""
    s = plan.allocation.storages
    pairs = [
        (i, j) for i in range(len(s)) for j in range(len(s))
        if i != j and s.arena[i] == s.arena[j] and s.death[i] < s.birth[j] and s.bytes[i] and s.bytes[j]
        and s.offset[i] < int(s.offset[j]) + int(s.bytes[j]) and s.offset[j] < int(s.offset[i]) + int(s.bytes[i])
    ]  # fmt: skip
    if not pairs:
        return None
    i, j = chance.choice(pairs)
    if chance.random() < 0.5:
        return changed(plan, "storages", i, death=chance.randrange(int(s.birth[j]), plan.allocation.last_step + 1))
    return changed(plan, "storages", j, birth=chance.randrange(int(s.death[i]) + 1))


def one_slot(plan: Plan, chance: random.Random) -> Plan | None:
    """Where slots have addresses, two storages that live at one step are in one, at its address."""
    s = plan.allocation.storages
    pairs = (
        [(i, j) for i, j in _live_pairs(plan) if plan.slots.of[i] != plan.slots.of[j]]
        if plan.origin.layout in BY_SLOTS
        else []
    )
    if not pairs:
        return None
    i, j = chance.choice(pairs)
    return changed(plan, "storages", i, slot=int(plan.slots.of[j]), offset=int(s.offset[j]))


def two_slots(plan: Plan, chance: random.Random) -> Plan | None:
    """Where slots have addresses, one slot is moved onto another, whoever lives there when."""
    s = plan.allocation.storages
    if plan.origin.layout not in BY_SLOTS:
        return None
    at = {int(slot): int(offset) for slot, offset in zip(plan.slots.of.tolist(), s.offset.tolist(), strict=True)}
    arena = {int(slot): int(a) for slot, a in zip(plan.slots.of.tolist(), s.arena.tolist(), strict=True)}
    pairs = [(p, q) for p in at for q in at if p != q and arena[p] == arena[q] and plan.slots.bytes[q]]
    if not pairs:
        return None
    p, q = chance.choice(pairs)
    for k in (k for k, slot in enumerate(plan.slots.of.tolist()) if slot == p):
        plan = changed(plan, "storages", k, offset=at[q])
    return plan


def misplaced(plan: Plan, chance: random.Random) -> Plan | None:
    """A storage is moved by less than its alignment."""
    candidates = [k for k in range(len(plan.allocation.storages)) if alignment_of(plan, k) > 1]
    if not candidates:
        return None
    k = chance.choice(candidates)
    return changed(
        plan, "storages", k, offset=int(plan.allocation.storages.offset[k]) + chance.randrange(1, alignment_of(plan, k))
    )  # fmt: skip


def shifted(plan: Plan, chance: random.Random) -> Plan | None:
    """A tensor begins at a byte that its own alignment does not allow."""
    t = plan.allocation.tensors
    rows = [r for r in range(len(t)) if t.alignment[r] > 1]
    if not rows:
        return None
    r = chance.choice(rows)
    return changed(plan, "tensors", r, window=int(t.window[r]) + chance.randrange(1, int(t.alignment[r])))


def no_power(plan: Plan, chance: random.Random) -> Plan | None:
    """An alignment is no power of two."""
    table = chance.choice(("tensors", "storages", "slots", "arenas"))
    odd = chance.choice((3, 5, 6, 7, 12, 96, 384, (1 << 63) + 1))
    if table == "arenas":
        a = arena_in_use(plan, chance)
        return None if a is None else configured(plan, a, alignment=odd)
    rows = sorted(set(plan.slots.of.tolist())) if table == "slots" else range(len(getattr(plan.allocation, table)))
    return changed(plan, table, chance.choice(rows), alignment=chance.choice((0, odd))) if rows else None


def stricter(plan: Plan, chance: random.Random) -> Plan | None:
    """A tensor requires more than its storage has, or an arena more than an address in it is a multiple of."""
    t, s = plan.allocation.tensors, plan.allocation.storages
    if chance.random() < 0.5:
        rows = [k for k in range(len(s)) if s.offset[k]]
        if not rows:
            return None
        k = chance.choice(rows)
        offset = int(s.offset[k])
        return configured(
            plan, int(s.arena[k]), alignment=2 * max(offset & -offset, alignment_of(plan, k)) % (1 << 64) or 3
        )
    if not len(t):
        return None
    r = chance.randrange(len(t))
    return changed(plan, "tensors", r, alignment=int(s.alignment[t.storage[r]]) << chance.randrange(1, 4))


def beyond(plan: Plan, chance: random.Random) -> Plan | None:
    """A storage is moved beyond the footprint."""
    s = plan.allocation.storages
    rows = [
        k for k in range(len(s)) if plan.origin.layout != "hashed" or not plan.allocation.arenas[int(s.arena[k])].reuse
    ]
    if not rows:
        return None
    k = chance.choice(rows)
    strict = alignment_of(plan, k)
    end = -(-plan.usage[int(s.arena[k])].footprint // strict) * strict
    return changed(plan, "storages", k, offset=end + strict * chance.randrange(1, 4))


def footprint(plan: Plan, chance: random.Random) -> Plan | None:
    """The footprint is stated larger or smaller than it is."""
    a = arena_in_use(plan, chance)
    if a is None:
        return None
    stated = plan.usage[a].footprint
    other = max(0, stated + chance.choice((-1, 1)) * chance.randrange(1, 200))
    return used(plan, a, footprint=other if other != stated else stated + 1)


def too_small(plan: Plan, chance: random.Random) -> Plan | None:
    """An arena has a capacity below what it needs."""
    found = [
        a for a, usage in enumerate(plan.usage) if usage.footprint > 1 and a in plan.allocation.storages.arena.tolist()
    ]
    if not found:
        return None
    a = chance.choice(found)
    least = plan.usage[a].footprint
    return configured(plan, a, capacity=chance.choice((least - 1, chance.randrange(1, least))))


def crowded(plan: Plan, chance: random.Random) -> Plan | None:
    """A memory has a capacity below what its arenas need together, one behind the other."""
    needs: dict[tuple[str, str], int] = {}
    for arena, usage in zip(plan.configuration.uses, plan.usage, strict=True):
        if arena.memory:
            needs[arena.device, arena.memory] = needs.get((arena.device, arena.memory), 0) + usage.footprint
    found = [key for key, bytes_ in needs.items() if bytes_ > 1]
    if not found:
        return None
    device, memory = chance.choice(found)
    small = chance.randrange(1, needs[device, memory])
    devices = tuple(
        d._replace(memories=tuple(m._replace(capacity=small) if m.name == memory else m for m in d.memories))
        if d.name == device else d
        for d in plan.configuration.policy.devices
    )  # fmt: skip
    return amended(plan, policy=plan.configuration.policy._replace(devices=devices))


def outgrown(plan: Plan, chance: random.Random) -> Plan | None:
    """A tensor has more bytes than its storage from its window on, or the storage fewer, or the window is further."""
    t, s = plan.allocation.tensors, plan.allocation.storages
    rows = [r for r in range(len(t)) if t.bytes[r]]
    if not rows:
        return None
    r = chance.choice(rows)
    home = int(t.storage[r])
    room = int(s.bytes[home]) - int(t.window[r])
    how = chance.randrange(3)
    if how == 0:
        return changed(plan, "tensors", r, bytes=room + chance.randrange(1, 100))
    if how == 1:
        return changed(plan, "storages", home, bytes=int(t.window[r]) + chance.randrange(int(t.bytes[r])))
    return changed(plan, "tensors", r, window=int(t.window[r]) + room - int(t.bytes[r]) + chance.randrange(1, 100))


def outlived(plan: Plan, chance: random.Random) -> Plan | None:
    """A tensor lives longer than its storage, or its storage shorter, or beyond the last step."""
    t, s = plan.allocation.tensors, plan.allocation.storages
    if not len(t):
        return None
    r = chance.randrange(len(t))
    home, how = int(t.storage[r]), chance.randrange(5)
    birth, death = int(s.birth[home]), int(s.death[home])
    if how == 0 and death < plan.allocation.last_step:
        return changed(plan, "tensors", r, death=chance.randrange(death + 1, plan.allocation.last_step + 1))
    if how == 1 and birth > 0:
        return changed(plan, "tensors", r, birth=chance.randrange(birth))
    if how == 2:
        return changed(plan, "storages", home, death=plan.allocation.last_step + chance.randrange(1, 5))
    if how == 3 and t.death[r] > 0:
        return changed(plan, "storages", home, death=chance.randrange(int(t.death[r])))
    return changed(plan, "storages", home, birth=chance.randrange(int(t.birth[r]) + 1, plan.allocation.last_step + 2))


LIES = tuple(
    Lie(code, tell.__name__, of_plan(tell))
    for code, tells in {
        "no_live_overlap": (onto, same_place, by_one_byte, wider, longer, one_slot, two_slots),
        "alignment": (misplaced, shifted, no_power, stricter),
        "capacity": (beyond, footprint, too_small, crowded),
        "tensors_within_storages": (outgrown, outlived),
    }.items()
    for tell in tells
)
