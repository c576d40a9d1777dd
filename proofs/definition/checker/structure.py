"""Check that the steps are a valid program, with or without a model: writers, roles, bodies, scopes, conflicts, slots.

The checker runs the steps one after the other, as a list. This module checks that the list is a program. The plan's
`writer` is the step that writes a tensor, and the caller writes what no step writes. The bodies of a node are between
its enter and its leave. A value leaves a body only through the leave of the node that owns it.
spec: T5.1, T8.1, T8.2, T8.9, T8.10, T8.11, T8.12, T8.13, X4.1, X4.2, X4.3, X4.4, I1.9, A1.2, V1.18, V2.3
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from proofs.definition.checker import arenas
from proofs.definition.checker.execute import NO_POWER, powers_of_two
from proofs.definition.checker.layouts import by_slots
from proofs.definition.checker.program import CALLER, Column, PlacedStorages, Program, exact
from proofs.definition.violations import Obligation, Violation
from proofs.readers.arms import find_declared_exclusive
from proofs.readers.arrivals import find_late_inputs, find_wrong_arrivals
from proofs.readers.operators import iterates, qualify_name
from tmmu.core.columns import NONE, find_distinct
from tmmu.core.vocabulary import MAIN, NodePart, Role
from tmmu.plans.columns import IS_INPUT, PARTS, ROLES, Slots
from tmmu.plans.sections import Claims, Plan

CALLERS = tuple(ROLES.index(role) for role in (Role.INPUT, Role.PARAMETER, Role.OPTIMIZER))


class SlotColumns(NamedTuple):
    """The claimed fields of all slots, each as a column."""

    arena: Column
    bytes: Column
    alignment: Column


def violations(plan: Plan, run: Program) -> Iterator[Violation]:
    """Yield every violation of the structure of steps, bodies and slots. O(plan x depth of bodies)."""
    yield from check_writers(plan, run)
    yield from check_arrivals(plan, run)
    yield from check_nesting(plan, run)
    yield from check_copies(plan, run)
    yield from check_must_not_alias(run)
    if plan.claims is not None:
        yield from check_claimed_slots_and_memories(plan.claims, run, by_slots(plan))
    if plan.claims is not None and plan.claims.configuration is not None:
        yield from arenas.check_arena_assignment(plan, plan.claims.configuration, run)
    yield from check_reuse(run)


def check_claimed_slots_and_memories(claims: Claims, run: PlacedStorages, addressed: bool) -> Iterator[Violation]:
    """Check what the claimed slots and memories require of storages."""
    if claims.configuration is not None:
        yield from arenas.check_memory_capacity(claims.configuration, run)
    if claims.slots is not None:
        yield from check_slots(claims.slots, run, addressed)


def _misnested(run: Program, step: int, text: str) -> Violation:
    """Return a violation of nesting at a step.

    It names the first tensor that the step writes and the first it reads.
    """
    if step >= len(run.steps):
        return Violation(Obligation.BODIES_NEST, text)
    first = (*run.steps[step].writes[:1], *run.steps[step].reads[:1])
    return Violation(Obligation.BODIES_NEST, text, tuple(run.tensors[t].name for t in first), step)


def check_writers(plan: Plan, run: Program) -> Iterator[Violation]:
    """Check that each tensor's writer is the first step that lists it.

    The caller's tensors must have the roles that the caller writes, and be born at step 0. Inputs that arrive late are
    written by an arrival, as other tensors are by their steps.
    """
    steps, tensors, nowhere = plan.allocation.steps, plan.allocation.tensors, len(plan.allocation.steps)
    made = steps.writes.astype(np.int64)
    count: Column = np.diff(steps.writes_at.astype(np.int64))
    at = np.repeat(np.arange(len(steps)), count)
    first = np.full(len(tensors), nowhere)
    first[made[::-1]] = at[::-1]  # assigned in reverse, so that the first step remains
    stated = np.where(tensors.writer == NONE, CALLER, tensors.writer.astype(np.int64))
    of_caller = stated == CALLER
    looked_at = np.zeros(len(steps), np.bool_)
    looked_at[at[of_caller[made]]] = True
    looked_at[np.diff(steps.mutates_at.astype(np.int64)) > 0] = True
    for n in np.flatnonzero(looked_at).tolist():
        writes = steps.writes[steps.writes_at[n] : steps.writes_at[n + 1]].tolist()
        mutates = steps.mutates[steps.mutates_at[n] : steps.mutates_at[n + 1]].tolist()
        both, changed = frozenset(writes).intersection(run.steps[n].reads) if mutates else (), run.steps[n].mutates
        for t in mutates:
            if t not in both:
                text = f"{run.at(n)} mutates {run.tensors[t].name} without reading and writing it"
                yield Violation(Obligation.LIFETIMES_COVER_ACCESSES, text, (run.tensors[t].name,), n)
        for t in writes:
            if run.tensors[t].writer is None and t not in changed:
                text = f"{run.at(n)} writes {run.tensors[t].name}, which no step writes by the plan"
                yield Violation(Obligation.LIFETIMES_COVER_ACCESSES, text, (run.tensors[t].name,), n)
    roles = tensors.role.tolist()
    given = np.isin(tensors.role, CALLERS)
    is_input = tensors.flags & IS_INPUT != 0
    by_another, unwritten = ~of_caller & (first != stated), of_caller & ~given
    overwritten = ~of_caller & (given | is_input) & ~find_late_inputs(plan.allocation)
    late = of_caller & (tensors.birth != 0)
    for i in np.flatnonzero(by_another | unwritten | overwritten | late).tolist():
        name, writer = (tensor := run.tensors[i]).name, tensor.writer
        if by_another[i]:
            found = f"step {first[i]}" if first[i] < nowhere else "no step"
            text = f"{name} is stated to be written by step {writer}; {found} writes it"
            yield Violation(Obligation.LIFETIMES_COVER_ACCESSES, text, (name,), writer)
        if unwritten[i]:
            text = f"no step writes {name}, which has the role {ROLES[roles[i]]}: add its step, or declare it an input"
            yield Violation(Obligation.LIFETIMES_COVER_ACCESSES, text, (name,), writer)
        if overwritten[i]:
            role = Role.INPUT if is_input[i] else ROLES[roles[i]]
            text = f"{name} has the role {role}, which the caller writes, but {run.at(int(stated[i]))} writes it"
            yield Violation(Obligation.LIFETIMES_COVER_ACCESSES, text, (name,), writer)
        if late[i]:
            text = f"{name} is written by the caller before step 0, but born at step {tensor.birth}"
            yield Violation(Obligation.LIFETIMES_COVER_ACCESSES, text, (name,), 0)


def check_arrivals(plan: Plan, run: Program) -> Iterator[Violation]:
    """Check that arrivals are in the main graph, read and change nothing, and write late inputs only. spec: V1.18"""
    for n, t, what in find_wrong_arrivals(plan.allocation):
        names = () if t is None else (run.tensors[t].name,)
        text = f"{run.at(n)} is an arrival, at which the caller writes inputs, but it {' '.join((what, *names))}"
        yield Violation(Obligation.LIFETIMES_COVER_ACCESSES, text, names, n)


def check_nesting(plan: Plan, run: Program) -> Iterator[Violation]:
    """Check that bodies are closed ranges of steps between their node's enter and leave, and keep their values."""
    bodies, steps = plan.allocation.bodies, plan.allocation.steps
    bracket = np.isin(steps.part, [PARTS.index(part) for part in (NodePart.ENTER, NodePart.LEAVE)])
    if len(bodies) == 1 and not bracket.any():  # then the gate has admitted no step of another body
        return
    part, body, nodes = [PARTS[p] for p in steps.part.tolist()], steps.body.tolist(), run.nodes
    parent, enter, leave = bodies.parent.tolist(), bodies.enter.tolist(), bodies.leave.tolist()
    owned: dict[int, list[int]] = {}
    exclusive = find_declared_exclusive(plan.allocation)
    for b in range(1, len(bodies)):
        e, v = enter[b], leave[b]
        if (
            v == NONE
            or not e < v  # a missing enter is a number above every step
            or (part[e], part[v]) != (NodePart.ENTER, NodePart.LEAVE)
            or nodes[e] != nodes[v]
            or steps.op[e] != steps.op[v]
        ):
            text = f"body {bodies.name[b]!r} is not between the enter and the leave of one node"
            yield _misnested(run, e, text)
            return
        if body[e] != parent[b] or body[v] != parent[b] or parent[b] >= b:
            yield _misnested(run, e, f"body {bodies.name[b]!r} is in another body than its node")
            return
        domain, op = plan.allocation.ops[steps.op[e]]
        if bool(bodies.exclusive[b]) and (e not in exclusive or iterates(domain, op, exclusive=True)):
            but = f"{qualify_name(domain, op)} iterates" if e in exclusive else "another body of its node is not"
            yield _misnested(run, e, f"body {bodies.name[b]!r} is declared exclusive, but {but}")
        if bool(bodies.iterates[b]) != (again := iterates(domain, op, e in exclusive)):
            can, word = ("can", "once") if again else ("cannot", "again")
            text = (
                f"body {bodies.name[b]!r} is declared to run {word}, but {qualify_name(domain, op)} {can} run it again"
            )
            yield _misnested(run, e, text)
        if not str(bodies.name[b]).startswith(f"{nodes[e]}/"):
            yield _misnested(run, e, f"body {bodies.name[b]!r} is not named after its node {nodes[e]!r}")
        owned.setdefault(e, []).append(b)
    # Walk the steps with a stack of open nodes. It decides which body may have the next step.
    open_nodes: list[tuple[int, list[int]]] = []  # (enter step, its bodies that may still follow)
    for n, (p, b) in enumerate(zip(part, body, strict=True)):
        if p is NodePart.LEAVE:
            if not open_nodes or leave[owned[open_nodes[-1][0]][0]] != n:
                yield _misnested(run, n, f"{run.at(n)} leaves a node that it did not enter")
                return
            open_nodes.pop()
            continue
        if open_nodes:
            allowed = open_nodes[-1][1]
            while allowed and allowed[0] != b:
                del allowed[0]  # the bodies of one node follow one after the other
            inside = bool(allowed)
        else:
            inside = b == MAIN
        if not inside:
            yield _misnested(run, n, f"{run.at(n)} is in body {bodies.name[b]!r}, which is not open there")
            return
        if p is NodePart.ENTER:
            if n not in owned:
                yield _misnested(run, n, f"{run.at(n)} enters a node without bodies")
                return
            open_nodes.append((n, list(owned[n])))
    # No node is open any more: the leave of every enter that passed is a later step, which the walk has visited.
    yield from _scoped(plan, run, part, body, parent, enter, leave)


