"""What a plan claims of each arena, computed again from its storages: footprint, peak live bytes, most live, slots.

So are the bytes and the alignment of each slot, from which what a plan wastes is counted. A claim that is false refutes
the plan, with the field, what is stated and what holds; what is not claimed is not looked at. That `slots` equals the
most storages live at once is claimed for an arena only where `minimal` says so; where two tensors must not alias and
their storages could otherwise share a slot, it must not (T5). spec: V5.1, T5.2, T5.3, T6.3, T6.4, A3.1, A3.3
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from proofs.checker.program import PlacedStorages, footprints
from proofs.violations import Obligation, Violation, false_field
from tmmu.plans.columns import Slots
from tmmu.plans.sections import Claims


def false_claims(claims: Claims, run: PlacedStorages) -> Iterator[Violation]:
    """Every claim that does not hold. O(storages log storages)."""
    per_arena: list[list[int]] = [[] for _ in run.arenas]
    for k, s in enumerate(run.storages):
        per_arena[s.arena].append(k)
    needed, joined = footprints(run.arenas, run.storages), _joined(run)
    for a, (members, usage) in enumerate(zip(per_arena, claims.usage, strict=True)):
        place = f"usage[{run.arenas[a].name}]"
        count = _running(run, members, [1] * len(members))
        live = _running(run, members, [run.storages[k].bytes for k in members])
        peak, most = max(live.values(), default=0), max(count.values(), default=0)
        rows: list[tuple[Obligation, str, int | None, int]] = [
            (Obligation.CAPACITY, "footprint", usage.footprint, needed[a]),
            (Obligation.PEAK, "peak_live_bytes", usage.peak_live_bytes, peak),
            (Obligation.SLOT_COUNT, "max_live", usage.max_live, most),
            *(() if claims.slots is None else _slots(claims.slots, usage.slots, a)),
        ]
        if usage.peak_step is not None:
            at = _at(live, usage.peak_step)
            rows.append((Obligation.PEAK, "peak_live_bytes at peak_step", usage.peak_live_bytes, at))
        if usage.max_live_step is not None:
            at = _at(count, usage.max_live_step)
            rows.append((Obligation.SLOT_COUNT, "max_live at max_live_step", usage.max_live, at))
        for obligation, field, stated, found in rows:
            if stated is not None and stated != found:
                yield false_field(obligation, f"{place}.{field}", str(stated), str(found))
        opened = usage.slots if claims.slots is None else int((claims.slots.arena == a).sum())
        for why in _more_than_needed(opened or 0, most, a in joined) if usage.minimal else ():
            yield false_field(Obligation.SLOT_COUNT, f"{place}.minimal", "true", why)
        if claims.slots is None and usage.slots is not None and not most <= usage.slots <= len(members):
            yield false_field(Obligation.SLOT_COUNT, f"{place}.slots", str(usage.slots), f"{most} to {len(members)}")
    if claims.slots is not None:
        yield from _false_slots(claims.slots, run)


def _slots(slots: Slots, stated: int | None, arena: int) -> Iterator[tuple[Obligation, str, int | None, int]]:
    """How many slots the table has in an arena, and how many of them hold a storage."""
    mine = np.flatnonzero(slots.arena == arena)
    yield Obligation.SLOT_COUNT, "slots", stated, len(mine)
    yield Obligation.SLOT_COUNT, "slots that hold a storage", stated, int(np.isin(mine, slots.of).sum())


def _more_than_needed(slots: int, most: int, joined: bool) -> Iterator[str]:
    """Why an arena's slots are not as few as can be."""
    if slots != most:
        yield f"false: {slots} slots where {most} storages are live at once"
    if joined:
        yield "false: must_not_alias joins storages"


def _false_slots(slots: Slots, run: PlacedStorages) -> Iterator[Violation]:
    """Every slot that is larger or stricter than what it holds asks for, or less so. A slot has a byte (T7)."""
    needed = [[1, run.arenas[a].alignment] for a in slots.arena.tolist()]
    for s, slot in zip(run.storages, slots.of.tolist(), strict=True):
        needed[slot] = [max(needed[slot][0], s.bytes), max(needed[slot][1], s.alignment)]
    for k, stated in enumerate(zip(slots.bytes.tolist(), slots.alignment.tolist(), strict=True)):
        for name, value, holds in zip(("bytes", "alignment"), stated, needed[k], strict=True):
            if value != holds:
                yield false_field(Obligation.SLOT_COUNT, f"slots[{k}].{name}", str(value), str(holds))


def _running(run: PlacedStorages, members: list[int], amounts: list[int]) -> dict[int, int]:
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


def _joined(run: PlacedStorages) -> set[int]:
    """The arenas where must_not_alias keeps two storages apart whose lifetimes would let them share a slot."""
    found = set()
    for a, b in run.apart:
        s, t = run.storages[a], run.storages[b]
        if s.arena == t.arena and (s.death < t.birth or t.death < s.birth):
            found.add(s.arena)
    return found
