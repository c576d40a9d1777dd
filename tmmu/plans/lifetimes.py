"""Compute lifetimes from steps, to complete a text plan, which states none.

A tensor is born at the first step that writes it (at 0 if the caller does), and dies at the last step that accesses it.
Tensors that the caller reads at the end, and tensors that an iterating node may access again, live longer. The planner
computes lifetimes from a model. The checker does not: it checks that every access is within those of the plan.
spec: X2.5, T1.1, T1.2, T1.3, T1.4, T1.5, T1.6, T1.7, T8.3, T8.4, T8.5, X4.3, X4.5
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tmmu.core.vocabulary import MAIN

NO_STEP = -1


class Access(NamedTuple):
    """A step: its body, and the rows of the tensors that it reads and writes."""

    body: int
    reads: tuple[int, ...]
    writes: tuple[int, ...]


class BodySpan(NamedTuple):
    """A body: the one around it, the steps of its node's enter and leave, and its own steps.

    Its steps are those from `first` up to, but excluding, `end`.
    """

    parent: int
    enter: int
    leave: int
    first: int
    end: int
    iterates: bool
    exclusive: bool


class Lives(NamedTuple):
    """The birth and death of each tensor, and the step that writes it first (NO_STEP: the caller)."""

    birth: list[int]
    death: list[int]
    writer: list[int]


def compute_lifetimes(
    steps: Sequence[Access], arms: Sequence[BodySpan], callers: Sequence[bool], kept: Sequence[bool]
) -> Lives:
    """Compute the lifetimes of all tensors; row 0 of `arms` is the main graph. O(steps + accesses x depth of loops).

    `callers` are the tensors that the caller writes before step 0. `kept` are those that live to the last step:
    parameters, optimizer state, and tensors that the caller reads after that step.
    """
    last = max(0, len(steps) - 1)
    writer, death = [NO_STEP] * len(callers), [NO_STEP] * len(callers)
    taken = _last_branch_steps(steps, arms)
    for s, step in enumerate(steps):
        for t in step.writes:
            if writer[t] == NO_STEP and not callers[t]:
                writer[t] = s
            death[t] = max(death[t], s)
        for t in step.reads:
            death[t] = max(death[t], taken.get((s, t), s))
    birth = [max(0, w) for w in writer]
    _extend_over_loops(steps, arms, writer, birth, death)
    for t, is_kept in enumerate(kept):
        death[t] = last if is_kept else max(death[t], birth[t])
    return Lives(birth, death, writer)


def _last_branch_steps(steps: Sequence[Access], arms: Sequence[BodySpan]) -> dict[tuple[int, int], int]:
    """Return the last step of each exclusive branch whose value the leave takes, by leave and tensor. spec: X4.5"""
    found: dict[tuple[int, int], int] = {}
    for arm in arms[1:]:
        if arm.exclusive:
            wanted = set(steps[arm.leave].reads)
            for step in steps[arm.first : arm.end]:
                for t in wanted.intersection(step.writes):
                    found[arm.leave, t] = arm.end - 1
    return found


def _extend_over_loops(
    steps: Sequence[Access], arms: Sequence[BodySpan], writer: list[int], birth: list[int], death: list[int]
) -> None:
    """Extend tensors that an iterating node receives, captures or returns over its whole range. spec: T8.3 to T8.5"""
    around: list[tuple[int, ...]] = []
    for b, arm in enumerate(arms):
        outer = () if b == MAIN else around[arm.parent]
        around.append((*outer, b) if arm.iterates else outer)
        if not arm.iterates:
            continue
        for t in (*steps[arm.enter].reads, *steps[arm.enter].writes):
            death[t] = max(death[t], arm.leave)
        # A tensor that a leave both reads and writes is a copy that it passes on: made there, in no earlier iteration.
        for t in set(steps[arm.leave].writes).difference(steps[arm.leave].reads):
            birth[t] = min(birth[t], arm.enter)
    for step in steps:
        for b in around[step.body]:
            for t in step.reads:
                if writer[t] < arms[b].enter:
                    death[t] = max(death[t], arms[b].leave)