def _scoped(
    plan: Plan,
    run: Program,
    part: list[NodePart],
    body: list[int],
    parent: list[int],
    enter: list[int],
    leave: list[int],
) -> Iterator[Violation]:
    """Check that a tensor written in a body is read there, in bodies inside it, or by the leave of its node.

    A leave may copy a value that a body returns. The copy belongs to that body: if the body does not run, no copy is
    made.
    spec: T8.14
    """
    if len(parent) == 1:
        return
    formal_bodies: dict[int, list[int]] = {}
    for b in range(1, len(parent)):
        formal_bodies.setdefault(enter[b], []).append(b)
    shared = _written_in_arms(plan, run)
    for t, bodies in shared.items():
        if any(not plan.allocation.bodies.exclusive[b] for b in bodies):
            text = f"{run.tensors[t].name} is written by two steps, but not each is in an exclusive branch"
            yield Violation(Obligation.BODIES_NEST, text, (run.tensors[t].name,), run.tensors[t].writer)
        arms_of, fresh = Counter[int](), [b for b in bodies if b != MAIN]
        while fresh:  # a tensor that all branches of a node write is written in the body around it
            b = fresh.pop()
            arms_of[enter[b]] += 1
            if arms_of[enter[b]] == len(formal_bodies[enter[b]]) and parent[b] not in bodies:
                bodies.add(parent[b])
                fresh += [parent[b]] * (parent[b] != MAIN)
    leaves = {t: {leave[b] for b in bodies if b != MAIN} for t, bodies in shared.items()}
    reads, writes = plan.allocation.steps.listed("reads"), plan.allocation.steps.listed("writes")
    copies = {n: {*reads[n]} & {*writes[n]} - run.steps[n].mutates for n in {leave[b] for b in range(1, len(parent))}}
    for n, listed in enumerate(reads):
        around, b = {body[n]}, body[n]
        while b != MAIN:
            b = parent[b]
            around.add(b)
        for r in listed:
            w = run.tensors[r].writer
            if w is None:
                continue
            if n == w:
                continue
            if r in shared:
                is_within, leaves_it = not around.isdisjoint(shared[r]), n in leaves[r]
            elif part[w] is NodePart.ENTER:  # its writes belong to the bodies of its node, which has one leave
                within = formal_bodies[w]
                is_within, leaves_it = any(enter[b] == w for b in around if b != MAIN), n == leave[within[0]]
            elif r in copies.get(w, ()):
                is_within = leaves_it = False
            else:
                is_within, leaves_it = body[w] in around, n == leave[body[w]]
            if not is_within and not leaves_it:
                text = f"{run.at(n)} reads {run.tensors[r].name} from inside another body"
                yield Violation(Obligation.BODIES_NEST, text, (run.tensors[r].name,), n)


