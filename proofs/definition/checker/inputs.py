"""Decide which of the caller's inputs a plan preserves: those that no step writes a byte of.

An input that the caller does not donate is dead after its last read, and its bytes may then be reused. A plan may keep
inputs instead: it states that the caller reads them after the last step, or that it keeps them all. Whatever a plan
states, its verdict says which inputs are overwritten. Parameters and optimizer state are inputs that are always kept.
Of an input that arrives late, only writes after its arrival count: before that, its bytes are free.
spec: T1.9, Z1.1, Z1.2, Z1.3
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from proofs.definition.violations import Obligation, Violation
from proofs.readers.arrivals import find_late_inputs
from tmmu.core.columns import NONE
from tmmu.core.vocabulary import UINT64_END, Role
from tmmu.plans.allocation import Allocation
from tmmu.plans.columns import IS_OUTPUT, IS_RETURNED, ROLES
from tmmu.plans.sections import Plan

Rows = NDArray[np.int64]
CALLERS = tuple(ROLES.index(role) for role in (Role.INPUT, Role.PARAMETER, Role.OPTIMIZER))
"""The roles of the tensors that the caller writes before step 0."""


class InputFate(NamedTuple):
    """What becomes of the caller's tensors: `inputs` are the undonated ones with bytes, as rows of tensors.

    `overwritten` maps those that a step overwrites to a tensor that it writes to their bytes.
    """

    inputs: tuple[int, ...] = ()
    overwritten: Mapping[int, int] = MappingProxyType({})


def find_overwritten_inputs(plan: Plan, views: Collection[int], donated: Collection[str]) -> InputFate:
    """Find the inputs that a step of a plan overwrites; `views` are tensors that are written by no bytes.

    O(n log n) for n tensors and writes.
    """
    t, arena_of = plan.allocation.tensors, plan.allocation.storages.arena
    late = find_late_inputs(plan.allocation)
    inputs = np.flatnonzero((((t.writer == NONE) & np.isin(t.role, CALLERS)) | late) & (t.bytes > 0))
    if donated:
        names = t.name.list()
        inputs = np.array([row for row in inputs.tolist() if names[row] not in donated], np.int64)
    written = np.zeros(len(t), np.bool_)
    written[plan.allocation.steps.writes] = True
    written[list(views)] = False
    written &= t.bytes > 0
    every, inputs = inputs, inputs[~late[inputs]]
    held = arena_of[t.storage[inputs]]
    among = np.zeros(len(plan.allocation.arenas), np.bool_)
    among[held] = True
    writes = np.flatnonzero(written)
    writes = writes[among[arena_of[t.storage[writes]]]]
    start = plan.allocation.addresses()
    end = start + np.minimum(t.bytes, np.uint64(UINT64_END - 1) - start)
    writes = writes[np.lexsort((start[writes], arena_of[t.storage[writes]]))]
    arenas = arena_of[t.storage[writes]]
    overwritten: dict[int, int] = {}
    for a in np.flatnonzero(among).tolist():
        first, last = np.searchsorted(arenas, [a, a + 1])
        overwritten |= _overlapping(inputs[held == a], writes[first:last], start, end)
    for row in every[late[every]].tolist():
        after = find_writes_after(plan.allocation, row, views)
        overwritten |= _overlapping(np.array([row]), after[np.argsort(start[after], kind="stable")], start, end)
    return InputFate(tuple(every.tolist()), dict(sorted(overwritten.items())))


def find_writes_after(allocation: Allocation, row: int, views: Collection[int]) -> Rows:
    """Return the tensors with bytes that steps write after a late input has arrived, in its arena. O(writes).

    `views` are tensors that are written by no bytes.
    """
    t, steps, arena_of = allocation.tensors, allocation.steps, allocation.storages.arena
    written = np.zeros(len(t), np.bool_)
    written[steps.writes[int(steps.writes_at[int(t.writer[row]) + 1]) :]] = True
    written[list(views)] = False
    return np.flatnonzero(written & (t.bytes > 0) & (arena_of[t.storage] == arena_of[t.storage[row]]))


def _overlapping(inputs: Rows, writes: Rows, start: NDArray[Any], end: NDArray[Any]) -> dict[int, int]:
    """Return the inputs that have a byte in common with a write of their arena. `writes` are in the order of starts.

    Among the writes that begin before an input ends, the one that ends last decides.
    """
    if not len(writes):
        return {}
    ends = end[writes]
    furthest = np.maximum.accumulate(ends)
    reaching = np.maximum.accumulate(np.where(ends == furthest, np.arange(len(ends)), 0))
    before = np.searchsorted(start[writes], end[inputs])  # how many begin before the input ends
    has = before > 0
    at = reaching[np.maximum(before, 1) - 1]
    hit = np.flatnonzero(has & (ends[at] > start[inputs]))
    return dict(zip(inputs[hit].tolist(), writes[at[hit]].tolist(), strict=True))


def find_lost_inputs(plan: Plan, fate: InputFate) -> Iterator[Violation]:
    """Yield each input that the plan keeps, and that dies before the last step or that a step overwrites.

    Of parameters and optimizer state only the lifetime is checked here: the run finds those that are not unchanged.
    """
    t, s, last = plan.allocation.tensors, plan.allocation.storages, plan.allocation.last_step
    rows = np.array(fate.inputs, np.int64)
    is_kept = (t.flags[rows] & (IS_OUTPUT | IS_RETURNED) != 0) | (t.role[rows] != ROLES.index(Role.INPUT))
    for row in rows[is_kept & (t.death[rows] < last)].tolist():
        text = f"the plan keeps {t.name[row]} for the caller, and it dies at step {t.death[row]} of 0 to {last}"
        yield Violation(Obligation.INPUTS_KEPT, text, (t.name[row],))
    keeps_all = plan.provenance is not None and plan.provenance.bindings.keep_inputs
    for row, by in fate.overwritten.items():
        if t.role[row] != ROLES.index(Role.INPUT) or not (keeps_all or t.flags[row] & (IS_OUTPUT | IS_RETURNED)):
            continue
        step = None if t.writer[by] == NONE else int(t.writer[by])
        text = f"the plan keeps the input {t.name[row]}, and {t.name[by]} is written to its bytes"
        at = int(s.offset[t.storage[row]]) + int(t.window[row])
        arena = plan.allocation.arenas[int(s.arena[t.storage[row]])].name
        names = tuple(dict.fromkeys((t.name[row], t.name[by])))
        yield Violation(Obligation.INPUTS_KEPT, text, names, step, arena, at, at + int(t.bytes[row]) - 1)
