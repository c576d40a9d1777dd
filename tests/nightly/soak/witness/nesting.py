"""Do the bodies of a plan nest? Steps are parsed: a node with bodies is its enter, its bodies, its leave."""

from __future__ import annotations

from collections.abc import Iterator

from tmmu.core.columns import NONE
from tmmu.core.vocabulary import MAIN, NodePart, Role
from tmmu.plans.columns import PARTS, ROLES
from tmmu.plans.sections import Plan


class _Bad(Exception):
    """The steps are no sentence of the language."""


def badly_nested(plan: Plan) -> bool:
    """Whether a body, a step or an access of the plan is not where it must be."""
    try:
        if _sequence(plan, 0, MAIN, 0) != len(plan.allocation.steps):
            return True
    except _Bad:
        return True
    return any(_odd_bodies(plan)) or any(_odd_reads(plan)) or any(_uncopied(plan))


def _part(plan: Plan, n: int) -> NodePart:
    return PARTS[int(plan.allocation.steps.part[n])]


def _sequence(plan: Plan, n: int, body: int, depth: int) -> int:
    """The first step behind those of a body that begin at step `n`."""
    if depth > 100:
        raise _Bad
    node, op = plan.allocation.steps.node.list(), plan.allocation.steps.op.tolist()
    while (
        n < len(plan.allocation.steps)
        and plan.allocation.steps.body[n] == body
        and _part(plan, n) is not NodePart.LEAVE
    ):
        if _part(plan, n) is NodePart.WHOLE:
            n += 1
            continue
        enter, owned = n, [b for b in range(1, len(plan.allocation.bodies)) if plan.allocation.bodies.enter[b] == n]
        if not owned:
            raise _Bad
        n += 1
        for b in owned:
            n = _sequence(plan, n, b, depth + 1)
        if (
            n >= len(plan.allocation.steps)
            or _part(plan, n) is not NodePart.LEAVE
            or plan.allocation.steps.body[n] != body
        ):
            raise _Bad
        if (node[n], op[n]) != (node[enter], op[enter]) or any(plan.allocation.bodies.leave[b] != n for b in owned):
            raise _Bad
        n += 1
    return n


def _odd_bodies(plan: Plan) -> Iterator[bool]:
    """Of each body: entered or left nowhere or by another step, in another body than it says, or named otherwise."""
    b, node = plan.allocation.bodies, plan.allocation.steps.node.list()
    for k in range(1, len(b)):
        enter = int(b.enter[k])
        for end, part in ((enter, NodePart.ENTER), (int(b.leave[k]), NodePart.LEAVE)):
            yield end == NONE or _part(plan, end) is not part
        if enter != NONE:
            yield int(b.parent[k]) != int(plan.allocation.steps.body[enter]) or int(b.parent[k]) >= k
            yield not b.name[k].startswith(f"{node[enter]}/")
            yield bool(b.iterates[k]) == (
                plan.allocation.ops[int(plan.allocation.steps.op[enter])][1] == "If"
            )  # others may run again


def _around(plan: Plan, body: int) -> set[int]:
    """A body and those that it stands in."""
    found = {body}
    while body != MAIN and int(plan.allocation.bodies.parent[body]) not in found:
        body = int(plan.allocation.bodies.parent[body])
        if body == NONE:
            break
        found.add(body)
    return found


def _odd_reads(plan: Plan) -> Iterator[bool]:
    """Of each read: is what is read made in a body that is neither around the step nor left by it?"""
    b = plan.allocation.bodies
    for n, row in enumerate(plan.allocation.steps.listed("reads")):
        for r in row:
            w = int(plan.allocation.tensors.writer[r])
            if w in (NONE, n):
                continue
            if _part(plan, w) is NodePart.ENTER:
                homes = [k for k in range(1, len(b)) if b.enter[k] == w]
            else:
                homes = [int(plan.allocation.steps.body[w])]
            left = [int(b.leave[k]) for k in homes if k != MAIN]
            yield not set(homes) & _around(plan, int(plan.allocation.steps.body[n])) and n not in left


def _uncopied(plan: Plan) -> Iterator[bool]:
    """Of each value that a leave returns: is it from outside and has no copy, or one of another size or type?"""
    t, reads, writes = (
        plan.allocation.tensors,
        plan.allocation.steps.listed("reads"),
        plan.allocation.steps.listed("writes"),
    )
    for enter, leave in {
        (int(e), int(v)) for e, v in zip(plan.allocation.bodies.enter, plan.allocation.bodies.leave, strict=True)
    }:
        if enter == NONE or leave == NONE:
            continue
        row = reads[leave]
        for k, r in enumerate(row):
            after = row[k + 1] if k + 1 < len(row) else None
            copy = after if after is not None and after in writes[leave] else None
            outside = t.writer[r] == NONE or t.writer[r] <= enter
            if copy is None:
                yield bool(outside) and ROLES[int(t.role[r])] is not Role.SCRATCH
            elif r not in writes[leave]:
                yield bool(t.bytes[r] != t.bytes[copy] or t.dtype[r] != t.dtype[copy])
