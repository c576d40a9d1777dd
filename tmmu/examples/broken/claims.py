"""Plans that are safe to run and whose claims are false: the number of slots, the bytes, or the step of a maximum."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tmmu.core.columns import build_column
from tmmu.examples.broken.editing import edit, right, row
from tmmu.examples.broken.kinds import wrong
from tmmu.examples.broken.models import skip
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans.sections import Plan, amend_plan


@wrong("slot_count", field="usage[activations].minimal")
def more_slots_than_live_storages() -> Plan:
    """Four slots are used and claimed to be minimal, but at most three storages are live at once."""
    model = skip()
    apart = tuple(t for t, tensor in enumerate(model.tensors) if tensor.name in ("b", "d"))
    # A plan that keeps two storages apart needs one slot more; without that reason the claim is false.
    plan = right(replace(model, must_not_alias=((apart[0], apart[1]),)))
    return edit(plan, must_not_alias=(), usage={"activations": {"minimal": True}})


@wrong("slot_count", field="usage[activations].minimal")
def slot_count_claimed_despite_a_conflict() -> Plan:
    """Two storages are kept apart, which takes one slot more than live at once; the numbers are claimed to be equal."""
    plan = right(skip())
    model = replace(skip(), must_not_alias=((row(plan, "b"), row(plan, "d")),))
    return edit(right(model), usage={"activations": {"minimal": True}})


@wrong("slot_count", field="usage[gradients].max_live")
def empty_arena_with_live_storages() -> Plan:
    """Seven storages are stated to be live at once in an arena that holds none."""
    return edit(right(skip()), usage={"gradients": {"max_live": 7}})


@wrong("slot_count", field="usage[activations].max_live")
def most_live_overstated() -> Plan:
    """Four storages are stated to be live at once; there are never more than three."""
    return edit(right(skip()), usage={"activations": {"max_live": 4}})


@wrong("slot_count", field="usage[activations].max_live at max_live_step")
def most_live_at_another_step() -> Plan:
    """The most storages are stated to be live at step 0, where there are two."""
    return edit(right(skip()), usage={"activations": {"max_live_step": 0}})


@wrong("slot_count", field="usage[activations].slots")
def slots_miscounted() -> Plan:
    """The arena is stated to have two slots; the table has three."""
    return edit(right(skip()), usage={"activations": {"slots": 2}})


@wrong("slot_count", field="slots[0].bytes")
def slot_with_bytes_to_spare() -> Plan:
    """A slot of a packed plan is stated to have one byte more than any storage in it; no address shows that."""
    plan = plan_memory(skip(), options=PlanOptions(layout="packed")).plan
    more = [size + (not k) for k, size in enumerate(plan.slots.bytes.tolist())]
    return amend_plan(plan, slots=replace(plan.slots, bytes=build_column(more, np.uint64)))


@wrong("slot_count", field="slots[0].alignment")
def slot_stricter_than_what_it_holds() -> Plan:
    """A slot of a packed plan is stated to be aligned to 4,096 bytes, which no storage in it and no arena requires."""
    plan = plan_memory(skip(), options=PlanOptions(layout="packed")).plan
    strict = [alignment if k else 4096 for k, alignment in enumerate(plan.slots.alignment.tolist())]
    return amend_plan(plan, slots=replace(plan.slots, alignment=build_column(strict, np.uint64)))


@wrong("peak", field="usage[activations].peak_live_bytes")
def peak_understated() -> Plan:
    """At most 512 bytes are stated to be live at once, but 768 are at step 2."""
    return edit(right(skip()), usage={"activations": {"peak_live_bytes": 512}})


@wrong("peak", field="usage[activations].peak_live_bytes")
def peak_overstated() -> Plan:
    """1,024 bytes are stated to be live at once; there are never more than 768."""
    return edit(right(skip()), usage={"activations": {"peak_live_bytes": 1024}})


@wrong("peak", field="usage[activations].peak_live_bytes at peak_step")
def peak_at_another_step() -> Plan:
    """The peak is stated to be at step 0, where 512 bytes are live."""
    return edit(right(skip()), usage={"activations": {"peak_step": 0}})