def _written_in_arms(plan: Plan, run: Program) -> dict[int, set[int]]:
    """Return, for each tensor that several steps write without mutating it, the bodies of these steps. spec: X4.3"""
    found: dict[int, list[int]] = {}
    for body, writes, step in zip(
        plan.allocation.steps.body.tolist(), plan.allocation.steps.listed("writes"), run.steps, strict=True
    ):
        for t in dict.fromkeys(writes):
            if t not in step.mutates and run.tensors[t].writer is not None:
                found.setdefault(t, []).append(body)
    return {t: set(bodies) for t, bodies in found.items() if len(bodies) > 1}


def check_copies(plan: Plan, run: Program) -> Iterator[Violation]:
    """Check that a leave copies each formal input and outer value that a body returns, to bytes of the same size.

    It may also read the scratch of its enter, which exists for the whole node.
    """
    if len(plan.allocation.bodies) == 1:
        return
    reads, writes, scratch = (
        plan.allocation.steps.listed("reads"),
        plan.allocation.steps.listed("writes"),
        ROLES.index(Role.SCRATCH),
    )
    ranges = zip(plan.allocation.bodies.enter.tolist(), plan.allocation.bodies.leave.tolist(), strict=True)
    for enter, leave in sorted(set(ranges)):
        if enter == NONE or leave == NONE:
            continue
        handed = frozenset(writes[leave])
        for r, following in pairwise((*reads[leave], None)):
            made = run.tensors[r].writer
            is_own_scratch = made == enter and plan.allocation.tensors.role[r] == scratch
            if (made is None or made <= enter) and not is_own_scratch and following not in handed:
                text = f"{run.at(leave)} returns {run.tensors[r].name}, which its body did not make, without a copy"
                yield Violation(Obligation.BODIES_NEST, text, (run.tensors[r].name,), leave)
            if following in handed and r not in handed and following is not None:
                value, copy = run.tensors[r], run.tensors[following]
                if (value.bytes, plan.allocation.tensors.dtype[r]) != (
                    copy.bytes,
                    plan.allocation.tensors.dtype[following],
                ):
                    text = f"{run.at(leave)} copies {value.name} to {copy.name}, which has another size or element type"
                    yield Violation(Obligation.BODIES_NEST, text, (value.name, copy.name), leave)


