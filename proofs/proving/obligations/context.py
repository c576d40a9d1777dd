"""Gather what all obligations examine: a plan, the sharing that is permitted in it, its accesses as columns, its loops.

All of it is computed once, by NumPy, from columns that passed the gate. The loops are found only from the steps, as
brackets of enter and leave whose operator iterates by the checker's own table. The plan's declaration of loops does not
count. spec: V2.1, V2.3, T8.1, T8.3, T8.4, X4.2
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from proofs.definition.checker.layouts import by_slots
from proofs.proving.certificate.clocks import Clocks, compute_clocks
from proofs.proving.certificate.edges import Edges, edges
from proofs.proving.certificate.slots import Certificate, certificate
from proofs.proving.obligations.arms import Accesses, ControlPaths, Mask, Rows, control_paths
from proofs.readers.arms import BranchingNode, find_branching_nodes, find_declared_exclusive
from proofs.readers.operators import iterates
from proofs.readers.sharing import Permissions
from tmmu.core.columns import NONE, are_among, find_distinct
from tmmu.core.vocabulary import MAX_BODY_DEPTH, NodePart, Role
from tmmu.plans.allocation import Placement
from tmmu.plans.columns import IS_OUTPUT, IS_RETURNED, PARTS, ROLES
from tmmu.plans.sections import BufferPlan, Claims, Plan

CALLER = -1
"""The writer of tensors that are written before step 0."""


class Loop(NamedTuple):
    """A node that iterates: its enter and its leave."""

    enter: int
    leave: int


@dataclass(frozen=True)
class StorageContext:
    """Storages in their arenas, with the claims about them: all that a plan of lifetimes has.

    `by_slots` is true if each storage begins where its slot does; `last` is the last step.
    """

    placement: Placement
    claims: Claims | None
    by_slots: bool
    certificate: Certificate
    last: int

    @cached_property
    def edges(self) -> tuple[Edges, ...]:
        """The edges of each arena, which both the rows and the kernel check. O(storages log storages)."""
        return tuple(edges(self.placement, a, not arena.reuse) for a, arena in enumerate(self.placement.arenas))


class StepAccesses(NamedTuple):
    """The accesses of one step: its reads by storage, its writes, and the roots that a leave takes at its end."""

    reads: Mapping[int, set[int]]
    writes: frozenset[int]
    taken: frozenset[int]


@dataclass(frozen=True)
class Context(StorageContext):
    """A plan with steps as the obligations read it.

    `writer` is each tensor's writing step, or `CALLER` if no step writes it. `changes` marks the writes that the step
    lists as mutations. `root` is the tensor whose bytes each tensor shows. `returned` marks the tensors that the caller
    reads after the last step, `donated` those that it donated. `results` are the tensors that a loop's node itself
    returns, which take their bytes from its enter on. `faults` are steps whose enters and leaves do not match.
    `branches` are the nodes with exclusive branches; the reads of their leaves are in `ways` and not among the `reads`.
    `at_step` caches the accesses of single steps.
    """

    plan: Plan
    permissions: Permissions
    reads: Accesses
    writes: Accesses
    changes: Mask
    writer: Rows
    root: Rows
    returned: Mask
    donated: Mask
    loops: tuple[Loop, ...]
    results: dict[int, Rows]
    faults: tuple[int, ...]
    branches: list[BranchingNode]
    ways: ControlPaths
    at_step: dict[int, StepAccesses] = field(default_factory=dict, init=False)

    @cached_property
    def clocks(self) -> Clocks:
        """The vector clocks of a plan with streams. O(steps + (waits + joins) x streams)."""
        return compute_clocks(self.plan.allocation)


def storage_context(plan: BufferPlan) -> StorageContext:
    """Return what the obligations about storages examine in a plan of lifetimes. O(storages log storages)."""
    evidence = certificate(plan.buffers, plan.claims)
    return StorageContext(plan.buffers, plan.claims, False, evidence, plan.buffers.last_step)


def context_of(plan: Plan, permissions: Permissions, donated: frozenset[str] = frozenset()) -> Context:
    """Return everything that the obligations share. O(plan × depth of bodies)."""
    t = plan.allocation.tensors
    reads, writes, mutations = (_accesses(plan, which) for which in ("reads", "writes", "mutates"))
    count = max(1, len(t))
    changes = are_among(writes.step * count + writes.tensor, mutations.step * count + mutations.tensor)
    writer = np.where(t.writer == NONE, CALLER, t.writer.astype(np.int64))
    names = t.name.list() if donated else []
    given_up = np.fromiter((name in donated for name in names), np.bool_, len(names)) if donated else t.flags < 0
    loops, faults = _loops(plan)
    results = {loop.leave: _results(loop, reads, writes, changes) for loop in loops}
    nodes, returned = find_branching_nodes(plan.allocation), _returned(plan, given_up)
    on_ways = control_paths(plan.allocation, nodes, reads, writes, changes, writer, returned)
    return Context(
        placement=plan.allocation,
        claims=plan.claims,
        by_slots=by_slots(plan),
        plan=plan,
        permissions=permissions,
        certificate=certificate(plan.allocation, plan.claims),
        last=plan.allocation.last_step,
        reads=on_ways.reads,
        writes=writes,
        changes=changes,
        writer=writer,
        root=_roots(plan, permissions),
        returned=returned,
        donated=given_up,
        loops=loops,
        results=results,
        faults=faults,
        branches=nodes,
        ways=on_ways,
    )


def _accesses(plan: Plan, which: str) -> Accesses:
    at, flat = (
        getattr(plan.allocation.steps, f"{which}_at").astype(np.int64),
        getattr(plan.allocation.steps, which).astype(np.int64),
    )
    return Accesses(np.repeat(np.arange(len(plan.allocation.steps)), np.diff(at)), flat)


def span(accesses: Accesses, first: int, last: int) -> slice:
    """Return the accesses of steps first to last, both included."""
    lo, hi = np.searchsorted(accesses.step, [first, last + 1]).tolist()
    return slice(lo, hi)


def _returned(plan: Plan, given_up: Mask) -> Mask:
    """Mark the tensors that the caller reads at the end: returned ones, outputs, and undonated parameters and state."""
    t = plan.allocation.tensors
    kept = (ROLES.index(Role.PARAMETER), ROLES.index(Role.OPTIMIZER))
    returned: Mask = (t.flags & (IS_OUTPUT | IS_RETURNED) != 0) | (np.isin(t.role, kept) & ~given_up)
    return returned


def _roots(plan: Plan, permissions: Permissions) -> Rows:
    """Follow view links to their end, all at once, doubling the distance in each round.

    A circle of links has no end. Its members keep a root that is a view, so that no obligation can hold for them.
    """
    root = np.arange(len(plan.allocation.tensors))
    for view, (base, _) in permissions.views.items():
        root[view] = base
    for _ in range(max(1, len(permissions.views)).bit_length()):
        root = root[root]
    return root


def _loops(plan: Plan) -> tuple[tuple[Loop, ...], tuple[int, ...]]:
    """Return the nodes that iterate, inner ones before outer ones, and the steps whose brackets do not match.

    A body whose range is not a bracket is a fault too: steps and bodies must agree.
    """
    part, op = plan.allocation.steps.part, plan.allocation.steps.op
    enter, leave = PARTS.index(NodePart.ENTER), PARTS.index(NodePart.LEAVE)
    exclusive = find_declared_exclusive(plan.allocation)
    opened: list[int] = []
    brackets: set[Loop] = set()
    loops: list[Loop] = []
    faults: list[int] = []
    for step in np.flatnonzero((part == enter) | (part == leave)).tolist():
        if part[step] == enter:
            opened.append(step)
            if len(opened) > MAX_BODY_DEPTH:
                return (), (step,)
        elif not opened or op[opened[-1]] != op[step]:
            faults.append(step)
        else:
            bracket = Loop(opened.pop(), step)
            brackets.add(bracket)
            if iterates(*plan.allocation.ops[int(op[step])], bracket.enter in exclusive):
                loops.append(bracket)
    ranges = zip(plan.allocation.bodies.enter[1:].tolist(), plan.allocation.bodies.leave[1:].tolist(), strict=True)
    faults += [min(first, plan.allocation.last_step) for first, last in ranges if (first, last) not in brackets]
    return tuple(loops), (*faults, *opened)


def _results(loop: Loop, reads: Accesses, writes: Accesses, changes: Mask) -> Rows:
    """Return the results of a loop's node: the tensors that its leave writes and does not read.

    The leave also writes copies and scratch, and reads them.
    """
    at = span(writes, loop.leave, loop.leave)
    written, _ = find_distinct(writes.tensor[at][~changes[at]])
    inner = writes.tensor[span(writes, loop.enter, loop.leave - 1)]
    used = reads.tensor[span(reads, loop.leave, loop.leave)]
    return written[~are_among(written, used) & ~are_among(written, inner)]
