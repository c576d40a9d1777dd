"""What a plan claims of each arena, computed again from its storages: footprint, peak live bytes, most live, slots.

So are the bytes and the alignment of each slot, from which what a plan wastes is counted.
A claim that is false refutes the plan, with the field, what is stated and what holds. That `slots` equals the most
storages live at once is claimed for an arena only where `minimal` says so; where two tensors must not alias and their
storages could otherwise share a slot, it must not (T5). spec: V5.1, T5.2, T5.3, T6.3, T6.4, A3.1, A3.3
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from proofs.checker.layouts import BY_SLOTS, scattered
from proofs.checker.program import Program
from tmmu.plan.columns import Plan


class FalseField(NamedTuple):
    """A field of the plan, what the file states and what holds; `obligation` is the one that it breaks."""

    obligation: str
    field: str
    stated: str
    recomputed: str


def false_claims(plan: Plan, run: Program) -> Iterator[FalseField]:
    """Every claim that does not hold. O(storages log storages)."""
    per_arena: list[list[int]] = [[] for _ in plan.arenas]
    for k, s in enumerate(run.storages):
        per_arena[s.arena].append(k)
    slots_of: list[list[int]] = [[] for _ in plan.arenas]
    for slot, a in enumerate(plan.slots.arena.tolist()):
        slots_of[a].append(slot)
    occupied = {s.slot for s in run.storages}
    joined = _joined(plan, run)
    for a, members in enumerate(per_arena):
        usage, name = plan.usage[a], plan.arenas[a].name
        mine = slots_of[a]
        count = _running(run, members, [1] * len(members))
        live = _running(run, members, [run.storages[k].bytes for k in members])

        def false(obligation: str, field: str, stated: int, found: int, name: str = name) -> Iterator[FalseField]:
            if stated != found:
                yield FalseField(obligation, f"usage[{name}].{field}", str(stated), str(found))

        yield from false("capacity", "footprint", usage.footprint, _footprint(plan, run, a, members))
        yield from false("peak", "peak_live_bytes", usage.peak_live_bytes, max(live.values(), default=0))
        yield from false("peak", "peak_live_bytes at peak_step", usage.peak_live_bytes, _at(live, usage.peak_step))
        most = max(count.values(), default=0)
        yield from false("slot_count", "max_live", usage.max_live, most)
        yield from false("slot_count", "max_live at max_live_step", usage.max_live, _at(count, usage.max_live_step))
        yield from false("slot_count", "slots", usage.slots, len(mine))
        yield from false("slot_count", "slots that hold a storage", usage.slots, sum(slot in occupied for slot in mine))
        if usage.minimal and len(mine) != most:
            why = f"false: {len(mine)} slots where {most} storages are live at once"
            yield FalseField("slot_count", f"usage[{name}].minimal", "true", why)
        if usage.minimal and a in joined:
            yield FalseField("slot_count", f"usage[{name}].minimal", "true", "false: must_not_alias joins storages")
    yield from _false_slots(plan, run)


def _false_slots(plan: Plan, run: Program) -> Iterator[FalseField]:
    """Every slot that is larger or stricter than what it holds asks for, or less so. A slot has a byte (T7)."""
    needed = [[1, run.arenas[a].alignment] for a in plan.slots.arena.tolist()]
    for s in run.storages:
        slot = needed[s.slot]
        slot[0], slot[1] = max(slot[0], s.bytes), max(slot[1], s.alignment)
    for k, stated in enumerate(zip(plan.slots.bytes.tolist(), plan.slots.alignment.tolist(), strict=True)):
        for name, said, holds in zip(("bytes", "alignment"), stated, needed[k], strict=True):
            if said != holds:
                yield FalseField("slot_count", f"slots[{k}].{name}", str(said), str(holds))


def _footprint(plan: Plan, run: Program, arena: int, members: list[int]) -> int:
    """The end of the last slot; where slots have no address, of the last storage; where addresses are scattered, the
    bytes of all slots. A storage of zero bytes takes one byte (T7). spec: A3.1, A2.4, A8.6
    """
    storages = [run.storages[k] for k in members]
    if scattered(plan, arena):
        return int(sum(plan.slots.bytes[slot].item() for slot in {s.slot for s in storages}))
    if plan.layout in BY_SLOTS:
        return max((s.offset + int(plan.slots.bytes[s.slot]) for s in storages), default=0)
    return max((s.offset + max(1, s.bytes) for s in storages), default=0)


def _running(run: Program, members: list[int], amounts: list[int]) -> dict[int, int]:
    """The total amount that is live from each step at which it changes, by step."""
    changes: dict[int, int] = {}
    for k, x in zip(members, amounts, strict=True):
        s = run.storages[k]
        changes[s.birth] = changes.get(s.birth, 0) + x
        changes[s.death + 1] = changes.get(s.death + 1, 0) - x
    total, result = 0, {}
    for step in sorted(changes):
        total += changes[step]
        result[step] = total
    return result


def _at(totals: dict[int, int], step: int) -> int:
    """The total at `step`: that of the last change up to it."""
    before = [s for s in totals if s <= step]
    return totals[max(before)] if before else 0


def _joined(plan: Plan, run: Program) -> set[int]:
    """The arenas where must_not_alias keeps two storages apart whose lifetimes would let them share a slot."""
    found = set()
    for a, b in plan.must_not_alias:
        s, t = (run.storages[run.tensors[x].storage] for x in (a, b))
        if s.arena == t.arena and (s.death < t.birth or t.death < s.birth):
            found.add(s.arena)
    return found