def check_must_not_alias(run: PlacedStorages) -> Iterator[Violation]:
    """Check that tensors or buffers that must not alias share no byte of an arena, at any step."""
    for a, b in run.apart:
        if meeting := _common_bytes(run, a, b):
            names = run.storage_names[a], run.storage_names[b]
            text = f"{names[0]} and {names[1]} must not alias, but their storages share bytes"
            yield Violation(Obligation.MUST_NOT_ALIAS, text, names, None, *meeting)


def _common_bytes(run: PlacedStorages, a: int, b: int) -> tuple[str, int, int] | None:
    """Return the arena, first and last byte that two storages have in common, or None."""
    s, t = run.storages[a], run.storages[b]
    first, end = max(s.offset, t.offset), min(s.offset + s.bytes, t.offset + t.bytes)
    return (run.arenas[s.arena].name, first, end - 1) if s.arena == t.arena and first < end else None


def check_reuse(run: PlacedStorages) -> Iterator[Violation]:
    """Check that no two storages of an arena without reuse share a byte, live at one step or not. spec: P2.4"""
    s = run.columns
    here = np.flatnonzero((s.bytes != 0) & (run.of_arenas("reuse") == 0))
    here = here[np.lexsort((s.offset[here], s.arena[here]))]
    for a, b in pairwise(here.tolist()):
        if meeting := _common_bytes(run, a, b):
            names = run.storage_names[a], run.storage_names[b]
            text = f"{names[0]} and {names[1]} share bytes of an arena that does not reuse"
            yield Violation(Obligation.NO_LIVE_OVERLAP, text, names, None, *meeting)


