"""Lies about bodies: where they begin and end, which step stands in which, what leaves them."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.nightly.soak.lies.telling import Lie, of_plan
from tests.support.small import changed
from tmmu.core.columns import NONE, Names
from tmmu.core.vocabulary import MAIN, NodePart, Role
from tmmu.plan.columns import PARTS, ROLES
from tmmu.plan.sections import Plan, amended


def _owned(plan: Plan) -> list[int]:
    return [b for b in range(1, len(plan.allocation.bodies)) if plan.allocation.bodies.enter[b] != NONE]


def other_end(plan: Plan, chance: random.Random) -> Plan | None:
    """A body is said to be entered or left at another step, or at none."""
    if not (owned := _owned(plan)):
        return None
    b, end = chance.choice(owned), chance.choice(("enter", "leave"))
    others = [n for n in (*range(len(plan.allocation.steps)), NONE) if n != getattr(plan.allocation.bodies, end)[b]]
    return changed(plan, "bodies", b, **{end: chance.choice(others)})


def other_parent(plan: Plan, chance: random.Random) -> Plan | None:
    """A body is said to stand in another one, or in none."""
    if not (owned := _owned(plan)):
        return None
    b = chance.choice(owned)
    others = [p for p in (*range(len(plan.allocation.bodies)), NONE) if p != plan.allocation.bodies.parent[b]]
    return changed(plan, "bodies", b, parent=chance.choice(others))


def misnamed(plan: Plan, chance: random.Random) -> Plan | None:
    """A body is not named after its node."""
    if not (owned := _owned(plan)):
        return None
    b, names = chance.choice(owned), plan.allocation.bodies.name.list()
    renamed = [chance.choice(("else", "z/", f"{name}x", "n")) if k == b else name for k, name in enumerate(names)]
    node = plan.allocation.steps.node.list()[int(plan.allocation.bodies.enter[b])]
    if renamed[b].startswith(f"{node}/") or len(set(renamed)) < len(renamed):
        return None
    return amended(plan, bodies=replace(plan.allocation.bodies, name=Names.of(renamed)))


def other_body(plan: Plan, chance: random.Random) -> Plan | None:
    """A step is said to stand in a body that is not open there."""
    open_at = _open(plan)
    found = [
        (n, b) for n in range(len(plan.allocation.steps)) for b in range(len(plan.allocation.bodies))
        if b != plan.allocation.steps.body[n] and b not in open_at[n]
    ]  # fmt: skip
    if not found:
        return None
    n, b = chance.choice(found)
    return changed(plan, "steps", n, body=b)


def _open(plan: Plan) -> list[set[int]]:
    """The bodies whose ranges each step lies in, the main graph among them."""
    b = plan.allocation.bodies
    return [
        {MAIN} | {k for k in range(1, len(b)) if int(b.enter[k]) < n < int(b.leave[k])}
        for n in range(len(plan.allocation.steps))
    ]


def other_part(plan: Plan, chance: random.Random) -> Plan | None:
    """A whole step is said to enter or leave a node, or an enter or leave to be whole."""
    if not len(plan.allocation.steps):
        return None
    n = chance.randrange(len(plan.allocation.steps))
    nodes, parts = plan.allocation.steps.node.list(), plan.allocation.steps.part.tolist()
    free = [k for k in range(len(PARTS)) if k != parts[n] and (nodes[n], k) not in zip(nodes, parts, strict=True)]
    return changed(plan, "steps", n, part=chance.choice(free)) if free else None


def other_iteration(plan: Plan, chance: random.Random) -> Plan | None:
    """A body that runs once is said to run again, or the other way round."""
    if not (owned := _owned(plan)):
        return None
    b = chance.choice(owned)
    return changed(plan, "bodies", b, iterates=1 - int(plan.allocation.bodies.iterates[b]))


def read_from_outside(plan: Plan, chance: random.Random) -> Plan | None:
    """A step reads what is made in a body that it does not stand in."""
    t, body, part = plan.allocation.tensors, plan.allocation.steps.body.tolist(), plan.allocation.steps.part.tolist()
    parent = plan.allocation.bodies.parent.tolist()
    found = []
    entry = 0
    for n, row in enumerate(plan.allocation.steps.listed("reads")):
        around = {body[n]}
        b = body[n]
        while b != MAIN:
            b = parent[b]
            around.add(b)
        for _ in row:
            for r in range(len(t)):
                w = int(t.writer[r])
                if w == NONE or PARTS[part[w]] is not NodePart.WHOLE or body[w] in around or w >= n:
                    continue
                if ROLES[int(t.role[r])] is not Role.SCRATCH and int(plan.allocation.bodies.leave[body[w]]) != n:
                    found.append((entry, r))
            entry += 1
    if not found:
        return None
    k, r = chance.choice(found)
    return changed(plan, "steps", k, reads=r)


LIES = tuple(
    Lie("bodies_nest", tell.__name__, of_plan(tell))
    for tell in (other_end, other_parent, misnamed, other_body, other_part, other_iteration, read_from_outside)
)
