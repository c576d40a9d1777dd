"""Lifetimes that follow from steps: what a text plan, which states none, is completed with.

A tensor is born at the first step that writes it, or at 0 where the caller does, and dies at the last step that
touches it; what the caller reads at the end, and what a node that iterates may touch again, is live for longer. The
planner works lifetimes out from a model, the checker does not: it looks whether every access falls into those of the
plan. spec: X2.5, T1.1, T1.2, T1.3, T1.4, T1.5, T1.6, T1.7, T8.3, T8.4, T8.5, X4.3, X4.5
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tmmu.core.vocabulary import MAIN

NO_STEP = -1


class Access(NamedTuple):
    """A step: the body that it stands in, and the rows of the tensors that it reads and writes."""

    body: int
    reads: tuple[int, ...]
    writes: tuple[int, ...]


class BodySpan(NamedTuple):
    """A body: the one around it, the steps of its node's enter and leave, and of its own first step and its end.

    It stands on the steps from `first` up to, but without, `end`.
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


def lives(steps: Sequence[Access], arms: Sequence[BodySpan], callers: Sequence[bool], kept: Sequence[bool]) -> Lives:
    """The lifetimes of all tensors; row 0 of `arms` is the main graph. O(steps + accesses x depth of loops).

    `callers` are the tensors that the caller writes before step 0, `kept` those that live to the last step: parameters,
    optimizer state, and what it reads after that step.
    """
    last = max(0, len(steps) - 1)
    writer, death = [NO_STEP] * len(callers), [NO_STEP] * len(callers)
    taken = _taken(steps, arms)
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


def _taken(steps: Sequence[Access], arms: Sequence[BodySpan]) -> dict[tuple[int, int], int]:
    """The step at which the leave of exclusive arms takes what one of them writes: that arm's last. spec: X4.5"""
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
    """What a node that iterates is given, captures or returns lives from its enter to its leave. spec: T8.3 to T8.5"""
    around: list[tuple[int, ...]] = []
    for b, arm in enumerate(arms):
        outer = () if b == MAIN else around[arm.parent]
        around.append((*outer, b) if arm.iterates else outer)
        if not arm.iterates:
            continue
        for t in (*steps[arm.enter].reads, *steps[arm.enter].writes):
            death[t] = max(death[t], arm.leave)
        # What a leave reads and writes is a copy that it hands on: made there, and of no earlier iteration.
        for t in set(steps[arm.leave].writes).difference(steps[arm.leave].reads):
            birth[t] = min(birth[t], arm.enter)
    for step in steps:
        for b in around[step.body]:
            for t in step.reads:
                if writer[t] < arms[b].enter:
                    death[t] = max(death[t], arms[b].leave)