def _slots_apart(run: PlacedStorages, slots: SlotColumns, of: Column) -> Iterator[Violation]:
    """Check, if slots have addresses, that no byte of an arena is in two slots, used at one step or not."""
    used, first = find_distinct(of)
    arena, start = slots.arena[used], run.columns.offset[first]
    end = start + slots.bytes[used]
    order = np.lexsort((start, arena))
    a, b = order[:-1], order[1:]
    for k in np.flatnonzero((arena[a] == arena[b]) & (start[b] < end[a])).tolist():
        names = run.storage_names[first[a[k]]], run.storage_names[first[b[k]]]
        text = f"the slots of {names[0]} and {names[1]} have bytes in common"
        where = run.arenas[arena[a[k]]].name, int(start[b[k]]), int(end[a[k]]) - 1
        yield Violation(Obligation.NO_LIVE_OVERLAP, text, names, None, *where)


def check_slots(table: Slots, run: PlacedStorages, addressed: bool) -> Iterator[Violation]:
    """Check that a storage fits its slot, is in the slot's arena and is live when no other tenant is.

    If slots have addresses (`addressed`), all tenants of a slot begin at the same offset.
    """
    slots = SlotColumns(*(exact(column.tolist()) for column in (table.arena, table.bytes, table.alignment)))
    columns, of = run.columns, table.of.astype(np.int64)
    alignments = slots.alignment[of]
    unfit = (slots.arena[of] != columns.arena) | (columns.bytes > slots.bytes[of]) | (columns.alignment > alignments)
    unfit |= exact([arena.alignment for arena in run.arenas])[slots.arena[of]] > alignments
    no_power = ~powers_of_two(alignments)
    askew = addressed & (columns.offset % np.maximum(1, alignments) != 0)
    for k in np.flatnonzero(unfit | no_power | askew).tolist():
        name, alignment = run.storage_names[k], alignments[k]
        if unfit[k]:
            text = f"the storage of {name} does not fit its slot in arena, bytes or alignment"
            yield Violation(Obligation.SLOT_COUNT, text, (name,))
        if no_power[k]:
            text = f"the slot of {name} has the alignment {alignment}: {NO_POWER}"
            yield Violation(Obligation.ALIGNMENT, text, (name,))
        elif askew[k]:
            text = f"{name} at {run.storages[k].offset} is not aligned as its slot, to {alignment}"
            yield Violation(Obligation.ALIGNMENT, text, (name,))
    if addressed:
        yield from _slots_apart(run, slots, of)
    reuse = np.array([arena.reuse for arena in run.arenas], np.bool_)[slots.arena]
    order = np.lexsort((columns.birth, of))
    a, b = order[:-1], order[1:]
    turns = (columns.death[a] < columns.birth[b]) & reuse[of[a]]
    if addressed:
        turns &= columns.offset[a] == columns.offset[b]
    wrong, _ = find_distinct(of[a][(of[a] == of[b]) & ~turns])
    bounds = zip(*(np.searchsorted(of[order], wrong, side).tolist() for side in ("left", "right")), strict=True)
    for members in sorted((order[lo:hi].tolist() for lo, hi in bounds), key=min):
        if not reuse[of[members[0]]]:
            names = tuple(run.storage_names[k] for k in members[:2])
            text = f"{names[0]} and {names[1]} have one slot of an arena that does not reuse"
            yield Violation(Obligation.SLOT_COUNT, text, names)
        for a, b in pairwise(members):
            s, t, names = run.storages[a], run.storages[b], (run.storage_names[a], run.storage_names[b])
            if t.birth <= s.death:
                text = f"{names[0]} and {names[1]} have one slot and are both live at step {t.birth}"
                first = max(s.offset, t.offset)
                last = max(first, min(s.offset + s.bytes, t.offset + t.bytes) - 1)
                broken = Obligation.NO_LIVE_OVERLAP if addressed else Obligation.SLOT_COUNT
                yield Violation(broken, text, names, t.birth, run.arenas[s.arena].name, first, last)
            if addressed and s.offset != t.offset:
                text = f"{names[0]} and {names[1]} have one slot at two offsets"
                yield Violation(Obligation.NO_LIVE_OVERLAP, text, names)
