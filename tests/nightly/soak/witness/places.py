"""Witnesses about places: two storages on each other, odd addresses, bytes beyond, slots that do not fit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tmmu.core.columns import NONE
from tmmu.core.vocabulary import Rule
from tmmu.plans.columns import ROLES
from tmmu.plans.sections import Plan, arena_configurations
from tmmu.testing.catalogue.reading import address

Witness = Mapping[str, Any]
BY_SLOTS = ("slots", "hashed")


def power_of_two(value: int) -> bool:
    """Is it one?"""
    return value > 0 and bin(value).count("1") == 1


def row_of(plan: Plan, name: str) -> int:
    return plan.allocation.tensors.name.list().index(name)


def storage_of(plan: Plan, name: str) -> int:
    """The storage that goes by a tensor's name, or by its number where it has no tensor."""
    if name not in plan.allocation.tensors.name.list():
        return int(name.removeprefix("storage "))
    return int(plan.allocation.tensors.storage[row_of(plan, name)])


def step_of(witness: Witness) -> int | None:
    return witness["steps"][0] if witness["steps"] else None


def overlap(plan: Plan, w: Witness) -> bool:
    """Both storages have the first and the last byte and are live at the step; or their slots cannot both be right."""
    s, step = plan.allocation.storages, step_of(w)
    one, other = (storage_of(plan, name) for name in w["tensors"])
    if one == other:
        return False
    if step is None:  # of slots as a whole: they have bytes in common, or one slot is in two places
        if plan.origin.layout not in BY_SLOTS:
            return False
        if plan.slots.of[one] == plan.slots.of[other]:
            return bool(s.offset[one] != s.offset[other])
        ends = [int(s.offset[k]) + int(plan.slots.bytes[plan.slots.of[k]]) for k in (one, other)]
        return s.arena[one] == s.arena[other] and max(int(s.offset[one]), int(s.offset[other])) < min(ends)
    if not all(s.birth[k] <= step <= s.death[k] for k in (one, other)):
        return False
    if "have one slot" in w["text"]:
        return bool(plan.slots.of[one] == plan.slots.of[other]) and plan.origin.layout in BY_SLOTS
    return all(
        plan.allocation.arenas[int(s.arena[k])].name == w["arena"]
        and int(s.offset[k]) <= w["first_byte"] <= w["last_byte"] < int(s.offset[k]) + int(s.bytes[k])
        for k in (one, other)
    )


def misaligned(plan: Plan, w: Witness) -> bool:
    """An alignment is none, an address no multiple of what is asked, or the storage asks less than its tensor.

    The sentence says which, and names the alignment, and the address that is no multiple of it.
    """
    s, name, text = plan.allocation.storages, w["tensors"][0], w["text"]
    k = storage_of(plan, name)
    rows = [
        r
        for r, of_tensor in enumerate(plan.allocation.tensors.storage.tolist())
        if of_tensor == k and plan.allocation.tensors.name[r] == name
    ]
    of = {int(plan.allocation.tensors.alignment[r]): address(plan, r) for r in rows}
    arena, slot = plan.allocation.arenas[int(s.arena[k])].alignment, int(plan.slots.alignment[plan.slots.of[k]])
    if found := re.search(r"(the arena of |the slot of |).* has the alignment ([0-9]+): not a power of two$", text):
        asked = int(found[2])
        there = {"the arena of ": [arena], "the slot of ": [slot]}.get(found[1], [*of, int(s.alignment[k])])
        return not power_of_two(asked) and asked in there
    if found := re.search(r" at ([0-9]+) is not aligned (as its slot, |)to ([0-9]+)$", text):
        at, asked = int(found[1]), int(found[3])
        of_storage = [slot] if found[2] else [int(s.alignment[k]), arena]
        there = (at == int(s.offset[k]) and asked in of_storage) or (not found[2] and of.get(asked) == at)
        return power_of_two(asked) and there and at % asked != 0
    if found := re.search(r" requires ([0-9]+), its storage only ([0-9]+)$", text):
        asked, has = map(int, found.groups())
        return asked in of and has == int(s.alignment[k]) and asked > has
    return False


def weak_base(plan: Plan, w: Witness) -> bool:
    """The base of an arena is stated as less aligned than the arena, or the storage of a tensor that is named."""
    s, name = plan.allocation.storages, w["field"].removeprefix("base alignment of ")
    a = next(k for k, arena in enumerate(plan.allocation.arenas) if arena.name == name)
    arena = plan.allocation.arenas[a]
    stated, needed = int(w["stated"]), int(w["recomputed"])
    asked = [int(s.alignment[storage_of(plan, tensor)]) for tensor in w["tensors"]] or [arena.alignment]
    here = all(int(s.arena[storage_of(plan, tensor)]) == a for tensor in w["tensors"])
    return here and stated == (arena.base_alignment or arena.alignment) < needed and asked == [needed]


