"""What the kernel reads of exclusive arms: their nodes, the arm of each step, other writers, what leaves take.

The nodes and the pairs of a result with the output that becomes it are the program (`proofs.readers.arms`); of these
pairs only those count that lie in the same bytes. All else is evidence, and not trusted. spec: V6.2, X4.1, X4.6
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proofs.proving.kernel.memory import Named, grouped
from proofs.proving.obligations.arms import Mask, Rows
from proofs.proving.obligations.context import CALLER, Context
from proofs.readers.arms import Branches


class NotExpressed(Exception):
    """The plan may be right, but the kernel's theorem does not cover it: it is not asked. The message says why."""


@dataclass(frozen=True)
class ArmWords:
    """The counts of nodes, arms, other writers, joins and takes; which tensors a leave takes; the columns in order."""

    counts: tuple[int, int, int, int, int]
    handed: Mask
    columns: list[Named]


def arm_words(context: Context, needed: Rows) -> ArmWords:
    """The words of the nodes with exclusive arms of a plan, `needed` the last step that each tensor is needed at.

    Raises `NotExpressed` where a leave takes what no arm writes by a step of its own. O(n log n), and O(steps × depth).
    """
    nodes = sorted(context.branches, key=lambda node: node.leave)
    taken = {(node.leave, t) for node in nodes for t in _taken(context, node) if needed[t] < node.leave}
    handed = np.zeros(len(needed), np.bool_)
    handed[[t for _, t in taken]] = True
    if not nodes:
        return ArmWords((0, 0, 0, 0, 0), handed, [("bounds of the arms", np.zeros(1))])
    first, last = within = _within(context)
    also_at, also = _other_writers(context)
    leaves = np.array([node.leave for node in nodes])
    joins = context.ways.joined
    joins_at, order = grouped(joins.tensor, len(needed), joins.step)
    takes = [pair for node in nodes for pair in _takes(context, node, taken)]
    _expressed(context, nodes, taken, within)
    arms = [arm for node in nodes for arm in node.arms]
    columns = [
        ("exclusive nodes: enter", np.array([node.enter for node in nodes])), ("leave", leaves),
        ("bounds of the arms", np.cumsum([0, *(len(node.arms) for node in nodes)])),
        ("first step of each arm", np.array([arm.first for arm in arms])),
        ("innermost arm of each step: first", first), ("last", last),
        ("other writers of each tensor", also_at), ("steps", also),
        ("joins of each tensor", joins_at), ("nodes", np.searchsorted(leaves, joins.step[order])),
        ("takes: results, then outputs", np.array([*zip(*takes, strict=True)], np.int64).ravel()),
    ]  # fmt: skip
    return ArmWords((len(nodes), len(arms), len(also), len(order), len(takes)), handed, columns)


def _taken(context: Context, node: Branches) -> set[int]:
    """The outputs that the leave takes at the ends of arms, each written in whichever of them may have written it."""
    ends = {arm.last for arm in node.arms}
    missing = {t for step, t in zip(*map(np.ndarray.tolist, context.ways.missing), strict=True) if step in ends}
    return set(node.taken).difference(missing)


def _within(context: Context) -> tuple[Rows, Rows]:
    """The first and the last step of the innermost arm of each step, or a range that holds all steps."""
    steps = len(context.plan.allocation.steps)
    first, last = np.zeros(steps, np.int64), np.full(steps, steps)
    for node in context.branches:  # outer ones first
        for arm in node.arms:
            first[arm.first : arm.last + 1], last[arm.first : arm.last + 1] = arm
    return first, last


def _other_writers(context: Context) -> tuple[Rows, Rows]:
    """The steps that write a tensor and are not its stated writer, mutations apart, by tensor."""
    step, tensor = context.writes
    writer = context.writer[tensor]
    other = np.flatnonzero(~context.changes & (writer != CALLER) & (writer != step))
    at, order = grouped(tensor[other], len(context.writer), step[other])
    return at, step[other][order]


def _takes(context: Context, node: Branches, taken: set[tuple[int, int]]) -> list[tuple[int, int]]:
    """Each result of a leave with the outputs that become it and in whose bytes it lies."""
    t = context.plan.allocation.tensors
    arena, address = context.plan.allocation.storages.arena[t.storage], context.plan.allocation.addresses()
    return [
        (result, output)
        for result, outputs in node.become.items()
        for output in sorted(outputs)
        if (node.leave, output) in taken
        and all(column[result] == column[output] for column in (arena, address, t.bytes))
    ]


def _expressed(context: Context, nodes: list[Branches], taken: set[tuple[int, int]], within: tuple[Rows, Rows]) -> None:
    """Raise `NotExpressed` for an output that a leave takes and that only nodes inside of its arms write."""
    arms, (step, tensor) = {node.leave: node.arms for node in nodes}, context.writes
    directly = set(zip(*(column[step].tolist() for column in within), tensor.tolist(), strict=True))
    for leave, t in sorted(taken):
        if not any((*arm, t) in directly for arm in arms[leave]):
            name = context.plan.allocation.tensors.name[t]
            raise NotExpressed(f"{name}, which an exclusive arm returns, is written by nodes inside of arms alone")
