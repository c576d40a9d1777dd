"""Faults in the counts of a plan (slots, most live, peaks), and slots that do not fit their storages."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np

from tmmu.core.columns import build_column
from tmmu.examples.broken.editing import changed, claiming, with_arena
from tmmu.plans.sections import Plan, amend_plan
from tmmu.testing.catalogue.fault import fault, require, some
from tmmu.testing.catalogue.reading import arena_in_use, claim, live, live_pairs


def _other(value: int, chance: random.Random) -> int:
    return value + chance.randrange(1, 9) if chance.random() < 0.5 or not value else chance.randrange(value)


def _elsewhere(plan: Plan, chance: random.Random, amount: str, step: str, which: int) -> Plan:
    a = arena_in_use(plan, chance)
    stated, steps = claim(plan, a, amount), range(plan.allocation.last_step + 1)
    return claiming(plan, a, **{step: some(chance, [n for n in steps if live(plan, a, n)[which] != stated])})


@fault("slot_count")
def miscounted(plan: Plan, chance: random.Random) -> Plan:
    """The number of slots, or of the most storages that live at once, is wrong."""
    a = arena_in_use(plan, chance)
    field = chance.choice(("slots", "max_live"))
    return claiming(plan, a, **{field: _other(claim(plan, a, field), chance)})


@fault("slot_count")
def most_elsewhere(plan: Plan, chance: random.Random) -> Plan:
    """The most storages are stated to live at a step where fewer do."""
    return _elsewhere(plan, chance, "max_live", "max_live_step", 0)


@fault("slot_count")
def idle(plan: Plan, chance: random.Random) -> Plan:
    """One more slot is counted and listed, which no storage uses."""
    a, slots = arena_in_use(plan, chance), plan.slots
    at = int(np.flatnonzero(slots.arena == a).max()) + 1  # after the last of its arena
    longer = {name: np.insert(getattr(slots, name), at, getattr(slots, name)[at - 1])
              for name in ("arena", "bytes", "alignment")}  # fmt: skip
    taken = build_column([slot + (slot >= at) for slot in slots.of.tolist()], slots.of.dtype.type)
    return claiming(amend_plan(plan, slots=replace(slots, of=taken, **longer)), a, slots=claim(plan, a, "slots") + 1)


@fault("slot_count")
def boasting(plan: Plan, chance: random.Random) -> Plan:
    """An arena is claimed to need no slot more than live at once, but needs one, or storages are kept apart in it."""
    found = [a for a, u in enumerate(plan.usage) if u.slots and not u.minimal and u.slots != u.max_live]
    return claiming(plan, some(chance, found), minimal=True)


@fault("slot_count")
def misfit(plan: Plan, chance: random.Random) -> Plan:
    """A slot is smaller or less aligned than a storage in it, or belongs to another arena."""
    s = plan.allocation.storages
    how = chance.randrange(3)
    k = some(chance, [k for k in range(len(s)) if s.bytes[k]])
    slot, a = int(plan.slots.of[k]), int(s.arena[k])
    if how == 0:
        return changed(plan, "slots", slot, bytes=chance.randrange(int(s.bytes[k])))
    if how == 1:
        strict = max(int(s.alignment[k]), plan.allocation.arenas[a].alignment)
        require(strict > 1)
        return changed(plan, "slots", slot, alignment=strict // 2)
    return changed(plan, "slots", slot, arena=some(chance, [b for b in range(len(plan.usage)) if b != a]))


@fault("slot_count")
def roomy(plan: Plan, chance: random.Random) -> Plan:
    """A slot is larger or more strictly aligned than its storages and its arena require."""
    require(len(plan.slots))
    k = chance.randrange(len(plan.slots))
    if chance.random() < 0.5:
        return changed(plan, "slots", k, bytes=int(plan.slots.bytes[k]) + chance.randrange(1, 100))
    return changed(plan, "slots", k, alignment=int(plan.slots.alignment[k]) << chance.randrange(1, 4))


@fault("slot_count")
def unturned(plan: Plan, chance: random.Random) -> Plan:
    """Two storages that live at one step have one slot, in a layout whose slots have no address."""
    require(plan.origin.layout in ("packed", "pools"))
    i, j = some(chance, live_pairs(plan))
    return changed(plan, "storages", i, slot=int(plan.slots.of[j]))


@fault("slot_count")
def kept_for_good(plan: Plan, chance: random.Random) -> Plan:
    """An arena is stated never to reuse bytes, but two storages have one slot in it."""
    arena, slots = plan.allocation.storages.arena.tolist(), plan.slots.of.tolist()
    found = {a for a, slot in zip(arena, slots, strict=True) if slots.count(slot) > 1}
    reused = [a for a in sorted(found) if plan.allocation.arenas[a].reuse]
    return with_arena(plan, some(chance, reused), reuse=False)


@fault("peak")
def peak(plan: Plan, chance: random.Random) -> Plan:
    """The peak of live bytes is wrong."""
    a = arena_in_use(plan, chance)
    return claiming(plan, a, peak_live_bytes=_other(claim(plan, a, "peak_live_bytes"), chance))


@fault("peak")
def peak_elsewhere(plan: Plan, chance: random.Random) -> Plan:
    """The peak is stated to be at a step with fewer live bytes."""
    return _elsewhere(plan, chance, "peak_live_bytes", "peak_step", 1)
