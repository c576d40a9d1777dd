"""Witnesses about accesses and contents: what the sentence says of a step is looked up, one kind after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.soak.lies.telling import address, is_callers, is_view, meet
from tests.soak.witness.places import row_of, step_of
from tests.soak.witness.written import overwritten, reads_again, writers
from tmmu.plan.columns import IS_INPUT, NONE, ROLES, SHARES, Plan
from tmmu.vocabulary import Role, Shares

Witness = Mapping[str, Any]
CALLERS = (Role.INPUT, Role.PARAMETER, Role.OPTIMIZER)


def outlived(plan: Plan, w: Witness) -> bool:
    """The step, or the caller, does what is said; and the tensor is not live then, or not written yet."""
    t, row, step, text = plan.tensors, row_of(plan, w["tensors"][0]), step_of(w), w["text"]
    by, writer = writers(plan, row), int(t.writer[row])
    if "is said to be written" in text:
        return writer != NONE and (not by or by[0] != writer)
    if "has the role" in text:
        is_input = bool(int(t.flags[row]) & IS_INPUT)
        return (ROLES[int(t.role[row])] in CALLERS) != (writer == NONE) or (is_input and writer != NONE)
    if "before step 0, but born" in text:
        return writer == NONE and int(t.birth[row]) != 0
    if step is None:
        return False
    lists = {which: plan.steps.listed(which) for which in plan.steps.LISTS}
    here = {which: rows[step] if step < len(rows) else () for which, rows in lists.items()}
    if "without reading and writing" in text:
        return row in here["mutates"] and not (row in here["reads"] and row in here["writes"])
    if "which the plan says no step writes" in text:
        return row in here["writes"] and row not in here["mutates"] and writer == NONE
    live_then = int(t.birth[row]) <= min(step, plan.last_step) <= int(t.death[row])
    touched = {*here["reads"], *here["writes"], *reads_again(plan, step), *_returned_by(plan, step)}
    if step < len(plan.steps) and row not in touched:
        return False
    if "which lives over" in text:
        return not live_then
    # What a loop returns is whole when the loop is left; what a step writes is written after it.
    return (
        "before it is written" in text and writer != NONE and (not by or by[0] >= step or _unfinished(plan, row, step))
    )


def _unfinished(plan: Plan, row: int, step: int) -> bool:
    """Does a step stand in the body of the very node that returns a tensor?"""
    writer = int(plan.tensors.writer[row])
    return any(
        int(e) < step < int(v) == writer for e, v in zip(plan.bodies.enter, plan.bodies.leave, strict=True) if e != NONE
    )


def shared(plan: Plan, donated: frozenset[str], w: Witness) -> bool:
    """What the sentence says of the step, the tensors and their bytes is so, one kind of sentence after the other."""
    t, step, text = plan.tensors, step_of(w), w["text"]
    if step is None:
        return False
    row = row_of(plan, w["tensors"][0])
    other = row_of(plan, w["tensors"][1]) if len(w["tensors"]) > 1 and w["tensors"][1] != "nothing" else None
    lists = {which: plan.steps.listed(which) for which in plan.steps.LISTS}
    here = {which: rows[step] if step < len(rows) else () for which, rows in lists.items()}
    made = {*here["writes"], *(r for r in reads_again(plan, step) if writers(plan, r)), *_returned_by(plan, step)}
    if "whose bytes hold" in text:
        return overwritten(plan, row, other, step, w["first_byte"], w["last_byte"])
    if "in the same bytes" in text:
        return other is not None and is_callers(plan, row) and is_callers(plan, other) and meet(plan, row, other)
    if row not in made:
        return False
    if "which was written before" in text:
        return row not in here["mutates"] and (
            is_callers(plan, row) or writers(plan, row)[0] < step or _unfinished_at(plan, row, step)
        )
    if "has not donated" in text:
        return row in here["mutates"] and is_callers(plan, row) and t.name[row] not in donated
    if "a view, and with it" in text:
        return row in here["mutates"] and is_view(plan, row)
    if other is None:
        return False
    if "a view, but not of the bytes of" in text:
        return SHARES[int(t.shares[row])] is Shares.VIEW and int(t.of[row]) == other and not _shows(plan, row, other)
    if "to the same bytes" in text:
        return other in made and row != other and meet(plan, row, other)
    return "which it reads" in text and other in {*here["reads"], *reads_again(plan, step)} and meet(plan, row, other)


def _returned_by(plan: Plan, step: int) -> set[int]:
    """What a loop's node returns, whose bytes are taken from its enter on."""
    leaves = [int(v) for e, v in zip(plan.bodies.enter, plan.bodies.leave, strict=True) if int(e) == step]
    return {r for leave in leaves if leave < len(plan.steps) for r in plan.steps.listed("writes")[leave]}


def _unfinished_at(plan: Plan, row: int, step: int) -> bool:
    """Does a step stand in the body of the node that returns a tensor, or enter it?"""
    writer = int(plan.tensors.writer[row])
    return any(
        int(e) <= step <= int(v) == writer
        for e, v in zip(plan.bodies.enter, plan.bodies.leave, strict=True)
        if e != NONE
    )


def _shows(plan: Plan, row: int, base: int) -> bool:
    """Does a view of an operator of ai.onnx lie exactly on its base; of another one, inside?"""
    t, s = plan.tensors, plan.storages
    if t.storage[row] != t.storage[base] or s.arena[t.storage[row]] != s.arena[t.storage[base]]:
        return False
    step = int(t.writer[row])
    domain = plan.ops[int(plan.steps.op[step])][0] if step != NONE else ""
    first = address(plan, row) - address(plan, base)
    inside = first >= 0 and first + int(t.bytes[row]) <= int(t.bytes[base])
    return inside and (bool(domain) or first == 0)
