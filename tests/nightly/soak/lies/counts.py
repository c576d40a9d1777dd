"""Lies about what a plan counts: slots, the most that live, peaks; and about slots that hold what does not fit them."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np

from tests.nightly.soak.lies.telling import Lie, arena_in_use, configured, of_plan, used
from tmmu.core.columns import column
from tmmu.examples.broken.editing import changed
from tmmu.plan.sections import Plan, amended


def live(plan: Plan, arena: int, step: int) -> tuple[int, int]:
    """How many storages of an arena live at a step, and their bytes: looked up one by one."""
    s = plan.allocation.storages
    here = [k for k in range(len(s)) if s.arena[k] == arena and s.birth[k] <= step <= s.death[k]]
    return len(here), sum(int(s.bytes[k]) for k in here)


def _other(value: int, chance: random.Random) -> int:
    return value + chance.randrange(1, 9) if chance.random() < 0.5 or not value else chance.randrange(value)


def miscounted(plan: Plan, chance: random.Random) -> Plan | None:
    """The slots, or the most storages that live at once, are counted wrongly."""
    a = arena_in_use(plan, chance)
    if a is None:
        return None
    field = chance.choice(("slots", "max_live"))
    return used(plan, a, **{field: _other(getattr(plan.usage[a], field), chance)})


def peak(plan: Plan, chance: random.Random) -> Plan | None:
    """The peak of live bytes is stated wrongly."""
    a = arena_in_use(plan, chance)
    return None if a is None else used(plan, a, peak_live_bytes=_other(plan.usage[a].peak_live_bytes, chance))


def peak_elsewhere(plan: Plan, chance: random.Random) -> Plan | None:
    """The peak is said to be reached at a step where it is not."""
    return _elsewhere(plan, chance, "peak_live_bytes", "peak_step", 1)


def most_elsewhere(plan: Plan, chance: random.Random) -> Plan | None:
    """The most storages are said to live at a step where fewer do."""
    return _elsewhere(plan, chance, "max_live", "max_live_step", 0)


def _elsewhere(plan: Plan, chance: random.Random, amount: str, step: str, which: int) -> Plan | None:
    a = arena_in_use(plan, chance)
    if a is None:
        return None
    stated = getattr(plan.usage[a], amount)
    steps = [n for n in range(plan.allocation.last_step + 1) if live(plan, a, n)[which] != stated]
    return used(plan, a, **{step: chance.choice(steps)}) if steps else None


def idle(plan: Plan, chance: random.Random) -> Plan | None:
    """One slot more is counted, and stands there, that no storage has."""
    a = arena_in_use(plan, chance)
    if a is None:
        return None
    at = int(np.flatnonzero(plan.slots.arena == a).max()) + 1  # behind the last of its arena
    slots = replace(
        plan.slots,
        **{
            name: column([*values[:at], values[at - 1], *values[at:]], getattr(plan.slots, name).dtype.type)
            for name in ("arena", "bytes", "alignment")
            for values in (getattr(plan.slots, name).tolist(),)
        },
    )
    moved = column([slot + (slot >= at) for slot in plan.slots.of.tolist()], plan.slots.of.dtype.type)
    longer = amended(plan, slots=replace(slots, of=moved))
    return used(longer, a, slots=plan.usage[a].slots + 1)


def boasting(plan: Plan, chance: random.Random) -> Plan | None:
    """An arena is said to need no slot more than live at once, and needs one, or storages are kept apart in it."""
    found = [
        a for a, usage in enumerate(plan.usage) if usage.slots and not usage.minimal and usage.slots != usage.max_live
    ]
    return used(plan, chance.choice(found), minimal=True) if found else None


def misfit(plan: Plan, chance: random.Random) -> Plan | None:
    """A slot is smaller or less aligned than a storage in it, or of another arena."""
    s = plan.allocation.storages
    how, rows = chance.randrange(3), [k for k in range(len(s)) if s.bytes[k]]
    if not rows:
        return None
    k = chance.choice(rows)
    slot, a = int(plan.slots.of[k]), int(s.arena[k])
    if how == 0:
        return changed(plan, "slots", slot, bytes=chance.randrange(int(s.bytes[k])))
    if how == 1:
        strict = max(int(s.alignment[k]), plan.allocation.arenas[a].alignment)
        return changed(plan, "slots", slot, alignment=strict // 2) if strict > 1 else None
    others = [b for b in range(len(plan.allocation.arenas)) if b != a]
    return changed(plan, "slots", slot, arena=chance.choice(others)) if others else None


def roomy(plan: Plan, chance: random.Random) -> Plan | None:
    """A slot is larger or more strictly aligned than anything in it, or its arena, asks for."""
    if not len(plan.slots):
        return None
    k = chance.randrange(len(plan.slots))
    if chance.random() < 0.5:
        return changed(plan, "slots", k, bytes=int(plan.slots.bytes[k]) + chance.randrange(1, 100))
    return changed(plan, "slots", k, alignment=int(plan.slots.alignment[k]) << chance.randrange(1, 4))


def unturned(plan: Plan, chance: random.Random) -> Plan | None:
    """Two storages that live at one step have one slot, in a layout where slots have no address."""
    s = plan.allocation.storages
    if plan.origin.layout not in ("packed", "pools"):
        return None
    pairs = [
        (i, j) for i in range(len(s)) for j in range(len(s))
        if i != j and s.arena[i] == s.arena[j] and s.birth[i] <= s.death[j] and s.birth[j] <= s.death[i]
    ]  # fmt: skip
    if not pairs:
        return None
    i, j = chance.choice(pairs)
    return changed(plan, "storages", i, slot=int(plan.slots.of[j]))


def kept_for_good(plan: Plan, chance: random.Random) -> Plan | None:
    """An arena is said to keep every storage for good, and two have one slot in it."""
    s = plan.allocation.storages
    slots = plan.slots.of.tolist()
    found = sorted(
        {
            int(s.arena[k])
            for k in range(len(s))
            if slots.count(slots[k]) > 1 and plan.allocation.arenas[int(s.arena[k])].reuse
        }
    )
    return configured(plan, chance.choice(found), reuse=False) if found else None


LIES = tuple(
    Lie(code, tell.__name__, of_plan(tell))
    for code, tells in {
        "slot_count": (miscounted, most_elsewhere, idle, boasting, misfit, roomy, unturned, kept_for_good),
        "peak": (peak, peak_elsewhere),
    }.items()
    for tell in tells
)
