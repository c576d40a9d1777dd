"""Lies about the model: a plan that is right in itself, or not, and not one of the model that is given with it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from tests.nightly.soak.lies.telling import Files, Lie, of_plan
from tests.nightly.soak.scenes import Scene
from tmmu.core.columns import NONE, Names
from tmmu.core.errors import TmmuError
from tmmu.core.vocabulary import Phase, Role, Shares
from tmmu.examples.broken.editing import changed
from tmmu.plan import file
from tmmu.plan.columns import IS_INPUT, IS_OUTPUT, IS_SAVED, ROLES, SHARES
from tmmu.plan.sections import Plan, amended
from tmmu.planner.training.expand import expand

PERSISTENT = (Role.PARAMETER, Role.OPTIMIZER)


def other_operation(plan: Plan, chance: random.Random) -> Plan | None:
    """A step is of another operation."""
    if not len(plan.allocation.steps):
        return None
    n = chance.randrange(len(plan.allocation.steps))
    others = [k for k in range(len(plan.allocation.ops)) if k != int(plan.allocation.steps.op[n])]
    ops = plan.allocation.ops if others else (*plan.allocation.ops, ("", "Sin"))
    return changed(amended(plan, ops=ops), "steps", n, op=chance.choice(others or [len(plan.allocation.ops)]))


def _other_entry(which: str) -> Callable[[Plan, random.Random], Plan | None]:
    def tell(plan: Plan, chance: random.Random) -> Plan | None:
        entries, t = getattr(plan.allocation.steps, which).tolist(), len(plan.allocation.tensors)
        if not entries or t < 2:
            return None
        k = chance.randrange(len(entries))
        return changed(plan, "steps", k, **{which: chance.choice([r for r in range(t) if r != entries[k]])})

    tell.__name__, tell.__doc__ = f"other_{which}", f"A step {which} another tensor."
    return tell


def other_node(plan: Plan, chance: random.Random) -> Plan | None:
    """A step is of a node that the model does not have."""
    names = plan.allocation.steps.node.list()
    if not names:
        return None
    n = chance.randrange(len(names))
    renamed = [f"{name}~" if k == n else name for k, name in enumerate(names)]
    return amended(plan, steps=replace(plan.allocation.steps, node=Names.of(renamed)))


def renamed(plan: Plan, chance: random.Random) -> Plan | None:
    """A tensor has a name that the model does not have."""
    names = plan.allocation.tensors.name.list()
    # What the user gives up must be there, or the command line is wrong.
    rows = [r for r, name in enumerate(names) if name not in plan.bindings.donated]
    if not rows:
        return None
    r = chance.choice(rows)
    others = [f"{name}~" if k == r else name for k, name in enumerate(names)]
    return amended(plan, tensors=replace(plan.allocation.tensors, name=Names.of(others)))


def other_size(plan: Plan, chance: random.Random) -> Plan | None:
    """A tensor has other bytes than in the model."""
    if not len(plan.allocation.tensors) or plan.envelope is not None:
        return None
    r = chance.randrange(len(plan.allocation.tensors))
    old = int(plan.allocation.tensors.bytes[r])
    return changed(plan, "tensors", r, bytes=chance.choice([n for n in range(old + 9) if n != old]))


def other_role(plan: Plan, chance: random.Random) -> Plan | None:
    """A tensor has another role."""
    if not len(plan.allocation.tensors):
        return None
    r = chance.randrange(len(plan.allocation.tensors))
    others = [k for k in range(len(ROLES)) if k != plan.allocation.tensors.role[r]]
    return changed(plan, "tensors", r, role=chance.choice(others))


def other_use(plan: Plan, chance: random.Random) -> Plan | None:
    """A tensor is an input, an output or saved, or is none, unlike in the model."""
    if not len(plan.allocation.tensors):
        return None
    r = chance.randrange(len(plan.allocation.tensors))
    kept = ROLES[int(plan.allocation.tensors.role[r])] in PERSISTENT  # of these the role says it
    bit = chance.choice((IS_OUTPUT, IS_SAVED) if kept else (IS_INPUT, IS_OUTPUT, IS_SAVED))
    return changed(plan, "tensors", r, flags=int(plan.allocation.tensors.flags[r]) ^ bit)


def claimed_view(plan: Plan, chance: random.Random) -> Plan | None:
    """A tensor is said to be a view that is none in the model, or of another base."""
    t = plan.allocation.tensors
    if len(t) < 2:
        return None
    r = chance.randrange(len(t))
    now = int(t.of[r]) if SHARES[int(t.shares[r])] is Shares.VIEW else NONE
    bases = [k for k in range(len(t)) if k not in (r, now)]
    return changed(plan, "tensors", r, shares=SHARES.index(Shares.VIEW), of=chance.choice(bases)) if bases else None


def other_conflict(plan: Plan, chance: random.Random) -> Plan | None:
    """A pair that must not alias is forgotten, or one that the model does not have is listed."""
    pairs, count = plan.allocation.must_not_alias, len(plan.allocation.tensors)
    if pairs and chance.random() < 0.5:
        gone = frozenset(chance.choice(pairs))
        return amended(plan, must_not_alias=tuple(pair for pair in pairs if frozenset(pair) != gone))
    known = {frozenset(pair) for pair in pairs}
    free = [(a, b) for a in range(count) for b in range(a) if frozenset((a, b)) not in known]
    return amended(plan, must_not_alias=(*pairs, chance.choice(free))) if free else None


def other_records(plan: Plan, chance: random.Random) -> Plan | None:
    """What is unproduced, the model file's digest, or a binding is another."""
    how = chance.randrange(4)
    if how == 0:
        return amended(
            plan,
            unproduced=()
            if plan.allocation.unproduced and chance.random() < 0.5
            else (*plan.allocation.unproduced, "mark"),
        )
    if how == 1:
        # Without a digest in the model any is as good as none.
        return None if plan.origin.source_digest is None else amended(plan, source_digest=chance.randbytes(32))
    if how == 2:
        dims = dict(plan.bindings.dims)
        dims["batch"] = dims.get("batch", 0) + 1
        return amended(plan, bindings=replace(plan.bindings, dims=dims))
    return amended(plan, bindings=replace(plan.bindings, donated=(*plan.bindings.donated, "nobody")))


