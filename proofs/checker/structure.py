"""Do the steps of a plan hang together, model or no model: writers, roles, bodies, scopes, alias conflicts, slots?

The checker runs steps one after the other; here is what makes that list a program. The plan's `writer` is the step
that writes, what no step writes is the caller's, the bodies of a node lie between its enter and its leave, and a
value leaves a body only through the leave of the node that owns it.
spec: T5.1, T8.1, T8.2, T8.9, T8.10, T8.11, T8.12, T8.13, X4.1, X4.2, X4.3, X4.4, I1.9, A1.2,
V2.3
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from proofs.checker import arenas as homes
from proofs.checker.execute import NO_POWER, Problem, power_of_two
from proofs.checker.layouts import BY_SLOTS
from proofs.checker.program import Program
from proofs.readers.arms import declared
from proofs.readers.operators import iterates, qualified
from tmmu.core.columns import NONE
from tmmu.core.vocabulary import MAIN, Part, Role
from tmmu.plan.columns import IS_INPUT, PARTS, ROLES, Plan

CALLERS = tuple(ROLES.index(role) for role in (Role.INPUT, Role.PARAMETER, Role.OPTIMIZER))


def problems(plan: Plan, run: Program) -> Iterator[Problem]:
    """Everything that does not hang together. O(plan x depth of bodies)."""
    yield from written(plan, run)
    yield from nested(plan, run)
    yield from copied(plan, run)
    yield from kept_apart(plan, run)
    yield from homes.problems(plan, run)
    yield from slotted(plan, run)


def _problem(obligation: str, tensors: tuple[str, ...], step: int | None, text: str) -> Problem:
    return Problem(obligation, tensors, step, "", None, None, text)


def _misnested(run: Program, step: int, text: str) -> Problem:
    """A step that stands wrong, known to people by the first tensor that it writes and the first that it reads."""
    if step >= len(run.steps):
        return _problem("bodies_nest", (), None, text)
    first = (*run.steps[step].writes[:1], *run.steps[step].reads[:1])
    return _problem("bodies_nest", tuple(run.tensors[t].name for t in first), step, text)


def written(plan: Plan, run: Program) -> Iterator[Problem]:
    """Each tensor's writer is the first step that lists it; the caller's tensors have its roles and are born at 0."""
    first: dict[int, int] = {}
    for n, writes in enumerate(plan.steps.listed("writes")):
        for t in writes:
            if run.tensors[t].writer is not None:
                first.setdefault(t, n)
    for n, (writes, mutates) in enumerate(zip(plan.steps.listed("writes"), plan.steps.listed("mutates"), strict=True)):
        for t in mutates:
            if t not in writes or t not in run.steps[n].reads:
                yield _problem(
                    "lifetimes_cover_accesses",
                    (run.tensors[t].name,),
                    n,
                    f"{run.at(n)} mutates {run.tensors[t].name} without reading and writing it",
                )
        for t in writes:
            if run.tensors[t].writer is None and t not in mutates:
                yield _problem(
                    "lifetimes_cover_accesses",
                    (run.tensors[t].name,),
                    n,
                    f"{run.at(n)} writes {run.tensors[t].name}, which the plan says no step writes",
                )
    roles, flags = plan.tensors.role.tolist(), plan.tensors.flags.tolist()
    for i, tensor in enumerate(run.tensors):
        name, writer = tensor.name, tensor.writer
        if first.get(i) != writer:  # what the caller writes is in neither
            found = f"step {first[i]}" if i in first else "no step"
            text = f"{name} is said to be written by step {writer}; {found} writes it"
            yield _problem("lifetimes_cover_accesses", (name,), writer, text)
        if (roles[i] in CALLERS) != (writer is None) or (flags[i] & IS_INPUT and writer is not None):
            who = "the caller" if writer is None else "a step"
            text = f"{name} has the role {ROLES[roles[i]]}, but {who} writes it"
            yield _problem("lifetimes_cover_accesses", (name,), writer, text)
        if writer is None and tensor.birth != 0:
            text = f"{name} is written by the caller before step 0, but born at step {tensor.birth}"
            yield _problem("lifetimes_cover_accesses", (name,), 0, text)


def nested(plan: Plan, run: Program) -> Iterator[Problem]:
    """Bodies are closed ranges of steps inside their node's enter and leave, and keep their values to themselves."""
    bodies, steps = plan.bodies, plan.steps
    part, body, nodes = [PARTS[p] for p in steps.part.tolist()], steps.body.tolist(), run.nodes
    parent, enter, leave = bodies.parent.tolist(), bodies.enter.tolist(), bodies.leave.tolist()
    owned: dict[int, list[int]] = {}
    exclusive = declared(plan)
    for b in range(1, len(bodies)):
        e, v = enter[b], leave[b]
        if (
            v == NONE
            or not e < v  # a missing enter is above every step
            or (part[e], part[v]) != (Part.ENTER, Part.LEAVE)
            or nodes[e] != nodes[v]
            or steps.op[e] != steps.op[v]
        ):
            text = f"body {bodies.name[b]!r} does not lie between the enter and the leave of one node"
            yield _misnested(run, e, text)
            return
        if body[e] != parent[b] or body[v] != parent[b] or parent[b] >= b:
            yield _misnested(run, e, f"body {bodies.name[b]!r} stands in another body than its node")
            return
        domain, op = plan.ops[steps.op[e]]
        if bool(bodies.exclusive[b]) and (e not in exclusive or iterates(domain, op, exclusive=True)):
            but = f"{qualified(domain, op)} iterates" if e in exclusive else "another body of its node is not"
            yield _misnested(run, e, f"body {bodies.name[b]!r} is declared exclusive, but {but}")
        if bool(bodies.iterates[b]) != (again := iterates(domain, op, e in exclusive)):
            can, word = ("can", "once") if again else ("cannot", "again")
            text = f"body {bodies.name[b]!r} is said to run {word}, but {qualified(domain, op)} {can} run it again"
            yield _misnested(run, e, text)
        if not str(bodies.name[b]).startswith(f"{nodes[e]}/"):
            yield _misnested(run, e, f"body {bodies.name[b]!r} is not named after its node {nodes[e]!r}")
        owned.setdefault(e, []).append(b)
    # Walk the steps with a stack of open nodes: which body may the next step stand in?
    open_nodes: list[tuple[int, list[int]]] = []  # (enter step, bodies of it that may still come)
    for n, (p, b) in enumerate(zip(part, body, strict=True)):
        if p is Part.LEAVE:
            if not open_nodes or leave[owned[open_nodes[-1][0]][0]] != n:
                yield _misnested(run, n, f"{run.at(n)} leaves a node that it did not enter")
                return
            open_nodes.pop()
            continue
        if open_nodes:
            allowed = open_nodes[-1][1]
            while allowed and allowed[0] != b:
                del allowed[0]  # the bodies of one node come one after the other
            inside = bool(allowed)
        else:
            inside = b == MAIN
        if not inside:
            yield _misnested(run, n, f"{run.at(n)} stands in body {bodies.name[b]!r}, which is not open there")
            return
        if p is Part.ENTER:
            if n not in owned:
                yield _misnested(run, n, f"{run.at(n)} enters a node without bodies")
                return
            open_nodes.append((n, list(owned[n])))
    # Nothing is open any more: the leave of every enter that passed is a later step, and was met.
    yield from _scoped(plan, run, part, body, parent, enter, leave)


