"""Recompute what a plan claims about each arena from its storages: footprint, peak live bytes, max live, slots.

The bytes and the alignment of each slot are recomputed too; the waste of a plan is counted from them. A false claim
refutes the plan, with the field, the stated and the recomputed value. What a plan does not claim is not examined. The
claim that `slots` equals the largest number of storages live at once is made for an arena only if `minimal` is true. If
two tensors must not alias and their storages could otherwise share a slot, `minimal` must be false (T5). Of a plan with
streams the storages of the antichain count as live at once; `proofs.streams.slots` checks that they are one.
spec: V5.1, T5.2, T5.3, T6.3, T6.4, A3.1, A3.3, X5.10
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from proofs.definition.checker.program import Column, PlacedStorages, compute_footprints, exact
from proofs.definition.violations import Obligation, Violation, false_field
from tmmu.plans.columns import Slots
from tmmu.plans.sections import Claims


def find_false_claims(claims: Claims, run: PlacedStorages) -> Iterator[Violation]:
    """Yield a violation for every claim that does not hold. O(storages log storages)."""
    needed, joined = compute_footprints(run.arenas, run.storages), _joined(run)
    for a, usage in enumerate(claims.usage):
        place = f"usage[{run.arenas[a].name}]"
        members = np.flatnonzero(run.columns.arena == a)
        count = _running(run, members, np.ones(len(members), np.int64))
        live = _running(run, members, run.columns.bytes[members])
        peak, most = (int(each.total.max(initial=0)) for each in (live, count))
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
        needed_by = most if usage.antichain is None else len(usage.antichain)
        for why in _more_than_needed(opened or 0, needed_by, a in joined) if usage.minimal else ():
            yield false_field(Obligation.SLOT_COUNT, f"{place}.minimal", "true", why)
        if claims.slots is None and usage.slots is not None and not most <= usage.slots <= len(members):
            yield false_field(Obligation.SLOT_COUNT, f"{place}.slots", str(usage.slots), f"{most} to {len(members)}")
    if claims.slots is not None:
        yield from _false_slots(claims.slots, run)


def _slots(slots: Slots, stated: int | None, arena: int) -> Iterator[tuple[Obligation, str, int | None, int]]:
    """Yield, as rows to compare, how many slots the table has in an arena, and how many of them hold a storage."""
    mine = np.flatnonzero(slots.arena == arena)
    yield Obligation.SLOT_COUNT, "slots", stated, len(mine)
    yield Obligation.SLOT_COUNT, "slots that hold a storage", stated, int(np.isin(mine, slots.of).sum())


def _more_than_needed(slots: int, most: int, joined: bool) -> Iterator[str]:
    """Yield the reasons why an arena does not have the fewest possible slots."""
    if slots != most:
        yield f"false: {slots} slots where {most} storages are live at once"
    if joined:
        yield "false: must_not_alias joins storages"


def _false_slots(slots: Slots, run: PlacedStorages) -> Iterator[Violation]:
    """Yield every slot whose bytes or alignment are not exactly what its storages need.

    A slot has at least a byte (T7).
    """
    of_arena = exact([arena.alignment for arena in run.arenas])[slots.arena]
    needed = (
        _largest(np.ones(len(slots), np.int64), slots.of, run.columns.bytes),
        _largest(of_arena, slots.of, run.columns.alignment),
    )
    stated = exact(slots.bytes.tolist()), exact(slots.alignment.tolist())
    false = stated[0] != needed[0], stated[1] != needed[1]
    for k in np.flatnonzero(false[0] | false[1]).tolist():
        for name, value, holds, is_false in zip(("bytes", "alignment"), stated, needed, false, strict=True):
            if is_false[k]:
                yield false_field(Obligation.SLOT_COUNT, f"slots[{k}].{name}", str(value[k]), str(holds[k]))


def _largest(least: Column, slot: Column, amount: Column) -> Column:
    """Return, for each slot, the largest amount in it, but at least `least`."""
    found = least.astype(np.result_type(least, amount))
    np.maximum.at(found, slot, amount)
    return found


class Totals(NamedTuple):
    """The steps at which a total changes, and the total from each of these steps on."""

    step: Column
    total: Column


def _running(run: PlacedStorages, members: Column, amounts: Column) -> Totals:
    """Return the total amount that is live, each storage from its birth to its death. Exact, however large the sum."""
    amounts = amounts.astype(exact([sum(amounts.tolist())]).dtype)
    step = np.concatenate([run.columns.birth[members], run.columns.death[members] + 1])
    order = np.argsort(step, kind="stable")
    step, total = step[order], np.cumsum(np.concatenate([amounts, -amounts])[order])
    last = np.append(step[1:] != step[:-1], True)[: len(step)]
    return Totals(step[last], total[last])


def _at(totals: Totals, step: int) -> int:
    """Return the total at `step`: that of the last change at or before it."""
    before = int(np.searchsorted(totals.step, step, side="right"))
    return int(totals.total[before - 1]) if before else 0


def _joined(run: PlacedStorages) -> set[int]:
    """Return the arenas in which must_not_alias separates two storages whose lifetimes would let them share a slot."""
    found = set()
    for a, b in run.apart:
        s, t = run.storages[a], run.storages[b]
        if s.arena == t.arena and (s.death < t.birth or t.death < s.birth):
            found.add(s.arena)
    return found