def weaker(plan: Plan, chance: random.Random) -> Plan | None:
    """A tensor is less aligned than the model asks."""
    rows = [r for r in range(len(plan.allocation.tensors)) if plan.allocation.tensors.alignment[r] > 1]
    if not rows:
        return None
    r = chance.choice(rows)
    least = int(plan.allocation.tensors.alignment[r])
    return changed(plan, "tensors", r, alignment=chance.choice((least // 2, 1, least + 1)))


WRONG_BESIDES = (
    other_operation, _other_entry("reads"), _other_entry("writes"), _other_entry("mutates"), other_node, renamed,
    other_size, other_role, other_use, claimed_view, other_conflict, other_records, weaker,
)  # fmt: skip
"""What is wrong with a plan that is not one of the model."""


def wrong_besides(scene: Scene, chance: random.Random) -> bytes:
    """The file of a plan that is right, or not: whoever cannot read or expand the model says so first."""
    return file.encode(_wrong(scene, chance)) if chance.random() < 0.75 else scene.plan_files[0]


def _wrong(scene: Scene, chance: random.Random) -> Plan:
    """The plan with one thing wrong, or as it is where that cannot be."""
    return chance.choice(WRONG_BESIDES)(scene.plan, chance) or scene.plan


def no_gradient(scene: Scene, chance: random.Random) -> Files | None:
    """A plan, of which something else is wrong besides, is said to be of mode `backward`: the model has no gradient."""
    model = scene.model
    if scene.plan.origin.mode == "backward" or not model.nodes or any(n.phase is Phase.BACKWARD for n in model.nodes):
        return None
    try:
        expand(model)
    except TmmuError as error:
        if error.code_id == "MODE_VIOLATION":
            return Files((file.encode(amended(_wrong(scene, chance), mode="backward")),))
    return None


LIES = (
    *(Lie("steps_are_the_model", tell.__name__, of_plan(tell), with_model=True) for tell in WRONG_BESIDES),
    Lie("MODE_VIOLATION", "no_gradient", no_gradient, with_model=True),
)
