"""Find the nodes that run exactly one of their branches at each visit, and what their leave takes of each branch (X4).

They are found from the plan's bodies and from the parts and bodies of its steps. A declaration that is inconsistent, or
that the operator contradicts, is ignored here and refuted by `proofs.definition.checker.structure`; T8 then applies
unchanged. spec: X4.1, X4.2, X4.5, X4.6
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from proofs.readers.operators import is_branch, iterates, qualify_name
from tmmu.core.columns import NONE, U32
from tmmu.core.vocabulary import MAIN, NodePart, Role
from tmmu.plans.allocation import Allocation
from tmmu.plans.columns import PARTS, ROLES


class Branch(NamedTuple):
    """The steps of a branch, both ends included. A branch without steps ends before its first."""

    first: int
    last: int


@dataclass(frozen=True)
class BranchingNode:
    """A node with exclusive branches.

    `taken` are the tensors that its leave reads, except its scratch. `become` maps a result of the node to the outputs,
    one of each branch, that become it.
    """

    enter: int
    leave: int
    arms: tuple[Branch, ...]
    taken: tuple[int, ...] = ()
    become: dict[int, frozenset[int]] = field(default_factory=dict)


def find_declared_exclusive(allocation: Allocation) -> frozenset[int]:
    """Return the enter steps of the nodes whose bodies are all declared exclusive. O(bodies)."""
    columns = zip(allocation.bodies.enter[1:].tolist(), allocation.bodies.exclusive[1:].tolist(), strict=True)
    yes: set[int] = set()
    no = {NONE}
    for enter, exclusive in columns:
        (yes if exclusive else no).add(enter)
    return frozenset(yes - no)


def exclusivity_assumptions(allocation: Allocation) -> list[str]:
    """Return what is assumed of unknown operators because the plan declares their branches exclusive. spec: X4.2"""
    ops = {allocation.ops[int(allocation.steps.op[node.enter])] for node in find_branching_nodes(allocation)}
    return sorted(f"{qualify_name(*op)} runs exactly one of its bodies" for op in ops if not is_branch(*op))


def find_branching_nodes(allocation: Allocation) -> list[BranchingNode]:
    """Return the nodes with exclusive branches, outer ones before inner ones. O(steps of branches × depth + bodies)."""
    enters, steps, b = find_declared_exclusive(allocation), allocation.steps, allocation.bodies
    owned: dict[int, list[int]] = {}
    for row, enter in enumerate(b.enter.tolist()):
        if enter in enters:
            owned.setdefault(enter, []).append(row)
    found = []
    for enter in sorted(owned):
        rows = owned[enter]
        leave = int(b.leave[rows[0]])
        if (
            enter < leave < len(steps)
            and all(int(b.leave[row]) == leave for row in rows)
            and PARTS[steps.part[enter]] is NodePart.ENTER
            and PARTS[steps.part[leave]] is NodePart.LEAVE
            and not iterates(*allocation.ops[int(steps.op[enter])], exclusive=True)
            and (arms := _arms(allocation, rows, enter, leave)) is not None
        ):
            found.append(_taking(allocation, BranchingNode(enter, leave, arms)))
    return found


def _arms(allocation: Allocation, rows: list[int], enter: int, leave: int) -> tuple[Branch, ...] | None:
    """Return the range of each body, or None unless the steps between are those of one body after the other."""
    parent, body = allocation.bodies.parent, allocation.steps.body
    around = {row: row for row in rows}
    arms, at = [], enter + 1
    for row in rows:
        first = at
        while at < leave and _outermost(int(body[at]), parent, around) == row:
            at += 1
        arms.append(Branch(first, at - 1))
    return tuple(arms) if at == leave else None


def _outermost(body: int, parent: U32, around: dict[int, int]) -> int:
    """Return the branch that a body is in, or the main graph. `around` caches the results."""
    way = []
    while body not in around and body not in (MAIN, NONE):
        way.append(body)
        above = int(parent[body])
        body = above if above < body else MAIN
    arm = around.get(body, MAIN)
    around.update(dict.fromkeys(way, arm))
    return arm


def _taking(allocation: Allocation, node: BranchingNode) -> BranchingNode:
    """Return the node with the tensors that its leave takes.

    These are all outputs of the branches, in order. Each branch has one output for each result of the node.
    """
    reads, writes = (_listed(allocation, which, node.leave) for which in ("reads", "writes"))
    scratch = ROLES.index(Role.SCRATCH)
    outputs: list[tuple[int, int]] = []  # each with its copy, or NONE
    for r, following in pairwise((*reads, NONE)):
        if r not in writes and int(allocation.tensors.role[r]) != scratch:
            outputs.append((r, following if following in writes else NONE))
    copies = {copy for _, copy in outputs}
    results = [w for w in dict.fromkeys(writes) if w not in copies]
    become: dict[int, frozenset[int]] = {}
    if len(outputs) == len(results) * len(node.arms):
        for k, result in enumerate(results):
            sources = outputs[k :: len(results)]
            become[result] = frozenset(value for value, copy in sources if copy == NONE)
    return BranchingNode(node.enter, node.leave, node.arms, tuple(dict.fromkeys(r for r, _ in outputs)), become)


def _listed(allocation: Allocation, which: str, step: int) -> list[int]:
    at = getattr(allocation.steps, f"{which}_at")
    rows: list[int] = getattr(allocation.steps, which)[int(at[step]) : int(at[step + 1])].tolist()
    return rows