def beyond(plan: Plan, w: Witness) -> bool:
    """A storage ends beyond the footprint, or the footprint beyond the capacity, or arenas beyond their memory."""
    s = plan.allocation.storages
    a = next(k for k, arena in enumerate(plan.allocation.arenas) if arena.name == w["arena"])
    arena, usage = plan.allocation.arenas[a], plan.usage[a]
    if "of the memory" in w["text"]:
        return _crowded(plan, a)
    k = storage_of(plan, w["tensors"][0])
    end = 1 << 64 if plan.origin.layout == "hashed" and arena.reuse else usage.footprint
    return int(s.arena[k]) == a and (int(s.offset[k]) + int(s.bytes[k]) > end or usage.footprint > arena.capacity)


def _crowded(plan: Plan, a: int) -> bool:
    """Arenas of one memory up to this one, one behind the other, need more than there is."""
    arenas = arena_configurations(plan)
    key = arenas[a].device, arenas[a].memory
    capacity = next(
        m.capacity for d in plan.configuration.policy.devices for m in d.memories if (d.name, m.name) == key
    )
    end = 0
    for b, (arena, usage) in enumerate(zip(arenas, plan.usage, strict=True)):
        if (arena.device, arena.memory) == key and usage.footprint and b <= a:
            slots = [int(x) for x, of in zip(plan.slots.alignment, plan.slots.arena, strict=True) if of == b]
            strict = max([arena.alignment, *slots])
            end = -(-end // strict) * strict + usage.footprint
    return end > capacity


def outgrown(plan: Plan, w: Witness) -> bool:
    t, s, name = plan.allocation.tensors, plan.allocation.storages, w["tensors"][0]
    k = storage_of(plan, name)
    if "of steps 0 to" in w["text"]:
        return not s.birth[k] <= s.death[k] <= plan.allocation.last_step
    row = row_of(plan, name)
    inside = s.birth[k] <= t.birth[row] <= t.death[row] <= s.death[k]
    return not inside or int(t.window[row]) + int(t.bytes[row]) > int(s.bytes[k])


def aliased(plan: Plan, w: Witness) -> bool:
    """The storages hold a pair that is listed, and have the first and the last byte."""
    s, storage = plan.allocation.storages, plan.allocation.tensors.storage
    pair = [storage_of(plan, name) for name in w["tensors"]]
    listed = {frozenset(int(storage[r]) for r in rows) for rows in plan.allocation.must_not_alias}
    return frozenset(pair) in listed and all(
        plan.allocation.arenas[int(s.arena[k])].name == w["arena"]
        and int(s.offset[k]) <= w["first_byte"] <= w["last_byte"] < int(s.offset[k]) + int(s.bytes[k])
        for k in pair
    )


def misfit(plan: Plan, w: Witness) -> bool:
    """A storage does not fit its slot, or two cannot be in theirs."""
    s, pair = plan.allocation.storages, [storage_of(plan, name) for name in w["tensors"]]
    slot, a = int(plan.slots.of[pair[0]]), int(s.arena[pair[0]])
    if len(pair) == 1:
        strict = max(int(s.alignment[pair[0]]), plan.allocation.arenas[a].alignment)
        return bool(
            plan.slots.arena[slot] != a
            or s.bytes[pair[0]] > plan.slots.bytes[slot]
            or strict > int(plan.slots.alignment[slot])
        )
    if pair[0] == pair[1] or plan.slots.of[pair[1]] != slot:
        return False
    both = s.birth[pair[0]] <= s.death[pair[1]] and s.birth[pair[1]] <= s.death[pair[0]]
    return bool(both) if step_of(w) is not None else not plan.allocation.arenas[a].reuse


def role_not_held(plan: Plan, w: Witness) -> bool:
    """The tensor lies in the arena, and neither the first rule that means it nor, without one, its role allows it."""
    row = row_of(plan, w["tensors"][0])
    arena = arena_configurations(plan)[int(plan.allocation.storages.arena[plan.allocation.tensors.storage[row]])]
    meant = [rule for rule in plan.configuration.policy.rules if _means(plan, rule, row)]
    if arena.name != w["arena"]:
        return False
    return (
        arena.name not in meant[0].arenas if meant else ROLES[int(plan.allocation.tensors.role[row])] not in arena.roles
    )


def _means(plan: Plan, rule: Rule, row: int) -> bool:
    """Does a rule speak of a tensor: by its role, its name, the operator of the step that makes or first reads it?"""
    t = plan.allocation.tensors
    touched = [n for n, read in enumerate(plan.allocation.steps.listed("reads")) if row in read]
    made = int(t.writer[row])
    step = made if made != NONE else min(touched, default=None)
    op = "" if step is None else plan.allocation.ops[int(plan.allocation.steps.op[step])][1]
    return (
        (not rule.roles or ROLES[int(t.role[row])] in rule.roles)
        and (not rule.names or any(_fits(pattern, t.name[row]) for pattern in rule.names))
        and (not rule.ops or (step is not None and any(_fits(pattern, op) for pattern in rule.ops)))
    )


def _fits(pattern: str, text: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.DOTALL) is not None
