"""Does a witness show what it says? Looked up in the plan's columns, step by step and byte by byte.

The naive checker has found it; here nothing of the checker is used.
"""

from __future__ import annotations

from typing import Any

from tmmu.plan.columns import Plan


def confirmed(plan: Plan, item: Any) -> bool:
    """Whether a problem, a false field or a difference from the model is one."""
    if not hasattr(item, "first_byte"):
        # A field or a difference: what is stated and what holds differ.
        return bool(item.stated != item.recomputed)
    if item.obligation in SHOWN:
        return SHOWN[item.obligation](plan, item)
    return bool(item.text) and (not item.tensors or set(item.tensors) <= {*plan.tensors.name.list(), "nothing"})


def _row(plan: Plan, name: str) -> int:
    return plan.tensors.name.list().index(name)


def _home(plan: Plan, name: str) -> int:
    return int(plan.tensors.storage[_row(plan, name)])


def _address(plan: Plan, row: int) -> int:
    return int(plan.storages.offset[plan.tensors.storage[row]]) + int(plan.tensors.window[row])


def _overlap(plan: Plan, item: Any) -> bool:
    """Both storages have the first and the last byte and are live at the step; or their slots cannot both be right."""
    s, homes = plan.storages, [_home(plan, name) for name in item.tensors]
    one, other = homes
    if one == other or s.arena[one] != s.arena[other]:
        return False
    if item.step is None:  # of slots as a whole: they have bytes in common, or one slot is in two places
        if s.slot[one] == s.slot[other]:
            return bool(s.offset[one] != s.offset[other])
        ends = [int(s.offset[k]) + int(plan.slots.bytes[s.slot[k]]) for k in homes]
        return max(int(s.offset[one]), int(s.offset[other])) < min(ends)
    if not all(s.birth[k] <= item.step <= s.death[k] for k in homes):
        return False
    return bool(s.slot[one] == s.slot[other]) or all(
        plan.arenas[int(s.arena[k])].name == item.arena
        and s.offset[k] <= item.first_byte <= item.last_byte < s.offset[k] + s.bytes[k]
        for k in homes
    )


def _misaligned(plan: Plan, item: Any) -> bool:
    row = _row(plan, item.tensors[0])
    s, k = plan.storages, _home(plan, item.tensors[0])
    wanted = (int(plan.tensors.alignment[row]), int(s.alignment[k]), plan.arenas[int(s.arena[k])].alignment)
    odd = any(a < 1 or bin(a).count("1") != 1 for a in wanted)
    return odd or wanted[0] > wanted[1] or int(s.offset[k]) % max(wanted[1:]) > 0 or _address(plan, row) % wanted[0] > 0


def _beyond(plan: Plan, item: Any) -> bool:
    s = plan.storages
    if not item.tensors or item.tensors[0] not in plan.tensors.name.list():
        return False
    k = _home(plan, item.tensors[0])
    a = int(s.arena[k])
    limit = plan.usage[a].footprint
    return int(s.offset[k]) + int(s.bytes[k]) > limit or limit > plan.arenas[a].capacity


def _outgrown(plan: Plan, item: Any) -> bool:
    t, s, row = plan.tensors, plan.storages, _row(plan, item.tensors[0])
    k = int(t.storage[row])
    steps = s.birth[k] <= t.birth[row] <= t.death[row] <= s.death[k] <= plan.last_step
    return not steps or int(t.window[row]) + int(t.bytes[row]) > int(s.bytes[k])


def _outlived(plan: Plan, item: Any) -> bool:
    """The step, or the caller, does what is said; and the tensor is not live then, or not written yet."""
    t, row = plan.tensors, _row(plan, item.tensors[0])
    if item.step is None:
        return True
    if not t.birth[row] <= min(item.step, plan.last_step) <= t.death[row]:
        return True
    writers = [n for n, made in enumerate(plan.steps.listed("writes")) if row in made]
    return not writers or writers[0] >= item.step or bool(t.writer[row] != writers[0]) or bool(t.birth[row])


def _shared(plan: Plan, item: Any) -> bool:
    """The step touches the first tensor, and the other one has a byte in common with it, or has been there."""
    row = _row(plan, item.tensors[0])
    if item.step is not None and item.step < len(plan.steps):
        touched = {*plan.steps.listed("reads")[item.step], *plan.steps.listed("writes")[item.step]}
        if row not in touched:
            return False
    others = [name for name in item.tensors[1:] if name != "nothing"]
    return all(_meets(plan, row, _row(plan, name)) or "view" in item.text for name in others)


def _meets(plan: Plan, one: int, other: int) -> bool:
    t, s = plan.tensors, plan.storages
    same = s.arena[t.storage[one]] == s.arena[t.storage[other]]
    first = max(_address(plan, one), _address(plan, other))
    end = min(_address(plan, one) + int(t.bytes[one]), _address(plan, other) + int(t.bytes[other]))
    return bool(same) and first < end


def _aliased(plan: Plan, item: Any) -> bool:
    one, other = (_row(plan, name) for name in item.tensors[:2])
    pairs = {frozenset(pair) for pair in plan.must_not_alias}
    return frozenset((one, other)) in pairs and _meets(plan, one, other)


SHOWN = {
    "no_live_overlap": _overlap,
    "alignment": _misaligned,
    "capacity": _beyond,
    "tensors_within_storages": _outgrown,
    "lifetimes_cover_accesses": _outlived,
    "sharing_is_sound": _shared,
    "must_not_alias": _aliased,
}
"""Obligations whose witnesses name tensors, steps and bytes."""
