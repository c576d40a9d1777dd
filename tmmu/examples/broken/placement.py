"""Plans with wrong addresses: overlapping, misaligned, out of bounds, or unlike those of slots and storages."""

from __future__ import annotations

from dataclasses import replace

from tmmu.core.vocabulary import UINT64_END
from tmmu.examples.broken.editing import counted, edit, moved, right, slot_of, with_arena
from tmmu.examples.broken.kinds import wrong
from tmmu.examples.broken.models import skip
from tmmu.examples.broken.sketch import model
from tmmu.plans.sections import Plan


@wrong("no_live_overlap", "a", "b")
def slot_shared_by_live_storages() -> Plan:
    """The storages of `a` and `b` have one slot and one address, and both are live when `b` is made from `a`."""
    return moved(right(skip()), "b", onto="a")


@wrong("no_live_overlap", "a", "x")
def slots_overlap_by_one_byte() -> Plan:
    """`x` has 257 bytes and `a` begins at byte 256 of the arena, so that they have exactly that byte in common."""
    made = model("""
        tensor x u8 257 input
        node a MatMul x x -> a
    """)
    return counted(edit(right(made), storages={"a": {"offset": 256}}))


@wrong("no_live_overlap", "b", "c")
def slots_overlap_by_half() -> Plan:
    """The slot of `c` begins in the middle of the slot of `b`."""
    return counted(edit(right(skip()), storages={name: {"offset": 384} for name in ("c", "y")}))


@wrong("no_live_overlap")
def every_storage_in_one_slot() -> Plan:
    """All storages of the arena of activations are at its begin, in its first slot."""
    plan = right(skip())
    place = {"slot": slot_of(plan, "a"), "offset": 0}
    return counted(edit(plan, storages=dict.fromkeys(("x", "b", "c", "d", "y"), place)))


@wrong("no_live_overlap", "b", "d")
def one_slot_at_two_offsets() -> Plan:
    """`x`, `b` and `d` share one slot, but `d` is beyond all slots."""
    return counted(edit(right(skip()), storages={"d": {"offset": 768}}))


@wrong("alignment", "c")
def storage_misaligned() -> Plan:
    """The third slot begins at byte 576, though its arena aligns slots to 128."""
    plan = right(skip())
    return counted(edit(plan, storages={name: {"offset": 576} for name in ("c", "y")}))


@wrong("alignment", "c")
def alignment_no_power_of_two() -> Plan:
    """The storage of `c` is stated to be aligned to 96 bytes, which is not a power of two."""
    return edit(right(skip()), storages={"c": {"alignment": 96}})


@wrong("alignment")
def empty_arena_aligned_to_three() -> Plan:
    """The arena of gradients, which is empty, is aligned to 3 bytes, which is not a power of two."""
    return with_arena(right(skip()), 3, alignment=3)


@wrong("alignment", "v")
def tensor_misaligned() -> Plan:
    """`v` is a window of float32 that begins at byte 2 of its base."""
    made = model("""
        tensor w f32 4096 parameter
        tensor v f32 32 view a 0
        tensor y f32 32 output
        node a MatMul x w -> a
        node v com.example::Window a -> v
        node y Relu v -> y
    """)
    return edit(right(made), tensors={"v": {"window": 2}})


@wrong("alignment", "a", field="base alignment of activations")
def base_alignment_understated() -> Plan:
    """`a` must be at a multiple of 4,096 bytes, and the plan states that any multiple of 128 will do for a base."""
    made = model("""
        tensor a f32 64 align 4096
        node a MatMul x x -> a
    """)
    return with_arena(right(made), 2, base_alignment=0)


@wrong("capacity")
def capacity_exceeded() -> Plan:
    """The arena holds 512 bytes, the plan takes 768 of it."""
    plan = right(skip())
    small = tuple(
        replace(arena, capacity=512) if arena.name == "activations" else arena for arena in plan.allocation.arenas
    )
    return edit(plan, arenas=small)


@wrong("capacity", "c")
def footprint_understated() -> Plan:
    """The arena is stated to need 512 bytes, but its last storage ends at 768."""
    return edit(right(skip()), usage={"activations": {"footprint": 512}})


@wrong("capacity", field="usage[activations].footprint")
def footprint_overstated() -> Plan:
    """The arena is stated to need 1,024 bytes, but its last slot ends at 768."""
    return edit(right(skip()), usage={"activations": {"footprint": 1024}})


@wrong("capacity", "c")
def end_beyond_64_bits() -> Plan:
    """`c` begins 128 bytes before the end of the address space, so that its end in 64 bits is byte 128."""
    return edit(right(skip()), storages={"c": {"offset": UINT64_END - 128}})


@wrong("tensors_within_storages", "c")
def storage_smaller_than_its_tensor() -> Plan:
    """The storage of `c` has 128 bytes, the tensor 256."""
    return counted(edit(right(skip()), storages={"c": {"bytes": 128}}))


@wrong("tensors_within_storages", "c")
def window_beyond_the_storage() -> Plan:
    """`c` begins at byte 64 of its storage, which has just the bytes of `c`."""
    return edit(right(skip()), tensors={"c": {"window": 64}})


@wrong("slot_count", "c")
def slot_smaller_than_its_storage() -> Plan:
    """The third slot is stated to have 128 bytes, but holds storages of 256."""
    return edit(right(skip()), slots={"c": {"bytes": 128}})


@wrong("slot_count", "c")
def slot_of_another_arena() -> Plan:
    """The storage of `c` is in the arena of activations but has a slot of the arena of parameters."""
    plan = right(skip())
    return edit(plan, storages={"c": {"slot": slot_of(plan, "w")}})


@wrong("no_live_overlap", "x", "b")
def bytes_used_again_where_an_arena_does_not_reuse() -> Plan:
    """`b` has the bytes of the dead `x`, but the arena states that none of its bytes is reused. Nothing is claimed."""
    allocation = right(skip()).allocation
    return Plan(replace(allocation, arenas=tuple(replace(arena, reuse=False) for arena in allocation.arenas)))