def _scoped(
    plan: Plan, run: Program, part: list[Part], body: list[int], parent: list[int], enter: list[int], leave: list[int]
) -> Iterator[Problem]:
    """A tensor written inside a body is read there, in bodies inside it, or by the leave of the node that owns it."""
    if len(parent) == 1:
        return
    formal_bodies: dict[int, list[int]] = {}
    for b in range(1, len(parent)):
        formal_bodies.setdefault(enter[b], []).append(b)
    shared = _written_in_arms(plan, run)
    for t, bodies in shared.items():
        if any(not plan.bodies.exclusive[b] for b in bodies):
            text = f"{run.tensors[t].name} is written by two steps, not each in an exclusive arm"
            yield _problem("bodies_nest", (run.tensors[t].name,), run.tensors[t].writer, text)
        for arms in reversed(formal_bodies.values()):  # inner nodes first
            if bodies.issuperset(arms):
                bodies.add(parent[arms[0]])
    reads = plan.steps.listed("reads")
    for n, listed in enumerate(reads):
        around, b = {body[n]}, body[n]
        while b != MAIN:
            b = parent[b]
            around.add(b)
        for r in listed:
            w = run.tensors[r].writer
            if w is None:
                continue
            # What an enter writes belongs to the bodies of its node (a scratch of the node is read by itself).
            homes = shared.get(r) or (formal_bodies[w] if part[w] is Part.ENTER else [body[w]])
            owner_leaves = [leave[h] for h in homes if h != MAIN]
            if not any(h in around for h in homes) and n not in owner_leaves and n != w:
                yield _problem(
                    "bodies_nest",
                    (run.tensors[r].name,),
                    n,
                    f"{run.at(n)} reads {run.tensors[r].name} from inside another body",
                )


def _written_in_arms(plan: Plan, run: Program) -> dict[int, set[int]]:
    """The bodies in which each tensor is written that several steps write without changing it. spec: X4.3"""
    found: dict[int, list[int]] = {}
    for body, writes, step in zip(plan.steps.body.tolist(), plan.steps.listed("writes"), run.steps, strict=True):
        for t in dict.fromkeys(writes):
            if t not in step.mutates and run.tensors[t].writer is not None:
                found.setdefault(t, []).append(body)
    return {t: set(bodies) for t, bodies in found.items() if len(bodies) > 1}


