"""Write exclusive branches for the kernel: nodes, the branch of each step, other writers, and the reads of leaves.

The nodes, and the pairs of a result with the output that becomes it, are part of the program (`proofs.readers.arms`).
Only pairs in the same bytes count. Everything else is evidence, and not trusted. spec: V6.2, X4.1, X4.6
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proofs.proving.kernel.memory import Named, group_rows
from proofs.proving.obligations.arms import Mask, Rows
from proofs.proving.obligations.context import CALLER, Context
from proofs.readers.arms import BranchingNode


class NotExpressed(Exception):
    """The kernel's theorem does not cover the plan, which may be right: the kernel is not asked.

    The message says why.
    """


@dataclass(frozen=True)
class BranchWords:
    """The columns about exclusive branches, with their counts, and the tensors that a leave takes.

    The counts are those of nodes, branches, other writers, joins and takes. `nodes` and `takes` are part of the
    program; `evidence` is not trusted.
    """

    counts: tuple[int, int, int, int, int]
    handed: Mask
    nodes: list[Named]
    evidence: list[Named]
    takes: list[Named]

    @property
    def columns(self) -> list[Named]:
        """All columns in the order of `Columns.v`."""
        return [*self.nodes, *self.evidence, *self.takes]


def branch_words(context: Context, needed: Rows) -> BranchWords:
    """Return the words of a plan's nodes with exclusive branches.

    `needed` is the last step that each tensor is needed at.

    Raises `NotExpressed` if a leave takes a tensor that no branch writes by one of its own steps. O(n log n), and
    O(steps × depth).
    """
    nodes = sorted(context.branches, key=lambda node: node.leave)
    taken = {(node.leave, t) for node in nodes for t in _taken(context, node) if needed[t] < node.leave}
    handed = np.zeros(len(needed), np.bool_)
    handed[[t for _, t in taken]] = True
    if not nodes:
        return BranchWords((0, 0, 0, 0, 0), handed, [("bounds of the arms", np.zeros(1))], [], [])
    first, last = within = _within(context)
    also_at, also = _other_writers(context)
    leaves = np.array([node.leave for node in nodes])
    joins = context.ways.joined
    joins_at, order = group_rows(joins.tensor, len(needed), joins.step)
    takes = [pair for node in nodes for pair in _takes(context, node, taken)]
    _expressed(context, nodes, taken, within)
    arms = [arm for node in nodes for arm in node.arms]
    of_nodes = [
        ("exclusive nodes: enter", np.array([node.enter for node in nodes])), ("leave", leaves),
        ("bounds of the arms", np.cumsum([0, *(len(node.arms) for node in nodes)])),
        ("first step of each arm", np.array([arm.first for arm in arms])),
    ]  # fmt: skip
    evidence = [
        ("innermost arm of each step: first", first), ("last", last),
        ("other writers of each tensor", also_at), ("steps", also),
        ("joins of each tensor", joins_at), ("nodes", np.searchsorted(leaves, joins.step[order])),
    ]  # fmt: skip
    of_takes = [("takes: results, then outputs", np.array([*zip(*takes, strict=True)], np.int64).ravel())]
    counts = (len(nodes), len(arms), len(also), len(order), len(takes))
    return BranchWords(counts, handed, of_nodes, evidence, of_takes)


def _taken(context: Context, node: BranchingNode) -> set[int]:
    """Return the outputs that the leave takes at the ends of branches, each written wherever it may have been."""
    ends = {arm.last for arm in node.arms}
    missing = {t for step, t in zip(*map(np.ndarray.tolist, context.ways.missing), strict=True) if step in ends}
    return set(node.taken).difference(missing)


def _within(context: Context) -> tuple[Rows, Rows]:
    """Return the first and the last step of each step's innermost branch, or a range that holds all steps."""
    steps = len(context.plan.allocation.steps)
    first, last = np.zeros(steps, np.int64), np.full(steps, steps)
    for node in context.branches:  # outer ones first
        for arm in node.arms:
            first[arm.first : arm.last + 1], last[arm.first : arm.last + 1] = arm
    return first, last


def _other_writers(context: Context) -> tuple[Rows, Rows]:
    """Return the steps, by tensor, that write a tensor and are not its stated writer. Mutations are excluded."""
    step, tensor = context.writes
    writer = context.writer[tensor]
    other = np.flatnonzero(~context.changes & (writer != CALLER) & (writer != step))
    at, order = group_rows(tensor[other], len(context.writer), step[other])
    return at, step[other][order]


def _takes(context: Context, node: BranchingNode, taken: set[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return each result of a leave with the outputs that become it in the same bytes."""
    t = context.plan.allocation.tensors
    arena, address = context.plan.allocation.storages.arena[t.storage], context.plan.allocation.addresses()
    return [
        (result, output)
        for result, outputs in node.become.items()
        for output in sorted(outputs)
        if (node.leave, output) in taken
        and all(column[result] == column[output] for column in (arena, address, t.bytes))
    ]


def _expressed(
    context: Context, nodes: list[BranchingNode], taken: set[tuple[int, int]], within: tuple[Rows, Rows]
) -> None:
    """Raise `NotExpressed` for an output that a leave takes and that only nodes inside of its branches write."""
    arms, (step, tensor) = {node.leave: node.arms for node in nodes}, context.writes
    directly = set(zip(*(column[step].tolist() for column in within), tensor.tolist(), strict=True))
    for leave, t in sorted(taken):
        if not any((*arm, t) in directly for arm in arms[leave]):
            name = context.plan.allocation.tensors.name[t]
            raise NotExpressed(f"{name}, returned by an exclusive branch, is written only by nodes inside of branches")
