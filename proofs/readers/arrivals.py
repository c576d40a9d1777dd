"""Inputs that arrive late: which steps are arrivals, at which the caller writes, and whether they do nothing else.

The caller writes a late input at an arrival, a step of the main graph that reads nothing. For everything else that
is shown of a plan, an arrival is a step like any other, whose kernel is the caller. spec: T1.9, V1.18
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tmmu.core.columns import NONE
from tmmu.core.output import list_names
from tmmu.core.vocabulary import ARRIVAL, MAIN, NodePart, Role
from tmmu.plans.allocation import Allocation
from tmmu.plans.columns import IS_INPUT, PARTS, ROLES

Mask = NDArray[np.bool_]


class WrongArrival(NamedTuple):
    """An arrival that does more than write inputs, and the tensor that shows it, if one does."""

    step: int
    tensor: int | None
    what: str


def find_arrivals(allocation: Allocation) -> Mask:
    """Return which steps are arrivals. O(steps)."""
    rows = [row for row, operator in enumerate(allocation.ops) if tuple(operator) == ARRIVAL]
    found: Mask = np.isin(allocation.steps.op, rows)
    return found


def find_late_inputs(allocation: Allocation) -> Mask:
    """Return which tensors are inputs that an arrival writes first. O(tensors + steps)."""
    t, arrives = allocation.tensors, find_arrivals(allocation)
    found: Mask = (t.role == ROLES.index(Role.INPUT)) & (t.flags & IS_INPUT != 0) & (t.writer != NONE)
    found[found] = arrives[t.writer[found]]
    return found


def list_late_inputs(allocation: Allocation) -> frozenset[str]:
    """Return the names of the inputs that arrive late. O(tensors + steps)."""
    rows = np.flatnonzero(find_late_inputs(allocation)).tolist()
    return frozenset(allocation.tensors.name[row] for row in rows)


def state_arrivals(allocation: Allocation) -> str:
    """Return which late inputs the caller writes at which step, as the end of a sentence; "" if there are none.

    O(tensors + steps). spec: V1.19
    """
    t = allocation.tensors
    rows = np.flatnonzero(find_late_inputs(allocation)).tolist()
    stated = [f"{t.name[row]} at step {int(t.writer[row])}" for row in rows]
    return f"; the caller writes {list_names(stated)}" if stated else ""


def find_wrong_arrivals(allocation: Allocation) -> Iterator[WrongArrival]:
    """Yield the arrivals that are inside of a body, read something, change something, or write no input.

    O(steps + accesses of arrivals).
    """
    steps, late = allocation.steps, find_late_inputs(allocation)
    for n in np.flatnonzero(find_arrivals(allocation)).tolist():
        reads, writes, mutates = (
            rows[at[n] : at[n + 1]].tolist()
            for rows, at in (
                (steps.reads, steps.reads_at), (steps.writes, steps.writes_at), (steps.mutates, steps.mutates_at)
            )
        )  # fmt: skip
        if int(steps.body[n]) != MAIN or PARTS[int(steps.part[n])] is not NodePart.WHOLE:
            yield WrongArrival(n, None, "is inside of a body, or has one")
        for t in reads:
            yield WrongArrival(n, t, "reads")
        for t in mutates:
            yield WrongArrival(n, t, "changes")
        for t in writes:
            if not late[t] or int(allocation.tensors.writer[t]) != n:
                yield WrongArrival(n, t, "writes what is no late input:")