def copied(plan: Plan, run: Program) -> Iterator[Problem]:
    """What a leave returns of a formal input or of a value from outside, it first copies to as many bytes."""
    reads, writes, scratch = plan.steps.listed("reads"), plan.steps.listed("writes"), ROLES.index(Role.SCRATCH)
    ranges = zip(plan.bodies.enter.tolist(), plan.bodies.leave.tolist(), strict=True)
    for enter, leave in sorted(set(ranges)):
        if enter == NONE or leave == NONE:
            continue
        for r, following in pairwise((*reads[leave], None)):
            made = run.tensors[r].writer
            if (made is None or made <= enter) and plan.tensors.role[r] != scratch and following not in writes[leave]:
                text = f"{run.at(leave)} returns {run.tensors[r].name}, which its body did not make, without a copy"
                yield _problem("bodies_nest", (run.tensors[r].name,), leave, text)
            if following in writes[leave] and r not in writes[leave] and following is not None:
                value, copy = run.tensors[r], run.tensors[following]
                if (value.bytes, plan.tensors.dtype[r]) != (copy.bytes, plan.tensors.dtype[following]):
                    text = f"{run.at(leave)} copies {value.name} to {copy.name}, which has another size or element type"
                    yield _problem("bodies_nest", (value.name, copy.name), leave, text)


def kept_apart(plan: Plan, run: Program) -> Iterator[Problem]:
    """Tensors that must not alias share no byte of an arena, at any step."""
    for a, b in plan.must_not_alias:
        s, t = (run.storages[run.tensors[x].storage] for x in (a, b))
        first, end = max(s.offset, t.offset), min(s.offset + s.bytes, t.offset + t.bytes)
        if s.arena == t.arena and first < end:
            names = (run.tensors[a].name, run.tensors[b].name)
            text = f"{names[0]} and {names[1]} must not alias, but their storages share bytes"
            yield Problem("must_not_alias", names, None, run.arenas[s.arena].name, first, end - 1, text)


def _slots_apart(
    plan: Plan, run: Program, slots: list[tuple[int, int, int]], tenants: dict[int, list[int]]
) -> Iterator[Problem]:
    """Where slots have addresses of their own, no byte of an arena is in two slots, whoever lives there."""
    if plan.layout not in BY_SLOTS:
        return
    placed = sorted((slots[slot][0], run.storages[members[0]].offset, slot) for slot, members in tenants.items())
    for (arena, first, slot), (other_arena, start, other) in pairwise(placed):
        end = first + slots[slot][1]
        if arena == other_arena and start < end:
            names = (run.storage_names[tenants[slot][0]], run.storage_names[tenants[other][0]])
            text = f"the slots of {names[0]} and {names[1]} have bytes in common"
            yield Problem("no_live_overlap", names, None, run.arenas[arena].name, start, end - 1, text)


def slotted(plan: Plan, run: Program) -> Iterator[Problem]:
    """A storage fits its slot, lies in its arena and takes turns in it; in layout `slots` all tenants start alike."""
    slots = list(zip(plan.slots.arena.tolist(), plan.slots.bytes.tolist(), plan.slots.alignment.tolist(), strict=True))
    tenants: dict[int, list[int]] = {}
    for k, s in enumerate(run.storages):
        arena, size, alignment = slots[s.slot]
        name = run.storage_names[k]
        if arena != s.arena or s.bytes > size or s.alignment > alignment or run.arenas[arena].alignment > alignment:
            yield _problem(
                "slot_count", (name,), None, f"the storage of {name} does not fit its slot in arena, bytes or alignment"
            )
        if not power_of_two(alignment):
            yield _problem("alignment", (name,), None, f"the slot of {name} has the alignment {alignment}: {NO_POWER}")
        elif plan.layout in BY_SLOTS and s.offset % alignment:
            text = f"{name} at {s.offset} is not aligned as its slot, to {alignment}"
            yield _problem("alignment", (name,), None, text)
        tenants.setdefault(s.slot, []).append(k)
    yield from _slots_apart(plan, run, slots, tenants)
    for slot, members in tenants.items():
        members.sort(key=lambda k: run.storages[k].birth)
        if len(members) > 1 and not plan.arenas[slots[slot][0]].reuse:
            names = tuple(run.storage_names[k] for k in members[:2])
            text = f"{names[0]} and {names[1]} have one slot of an arena that does not reuse"
            yield _problem("slot_count", names, None, text)
        for a, b in pairwise(members):
            s, t = run.storages[a], run.storages[b]
            if t.birth <= s.death:
                names = (run.storage_names[a], run.storage_names[b])
                text = f"{names[0]} and {names[1]} have one slot and are both live at step {t.birth}"
                first, last = (
                    max(s.offset, t.offset),
                    max(s.offset, t.offset, min(s.offset + s.bytes, t.offset + t.bytes) - 1),
                )
                broken = "no_live_overlap" if plan.layout in BY_SLOTS else "slot_count"
                yield Problem(broken, names, t.birth, run.arenas[s.arena].name, first, last, text)
            if plan.layout in BY_SLOTS and s.offset != t.offset:
                names = (run.storage_names[a], run.storage_names[b])
                yield _problem(
                    "no_live_overlap", names, None, f"{names[0]} and {names[1]} have one slot at two offsets"
                )
