"""Plans whose branches exclude each other and that are wrong on one of the paths through them (X4).

Each is made from a right plan in which exactly one branch of an If runs at each visit: both branches may write one
tensor, and a value that only one branch uses dies with the branch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tmmu.core.columns import build_column
from tmmu.core.vocabulary import Model, Shares
from tmmu.examples.broken.editing import edit, in_place, laid_out, moved, right, row, shared, without
from tmmu.examples.broken.kinds import wrong
from tmmu.examples.broken.models import loop
from tmmu.examples.broken.sketch import model
from tmmu.plans.columns import IS_RETURNED, Steps
from tmmu.plans.sections import Plan

IF = "left/If"
THEN, ELSE = f"{IF}/then_branch", f"{IF}/else_branch"
ONE, TWO, THREE, FOUR = f"{THEN}/one", f"{THEN}/two", f"{ELSE}/three", f"{ELSE}/four"
LOOP_ELSE = "out/Loop/body/chosen/If/else_branch"
INNER = "out/If/then_branch/inner"


def switch(second: str = "MatMul", reader: str = THEN) -> Model:
    """Build an If whose branches each return two values; only the branch `reader` captures `c`.

    Steps: 0 makes `c`; 1 enters; 2 and 3 make `one` and `two` of it; 4 and 5 make `three` and `four`; 6 leaves; 7 makes
    the output `y` of `left` and `right`. The second steps of the branches have the operator `second`.
    """
    then, other = ("c", "x") if reader == THEN else ("x", "c")
    w = " w" if second == "MatMul" else ""
    return model(f"""
        tensor condition bool 1 input
        tensor w f32 4096 parameter
        node c MatMul x w -> c
        begin {IF} If condition -> left right
        arm then_branch -> {ONE} {TWO}
        node {ONE} MatMul {then} w -> {ONE}
        node {TWO} {second} {ONE}{w} -> {TWO}
        arm else_branch -> {THREE} {FOUR}
        node {THREE} MatMul {other} w -> {THREE}
        node {FOUR} {second} {THREE}{w} -> {FOUR}
        end {IF}
        node y Add left right -> y
    """)


def nested() -> Model:
    """Build an If in the first branch of an If, each branch with one result.

    Steps 2 to 5 are those of the inner If, step 6 that of the other branch.
    """
    return model(f"""
        tensor condition bool 1 input
        tensor w f32 4096 parameter
        begin out/If If condition -> out
        arm then_branch -> {INNER}
        begin {INNER}/If If condition -> {INNER}
        arm then_branch -> {INNER}/If/then_branch/one
        node {INNER}/one MatMul x w -> {INNER}/If/then_branch/one
        arm else_branch -> {INNER}/If/else_branch/two
        node {INNER}/two MatMul x w -> {INNER}/If/else_branch/two
        end {INNER}/If
        arm else_branch -> out/If/else_branch/three
        node three MatMul x w -> out/If/else_branch/three
        end out/If
        node y Relu out -> y
    """)


def branch_in_a_loop() -> Model:
    """Build a loop whose body runs one branch of an If: only the first reads `bias`, which the loop captures.

    Steps: 0 makes `bias`; 1 enters the loop, 2 makes `flag`, 3 enters the If; 4 makes `used`; 5 and 6 make `first` and
    `other`; 7 leaves the If, 8 makes `next`, 9 leaves the loop, 10 makes `y`.
    """
    body = "out/Loop/body"
    return model(f"""
        tensor w f32 4096 parameter
        tensor {body}/flag bool 1
        node bias MatMul x w -> bias
        begin out/Loop Loop x -> out
        arm body {body}/v -> {body}/next loop
        node flag ReduceMax {body}/v -> {body}/flag
        begin {body}/chosen/If If {body}/flag -> {body}/chosen
        arm then_branch -> {body}/chosen/If/then_branch/used
        node used MatMul bias w -> {body}/chosen/If/then_branch/used
        arm else_branch -> {LOOP_ELSE}/other
        node first MatMul {body}/v w -> {LOOP_ELSE}/first
        node other MatMul {LOOP_ELSE}/first w -> {LOOP_ELSE}/other
        end {body}/chosen/If
        node next MatMul {body}/chosen w -> {body}/next
        end out/Loop
        node y Relu out -> y
    """)


def exclusive(plan: Plan, *nodes: str) -> Plan:
    """Return the plan with the bodies of these nodes declared exclusive; without nodes, those of every If."""
    b, names = plan.allocation.bodies, plan.allocation.steps.node.list()
    chosen = [bool(k) and (names[int(b.enter[k])] in nodes if nodes else not b.iterates[k]) for k in range(len(b))]
    return edit(plan, bodies=replace(b, exclusive=build_column(np.array(chosen), np.uint8)))


def accesses(plan: Plan, changes: dict[tuple[str, int], tuple[str, ...]]) -> Plan:
    """Return the plan in which steps access other tensors; `changes` are by "reads" or "writes" and step."""
    columns: dict[str, Any] = {}
    for which in Steps.LISTS:
        lists = plan.allocation.steps.listed(which)
        for (kind, step), names in changes.items():
            if kind == which:
                lists[step] = tuple(row(plan, name) for name in names)
        columns[which] = build_column([t for each in lists for t in each], np.uint32)
        columns[f"{which}_at"] = build_column(np.cumsum([0, *map(len, lists)]), np.uint32)
    return edit(plan, steps=replace(plan.allocation.steps, **columns))


def taken(model: Model) -> Plan:
    """Return the right plan in which results of a branch die at its last step, and other branches reuse their bytes."""
    plan = exclusive(right(model))
    lives = {}
    for name, writer in zip(plan.allocation.tensors.name, plan.allocation.tensors.writer.tolist(), strict=True):
        body = int(plan.allocation.steps.body[writer]) if writer < len(plan.allocation.steps) else 0
        if plan.allocation.bodies.exclusive[body] and int(plan.allocation.bodies.enter[body]) != writer:
            lives[name] = {"death": max(np.flatnonzero(plan.allocation.steps.body == body).tolist())}
    return laid_out(edit(plan, tensors=lives))


def both_write(last: str = "right") -> Plan:
    """Return the right plan in which each branch writes `left` and `right`, and the leave does nothing.

    `last` is the tensor that the second branch writes last; the plan is wrong unless it is `right`.
    """
    plan = exclusive(right(switch()))
    changed = accesses(
        plan,
        {
            ("writes", 2): ("left",), ("reads", 3): ("left", "w"), ("writes", 3): ("right",),
            ("writes", 4): ("left",), ("reads", 5): ("left", "w"), ("writes", 5): (last,),
            ("reads", 6): (), ("writes", 6): (),
        },
    )  # fmt: skip
    lives = {"left": {"birth": 2, "writer": 2}, "right": {"birth": 3, "writer": 3}, FOUR: {"death": 5}}
    return without(edit(changed, tensors=lives), *(name for name in (ONE, TWO, THREE, FOUR) if name != last))


def inner_arms_write(last: str = INNER) -> Plan:
    """Return the right plan in which each branch of the inner If writes `inner`, which the outer If takes.

    `last` is the tensor that its second branch writes; the plan is wrong unless it is `inner`.
    """
    one, two = (f"{INNER}/If/{branch}" for branch in ("then_branch/one", "else_branch/two"))
    plan = taken(nested())
    changed = accesses(plan, {("writes", 2): (INNER,), ("writes", 3): (last,), ("reads", 4): (), ("writes", 4): ()})
    lives = {INNER: {"birth": 2, "writer": 2}, two: {"death": 3}}
    return without(laid_out(edit(changed, tensors=lives)), *(name for name in (one, two) if name != last))


def one_place() -> Plan:
    """Return the right plan in which `left` takes the bytes of `one`, which becomes it, and `right` those of `four`."""
    return moved(moved(taken(switch()), "left", onto=ONE), "y", onto=TWO)


RIGHT: dict[str, Callable[[], Plan]] = {
    "one-place": one_place,
    "both-write": both_write,
    "nested": lambda: taken(nested()),
    "inner-arms-write": inner_arms_write,
    "branch-in-a-loop": lambda: taken(branch_in_a_loop()),
}
"""The right plans from which these wrong plans are made."""


@wrong("lifetimes_cover_accesses", "bias")
def captured_value_overwritten_by_the_arm_that_does_not_read_it() -> Plan:
    """The lifetime of `bias` ends in its reading branch; the other one overwrites it before the next iteration."""
    return laid_out(edit(taken(branch_in_a_loop()), tensors={"bias": {"death": 4}}))


@wrong("sharing_is_sound", "bias", f"{LOOP_ELSE}/first")
def captured_value_shared_with_the_other_arm() -> Plan:
    """The branch that does not read `bias` makes `first` in its bytes, which the next iteration may read."""
    return shared(taken(branch_in_a_loop()), f"{LOOP_ELSE}/first", "bias", Shares.ALIAS)


@wrong("sharing_is_sound", "c", ONE)
def value_that_a_later_arm_reads_overwritten_by_an_earlier() -> Plan:
    """The first branch makes `one` in the bytes of `c`, which lives through both and which only the second reads."""
    return shared(exclusive(right(switch(reader=ELSE))), ONE, "c", Shares.ALIAS)


@wrong("lifetimes_cover_accesses", ONE)
def arm_reads_what_its_sibling_wrote() -> Plan:
    """The second branch reads `one`, which only the first branch writes."""
    return accesses(exclusive(right(switch())), {("reads", 4): (ONE, "w")})


@wrong("lifetimes_cover_accesses", "right")
def result_that_one_arm_does_not_write() -> Plan:
    """Both branches write `left`, but only the first writes `right`, which is read afterwards."""
    return both_write(last=FOUR)


@wrong("lifetimes_cover_accesses", INNER)
def result_that_one_inner_arm_does_not_write() -> Plan:
    """Only the first branch of the inner If writes `inner`, which the outer If returns."""
    return inner_arms_write(last=f"{INNER}/If/else_branch/two")


@wrong("lifetimes_cover_accesses", ONE)
def returned_value_that_one_arm_does_not_write() -> Plan:
    """The caller reads `one` after the last step, but only the first branch writes it."""
    return laid_out(edit(exclusive(right(switch())), tensors={ONE: {"death": 7, "flags": IS_RETURNED}}))


@wrong("sharing_is_sound", "left", TWO)
def swap_through_a_leave() -> Plan:
    """`left` has the bytes of `two`, which becomes `right` at the same moment."""
    return taken(switch())


@wrong("lifetimes_cover_accesses", ONE)
def output_of_an_arm_that_dies_inside_it() -> Plan:
    """The lifetime of `one`, which the If takes after the first branch, ends before the last step of the branch."""
    plan = accesses(taken(switch()), {("reads", 3): ("c", "w")})
    return laid_out(edit(plan, tensors={ONE: {"death": 2}, "c": {"death": 3}}))


@wrong("sharing_is_sound", ONE, TWO)
def output_of_an_arm_taken_in_place_at_its_end() -> Plan:
    """The last step of the first branch makes `two` in the bytes of `one`, which the If takes afterwards."""
    return in_place(taken(switch("Relu")), TWO, ONE)


@wrong("sharing_is_sound", "left")
def both_arms_write_undeclared() -> Plan:
    """Both branches write `left` and `right`, and the plan does not declare that only one of them runs."""
    plan = both_write()
    return edit(plan, bodies=replace(plan.allocation.bodies, exclusive=build_column([0, 0, 0], np.uint8)))


@wrong("sharing_is_sound", "left")
def leave_writes_what_the_arms_wrote() -> Plan:
    """Both branches write `left`, and the leave writes it again."""
    return accesses(both_write(), {("writes", 6): ("left",)})


@wrong("sharing_is_sound", "left")
def arm_writes_twice() -> Plan:
    """The first branch writes `left` in both of its steps."""
    return accesses(both_write(), {("writes", 3): ("left", "right"), ("reads", 3): ("x", "w")})


@wrong("bodies_nest")
def loop_with_exclusive_arms() -> Plan:
    """The body of a loop is declared exclusive, and not to iterate."""
    plan = exclusive(right(loop()), "repeat")
    return edit(plan, bodies=replace(plan.allocation.bodies, iterates=build_column([0, 0], np.uint8)))


@wrong("bodies_nest")
def one_arm_declared_exclusive() -> Plan:
    """Only the first of the two bodies of an If is declared exclusive."""
    plan = right(switch())
    return edit(plan, bodies=replace(plan.allocation.bodies, exclusive=build_column([0, 1, 0], np.uint8)))
