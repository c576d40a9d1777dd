"""Wrong plans of the layouts other than `slots`: packed byte by byte, in pools, or hashed over 64 bits."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from tmmu.core.vocabulary import UINT64_END, Model
from tmmu.examples.broken.editing import counted, edit, offset_of, slot_of
from tmmu.examples.broken.kinds import wrong
from tmmu.examples.broken.models import skip
from tmmu.examples.broken.sketch import model
from tmmu.planner import PlanOptions, plan_memory
from tmmu.plans.sections import Plan, amend_plan


def uneven() -> Model:
    """Build a model with storages of unequal size, which separate slots would make larger than necessary.

    Steps: 0 makes `a` (512 bytes) of `x` (256), 1 `b` (128) of `a`, 2 `c` (1,024) of `b`, 3 the output `y` (256) of `b`
    and `c`.
    """
    return model("""
        tensor x f32 64 input
        tensor a f32 128
        tensor b f32 32
        tensor c f32 256
        node a MatMul x -> a
        node b MatMul a -> b
        node c MatMul b -> c
        node y MatMul b c -> y
    """)


def packed() -> Plan:
    """Return the right plan of `uneven`, packed."""
    return plan_memory(uneven(), options=PlanOptions(layout="packed")).plan


def pooled() -> Plan:
    """Return the right plan of `skip` in pools."""
    return plan_memory(skip(), options=PlanOptions(layout="pools")).plan


TOKEN = hashlib.sha512(b"a token that everybody knows").digest()


def scattered(plan: Plan) -> Plan:
    """Return a plan with slots, stated to be hashed: any addresses are right, the footprint is the sum of its slots."""
    arenas = tuple(replace(arena, scattered=arena.reuse) for arena in plan.allocation.arenas)
    return amend_plan(plan, arenas=arenas, layout="hashed", address_token_digest=hashlib.sha256(TOKEN).digest())


def hashed() -> Plan:
    """Return a right plan of the layout `hashed`, whose slots are consecutive, as they could be by chance."""
    return scattered(plan_memory(skip(), options=PlanOptions(layout="slots")).plan)


@wrong("no_live_overlap", "b", "c")
def packed_storage_inside_another() -> Plan:
    """`b` is within the bytes of `c`, which is written while `b` is read."""
    plan = packed()
    return counted(edit(plan, storages={"b": {"offset": offset_of(plan, "c") + 896}}))


@wrong("no_live_overlap", "b", "c")
def packed_storages_overlap_by_one_byte() -> Plan:
    """`b` begins at the last byte of `c`, as in a plan that takes the last byte for the first free one."""
    plan = packed()
    lax = tuple(replace(arena, alignment=1) for arena in plan.allocation.arenas)
    place = {"offset": offset_of(plan, "c") + 1023, "alignment": 1}
    return counted(edit(plan, storages={"b": place}, tensors={"b": {"alignment": 1}}, arenas=lax))


@wrong("no_live_overlap", "a", "x")
def packed_storages_all_at_byte_0() -> Plan:
    """All storages begin at byte 0: each would be right if all others were dead."""
    return counted(edit(packed(), storages={name: {"offset": 0} for name in ("x", "a", "b", "c", "y")}))


@wrong("slot_count", "a", "b")
def packed_slot_shared_by_live_storages() -> Plan:
    """No byte is shared, but `a` and `b` are stated to share one logical slot, and live at one step."""
    plan = packed()
    return edit(plan, storages={"b": {"slot": slot_of(plan, "a")}})


@wrong("alignment", "b")
def packed_storage_misaligned() -> Plan:
    """`b` begins 4 bytes after a multiple of 128, which suits its elements but not its arena."""
    plan = packed()
    return counted(edit(plan, storages={"b": {"offset": offset_of(plan, "b") + 4}}))


@wrong("alignment", "x")
def packed_slot_alignment_no_power_of_two() -> Plan:
    """A slot states an alignment of 129, in a layout whose slots have no address."""
    return edit(packed(), slots={"x": {"alignment": 129}})


@wrong("capacity", field="usage[activations].footprint")
def packed_footprint_overstated() -> Plan:
    """The arena is stated to need 128 bytes more than the end of its last storage."""
    return _with_footprint(packed(), 128)


@wrong("capacity")
def packed_footprint_understated() -> Plan:
    """The arena is stated to need 128 bytes less than the end of its last storage."""
    return _with_footprint(packed(), -128)


@wrong("no_live_overlap", "b", "c")
def pool_shared_by_live_storages() -> Plan:
    """`b` and `c` are in one pool, although `c` is made from `b`."""
    plan = pooled()
    return edit(plan, storages={"c": {"offset": offset_of(plan, "b")}})


@wrong("no_live_overlap", "a", "x")
def hashed_slots_collide() -> Plan:
    """Two slots have half of their bytes in common, and so do their storages."""
    plan = hashed()
    return edit(plan, storages={name: {"offset": offset_of(plan, "a") + 128} for name in ("x", "b", "d")})


@wrong("no_live_overlap", "big", "q")
def hashed_slots_collide_at_different_steps() -> Plan:
    """Two slots have bytes in common, although their storages never live at one step: no mapping can hold both slots.

    The slot of `p` is as large as `big`, which used it before, and reaches over the slot of `q`.
    """
    made = model("""
        tensor big f32 256
        node big MatMul x -> big
        node s MatMul big -> s
        node split Split s -> p q
        node y MatMul p q -> y
    """)
    plan = scattered(plan_memory(made, options=PlanOptions(layout="slots")).plan)
    return edit(plan, storages={"q": {"offset": offset_of(plan, "big") + 512}})


@wrong("capacity", field="usage[activations].footprint")
def hashed_footprint_is_an_end() -> Plan:
    """The arena is stated to need all bytes up to the end of its last slot, not those of its slots."""
    plan = hashed()
    offset = 1 << 40
    moved = edit(plan, storages={name: {"offset": offset} for name in ("c", "y")})
    return edit(moved, usage={"activations": {"footprint": offset + 256}})


@wrong("capacity", "c")
def hashed_slot_ends_beyond_64_bits() -> Plan:
    """The slot of `c` begins 128 bytes before the end of the address space."""
    return edit(hashed(), storages={name: {"offset": UINT64_END - 128} for name in ("c", "y")})


def _with_footprint(plan: Plan, more: int) -> Plan:
    used = next(u for a, u in zip(plan.allocation.arenas, plan.usage, strict=True) if a.name == "activations")
    return edit(plan, usage={"activations": {"footprint": (used.footprint or 0) + more}})


@wrong("offsets_are_fixed", "c", field="provenance.fixed")
def fixed_tensor_moved() -> Plan:
    """`c` is fixed at byte 128, but is above all others, where it overlaps nothing."""
    plan = plan_memory(uneven(), options=PlanOptions(layout="packed", fixed={"c": 128})).plan
    return counted(edit(plan, storages={"c": {"offset": 2048}}))
