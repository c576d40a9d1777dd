"""Witnesses that are a field: what is stated, and what holds when every storage is looked at at every step."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from tests.nightly.soak.witness.places import row_of
from tmmu.core import canonical
from tmmu.core.dims.expressions import evaluate
from tmmu.core.vocabulary import Shares
from tmmu.plans import file
from tmmu.plans.columns import SHARES
from tmmu.plans.gate import StatedPlan
from tmmu.plans.sections import Plan
from tmmu.testing.catalogue.reading import live

Witness = Mapping[str, Any]


def at_shape(plan: Plan, w: Witness) -> bool:
    """At the shape, which is inside the envelope, the tensors have these sizes, and they are not what is planned."""
    if plan.envelope is None or set(w["shape"]) != set(plan.ranges):
        return False
    if not all(low <= w["shape"][name] <= high for name, (low, high) in plan.ranges.items()):
        return False
    sizes, rows = plan.sizes(), [row_of(plan, name) for name in w["tensors"]]
    found = [evaluate(sizes[r], w["shape"]) for r in rows]
    t, row = plan.allocation.tensors, rows[0]
    if len(rows) == 2:
        declared = int(t.of[row]) == rows[1] and SHARES[int(t.shares[row])] in (Shares.VIEW, Shares.IN_PLACE)
        return declared and found == list(w["sizes"]) and (found[0] != found[1] or "view" in w["text"])
    planned = int(t.bytes[row])
    if " to need its " in w["text"]:
        point = dict(zip(plan.ranges, plan.envelope.point(row), strict=True))
        return point == w["shape"] and list(w["sizes"]) == [found[0], planned] and found[0] != planned
    return list(w["sizes"]) == [found[0], planned] and (found[0] > planned or found[0] < 0)


def claimed(plan: Plan, w: Witness) -> bool:
    """What is stated of an arena is stated, and another value is found by looking at every storage at every step."""
    if w["field"].startswith("slots["):
        return _of_slot(plan, w)
    if not w["field"].startswith("usage["):
        return False
    name, _, field = w["field"].removeprefix("usage[").partition("].")
    a = next(k for k, arena in enumerate(plan.allocation.arenas) if arena.name == name)
    usage, steps = plan.usage[a], range(plan.allocation.last_step + 3)
    s = plan.allocation.storages
    mine = [k for k, of in enumerate(plan.slots.arena.tolist()) if of == a]
    occupied = {int(slot) for slot in plan.slots.of.tolist()}
    here = [k for k in range(len(s)) if s.arena[k] == a]
    ends = [
        int(s.offset[k])
        + (
            int(plan.slots.bytes[plan.slots.of[k]])
            if plan.origin.layout == "slots" or not _packed(plan)
            else max(1, int(s.bytes[k]))
        )
        for k in here
    ]
    scattered = plan.origin.layout == "hashed" and plan.allocation.arenas[a].reuse
    backing = sum(int(plan.slots.bytes[k]) for k in {int(plan.slots.of[k]) for k in here})
    found: dict[str, tuple[int, int]] = {
        "footprint": (usage.footprint, backing if scattered else max(ends, default=0)),
        "peak_live_bytes": (usage.peak_live_bytes, max(live(plan, a, n)[1] for n in steps)),
        "peak_live_bytes at peak_step": (usage.peak_live_bytes, live(plan, a, usage.peak_step)[1]),
        "max_live": (usage.max_live, max(live(plan, a, n)[0] for n in steps)),
        "max_live at max_live_step": (usage.max_live, live(plan, a, usage.max_live_step)[0]),
        "slots": (usage.slots, len(mine)),
        "slots that hold a storage": (usage.slots, len(occupied & set(mine))),
    }
    if field == "minimal":
        most = max(live(plan, a, n)[0] for n in steps)
        if w["recomputed"] == f"false: {len(mine)} slots where {most} storages are live at once":
            return usage.minimal and len(mine) != most
        return usage.minimal and _kept_apart(plan, a) and "must_not_alias" in w["recomputed"]
    return (
        field in found and found[field] == (int(w["stated"]), int(w["recomputed"])) and w["stated"] != w["recomputed"]
    )


def _packed(plan: Plan) -> bool:
    return plan.origin.layout in ("packed", "pools")


def _kept_apart(plan: Plan, a: int) -> bool:
    """Are two storages of an arena kept apart for good that never live at one step?"""
    s, t = plan.allocation.storages, plan.allocation.tensors
    pairs = [(int(t.storage[x]), int(t.storage[y])) for x, y in plan.allocation.must_not_alias]
    return any(s.arena[i] == s.arena[j] == a and (s.death[i] < s.birth[j] or s.death[j] < s.birth[i]) for i, j in pairs)


def of_hashes(stated: StatedPlan, w: Witness) -> bool:
    """The file states the one, and of its other content the other follows."""
    found, field = file.compute_hashes(stated.plan), w["field"]
    if field == "file_digest":
        others = canonical.decode(file.encode(stated.plan, stated.hashes))
        del others[field]
        found[field] = hashlib.sha256(canonical.encode(others)).digest()
    values = stated.hashes[field].hex(), found[field].hex()
    return (w["stated"], w["recomputed"]) == values and w["stated"] != w["recomputed"]


def _of_slot(plan: Plan, w: Witness) -> bool:
    """The bytes or the alignment of a slot are not the most that what it holds, or its arena, asks for."""
    number, _, field = w["field"].removeprefix("slots[").partition("].")
    k, s = int(number), plan.allocation.storages
    own = 1 if field == "bytes" else plan.allocation.arenas[int(plan.slots.arena[k])].alignment
    held = [int(getattr(s, field)[n]) for n in range(len(s)) if plan.slots.of[n] == k]
    found = int(getattr(plan.slots, field)[k]), max([own, *held])
    return found == (int(w["stated"]), int(w["recomputed"])) and w["stated"] != w["recomputed"]
