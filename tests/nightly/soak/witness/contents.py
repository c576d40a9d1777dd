"""Witnesses about accesses and contents: what the sentence says of a step is looked up, one kind after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.nightly.soak.witness.places import row_of, step_of
from tests.nightly.soak.witness.written import loops, overwritten, reads_again, results, returned_by, root, writers
from tests.support.execution import ELEMENTWISE
from tmmu.core.columns import NONE
from tmmu.core.dtypes import BITS
from tmmu.core.vocabulary import MAIN, NodePart, Role, Shares
from tmmu.plans.columns import IS_INPUT, PARTS, ROLES, SHARES
from tmmu.plans.sections import Plan
from tmmu.testing.catalogue.reading import address, is_callers, is_kept, is_view, meet, returned
from tmmu.testing.strategies.recipes import WHOLE_VIEWS

Witness = Mapping[str, Any]
GRADIENTS = "tmmu.grad"
SHOWN = {"": WHOLE_VIEWS, GRADIENTS: ("AddGrad", "SumGrad")}
"""The operators of the cases, by domain, whose result shows operand 0; other domains are taken as the plan declares."""
OVERWRITTEN = {"": {**ELEMENTWISE, "Tanh": 1}, GRADIENTS: {"ReluGrad": 1, "TanhGrad": 1}}
"""How many of their first operands result 0 may be written over."""
CALLERS = (Role.INPUT, Role.PARAMETER, Role.OPTIMIZER)


def outlived(plan: Plan, donated: frozenset[str], w: Witness) -> bool:
    """The step, or the caller, does what is stated; and the tensor is not live then, or not written yet."""
    t, row, step, text = plan.allocation.tensors, row_of(plan, w["tensors"][0]), step_of(w), w["text"]
    by, writer = writers(plan, row), int(t.writer[row])
    if " to be written by " in text:
        return writer != NONE and (not by or by[0] != writer)
    if "has the role" in text:
        is_input = bool(int(t.flags[row]) & IS_INPUT)
        return (ROLES[int(t.role[row])] in CALLERS) != (writer == NONE) or (is_input and writer != NONE)
    if "before step 0, but born" in text:
        return writer == NONE and int(t.birth[row]) != 0
    if step is None:
        return False
    lists = {which: plan.allocation.steps.listed(which) for which in plan.allocation.steps.LISTS}
    here = {which: rows[step] if step < len(rows) else () for which, rows in lists.items()}
    if "without reading and writing" in text:
        return row in here["mutates"] and not (row in here["reads"] and row in here["writes"])
    if "no step writes" in text:
        return row in here["writes"] and row not in here["mutates"] and writer == NONE
    live_then = int(t.birth[row]) <= min(step, plan.allocation.last_step) <= int(t.death[row])
    touched = {*here["reads"], *here["writes"], *reads_again(plan, step), *returned_by(plan, step)}
    if step < len(plan.allocation.steps) and row not in touched:
        return False
    kept = is_kept(plan, row) and t.name[row] not in donated
    if step >= len(plan.allocation.steps) and not (returned(plan, row) or kept):
        return False
    if "which lives over" in text:
        return not live_then
    if "before it is written" not in text or writer == NONE:
        return False
    # Scratch is read by the very step that writes it. What a loop returns is whole when the loop is left.
    own = ROLES[int(t.role[row])] is Role.SCRATCH and step in by and row not in here["mutates"] and writer == step
    return not by or (by[0] >= step and not own) or _unfinished(plan, row, step)


def _unfinished(plan: Plan, row: int, step: int) -> bool:
    """Does a step stand in the body of the very node that returns a tensor?"""
    writer = int(plan.allocation.tensors.writer[row])
    return any(
        int(e) < step < int(v) == writer
        for e, v in zip(plan.allocation.bodies.enter, plan.allocation.bodies.leave, strict=True)
        if e != NONE
    )


def shared(plan: Plan, donated: frozenset[str], w: Witness) -> bool:
    """What the sentence says of the step, the tensors and their bytes is so, one kind of sentence after the other."""
    t, step, text = plan.allocation.tensors, step_of(w), w["text"]
    row = row_of(plan, w["tensors"][0])
    other = row_of(plan, w["tensors"][1]) if len(w["tensors"]) > 1 and w["tensors"][1] != "nothing" else None
    if " is stated to be " in text:
        return other is not None and int(t.of[row]) == other and not _as_stated(plan, donated, row, other)
    if step is None:
        return False
    lists = {which: plan.allocation.steps.listed(which) for which in plan.allocation.steps.LISTS}
    here = {which: rows[step] if step < len(rows) else () for which, rows in lists.items()}
    made = {*here["writes"], *returned_by(plan, step)}
    if "whose bytes hold" in text:
        return overwritten(plan, row, other, step, w["first_byte"], w["last_byte"])
    if "in the same bytes" in text:
        return other is not None and is_callers(plan, row) and is_callers(plan, other) and meet(plan, row, other)
    if row not in made:
        return False
    if "which was written before" in text:
        # The results of a loop count as written when it is entered.
        begun = any(e < step < v and row in results(plan, e, v) for e, v in loops(plan))
        return row not in here["mutates"] and (is_callers(plan, row) or writers(plan, row)[0] < step or begun)
    if "which the caller has not donated" in text:
        return row in here["mutates"] and is_callers(plan, row) and t.name[row] not in donated
    if "a view, and with it" in text:
        return row in here["mutates"] and is_view(plan, row)
    if other is None:
        return False
    if "a view, but not of the bytes of" in text:
        return SHARES[int(t.shares[row])] is Shares.VIEW and int(t.of[row]) == other and not _shows(plan, row, other)
    if "to the same bytes" in text:
        return other in made and row != other and meet(plan, row, other)
    if "which it reads" not in text or other not in {*here["reads"], *reads_again(plan, step)}:
        return False
    return meet(plan, row, other) and not _may_share(plan, donated, row, other, step)


def _as_stated(plan: Plan, donated: frozenset[str], row: int, of: int) -> bool:
    """Does a tensor share with another as it is stated, for the steps alone?"""
    t = plan.allocation.tensors
    if SHARES[int(t.shares[row])] is Shares.ALIAS:
        return bool(t.storage[row] == t.storage[of] and t.window[row] == t.window[of])
    shared_at = not is_callers(plan, row) and _may_share(plan, donated, row, of, int(t.writer[row]))
    return shared_at and (not is_view(plan, row) or _shows(plan, row, of))


def _may_share(plan: Plan, donated: frozenset[str], row: int, of: int, step: int) -> bool:
    """May a result lie in an operand's bytes: as a view, or in place where it is free, by an operator that can?"""
    t, reads, writes = (
        plan.allocation.tensors,
        plan.allocation.steps.listed("reads")[step],
        plan.allocation.steps.listed("writes")[step],
    )
    if int(t.writer[row]) != step or int(t.of[row]) != of or not (is_callers(plan, of) or t.writer[of] < step):
        return False
    mutates = plan.allocation.steps.listed("mutates")
    if sum(row not in mutates[n] for n in writers(plan, row)) > 1:  # what is declared is of one write
        return False
    if int(plan.allocation.steps.body[step]) != (
        MAIN if is_callers(plan, of) else int(plan.allocation.steps.body[int(t.writer[of])])
    ):
        return False
    parts = [PARTS[int(plan.allocation.steps.part[n])] for n in (step, int(t.writer[of])) if n != NONE]
    if (
        parts[0] is not NodePart.WHOLE or NodePart.ENTER in parts
    ):  # what an enter writes is given again in each iteration
        return False
    same = (address(plan, row), int(t.bytes[row])) == (address(plan, of), int(t.bytes[of]))
    domain, op = plan.allocation.ops[int(plan.allocation.steps.op[step])]
    if is_view(plan, row):
        whole = bool(t.bytes[row] == t.bytes[of] and t.dtype[row] == t.dtype[of])
        known = op in SHOWN.get(domain, ()) and whole and reads[0] == of and (domain != "" or row in writes[:1])
        return known if domain in SHOWN else _shows(plan, row, of)
    bits = [BITS[plan.allocation.dtypes[int(t.dtype[r])]] for r in (row, of)]
    # Where elements are narrower than a byte, equal bytes do not show equal shapes; those of a sole operand do.
    operands = [r for r in reads if ROLES[int(t.role[r])] is not Role.SCRATCH or int(t.writer[r]) != step]
    read_in_time = reads.index(of) < OVERWRITTEN.get(domain, {}).get(op, 0) and row in writes[:1]
    able = bits[0] == bits[1] and (domain not in SHOWN or (read_in_time and (bits[0] >= 8 or len(operands) == 1)))
    base = root(plan, of)
    free = not is_callers(plan, base) or t.name[base] in donated
    alone = not any(r != of and meet(plan, r, of) for r in reads)
    return SHARES[int(t.shares[row])] is Shares.IN_PLACE and same and able and free and alone


def _shows(plan: Plan, row: int, base: int) -> bool:
    """Does a view of an operator of ai.onnx lie exactly on its base; of another one, inside?"""
    t, s = plan.allocation.tensors, plan.allocation.storages
    if t.storage[row] != t.storage[base] or s.arena[t.storage[row]] != s.arena[t.storage[base]]:
        return False
    step = int(t.writer[row])
    domain = plan.allocation.ops[int(plan.allocation.steps.op[step])][0] if step != NONE else ""
    first = address(plan, row) - address(plan, base)
    inside = first >= 0 and first + int(t.bytes[row]) <= int(t.bytes[base])
    return inside and (bool(domain) or first == 0)
