"""Plans with wrong lifetimes: too short at either end, beyond the steps, or not within those of their storages.

Most of them reuse the bytes of a lifetime that ends too early, so running them corrupts a tensor.
"""

from __future__ import annotations

from tmmu.core.columns import NONE
from tmmu.core.vocabulary import Role
from tmmu.examples.broken.editing import edit, laid_out, moved, right, row
from tmmu.examples.broken.kinds import wrong
from tmmu.examples.broken.models import ONE_ARENA, skip
from tmmu.examples.broken.sketch import model
from tmmu.plans.columns import IS_RETURNED, ROLES
from tmmu.plans.sections import Plan


@wrong("lifetimes_cover_accesses", "a")
def dies_before_its_last_reader() -> Plan:
    """`a` is stated to die at step 1, `c` takes its bytes at step 2, and step 4 reads `a`."""
    return laid_out(edit(right(skip()), tensors={"a": {"death": 1}}))


@wrong("lifetimes_cover_accesses", "b")
def returned_and_not_kept() -> Plan:
    """The caller is stated to read `b` at the end, but `b` dies at step 2, and `d` takes its bytes."""
    return edit(right(skip()), tensors={"b": {"flags": IS_RETURNED}})


@wrong("lifetimes_cover_accesses", "b")
def born_after_its_writer() -> Plan:
    """`b` is stated to be born at step 2, but step 1 writes it, over the bytes of a storage that still lives."""
    return laid_out(edit(right(skip()), tensors={"b": {"birth": 2}}))


@wrong("tensors_within_storages", "y")
def lives_beyond_the_last_step() -> Plan:
    """`y` is stated to die at step 5 of a plan whose steps are 0 to 4."""
    return laid_out(edit(right(skip()), tensors={"y": {"death": 5}}))


@wrong("tensors_within_storages", "b")
def dies_before_it_is_born() -> Plan:
    """`b` is stated to be born at step 2 and to die at step 1."""
    return laid_out(edit(right(skip()), tensors={"b": {"birth": 2, "death": 1}}))


@wrong("tensors_within_storages", "a")
def outlives_its_storage() -> Plan:
    """`a` lives to step 4, its storage to step 1, and `c` is in the same slot from step 2 on."""
    return moved(edit(right(skip()), storages={"a": {"death": 1}}), "c", onto="a")


@wrong("tensors_within_storages", "d")
def born_before_its_storage() -> Plan:
    """`d` is born at step 3, its storage at step 4."""
    return edit(right(skip()), storages={"d": {"birth": 4}})


@wrong("lifetimes_cover_accesses", "late")
def input_overwritten_before_its_first_reader() -> Plan:
    """The input `late` is stated to be born at its reader, step 2, and another tensor has its bytes before."""
    made = model("""
        tensor w f32 4096 parameter
        node a MatMul x w -> a
        node b MatMul a w -> b
        node y Add b late -> y
    """)
    return laid_out(edit(right(made), tensors={"late": {"birth": 2}}))


@wrong("lifetimes_cover_accesses", "early")
def output_overwritten_after_its_last_step() -> Plan:
    """The output `early` is stated to die at its writer, and its bytes are reused before the caller reads them."""
    made = model("""
        tensor w f32 4096 parameter
        node early MatMul x w -> early
        node a MatMul x w -> a
        node y MatMul a w -> y
    """)
    return laid_out(edit(right(made), tensors={"early": {"death": 0}}))


@wrong("lifetimes_cover_accesses", "first")
def parameter_overwritten_after_its_last_reader() -> Plan:
    """The parameter `first` is stated to die at its only reader, and its bytes are reused, so a second run fails."""
    made = model("""
        tensor first f32 64 parameter
        tensor second f32 64 parameter
        node a MatMul x first -> a
        node b MatMul a second -> b
        node y MatMul b second -> y
    """)
    return laid_out(edit(right(made, arenas=ONE_ARENA), tensors={"first": {"death": 0}}))


@wrong("lifetimes_cover_accesses", "momentum")
def optimizer_state_born_at_its_reader() -> Plan:
    """The optimizer state `momentum` is stated to be born at step 1; step 0 has made a tensor in its bytes."""
    made = model("""
        tensor momentum f32 64 optimizer
        tensor w f32 64 parameter
        node a MatMul x w -> a
        node y Add a momentum -> y
    """)
    return laid_out(edit(right(made, arenas=ONE_ARENA), tensors={"momentum": {"birth": 1}}))


@wrong("lifetimes_cover_accesses", "a")
def saved_tensor_dies_at_its_reader() -> Plan:
    """A forward pass saves `a` for backward, but `a` is stated to die at its last reader, and its bytes are reused."""
    made = model("""
        tensor w f32 4096 parameter
        tensor a f32 64 saved
        node a MatMul x w -> a
        node b MatMul a w -> b
        node c MatMul b w -> c
        node y MatMul c w -> y
    """)
    return laid_out(edit(right(made, mode="forward"), tensors={"a": {"death": 1}}))


@wrong("lifetimes_cover_accesses", "b")
def another_writer_is_stated() -> Plan:
    """`b` is stated to be written by step 2, but step 1 writes it."""
    return edit(right(skip()), tensors={"b": {"writer": 2}})


@wrong("lifetimes_cover_accesses", "b")
def written_by_the_caller_and_by_a_step() -> Plan:
    """`b` is stated to be an input that the caller writes, but step 1 writes it."""
    plan = right(skip())
    assert int(plan.allocation.tensors.writer[row(plan, "b")]) == 1
    return laid_out(edit(plan, tensors={"b": {"writer": NONE, "role": ROLES.index(Role.INPUT), "birth": 0}}))
