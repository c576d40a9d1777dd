"""Faults in bodies: their ends, their steps, and the values that leave them."""

from __future__ import annotations

import random
from dataclasses import replace

from tmmu.core.columns import NONE, Names
from tmmu.core.vocabulary import MAIN, NodePart, Role
from tmmu.examples.broken.editing import changed
from tmmu.plans.columns import PARTS
from tmmu.plans.sections import Plan, amend_plan
from tmmu.testing.catalogue.fault import fault, require, some
from tmmu.testing.catalogue.reading import role


def _body(plan: Plan, chance: random.Random) -> int:
    """Return a random body that a step enters."""
    enter = plan.allocation.bodies.enter
    return some(chance, [b for b in range(1, len(enter)) if enter[b] != NONE])


@fault("bodies_nest")
def other_end(plan: Plan, chance: random.Random) -> Plan:
    """A body is stated to be entered or left at another step, or at none."""
    b, end = _body(plan, chance), chance.choice(("enter", "leave"))
    now = getattr(plan.allocation.bodies, end)[b]
    others = [n for n in (*range(len(plan.allocation.steps)), NONE) if n != now]
    return changed(plan, "bodies", b, **{end: chance.choice(others)})


@fault("bodies_nest")
def other_parent(plan: Plan, chance: random.Random) -> Plan:
    """A body is stated to be in another one, or in none."""
    b, bodies = _body(plan, chance), plan.allocation.bodies
    return changed(
        plan, "bodies", b, parent=chance.choice([p for p in (*range(len(bodies)), NONE) if p != bodies.parent[b]])
    )


@fault("bodies_nest")
def misnamed(plan: Plan, chance: random.Random) -> Plan:
    """A body is not named after its node."""
    b, names = _body(plan, chance), [*plan.allocation.bodies.name]
    names[b] = chance.choice(("else", "z/", f"{names[b]}x", "n"))
    node = plan.allocation.steps.node[int(plan.allocation.bodies.enter[b])]
    require(not names[b].startswith(f"{node}/") and len(set(names)) == len(names))
    return amend_plan(plan, bodies=replace(plan.allocation.bodies, name=Names.of(names)))


@fault("bodies_nest")
def other_body(plan: Plan, chance: random.Random) -> Plan:
    """A step is stated to be in a body that is not open there."""
    body, b = plan.allocation.steps.body, plan.allocation.bodies
    n, other = some(chance, [
        (n, k) for n in range(len(body)) for k in range(1, len(b))
        if k != body[n] and not int(b.enter[k]) < n < int(b.leave[k])
    ])  # fmt: skip
    return changed(plan, "steps", n, body=other)


@fault("bodies_nest")
def other_part(plan: Plan, chance: random.Random) -> Plan:
    """A whole step is stated to enter or leave a node, or an enter or leave to be whole."""
    nodes, parts = plan.allocation.steps.node.list(), plan.allocation.steps.part.tolist()
    require(nodes)
    n = chance.randrange(len(nodes))
    free = [k for k in range(len(PARTS)) if k != parts[n] and (nodes[n], k) not in zip(nodes, parts, strict=True)]
    return changed(plan, "steps", n, part=some(chance, free))


@fault("bodies_nest")
def other_iteration(plan: Plan, chance: random.Random) -> Plan:
    """A body that runs once is stated to run again, or the other way round."""
    b = _body(plan, chance)
    return changed(plan, "bodies", b, iterates=1 - int(plan.allocation.bodies.iterates[b]))


@fault("bodies_nest")
def read_from_outside(plan: Plan, chance: random.Random) -> Plan:
    """A step reads a tensor of a body that it is not in."""
    t, steps, bodies = plan.allocation.tensors, plan.allocation.steps, plan.allocation.bodies
    body, part, parent = steps.body.tolist(), steps.part.tolist(), bodies.parent.tolist()
    found = []
    entry = 0
    for n, row in enumerate(steps.listed("reads")):
        around = {b := body[n]}
        while b != MAIN:
            around.add(b := parent[b])
        made = [
            r for r, w in enumerate(t.writer.tolist())
            if w != NONE and w < n and PARTS[part[w]] is NodePart.WHOLE and body[w] not in around
            and role(plan, r) is not Role.SCRATCH and int(bodies.leave[body[w]]) != n
        ]  # fmt: skip
        for _ in row:
            found += [(entry, r) for r in made]
            entry += 1
    k, r = some(chance, found)
    return changed(plan, "steps", k, reads=r)
