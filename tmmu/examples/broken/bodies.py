"""Plans that are right in the first iteration of a loop and wrong in the second, or that let a value out of a branch.

The inputs, captured values and results of a loop are needed until it is left for the last time, and handing values to
the next iteration is a simultaneous copy (T8).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tmmu.core.columns import build_column
from tmmu.core.vocabulary import Shares
from tmmu.examples.broken.editing import edit, in_place, laid_out, right, row, shared, step_of
from tmmu.examples.broken.kinds import wrong
from tmmu.examples.broken.models import loop
from tmmu.examples.broken.sketch import model
from tmmu.plans.sections import Plan

LOOP, BODY = "repeat", "repeat/body"


@wrong("lifetimes_cover_accesses", "bias")
def captured_value_overwritten_in_the_second_iteration() -> Plan:
    """`bias` is stated to die at its reader in the loop; the second iteration reads overwritten bytes."""
    plan = right(loop())
    return laid_out(edit(plan, tensors={"bias": {"death": step_of(plan, f"{BODY}/sum")}}))


@wrong("sharing_is_sound", f"{BODY}/sum", "bias")
def captured_value_taken_in_place() -> Plan:
    """A step of the body of a loop takes the bytes of the captured `bias` in place, which the next iteration reads."""
    return in_place(right(loop()), f"{BODY}/sum", "bias")


@wrong("lifetimes_cover_accesses", "left")
def loop_input_overwritten_inside() -> Plan:
    """`left`, an input of the loop, is stated to die when the loop is entered, and the body reuses its bytes."""
    plan = right(loop())
    return laid_out(edit(plan, tensors={"left": {"death": step_of(plan, LOOP)}}))


@wrong("lifetimes_cover_accesses", f"{BODY}/l")
def formal_input_overwritten_inside() -> Plan:
    """The formal input `l` is stated to die at its reader, although the next value is handed over in its bytes."""
    plan = right(loop())
    return laid_out(edit(plan, tensors={f"{BODY}/l": {"death": step_of(plan, f"{BODY}/sum")}}))


@wrong("sharing_is_sound", f"{BODY}/sum", f"{BODY}/l")
def formal_input_taken_in_place() -> Plan:
    """A step of the body of a loop takes the bytes of the formal input of the body in place."""
    return in_place(right(loop()), f"{BODY}/sum", f"{BODY}/l")


@wrong("sharing_is_sound", f"{BODY}/r.copy0", f"{BODY}/l")
def loop_swaps_its_values_in_place() -> Plan:
    """A loop exchanges `r` and `l`, and the copy of `r` overwrites `l` before `l` is copied."""
    return shared(right(loop(swap=True)), f"{BODY}/r.copy0", f"{BODY}/l", Shares.ALIAS)


@wrong("sharing_is_sound", f"{BODY}/r", "right")
def formal_input_in_the_bytes_of_the_loops_input() -> Plan:
    """The formal input `r` is in the bytes of `right`, which the caller did not donate."""
    return shared(right(loop()), f"{BODY}/r", "right", Shares.ALIAS)


@wrong("lifetimes_cover_accesses", "out_left")
def loop_result_born_when_it_is_left() -> Plan:
    """The result of the loop is stated to be born at its leave, but an earlier iteration may write it."""
    plan = right(loop())
    leave = step_of(plan, "y") - 1
    return laid_out(edit(plan, tensors={"out_left": {"birth": leave}}))


@wrong("sharing_is_sound", f"{BODY}/sum")
def body_value_written_again_by_its_leave() -> Plan:
    """The leave of the loop, which completes the results of the loop, writes `sum` too, which the body has written."""
    plan = right(loop())
    leave, value = step_of(plan, "y") - 1, row(plan, f"{BODY}/sum")
    at, flat = plan.allocation.steps.writes_at.tolist(), plan.allocation.steps.writes.tolist()
    flat.insert(at[leave + 1], value)
    bounds = build_column([bound + (step > leave) for step, bound in enumerate(at)], np.uint32)
    return edit(plan, steps=replace(plan.allocation.steps, writes_at=bounds, writes=build_column(flat, np.uint32)))


@wrong("sharing_is_sound", f"{BODY}/v", "bias")
def view_across_the_boundary_of_a_body() -> Plan:
    """An Identity inside the body is declared a view of the captured `bias`, but the values of a body are copies."""
    made = model("""
        tensor w f32 4096 parameter
        node bias MatMul left w -> bias
        begin repeat Loop left -> out_left
        arm body repeat/body/l -> repeat/body/next loop
        node repeat/body/v Identity bias -> repeat/body/v
        node repeat/body/next Add repeat/body/l repeat/body/v -> repeat/body/next
        end repeat
        node y Relu out_left -> y
    """)
    return shared(right(made), f"{BODY}/v", "bias", Shares.VIEW)


@wrong("bodies_nest", "if/then_branch/inner")
def branch_value_read_outside() -> Plan:
    """A step of the main graph reads `inner`, which exists only if the condition holds."""
    return right(
        model("""
        tensor condition bool 1 input
        begin if If condition -> out
        arm then_branch -> if/then_branch/then
        node if/then_branch/inner Relu x -> if/then_branch/inner
        node if/then_branch/then Neg if/then_branch/inner -> if/then_branch/then
        arm else_branch -> if/else_branch/otherwise
        node if/else_branch/otherwise Neg x -> if/else_branch/otherwise
        end if
        node y Add out if/then_branch/inner -> y
    """)
    )


@wrong("bodies_nest")
def loop_declared_to_run_once() -> Plan:
    """The body of the loop is stated not to iterate, but the body of a Loop always may."""
    plan = right(loop())
    return edit(plan, bodies=replace(plan.allocation.bodies, iterates=build_column([0, 0], np.uint8)))


@wrong("bodies_nest")
def branch_declared_to_run_again() -> Plan:
    """The branches of an If are stated to iterate, but they never do."""
    made = model("""
        tensor condition bool 1 input
        begin if If condition -> out
        arm then_branch -> if/then_branch/r
        node if/then_branch/r Relu x -> if/then_branch/r
        arm else_branch -> if/else_branch/r
        node if/else_branch/r Neg x -> if/else_branch/r
        end if
        node y Relu out -> y
    """)
    plan = right(made)
    return edit(plan, bodies=replace(plan.allocation.bodies, iterates=build_column([0, 1, 1], np.uint8)))


@wrong("bodies_nest", f"{BODY}/r", f"{BODY}/r.copy0")
def copy_smaller_than_its_value() -> Plan:
    """The formal input `r` is returned through a copy of half its bytes."""
    plan = right(loop(swap=True))
    copy = f"{BODY}/r.copy0"
    return laid_out(edit(plan, tensors={copy: {"bytes": int(plan.allocation.tensors.bytes[row(plan, copy)]) // 2}}))


@wrong("bodies_nest")
def step_outside_its_body() -> Plan:
    """The step that makes `y` after the loop is stated to be in the body of the loop."""
    plan = right(loop())
    body = plan.allocation.steps.body.tolist()
    body[step_of(plan, "y")] = 1
    return edit(plan, steps=replace(plan.allocation.steps, body=build_column(body, np.uint32)))


@wrong("bodies_nest")
def body_that_ends_before_it_begins() -> Plan:
    """The body is stated to be left at the step before the one that enters it."""
    plan = right(loop())
    enter = int(plan.allocation.bodies.enter[1])
    leaves = build_column([int(plan.allocation.bodies.leave[0]), enter - 1], np.uint32)
    return edit(plan, bodies=replace(plan.allocation.bodies, leave=leaves))
